"""IP fragments, IPv4 and IPv6, put together again.

Fragments are rare, so they are handled one at a time: each adds its piece to the datagram that it belongs to; the one
that completes it takes the whole datagram's place in the packet columns and goes on through the layers. RFC 815's idea,
with a plain list of pieces in place of hole descriptors.

The fragments of a datagram may lie in several files of a site, or on both sides of a border at which a file is split:
files that are read one after the other share one `Fragments`; of those read apart, `pending` gives the packets that
may go together with those of others. A datagram belongs where its latest fragment lies. Of files that overlap in time,
which are read block by block, that fragment may have been read before others: `put_off` keeps such a datagram until its
time has come.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dissectors.arrow import Ints
from dissectors.capture.block import VIA, PacketBlock, concat
from dissectors.capture.headers import OTHER, next_kind
from dissectors.capture.layers import AT, DST_LO, END, FULL, IP_AT, IP_ID, KIND, PROTOCOL, SRC_HI, VIA_BITS, Layers

_DATAGRAMS = 4096  # incomplete ones kept; the oldest goes first
_DATAGRAM_BYTES = 65_536  # what the 13-bit offset can address
TIMEOUT_NS = 60_000_000_000  # RFC 1122, 3.3.2
_VIA = 1 << VIA.index("fragments")
PENDING_BYTES = 1 << 20  # of packets that `pending` gives


class Packet(NamedTuple):
    """A packet that holds a fragment, as the container gave it."""

    file: int
    number: int
    time: int  # ns since the epoch
    clock: int  # the same, never stepping back within a file
    link: int
    wire: int  # original length
    data: bytes


def place(packet: Packet) -> tuple[int, int, int]:
    """What packets of a site are ordered by."""
    return packet.clock, packet.file, packet.number


@dataclass(slots=True)
class _Datagram:
    time: int
    pieces: dict[int, bytes] = field(default_factory=dict)  # offset -> bytes
    packets: list[Packet] = field(default_factory=list)
    total: int | None = None  # known once the last fragment was seen
    have: int = 0


class Fragments:
    """Datagrams of one site that wait for their fragments."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[object, ...], _Datagram] = OrderedDict()
        self.overlaps = 0  # fragments that disagree with bytes seen before
        self.late: dict[int, Packet] = {}  # number of the packet that made a datagram whole -> a later one of it
        self._put_off: list[PacketBlock] = []

    def pending(self) -> list[Packet]:
        """The packets of datagrams that are not whole: the oldest and the newest, at most PENDING_BYTES of them."""
        waiting = sorted((p for d in self._open.values() for p in d.packets), key=place)
        size = np.cumsum([len(p.data) for p in waiting])
        if not waiting or size[-1] <= PENDING_BYTES:
            return waiting
        first = int(np.searchsorted(size, PENDING_BYTES // 2))
        last = int(np.searchsorted(size, size[-1] - PENDING_BYTES // 2, side="right"))
        return waiting[:first] + waiting[last:]

    def wait_at(self, clock: int) -> bool:
        """Whether a packet behind this time (ns) may complete a datagram that has begun."""
        return any(datagram.packets[0].clock > clock - TIMEOUT_NS for datagram in self._open.values())

    def put_off(self, block: PacketBlock) -> None:
        """Keep datagrams that belong behind what has been read of some file."""
        self._put_off.append(block)

    def up_to(self, time: int) -> PacketBlock | None:
        """Those of them that belong before or at a time (ns)."""
        if not self._put_off:
            return None
        before, behind = concat(self._put_off).cut_at(time)
        self._put_off = [] if behind is None else [behind]
        return before

    def join(self, layers: Layers, index: Ints, buffer: bytes, packet: Callable[[int], Packet]) -> bytes:
        """Take the fragments at `index`; returns the buffer, with completed datagrams appended to it.

        packet: the packet at an index. `late` says of which datagrams the latest fragment is another packet.
        """
        extra: list[bytes] = []
        size = len(buffer)
        found = layers.columns
        self.late = {}
        for i in index.tolist():
            current = packet(i)
            whole = self._add(layers, i, buffer, current)
            if whole is None:
                found[KIND, i] = OTHER
                continue
            proto, data, latest = whole
            if latest is not current:
                self.late[current.number] = latest
            found[KIND, i] = next_kind(proto)
            found[PROTOCOL, i] = proto
            found[AT, i] = size
            found[END, i] = found[FULL, i] = size + len(data)
            found[VIA_BITS, i] |= _VIA
            extra.append(data)
            size += len(data)
        if not extra:
            return buffer
        joined = b"".join([buffer, *extra])
        layers.over(joined)
        layers.run()  # a datagram may hold a tunnel, and that another fragment
        found[KIND, layers.fragments()] = OTHER
        return joined

    def _add(self, x: Layers, i: int, buffer: bytes, packet: Packet) -> tuple[int, bytes, Packet] | None:
        said: list[int] = x.columns[:, i].tolist()
        ip, at, end = said[IP_AT], said[AT], said[END]
        addresses = tuple(said[SRC_HI : DST_LO + 1])
        if buffer[ip] >> 4 == 4:
            word = x.buffer.u16(ip + 6)
            offset, more = (word & 0x1FFF) * 8, bool(word & 0x2000)
            proto, ident = buffer[ip + 9], said[IP_ID]
        else:
            if at + 8 > end:
                return None
            word = x.buffer.u16(at + 2)
            offset, more = word & 0xFFF8, bool(word & 1)
            proto, ident = buffer[at], x.buffer.u32(at + 4)
            at += 8
        if said[FULL] > end or offset + end - at > _DATAGRAM_BYTES:
            return None  # cut by the capture, or impossible
        key = (addresses, proto, ident)
        datagram = self._open.get(key)
        if datagram is None or abs(packet.time - datagram.time) > TIMEOUT_NS:
            datagram = self._open[key] = _Datagram(packet.time)
            if len(self._open) > _DATAGRAMS:
                self._open.popitem(last=False)
        datagram.packets.append(packet)
        data = buffer[at:end]
        known = datagram.pieces.get(offset)
        if known is None:
            datagram.pieces[offset] = data
            datagram.have += len(data)
        elif known != data:
            self.overlaps += 1
        if not more:
            datagram.total = offset + len(data)
        if datagram.total is None or datagram.have < datagram.total:
            return None
        whole = bytearray()
        for start in sorted(datagram.pieces):
            piece = datagram.pieces[start]
            if start > len(whole):
                return None  # a hole: pieces overlap elsewhere
            if start < len(whole) and whole[start : start + len(piece)] != piece[: len(whole) - start]:
                self.overlaps += 1
            whole += piece[len(whole) - start :]
        del self._open[key]
        return proto, bytes(whole[: datagram.total]), max(datagram.packets, key=place)
