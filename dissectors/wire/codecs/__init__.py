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

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dissectors.compiling.loading import prefer_compiled

prefer_compiled(__path__)

from dissectors.wire.codecs.common import CodecError, Data, TooLargeError, too_large
from dissectors.wire.codecs.deflate import gzip_members, zlib_stream
from dissectors.wire.codecs.lz4 import lz4_block, lz4_frames
from dissectors.wire.codecs.snappy import snappy
from dissectors.wire.codecs.zstd import zstd_frames

__all__ = [
    "CodecError",
    "TooLargeError",
    "decompress",
    "listeners",
    "notify",
    "without_listeners",
]

listeners: list[Callable[[str, Data, int, bool], None]] = []
"""Whom to tell of everything decompressed: (codec, data, limit, whether it could be)."""


def notify(codec: str, data: Data, limit: int, whole: bool = True) -> None:
    """Tell the listeners of something decompressed."""
    for listener in listeners:
        listener(codec, data, limit, whole)


@contextmanager
def without_listeners() -> Iterator[None]:
    """Nobody is told of what is decompressed meanwhile: it may come again, and is reported where it becomes a row."""
    kept = listeners[:]
    listeners.clear()
    try:
        yield
    finally:
        listeners[:] = kept


_DECODERS: dict[str, Callable[[Data, int], bytes]] = {
    "gzip": gzip_members,
    "zlib": zlib_stream,
    "snappy": snappy,
    "lz4": lz4_frames,
    "lz4-block": lz4_block,
    "zstd": zstd_frames,
}


def decompress(codec: str, data: Data, *, limit: int, size: int | None = None) -> bytes:
    """The decompressed bytes of `data`, at most `limit` of them; exactly `size`, where the protocol gives it."""
    try:
        decoder = _DECODERS[codec]
    except KeyError:
        raise CodecError(f"unknown codec {codec!r}") from None
    if size is not None:
        if size < 0:
            raise CodecError(f"{codec}: announced size {size} is negative")
        if size > limit:
            too_large(codec, size, limit)
    if not data:
        raise CodecError(f"{codec}: no bytes")
    if codec == "lz4-block":
        if size is None:
            raise CodecError("lz4-block: the size must be known")
        return lz4_block(data, size)
    try:
        out = decoder(data, limit if size is None else size)
    except CodecError:
        notify(codec, data, limit, whole=False)
        raise
    notify(codec, data, limit)
    if size is not None and len(out) != size:
        raise CodecError(f"{codec}: {len(out)} bytes came out where {size} were announced")
    return out
