"""Messages whose announced lengths broke: read all the same, where the checksum proves what the length was.

A run of messages tiles its frame only as long as every length in it is right. The lengths are covered by the message's
checksum, so a flipped bit in one of them is a broken message, not a frame that makes no sense: of the 64 neighbours of
the two lengths the one under which the checksum holds shows where the message really ends.
"""

from __future__ import annotations

from collections.abc import Callable

from dissectors.checksum import compute
from dissectors.iggy.message import Msg

Walk = Callable[[bytes, int, int], Msg | None]
"""(buf, pos, end) -> the message there, None where there is none."""

MENDABLE = 1 << 22  # bytes of a message or batch that are searched: every neighbour is hashed
TRIES = 4  # messages of a run whose neighbours are tried: one length broke, or this is no matter of a length
_LENGTHS_BYTES = 8  # two u32, side by side


def mended(walk: Walk, kind: str, buf: bytes, pos: int, end: int, lengths: int) -> list[Msg] | None:
    """The messages that tile buf[pos:end]; None where no length can be mended.

    lengths: where in a message its two lengths lie.
    """
    messages: list[Msg] = []
    found = False
    tries = 0
    while pos < end:
        message = walk(buf, pos, end)
        if message is None or compute(kind, memoryview(buf)[message.covered : message.end]) != message.stored:
            right = None if found or tries >= TRIES else _neighbour(walk, kind, buf, pos, end, lengths)
            tries += 1
            found = found or right is not None
            message = right or message
        if message is None:
            return None
        messages.append(message)
        pos = message.end
    return messages if found else None


def _neighbour(walk: Walk, kind: str, buf: bytes, pos: int, end: int, lengths: int) -> Msg | None:
    """The message at pos with one bit of its lengths flipped, if its checksum holds so."""
    if pos + lengths + _LENGTHS_BYTES > end:
        return None
    work = bytearray(buf[pos : min(end, pos + MENDABLE)])
    for at in range(lengths, lengths + _LENGTHS_BYTES):
        for bit in range(8):
            work[at] ^= 1 << bit
            message = walk(bytes(work), 0, len(work)) if _fits(work, lengths) else None
            if message is not None and compute(kind, memoryview(work)[message.covered : message.end]) == message.stored:
                return moved(message, pos)
            work[at] ^= 1 << bit
    return None


def moved(message: Msg, by: int) -> Msg:
    """A message that lies `by` bytes further on."""
    return message._replace(
        start=message.start + by,
        covered=message.covered + by,
        end=message.end + by,
        id_at=message.id_at + by,
        payload=message.payload + by,
        headers=message.headers + by,
    )


def _fits(work: bytearray, lengths: int) -> bool:
    """Whether the two lengths stay within the bytes at hand: most neighbours do not, and cost nothing."""
    first = int.from_bytes(work[lengths : lengths + 4], "little")
    second = int.from_bytes(work[lengths + 4 : lengths + 8], "little")
    return lengths + _LENGTHS_BYTES + first + second <= len(work)
