"""Damage to Pulsar: sizes, protobuf fields, entries under right checksums, and commands that no one would send.

Frame: u32 total size | u32 command size | command [| entry].
Entry: [0e 02 | u32 size | broker metadata] [| 0e 01 | u32 crc32c] | u32 size | metadata | payload.
"""

import gzip
import struct
import zlib
from random import Random
from typing import Any

import cramjam
import lz4.block
import zstandard

from dissectors.pulsar import api
from tests.fuzz.frames import Frames, Mutator, order
from tests.fuzz.seeds import CLIENT, SERVER, FrameOnWire
from tests.fuzz.values import damage, disturb, number, put, resize, text
from tests.pulsar import wire

Fields = list[tuple[int, int, Any]]  # field number, wire type, value

_COMPRESS = {
    0: bytes,
    1: lambda data: lz4.block.compress(data, store_size=False),
    2: zlib.compress,
    3: zstandard.compress,
    4: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    5: lambda data: gzip.compress(data, mtime=0),
}


def _parts(data: bytes) -> tuple[bytes, bytes]:
    """(command, entry) of a frame."""
    size = int.from_bytes(data[4:8], "big")
    return data[8 : 8 + size], data[8 + size :]


def _frame(command: bytes, entry: bytes) -> bytes:
    return struct.pack(">II", len(command) + len(entry) + 4, len(command)) + command + entry


# --- protobuf --------------------------------------------------------------------------------------------------------


def parse(data: bytes) -> Fields | None:
    """The fields of a message; None where the bytes are none."""
    fields: Fields = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key is None or not key >> 3:
            return None
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            if value is None:
                return None
            fields.append((key >> 3, kind, value))
            continue
        size: int | None = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            return None
        fields.append((key >> 3, kind, data[at : at + size]))
        at += size
    return fields


