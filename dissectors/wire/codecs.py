"""Compression codecs, as brokers' clients write them: whole input in, whole output out, under a ceiling.

    gzip       RFC 1952, one or more members
    zlib       RFC 1950, one stream; Pulsar's Java clients flush it, but never end it
    snappy     the raw format, the block framing of snappy-java ("xerial"), or snappy's own framing format, as Pulsar's
               Rust client writes it; distinguished by content
    lz4        LZ4 frames, one or more; also with the wrong header checksum of Kafka's message format 0
    lz4-block  one bare LZ4 block; it does not know its size, so `size` must be given
    zstd       RFC 8878, one or more frames, with or without a content size

Nothing is believed before it is checked: a size announced in a header is compared with the ceiling, and with what the
format can at most make of so many bytes, before anything of that size is allocated; input that ends early is an
error, never a shorter output (a cut between two frames, members or blocks shows only where `size` is given). Input of
more pieces than a writer would make of it is refused, for each costs a library call. The libraries are imported when
first used.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NoReturn

_Data = bytes | memoryview

listeners: list[Callable[[str, _Data, int, bool], None]] = []
"""Who hears of everything decompressed: (codec, data, limit, whether it could be)."""


class CodecError(ValueError):
    """The bytes cannot be decompressed: damaged, cut short, or larger than the ceiling."""


class TooLargeError(CodecError):
    """More would come out than the ceiling allows."""


def decompress(codec: str, data: _Data, *, limit: int, size: int | None = None) -> bytes:
    """The decompressed bytes of `data`, at most `limit` of them; exactly `size`, where the protocol gives it."""
    try:
        decoder = _DECODERS[codec]
    except KeyError:
        raise CodecError(f"unknown codec {codec!r}") from None
    if size is not None:
        if size < 0:
            raise CodecError(f"{codec}: announced size {size} is negative")
        if size > limit:
            _too_large(codec, size, limit)
    if not data:
        raise CodecError(f"{codec}: no bytes")
    if codec == "lz4-block":
        if size is None:
            raise CodecError("lz4-block: the size must be known")
        return _lz4_block(data, size)
    try:
        out = decoder(data, limit if size is None else size)
    except CodecError:
        for listener in listeners:
            listener(codec, data, limit, False)
        raise
    for listener in listeners:
        listener(codec, data, limit, True)
    if size is not None and len(out) != size:
        raise CodecError(f"{codec}: {len(out)} bytes came out where {size} were announced")
    return out


_sizes: dict[tuple[str, int, int], int] = {}  # codec, bytes and their hash -> bytes that came out
_MOST_SIZES = 1 << 16


def decompressed_size(codec: str, data: _Data, *, limit: int) -> int:
    """How many bytes `decompress` gives, whose errors it raises.

    A batch is captured whenever it is sent: to the broker, to its replicas, to each consumer. Bytes that came before
    are known again by their length and hash, whose seed is random. data: bytes, or a view of such.
    """
    key = (codec, len(data), hash(data))
    known = None if listeners else _sizes.get(key)
    if known is not None and known <= limit:
        return known
    size = len(decompress(codec, data, limit=limit))
    if len(_sizes) >= _MOST_SIZES:
        _sizes.clear()
    _sizes[key] = size
    return size


def _too_large(codec: str, size: int | str, limit: int) -> NoReturn:
    raise TooLargeError(f"{codec}: {size} bytes would come out, over the ceiling of {limit}")


def _damaged(codec: str, error: object) -> NoReturn:
    raise CodecError(f"{codec}: damaged ({error})") from None


def _cut_short(codec: str, have: int) -> NoReturn:
    raise CodecError(f"{codec}: cut short after {have} bytes")


_FEW_PIECES = 1000  # that input of any size may consist of
_PIECE = 256  # bytes of input that each piece beyond takes on average: writers make pieces of 32 KiB and more


def _pieces(codec: str, data: _Data) -> Iterator[None]:
    """A turn for each frame, member or block. Raises CodecError where they are too many for so few bytes."""
    for _ in range(_FEW_PIECES + len(data) // _PIECE):
        yield
    _damaged(codec, f"{len(data)} bytes in more pieces than anybody writes")


def _joined(parts: list[bytes]) -> bytes:
    """The output of all pieces; of one, itself."""
    return parts[0] if len(parts) == 1 else b"".join(parts)


# --- zlib and gzip ---------------------------------------------------------------------------------------------------


_FLUSHED = b"\x00\x00\xff\xff"  # an empty stored block: everything written before it can be read
_PADDING = re.compile(rb"\0*")
_WINDOW = 4096  # of a member that is not the first: what lies behind its end is copied


def _zlib(data: _Data, limit: int) -> bytes:
    stream = zlib.decompressobj()
    out = _inflate("zlib", stream, data, limit)
    if not stream.eof and data[-4:] != _FLUSHED:
        _cut_short("zlib", len(data))
    if stream.unused_data:
        raise CodecError(f"zlib: {len(stream.unused_data)} bytes after the end of the stream")
    return out


def _inflate(codec: str, stream: zlib._Decompress, data: _Data, limit: int) -> bytes:
    """What a stream makes of some more bytes."""
    try:
        out = stream.decompress(data, limit + 1)  # a max_length of 0 would mean: no limit
    except zlib.error as error:
        _damaged(codec, error)
    if len(out) > limit:
        _too_large(codec, f"more than {limit}", limit)
    return out


def _gzip(data: _Data, limit: int) -> bytes:
    view, at = memoryview(data), 0
    window = len(view)  # mostly all of it is one member
    parts: list[bytes] = []
    pieces = _pieces("gzip", data)
    while at < len(view):
        next(pieces)
        stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not stream.eof:
            if at >= len(view):
                _cut_short("gzip", len(view))
            some = view[at : at + window]
            part = _inflate("gzip", stream, some, limit)
            parts.append(part)
            limit -= len(part)
            at += len(some)
            window *= 2
        at -= len(stream.unused_data)
        window = _WINDOW
        padding = _PADDING.match(view, at)  # as gzip itself allows
        at = padding.end() if padding else at
    return _joined(parts)


# --- snappy ----------------------------------------------------------------------------------------------------------

_XERIAL = b"\x82SNAPPY\x00"  # no raw snappy: its first element would be a copy from before the start
_XERIAL_HEADER = 16  # the magic, a version and the oldest compatible version, 4 bytes each
_SNAPPY_RATIO = 22  # its best element is a copy: 3 bytes of input for 64 of output


_FRAMED = b"\xff\x06\x00\x00sNaPpY"  # no raw snappy: its second element would be a copy from before the start
_PACKED, _PLAIN, _SKIP = 0x00, 0x01, 0x80  # chunks of the framing format; _SKIP and above may be skipped


def _snappy(data: _Data, limit: int) -> bytes:
    if data[:8] == _XERIAL:
        return _snappy_xerial(data, limit)
    if data[: len(_FRAMED)] == _FRAMED:
        return _snappy_framed(data, limit)
    return _snappy_block(data, limit)


def _snappy_xerial(data: _Data, limit: int) -> bytes:
    parts = []
    view, at = memoryview(data), 0
    pieces = _pieces("snappy", data)
    while at < len(view):
        next(pieces)
        if view[at : at + 8] == _XERIAL:
            at += _XERIAL_HEADER  # streams may follow each other
            if at > len(view):
                _cut_short("snappy", len(view))
            continue
        size = int.from_bytes(view[at : at + 4], "big")
        at += 4
        if at + size > len(view):
            _cut_short("snappy", len(view))
        part = _snappy_block(view[at : at + size], limit)
        parts.append(part)
        limit -= len(part)
        at += size
    return b"".join(parts)


def _snappy_framed(data: _Data, limit: int) -> bytes:
    """Chunks: type, 3 bytes length, content; that of data begins with a masked CRC32C of what it holds.

    Source: google/snappy, framing_format.txt.
    """
    import crc32c

    parts = []
    view, at = memoryview(data), 0
    pieces = _pieces("snappy", data)
    while at < len(view):
        next(pieces)
        kind, size = view[at], int.from_bytes(view[at + 1 : at + 4], "little")
        chunk = view[at + 4 : at + 4 + size]
        if at + 4 > len(view) or len(chunk) < size:
            _cut_short("snappy", len(view))
        at += 4 + size
        if kind >= _SKIP:
            continue
        if kind > _PLAIN or size < 4:
            _damaged("snappy", f"a chunk of type {kind} with {size} bytes")
        part = _snappy_block(chunk[4:], limit) if kind == _PACKED else bytes(chunk[4:])
        if len(part) > limit:
            _too_large("snappy", len(part), limit)
        found = crc32c.crc32c(part)
        if ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF != int.from_bytes(chunk[:4], "little"):
            _damaged("snappy", "the checksum of a chunk is wrong")
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _snappy_block(data: _Data, limit: int) -> bytes:
    import cramjam

    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise CodecError("snappy: no size in front")
    if size > limit:
        _too_large("snappy", size, limit)
    if size > _SNAPPY_RATIO * len(data):
        _damaged("snappy", f"{len(data)} bytes cannot hold {size}")
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        _damaged("snappy", error)


# --- lz4 -------------------------------------------------------------------------------------------------------------

_LZ4_RATIO = 256  # a length byte of 255 adds 255 bytes of output
_LZ4_MAGIC = 0x184D2204
_SKIPPABLE, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0  # frames to skip; zstd has the same
_LZ4_STEP = 1 << 20  # the decompressor allocates what it is allowed to return


def _lz4_block(data: _Data, size: int) -> bytes:
    import lz4.block

    if size > _LZ4_RATIO * len(data):
        _damaged("lz4-block", f"{len(data)} bytes cannot hold {size}")
    try:
        out = bytes(lz4.block.decompress(data, uncompressed_size=size))
    except (lz4.block.LZ4BlockError, ValueError) as error:
        _damaged("lz4-block", error)
    if len(out) != size:
        raise CodecError(f"lz4-block: {len(out)} bytes came out where {size} were announced")
    return out


def _lz4(data: _Data, limit: int) -> bytes:
    view, at = memoryview(data), 0
    parts: list[bytes] = []
    pieces = _pieces("lz4", data)
    while at < len(view):
        next(pieces)
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic & _SKIPPABLE_MASK == _SKIPPABLE:
            at = _skippable("lz4", view, at)
        elif magic == _LZ4_MAGIC:
            end = _lz4_end(view, at)
            limit = _lz4_frame(bytes(view[at:end]), limit, parts)
            at = end
        else:
            _damaged("lz4", "no frame starts here")
    return _joined(parts)


def _lz4_end(view: memoryview, at: int) -> int:
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
            _cut_short("lz4", len(view))
        size = int.from_bytes(view[end : end + 4], "little") & 0x7FFFFFFF
        end += 4 + size + (checksum if size else 0)
    end += 4 if flags & 4 else 0
    if end > len(view):
        _cut_short("lz4", len(view))
    return end


def _lz4_frame(data: bytes, limit: int, parts: list[bytes]) -> int:
    """Append one frame's output to `parts`; the ceiling that is left."""
    import lz4.frame

    data, content = _lz4_header(data)
    if content is not None:
        if content > limit:
            _too_large("lz4", content, limit)
        if content > _LZ4_RATIO * len(data):
            _damaged("lz4", f"{len(data)} bytes cannot hold {content}")
    stream = lz4.frame.LZ4FrameDecompressor()
    source = data
    step = min(max(4 * len(data), 1024), _LZ4_STEP) if content is None else content + 1
    while not stream.eof:
        try:
            part = stream.decompress(source, max_length=min(step, limit + 1))
        except (RuntimeError, EOFError, ValueError) as error:
            _damaged("lz4", error)
        if len(part) > limit:
            _too_large("lz4", f"more than {limit}", limit)
        parts.append(part)
        limit -= len(part)
        if not stream.eof and stream.needs_input:
            _cut_short("lz4", len(data))
        source = b""
    return limit


