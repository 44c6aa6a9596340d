"""snappy: the raw format, the block framing of snappy-java ("xerial"), and its own framing format."""

from __future__ import annotations

from dissectors.wire.codecs.common import CodecError, Data, cut_short, damaged, pieces, too_large
from dissectors.wire.crc32c_library import crc32c

_XERIAL = b"\x82SNAPPY\x00"  # no raw snappy: its first element would be a copy from before the start
_XERIAL_HEADER = 16  # the magic, a version and the oldest compatible version, 4 bytes each
_RATIO = 22  # its best element is a copy: 3 bytes of input for 64 of output
_FRAMED = b"\xff\x06\x00\x00sNaPpY"  # no raw snappy: its second element would be a copy from before the start
_PACKED, _PLAIN, _SKIP = 0x00, 0x01, 0x80  # chunks of the framing format; _SKIP and above may be skipped


def snappy(data: Data, limit: int) -> bytes:
    """The content, in whichever format it is. Raises CodecError."""
    if data[:8] == _XERIAL:
        return _xerial(data, limit)
    if data[: len(_FRAMED)] == _FRAMED:
        return _framed(data, limit)
    return _block(data, limit)


def _xerial(data: Data, limit: int) -> bytes:
    parts = []
    view, at = memoryview(data), 0
    turns = pieces("snappy", data)
    while at < len(view):
        next(turns)
        if view[at : at + 8] == _XERIAL:
            at += _XERIAL_HEADER  # streams may follow each other
            if at > len(view):
                cut_short("snappy", len(view))
            continue
        size = int.from_bytes(view[at : at + 4], "big")
        at += 4
        if at + size > len(view):
            cut_short("snappy", len(view))
        part = _block(view[at : at + size], limit)
        parts.append(part)
        limit -= len(part)
        at += size
    return b"".join(parts)


def _framed(data: Data, limit: int) -> bytes:
    """Chunks: type, 3 bytes length, content; that of data begins with a masked CRC32C of what it holds.

    Source: google/snappy, framing_format.txt.
    """
    parts = []
    view, at = memoryview(data), 0
    turns = pieces("snappy", data)
    while at < len(view):
        next(turns)
        kind, size = view[at], int.from_bytes(view[at + 1 : at + 4], "little")
        chunk = view[at + 4 : at + 4 + size]
        if at + 4 > len(view) or len(chunk) < size:
            cut_short("snappy", len(view))
        at += 4 + size
        if kind >= _SKIP:
            continue
        if kind > _PLAIN or size < 4:
            damaged("snappy", f"a chunk of type {kind} with {size} bytes")
        part = _block(chunk[4:], limit) if kind == _PACKED else bytes(chunk[4:])
        if len(part) > limit:
            too_large("snappy", len(part), limit)
        found = crc32c()(part)
        if ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF != int.from_bytes(chunk[:4], "little"):
            damaged("snappy", "the checksum of a chunk is wrong")
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _block(data: Data, limit: int) -> bytes:
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
        too_large("snappy", size, limit)
    if size > _RATIO * len(data):
        damaged("snappy", f"{len(data)} bytes cannot hold {size}")
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        damaged("snappy", error)