def _varint(data: bytes, at: int) -> tuple[int | None, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    return None, at


def write(fields: Fields) -> bytes:
    """The bytes of some fields."""
    out = b""
    for number_, kind, value in fields:
        out += wire.varint(number_ << 3 | kind)
        out += wire.varint(value) if kind == 0 else (wire.varint(len(value)) if kind == 2 else b"") + value
    return out


def message(rng: Random, data: bytes, depth: int = 0) -> bytes:
    """A message with one of its fields, or of those of a message in it, mutated."""
    fields = parse(data)
    if not fields:
        return disturb(rng, data)
    i = rng.randrange(len(fields))
    number_, kind, value = fields[i]
    if kind == 2 and depth < 6 and rng.random() < 0.7 and parse(value):
        fields[i] = (number_, kind, message(rng, value, depth + 1))
        return write(fields)
    how = rng.randrange(8)
    if how == 0:
        del fields[i]
    elif how == 1:
        fields[i:i] = [fields[i]] * rng.choice((1, 2, 500))
    elif how == 2:
        rng.shuffle(fields)
    elif how == 3:
        fields[i] = (rng.choice((1, 2, 15, 16, 19000, (1 << 29) - 1)), kind, value)
    elif how == 4:
        fields[i] = (number_, 0, number(rng)) if kind == 2 else (number_, 2, text(rng))
    elif how == 5:
        raw = write(fields)
        return raw + rng.choice((b"\x80" * 11, b"\x0b", b"\x0a\xff\xff\xff\xff\x07", b"\x0f", b"\0"))
    else:
        fields[i] = (number_, kind, number(rng) if kind == 0 else text(rng) if kind == 2 else rng.randbytes(len(value)))
    return write(fields)


# --- mutators --------------------------------------------------------------------------------------------------------


def sizes(rng: Random, frames: Frames) -> Frames:
    """The sizes of a frame and of its command."""
    i = rng.randrange(len(frames))
    frames[i] = frames[i]._replace(data=put(rng, frames[i].data, rng.choice((0, 4)), 4, "big"))
    return frames


def fields(rng: Random, frames: Frames) -> Frames:
    """A field of a command; the sizes fit."""
    i = rng.randrange(len(frames))
    command, entry = _parts(frames[i].data)
    frames[i] = frames[i]._replace(data=_frame(message(rng, command), entry))
    return frames


def lengths(rng: Random, frames: Frames) -> Frames:
    """Bytes of a command or an entry; the sizes fit."""
    i = rng.randrange(len(frames))
    command, entry = _parts(frames[i].data)
    if entry and rng.random() < 0.6:
        entry = disturb(rng, entry[:200]) + entry[200:]
    else:
        command = damage(rng, command)
    frames[i] = frames[i]._replace(data=_frame(command, entry))
    return frames


def _metadata(rng: Random, frames: Frames) -> tuple[bytes, bytes]:
    """(metadata, payload) of an entry in these frames, else of one made here."""
    for frame in rng.sample(frames, min(len(frames), 20)):
        _, entry = _parts(frame.data)
        at = entry.find(b"\x0e\x01")
        if 0 <= at < 200:
            size = int.from_bytes(entry[at + 6 : at + 10], "big")
            if at + 10 + size <= len(entry):
                return entry[at + 10 : at + 10 + size], entry[at + 10 + size :]
    batch = b"".join(wire.single(b"value" * 5, (2, "k")) for _ in range(3))
    return wire.metadata(1, (11, 3)), batch


def entries(rng: Random, frames: Frames) -> Frames:
    """Metadata, compression, batches and broker metadata under a right checksum."""
    meta, payload = _metadata(rng, frames)
    if rng.random() < 0.6:
        meta = message(rng, meta)
    if rng.random() < 0.4:
        plain = rng.choice((payload, bytes(1 << rng.choice((10, 18, 24)))))
        codec = rng.choice(tuple(_COMPRESS) if len(plain) < 1 << 17 else (1, 2, 3, 4))
        payload = _COMPRESS[codec](plain)
        size = len(plain) if rng.random() < 0.6 else number(rng, 32)
        meta += wire.message([(8, codec), (9, size)])
    if rng.random() < 0.5:
        payload = disturb(rng, payload[:300]) + payload[300:]
    if rng.random() < 0.3:
        meta += wire.message([(11, number(rng, 31))])
    if rng.random() < 0.3:  # a chunk
        meta += wire.message([(26, "chunks"), (27, number(rng, 31)), (28, number(rng, 31)), (29, number(rng, 31))])
    broker = rng.choice((None, None, b"\x08\x05", rng.randbytes(9), message(rng, b"\x08\x05\x10\x07")))
    made = wire.entry(meta, payload, magic=rng.random() < 0.9, broker=broker)
    if rng.random() < 0.2:
        made = resize(rng, made)
    i = rng.randrange(len(frames))
    side = rng.choice((CLIENT, SERVER))
    count = rng.choice((1, 3, number(rng, 31)))
    data = wire.send(number(rng), made, (3, count)) if side == CLIENT else wire.delivery(made, number(rng), number(rng))
    frames[i:i] = [FrameOnWire(frames[i].connection, side, frames[i].time, data)]
    return frames


def absurd(rng: Random, descriptor: Any, depth: int = 0) -> bytes:
    """A message that the schema allows, of absurd values."""
    out = b""
    for field in descriptor.fields:
        if rng.random() < (0.3 if depth < 3 else 0.8) and not field.is_required:
            continue
        for _ in range(rng.choice((1, 1, 3, 40)) if field.is_repeated and depth < 2 else 1):
            if field.message_type is not None:
                if depth < 5:
                    inner = absurd(rng, field.message_type, depth + 1)
                    out += wire.varint(field.number << 3 | 2) + wire.varint(len(inner)) + inner
            elif field.type in (9, 12):
                value = text(rng)
                out += wire.varint(field.number << 3 | 2) + wire.varint(len(value)) + value
            elif field.type == 1:
                out += wire.varint(field.number << 3 | 1) + struct.pack(
                    "<d", rng.choice((float("nan"), float("inf"), -0.0, 1e308))
                )
            else:
                values = [] if field.enum_type is None else list(field.enum_type.values_by_number)
                value_ = rng.choice(values) if values and rng.random() < 0.7 else number(rng)
                out += wire.varint(field.number << 3) + wire.varint(value_)
    return out


def commands(rng: Random, frames: Frames) -> Frames:
    """A command of any kind, all values absurd."""
    kind, name = rng.choice(list(api.MESSAGES.items()))
    body = absurd(rng, api.DESCRIPTOR.message_types_by_name[name])
    by_type = api.DESCRIPTOR.message_types_by_name["BaseCommand"].enum_types_by_name["Type"].values_by_number
    code = kind if kind in by_type else 2
    command = wire.message([(1, code)]) + wire.varint(kind << 3 | 2) + wire.varint(len(body)) + body
    i = rng.randrange(len(frames))
    made = FrameOnWire(frames[i].connection, rng.choice((CLIENT, SERVER)), frames[i].time, _frame(command, b""))
    frames[i:i] = [made] * rng.choice((1, 1, 5))
    return frames


MUTATORS: dict[str, Mutator] = {
    "pulsar sizes": sizes, "pulsar fields": fields, "pulsar lengths": lengths, "pulsar entries": entries,
    "pulsar commands": commands, "pulsar order": order,
}  # fmt: skip
