"""Absurd numbers, texts and bytes, and damage that keeps a size."""

from random import Random

NUMBERS = (
    0, 1, 2, 3, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF,
    1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1,
)  # fmt: skip
TEXTS = (
    "", "\0", "a\nb", "\x1b[2J", "\u202egnp", "<script>alert(1)</script>", "=cmd|' /C calc'!A0", "../../etc/passwd",
    "é" * 50, "x" * 300, "\ufeff", "\ud800", "%s%n", "'; drop table exchanges; --", "{}", "\x9b31m", "\U0001f600",
)  # fmt: skip


def number(rng: Random, bits: int = 64) -> int:
    """One that lies at a border, or next to it, as an unsigned number of so many bits."""
    return (rng.choice(NUMBERS) + rng.choice((0, 0, 0, 1, -1))) % (1 << bits)


def text(rng: Random) -> bytes:
    """A text that something may trip over; now and then no UTF-8 at all."""
    return (
        rng.randbytes(rng.randrange(12)) if rng.random() < 0.1 else rng.choice(TEXTS).encode("utf-8", "surrogatepass")
    )


def put(rng: Random, data: bytes, at: int, size: int, order: str = "") -> bytes:
    """A border number over `size` bytes."""
    byteorder = order or rng.choice(("big", "little"))
    value = number(rng, 8 * size).to_bytes(size, byteorder)  # type: ignore[arg-type]
    return (data[:at] + value + data[at + size :])[: max(len(data), at)]


def damage(rng: Random, data: bytes, most: int = 4) -> bytes:
    """Some bytes or integers changed; the size stays."""
    for _ in range(rng.randint(1, most)):
        if not data:
            break
        at, size = rng.randrange(len(data)), rng.choice((1, 1, 2, 4, 8))
        if rng.random() < 0.3:
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        else:
            data = put(rng, data, at, min(size, len(data) - at))
    return data


def resize(rng: Random, data: bytes) -> bytes:
    """Some bytes cut out, doubled or put in."""
    at = rng.randrange(len(data) + 1)
    some = min(rng.choice((1, 2, 4, 8, 30, 300)), len(data) - at)
    how = rng.random()
    if how < 0.4:
        return data[:at] + data[at + some :]
    if how < 0.7:
        return data[: at + some] + data[at:]
    return data[:at] + rng.choice((rng.randbytes(some), bytes(some), b"\xff" * some)) + data[at:]


def disturb(rng: Random, data: bytes) -> bytes:
    """Either of both."""
    return damage(rng, data) if rng.random() < 0.7 else resize(rng, data)