def _lz4_header(data: bytes) -> tuple[bytes, int | None]:
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


def _skippable(codec: str, data: _Data, at: int) -> int:
    """Index after the skippable frame at `at`."""
    end = at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
    if at + 8 > len(data) or end > len(data):
        _cut_short(codec, len(data))
    return end


# --- zstd ------------------------------------------------------------------------------------------------------------

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_START = _ZSTD_MAGIC.to_bytes(4, "little")
_ZSTD_SINGLE = 0x20  # in the descriptor: no window size follows
_ZSTD_DICTIONARY = (0, 1, 2, 4)  # bytes of its id, by the lowest bits of the descriptor
_ZSTD_CONTENT = (0, 2, 4, 8)  # bytes of the content size, by the highest bits; with _ZSTD_SINGLE at least one
_ZSTD_BLOCK = 128 * 1024  # no block holds more
_ZSTD_STEP = 1 << 20


def _zstd(data: _Data, limit: int) -> bytes:
    view = memoryview(data)
    if view[:4] == _ZSTD_START:
        extent = zstd_extent(view, 0)
        if extent[0] == len(view):  # one frame: the common case
            return _zstd_frame(view, limit, extent[1], extent[2])
    at = 0
    parts: list[bytes] = []
    pieces = _pieces("zstd", data)
    while at < len(view):
        next(pieces)
        magic = int.from_bytes(view[at : at + 4], "little")
        if magic & _SKIPPABLE_MASK == _SKIPPABLE:
            at = _skippable("zstd", view, at)
            continue
        if magic != _ZSTD_MAGIC:
            _damaged("zstd", "no frame starts here") if len(view) - at >= 4 else _cut_short("zstd", len(view))
        end, content, most = zstd_extent(view, at)
        part = _zstd_frame(view[at:end], limit, content, most)
        parts.append(part)
        limit -= len(part)
        at = end
    return _joined(parts)


