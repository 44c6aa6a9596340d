"""Record sets of Kafka: batches whose headers are kept, with other keys, values and headers.

Keys get pseudonyms, values and headers filler; lengths, offsets and times stay. Records that were compressed are
compressed again, to just as many bytes. The checksum is computed anew; where it did not hold, it differs from the right
one by the same bits as before. Records of control batches are the brokers' own and are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dissectors.checksum import CRC32, CRC32C, compute
from dissectors.kafka import record_batch
from dissectors.wire.codecs import CodecError, decompress, without_listeners
from pipelines.answers.sanitise.frame_copy import PAYLOAD, FrameCopy, NotUnderstoodError
from pipelines.answers.sanitise.pseudonyms import Pseudonyms
from pipelines.answers.sanitise.refit import refitted

_HEADER, _COVERED, _CRC, _CODEC, _CONTROL = 61, 21, 17, 7, 32
_OLD_HEADERS = {0: 18, 1: 26}  # magic -> where the key's length lies in a message of the older formats
_OLD_CRC, _OLD_COVERED = 12, 16
_UNPACKED = 64 << 20  # bytes of one batch

_BATCH = 2  # magic of batches


class _Form(NamedTuple):
    """Where the parts of a batch or message lie."""

    head: int  # bytes before its records, or its key
    crc: int


_FORMS = {0: _Form(18, _OLD_CRC), 1: _Form(26, _OLD_CRC), _BATCH: _Form(_HEADER, _CRC)}
"""By magic."""

Unpack = Callable[[bytes], "FilledData"]


class FilledData:
    """Data with places for filler: how much of the filler is noise decides how well it compresses."""

    def __init__(self, data: bytes, names: Pseudonyms) -> None:
        self.data = bytearray(data)
        self.names = names
        self.filler: list[tuple[int, int]] = []
        self.keys: list[tuple[int, int]] = []

    def put_key(self, start: int, end: int) -> None:
        """Put what stands for a key."""
        self.keys.append((start, end))
        self.data[start:end] = self.names.key(bytes(self.data[start:end]))

    def hide_keys(self) -> None:
        """Put filler for all keys: pseudonyms compress worse than keys that resemble each other."""
        for start, end in self.keys:
            self.data[start:end] = PAYLOAD * (end - start)

    @property
    def room(self) -> int:
        """Bytes of filler."""
        return sum(end - start for start, end in self.filler)

    def made(self, noise: int = 0) -> bytes:
        """The data; the last `noise` bytes of filler do not compress."""
        out, plain, random = bytearray(self.data), self.room - noise, memoryview(self.names.noise(noise))
        for start, end in self.filler:
            some = min(plain, end - start)
            rest = end - start - some
            out[start:end] = PAYLOAD * some + random[:rest]
            plain, random = plain - some, random[rest:]
        return bytes(out)


class RecordSets:
    """Writes record sets anew, and counts what could not be compressed to the same length."""

    def __init__(self) -> None:
        self.lost = 0  # batches whose records are filler now, that no longer decompresses
        self.batches: set[int] = set()  # index in the frame of each batch that was written

    def begin(self) -> None:
        """Another frame begins."""
        self.batches.clear()

    def record_set(self, copy: FrameCopy, start: int, end: int) -> None:
        """Write the batches of a record set, as far as they follow each other."""
        at = start
        while at + 17 <= end and copy.whole(at, at + 17):
            size = 12 + int.from_bytes(copy.source[at + 8 : at + 12], "big", signed=True)
            if size < 26:
                return
            self.batch(copy, at, min(at + size, end), cut=at + size > end)
            at += size

    def batch(self, copy: FrameCopy, at: int, end: int, *, cut: bool = False) -> None:
        """Write one batch or message. cut: its end is not there."""
        self.batches.add(at)
        magic = copy.source[at + 16]
        form = _FORMS.get(magic)
        if form is None:
            return
        head = min(end, at + form.head)
        if not copy.whole(at, head):
            return
        if cut or not copy.whole(at, end) or end - at < form.head:
            copy.keep(at, head)
            copy.put(at + form.crc, bytes(4))  # nobody can verify it, and it tells of the records
            return
        if magic != _BATCH:
            copy.put(at, self._old(copy.source[at:end], copy.names))
            return
        source = copy.source[at:end]
        made = source[:_HEADER] + self._records(source, copy.names)
        copy.put(at, _sealed(source, made, CRC32C, _CRC, _COVERED))

    def _records(self, batch: bytes, names: Pseudonyms) -> bytes:
        """What stands for the records of a whole batch."""
        attributes = int.from_bytes(batch[21:23], "big")
        if attributes & _CONTROL:
            return batch[_HEADER:]
        return self._packed(
            record_batch.CODECS[attributes & _CODEC], batch[_HEADER:], lambda data: _records(data, names)
        )

    def _packed(self, codec: str, data: bytes, unpack: Unpack) -> bytes:
        """What stands for data that is compressed by a codec; filler where there is none of this length."""
        try:
            if codec == "none":
                return unpack(data).made()
            with without_listeners():
                plain = unpack(decompress(codec, data, limit=_UNPACKED))
        except (CodecError, NotUnderstoodError):
            return b"\xff" * len(data)
        made = refitted(codec, plain.made, plain.room, len(data))
        if made is None:
            plain.hide_keys()
            made = refitted(codec, plain.made, plain.room, len(data))
        self.lost += made is None
        return made or b"\xff" * len(data)

    def _old(self, message: bytes, names: Pseudonyms) -> bytes:
        """What stands for a message of magic 0 or 1, which may hold others."""
        magic, codec = message[16], record_batch.CODECS[message[17] & _CODEC]
        out, value = bytearray(message), _OLD_HEADERS[magic]
        size = int.from_bytes(message[value : value + 4], "big", signed=True)
        key, value = value + 4, value + 4 + max(0, size)
        if value + 4 > len(message):
            return message[: key - 4] + b"\xff" * (len(message) - key + 4)
        out[key:value] = names.key(message[key:value])
        value += 4
        if codec == "none":
            out[value:] = PAYLOAD * (len(message) - value)
        else:
            out[value:] = self._packed(codec, message[value:], lambda data: self._inner(data, names))
        return _sealed(message, bytes(out), CRC32, _OLD_CRC, _OLD_COVERED)

    def _inner(self, data: bytes, names: Pseudonyms) -> FilledData:
        """The messages in a wrapper. Raises NotUnderstoodError."""
        return _Wrapped(data, names)


class _Wrapped(FilledData):
    """A set of uncompressed messages, whose checksums hold however much of them is noise."""

    def __init__(self, data: bytes, names: Pseudonyms) -> None:
        super().__init__(data, names)
        self._messages: list[tuple[int, int]] = []
        at = 0
        while at < len(data):
            end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
            magic = data[at + 16] if at + 16 < len(data) else -1
            key = at + _OLD_HEADERS.get(magic, 0) + 4
            value = key + max(0, int.from_bytes(data[key - 4 : key], "big", signed=True))
            if magic not in _OLD_HEADERS or end > len(data) or value + 4 > end or data[at + 17] & _CODEC:
                if not self._messages:
                    raise NotUnderstoodError("a wrapper that holds something else than messages")
                self.filler.append((at, len(data)))  # odd bytes behind the last message
                break
            self.put_key(key, value)
            self.filler.append((value + 4, end))
            self._messages.append((at, end))
            at = end
        self._source = data

    def made(self, noise: int = 0) -> bytes:
        """The messages with their checksums."""
        out = bytearray(super().made(noise))
        for at, end in self._messages:
            out[at:end] = _sealed(self._source[at:end], bytes(out[at:end]), CRC32, _OLD_CRC, _OLD_COVERED)
        return bytes(out)


def _sealed(source: bytes, made: bytes, kind: str, at: int, covered: int) -> bytes:
    """`made` with its checksum, which differs from the right one as that of `source` does."""
    stored = int.from_bytes(source[at : at + 4], "big")
    difference = stored ^ compute(kind, memoryview(source)[covered:])
    right = compute(kind, memoryview(made)[covered:])
    return made[:at] + (right ^ difference).to_bytes(4, "big") + made[at + 4 :]


def _records(data: bytes, names: Pseudonyms) -> FilledData:
    """The records of a batch of magic 2. Raises NotUnderstoodError.

    record: length, attributes 1, timestamp delta, offset delta, key length, key, value length, value, headers: count,
    each key length, key, value length, value. Lengths and deltas are zigzag varints.
    """
    plain, at = FilledData(data, names), 0
    while at < len(data):
        size, at = _varint(data, at)
        end = at + size
        if size < 6 or end > len(data):
            raise NotUnderstoodError("a record beyond its batch")
        _, at = _varint(data, at + 1)
        _, at = _varint(data, at)
        at = _keyed(plain, at, end)
        at = _filled(plain, at, end)
        count, at = _varint(data, at)
        for _ in range(count):
            at = _keyed(plain, at, end)
            at = _filled(plain, at, end)
        if at != end:
            raise NotUnderstoodError("a record of another length")
    return plain


def _keyed(plain: FilledData, at: int, most: int) -> int:
    start, end = _span(plain.data, at, most)
    plain.put_key(start, end)
    return end


def _filled(plain: FilledData, at: int, most: int) -> int:
    start, end = _span(plain.data, at, most)
    if end > start:
        plain.filler.append((start, end))
    return end


def _span(data: bytes | bytearray, at: int, most: int) -> tuple[int, int]:
    """[start, end) of what lies behind a length. Raises NotUnderstoodError."""
    size, start = _varint(data, at)
    end = start + max(0, size)
    if end > most:
        raise NotUnderstoodError("a value beyond its record")
    return start, end


def _varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """(a zigzag varint, index after it). Raises NotUnderstoodError."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value >> 1 ^ -(value & 1), at
        shift += 7
    raise NotUnderstoodError("a varint without an end")
