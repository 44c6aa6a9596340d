"""Texts, lists of texts and connections -> numbers from 0 on, each once: rows hold the numbers.

Texts      UTF-8 in one arena of bytes, found by an open-addressed table of FNV-1a hashes: a name that was met before
           costs a hash and a comparison, and no Python object
Numbered   hashable Python objects
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Bytes, Numbers, Writable, numbers
from dissectors.wire.memory import address_of, copy

FNV_START, FNV_PRIME, LOW = 0xCBF29CE484222325, 0x100000001B3, 0x7FFFFFFFFFFFFFFF

KEPT, OBJECT_BITS = 1 << 12, 4  # objects that are known by their addresses, whose lowest bits are all alike

_ARENA = 1 << 14
_TEXTS = 512


@final
@compiled
class Texts:
    """Numbers of texts. Text i is arena[starts[i] : starts[i + 1]]; what is written there never changes."""

    count: cython.Py_ssize_t = 0
    arena: Any
    _arena: Writable
    starts: Any
    _starts: Numbers
    _hashes: Numbers
    _places: Numbers  # hash -> number + 1, 0 for none
    _known: dict[str, int]
    _kept: list[Any]  # objects whose numbers were asked for, each where its address says
    _kept_addresses: Numbers  # of these objects, 0 for none: to read a number costs less than to read an object
    _kept_numbers: Numbers

    def __init__(self) -> None:
        self.arena = memoryview(bytearray(_ARENA))
        self._arena = self.arena
        self.starts = numbers(_TEXTS + 1)
        self._starts = self.starts
        self._hashes = numbers(_TEXTS)
        self._places = numbers(2 * _TEXTS)
        self._known = {}
        self._kept = [None] * KEPT
        self._kept_addresses = numbers(KEPT)
        self._kept_numbers = numbers(KEPT)

    @compiled
    def of(self, text: str) -> cython.Py_ssize_t:
        """The number of a text. What is no Unicode in it is escaped."""
        address: cython.Py_ssize_t = address_of(text)
        at: cython.Py_ssize_t = address >> OBJECT_BITS & KEPT - 1
        number: cython.Py_ssize_t = self._kept_numbers[at]
        if self._kept_addresses[at] == address:
            return number
        found = self._known.get(text)
        if found is None:
            raw = text.encode("utf-8", "backslashreplace")
            found = self._known[text] = self.number(raw, 0, len(raw))
        self._kept[at] = text
        self._kept_addresses[at] = address
        self._kept_numbers[at] = found
        return found

    @compiled
    def number(self, data: Bytes, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of the text data[start : start + size]. Bytes that are no UTF-8 are escaped."""
        i: cython.Py_ssize_t
        hash_: cython.ulonglong = FNV_START
        for i in range(start, start + size):
            hash_ = (hash_ ^ data[i]) * FNV_PRIME
            if not cython.compiled:
                hash_ &= 0xFFFFFFFFFFFFFFFF
        key: cython.longlong = hash_ & LOW
        mask: cython.Py_ssize_t = self._places.shape[0] - 1
        place: cython.Py_ssize_t = key & mask
        while self._places[place]:
            i = self._places[place] - 1
            if self._hashes[i] == key and self._is(i, data, start, size):
                return i
            place = (place + 1) & mask
        return self._add(key, data, start, size)

    def text(self, number: int) -> str:
        """The text with a number."""
        return bytes(self.arena[self.starts[number] : self.starts[number + 1]]).decode()

    @compiled
    def _is(self, i: cython.Py_ssize_t, data: Bytes, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
        """Whether text i is data[start : start + size]."""
        at: cython.Py_ssize_t = self._starts[i]
        k: cython.Py_ssize_t
        if self._starts[i + 1] - at != size:
            return False
        for k in range(size):  # noqa: SIM110 (faster as it is, compiled)
            if self._arena[at + k] != data[start + k]:
                return False
        return True

    @compiled
    def _add(
        self, key: cython.longlong, data: Bytes, start: cython.Py_ssize_t, size: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        raw = bytes(data[start : start + size])
        shown = raw.decode("utf-8", "backslashreplace").encode("utf-8", "backslashreplace")
        if shown != raw:
            return self.number(shown, 0, len(shown))
        i: cython.Py_ssize_t = self.count
        at: cython.Py_ssize_t = self._starts[i]
        if at + size > self._arena.shape[0] or i + 1 == self._hashes.shape[0]:
            self._grow(size)
        copy(self._arena, at, data, start, size)
        self._hashes[i] = key
        self._starts[i + 1] = at + size
        self.count = i + 1
        self._place(i)
        return i

    @compiled
    def _place(self, i: cython.Py_ssize_t) -> None:
        mask: cython.Py_ssize_t = self._places.shape[0] - 1
        place: cython.Py_ssize_t = self._hashes[i] & mask
        while self._places[place]:
            place = (place + 1) & mask
        self._places[place] = i + 1

    def _grow(self, size: int) -> None:
        """Room for twice as many texts, and for `size` bytes more. Arrow may still refer to the old arena."""
        i: cython.Py_ssize_t
        arena, starts, hashes = self.arena, self.starts, self._hashes
        self.arena = memoryview(bytearray(2 * len(arena) + size))
        self.arena[: len(arena)] = arena
        self._arena = self.arena
        self.starts, self._hashes = numbers(2 * len(starts)), numbers(2 * len(hashes))
        self.starts[: len(starts)] = starts
        self._starts = self.starts
        self._hashes[: len(hashes)] = hashes
        self._places = numbers(4 * len(hashes))
        for i in range(self.count):
            self._place(i)


@final
@compiled
class Numbered:
    """Numbers of hashable objects: values[i] is that with the number i."""

    values: list[Any]
    _known: dict[Hashable, int]
    _latest: Any  # the object that was asked for last, which is soon asked for again
    _number: cython.Py_ssize_t  # its number

    def __init__(self) -> None:
        self.values = []
        self._known = {}
        self._latest = None
        self._number = -1

    @compiled
    def of(self, value: Hashable) -> cython.Py_ssize_t:
        """The number of an object."""
        if value is self._latest and self._number >= 0:
            return self._number
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = len(self.values)
            self.values.append(value)
        self._latest, self._number = value, found
        return self._number
