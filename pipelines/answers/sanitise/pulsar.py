"""Frames of Pulsar: what is kept follows from the schema of the command.

    sizes, tags, numbers       kept
    strings                    pseudonyms; versions of clients and brokers and the method of a login are kept, and so
                               is the property by which receipts name what a replicator sent: two numbers
    bytes                      what stands for a key; versions of schemas, which are numbers, are kept
    unknown fields             filler
    payload                    filler; the metadata of a batch's messages as that of commands

A payload that was compressed is compressed again, to just as many bytes; a chunk and an encrypted payload are filler.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from dissectors.checksum import CRC32C, compute
from dissectors.pulsar import api, batches
from dissectors.pulsar.replication import position_in
from dissectors.pulsar.schemas import VERSION_BYTES
from dissectors.wire.codecs import CodecError, decompress, without_listeners
from dissectors.wire.protobuf import BYTES, fields
from pipelines.answers.sanitise.frame_copy import PAYLOAD, FrameCopy
from pipelines.answers.sanitise.pseudonyms import Pseudonyms
from pipelines.answers.sanitise.records import FilledData
from pipelines.answers.sanitise.refit import refitted

KEPT_FIELDS = frozenset({"client_version", "server_version", "proxy_version", "auth_method_name", "encryption_algo"})
_STRING, _BYTES = 9, 12  # types of fields, as descriptors number them
_UNPACKED = 64 << 20  # bytes of one entry
_BROKER_ENTRY, _CHECKSUM = b"\x0e\x02", b"\x0e\x01"  # before metadata of the broker, and before a checksum
_MESSAGES = api.DESCRIPTOR.message_types_by_name


class PulsarFrames:
    """Writes frames anew, and counts what could not be compressed to the same length."""

    def __init__(self) -> None:
        self.lost = 0  # entries whose payload is filler now, that no longer decompresses

    def frame(self, copy: FrameCopy) -> None:
        """Write a frame as far as it is understood."""
        copy.head(8)
        after = 8 + int.from_bytes(copy.source[4:8], "big")
        self._put(copy, 8, after, "BaseCommand")
        if after < len(copy.source):
            self._entry(copy, after)

    def _entry(self, copy: FrameCopy, at: int) -> None:
        """Write metadata, checksum and payload behind a command."""
        data, end = copy.source, len(copy.source)
        if data[at : at + 2] == _BROKER_ENTRY:
            at = self._sized(copy, at, 2, "BrokerEntryMetadata")
        covered, marked = at, data[at : at + 2] == _CHECKSUM
        if marked:
            copy.keep(at, at + 2)
            covered = at + 6
        start = covered + 4
        payload = self._sized(copy, covered, 0, "MessageMetadata")
        copy.payload(payload, end)
        if not copy.complete:
            if marked and copy.whole(at, covered):
                copy.put(at + 2, bytes(4))  # nobody can verify it
            return
        try:
            meta = api.MessageMetadata.FromString(data[start:payload])
        except DecodeError:
            meta = None
        if meta is not None and not meta.encryption_keys and not meta.HasField("num_chunks_from_msg"):
            copy.put(payload, self._payload(meta, data[payload:], copy.names))
        if marked:
            difference = int.from_bytes(data[at + 2 : covered], "big") ^ compute(CRC32C, memoryview(data)[covered:])
            right = compute(CRC32C, bytes(copy.out[covered:]))
            copy.put(at + 2, (right ^ difference).to_bytes(4, "big"))

    def _sized(self, copy: FrameCopy, at: int, magic: int, message: str) -> int:
        """Write a message behind a magic of so many bytes and its size; the index after it."""
        start = at + magic + 4
        copy.keep(at, start)
        end = start + int.from_bytes(copy.source[start - 4 : start], "big")
        self._put(copy, start, end, message)
        return end

    @staticmethod
    def _put(copy: FrameCopy, start: int, end: int, message: str) -> None:
        """Write a message, as far as it was captured; raise NotUnderstoodError where that is not to its end."""
        there = copy.source[start : min(end, copy.first_hole(start))]
        copy.put(start, _message(there, _MESSAGES[message], copy.names))
        copy.need(start, end)

    def _payload(self, meta: Any, data: bytes, names: Pseudonyms) -> bytes:
        """What stands for the payload of an entry."""
        number = int(meta.compression)
        if not number:
            return _plain(meta, data, names).made()
        codec = batches.CODECS.get(number)
        made = None
        if codec is not None:
            try:
                with without_listeners():
                    plain = _plain(meta, decompress(codec, data, limit=_UNPACKED, size=meta.uncompressed_size), names)
                made = refitted(codec, plain.made, plain.room, len(data))
            except CodecError:
                return b"\xff" * len(data)
        self.lost += made is None
        return made or b"\xff" * len(data)


def _plain(meta: Any, data: bytes, names: Pseudonyms) -> FilledData:
    """The messages of an entry, with filler for their values; of a batch also what is no message."""
    plain, at = FilledData(data, names), 0
    while meta.HasField("num_messages_in_batch") and at + 4 <= len(data):
        start = at + 4
        stop = start + int.from_bytes(data[at:start], "big")
        try:
            end = stop + max(0, api.SingleMessageMetadata.FromString(data[start:stop]).payload_size)
        except DecodeError:
            break
        if end > len(data):
            break
        plain.data[start:stop] = _message(data[start:stop], _MESSAGES["SingleMessageMetadata"], names)
        plain.filler += [(stop, end)] if end > stop else []
        at = end
    plain.filler += [(at, len(data))] if at < len(data) else []
    return plain


def _message(data: bytes, descriptor: Any, names: Pseudonyms) -> bytes:
    """What stands for a message of the schema, or for its captured beginning, of the same length."""
    out = bytearray(PAYLOAD * len(data))
    known = {field.number: field for field in descriptor.fields}
    known_pair = descriptor.name == "KeyValue" and position_in(data, 0, len(data)) is not None
    at = 0
    for found in fields(data, 0, len(data), cut=True):
        field, value = known.get(found.number), data[found.start : found.end]
        if found.kind != BYTES or (field is not None and (known_pair or field.name in KEPT_FIELDS)):
            put = value
        elif field is None or (found.end > len(data) and field.message_type is None):
            put = PAYLOAD * len(value)  # a pseudonym of a part would be another than the whole's
        elif field.message_type is not None:
            put = _message(value, field.message_type, names)
        elif field.type == _STRING:
            put = names.name(value)
        elif field.type == _BYTES:
            put = value if field.name == "schema_version" and len(value) == VERSION_BYTES else names.key(value)
        else:
            put = value  # packed numbers
        out[at : found.start] = data[at : found.start]  # tag and length
        out[found.start : found.start + len(put)] = put
        at = found.end
    return bytes(out)
