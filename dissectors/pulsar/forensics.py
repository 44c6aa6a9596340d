"""What forensics knows of Pulsar's checksummed unit: an entry, with its metadata. Layout: batches.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from dissectors.checksum.unit_format import LATEST_MS, LIMIT, RECORDS, FieldSpan, UnitFormat
from dissectors.pulsar import api, batches
from dissectors.rows.sink import Suspect


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
        try:
            meta = api.MessageMetadata.FromString(unit[covered + 4 : payload])
        except DecodeError:
            yield FieldSpan(payload, len(unit), "payload")
            return
        states = (("compressed", meta.compression), ("encrypted", meta.encryption_keys))
        sealed = [label for label, is_so in states if is_so]
        yield FieldSpan(payload, len(unit), ", ".join(["payload", *sealed]))
        if sealed or not meta.HasField("num_messages_in_batch"):
            return
        last = payload
        for single in batches.singles(meta, memoryview(unit)[payload:]):
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
        try:
            meta: Any = api.MessageMetadata.FromString(data[4:begin])
        except DecodeError:
            return False
        if not meta.IsInitialized() or meta.publish_time > LATEST_MS or meta.compression not in (0, *batches.CODECS):
            return False
        if meta.encryption_keys or batches.is_chunk(meta) or meta.uncompressed_size > LIMIT:
            return True
        payload = memoryview(data)[begin:]
        plain = batches.unpacked(meta, batches.codec(meta, len(payload)), payload, LIMIT)
        last = 0
        for number, single in enumerate(batches.singles(meta, plain)):
            last = single.end
            if number > RECORDS:
                return True
        return last == len(plain) or bool(meta.compacted_batch_indexes)

    def compressed(self, suspect: Suspect, unit: bytes) -> tuple[str, int]:
        start = suspect.covered[0][0]
        payload = start + 4 + int.from_bytes(unit[start : start + 4], "big")
        try:
            meta = api.MessageMetadata.FromString(unit[start + 4 : payload])
        except DecodeError:
            return "none", len(unit)
        return batches.CODECS.get(meta.compression, "none"), payload


UNITS = {"entry": EntryUnit()}
