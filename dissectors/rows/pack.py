"""Numbers of many rows as Arrow's columns hold them.

    validity   one bit a row, the lowest first: whether the row has a value

Functions take int64[n], in which ABSENT stands for no value. What they give are bytearrays and memoryviews of them:
compiled code has a second name for each, by which it is indexed.
"""

from __future__ import annotations

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.records import PACKET_MASK, PACKET_SHIFT
from dissectors.rows.layout import ABSENT
from dissectors.wire.arrays import Grid, Ints, Numbers, ReadOnlyNumbers, Writable, numbers
from dissectors.wire.memory import is_one_value

LEAST, MOST = -0x80000000, 0x7FFFFFFF  # of 32 bits


@compiled
def survey(columns: Grid, rows: cython.Py_ssize_t) -> tuple[Numbers, Numbers]:
    """(how many of the first rows are ABSENT, whether all of them are the same) in each column; rows: at least one."""
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t
    counts = numbers(columns.shape[0])
    constant = numbers(columns.shape[0])
    absent: Numbers = counts
    same: Numbers = constant
    for k in range(columns.shape[0]):
        if is_one_value(columns, k, rows):
            same[k] = 1
            absent[k] = rows if columns[k, 0] == ABSENT else 0
            continue
        for i in range(rows):
            if columns[k, i] == ABSENT:
                absent[k] += 1
    return counts, constant


@compiled
def bits(values: ReadOnlyNumbers, number: cython.longlong, equal: cython.bint) -> bytearray:
    """One bit a row, the lowest first: whether its value is, or with `equal` False is not, a number."""
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = len(values)
    found = bytearray((n + 7) >> 3)
    out: Writable = found
    for i in range(n):
        if (values[i] == number) == equal:
            out[i >> 3] |= 1 << (i & 7)
    return found


@compiled
def validity(values: ReadOnlyNumbers) -> bytearray:
    """Which rows have a value."""
    return bits(values, ABSENT, False)


@compiled
def flags(values: ReadOnlyNumbers) -> bytearray:
    """Truth values, 0 and 1, as bits: of a row without a value 0."""
    return bits(values, 1, True)


@compiled
def halves(values: ReadOnlyNumbers) -> tuple[bytearray, bytearray, int]:
    """(validity, int32[n], how many rows have no value): a number that 32 bits do not hold is none."""
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = len(values)
    absent: cython.Py_ssize_t = n
    bits = bytearray((n + 7) >> 3)
    out: Writable = bits
    data = bytearray(4 * n)
    found: Ints = memoryview(data).cast("i")
    for i in range(n):
        if LEAST <= values[i] <= MOST:
            out[i >> 3] |= 1 << (i & 7)
            found[i] = values[i]
            absent -= 1
    return bits, data, absent


@compiled
def microseconds(ns: ReadOnlyNumbers) -> tuple[Numbers, int]:
    """(times in µs, how many are ABSENT): so are those before 1970, which readers that know calendars do not hold."""
    i: cython.Py_ssize_t
    absent: cython.Py_ssize_t = 0
    times = numbers(len(ns))
    found: Numbers = times
    for i in range(len(ns)):
        if ns[i] < 0:
            found[i] = ABSENT
            absent += 1
        else:
            found[i] = ns[i] // 1000
    return times, absent


@compiled
def packets(references: ReadOnlyNumbers) -> tuple[Numbers, Numbers]:
    """(indices of files, numbers of packets) of packet references."""
    i: cython.Py_ssize_t
    indices = numbers(len(references))
    counts = numbers(len(references))
    files: Numbers = indices
    found: Numbers = counts
    for i in range(len(references)):
        if references[i] == ABSENT:
            files[i] = found[i] = ABSENT
        else:
            files[i] = references[i] >> PACKET_SHIFT
            found[i] = references[i] & PACKET_MASK
    return indices, counts
