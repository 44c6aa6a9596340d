"""Values that wait for long, as bytes: many together, in a tenth of the room."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import TypeVar

import zstandard

_COMPRESSOR = zstandard.ZstdCompressor(1)
_FAILURES = (TypeError, AttributeError, pickle.PicklingError)
T = TypeVar("T")


def compress(data: bytes) -> bytes:
    """The data in less room; `decompress` gives it back."""
    return bytes(memoryview(_COMPRESSOR.compress(data)))  # a copy: what it gives has as much room as the input needs


decompress = zstandard.ZstdDecompressor().decompress


def pack(values: list[T]) -> bytes | list[T]:
    """So many values, which are not to be used any more; themselves where they hold more than plain values."""
    with suppress(*_FAILURES):
        return compress(pickle.dumps(values, pickle.HIGHEST_PROTOCOL))
    return values


def unpack(packed: bytes | list[T]) -> list[T]:
    """What was packed."""
    if isinstance(packed, bytes):
        values: list[T] = pickle.loads(decompress(packed))
        return values
    return packed
