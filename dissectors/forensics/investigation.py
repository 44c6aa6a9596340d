"""All checksums of a set of captures: counted in one pass, the bad ones looked into in a second one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dissectors.checksum import shown
from dissectors.engine import Batches
from dissectors.findings import SUSPICIOUS
from dissectors.forensics.cases import Case, examine
from dissectors.forensics.oddities import oddities
from dissectors.forensics.packets import Wanted, gather
from dissectors.forensics.refused import Refusal, refusals
from dissectors.forensics.related import KEYS, SIGHTING, Relations, Surroundings, is_reaction
from dissectors.options import Options
from dissectors.redaction import public_path
from dissectors.rows.sink import Suspect
from dissectors.run import Run
from dissectors.tcp.chunk import CLIENT
from dissectors.wire.codec_sums import counting

SIGHTINGS = 2_000_000  # rows of `batches` remembered to find other sightings in
TROUBLES = 1000  # findings remembered
CONNECTION = ("site", "connection", "incarnation")


class Investigation:
    """All checksums of a set of captures.

    `run` reads everything once and counts verdicts; `cases` looks into the bad ones, which reads the files of their
    capture points once more.
    """

    def __init__(
        self,
        paths: Sequence[str],
        options: Options,
        progress: Callable[[int], None] | None = None,
        *,
        choose: Callable[[Batches], Batches] | None = None,
    ) -> None:
        """choose: of the rows that were decoded, those that count; findings then follow the connections of batches."""
        self.options = options._replace(tables=("batches", "errors", "findings"))
        self.reader = Run(paths, self.options, progress)
        self.reader.suspects = []
        self.verdicts: Counter[tuple[str, str, str]] = Counter()  # (protocol, kind, verdict)
        self.table: Counter[tuple[str, ...]] = Counter()  # (protocol, topic, client, server, role, verdict)
        self.inner: Counter[tuple[str, str]] = Counter()  # (checksum of a codec, verdict)
        self.bad: list[dict[str, Any]] = []
        self.troubles: list[dict[str, Any]] = []
        self._sightings: list[pa.RecordBatch] = []
        self._seen = 0
        self._reactions: list[dict[str, Any]] = []
        self._choose = choose
        self._discarded: list[dict[str, Any]] = []

    def run(self) -> None:
        """The first pass."""
        with counting() as self.inner:
            rows = self.reader.records()
            for table, batch in rows if self._choose is None else self._choose(rows):
                {"batches": self._batches, "errors": self._errors, "findings": self._findings}[table](batch)
        if self._choose is not None:
            met = {key for batch in self._sightings for key in zip(*_connection(batch), strict=True)}
            self.troubles = [row for row in self.troubles if tuple(row[name] for name in CONNECTION) in met]
        self.inner.update(self.reader.sums)

    def _batches(self, batch: pa.RecordBatch) -> None:
        columns = ("protocol", "checksum_kind", "verdict", "topic", "client_ip", "server_ip", "role")
        for protocol, kind, verdict, *rest in zip(*(batch.column(c).to_pylist() for c in columns), strict=True):
            self.verdicts[protocol or "", kind or "none", verdict or "absent"] += 1
            self.table[(protocol or "", *(value or "" for value in rest), verdict or "absent")] += 1
        self.bad += batch.filter(pc.equal(batch.column("verdict"), "bad")).to_pylist()
        if self._seen < SIGHTINGS:
            self._seen += batch.num_rows
            self._sightings.append(batch.select(list(SIGHTING)))

    def _errors(self, batch: pa.RecordBatch) -> None:
        wanted = [i for i, name in enumerate(batch.column("name").to_pylist()) if is_reaction(name)]
        self._reactions += batch.take(wanted).to_pylist() if wanted else []

    def _findings(self, batch: pa.RecordBatch) -> None:
        discarded = batch.filter(pc.equal(batch.column("kind"), "damaged_message"))
        self._discarded += discarded.slice(0, TROUBLES - len(self._discarded)).to_pylist()
        rows = batch.filter(pc.is_in(batch.column("kind"), pa.array(SUSPICIOUS)))
        self.troubles += rows.slice(0, TROUBLES - len(self.troubles)).to_pylist()

    def oddities(self) -> Iterator[str]:
        """What does not fit although the checksums are right, a sentence each, in order of time."""
        for finding in in_order(self.troubles):
            packet_ref = "" if finding["file"] is None else f" ({finding['file']} packet {finding['packet']})"
            yield f"{finding['kind']}: {finding['message']}{self._sealed(finding)}{packet_ref}"
        if self._sightings:
            yield from oddities(pa.Table.from_batches(self._sightings))

    def _sealed(self, finding: Mapping[str, Any]) -> str:
        """Of a batch that does not decompress: whether its own checksum is right, and what follows from that."""
        if finding["kind"] != "decompress_failed" or finding["stream_offset"] is None:
            return ""
        first, last = finding["stream_offset"], finding["stream_offset"] + (finding["length"] or 1)
        for batch in self._sightings:
            mine = pc.equal(batch.column("packet"), finding["packet"])
            for row in batch.filter(pc.fill_null(mine, False)).to_pylist():
                same = all(row[key] == finding[key] for key in ("site", "connection", "incarnation", "file"))
                if same and first <= row["stream_offset"] < last and row["verdict"] == "ok":
                    return "; its checksum is right, so it was broken before the producer computed that"
        return ""

    def refusals(self) -> Iterator[Refusal]:
        """What receivers called corrupt although its bytes fit here, in order of time."""
        if self._sightings:
            yield from refusals(pa.Table.from_batches(self._sightings), self._reactions, self._discarded)

    def cases(self) -> Iterator[Case]:
        """The second pass; in order of time."""
        if not self.bad:
            return
        sightings = pa.Table.from_batches(self._sightings) if self._sightings else None
        surroundings = Surroundings(sightings, self._reactions).ordered()
        files = self.reader.files
        names = [public_path(path) for path in files]
        pairs = [
            (row, suspect, surroundings.of(row) if suspect else Relations())
            for row, suspect in paired(self.bad, self.reader.suspects or ())
        ]
        wanted = [Wanted(suspect, near.witnesses) for _, suspect, near in pairs if suspect is not None]
        carriers = iter(gather(files, wanted, self.reader.options))
        for row, suspect, near in pairs:
            if suspect is None:
                yield Case(row)
            else:
                yield examine(row, suspect, next(carriers), near.rows, names)


def _connection(batch: pa.RecordBatch) -> list[list[Any]]:
    return [batch.column(name).to_pylist() for name in CONNECTION]


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `batches` or `findings` in the order in which they are shown."""

    def place(row: dict[str, Any]) -> tuple[bool, str, str, int, int]:
        return row["time"] is None, str(row["time"]), row["file"] or "", row["packet"] or 0, row["stream_offset"] or 0

    return sorted(rows, key=place)


