"""Damage to Iggy: lengths and codes of all framings, bodies of a fitting size, and bodies that no one would send.

Legacy: u32 length | u32 code | body, answered by u32 status | u32 length | body. VSR: a header of 256 bytes, its size
at 48, command at 60, operation at 176 (request) or 208 (reply).
"""

import re
import struct
from random import Random

from dissectors.iggy import layouts, tables
from tests.fuzz.frames import Frames, Mutator, order
from tests.fuzz.seeds import CLIENT, SERVER, FrameOnWire
from tests.fuzz.values import damage, disturb, number, put, resize, text
from tests.iggy import wire

_LEGACY, _VSR = 8, 256


def _is_vsr(data: bytes) -> bool:
    return len(data) >= _VSR and int.from_bytes(data[48:52], "little") == len(data)


def heads(rng: Random, frames: Frames) -> Frames:
    """Length, code, status; of VSR also command, operation, ids."""
    i = rng.randrange(len(frames))
    data = frames[i].data
    places: tuple[tuple[int, int], ...] = ((0, 4), (4, 4))
    if _is_vsr(data):
        places = (
            (48, 4),
            (60, 1),
            (128, 8),
            (144, 8),
            (160, 8),
            (168, 8),
            (176, 1),
            (184, 8),
            (196, 4),
            (200, 8),
            (208, 1),
            (216, 4),
        )
    frames[i] = frames[i]._replace(data=put(rng, data, *rng.choice(places), "little"))
    return frames


def _sized(frame: FrameOnWire, body: bytes) -> bytes:
    """The frame with another body."""
    if _is_vsr(frame.data):
        return frame.data[:48] + struct.pack("<I", _VSR + len(body)) + frame.data[52:_VSR] + body
    if frame.direction == CLIENT:
        return struct.pack("<I", 4 + len(body)) + frame.data[4:8] + body
    return frame.data[:4] + struct.pack("<I", len(body)) + body


def lengths(rng: Random, frames: Frames) -> Frames:
    """Numbers in a body."""
    i = rng.randrange(len(frames))
    head = _VSR if _is_vsr(frames[i].data) else _LEGACY
    frames[i] = frames[i]._replace(data=frames[i].data[:head] + damage(rng, frames[i].data[head:]))
    return frames


def sizes(rng: Random, frames: Frames) -> Frames:
    """Bytes put into or out of a body, whose length fits."""
    i = rng.randrange(len(frames))
    head = _VSR if _is_vsr(frames[i].data) else _LEGACY
    frames[i] = frames[i]._replace(data=_sized(frames[i], resize(rng, frames[i].data[head:])))
    return frames


# --- bodies ----------------------------------------------------------------------------------------------------------

_FIXED = {"u8": 1, "u16": 2, "u32": 4, "i32": 4, "f32": 4, "bool": 1, "u64": 8, "u64be": 8, "u128": 16, "packed": 4}
_FIELD = re.compile(r"(?P<name>\w+):(?P<maybe>\??)(?P<type>\([^()]*(?:\([^()]*\)[^()]*)*\)|\w+)(?P<rest>\S*)")


def _text(rng: Random, longest: int) -> bytes:
    return text(rng)[:longest]


def _value(rng: Random, kind: str, rest: str) -> bytes:
    if kind in _FIXED:
        only = re.search(r"=(\d+)", rest)
        small = rng.choice((0, 1, 2, 3)) if rng.random() < 0.5 else number(rng, 8 * _FIXED[kind])
        return (int(only[1]) if only else small % (1 << 8 * _FIXED[kind])).to_bytes(_FIXED[kind], "little")
    if kind in ("str8", "secret8"):
        return bytes([len(value := _text(rng, 255))]) + value
    if kind in ("str32", "bytes32", "opaque32", "options32", "permissions32"):
        return struct.pack("<I", len(value := _text(rng, 999))) + value
    if kind == "secret":
        return bytes(32)
    if kind in ("identifier", "partitioning", "consumer", "consumer_id"):
        named = bytes([2, len(value := _text(rng, 255))]) + value
        numbered = b"\1\4" + struct.pack("<I", number(rng, 32))
        lead = bytes([rng.choice((1, 2, 3))]) if kind == "consumer" else b""
        return rng.choice((wire.STREAM, named, numbered, b"\1\0")) if not lead else lead + rng.choice((named, numbered))
    if kind == "strategy":
        return bytes([rng.choice((1, 2, 3, 4, 5, 255))]) + struct.pack("<Q", number(rng))
    return rng.choice((b"", rng.randbytes(5), text(rng), wire.message_b(b"value", size=64, kind="xxh3")))


