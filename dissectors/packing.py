"""Values that wait for long, as bytes: many together, in a tenth of the room."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import TypeVar

import zstandard

_LEVEL = 1  # of compression
_FAILURES = (TypeError, AttributeError, pickle.PicklingError)
T = TypeVar("T")


def pack(values: list[T]) -> bytes | list[T]:
    """So many values, which are not to be used any more; themselves where they hold more than plain values."""
    with suppress(*_FAILURES):
        return zstandard.compress(pickle.dumps(values, pickle.HIGHEST_PROTOCOL), _LEVEL)
    return values


def unpack(packed: bytes | list[T]) -> list[T]:
    """What was packed."""
    if isinstance(packed, bytes):
        values: list[T] = pickle.loads(zstandard.decompress(packed))
        return values
    return packed
