"""What forensics knows of Kafka's checksummed units: record batches and older messages. Their layouts: batches.py."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from dissectors.checksum.unit_format import LATEST_MS, LIMIT, RECORDS, FieldSpan, FieldTable, UnitFormat, spans
from dissectors.rows.sink import Suspect
from dissectors.wire.codecs import decompress
from dissectors.wire.varint import zigzag

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_HEADER = struct.Struct(">hiqqqhii")  # from attributes to the record count

BATCH_FIELDS: FieldTable = (
    (0, "base_offset"),
    (8, "length"),
    (12, "partition_leader_epoch"),
    (16, "magic"),
    (17, "crc"),
    (21, "attributes"),
    (23, "last_offset_delta"),
    (27, "base_timestamp"),
    (35, "max_timestamp"),
    (43, "producer_id"),
    (51, "producer_epoch"),
    (53, "base_sequence"),
    (57, "record count"),
    (61, "records"),
)
MESSAGE_FIELDS: dict[str, FieldTable] = {
    "magic 0": ((0, "offset"), (8, "size"), (12, "crc"), (16, "magic"), (17, "attributes"), (18, "key")),
    "magic 1": (
        (0, "offset"),
        (8, "size"),
        (12, "crc"),
        (16, "magic"),
        (17, "attributes"),
        (18, "timestamp"),
        (26, "key"),
    ),
}


class RecordBatchUnit(UnitFormat):
    """Magic 2. Covered: from the attributes to the end."""

    def fields(self, suspect: Suspect, unit: bytes) -> Iterator[FieldSpan]:
        yield from spans(BATCH_FIELDS, 0, len(unit))
        if unit[22] & 7:
            yield FieldSpan(61, len(unit), "records, compressed")
            return
        base = int.from_bytes(unit[:8], "big", signed=True)
        count = int.from_bytes(unit[57:61], "big", signed=True)
        at = 61
        for number in range(max(0, count)):
            length, begin = zigzag(unit, at)
            end = begin + length
            if length < 0 or end > len(unit):
                return
            yield FieldSpan(at, end, f"record {number}")
            _, cursor = zigzag(unit, begin + 1)
            delta, cursor = zigzag(unit, cursor)
            label = f"record {number} (offset {base + delta})"
            for what in ("key", "value"):
                size, cursor = zigzag(unit, cursor)
                if size > 0:
                    yield FieldSpan(cursor, min(end, cursor + size), f"{label} {what}")
                    cursor += size
            if cursor < end:
                yield FieldSpan(cursor, end, f"{label} headers")
            at = end

    def data_start(self, suspect: Suspect) -> int:
        return 61 - suspect.covered[0][0]

    def is_valid(self, suspect: Suspect, data: bytes) -> bool:
        attributes, last, first_time, max_time, producer, epoch, sequence, count = _HEADER.unpack_from(data)
        codec, control, append_time = attributes & 7, attributes & 32, attributes & 8
        if attributes >> 7 or codec >= len(CODECS) or count < 0 or last < max(0, count - 1):
            return False
        if (
            not -1 <= first_time <= LATEST_MS
            or not -1 <= max_time <= LATEST_MS
            or producer < -1
            or epoch < -1
            or sequence < -1
        ):
            return False
        if max_time < first_time and max_time != -1 and not append_time:
            return False
        records: bytes | memoryview = memoryview(data)[_HEADER.size :]
        if not count:
            return True
        if codec and not control:
            records = decompress(CODECS[codec], records, limit=LIMIT)
        return _are_records(bytes(records), count, last)

    def compressed(self, suspect: Suspect, unit: bytes) -> tuple[str, int]:
        return CODECS[unit[22] & 7], 61


class MessageUnit(UnitFormat):
    """Magic 0 and 1. Covered: from the magic to the end."""

    def fields(self, suspect: Suspect, unit: bytes) -> Iterator[FieldSpan]:
        table = MESSAGE_FIELDS[suspect.format]
        yield from spans(table, 0, len(unit))
        at = table[-1][0]
        for what in ("key", "value"):
            size = int.from_bytes(unit[at : at + 4], "big", signed=True)
            yield FieldSpan(at, min(len(unit), at + 4), f"{what} length")
            if size > 0:
                yield FieldSpan(at + 4, min(len(unit), at + 4 + size), what)
            at += 4 + max(0, size)

    def data_start(self, suspect: Suspect) -> int:
        return 26 - suspect.covered[0][0]

    def is_valid(self, suspect: Suspect, data: bytes) -> bool:
        magic, attributes = data[0], data[1]
        codec = attributes & 7
        if magic != int(suspect.format[-1]) or attributes >> 4 or codec > 3:
            return False
        at = 2
        if magic:
            if not -1 <= int.from_bytes(data[2:10], "big", signed=True) <= LATEST_MS:
                return False
            at = 10
        value = b""
        for _ in ("key", "value"):
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4
            if size < -1 or at + size > len(data):
                return False
            value = data[at : at + max(0, size)]
            at += max(0, size)
        return at == len(data) and (not codec or len(decompress(CODECS[codec], value, limit=LIMIT)) > 0)

    def compressed(self, suspect: Suspect, unit: bytes) -> tuple[str, int]:
        at = 18 if suspect.format == "magic 0" else 26
        key = int.from_bytes(unit[at : at + 4], "big", signed=True)
        return CODECS[unit[17] & 7], at + 8 + max(0, key)


def _are_records(data: bytes, count: int, last: int) -> bool:
    at = 0
    before = -1
    for _ in range(min(count, RECORDS)):
        length, at = zigzag(data, at)
        end = at + length
        if length < 6 or end > len(data) or data[at]:
            return False
        _, at = zigzag(data, at + 1)
        delta, at = zigzag(data, at)
        if not before < delta <= last:
            return False
        before = delta
        for _ in ("key", "value"):
            size, at = zigzag(data, at)
            if size < -1 or at + size > end:
                return False
            at += max(0, size)
        headers, at = zigzag(data, at)
        if not 0 <= headers <= end - at:
            return False
        for _ in range(headers):
            for least in (0, -1):
                size, at = zigzag(data, at)
                if size < least or at + size > end:
                    return False
                at += max(0, size)
        if at != end:
            return False
    return at == len(data) or count > RECORDS


UNITS = {"magic 2": RecordBatchUnit(), "magic 1": MessageUnit(), "magic 0": MessageUnit()}
