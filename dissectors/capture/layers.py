"""From link-layer frames to TCP headers.

Every packet has a position and the kind of header that stands there. One step reads that header and moves the packet on
to the next one; steps go on until it stands at a TCP header or at something else. So a tunnel costs more steps, not
another code path.

Sources: tcpdump.org link-layer header types; IEEE 802.3/802.1Q; RFC 791, 8200, 9293, 2784/2890 (GRE), 7348 (VXLAN),
8926 (GENEVE), 3032 (MPLS), 2516 (PPPoE), 3GPP TS 29.281 (GTP-U), draft-foschiano-erspan.
"""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints
from dissectors.capture.headers import (
    ERSPAN2,
    ERSPAN3,
    ETHER,
    FOLLOWING,
    FRAGMENT,
    GENEVE,
    GRE,
    GTPU,
    IPV4,
    IPV6,
    IPV6_OPTION,
    LEAST_BYTES,
    MPLS,
    NFLOG,
    NULL,
    OF_ETHERTYPE,
    OF_FAMILY,
    OF_IP_VERSION,
    OF_PPP,
    OF_PROTOCOL,
    OF_UDP_PORT,
    OTHER,
    PKTAP,
    PPP,
    PPPOE,
    RAW,
    SLL,
    SLL2,
    SNAP,
    TCP,
    TCP_HEADER,
    UDP,
    VLAN,
    VXLAN,
    first_kind,
    kind_of_link,
)
from dissectors.capture.tcp_options import DUPLICATE, STAMPS, read_options
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import AnyBytes, Bytes, Grid, Numbers, numbers
from dissectors.wire.big_endian import BigEndian

(
    KIND,  # of the header that comes next
    AT,  # where it begins; behind a TCP header the payload does
    END,  # of what was captured
    FULL,  # end on the wire, as the innermost IP header says
    IP_AT,  # innermost IP header; -1 for none
    PROTOCOL,  # what the last IP header or option said comes next
    SRC_HI,  # addresses: 64 bits of an unsigned number each
    SRC_LO,
    DST_HI,
    DST_LO,
    SPORT,
    DPORT,
    SEQ,
    ACK,
    FLAGS,
    WINDOW,
    IP_ID,
    CHECK,
    STAMPED,
    REPEATED,
    PAYLOAD,  # bytes on the wire
    HAVE,  # bytes of the payload that were captured
    VIA_BITS,
    SEGMENT,
    COLUMNS,
) = range(25)
"""What is known of a packet. A TCP packet has all of it, one of another kind what its headers said: of UDP that is no
tunnel, SPORT is its source port and AT its payload."""

_NOT_IN_EVERY_PACKET = (PROTOCOL, SPORT, STAMPED, REPEATED, VIA_BITS, SEGMENT)
"""Columns that are read also of packets whose headers have not set them, and are 0 then."""

_VLAN, _MPLS, _PPPOE, _VXLAN, _GENEVE, _GRE, _ERSPAN, _IPIP, _SIX_IN_FOUR, _GTPU = (
    1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 9,
)  # fmt: skip
"""Bits of VIA_BITS, in the order of block.VIA."""
_TUNNELS = _VXLAN | _GENEVE | _GRE | _ERSPAN | _GTPU
_STEPS = 24  # headers a packet may have; a bomb of nested tunnels ends here
_LONGEST_802_3 = 1500  # larger numbers in the place of the length are EtherTypes
_SNAP_HEAD = 0xAAAA03
_AH, _FRAGMENT_HEADER = 51, 44  # protocol numbers; AH's length counts 4-byte units, that of other options 8-byte units
_V4_MAPPED = 0xFFFF << 32  # ::ffff:a.b.c.d: how an IPv4 address lies in two halves
_VLANS = 0xFFFFFF  # the bits of `SEGMENT` that hold up to two VLANs
_PPP_FRAMED = 0xFF03  # address and control bytes, which may be left out
_PKTAP = 108  # bytes of its shortest header
_NFLOG_PAYLOAD = 9  # type of the attribute that is the packet
_NFLOG_ATTRIBUTES = 32  # of a packet that are looked at; there are 20 types
_ERSPAN1, _PPTP = 0x88BE, 1  # what GRE holds
_GPDU = 255  # type of GTP-U's message that holds a packet


