"""What all codecs share: errors, and how many pieces are believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

Data = bytes | memoryview
SKIPPABLE, SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0  # magic of frames to skip, in lz4 and zstd


class CodecError(ValueError):
    """The bytes cannot be decompressed: damaged, cut short, or larger than the ceiling."""


class TooLargeError(CodecError):
    """More would come out than the ceiling allows."""


def too_large(codec: str, size: int | str, limit: int) -> NoReturn:
    """Raise TooLargeError."""
    raise TooLargeError(f"{codec}: {size} bytes would come out, over the ceiling of {limit}")


def damaged(codec: str, error: object) -> NoReturn:
    """Raise CodecError: the bytes are not what the codec writes."""
    raise CodecError(f"{codec}: damaged ({error})") from None


def cut_short(codec: str, have: int) -> NoReturn:
    """Raise CodecError: the bytes end too early."""
    raise CodecError(f"{codec}: cut short after {have} bytes")


_FEW_PIECES = 1000  # that input of any size may consist of
_PIECE = 256  # bytes of input that each piece beyond takes on average: writers make pieces of 32 KiB and more


def pieces(codec: str, data: Data) -> Iterator[None]:
    """A turn for each frame, member or block. Raises CodecError where they are too many for so few bytes."""
    for _ in range(_FEW_PIECES + len(data) // _PIECE):
        yield
    damaged(codec, f"{len(data)} bytes in more pieces than anybody writes")


def joined(parts: list[bytes]) -> bytes:
    """The output of all pieces; of one, itself."""
    return parts[0] if len(parts) == 1 else b"".join(parts)


def skippable(codec: str, data: Data, at: int) -> int:
    """Index after the skippable frame at `at`."""
    end = at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
    if at + 8 > len(data) or end > len(data):
        cut_short(codec, len(data))
    return end