def paired(bad: Sequence[dict[str, Any]], suspects: Sequence[Suspect]) -> list[tuple[dict[str, Any], Suspect | None]]:
    """Each bad row with the suspects that belong to it, in order; with None where a limit left none."""
    distinct = {
        (s.conn.site, s.conn.connection, s.conn.incarnation, s.direction, s.offset, s.checksum_at): s for s in suspects
    }.values()
    by_key: dict[tuple[Any, ...], list[Suspect]] = {}
    for suspect in distinct:
        conn = suspect.conn
        by_key.setdefault((conn.site, conn.connection, conn.incarnation, suspect.offset), []).append(suspect)
    out: list[tuple[dict[str, Any], Suspect | None]] = []
    for row in in_order(bad):
        mine = [s for s in by_key.get(tuple(row[k] for k in KEYS), ()) if _belongs(s, row)]
        out += [(row, suspect) for suspect in mine] or [(row, None)]
    return out


def _belongs(suspect: Suspect, row: Mapping[str, Any]) -> bool:
    """Both directions of a connection may have a unit at one offset."""
    if row["checksum_stored"] == shown(suspect.kind, suspect.stored):
        return True
    from_client = suspect.direction == CLIENT
    return row["format"] == suspect.format and (row["role"] == "produce") is from_client