def zstd_extent(view: memoryview, at: int) -> tuple[int, int | None, int]:
    """Where the frame at `at` ends, its content size where given, and what its blocks can at most hold.

        magic 4 | descriptor 1 | window 0-1 | dictionary id 0-4 | content size 0-8 | blocks | checksum 0 or 4

    A block is 3 bytes, little-endian (bit 0 last, bits 1-2 type, the rest size), and its content: `size` bytes, or one
    byte to repeat (type 1). The library stops silently where its input does; this walk is what notices a cut.
    """
    size = len(view)
    if size - at < 6:
        _cut_short("zstd", size)
    flags = view[at + 4]
    end = at + (5 if flags & _ZSTD_SINGLE else 6) + _ZSTD_DICTIONARY[flags & 3]
    width = _ZSTD_CONTENT[flags >> 6] or (1 if flags & _ZSTD_SINGLE else 0)
    content = None
    if width:
        content = int.from_bytes(view[end : end + width], "little") + (256 if width == 2 else 0)
        end += width
    most = last = 0
    while not last:
        if end + 3 > size:
            _cut_short("zstd", size)
        block = view[end] | view[end + 1] << 8 | view[end + 2] << 16
        last, kind, length = block & 1, block >> 1 & 3, block >> 3
        if length > _ZSTD_BLOCK or kind == 3:
            _damaged("zstd", f"no block is like this: {block:06x}")
        most += _ZSTD_BLOCK if kind == 2 else length
        end += 4 if kind == 1 else 3 + length
    end += 4 if flags & 4 else 0
    if end > size:
        _cut_short("zstd", size)
    return end, content, most


