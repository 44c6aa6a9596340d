"""Headers of a fixed layout, at many places of a buffer at once.

Each header is copied whole, in one gather, and its fields are read from the copies: a gather for each field would go to
memory as often as there are fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints, Octets

Structs = npt.NDArray[np.void]
"""Structured array, void[n]: its fields are columns."""


def structs(buffer: Any, layout: np.dtype[np.void], at: Ints) -> Structs:
    """The headers that begin at some indices of a buffer, which they must lie in. They may overlap."""
    size = layout.itemsize
    every = np.ndarray((max(0, len(buffer) - size + 1),), f"V{size}", buffer, 0, (1,))
    found: Structs = every[at].view(layout)
    return found


def integers(octets: Octets, at: Ints, size: int) -> Ints:
    """The signed big-endian integers of 1, 2, 4 or 8 bytes that begin at each index."""
    every: npt.NDArray[Any] = np.ndarray((len(octets) - size + 1,), f">i{size}", octets, 0, (1,))
    return every[at].astype(np.int64)
