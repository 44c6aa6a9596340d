"""Classic pcap.

file header                         packet header
 at  size  field                     at  size  field
  0     4  magic: order, precision    0     4  seconds since the epoch
  4     4  version 2.4                4     4  micro- or nanoseconds
  8     8  unused                     8     4  captured length
 16     4  snaplen                   12     4  original length
 20     4  link type (low 16 bits)   16     -  packet

Kuznetzov's variant (magic a1b2cd34) has 8 more bytes in each packet header: interface index, protocol, packet type.
Source: tcpdump.org, pcap-savefile(5); libpcap's list of magics.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from dissectors.arrow import Ints
from dissectors.capture.captured_sizes import captured_sizes
from dissectors.capture.raw import RawBlock
from dissectors.capture.source import block_sizes, read_fully, step_back
from dissectors.errors import TruncatedError
from dissectors.limits import Limits
from dissectors.wire.structs import structs

FILE_HEADER = 24
_LENGTH = 8  # where the captured length lies in a packet's header
_FIELDS = ("seconds", "fraction", "captured", "original")
_PACKET = {order: np.dtype([(name, f"{order}u4") for name in _FIELDS]) for order in "<>"}


class PcapFormat(NamedTuple):
    """What the magic says."""

    name: str
    order: str  # "<" or ">"
    unit: int  # ns in one unit of the fraction
    header: int  # bytes of a packet header


MAGICS = {
    b"\xd4\xc3\xb2\xa1": PcapFormat("pcap", "<", 1000, 16),
    b"\xa1\xb2\xc3\xd4": PcapFormat("pcap", ">", 1000, 16),
    b"\x4d\x3c\xb2\xa1": PcapFormat("pcap-ns", "<", 1, 16),
    b"\xa1\xb2\x3c\x4d": PcapFormat("pcap-ns", ">", 1, 16),
    b"\x34\xcd\xb2\xa1": PcapFormat("pcap-modified", "<", 1000, 24),
    b"\xa1\xb2\xcd\x34": PcapFormat("pcap-modified", ">", 1000, 24),
}


_FILES = [magic + struct.pack(format.order + "HH", 2, 4) for magic, format in MAGICS.items()]  # how files begin


def link_type(header: bytes, format: PcapFormat) -> int:
    """Link type of a file, from its header."""
    word: int = struct.unpack_from(format.order + "I", header, 20)[0]
    return word & 0xFFFF


def walk(buffer: bytes, format: PcapFormat, start: int, limits: Limits) -> tuple[Ints, int, str | None]:
    """(index of each whole packet's header in buffer, index after the last whole packet, what is wrong there)."""
    header, most = format.header, limits.packet_bytes
    sizes = np.empty(len(buffer) // header + 1, np.int64)
    sizes = sizes[: captured_sizes(buffer, start + _LENGTH, header, format.order == ">", most, sizes.data)]
    edges = np.cumsum(np.concatenate(([start], sizes + header)))
    whole = len(sizes) - int(edges[-1] > len(buffer))
    zeros = bytes(header)  # room that was never written, or lost in a crash
    wrong = {zeros: "zeros", **dict.fromkeys(_FILES, "the header of a file")}
    for empty in np.flatnonzero(sizes[:whole] == 0).tolist():  # a file's header has zeros where a packet's length is
        for beginning, what in wrong.items():
            if buffer.startswith(beginning, edges[empty]):
                return edges[:empty], int(edges[empty]), f"{what} where a packet was expected"
    stop = int(edges[whole])
    if stop + header <= len(buffer):
        (captured,) = struct.unpack_from(format.order + "I", buffer, stop + _LENGTH)
        if captured > most:
            return edges[:whole], stop, f"a packet announces {captured} bytes"
    return edges[:whole], stop, None


def blocks(
    stream: IO[bytes],
    file_header: bytes,
    limits: Limits,
    *,
    number: int = 1,
    size: int | None = None,
) -> Iterator[RawBlock]:
    """The packets that follow the file header, or any packet boundary; at most `size` bytes of them.

    file_header: FILE_HEADER bytes; what follows them comes before what the stream gives. Raises TruncatedError behind
    the last whole packet where the file is cut or damaged.
    """
    format = MAGICS[file_header[:4]]
    link = link_type(file_header, format)
    left, again = file_header[FILE_HEADER:], 0  # bytes of a packet that is not whole: at hand, to be read again
    remaining = size if size is not None else 1 << 62
    for most in block_sizes(limits):
        asked = min(most, remaining) + again
        data, problem = read_fully(stream, asked, pauses=True)
        remaining -= len(data) - again
        buffer = left + data if left else data
        heads, stop, damage = walk(buffer, format, 0, limits)
        raws = []
        for first in range(0, len(heads), limits.block_packets):
            some = heads[first : first + limits.block_packets]
            raws.append(_raw(buffer, some, format, link, number))
            number += len(some)
        left, got, whole = buffer[stop:], len(data), len(heads) > 0
        del buffer, data, heads  # nothing here keeps a block
        raws.reverse()
        while raws:
            yield raws.pop()
        if damage or problem:
            rest = b"" if problem else left
            raise TruncatedError(f"damaged after packet {number - 1}: {damage or problem}", rest, remaining)
        if not got or remaining <= 0:
            break
        again = 0
        if whole and got == asked and step_back(stream, len(left)):  # not at the end: it would never come
            again, left = len(left), b""
    if left:
        raise TruncatedError(f"cut off in packet {number}")


def _raw(buffer: bytes, at: Ints, format: PcapFormat, link: int, number: int) -> RawBlock:
    """Columns of the packet headers at these indices."""
    header = structs(buffer, _PACKET[format.order], at)
    seconds, fraction, captured, original = (header[name].astype(np.int64) for name in _FIELDS)
    return RawBlock(
        buffer,
        at + format.header,
        captured,
        np.maximum(captured, original),
        seconds * 1_000_000_000 + fraction * format.unit,
        np.full(len(at), link, np.int64),
        number,
    )
