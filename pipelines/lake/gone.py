"""Captures that a lake has rows of and that cannot be read again: which these are, and how their rows are kept.

A lake is decoded anew where the release, its options or its keys changed, or where a late file needs captures that are
gone. Then the rows of captures that are gone stay as the last commit had them. The rows of captures that are there are
those of a run over these alone, but for `incarnation` and what is made of it, `exchange_id`: they count on from the
rows that stay, so that no two connections have one name.

A row is of the capture in which it begins: of an exchange that of the request, of a connection that of its first
packet. So a connection that began in a capture that is gone and went on in one that is there has two rows: the old one,
and one of the rest, with another incarnation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dissectors.capture.block import address_halves
from dissectors.findings import CAPTURES_GONE
from dissectors.options import Options
from dissectors.tcp.flow import Ends
from dissectors.tcp.keys import key_of, share_of
from dissectors.wording import first_of
from pipelines.formats.units import counted
from pipelines.storage import filesystem
from pipelines.storage.chosen_rows import CONNECTIONS, ChosenRows, time_column
from pipelines.storage.lake_files import Manifest, Staged
from pipelines.storage.layout import RECORD_FOLDER
from pipelines.storage.record_files import Written, may_be_of_site, schemas
from pipelines.storage.stages import File, Site

_ENDPOINTS = ["client_ip", "client_port", "server_ip", "server_port"]
_NAMED = 3  # captures that the finding names


class OfCaptures:
    """A rule for `ChosenRows`: the rows that begin in some captures stay.

    Files of one name follow each other (a ring of captures writes over the oldest): there a row's time tells which of
    them it is of.
    """

    def __init__(self, gone: Sequence[File], others: Iterable[File]) -> None:
        """gone: the captures whose rows stay; others: all that the lake knows beside these."""
        self._gone = pa.array(sorted({file.path for file in gone}), pa.string())
        paths = {file.path for file in gone}
        self._turns: dict[str, list[tuple[int, bool]]] = {}  # name -> (first time in us, whether it is gone), in order
        shared = [file for file in others if file.path in paths and file.packets]
        for name in {file.path for file in shared}:
            both = [(file, True) for file in gone if file.path == name]
            both += [(file, False) for file in shared if file.path == name]
            self._turns[name] = sorted(((file.first or 0) // 1000, is_gone) for file, is_gone in both)

    def of_file(self, file: Written) -> bool | None:
        """Unknown: a file of records holds rows of several captures."""
        return None

    def columns(self, table: str) -> Sequence[str]:
        """The captures of a row, and its time."""
        captures = ("request_file", "response_file") if table == "exchanges" else ("file",)
        return (*captures, time_column(table))

    def mask(self, table: str, rows: pa.Table) -> pa.ChunkedArray:
        """Whether each row is of a capture that is gone; null where it names none."""
        *captures, time = (rows.column(name) for name in self.columns(table))
        capture = pc.coalesce(*captures)
        kept = pc.if_else(pc.is_valid(capture), pc.is_in(capture, self._gone), pa.scalar(None, pa.bool_()))
        for name, turns in self._turns.items():
            since = [first for first, _ in turns]
            micros = pc.fill_null(time.cast(pa.int64()), since[0]).to_numpy()
            turn = np.maximum(np.searchsorted(since, micros, side="right") - 1, 0)
            is_gone = pa.array(np.array([is_gone for _, is_gone in turns])[turn])
            kept = pc.if_else(pc.fill_null(pc.equal(capture, name), False), is_gone, kept)
        return kept


@dataclass
class Replaced:
    """What a lake holds of captures that are decoded again, and of those that would be if they were there."""

    files: list[Written] = field(default_factory=list)
    gone: list[File] = field(default_factory=list)  # captures whose rows in these files stay
    others: list[File] = field(default_factory=list)

    @classmethod
    def of_all(cls, before: Manifest, gone: Sequence[File]) -> Replaced:
        """Take all rows of a lake as replaced, those of captures that were gone before too.

        gone: captures of the lake that cannot be read again.
        """
        out = cls([*before.kept])
        for site in (Site(before.gone), *before.sites.values()):
            out.add(site, gone)
        return out

    def add(self, site: Site, gone: Sequence[File]) -> None:
        """Add what it holds of a capture point."""
        for rows in site.rows():
            self.files += rows.records
            for waiting in rows.open:
                self.files += waiting.records
        ours = set(map(id, gone))
        self.gone += [file for file in site.files if id(file) in ours]
        self.others += [file for file in site.files if id(file) not in ours]


def keep(replaced: Replaced, lake: Staged, after: Manifest, options: Options) -> None:
    """Enter files with the rows of captures that are gone into the manifest."""
    if replaced.gone:
        rows = ChosenRows(OfCaptures(replaced.gone, replaced.others), lake.record, schemas(options))
        after.kept += rows.of(
            replaced.files, filesystem.join(lake.staging, RECORD_FOLDER), _connections(replaced.files)
        )


def kept_connections(after: Manifest, lake: Staged, points: Collection[str]) -> list[str]:
    """Files of the table `connections` with rows of captures that are gone, of one of these capture points or any."""
    files = _connections(after.kept)
    only = next(iter(points)) if len(points) == 1 else None
    return [lake.record(file) for file in files if only is None or may_be_of_site(file.path, only)]


def used(urls: Sequence[str], parts: int, part: int) -> Iterator[tuple[str, Ends, int]]:
    """(capture point, endpoints, incarnation): the last connection between each two endpoints in some files.

    Only of one of so many parts. What is decoded anew counts on from there: two connections never have the same name,
    nor two exchanges the same id.
    """
    if not urls:
        return
    key = ["site", *_ENDPOINTS]
    rows = _rows(urls, [*key, "incarnation"]).group_by(key).aggregate([("incarnation", "max")])
    for batch in rows.to_batches():
        columns = map(pa.Array.to_pylist, batch)
        for point, client, client_port, server, server_port, number in zip(*columns, strict=True):
            one, other = (*address_halves(client), client_port), (*address_halves(server), server_port)
            ends = (*min(one, other), *max(one, other))
            if share_of(key_of(ends)) % parts == part:
                yield point, ends, number


def notice(after: Manifest, lake: Staged) -> None:
    """Enter into the manifest what it means that captures are gone."""
    gone = [file for file in after.gone if not after.has_expired(file)]
    made = _connections([file for rows in after.rows() for file in rows.records])
    kept = _connections(after.kept)
    after.notices = [finding(gone, [*map(lake.record, kept)], [*map(lake.record, made)])] if gone else []


def _connections(files: Iterable[Written]) -> list[Written]:
    return [file for file in files if file.table == CONNECTIONS]


def finding(gone: Sequence[File], kept: Sequence[str], made: Sequence[str]) -> tuple[str, str]:
    """(kind of finding, message): what it means for the rows of a lake that captures are gone.

    kept: files of the table `connections` with the rows of these captures; made: those with the rows of the others.
    """
    names = sorted(file.place or file.path for file in gone)
    text = (
        f"{counted(len(names), 'capture')} cannot be read again ({first_of(names, _NAMED)}): "
        "records of them stay as they were decoded before"
    )
    twice = _continued(kept, made)
    if twice:
        text += (
            f"; {counted(twice, 'connection')} that began in them and went on in other captures have a second row, "
            "of the rest"
        )
    return CAPTURES_GONE, text


def _continued(kept: Sequence[str], made: Sequence[str]) -> int:
    """Connections of the kept rows that reach into those which were made."""
    if not kept or not made:
        return 0
    key = ["site", "connection"]
    ends = _rows(kept, [*key, "end_time"]).group_by(key).aggregate([("end_time", "max")])
    starts = _rows(made, [*key, "start_time"]).group_by(key).aggregate([("start_time", "min")])
    both = ends.join(starts, key, join_type="inner")
    return pc.sum(pc.greater_equal(both.column("end_time_max"), both.column("start_time_min"))).as_py() or 0


def _rows(urls: Sequence[str], columns: list[str]) -> pa.Table:
    def read(url: str) -> pa.Table:
        with filesystem.open_file(url) as stream:
            return pq.ParquetFile(stream).read(columns=columns)

    return pa.concat_tables(filesystem.each(read, urls))
