"""Iggy's checksummed units, for forensics: messages with a checksum each, and VSR's batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.checksum.unit_format import FieldSpan, FieldTable, Identity, UnitFormat, spans
from dissectors.rows.sink import Suspect

ID_BYTES = 16
_VARIED = 4  # different bytes in an id that means something; 16 bytes of a small number are found everywhere

MESSAGE: FieldTable = (
    (0, "checksum"),
    (8, "id"),
    (24, "offset"),
    (32, "timestamp"),
    (40, "origin_timestamp"),
    (48, "user_headers_length"),
    (52, "payload_length"),
    (56, "payload"),
)
FRAME: FieldTable = (
    (0, "checksum"),
    (8, "id"),
    (24, "offset_delta"),
    (28, "timestamp_delta"),
    (32, "user_headers_length"),
    (36, "payload_length"),
    (40, "reserved"),
    (48, "payload"),
)
BATCH: FieldTable = (
    (0, "partition_id"),
    (8, "base_offset"),
    (16, "base_timestamp"),
    (24, "origin_timestamp"),
    (32, "batch_length"),
    (40, "batch_checksum"),
    (48, "message_count"),
    (52, "frames"),
)


class Header(NamedTuple):
    """A message's header; the checksum, of 8 bytes, stands at its start and covers what follows it."""

    fields: FieldTable
    size: int
    user_headers_at: int  # where the length of the user headers lies; a u32, as the next
    payload_at: int  # the same of the payload
    data_at: int  # where in the covered bytes the message data begin
    tiles: bool  # the two lengths and the header are all that is covered


HEADERS = {
    "header-56": Header(MESSAGE, 56, 48, 52, 48, True),
    "header-64": Header((*MESSAGE[:-1], (56, "reserved"), (64, "payload")), 64, 48, 52, 56, True),
    "vsr-batch": Header(FRAME, 48, 32, 36, 40, False),
}


class IggyMessageUnit(UnitFormat):
    """A message with a header, or a batch of them under one more checksum."""

    def __init__(self, header: Header) -> None:
        self._header = header

    def fields(self, suspect: Suspect, unit: bytes) -> Iterator[FieldSpan]:
        if len(suspect.covered) > 1:
            yield from spans(BATCH, 0, len(unit))
            for number, (a, b) in enumerate(suspect.covered[2:]):
                yield FieldSpan(a, b, f"checksum of message {number}")
            return
        start, end = suspect.covered[0]
        begin, header = start - 8, self._header
        yield from spans(header.fields, begin, end)
        length = int.from_bytes(unit[begin + header.payload_at : begin + header.payload_at + 4], "little")
        headers = begin + header.size + length
        if headers < end:
            yield FieldSpan(headers, end, "user headers")

    def data_start(self, suspect: Suspect) -> int:
        return self._header.data_at

    def is_valid(self, suspect: Suspect, data: bytes) -> bool | None:
        header = self._header
        if not header.tiles:
            return None
        lengths = (
            int.from_bytes(data[at - 8 : at - 4], "little") for at in (header.user_headers_at, header.payload_at)
        )
        return header.size - 8 + sum(lengths) == len(data)

    def identity(self, suspect: Suspect) -> Identity | None:
        start, end = suspect.covered[0]
        if len(suspect.covered) != 1:
            return None
        return _identity(suspect, start, start - 8 + self._header.size, end)


class LegacyMessageUnit(UnitFormat):
    """A message of the first eras: id, checksum of 4 bytes, payload. Covered: the payload."""

    def fields(self, suspect: Suspect, unit: bytes) -> Iterator[FieldSpan]:
        start, end = suspect.covered[0]
        yield FieldSpan(start, end, "payload")
        yield FieldSpan(suspect.checksum_at, suspect.checksum_at + 4, "checksum")

    def identity(self, suspect: Suspect) -> Identity | None:
        start, end = suspect.covered[0]
        return _identity(suspect, suspect.checksum_at - ID_BYTES, start, end)


def _identity(suspect: Suspect, at: int, start: int, end: int) -> Identity | None:
    id_ = suspect.unit[max(at, 0) : at + ID_BYTES]
    if at < 0 or len(id_) < ID_BYTES or len(set(id_)) < _VARIED:
        return None
    return Identity(id_, at, start, end)


UNITS: dict[str, UnitFormat] = {name: IggyMessageUnit(header) for name, header in HEADERS.items()}
UNITS["legacy"] = LegacyMessageUnit()