def _zstd_frame(frame: memoryview, limit: int, content: int | None, most: int) -> bytes:
    """The content of a frame; content, most: as zstd_extent has them."""
    if content is not None and content > limit:
        _too_large("zstd", content, limit)
    if content is not None and content > most:
        _damaged("zstd", f"its blocks hold at most {most} bytes, not {content}")
    library = _zstd_library()
    decompress = library.decompressor.decompress
    try:
        if content is not None:
            return decompress(frame, allow_extra_data=False) if content else _zstd_empty(frame)
        if most <= min(limit, _ZSTD_STEP):  # in one call: what is allocated for it is bounded already
            return decompress(frame, max_output_size=max(1, most), allow_extra_data=False)
        parts = []
        with library.stream(frame) as reader:
            while part := reader.read(min(_ZSTD_STEP, limit + 1)):
                if len(part) > limit:
                    _too_large("zstd", f"more than {limit}", limit)
                parts.append(part)
                limit -= len(part)
        return b"".join(parts)
    except library.error as error:
        _damaged("zstd", error)


class _Zstd(threading.local):
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
def _zstd_library() -> _Zstd:
    return _Zstd()


def _zstd_empty(frame: memoryview) -> bytes:
    """A frame that says it is empty; the library would believe it without a look."""
    if _Zstd.stream(frame).read(1):
        _damaged("zstd", "it says that it is empty, but is not")
    return b""


_DECODERS: dict[str, Callable[[_Data, int], bytes]] = {
    "gzip": _gzip,
    "zlib": _zlib,
    "snappy": _snappy,
    "lz4": _lz4,
    "lz4-block": _lz4_block,
    "zstd": _zstd,
}
