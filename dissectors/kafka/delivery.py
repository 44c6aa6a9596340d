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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from operator import itemgetter
from typing import Any

from dissectors.kafka import batches
from dissectors.kafka.batches import NO_OFFSET, BatchError
from dissectors.kafka.body_notes import Topic
from dissectors.kafka.full import uuid_text
from dissectors.kafka.messages import RecordError, entries
from dissectors.kafka.record_batch import RecordBatch
from dissectors.wire.codecs import CodecError

READ_COMMITTED = 1

Aborted = Sequence[tuple[int, int]]
"""(producer id, first offset) of the aborted transactions in a partition's answer."""

Acquired = Sequence[tuple[int, int]]
"""(first, last) offset of what a member of a share group acquired of a partition, ascending."""


def delivered(data: bytes, units: Iterable[RecordBatch], fetch_offset: int | None, aborted: Aborted, limit: int) -> int:
    """Records of a partition's batches that the application gets. fetch_offset: None where it is not known."""
    total = 0
    pending = sorted(aborted, key=lambda transaction: -transaction[1])
    aborting: set[int] = set()
    for unit in units:
        while pending and pending[-1][1] <= unit.last_offset:
            aborting.add(pending.pop()[0])
        if unit.control:
            aborting.discard(unit.producer_id)  # a commit marker cannot stand in an aborted transaction
        elif not (unit.transactional and unit.producer_id in aborting):
            total += _from(data, unit, fetch_offset, limit)
    return total


def _from(data: bytes, unit: RecordBatch, fetch_offset: int | None, limit: int) -> int:
    """Records of a batch from the fetch offset on."""
    count = unit.records or 0
    if fetch_offset is None or fetch_offset <= unit.base_offset:
        return count
    if fetch_offset > unit.last_offset:
        return 0
    if unit.last_offset - unit.base_offset + 1 == count:
        return unit.last_offset + 1 - fetch_offset
    if not unit.whole:
        return count
    try:
        records = entries(unit, batches.records_of(data, unit, limit))
        return sum(unit.base_offset + record.delta >= fetch_offset for record in records)
    except (RecordError, CodecError):
        return count  # reported where the batches are


def acquired(data: bytes, units: Iterable[RecordBatch], ranges: Acquired, limit: int) -> int:
    """Records of a partition's batches that a member of a share group gets."""
    total = 0
    try:
        for unit in units:
            total += 0 if unit.control else _acquired(data, unit, ranges, limit)
    except BatchError:
        pass  # reported where the batches are
    return total


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


def delivered_of_set(
    data: bytes, start: int, size: int, known: int, limit: int, fetch_offset: int | None, aborted: Aborted
) -> int:
    """Records of data[start:start+size] that reach the application. Every byte before index `known` was captured."""
    if not aborted and (fetch_offset is None or _begins_at(data, start, size, known) >= fetch_offset):
        return batches.count(data, start, size, known, limit)
    try:
        found = list(batches.units(data, start, size, known, limit, lenient=True))
    except BatchError:
        return batches.count(data, start, size, known, limit)
    return delivered(data, found, fetch_offset, aborted, limit)


def _begins_at(data: bytes, start: int, size: int, known: int) -> int:
    """The first offset in a record set, as far as its first header says it: a wrapper has that of its last message."""
    head = data[start : min(start + size, known, start + 17)]
    return int.from_bytes(head[:8], "big", signed=True) if len(head) == 17 and head[16] == 2 else NO_OFFSET


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
