"""What a receiver called corrupt although its bytes fit their checksum here.

A broker that answers a produced batch with an error about its checksum, or a consumer that throws a message away as
damaged, saw other bytes than the capture, or computes wrongly: a case of its own, as nothing is broken here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from dissectors.forensics.related import ANSWERED, equal

NOTE = "it broke behind the capture point, or the receiver computes the checksum wrongly"
_HERE = ("site", "connection", "incarnation")
_OF_BATCH = ("role", "topic", "partition", "position", "checksum_stored", "verdict", "time", "file", "packet")
_OF_RECEIVER = ("protocol", "connection", "incarnation", "time", "file", "packet")


class Refusal(NamedTuple):
    """One statement of a receiver, and the batches that it is about, all of which are right here."""

    error: str  # its name: CORRUPT_MESSAGE
    said: Mapping[str, Any]  # the columns _OF_RECEIVER
    batches: Sequence[Mapping[str, Any]]  # the columns _OF_BATCH

    def as_json(self) -> dict[str, Any]:
        """The JSON object of this case."""
        return {"case": "refused_as_corrupt", "error": self.error, **self.said, "batches": self.batches, "note": NOTE}

    @property
    def sentence(self) -> str:
        """It in one sentence."""
        first, more = self.batches[0], len(self.batches) - 1
        where = f"{first['topic'] or 'a topic'}, partition {'?' if first['partition'] is None else first['partition']}"
        others = f" and {more} more" if more else ""
        return (
            f"{self.said['protocol']} {first['role']}: {self.error} ({self.said['file']} packet {self.said['packet']}) "
            f"of {where}: the checksum {first['checksum_stored']} holds in packet {first['packet']}{others}; {NOTE}"
        )


def refusals(
    batches: pa.Table, errors: Sequence[Mapping[str, Any]], discarded: Sequence[Mapping[str, Any]]
) -> Iterator[Refusal]:
    """Those of errors about checksums, and of findings `damaged_message`, whose batches all verify here, by time.

    batches: with the columns SIGHTING of `related`; errors: rows of `errors`; discarded: rows of `findings`.
    """
    told = [
        *((row, row["name"], ("site", *ANSWERED), None) for row in errors),
        *((row, *_thrown_away(row)) for row in discarded),
    ]
    for row, error, keys, positions in sorted(told, key=lambda one: (str(one[0]["time"]), one[0]["packet"] or 0)):
        found = [
            {name: batch[name] for name in _OF_BATCH}
            for batch in batches.filter(equal(batches, row, keys)).to_pylist()
            if all(row.get(name) in (None, batch[name]) for name in ("topic", "partition"))
            if (batch["role"] == "produce") is (positions is None)
            if positions is None or batch["position"] in positions
        ]
        if found and all(batch["verdict"] == "ok" for batch in found):
            yield Refusal(error, {name: row[name] for name in _OF_RECEIVER}, found)


def _thrown_away(finding: Mapping[str, Any]) -> tuple[str, tuple[str, ...], list[str]]:
    """Of messages that a consumer threw away: (the error, columns in which their batches agree, their positions)."""
    evidence = json.loads(finding["evidence"] or "{}")
    return str(evidence.get("error")), _HERE, evidence.get("positions") or []
