"""CRC-32 as linear algebra: what a flipped bit does to the checksum, and back from the checksum to the bit.

A CRC is affine over bits: crc(a ^ e) = crc(a) ^ L(e), so stored ^ computed, the *syndrome*, depends on the error only.
Both CRC-32 and CRC-32C are reflected (the lowest bit of a byte comes first). With A = "one more zero bit follows":

    A(r) = r >> 1 ^ (poly if r & 1 else 0)          multiplication by x in GF(2)[x] / P
    a bit d bits before the end contributes A^d(poly)
    32 bits that end d bits before the end, as little-endian word w, contribute A^(d + 32)(w)

A is invertible and repeats only after 2^32 - 1 (CRC-32) or 2^31 - 1 (CRC-32C) bits: in anything shorter than 256 MiB no
two bits contribute the same, so a syndrome that one bit explains names that bit for certain.

Distances count from the end of the data, in bits, 0 for its last bit (the highest bit of the last byte). Arrays are
uint32; all that loops over data is numpy.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from dissectors.arrow import Ints, Octets
from dissectors.checksum.verify import CRC32, CRC32C

Words = NDArray[np.uint32]

POLYNOMIALS = {CRC32: 0xEDB88320, CRC32C: 0x82F63B78}
ONES = 0xFFFFFFFF  # initial register and final xor of both
PERIOD = (1 << 31) - 1  # bits; the shorter one, CRC-32C's
_BABY = 1 << 12  # baby steps of the discrete logarithm


class Crc:
    """One polynomial."""

    def __init__(self, polynomial: int) -> None:
        self.polynomial = polynomial
        forward = [1 << (bit - 1) if bit else polynomial for bit in range(32)]  # A of every single bit
        top = next(bit for bit in reversed(range(32)) if polynomial >> bit & 1)
        assert top == 31, "a reflected CRC-32 polynomial has x^0"
        backward = [(1 << (bit + 1)) if bit < 31 else (polynomial << 1 & ONES) | 1 for bit in range(32)]
        self._powers = (_squares(forward), _squares(backward))  # A^(2^i) and A^-(2^i), as lookup tables

    def advance(self, values: Words, bits: int) -> Words:
        """A^bits of every value; negative bits go back."""
        tables = self._powers[bits < 0]
        for power in range(abs(bits).bit_length()):
            if abs(bits) >> power & 1:
                values = _apply(tables[power], values)
        return values

    def advance_one(self, value: int, bits: int) -> int:
        """A^bits of one value."""
        return int(self.advance(np.array([value], np.uint32), bits)[0])

    def advance_each(self, values: Words, bits: Ints) -> Words:
        """A^bits[i] of values[i]; all bits >= 0, or all <= 0."""
        back = bool(len(bits)) and bool((bits < 0).any())
        left = np.abs(bits)
        out = values.copy()
        for power in range(int(left.max(initial=0)).bit_length()):
            chosen = (left >> power & 1).astype(bool)
            out[chosen] = _apply(self._powers[back][power], out[chosen])
        return out

    def orbit(self, value: int, count: int, step: int = 1) -> Words:
        """A^(step * i)(value) for i in 0 .. count - 1; the step may be negative."""
        out = np.empty(count, np.uint32)
        if count:
            out[0] = value
        have = 1
        while have < count:
            new = min(have, count - have)
            out[have : have + new] = self.advance(out[:new], step * have)
            have += new
        return out

    def bits(self, count: int) -> Words:
        """What each of the last `count` bits contributes, by distance."""
        return self.orbit(self.polynomial, count)

    def distances(self, syndromes: Words, limit: int) -> list[tuple[int, int]]:
        """(index, d) for every syndrome that the one bit at distance d < limit explains.

        Baby steps, giant steps: limit / 4096 operations a syndrome, so 1 MiB costs 2,048.
        """
        baby = self.bits(min(_BABY, limit))
        order = np.argsort(baby)
        baby = baby[order]
        found = []
        giants = -(-limit // _BABY)
        for index, syndrome in enumerate(syndromes.tolist()):
            giant = self.orbit(syndrome, giants, -_BABY)
            at = np.minimum(np.searchsorted(baby, giant), len(baby) - 1)
            for step in np.nonzero(baby[at] == giant)[0].tolist():
                distance = step * _BABY + int(order[at[step]])
                if distance < limit:
                    found.append((index, distance))
        return found

    def words(self, syndrome: int, count: int, step: int = 1) -> Words:
        """The one 32-bit error pattern that explains the syndrome, for each distance step * i at which it may end.

        Little-endian: bit 31 of the pattern is at that distance, bit 0 is 31 bits before it.
        """
        return self.orbit(self.advance_one(syndrome, -32), count, -step)


@cache
def crc_of(kind: str) -> Crc:
    """The CRC of a checksum kind, with its tables."""
    return Crc(POLYNOMIALS[kind])


class BitTable:
    """What each bit of each byte contributes, for data of `size` bytes.

    Bit b, index k: bit b of the byte that k bytes follow.
    """

    def __init__(self, crc: Crc, size: int) -> None:
        self.size = size
        highest = crc.orbit(crc.polynomial, size, 8)
        self._bits = [highest]
        for _ in range(7):
            self._bits.append(crc.advance(self._bits[-1], 1))
        self._bits.reverse()

    def place(self, values: Octets, start: int) -> Words:
        """What each of these bytes contributes where values[0] is byte `start` of the data."""
        stop = self.size - start  # distance in bytes, plus one
        out = np.zeros(len(values), np.uint32)
        for bit, contributed in enumerate(self._bits):
            out ^= contributed[stop - len(values) : stop][::-1] * (values >> bit & 1)
        return out


def _squares(columns: list[int]) -> list[list[Words]]:
    """Lookup tables of M, M^2, M^4 … M^(2^40) from the columns of M."""
    tables = [_tables(columns)]
    for _ in range(40):
        squared = _apply(tables[-1], _apply(tables[-1], np.array([1 << bit for bit in range(32)], np.uint32)))
        tables.append(_tables(squared.tolist()))
    return tables


def _tables(columns: list[int]) -> list[Words]:
    """A matrix as four tables, one a byte of the operand."""
    tables = []
    for byte in range(4):
        table = np.zeros(256, np.uint32)
        for bit in range(8):
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ np.uint32(columns[8 * byte + bit])
        tables.append(table)
    return tables


def _apply(tables: list[Words], values: Words) -> Words:
    out: Words = tables[0][values & 255] ^ tables[1][values >> 8 & 255]
    out ^= tables[2][values >> 16 & 255]
    out ^= tables[3][values >> 24]
    return out
