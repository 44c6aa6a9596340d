"""What forensics knows of Pulsar's checksummed unit: an entry, with its metadata. Layout: batches.py."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.checksum.unit_format import LATEST_MS, LIMIT, RECORDS, FieldSpan, UnitFormat
from dissectors.pulsar import batches
from dissectors.pulsar.fields import (
    META_COMPACTED_BATCH_INDEXES,
    META_COMPRESSION,
    META_ENCRYPTION_KEYS,
    META_NUM_MESSAGES_IN_BATCH,
    META_PRODUCER_NAME,
    META_PUBLISH_TIME,
    META_SEQUENCE_ID,
    META_UNCOMPRESSED_SIZE,
)
from dissectors.rows.sink import Suspect
from dissectors.wire.protobuf import MessageFields
from dissectors.wire.reader import WireReader

_REQUIRED = (META_PRODUCER_NAME, META_SEQUENCE_ID, META_PUBLISH_TIME)


class EntryUnit(UnitFormat):
    """Covered: the size of the metadata, the metadata and the payload."""

    def fields(self, suspect: Suspect, unit: bytes) -> Iterator[FieldSpan]:
        covered = suspect.covered[0][0]
        yield FieldSpan(covered - 4, covered, "checksum")
        yield FieldSpan(covered, covered + 4, "metadata size")
        payload = covered + 4 + int.from_bytes(unit[covered : covered + 4], "big")
        yield FieldSpan(covered + 4, min(payload, len(unit)), "message metadata")
        if payload >= len(unit):
            return
        meta = _metadata(unit, covered + 4, payload)
        if meta is None:
            yield FieldSpan(payload, len(unit), "payload")
            return
        states = (("compressed", meta.number(META_COMPRESSION, 0)), ("encrypted", meta.has(META_ENCRYPTION_KEYS)))
        sealed = [label for label, is_so in states if is_so]
        yield FieldSpan(payload, len(unit), ", ".join(["payload", *sealed]))
        if sealed or not meta.has(META_NUM_MESSAGES_IN_BATCH):
            return
        last = payload
        for single in batches.singles(meta, unit[payload:]):
            yield FieldSpan(last, payload + single.start, f"message {single.number} metadata")
            last = payload + single.end
            yield FieldSpan(payload + single.start, last, f"message {single.number} value")

    def data_start(self, suspect: Suspect) -> int:
        first = suspect.covered[0][0]
        size = 4 + int.from_bytes(suspect.unit[first : first + 4], "big")
        return size if size < len(suspect.unit) - first else 0

    def is_valid(self, suspect: Suspect, data: bytes) -> bool:
        begin = 4 + int.from_bytes(data[:4], "big")
        if begin > len(data):
            return False
        meta = _metadata(data, 4, begin)
        if meta is None or not all(meta.has(field) for field in _REQUIRED):
            return False
        codec, published = meta.number(META_COMPRESSION, 0), meta.number(META_PUBLISH_TIME, 0)
        if not 0 <= published <= LATEST_MS or codec not in (0, *batches.CODECS):
            return False
        if meta.has(META_ENCRYPTION_KEYS) or batches.is_chunk(meta) or meta.number(META_UNCOMPRESSED_SIZE, 0) > LIMIT:
            return True
        plain = batches.unpacked(meta, data[begin:], LIMIT)
        last = 0
        for number, single in enumerate(batches.singles(meta, plain)):
            last = single.end
            if number > RECORDS:
                return True
        return last == len(plain) or meta.has(META_COMPACTED_BATCH_INDEXES)

    def compressed(self, suspect: Suspect, unit: bytes) -> tuple[str, int]:
        start = suspect.covered[0][0]
        payload = start + 4 + int.from_bytes(unit[start : start + 4], "big")
        meta = _metadata(unit, start + 4, payload)
        if meta is None:
            return "none", len(unit)
        return batches.CODECS.get(meta.number(META_COMPRESSION, 0), "none"), payload


def _metadata(data: bytes, start: int, end: int) -> MessageFields | None:
    """The MessageMetadata in data[start:end], cut off where the data end; None where there is none."""
    meta = MessageFields(WireReader())
    return meta if meta.read(batches.METADATA, data, start, min(end, len(data))) else None


UNITS = {"entry": EntryUnit()}
