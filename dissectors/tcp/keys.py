"""Which connection each packet is of: its endpoints in a fixed order, and a hash of them.

The hash decides too which of the SHARES a connection belongs to, and so which process decodes it.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints
from dissectors.capture.block import PacketBlock
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.limits import SHARES
from dissectors.tcp.flow import Ends
from dissectors.wire.arrays import Numbers, WordGrid, Words, numbers
from dissectors.wire.memory import is_same_row

_ENDS = struct.Struct("=6Q")
_KEY = f"V{_ENDS.size}"  # of a connection: its endpoints as bytes, which take a third of the room of numbers
_SHARE_BITS = SHARES.bit_length() - 1  # of a hash, its highest
_WORD = 0xFFFFFFFFFFFFFFFF
_MIX_A, _MIX_B, _MIX_C = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_MIX_D, _MIX_E = 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD
_SEEDS = np.frombuffer(os.urandom(_ENDS.size), np.uint64).copy().data
"""Of the table that `group` fills: no capture can be made for which all its connections lie in one place."""


class Connections(NamedTuple):
    """n packets by connection; connections are numbered in the order of their first packets."""

    order: Ints  # int64[n]: the packets of each connection together, in their order
    starts: Ints  # int64[m]: where those of each begin in `order`
    stops: Ints  # and where they end
    of: Ints  # int64[n]: the connection of each packet
    direction: Ints  # int64[n]: 1 for each packet from the higher endpoint to the lower one, else 0
    keys: list[bytes]  # of each connection
    hashes: npt.NDArray[np.uint64]  # uint64[m]


def by_connection(block: PacketBlock) -> Connections:
    """The packets of a block by connection."""
    n = len(block)
    index, of, direction = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    starts, ends = np.empty(n + 1, np.int64), np.empty((n, 6), np.uint64)
    count = group(_given(block), _SEEDS, index.data, starts.data, of.data, direction.data, ends.data) if n else 0
    hashes = np.empty(count, np.uint64)
    if count:
        write_hashes(ends.data, hashes.data)
    keys: list[bytes] = ends[:count].view(_KEY).ravel().tolist()
    return Connections(index, starts[:count], starts[1 : count + 1], of, direction, keys, hashes)


def connection_hashes(block: PacketBlock) -> npt.NDArray[np.uint64]:
    """The hash of the connection of each packet, uint64[n]."""
    found = by_connection(block)
    return found.hashes[found.of]


def _given(block: PacketBlock) -> WordGrid:
    """uint64[n, 6]: address hi, lo and port of the source of each packet, then of its target."""
    ports = block.sport.view(np.uint64), block.dport.view(np.uint64)
    return np.column_stack([block.src_hi, block.src_lo, ports[0], block.dst_hi, block.dst_lo, ports[1]]).data


@compiled
def group(
    given: WordGrid, seeds: Words, index: Numbers, starts: Numbers, of: Numbers, direction: Numbers, ends: WordGrid
) -> cython.Py_ssize_t:
    """Fill what `Connections` has of n packets, one at least; returns the number of connections.

    given: uint64[n, 6]; starts: int64[n + 1], the last end too; ends: uint64[n, 6], becomes both endpoints of each
    connection, the lower one first.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    at: cython.Py_ssize_t
    lower: cython.Py_ssize_t  # 3 where the target of a packet is the lower endpoint, else 0
    mixed: cython.ulonglong
    last: cython.Py_ssize_t = 0  # a packet with the endpoints of the one before
    other: cython.Py_ssize_t = 0  # one with those that came before these: often of the other direction
    n: cython.Py_ssize_t = len(index)
    count: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = 4
    shift: cython.int = 62
    while size < 2 * n:
        size, shift = 2 * size, shift - 1
    places: Numbers = numbers(size)  # hash -> number of a connection + 1, 0 for none
    for i in range(n):
        if i and is_same_row(given, i, last):
            pass
        elif i and is_same_row(given, i, other):
            last, other = other, last
        else:
            lower = lower_of(given, i)
            mixed = 0
            for k in range(3):
                mixed += seeds[k] * given[i, lower + k] + seeds[k + 3] * given[i, 3 - lower + k]
            if not cython.compiled:
                mixed &= _WORD
            at = mixed >> shift
            while places[at] and not is_of(given, i, lower, ends, places[at] - 1):
                at = (at + 1) & (size - 1)
            if not places[at]:
                for k in range(3):
                    ends[count, k], ends[count, 3 + k] = given[i, lower + k], given[i, 3 - lower + k]
                count += 1
                places[at] = count
                starts[count] = 0
            of[i] = places[at] - 1
            direction[i] = lower != 0
            last, other = i, last
        of[i], direction[i] = of[last], direction[last]
        starts[of[i] + 1] += 1  # how many packets it has
    starts[0] = 0
    for i in range(1, count):
        starts[i + 1] += starts[i]
    for i in range(n - 1, -1, -1):  # from where each connection ends to where it begins
        starts[of[i] + 1] -= 1
        index[starts[of[i] + 1]] = i
    for i in range(count):
        starts[i] = starts[i + 1]
    starts[count] = n
    return count


