"""Damage to TLS records, which lie in TCP payloads one behind the other: u8 type, u16 version, u16 length, content."""

from random import Random

from tests.fuzz.seeds import FrameOnWire
from tests.fuzz.values import disturb, put


def records(data: bytes) -> list[bytes]:
    """The records of some bytes; what is left of the last one."""
    out, at = [], 0
    while at + 5 <= len(data):
        size = 5 + int.from_bytes(data[at + 3 : at + 5], "big")
        out.append(data[at : at + size])
        at += size
    return [*out, data[at:]] if at < len(data) else out


def heads(rng: Random, found: list[bytes]) -> list[bytes]:
    """Type, version or length of a record."""
    i = rng.randrange(len(found))
    found[i] = put(rng, found[i], *rng.choice(((0, 1), (1, 2), (3, 2))), "big")
    return found


def contents(rng: Random, found: list[bytes]) -> list[bytes]:
    """What is in a record, with a length that fits."""
    i = rng.randrange(len(found))
    body = disturb(rng, found[i][5:])
    found[i] = found[i][:3] + (len(body) % 65536).to_bytes(2, "big") + body
    return found


def order(rng: Random, found: list[bytes]) -> list[bytes]:
    """Records lost, doubled, swapped; empty ones, and ones of another type between."""
    i = rng.randrange(len(found))
    how = rng.randrange(4)
    if how == 0:
        del found[i]
    elif how == 1:
        found.insert(i, found[i])
    elif how == 2:
        found.insert(rng.randrange(len(found)), found.pop(i))
    else:
        extra = (
            bytes([rng.choice((20, 21, 22, 23, 24, 99))]) + b"\3\3" + rng.choice((b"\0\0", b"\0\1\1", b"\0\2\2\x28"))
        )
        found[i:i] = [extra] * rng.choice((1, 40))
    return found


def split(rng: Random, found: list[bytes]) -> list[bytes]:
    """One record's content in many small ones."""
    i = rng.randrange(len(found))
    head, body = found[i][:3], found[i][5:]
    step = rng.randint(1, 64)
    found[i : i + 1] = [
        head + len(body[a : a + step]).to_bytes(2, "big") + body[a : a + step] for a in range(0, len(body), step)
    ]
    return found


def mutate(rng: Random, frames: list[FrameOnWire]) -> list[FrameOnWire]:
    """Some of the pieces of a TLS connection, by any of these."""
    for i in rng.sample(range(len(frames)), min(len(frames), rng.randint(1, 3))):
        found = records(frames[i].data)
        if found:
            mutated = rng.choice((heads, contents, contents, order, split))(rng, found)
            frames[i] = frames[i]._replace(data=b"".join(mutated))
    return frames
