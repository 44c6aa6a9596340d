"""Iggy's checksummed units, for forensics: messages with a checksum each, and VSR's batches."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.checksum.unit_format import FieldSpan, FieldTable, Identity, UnitFormat, spans
from dissectors.iggy.batches import FORMATS, MessageFormat
from dissectors.iggy.batches import FRAME as FRAME_LAYOUT
from dissectors.rows.sink import Suspect

ID_BYTES = 16
_VARIED = 4  # different bytes in an id that means something; 16 bytes of a small number are found everywhere

MESSAGE: FieldTable = (
    (0, "checksum"), (8, "id"), (24, "offset"), (32, "timestamp"), (40, "origin_timestamp"),
    (48, "user_headers_length"), (52, "payload_length"), (56, "payload"),
)  # fmt: skip
FRAME: FieldTable = (
    (0, "checksum"), (8, "id"), (24, "offset_delta"), (28, "timestamp_delta"), (32, "user_headers_length"),
    (36, "payload_length"), (40, "reserved"), (48, "payload"),
)  # fmt: skip
BATCH: FieldTable = (
    (0, "partition_id"), (8, "base_offset"), (16, "base_timestamp"), (24, "origin_timestamp"), (32, "batch_length"),
    (40, "batch_checksum"), (48, "message_count"), (52, "frames"),
)  # fmt: skip


FIELDS: dict[str, FieldTable] = {
    "header-56": MESSAGE,
    "header-64": (*MESSAGE[:-1], (56, "reserved"), (64, "payload")),
    "vsr-batch": FRAME,
}
"""By format, of messages with a header: the checksum, of 8 bytes, stands at its start and covers what follows it."""


class IggyMessageUnit(UnitFormat):
    """A message with a header, or a batch of them under one more checksum."""

    def __init__(self, form: MessageFormat) -> None:
        self._form = form

    def fields(self, suspect: Suspect, unit: bytes) -> Iterator[FieldSpan]:
        if len(suspect.covered) > 1:
            yield from spans(BATCH, 0, len(unit))
            for number, (a, b) in enumerate(suspect.covered[2:]):
                yield FieldSpan(a, b, f"checksum of message {number}")
            return
        start, end = suspect.covered[0]
        begin, form = start - 8, self._form
        yield from spans(FIELDS[form.shown], begin, end)
        length = int.from_bytes(unit[begin + form.lengths + 4 : begin + form.lengths + 8], "little")
        headers = begin + form.header + length
        if headers < end:
            yield FieldSpan(headers, end, "user headers")

    def data_start(self, suspect: Suspect) -> int:
        return self._form.header - 8

    def is_valid(self, suspect: Suspect, data: bytes) -> bool | None:
        form = self._form
        if form.layout == FRAME_LAYOUT:
            return None
        lengths = (int.from_bytes(data[at - 8 : at - 4], "little") for at in (form.lengths, form.lengths + 4))
        return form.header - 8 + sum(lengths) == len(data)

    def identity(self, suspect: Suspect) -> Identity | None:
        start, end = suspect.covered[0]
        if len(suspect.covered) != 1:
            return None
        return _identity(suspect, start, start - 8 + self._form.header, end)


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


UNITS: dict[str, UnitFormat] = {form.shown: IggyMessageUnit(form) for form in FORMATS.values() if form.header}
UNITS["legacy"] = LegacyMessageUnit()
