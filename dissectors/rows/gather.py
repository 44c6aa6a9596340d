"""Texts of many rows, one behind the other, as Arrow's columns of text hold them.

    offsets      int32[n + 1]: text i is characters[offsets[i] : offsets[i + 1]]; of no length where it is ABSENT
    characters   UTF-8

Functions take int64[n] of numbers and give (offsets, characters), but for `coded`.
"""

from __future__ import annotations

from array import array

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.records import HALF, HALF_BITS, PAIR
from dissectors.rows.layout import ABSENT
from dissectors.wire.arrays import Bytes, Ints, Numbers, ReadOnlyNumbers, Writable
from dissectors.wire.memory import copy, copy_texts

MOST, ID_SIZE, LONGEST_ID = 0x7FFFFFFF, 16, 16 + 2 + 19
LONGEST_DECIMAL = 10 + 1 + 10

Columns = tuple[bytearray, bytearray]


@compiled
def numbered(arena: Bytes, starts: ReadOnlyNumbers, which: ReadOnlyNumbers) -> Columns:
    """Texts by their numbers: text w is arena[starts[w] : starts[w + 1]]. Raises OverflowError beyond 2 GiB."""
    i: cython.Py_ssize_t
    w: cython.longlong
    n: cython.Py_ssize_t = len(which)
    total: cython.longlong = 0
    offsets = bytearray(4 * (n + 1))
    ends: Ints = memoryview(offsets).cast("i")
    for i in range(n):
        w = which[i]
        if w != ABSENT:
            total += starts[w + 1] - starts[w]
            if total > MOST:
                raise OverflowError("texts of more than 2 GiB in a column")
        ends[i + 1] = total
    characters = bytearray(total)
    copy_texts(characters, ends, arena, starts, which)
    return offsets, characters


@compiled
def coded(which: ReadOnlyNumbers, places: Numbers) -> tuple[bytearray, array[int]]:
    """(int32[n] of places in a dictionary, 0 for ABSENT; int64[m] of the numbers that it holds, as they come).

    places: int64, 0 for each number that there may be; left so.
    """
    i: cython.Py_ssize_t
    w: cython.longlong
    last: cython.longlong = ABSENT  # the number of the row before, which rows often have in common
    place: cython.int = 0  # its place
    n: cython.Py_ssize_t = len(which)
    indices = bytearray(4 * n)
    found: Ints = memoryview(indices).cast("i")
    held = array("q")
    for i in range(n):
        w = which[i]
        if w == ABSENT:
            continue
        if w != last:
            last = w
            if places[w] == 0:
                held.append(w)
                places[w] = len(held)
            place = places[w] - 1
        found[i] = place
    for w in held:
        places[w] = 0
    return indices, held


@compiled
def exchange_ids(conn_ids: Bytes, conns: ReadOnlyNumbers, marks: ReadOnlyNumbers) -> Columns:
    """Ids of exchanges, as `records.LOOSE_KINDS` has them: of connection conns[i], stream offset marks[i] >> 1.

    conn_ids: sixteen characters of each connection.
    """
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = len(marks)
    offsets = bytearray(4 * (n + 1))
    ends: Ints = memoryview(offsets).cast("i")
    characters = bytearray(n * LONGEST_ID)
    out: Writable = characters
    for i in range(n):
        if marks[i] != ABSENT:
            copy(out, at, conn_ids, conns[i] * ID_SIZE, ID_SIZE)
            out[at + ID_SIZE] = ord("-")
            out[at + ID_SIZE + 1] = ord("s") if marks[i] & 1 else ord("c")
            at = write_number(out, at + ID_SIZE + 2, marks[i] >> 1)
        ends[i + 1] = at
    return offsets, characters[:at]


@compiled
def decimals(values: ReadOnlyNumbers) -> Columns:
    """Decimal numbers, and pairs of them, as `records.LOOSE_KINDS` has them."""
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = len(values)
    offsets = bytearray(4 * (n + 1))
    ends: Ints = memoryview(offsets).cast("i")
    characters = bytearray(n * LONGEST_DECIMAL)
    out: Writable = characters
    for i in range(n):
        if values[i] >= PAIR:
            at = write_number(out, at, values[i] >> HALF_BITS & HALF)
            out[at] = ord(":")
            at = write_number(out, at + 1, values[i] & HALF)
        elif values[i] != ABSENT:
            at = write_number(out, at, values[i])
        ends[i + 1] = at
    return offsets, characters[:at]


@compiled
def write_number(out: Writable, at: cython.Py_ssize_t, number: cython.longlong) -> cython.Py_ssize_t:
    """Write a number from 0 on in decimal digits; the index after them."""
    rest: cython.longlong = number
    end: cython.Py_ssize_t = at + 1
    k: cython.Py_ssize_t
    while rest >= 10:
        rest = rest // 10
        end += 1
    for k in range(end - 1, at - 1, -1):
        out[k] = ord("0") + number % 10
        number = number // 10
    return end


@compiled
def checksums(values: ReadOnlyNumbers) -> Columns:
    """Unsigned 32-bit numbers as `checksum.shown` has them: 0x and eight digits."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    digit: cython.longlong
    at: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = len(values)
    offsets = bytearray(4 * (n + 1))
    ends: Ints = memoryview(offsets).cast("i")
    characters = bytearray(10 * n)
    out: Writable = characters
    for i in range(n):
        if values[i] != ABSENT:
            out[at] = ord("0")
            out[at + 1] = ord("x")
            for k in range(8):
                digit = (values[i] >> (28 - 4 * k)) & 15
                out[at + 2 + k] = ord("0") + digit if digit < 10 else ord("a") + digit - 10
            at += 10
        ends[i + 1] = at
    return offsets, characters[:at]
