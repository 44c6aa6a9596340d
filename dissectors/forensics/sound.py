"""Whether bytes can be the batch that they claim to be: lengths add up, counts agree, what is compressed decompresses.

A correction that leaves a batch unsound is none; one that makes an unsound batch sound is likely the right one. So the
rules are few and hold for everything that brokers accept: a batch that any client wrote must pass.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from dissectors.kafka.messages import varint
from dissectors.sink import Suspect
from dissectors.wire.codecs import CodecError, decompress

LIMIT = 4 << 20  # bytes that a batch may become when it is decompressed to be looked at
RECORDS = 2000  # looked at in one batch
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LATEST = 7_258_118_400_000  # ms: the year 2200
_HEADER = struct.Struct(">hiqqqhii")  # from attributes to the record count

Sound = Callable[[bytes], bool]


def soundness(suspect: Suspect) -> Sound | None:
    """A judge of the bytes that the suspect's checksum covers; None where nothing can be said of them."""
    if len(suspect.covered) != 1:
        return None
    judge = _JUDGES.get(suspect.format)
    if judge is None:
        return None

    def sound(data: bytes) -> bool:
        try:
            return judge(suspect, data)
        except (ValueError, IndexError, struct.error, CodecError):
            return False

    return sound


# --- Kafka -----------------------------------------------------------------------------------------------------------


def _kafka_batch(suspect: Suspect, data: bytes) -> bool:
    attributes, last, first_time, max_time, producer, epoch, sequence, count = _HEADER.unpack_from(data)
    codec, control, append_time = attributes & 7, attributes & 32, attributes & 8
    if attributes >> 7 or codec >= len(_CODECS) or count < 0 or last < max(0, count - 1):
        return False
    if not -1 <= first_time <= _LATEST or not -1 <= max_time <= _LATEST or producer < -1 or epoch < -1 or sequence < -1:
        return False
    if max_time < first_time and max_time != -1 and not append_time:
        return False
    records: bytes | memoryview = memoryview(data)[_HEADER.size :]
    if not count:
        return True
    if codec and not control:
        records = decompress(_CODECS[codec], records, limit=LIMIT)
    return _kafka_records(bytes(records), count, last)


def _kafka_records(data: bytes, count: int, last: int) -> bool:
    at = 0
    before = -1
    for _ in range(min(count, RECORDS)):
        length, at = varint(data, at)
        end = at + length
        if length < 6 or end > len(data) or data[at]:
            return False
        _, at = varint(data, at + 1)
        delta, at = varint(data, at)
        if not before < delta <= last:
            return False
        before = delta
        for _ in ("key", "value"):
            size, at = varint(data, at)
            if size < -1 or at + size > end:
                return False
            at += max(0, size)
        headers, at = varint(data, at)
        if not 0 <= headers <= end - at:
            return False
        for _ in range(headers):
            for least in (0, -1):
                size, at = varint(data, at)
                if size < least or at + size > end:
                    return False
                at += max(0, size)
        if at != end:
            return False
    return at == len(data) or count > RECORDS


def _kafka_message(suspect: Suspect, data: bytes) -> bool:
    magic, attributes = data[0], data[1]
    codec = attributes & 7
    if magic != int(suspect.format[-1]) or attributes >> 4 or codec > 3:
        return False
    at = 2
    if magic:
        if not -1 <= int.from_bytes(data[2:10], "big", signed=True) <= _LATEST:
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
    return at == len(data) and (not codec or len(decompress(_CODECS[codec], value, limit=LIMIT)) > 0)


# --- Pulsar ----------------------------------------------------------------------------------------------------------


def _pulsar(suspect: Suspect, data: bytes) -> bool:
    from google.protobuf.message import DecodeError

    from dissectors.pulsar import api, batches

    begin = 4 + int.from_bytes(data[:4], "big")
    if begin > len(data):
        return False
    try:
        meta: Any = api.MessageMetadata.FromString(data[4:begin])
    except DecodeError:
        return False
    if not meta.IsInitialized() or meta.publish_time > _LATEST or meta.compression not in (0, *batches.CODECS):
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


# --- Iggy ------------------------------------------------------------------------------------------------------------


def _iggy(sizes: tuple[int, int], header: int) -> Callable[[Suspect, bytes], bool]:
    """Covered is a message from behind its checksum on; `sizes`: where the lengths of headers and payload lie in it."""

    def sound(suspect: Suspect, data: bytes) -> bool:
        lengths = (int.from_bytes(data[at - 8 : at - 4], "little") for at in sizes)
        return header - 8 + sum(lengths) == len(data)

    return sound


_JUDGES: dict[str, Callable[[Suspect, bytes], bool]] = {
    "magic 2": _kafka_batch,
    "magic 1": _kafka_message,
    "magic 0": _kafka_message,
    "entry": _pulsar,
    "header-56": _iggy((48, 52), 56),
    "header-64": _iggy((48, 52), 64),
}