@compiled
def lower_of(given: WordGrid, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where in `given` the lower endpoint of a packet begins: 0 for its source, 3 for its target."""
    k: cython.Py_ssize_t
    for k in range(3):
        if given[i, k] != given[i, 3 + k]:
            return 3 if given[i, k] > given[i, 3 + k] else 0
    return 0


@compiled
def is_of(
    given: WordGrid, i: cython.Py_ssize_t, lower: cython.Py_ssize_t, ends: WordGrid, connection: cython.Py_ssize_t
) -> cython.bint:
    """Whether packet i is of a connection."""
    k: cython.Py_ssize_t
    for k in range(3):
        if given[i, lower + k] != ends[connection, k] or given[i, 3 - lower + k] != ends[connection, 3 + k]:
            return False
    return True


@compiled
def write_hashes(ends: WordGrid, hashes: Words) -> None:
    """The hash of each connection. ends: uint64[n, 6], of which the first that there are hashes for are read."""
    i: cython.Py_ssize_t
    for i in range(len(hashes)):
        hashes[i] = hash_of(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], ends[i, 4], ends[i, 5])


@compiled
def hash_of(
    a_hi: cython.ulonglong,
    a_lo: cython.ulonglong,
    a_port: cython.ulonglong,
    b_hi: cython.ulonglong,
    b_lo: cython.ulonglong,
    b_port: cython.ulonglong,
) -> cython.ulonglong:
    """The hash of a connection, 64 bits: the same in every process and release, as its share follows from it."""
    mixed: cython.ulonglong = (a_hi * _MIX_A ^ a_lo * _MIX_B) & _WORD
    mixed = (mixed * _MIX_C ^ b_hi * _MIX_D ^ b_lo * _MIX_E) & _WORD
    mixed = (mixed ^ mixed >> 29) * _MIX_A & _WORD
    return (mixed ^ (a_port << 16 | b_port) * _MIX_B) & _WORD


def ends_of(key: bytes) -> Ends:
    """The endpoints of a connection, by its key."""
    return cast(Ends, _ENDS.unpack_from(key))


def key_of(ends: Ends, stream: int = 0) -> bytes:
    """The key of a connection between these endpoints. stream: 0, or which of several at a time (`tcp/segments.py`)."""
    return _ENDS.pack(*ends) + bytes([stream] * (stream > 0))


def stream_of(key: bytes) -> int:
    """Which of several connections between its endpoints at a time has this key; 0 where there are not several."""
    return key[_ENDS.size] if len(key) > _ENDS.size else 0


def share_of(key: bytes) -> int:
    """Which of the SHARES the connection of a key belongs to."""
    return int(hash_of(*ends_of(key)) >> 64 - _SHARE_BITS)


def shares_of(hashes: npt.NDArray[np.uint64]) -> Ints:
    """Which of the SHARES each connection belongs to, by its hash."""
    return (hashes >> np.uint64(64 - _SHARE_BITS)).astype(np.int64)