@final
@compiled
class Layers:
    """The way of n packets through their headers.

    columns: int64[COLUMNS, n]. After `run`, KIND is TCP, FRAGMENT or OTHER.
    """

    buffer: BigEndian
    columns: npt.NDArray[np.int64]
    _found: Grid  # the same
    _said: Numbers  # by the options of a TCP header
    _following: Bytes
    _count: cython.Py_ssize_t = 0

    def __init__(self, buffer: AnyBytes, at: Ints, have: Ints, wire: Ints, link: Ints) -> None:
        """at: index of each packet in buffer; have, wire: its captured and original length; link: its link type."""
        found = np.empty((COLUMNS, len(at)), np.int64)
        found[KIND] = first_kind(link)
        found[AT], found[END], found[FULL] = at, at + have, at + wire
        found[IP_AT] = -1
        found[list(_NOT_IN_EVERY_PACKET)] = 0
        self.buffer = BigEndian(buffer)
        self.columns = found
        self._found = found.data
        self._said = numbers(2)
        self._following = FOLLOWING
        self._count = len(at)

    def over(self, buffer: AnyBytes) -> None:
        """Read from a longer buffer, which begins with the one given at first."""
        self.buffer = BigEndian(buffer)

    def fragments(self) -> Ints:
        """Packets that stand before a piece of a datagram."""
        return np.flatnonzero(self.columns[KIND] == FRAGMENT)

    @compiled
    def run(self) -> None:
        """Move every packet on until none can go further."""
        i: cython.Py_ssize_t
        kind: cython.longlong
        for i in range(self._count):
            for _ in range(_STEPS):
                kind = self._found[KIND, i]
                if kind <= TCP:
                    break
                if self._found[AT, i] + self._following[LEAST_BYTES + kind] > self._found[END, i]:
                    self._found[KIND, i] = OTHER
                else:
                    self._step(i, kind, self._found[AT, i])
            if self._found[KIND, i] > TCP:
                self._found[KIND, i] = OTHER

    @compiled
    def _step(self, i: cython.Py_ssize_t, kind: cython.longlong, at: cython.Py_ssize_t) -> None:
        """Read the header of packet i, of this kind, that begins at an index; its least bytes are there."""
        if kind == ETHER:
            self._behind_length(i, at + 14, self.buffer.u16(at + 12))
        elif kind == IPV4:
            self._ipv4(i, at)
        elif kind == IPV6:
            self._ipv6(i, at)
        elif kind == TCP_HEADER:
            self._tcp(i, at)
        elif kind == IPV6_OPTION:
            self._ipv6_option(i, at)
        elif kind == SLL:
            self._go(i, at + 16, OF_ETHERTYPE + self.buffer.u16(at + 14))
        elif kind == SLL2:
            self._go(i, at + 20, OF_ETHERTYPE + self.buffer.u16(at))
        elif kind == NULL:
            self._null(i, at)
        elif kind == RAW:
            self._go(i, at, OF_IP_VERSION + (self.buffer.u8(at) >> 4))
        elif kind == PKTAP:
            self._pktap(i, at)
        elif kind == NFLOG:
            self._nflog(i, at)
        elif kind == VLAN:
            self._vlan(i, at)
        elif kind == MPLS:
            self._mpls(i, at)
        elif kind == PPPOE:
            self._go(i, at + 8, OF_PPP + self.buffer.u16(at + 6))
            self._found[VIA_BITS, i] |= _PPPOE
        elif kind == PPP:
            self._ppp(i, at)
        elif kind == SNAP:
            self._snap(i, at)
        elif kind == UDP:
            self._found[SPORT, i] = self.buffer.u16(at)
            self._go(i, at + 8, OF_UDP_PORT + self.buffer.u16(at + 2))
        elif kind == VXLAN:
            self._vxlan(i, at)
        elif kind == GENEVE:
            self._geneve(i, at)
        elif kind == GTPU:
            self._gtpu(i, at)
        elif kind == GRE:
            self._gre(i, at)
        elif kind == ERSPAN2:
            self._erspan(i, at + 8)
        elif kind == ERSPAN3:
            self._erspan(i, at + (20 if self.buffer.u8(at + 11) & 1 else 12))

    @compiled
    def _go(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t, entry: cython.Py_ssize_t) -> None:
        """Move packet i on to an index, before the header that an entry of `following` names."""
        self._found[AT, i] = at
        self._found[KIND, i] = self._following[entry]

    @compiled
    def _end(self, i: cython.Py_ssize_t) -> None:
        """Packet i goes no further."""
        self._found[KIND, i] = OTHER

    @compiled
    def _behind_length(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t, number: cython.longlong) -> None:
        """Go on behind an EtherType, or the length that 802.3 has in its place."""
        self._go(i, at, OF_ETHERTYPE + number)
        if number <= _LONGEST_802_3:
            self._found[KIND, i] = SNAP

    @compiled
    def _snap(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        self._go(i, at + 8, OF_ETHERTYPE + self.buffer.u16(at + 6))
        if self.buffer.u32(at) >> 8 != _SNAP_HEAD or self.buffer.u16(at + 3):
            self._end(i)

    @compiled
    def _vlan(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        before: cython.longlong = self._found[SEGMENT, i]
        tag: cython.longlong = self.buffer.u16(at)
        self._found[SEGMENT, i] = before >> 24 << 24 | (before << 12 | tag & 0xFFF) & _VLANS
        self._found[VIA_BITS, i] |= _VLAN
        self._behind_length(i, at + 4, self.buffer.u16(at + 2))

    @compiled
    def _enter(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t, via: cython.longlong) -> None:
        """Enter the virtual network whose number (VNI, 24 bits) lies at an index: VLANs outside do not count."""
        self._found[SEGMENT, i] = (self.buffer.u32(at) >> 8) + 1 << 24
        self._found[VIA_BITS, i] |= via

    @compiled
    def _null(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        """The address family in the byte order of the machine that captured: one of the two readings is small."""
        family: cython.longlong = self.buffer.u32(at)
        self._go(i, at + 4, OF_FAMILY + (family >> 24 if family > 0xFFFF else family))

    @compiled
    def _little(self, at: cython.Py_ssize_t) -> cython.longlong:
        """The little-endian number in four bytes."""
        number: cython.longlong = self.buffer.u8(at + 3)
        return number << 24 | self.buffer.u8(at + 2) << 16 | self.buffer.u8(at + 1) << 8 | self.buffer.u8(at)

    @compiled
    def _pktap(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        """Apple's header, little-endian: its length, 1 where a packet follows, and the packet's own link type."""
        length: cython.longlong = self._little(at)
        if length < _PKTAP or self._little(at + 4) != 1:
            self._end(i)
            return
        self._found[AT, i] = at + length
        self._found[KIND, i] = kind_of_link(self._little(at + 8))

    @compiled
    def _nflog(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        """Netfilter's log: attributes (length u16, type u16, value, padded to 4 bytes) until the one with the packet.

        Lengths and types are in the byte order of the machine that captured; all attributes are short but the packet.
        """
        end: cython.Py_ssize_t = self._found[END, i]
        length: cython.Py_ssize_t
        kind: cython.int
        known: cython.bint = self.buffer.u8(at + 1) == 0  # version
        self._end(i)
        at += 4
        for _ in range(_NFLOG_ATTRIBUTES):
            if not known or at + 4 > end:
                return
            length, kind = self.buffer.u16(at), self.buffer.u16(at + 2)
            if self.buffer.u8(at + 3) == 0:  # little-endian: no type is above 255
                length = length >> 8 | (length & 0xFF) << 8
                kind >>= 8
            if kind == _NFLOG_PAYLOAD and length > 4:
                self._found[AT, i] = at + 4
                self._found[END, i] = min(end, at + length)
                self._found[KIND, i] = RAW
                return
            known = length >= 4
            at += length + 3 & ~3

    @compiled
    def _mpls(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        """One label; below the last one stands IP, or an Ethernet frame behind a control word of four bytes."""
        self._found[VIA_BITS, i] |= _MPLS
        self._found[AT, i] = at + 4
        if self.buffer.u8(at + 2) & 1 == 0:
            return
        if at + 4 >= self._found[END, i]:
            self._end(i)
        elif self.buffer.u8(at + 4) >> 4:
            self._go(i, at + 4, OF_IP_VERSION + (self.buffer.u8(at + 4) >> 4))
        else:
            self._found[AT, i] = at + 8
            self._found[KIND, i] = ETHER

    @compiled
    def _ppp(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        """With or without the address and control bytes."""
        if self.buffer.u16(at) == _PPP_FRAMED:
            at += 2
        if at + 2 > self._found[END, i]:
            self._end(i)
        else:
            self._go(i, at + 2, OF_PPP + self.buffer.u16(at))

    @compiled
    def _ipv4(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        first: cython.longlong = self.buffer.u32(at)
        second: cython.longlong = self.buffer.u32(at + 4)
        header: cython.longlong = (first >> 24 & 15) * 4
        total: cython.longlong = first & 0xFFFF
        good: cython.bint
        if total == 0:  # segmentation offload: the card filled it in later
            total = self._found[FULL, i] - at
        good = first >> 28 == 4 and header >= 20 and total >= header and at + header <= self._found[END, i]
        self._found[SRC_HI, i] = self._found[DST_HI, i] = 0
        self._found[SRC_LO, i] = _V4_MAPPED | self.buffer.u32(at + 12)
        self._found[DST_LO, i] = _V4_MAPPED | self.buffer.u32(at + 16)
        self._found[IP_ID, i] = second >> 16
        self._behind_ip(i, at, at + header, at + total, self.buffer.u8(at + 9), second & 0x3FFF != 0)
        if not good:
            self._end(i)

    @compiled
    def _ipv6(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        length: cython.longlong = self.buffer.u16(at + 4)
        stop: cython.longlong = at + 40 + length if length else self._found[FULL, i]
        protocol: cython.int = self.buffer.u8(at + 6)
        self._found[SRC_HI, i], self._found[SRC_LO, i] = self.buffer.i64(at + 8), self.buffer.i64(at + 16)
        self._found[DST_HI, i], self._found[DST_LO, i] = self.buffer.i64(at + 24), self.buffer.i64(at + 32)
        self._found[IP_ID, i] = 0
        self._behind_ip(i, at, at + 40, stop, protocol, protocol == _FRAGMENT_HEADER)
        if self.buffer.u8(at) >> 4 != 6:
            self._end(i)

    @compiled
    def _behind_ip(
        self,
        i: cython.Py_ssize_t,
        start: cython.Py_ssize_t,
        at: cython.Py_ssize_t,
        stop: cython.longlong,
        protocol: cython.int,
        is_fragment: cython.bint,
    ) -> None:
        """Step behind an IP header, which begins at `start`; the packet ends where it says.

        The inner header of a tunnel counts, not the outer one: a mirror may cut what it sends, and then the outer
        length is that of the rest.
        """
        outer: cython.longlong = self._found[IP_AT, i]
        if outer >= 0 and self._found[VIA_BITS, i] & _TUNNELS == 0:
            if self.buffer.u8(outer) >> 4 == 4 and self.buffer.u8(start) >> 4 == 6:
                self._found[VIA_BITS, i] |= _SIX_IN_FOUR
            else:
                self._found[VIA_BITS, i] |= _IPIP
        self._found[IP_AT, i] = start
        self._found[PROTOCOL, i] = protocol
        self._found[FULL, i] = stop
        self._found[END, i] = min(self._found[END, i], stop)
        self._go(i, at, OF_PROTOCOL + protocol)
        if is_fragment:
            self._found[KIND, i] = FRAGMENT

    @compiled
    def _ipv6_option(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        protocol: cython.int = self.buffer.u8(at)
        units: cython.Py_ssize_t = self.buffer.u8(at + 1)
        size: cython.Py_ssize_t = (units + 2) * 4 if self._found[PROTOCOL, i] == _AH else (units + 1) * 8
        self._found[PROTOCOL, i] = protocol
        self._go(i, at + size, OF_PROTOCOL + protocol)
        if protocol == _FRAGMENT_HEADER:
            self._found[KIND, i] = FRAGMENT

    @compiled
    def _vxlan(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        self._enter(i, at + 4, _VXLAN)
        self._found[AT, i] = at + 8
        self._found[KIND, i] = ETHER if self.buffer.u8(at) & 0x08 else OTHER

    @compiled
    def _geneve(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        first: cython.int = self.buffer.u8(at)
        self._enter(i, at + 4, _GENEVE)
        self._go(i, at + 8 + (first & 0x3F) * 4, OF_ETHERTYPE + self.buffer.u16(at + 2))
        if first >> 6:
            self._end(i)

    @compiled
    def _gtpu(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        """Version 1 G-PDUs; sequence number, N-PDU and extension headers are stepped over."""
        first: cython.int = self.buffer.u8(at)
        end: cython.Py_ssize_t = self._found[END, i]
        good: cython.bint = first >> 4 == 3 and self.buffer.u8(at + 1) == _GPDU
        at += 12 if first & 7 else 8
        if first & 4:
            while good and at < end and self.buffer.u8(at - 1) and self.buffer.u8(at):  # type of the next, its length
                at += self.buffer.u8(at) * 4
        self._found[VIA_BITS, i] |= _GTPU
        self._found[AT, i] = at
        if good and at < end:
            self._go(i, at, OF_IP_VERSION + (self.buffer.u8(at) >> 4))
        else:
            self._end(i)

    @compiled
    def _gre(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        flags: cython.int = self.buffer.u16(at)
        holds: cython.int = self.buffer.u16(at + 2)
        size: cython.Py_ssize_t = 4  # and checksum or routing, key, sequence number
        size += (4 if flags & 0xC000 else 0) + (4 if flags & 0x2000 else 0) + (4 if flags & 0x1000 else 0)
        self._found[VIA_BITS, i] |= _GRE
        self._go(i, at + size, OF_ETHERTYPE + holds)
        if holds == _ERSPAN1 and flags & 0x1000 == 0:  # no sequence number, and no header of its own
            self._found[KIND, i] = ETHER
        if flags & 7 == _PPTP:
            self._end(i)

    @compiled
    def _erspan(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        """Go on with the Ethernet frame at an index."""
        self._found[VIA_BITS, i] |= _ERSPAN
        self._found[AT, i] = at
        self._found[KIND, i] = ETHER

    @compiled
    def _tcp(self, i: cython.Py_ssize_t, at: cython.Py_ssize_t) -> None:
        ports: cython.longlong = self.buffer.u32(at)
        fourth: cython.longlong = self.buffer.u32(at + 12)
        header: cython.longlong = (fourth >> 28) * 4
        end: cython.longlong = self._found[END, i]
        payload: cython.longlong = self._found[FULL, i] - at - header
        if header < 20 or payload < 0:
            self._end(i)
            return
        self._found[KIND, i] = TCP
        self._found[AT, i] = at + header
        self._found[PAYLOAD, i] = payload
        self._found[HAVE, i] = min(max(end - at - header, 0), payload)
        self._found[SPORT, i], self._found[DPORT, i] = ports >> 16, ports & 0xFFFF
        self._found[SEQ, i], self._found[ACK, i] = self.buffer.u32(at + 4), self.buffer.u32(at + 8)
        self._found[FLAGS, i], self._found[WINDOW, i] = fourth >> 16 & 0xFF, fourth & 0xFFFF
        self._found[CHECK, i] = self.buffer.u16(at + 16)
        if header > 20:
            read_options(self.buffer, at + 20, min(at + header, end), self._found[ACK, i], self._said)
            self._found[STAMPED, i], self._found[REPEATED, i] = self._said[STAMPS], self._said[DUPLICATE]