def body(rng: Random, fields: str, depth: int = 0) -> bytes:
    """A body of these fields, all values absurd."""
    out = b""
    for match in _FIELD.finditer(fields):
        if match["maybe"]:
            there = rng.random() < 0.6
            out += bytes([there if rng.random() < 0.9 else 7])
            if not there:
                continue
        for _ in range(rng.choice((0, 1, 3)) if "[" in match["rest"] and depth < 3 else 1):
            if match["type"].startswith("("):
                out += body(rng, match["type"][1:-1], depth + 1)
            else:
                out += _value(rng, match["type"], match["rest"])
    return out


def bodies(rng: Random, frames: Frames) -> Frames:
    """A command of any release and its answer, as their layouts have it."""
    code = rng.choice(list(tables.commands()))
    made = []
    for side, direction in ((layouts.REQUEST, CLIENT), (layouts.RESPONSE, SERVER)):
        found = layouts.candidates(side, code, 0)
        data = body(rng, rng.choice(found).text) if found else text(rng)
        made.append((direction, disturb(rng, data) if rng.random() < 0.2 else data))
    i = rng.randrange(len(frames))
    status = rng.choice((0, 0, 0, number(rng, 32)))
    if _is_vsr(frames[i].data):
        number_ = number(rng)
        framed = [
            wire.vsr_request(2, made[0][1], id=number_, code=code),
            wire.vsr_reply(2, made[1][1], id=number_, status=status),
        ]
    else:
        framed = [wire.request(code, made[0][1]), wire.answer(made[1][1], status)]
    frames[i:i] = [
        FrameOnWire(frames[i].connection, direction, frames[i].time, data)
        for (direction, _), data in zip(made, framed, strict=True)
    ]
    return frames


def messages(rng: Random, frames: Frames) -> Frames:
    """Sends and polls whose messages lie about their sizes and their number."""
    payloads = [text(rng) for _ in range(rng.choice((0, 1, 3)))]
    headers = rng.choice((b"", wire.header_plain("k", 1, b"v"), wire.header_typed("k", 99, b"v"), rng.randbytes(9)))
    count = rng.choice((len(payloads), number(rng, 32)))
    sends = [wire.STREAM + wire.TOPIC + wire.partition(1) + wire.send_a(payloads, headers)]
    sends += [wire.send_b(payloads, size=size, headers=headers) for size in (56, 64)]
    polls = [wire.polled(wire.poll_a(payloads), count)]
    polls += [
        wire.polled(wire.poll_b(payloads, size=56, kind="crc32"), count),
        wire.polled(wire.batch(payloads), count),
    ]
    made = [wire.request(101, disturb(rng, rng.choice(sends))), wire.OK, wire.request(100, wire.poll_06())]
    made.append(wire.answer(disturb(rng, rng.choice(polls))))
    i = rng.randrange(len(frames))
    if _is_vsr(frames[i].data):
        made = [
            wire.vsr_request(160, disturb(rng, wire.send_vsr(payloads)), id=9),
            wire.vsr_reply(160, bytes(4), id=9),
            wire.vsr_request(2, wire.poll_06(), id=10, code=100),
            wire.vsr_reply(2, disturb(rng, polls[2]), id=10),
        ]
    connection, time = frames[i].connection, frames[i].time
    frames[i:i] = [FrameOnWire(connection, n % 2, time, data) for n, data in enumerate(made)]
    return frames


MUTATORS: dict[str, Mutator] = {
    "iggy heads": heads, "iggy lengths": lengths, "iggy sizes": sizes, "iggy bodies": bodies, "iggy messages": messages,
    "iggy order": order,
}  # fmt: skip
