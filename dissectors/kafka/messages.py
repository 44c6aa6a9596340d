"""The messages of a batch, one by one.

Record (magic 2), integers as zig-zag varints:

    length | attributes 1 byte | timestamp delta | offset delta | key length, key | value length, value
           | header count | for each: key length, key, value length, value

A length of -1 is a null. Messages of magic 0 and 1: see batches.py; in a wrapper of magic 1 the offsets count from 0.
Source: Kafka protocol guide, "Record" and "Record Header".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.kafka.batches import MESSAGE, SMALLEST
from dissectors.kafka.record_batch import NO_TIMESTAMP, RecordBatch
from dissectors.wire.reader import VarintError
from dissectors.wire.varint import zigzag

Header = tuple[bytes, bytes | None]


class KafkaRecord(NamedTuple):
    """One message of a batch."""

    number: int  # counts from 0 in the batch
    delta: int  # its offset, from the batch's base offset
    timestamp: int  # ms, or NO_TIMESTAMP
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    header_bytes: int


class RecordError(ValueError):
    """A record is not as it should be."""


def entries(unit: RecordBatch, records: bytes) -> Iterator[KafkaRecord]:
    """The messages of a unit; `records` as batches.records_of gives them. Raises RecordError."""
    return _records(unit, records) if unit.magic == 2 else _messages(unit, records)


def _records(unit: RecordBatch, data: bytes) -> Iterator[KafkaRecord]:
    at, end = 0, len(data)
    try:
        for index in range(unit.announced):
            length, at = zigzag(data, at)
            stop = at + length
            if length < 6 or stop > end:
                raise RecordError(f"record {index} of {length} bytes where {end - at} are left")
            time, p = zigzag(data, at + 1)
            delta, p = zigzag(data, p)
            key, p = _sized(data, p, stop)
            value, p = _sized(data, p, stop)
            n, p = zigzag(data, p)
            first = p
            if n < 0 or n > stop - p:
                raise RecordError(f"record {index} announces {n} headers")
            headers = []
            for _ in range(n):
                name, p = _sized(data, p, stop)
                content, p = _sized(data, p, stop)
                headers.append((name or b"", content))
            stamp = unit.base_timestamp + time if unit.base_timestamp != NO_TIMESTAMP else NO_TIMESTAMP
            yield KafkaRecord(index, delta, stamp, key, value, tuple(headers), p - first)
            at = stop
    except IndexError:
        raise RecordError("a record ends too early") from None
    except VarintError as error:
        raise RecordError(str(error)) from None


def _messages(unit: RecordBatch, data: bytes) -> Iterator[KafkaRecord]:
    at, index, end = 0, 0, len(data)
    first = None
    while at + 18 <= end:
        offset, size, _, magic, _ = MESSAGE.unpack_from(data, at)
        stop = at + 12 + size
        if size < SMALLEST.get(magic, 1 << 31) or stop > end:
            raise RecordError(f"message {index} of {size} bytes where {end - at} are left")
        first = offset if first is None else first
        p = at + 18
        stamp = NO_TIMESTAMP
        if magic == 1:
            stamp = int.from_bytes(data[p : p + 8], "big", signed=True)
            p += 8
        key, p = _sized32(data, p, stop)
        value, p = _sized32(data, p, stop)
        yield KafkaRecord(index, offset - first, stamp, key, value, (), 0)
        at = stop
        index += 1


def _sized(data: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    """Bytes behind a varint length."""
    n, at = zigzag(data, at)
    if n < 0:
        return None, at
    if at + n > stop:
        raise RecordError(f"{n} bytes where {stop - at} are left")
    return data[at : at + n], at + n


def _sized32(data: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    """Bytes behind an int32 length."""
    n = int.from_bytes(data[at : at + 4], "big", signed=True)
    at += 4
    if n < 0:
        return None, at
    if at + n > stop:
        raise RecordError(f"{n} bytes where {stop - at} are left")
    return data[at : at + n], at + n
