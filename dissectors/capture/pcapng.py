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
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from dissectors.capture.raw import NO_TIME, RawBlock
from dissectors.capture.source import block_sizes, read_fully
from dissectors.errors import TruncatedError
from dissectors.limits import Limits

MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, PACKET, SIMPLE, STATISTICS, ENHANCED, SECRETS = 0x0A0D0D0A, 1, 2, 3, 5, 6, 10
_ORDER_LITTLE = b"\x4d\x3c\x2b\x1a"
_ORDER_BIG = b"\x1a\x2b\x3c\x4d"
_OPT_TSRESOL, _OPT_TSOFFSET = 9, 14
_OPT_IFDROP, _OPT_OSDROP = 5, 7
_TLS_KEY_LOG = 0x544C534B


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


@dataclass(slots=True)
class Notes:
    """What the file holds besides packets."""

    interfaces: list[Interface] = field(default_factory=list)  # of every section
    drops: int | None = None  # packets that the capturer says it lost
    secrets: list[bytes] = field(default_factory=list)  # TLS key logs
    sections: list[int] = field(default_factory=list)  # number of the first packet of each


class _Section:
    def __init__(self, order: str) -> None:
        self.interfaces: list[Interface] = []
        self.order = order
        self.head = struct.Struct(order + "II").unpack_from
        self.enhanced = struct.Struct(order + "IIIII").unpack_from
        self.obsolete = struct.Struct(order + "HHIIII").unpack_from


def blocks(stream: IO[bytes], head: bytes, limits: Limits, notes: Notes, number: int = 1) -> Iterator[RawBlock]:
    """The packets of a file whose first bytes are `head`, numbered from `number` on.

    Raises TruncatedError where it is cut or damaged.
    """
    section = _Section("<")
    left = head
    for most in block_sizes(limits):
        data, problem = read_fully(stream, most, pauses=True)
        buffer = left + data
        rows: list[tuple[int, int, int, int, int]] = []  # index, captured, original, time, link
        at, section, damage = _walk(buffer, section, limits, notes, rows, number)
        left, got = buffer[at:], len(data)
        raws = []
        if rows:
            index, captured, original, time, link = np.array(rows, np.int64).T
            raws.append(RawBlock(buffer, index, captured, original, time, link, number))
        number += len(rows)
        del buffer, data, rows  # nothing here keeps a block
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
    buffer: bytes,
    section: _Section,
    limits: Limits,
    notes: Notes,
    rows: list[tuple[int, int, int, int, int]],
    number: int,
) -> tuple[int, _Section, str | None]:
    """Walk whole blocks; (index after the last one, the section in force, what is wrong there).

    number: of the first packet in the buffer.
    """
    at, end = 0, len(buffer)
    while at + 12 <= end:
        kind, length = section.head(buffer, at)
        if kind == SECTION:
            magic = buffer[at + 8 : at + 12]
            if magic not in (_ORDER_LITTLE, _ORDER_BIG):
                return at, section, "a section header without a byte order"
            fresh = _Section("<" if magic == _ORDER_LITTLE else ">")
            length = fresh.head(buffer, at)[1]
        if length < 12 or length % 4 or length > limits.packet_bytes + 4096:
            return at, section, f"a block of {length} bytes"
        if at + length > end:
            break
        body, stop = at + 8, at + length - 4
        if kind == SECTION:
            section = fresh
            notes.sections.append(number + len(rows))
        elif kind == ENHANCED and stop - body >= 20:
            which, high, low, captured, original = section.enhanced(buffer, body)
            if which < len(section.interfaces) and body + 20 + captured <= stop:
                interface = section.interfaces[which]
                time = interface.ns(high << 32 | low)
                rows.append((body + 20, captured, max(captured, original), _fit(time), interface.link))
        elif kind == PACKET and stop - body >= 20:
            which, _, high, low, captured, original = section.obsolete(buffer, body)
            if which < len(section.interfaces) and body + 20 + captured <= stop:
                interface = section.interfaces[which]
                time = interface.ns(high << 32 | low)
                rows.append((body + 20, captured, max(captured, original), _fit(time), interface.link))
        elif kind == SIMPLE and stop - body >= 4 and section.interfaces:
            (original,) = struct.unpack_from(section.order + "I", buffer, body)
            interface = section.interfaces[0]
            captured = min(original, interface.snaplen or original, stop - body - 4)
            rows.append((body + 4, captured, max(captured, original), NO_TIME, interface.link))
        elif kind == INTERFACE and stop - body >= 8:
            interface = _interface(buffer, body, stop, section.order)
            section.interfaces.append(interface)
            notes.interfaces.append(interface)
        elif kind == STATISTICS and stop - body >= 12:
            for code, value in _options(buffer, body + 12, stop, section.order):
                if code in (_OPT_IFDROP, _OPT_OSDROP) and len(value) == 8:
                    notes.drops = (notes.drops or 0) + struct.unpack(section.order + "Q", value)[0]
        elif kind == SECRETS and stop - body >= 8:
            secret, size = section.head(buffer, body)
            if secret == _TLS_KEY_LOG and body + 8 + size <= stop:
                notes.secrets.append(buffer[body + 8 : body + 8 + size])
        at += length
    return at, section, None


def _fit(time: int) -> int:
    return time if -(1 << 62) < time < 1 << 62 else 0


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
