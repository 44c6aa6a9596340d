"""How large compressed bytes are once they are decompressed: those that were met before are known again.

A batch is captured whenever it is sent: to the broker, to its replicas, to each consumer. It is decompressed once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.codecs import decompress, listeners
from dissectors.wire.codecs.common import Data

_MOST = 1 << 16  # sizes of a codec that are remembered
_SEED = int.from_bytes(os.urandom(8))  # of this process: nobody can make two inputs of one digest beforehand
_sizes: dict[str, dict[bytes, int]] = {}  # codec -> digest of compressed bytes -> bytes that came out


@cache
def _digest_of() -> Callable[[Data, int], bytes]:
    """XXH3 of 128 bits, by which compressed bytes are known again: it costs a hundredth of decompressing them."""
    from xxhash import xxh3_128_digest

    return xxh3_128_digest


@compiled
def decompressed_size(codec: str, data: Data, limit: cython.longlong, announced: Any) -> cython.longlong:
    """How many bytes `decompress` gives, whose errors it raises. announced: so many; None where nothing says it."""
    sizes = _sizes.get(codec)
    if sizes is None:
        sizes = _sizes[codec] = {}
    digest: bytes = _digest_of()(data, _SEED)
    known = None if listeners else sizes.get(digest)
    if known is not None and known <= limit and (announced is None or announced == known):
        return known
    size: cython.longlong = len(decompress(codec, data, limit=limit, size=announced))
    if len(sizes) >= _MOST:
        sizes.clear()
    sizes[digest] = size
    return size
