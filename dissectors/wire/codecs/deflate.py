"""gzip (RFC 1952), one or more members; zlib (RFC 1950), one stream, ended or flushed."""

from __future__ import annotations

import re
import zlib

from dissectors.wire.codecs.common import CodecError, Data, cut_short, damaged, joined, pieces, too_large

_FLUSHED = b"\x00\x00\xff\xff"  # an empty stored block: everything written before it can be read
_PADDING = re.compile(rb"\0*")
_WINDOW = 4096  # of a member that is not the first: what lies behind its end is copied


def zlib_stream(data: Data, limit: int) -> bytes:
    """The content of the one stream. Raises CodecError."""
    stream = zlib.decompressobj()
    out = _inflate("zlib", stream, data, limit)
    if not stream.eof and data[-4:] != _FLUSHED:
        cut_short("zlib", len(data))
    if stream.unused_data:
        raise CodecError(f"zlib: {len(stream.unused_data)} bytes after the end of the stream")
    return out


def _inflate(codec: str, stream: zlib._Decompress, data: Data, limit: int) -> bytes:
    """What a stream makes of some more bytes."""
    try:
        out = stream.decompress(data, limit + 1)  # a max_length of 0 would mean: no limit
    except zlib.error as error:
        damaged(codec, error)
    if len(out) > limit:
        too_large(codec, f"more than {limit}", limit)
    return out


def gzip_members(data: Data, limit: int) -> bytes:
    """The content of all members. Raises CodecError."""
    view, at = memoryview(data), 0
    window = len(view)  # mostly all of it is one member
    parts: list[bytes] = []
    turns = pieces("gzip", data)
    while at < len(view):
        next(turns)
        stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not stream.eof:
            if at >= len(view):
                cut_short("gzip", len(view))
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
    return joined(parts)
