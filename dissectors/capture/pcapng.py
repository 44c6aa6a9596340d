"""pcapng: sections of blocks, several interfaces each, every one with its link type and clock.

block
 at  size  field
  0     4  type
  4     4  total length, a multiple of 4 (also in the last 4 bytes)
  8     -  body

Enhanced Packet Block (6): interface u32, time high u32, time low u32, captured u32, original u32, packet, options.
Simple Packet Block (3): original u32, packet. Obsolete Packet Block (2): interface u16, drops u16, then as type 6.
Interface Description (1): link type u16, reserved u16, snaplen u32, options. Decryption Secrets (10): type u32, length.
Source: IETF draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import IO

import numpy as np

from dissectors.arrow import Ints
from dissectors.capture.packet_blocks import COLUMNS, LEAST, packet_blocks
from dissectors.capture.packet_blocks import ENHANCED as ENHANCED
from dissectors.capture.packet_blocks import PACKET as PACKET
from dissectors.capture.packet_blocks import SIMPLE as SIMPLE
from dissectors.capture.raw import NO_TIME, RawBlock
from dissectors.capture.source import block_sizes, read_fully
from dissectors.errors import TruncatedError
from dissectors.limits import Limits

MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, NAMES, STATISTICS, SECRETS = 0x0A0D0D0A, 1, 4, 5, 10
_ORDER_LITTLE = b"\x4d\x3c\x2b\x1a"
_ORDER_BIG = b"\x1a\x2b\x3c\x4d"
_OPT_TSRESOL, _OPT_TSOFFSET = 9, 14
_OPT_IFDROP, _OPT_OSDROP = 5, 7
_TLS_KEY_LOG = 0x544C534B
_MOST_NAMES = 1000  # name resolution blocks that are kept
_OTHERS = 4096  # bytes of a block besides its packet, at most
_LATEST = 1 << 62  # ns: no time is as late
_MASK64 = (1 << 64) - 1


@dataclass(slots=True)
class Interface:
    """One interface of a section."""

    link: int
    snaplen: int = 0
    multiply: int = 1000  # ns = ticks * multiply // divide
    divide: int = 1
    offset_ns: int = 0

    def ns(self, ticks: int) -> int:
        return ticks * self.multiply // self.divide + self.offset_ns

    def clock(self) -> tuple[int, int, int, int]:
        """Multiply, divide, offset, and up to how many ticks 63 bits do for these numbers; -1 where they never do."""
        common = gcd(self.multiply, self.divide)
        multiply, divide = self.multiply // common, self.divide // common
        if divide >= _LATEST or abs(self.offset_ns) >= _LATEST:
            return 1, 1, 0, -1
        return multiply, divide, self.offset_ns, _LATEST // multiply


class Notes:
    """What the file holds besides packets."""

    def __init__(self) -> None:
        self.interfaces: list[Interface] = []  # of every section
        self.drops: int | None = None  # packets that the capturer says it lost
        self.secrets: list[bytes] = []  # TLS key logs
        self.names: list[tuple[bytes, str]] = []  # records of name resolution blocks, and byte order
        self.sections: list[int] = []  # number of the first packet of each


class _Section:
    def __init__(self, order: str, first: int) -> None:
        """first: number of its first interface among all of the file."""
        self.interfaces: list[Interface] = []
        self.order = order
        self.first = first
        self.head = struct.Struct(order + "II").unpack_from

    def told(self) -> Ints:
        """What `packet_blocks` is told of its interfaces."""
        snaplen = self.interfaces[0].snaplen if self.interfaces else 0
        return np.array([self.first, len(self.interfaces), snaplen], np.int64)


def blocks(stream: IO[bytes], head: bytes, limits: Limits, notes: Notes, number: int = 1) -> Iterator[RawBlock]:
    """The packets of a file whose first bytes are `head`, numbered from `number` on.

    Raises TruncatedError where it is cut or damaged.
    """
    section = _Section("<", len(notes.interfaces))
    left = head
    for most in block_sizes(limits):
        data, problem = read_fully(stream, most, pauses=True)
        buffer = left + data
        found = np.empty((COLUMNS, len(buffer) // LEAST + 1), np.int64)
        count = np.zeros(1, np.int64)
        at, section, damage = _walk(buffer, section, limits, notes, found, count, number)
        left, got, packets = buffer[at:], len(data), int(count[0])
        raws = []
        if packets:
            index, captured, original, ticks, which = found[:, :packets].copy()
            time, link = _times_and_links(ticks, which, notes.interfaces)
            raws.append(RawBlock(buffer, index, captured, original, time, link, number))
        number += packets
        del buffer, data, found  # nothing here keeps a block
        while raws:
            yield raws.pop()
        if damage or problem:
            rest = b"" if problem else left
            raise TruncatedError(f"damaged after packet {number - 1}: {damage or problem}", rest)
        if not got:
            break
    if left:
        raise TruncatedError(f"cut off in the block after packet {number - 1}")


def _walk(
    buffer: bytes, section: _Section, limits: Limits, notes: Notes, found: Ints, count: Ints, number: int
) -> tuple[int, _Section, str | None]:
    """Walk whole blocks; (index after the last one, the section in force, what is wrong there).

    found, count: see `packet_blocks`; number: of the first packet in the buffer.
    """
    at, end, longest, told = 0, len(buffer), limits.packet_bytes + _OTHERS, section.told()
    while True:
        at = packet_blocks(buffer, at, section.order == ">", told.data, longest, found.data, count.data)
        if at + 12 > end:
            return at, section, None
        kind, length = section.head(buffer, at)
        if kind == SECTION:
            magic = buffer[at + 8 : at + 12]
            if magic not in (_ORDER_LITTLE, _ORDER_BIG):
                return at, section, "a section header without a byte order"
            fresh = _Section("<" if magic == _ORDER_LITTLE else ">", len(notes.interfaces))
            length = fresh.head(buffer, at)[1]
        if length < 12 or length % 4 or length > longest:
            return at, section, f"a block of {length} bytes"
        if at + length > end:
            return at, section, None
        body, stop = at + 8, at + length - 4
        if kind == SECTION:
            section, told = fresh, fresh.told()
            notes.sections.append(number + int(count[0]))
        elif kind == INTERFACE and stop - body >= 8:
            interface = _interface(buffer, body, stop, section.order)
            section.interfaces.append(interface)
            notes.interfaces.append(interface)
            told = section.told()
        elif kind == STATISTICS and stop - body >= 12:
            for code, value in _options(buffer, body + 12, stop, section.order):
                if code in (_OPT_IFDROP, _OPT_OSDROP) and len(value) == 8:
                    notes.drops = (notes.drops or 0) + struct.unpack(section.order + "Q", value)[0]
        elif kind == NAMES and len(notes.names) < _MOST_NAMES:
            notes.names.append((buffer[body:stop], section.order))
        elif kind == SECRETS and stop - body >= 8:
            secret, size = section.head(buffer, body)
            if secret == _TLS_KEY_LOG and body + 8 + size <= stop:
                notes.secrets.append(buffer[body + 8 : body + 8 + size])
        at += length


def _times_and_links(ticks: Ints, which: Ints, interfaces: Sequence[Interface]) -> tuple[Ints, Ints]:
    """Times, ns, and link types of packets by their interfaces: numbers in the file, -1 - number without a clock."""
    timeless = which < 0
    used, places = np.unique(np.where(timeless, -1 - which, which), return_inverse=True)
    met = [interfaces[i] for i in used.tolist()]
    links = np.array([each.link for each in met], np.int64)[places]
    multiply, divide, offset, most = np.array([each.clock() for each in met], np.int64).T
    if len(met) > 1:
        multiply, divide, offset, most = multiply[places], divide[places], offset[places], most[places]
    times = ticks * multiply // divide + offset
    times[np.abs(times) >= _LATEST] = 0
    for i in np.flatnonzero((ticks < 0) | (ticks > most)).tolist():  # beyond 63 bits
        times[i] = _fit(met[places[i]].ns(int(ticks[i]) & _MASK64))
    times[timeless] = NO_TIME
    return times, links


def _fit(time: int) -> int:
    return time if -_LATEST < time < _LATEST else 0


def _interface(buffer: bytes, body: int, stop: int, order: str) -> Interface:
    link, _, snaplen = struct.unpack_from(order + "HHI", buffer, body)
    interface = Interface(link, snaplen)
    for code, value in _options(buffer, body + 8, stop, order):
        if code == _OPT_TSRESOL and value:
            power = value[0] & 0x7F
            ticks = 2**power if value[0] & 0x80 else 10 ** min(power, 30)
            interface.multiply, interface.divide = 1_000_000_000, ticks
        elif code == _OPT_TSOFFSET and len(value) == 8:
            interface.offset_ns = struct.unpack(order + "q", value)[0] * 1_000_000_000
    return interface


def _options(buffer: bytes, at: int, stop: int, order: str) -> Iterator[tuple[int, bytes]]:
    head = struct.Struct(order + "HH").unpack_from
    while at + 4 <= stop:
        code, length = head(buffer, at)
        if code == 0 or at + 4 + length > stop:
            return
        yield code, buffer[at + 4 : at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
