"""Damage to Kafka: frame heads, lengths, record batches under right checksums, and bodies that no one would send."""

import gzip
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import cramjam
import crc32c
import lz4.frame
import zstandard

from dissectors.kafka import schema
from dissectors.kafka.schema import MessageSchema, SchemaField
from tests.fuzz.frames import Frames, Mutator, order
from tests.fuzz.seeds import CLIENT, SERVER, FrameOnWire
from tests.fuzz.values import damage, disturb, number, put, resize, text
from tests.kafka import wire
from tests.kafka.encoder import Encoder

CODECS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: lambda data: gzip.compress(data, mtime=0),  # which says the time otherwise
    2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    3: lz4.frame.compress,
    4: zstandard.compress,
    5: bytes,  # no such codec
}
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    0: bytes,
    1: gzip.decompress,
    2: cramjam.snappy.decompress_raw,
    3: lz4.frame.decompress,
    4: lambda data: zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 20),
}


def _sized(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def _pick(rng: Random, frames: Frames) -> int:
    return rng.randrange(len(frames))


def heads(rng: Random, frames: Frames) -> Frames:
    """Size, key, version, correlation id, client id."""
    i = _pick(rng, frames)
    data = frames[i].data
    frames[i] = frames[i]._replace(data=put(rng, data, *rng.choice(((0, 4), (4, 2), (6, 2), (8, 4), (12, 2))), "big"))
    return frames


def lengths(rng: Random, frames: Frames) -> Frames:
    """Numbers in the body; the size of the frame still fits."""
    i = _pick(rng, frames)
    frames[i] = frames[i]._replace(data=frames[i].data[:4] + damage(rng, frames[i].data[4:]))
    return frames


def sizes(rng: Random, frames: Frames) -> Frames:
    """Bytes put in or out of a body."""
    i = _pick(rng, frames)
    frames[i] = frames[i]._replace(data=_sized(resize(rng, frames[i].data[4:])))
    return frames


# --- record batches --------------------------------------------------------------------------------------------------


def _records(frames: Frames) -> list[bytes]:
    """The decompressed records of batches of magic 2 in these frames."""
    found: list[bytes] = []
    for frame in frames:
        at = frame.data.find(b"\2", 16)
        while 0 < at < len(frame.data) - 45 and len(found) < 4:
            start = at - 16
            size = int.from_bytes(frame.data[start + 8 : start + 12], "big")
            end = start + 12 + size
            body = frame.data[start + 21 : end]
            if (
                size >= 49
                and end <= len(frame.data)
                and crc32c.crc32c(body) == int.from_bytes(frame.data[at + 1 : at + 5], "big")
            ):
                with suppress(Exception):  # every library has errors of its own; what does not decompress is no seed
                    found.append(bytes(_DECODERS[body[1] & 7](body[40:])))
            at = frame.data.find(b"\2", at + 1)
    return found or [wire.record(0, b"key", b"value" * 9, [(b"h", b"v")]) + wire.record(1, None, None)]


def _batch(rng: Random, records: bytes) -> bytes:
    """A batch with a right checksum, whatever it says."""
    codec = rng.choice(tuple(CODECS) if len(records) < 1 << 18 else (1, 2, 3, 4))
    stored = CODECS[codec](records)
    if rng.random() < 0.2:
        stored = damage(rng, stored, 2)
    head = struct.pack(">hiqqqhii", codec | rng.choice((0, 0, 8, 16, 32, 64)), 1, 10**12, 10**12, -1, -1, -1, 2)
    if rng.random() < 0.6:
        head = put(rng, head, *rng.choice(((0, 2), (2, 4), (6, 8), (14, 8), (22, 8), (30, 2), (32, 4), (36, 4))), "big")
    body = head + stored
    tail = struct.pack(">ibI", 0, rng.choice((2, 2, 2, 2, 2, 2, 3, 1, -1)), crc32c.crc32c(body)) + body
    size = len(tail) if rng.random() < 0.9 else number(rng, 32)
    return struct.pack(">QI", number(rng) if rng.random() < 0.3 else 5, size) + tail


def _bomb(rng: Random) -> bytes:
    """Records that are small only as long as they are compressed."""
    size = 1 << rng.choice((18, 20, 24))
    return rng.choice((bytes(size), wire.zigzag(size) + bytes(size), b"\x80" * size))


def _message_set(rng: Random, depth: int) -> bytes:
    """Messages of magic 0 and 1, wrapped again and again."""
    inner = wire.message(number(rng, 62), b"value", magic=rng.randrange(2), key=b"k")
    for _ in range(depth):
        codec = rng.choice((1, 2, 3))
        body = struct.pack(">bb", magic := rng.randrange(3), codec) + (struct.pack(">Q", number(rng)) if magic else b"")
        stored = CODECS[codec](inner * rng.choice((1, 1, 2, 20)))
        body += b"\xff\xff\xff\xff" + struct.pack(">I", len(stored) if rng.random() < 0.9 else number(rng, 32)) + stored
        tail = struct.pack(">I", zlib.crc32(body)) + body
        inner = struct.pack(">QI", number(rng), len(tail) if rng.random() < 0.9 else number(rng, 32)) + tail
    return inner


def batches(rng: Random, frames: Frames) -> Frames:
    """Produced and fetched record sets: varints in compressed records, headers, bombs, wrappers in wrappers."""
    sets = []
    for _ in range(rng.randint(1, 3)):
        how = rng.random()
        if how < 0.1:
            sets.append(_batch(rng, _bomb(rng)))
        elif how < 0.3:
            sets.append(_message_set(rng, rng.choice((1, 2, 3, 12))))
        else:
            sets.append(_batch(rng, disturb(rng, rng.choice(_records(frames)))))
    if rng.random() < 0.3:
        sets[-1] = sets[-1][: rng.randrange(len(sets[-1]))]
    records, topic = b"".join(sets), text(rng).decode("utf-8", "ignore")[:200]
    i = _pick(rng, frames)
    connection, time = frames[i].connection, frames[i].time
    if rng.random() < 0.5:
        acks = rng.choice((-1, 0, 1))
        made = [
            (CLIENT, wire.produce(77, {(topic, 0): records}, acks)),
            (SERVER, wire.produced(77, [(topic, 0, 0, number(rng, 62))])),
        ]
    else:
        made = [(CLIENT, wire.fetch(78, [(topic, [0])])), (SERVER, wire.fetched(78, {(topic, 0): records}))]
    frames[i:i] = [FrameOnWire(connection, direction, time, data) for direction, data in made]
    return frames


# --- bodies ----------------------------------------------------------------------------------------------------------


class AbsurdEncoder(Encoder):
    """Bodies that the schema allows, of values that nobody sends."""

    def __init__(self, message: MessageSchema, version: int, rng: Random) -> None:
        super().__init__(message, version, rng)
        self.left = 300  # values; arrays of arrays of arrays end somewhere

    def one(self, field: SchemaField) -> tuple[Any, bytes]:
        self.left -= 1
        if field.struct or self.left < 0 or self.rng.random() < 0.3:
            return super().one(field)
        if field.type == "string":
            data = text(self.rng)
            return "", self.length(len(data), "h") + data
        if field.type in ("bytes", "records"):
            data = self.rng.choice((b"", text(self.rng), _message_set(self.rng, 1), self.rng.randbytes(60)))
            return b"", self.length(len(data), "i") + data
        if field.type == "float64":
            return 0, self.rng.choice(
                (b"\x7f\xf0" + bytes(6), b"\x7f\xf8" + bytes(6), b"\xff" * 8, b"\x7f\xef" + b"\xff" * 6)
            )
        return super().one(field) if field.type in ("bool", "uuid") else self.integer(field)

    def integer(self, field: SchemaField) -> tuple[int, bytes]:
        size = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}[field.type]
        return 0, number(self.rng, 8 * size).to_bytes(size, "big")

    def field(self, field: SchemaField) -> tuple[Any, bytes]:
        if field.array and self.left < 0:
            return [], self.length(0, "i")
        return super().field(field)


def bodies(rng: Random, frames: Frames) -> Frames:
    """A request and its answer of any API and version, all values absurd."""
    api = rng.choice(list(schema.apis().values()))
    ask, answer = schema.message(f"{api.name}Request"), schema.message(f"{api.name}Response")
    version = rng.choice(list(ask.versions.each()) or [0])
    request, response = (AbsurdEncoder(message, version, rng).body()[1] for message in (ask, answer))
    how = rng.random()
    if how < 0.2:
        request = disturb(rng, request)
    elif how < 0.4:
        response = disturb(rng, response)
    i = _pick(rng, frames)
    number_ = rng.choice((number(rng, 31), 99))
    made = [
        (CLIENT, wire.request(api.key, version, number_, request)),
        (SERVER, wire.response(api.key, version, number_, response)),
    ]
    at = [FrameOnWire(frames[i].connection, direction, frames[i].time, data) for direction, data in made]
    frames[i:i] = at if rng.random() < 0.8 else rng.sample(at, 1)
    return frames


MUTATORS: dict[str, Mutator] = {
    "kafka heads": heads, "kafka lengths": lengths, "kafka sizes": sizes, "kafka order": order,
    "kafka batches": batches, "kafka bodies": bodies,
}  # fmt: skip
