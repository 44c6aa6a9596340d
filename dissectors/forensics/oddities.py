"""What does not fit although every checksum may be right: batches that contradict each other.

    one producer sequence, two contents      a retry must send the same bytes
    one position, two contents               a log does not change (a compacted one does: hence "was rewritten")
    offsets that step back                   answers on one connection assign ascending offsets

All are facts about what the capture shows; none is a bad checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

LISTED = 20  # of each kind

_SEQUENCE = ("site", "topic", "partition", "producer", "producer_epoch", "base_sequence")
_POSITION = ("site", "topic", "partition", "position", "format", "role")
_ORDER = ("site", "connection", "incarnation", "topic", "partition")


def oddities(batches: pa.Table) -> Iterator[str]:
    """Sentences about rows of `batches`."""
    sound = batches.filter(pc.is_in(batches.column("verdict"), pa.array(["ok"])))
    produced = sound.filter(pc.equal(sound.column("role"), "produce"))
    for row in _contents(produced, _SEQUENCE):
        yield (
            f"sequence_conflict: producer {row['producer']} epoch {row['producer_epoch']} sent sequence "
            f"{row['base_sequence']} of {row['topic']}-{row['partition']} with {row['contents']} different contents"
        )
    handed_out = sound.filter(pc.not_equal(sound.column("role"), "produce"))
    for row in _contents(handed_out, _POSITION):
        yield (
            f"rewritten_position: {row['topic']}-{row['partition']} at {row['position']} was handed out with "
            f"{row['contents']} different contents: the log was rewritten in between"
        )
    yield from _steps_back(produced)


def _contents(rows: pa.Table, keys: Sequence[str]) -> list[dict[str, object]]:
    """Groups of rows with one key and more than one checksum."""
    complete = None
    for key in keys:
        known = pc.is_valid(rows.column(key))
        complete = known if complete is None else pc.and_(complete, known)
    groups = rows.filter(complete).group_by(list(keys)).aggregate([("checksum_stored", "count_distinct")])
    groups = groups.rename_columns({"checksum_stored_count_distinct": "contents"})
    found: list[dict[str, object]] = (
        groups.filter(pc.greater(groups.column("contents"), 1)).slice(0, LISTED).to_pylist()
    )
    return found


def _steps_back(produced: pa.Table) -> Iterator[str]:
    """Base offsets that the broker assigned on one connection, against their order."""
    rows = produced.filter(pc.and_(pc.is_valid(produced.column("base_offset")), _fresh(produced)))
    rows = rows.sort_by([(key, "ascending") for key in (*_ORDER, "time")]).select(
        [*_ORDER, "base_offset", "file", "packet"]
    )
    reported, last = 0, None
    for batch in rows.to_batches():
        columns = [batch.column(name).to_pylist() for name in rows.column_names]
        for *key, offset, file, packet in zip(*columns, strict=True):
            if last is not None and last[0] == key and offset < last[1] and reported < LISTED:
                reported += 1
                yield (
                    f"offset_steps_back: {key[3]}-{key[4]} was given offset {offset} after {last[1]} "
                    f"on {key[1]} ({file} packet {packet})"
                )
            last = (key, offset)


def _fresh(produced: pa.Table) -> pa.ChunkedArray:
    """Without idempotent producers: their retries are answered with the offset of the first try."""
    return pc.fill_null(pc.less(produced.column("base_sequence"), 0), True)
