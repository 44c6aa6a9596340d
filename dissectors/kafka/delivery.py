"""What of an answered fetch reaches the application: fewer records than the answer carries.

    before the fetch offset   a broker sends whole batches; the client drops what lies before the offset it asked for
    control records           markers of transactions are for clients, not for applications
    aborted transactions      with isolation level read_committed; the answer lists them: from `first_offset` on, the
                              batches of that producer id are aborted, up to its next abort marker
    not acquired              of a share group's batches a member gets the ranges that the answer says it has acquired

Sources: KIP-98; KIP-227 for offsets that a fetch session remembers; KIP-932.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from operator import itemgetter
from typing import Any

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.kafka import batches
from dissectors.kafka.body_notes import Topic
from dissectors.kafka.full import uuid_text
from dissectors.kafka.messages import RecordError, entries
from dissectors.kafka.record_batch import RecordBatch
from dissectors.rows.layout import ABSENT
from dissectors.wire.codecs import CodecError

READ_COMMITTED = 1

Aborted = Sequence[tuple[int, int]]
"""(producer id, first offset) of the aborted transactions in a partition's answer."""

Acquired = Sequence[tuple[int, int]]
"""(first, last) offset of what a member of a share group acquired of a partition, ascending."""


@compiled
def delivered(
    data: bytes, found: list[RecordBatch], fetch_offset: cython.longlong, aborted: Aborted, limit: cython.longlong
) -> cython.longlong:
    """Records of a partition's batches that the application gets. fetch_offset: ABSENT where it is not known."""
    total: cython.longlong = 0
    batch: RecordBatch
    if aborted:
        found = _committed(found, aborted)
    for batch in found:
        if batch.control or batch.count == ABSENT:
            continue
        if fetch_offset == ABSENT or fetch_offset <= batch.base_offset:
            total += batch.count
        elif fetch_offset <= batch.last_offset:
            if batch.last_offset - batch.base_offset + 1 == batch.count:
                total += batch.last_offset + 1 - fetch_offset
            else:
                total += _from(data, batch, fetch_offset, limit)
    return total


def _committed(found: list[RecordBatch], aborted: Aborted) -> list[RecordBatch]:
    """The batches that are in no aborted transaction."""
    pending = deque(sorted(aborted, key=itemgetter(1)))
    aborting: set[int] = set()
    kept: list[RecordBatch] = []
    for batch in found:
        while pending and pending[0][1] <= batch.last_offset:
            aborting.add(pending.popleft()[0])
        if batch.control:
            aborting.discard(batch.producer_id)  # a commit marker cannot stand in an aborted transaction
        elif not (batch.transactional and batch.producer_id in aborting):
            kept.append(batch)
    return kept


def _from(data: bytes, batch: RecordBatch, fetch_offset: int, limit: int) -> int:
    """Records of a batch with gaps from the fetch offset on."""
    count = batch.records or 0
    if not batch.whole:
        return count
    try:
        records = entries(batch, batches.records_of(data, batch, limit))
        return sum(batch.base_offset + record.delta >= fetch_offset for record in records)
    except (RecordError, CodecError):
        return count  # reported where the batches are


def acquired(data: bytes, found: Iterable[RecordBatch], ranges: Acquired, limit: int) -> int:
    """Records of a partition's batches that a member of a share group gets."""
    return sum(0 if batch.control else _acquired(data, batch, ranges, limit) for batch in found)


def _acquired(data: bytes, unit: RecordBatch, ranges: Acquired, limit: int) -> int:
    base, last, count = unit.base_offset, unit.last_offset, unit.records or 0
    at = max(0, bisect_right(ranges, base, key=itemgetter(0)) - 1)
    near = takewhile(lambda one: one[0] <= last, islice(ranges, at, at + unit.size))  # no batch holds more records
    held = sum(max(0, min(last, end) - max(base, begin) + 1) for begin, end in near)
    if not held or held > last - base or last - base + 1 == count or not unit.whole:
        return min(held, count)
    try:
        offsets = [base + record.delta for record in entries(unit, batches.records_of(data, unit, limit))]
    except (RecordError, CodecError):
        return min(held, count)  # reported where the batches are
    before = [bisect_right(ranges, offset, key=itemgetter(0)) - 1 for offset in offsets]
    return sum(i >= 0 and offset <= ranges[i][1] for i, offset in zip(before, offsets, strict=True))


def aborted_transactions(answer: Mapping[str, Any]) -> dict[tuple[str, int], Aborted]:
    """The aborted transactions in a decoded Fetch response, by topic (name, or id as text) and partition."""
    found: dict[tuple[str, int], Aborted] = {}
    for topic, partition in _partitions(answer, "responses", "partitionIndex"):
        listed = _whole(partition, "abortedTransactions", "producerId", "firstOffset")
        if listed:
            found[topic.get("topic") or topic.get("topicId"), partition["partitionIndex"]] = listed
    return found


def acquired_ranges(answer: Mapping[str, Any]) -> dict[tuple[str, int], Acquired]:
    """The offsets that a decoded ShareFetch response gives to a member, by topic id (as text) and partition."""
    return {
        (topic.get("topicId"), partition["partitionIndex"]): sorted(
            _whole(partition, "acquiredRecords", "firstOffset", "lastOffset")
        )
        for topic, partition in _partitions(answer, "responses", "partitionIndex")
    }


def later_pieces(answer: Mapping[str, Any]) -> set[tuple[str | None, int]]:
    """Topics and partitions of which a decoded FetchSnapshot response carries a piece that is not the first one."""
    return {
        (topic.get("name"), partition["index"])
        for topic, partition in _partitions(answer, "topics", "index")
        if partition.get("position")
    }


def _partitions(answer: Mapping[str, Any], topics: str, number: str) -> Iterator[tuple[Any, Any]]:
    """(topic, partition) of a decoded answer, which may end early: each partition that has its number."""
    for topic in answer.get(topics) or ():
        for partition in topic.get("partitions") or ():
            if number in partition:
                yield topic, partition


def _whole(partition: Mapping[str, Any], array: str, first: str, second: str) -> list[tuple[int, int]]:
    """Two numbers of each struct in an array, as far as both are there."""
    return [(one[first], one[second]) for one in partition.get(array) or () if second in one]


def of_partition(listed: Mapping[tuple[str, int], Aborted], topic: Topic | None, partition: int) -> Aborted:
    """The ranges or transactions that are listed for one partition."""
    if not listed or topic is None:
        return ()
    return listed.get((topic if isinstance(topic, str) else uuid_text(topic), partition), ())
