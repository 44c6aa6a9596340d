"""zstd (RFC 8878): one or more frames, with or without a content size."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from dissectors.wire.codecs.common import (
    SKIPPABLE,
    SKIPPABLE_MASK,
    Data,
    cut_short,
    damaged,
    joined,
    pieces,
    skippable,
    too_large,
)

_MAGIC = 0xFD2FB528
_START = _MAGIC.to_bytes(4, "little")
_SINGLE = 0x20  # in the descriptor: no window size follows
_DICTIONARY = (0, 1, 2, 4)  # bytes of its id, by the lowest bits of the descriptor
_CONTENT = (0, 2, 4, 8)  # bytes of the content size, by the highest bits; with _SINGLE at least one
_BLOCK = 128 * 1024  # no block holds more
_STEP = 1 << 20


def zstd_frames(data: Data, limit: int) -> bytes:
    """The content of all frames. Raises CodecError."""
    view = memoryview(data)
    if view[:4] == _START:
        end, content, most = extent(view, 0)
        if end == len(view):  # one frame: the common case
            return _frame(view, limit, content, most)
    at = 0
    parts: list[bytes] = []
    turns = pieces("zstd", data)
    while at < len(view):
        next(turns)
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic & SKIPPABLE_MASK == SKIPPABLE:
            at = skippable("zstd", view, at)
            continue
        if magic != _MAGIC:
            damaged("zstd", "no frame starts here") if len(view) - at >= 4 else cut_short("zstd", len(view))
        end, content, most = extent(view, at)
        part = _frame(view[at:end], limit, content, most)
        parts.append(part)
        limit -= len(part)
        at = end
    return joined(parts)


def extent(view: memoryview, at: int) -> tuple[int, int | None, int]:
    """Where the frame at `at` ends, its content size where given, and what its blocks can at most hold.

        magic 4 | descriptor 1 | window 0-1 | dictionary id 0-4 | content size 0-8 | blocks | checksum 0 or 4

    A block is 3 bytes, little-endian (bit 0 last, bits 1-2 type, the rest size), and its content: `size` bytes, or one
    byte to repeat (type 1). The library stops silently where its input does; this walk is what notices a cut.
    """
    size = len(view)
    if size - at < 6:
        cut_short("zstd", size)
    flags = view[at + 4]
    end = at + (5 if flags & _SINGLE else 6) + _DICTIONARY[flags & 3]
    width = _CONTENT[flags >> 6] or (1 if flags & _SINGLE else 0)
    content = None
    if width:
        content = int.from_bytes(view[end : end + width], "little") + (256 if width == 2 else 0)
        end += width
    most = last = 0
    while not last:
        if end + 3 > size:
            cut_short("zstd", size)
        block = view[end] | view[end + 1] << 8 | view[end + 2] << 16
        last, kind, length = block & 1, block >> 1 & 3, block >> 3
        if length > _BLOCK or kind == 3:
            damaged("zstd", f"no block is like this: {block:06x}")
        most += _BLOCK if kind == 2 else length
        end += 4 if kind == 1 else 3 + length
    end += 4 if flags & 4 else 0
    if end > size:
        cut_short("zstd", size)
    return end, content, most


def _frame(frame: memoryview, limit: int, content: int | None, most: int) -> bytes:
    """The content of a frame; content, most: as extent has them."""
    if content is not None and content > limit:
        too_large("zstd", content, limit)
    if content is not None and content > most:
        damaged("zstd", f"its blocks hold at most {most} bytes, not {content}")
    library = _library()
    decompress = library.decompressor.decompress
    try:
        if content is not None:
            return decompress(frame, allow_extra_data=False) if content else _empty(frame)
        if most <= min(limit, _STEP):  # in one call: what is allocated for it is bounded already
            return decompress(frame, max_output_size=max(1, most), allow_extra_data=False)
        parts = []
        with library.stream(frame) as reader:
            while part := reader.read(min(_STEP, limit + 1)):
                if len(part) > limit:
                    too_large("zstd", f"more than {limit}", limit)
                parts.append(part)
                limit -= len(part)
        return b"".join(parts)
    except library.error as error:
        damaged("zstd", error)


class _Library(threading.local):
    """The library, with a decompressor for frames in one call: threads must not share one."""

    def __init__(self) -> None:
        import zstandard

        self.decompressor = zstandard.ZstdDecompressor()
        self.error = zstandard.ZstdError

    @staticmethod
    def stream(frame: memoryview) -> Any:
        """A reader of a frame; its window goes when it does."""
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(frame)


@cache
def _library() -> _Library:
    return _Library()


def _empty(frame: memoryview) -> bytes:
    """A frame that says it is empty; the library would believe it without a look."""
    if _Library.stream(frame).read(1):
        damaged("zstd", "it says that it is empty, but is not")
    return b""
