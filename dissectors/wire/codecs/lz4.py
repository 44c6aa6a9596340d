"""lz4: frames, one or more, also with the wrong header checksum of Kafka's message format 0; bare blocks."""

from __future__ import annotations

from dissectors.wire.codecs.common import (
    SKIPPABLE,
    SKIPPABLE_MASK,
    CodecError,
    Data,
    cut_short,
    damaged,
    joined,
    pieces,
    skippable,
    too_large,
)

_RATIO = 256  # a length byte of 255 adds 255 bytes of output
_MAGIC = 0x184D2204
_STEP = 1 << 20  # the decompressor allocates what it is allowed to return


def lz4_block(data: Data, size: int) -> bytes:
    """The content of a bare block, `size` bytes. Raises CodecError."""
    import lz4.block

    if size > _RATIO * len(data):
        damaged("lz4-block", f"{len(data)} bytes cannot hold {size}")
    try:
        out = bytes(lz4.block.decompress(data, uncompressed_size=size))
    except (lz4.block.LZ4BlockError, ValueError) as error:
        damaged("lz4-block", error)
    if len(out) != size:
        raise CodecError(f"lz4-block: {len(out)} bytes came out where {size} were announced")
    return out


def lz4_frames(data: Data, limit: int) -> bytes:
    """The content of all frames. Raises CodecError."""
    view, at = memoryview(data), 0
    parts: list[bytes] = []
    turns = pieces("lz4", data)
    while at < len(view):
        next(turns)
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic & SKIPPABLE_MASK == SKIPPABLE:
            at = skippable("lz4", view, at)
        elif magic == _MAGIC:
            end = _end(view, at)
            limit = _frame(bytes(view[at:end]), limit, parts)
            at = end
        else:
            damaged("lz4", "no frame starts here")
    return joined(parts)


def _end(view: memoryview, at: int) -> int:
    """Where the frame at `at` ends: behind its header are blocks.

    A block is 4 bytes, little-endian (the size; the highest bit: not compressed), its content, and a checksum of 4
    bytes where bit 4 of the frame's flags is set. A size of 0 ends the frame; where bit 2 is set, a checksum follows.
    """
    flags = view[at + 4] if at + 4 < len(view) else 0
    end = at + 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    checksum = 4 if flags & 16 else 0
    size = 1
    while size:
        if end + 4 > len(view):
            cut_short("lz4", len(view))
        size = int.from_bytes(view[end : end + 4], "little") & 0x7FFFFFFF
        end += 4 + size + (checksum if size else 0)
    end += 4 if flags & 4 else 0
    if end > len(view):
        cut_short("lz4", len(view))
    return end


def _frame(data: bytes, limit: int, parts: list[bytes]) -> int:
    """Append one frame's output to `parts`; the ceiling that is left."""
    import lz4.frame

    data, content = _header(data)
    if content is not None:
        if content > limit:
            too_large("lz4", content, limit)
        if content > _RATIO * len(data):
            damaged("lz4", f"{len(data)} bytes cannot hold {content}")
    stream = lz4.frame.LZ4FrameDecompressor()
    source = data
    step = min(max(4 * len(data), 1024), _STEP) if content is None else content + 1
    while not stream.eof:
        try:
            part = stream.decompress(source, max_length=min(step, limit + 1))
        except (RuntimeError, EOFError, ValueError) as error:
            damaged("lz4", error)
        if len(part) > limit:
            too_large("lz4", f"more than {limit}", limit)
        parts.append(part)
        limit -= len(part)
        if not stream.eof and stream.needs_input:
            cut_short("lz4", len(data))
        source = b""
    return limit


def _header(data: bytes) -> tuple[bytes, int | None]:
    """The frame with a right header checksum, and the content size where its header has it.

    0  4  magic
    4  1  flags       bit 3: content size follows, bit 0: dictionary id follows
    5  1  block size
    6  8  content size, where given
       4  dictionary id, where given
       1  second byte of the XXH32 of flags to dictionary id; Kafka's format 0 took in the magic by mistake
    """
    import xxhash

    sized, dictionary = data[4] & 8, data[4] & 1
    end = 6 + (8 if sized else 0) + (4 if dictionary else 0)
    content = int.from_bytes(data[6:14], "little") if sized else None
    right = xxhash.xxh32_intdigest(data[4:end]) >> 8 & 0xFF
    if data[end] != right and data[end] == xxhash.xxh32_intdigest(data[:end]) >> 8 & 0xFF:
        data = data[:end] + bytes([right]) + data[end + 1 :]
    return data, content
