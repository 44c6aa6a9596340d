"""From link-layer frames to TCP headers, a column at a time.

Every packet has a position and the kind of header that stands there. A pass takes all packets that stand before the
same kind of header, reads its fields with one numpy operation each, and moves them on; passes go on until every packet
stands at a TCP header or at something else. So a tunnel costs one more pass, not another code path.

Sources: tcpdump.org link-layer header types; IEEE 802.3/802.1Q; RFC 791, 8200, 9293, 2784/2890 (GRE), 7348 (VXLAN),
8926 (GENEVE), 3032 (MPLS), 2516 (PPPoE), 3GPP TS 29.281 (GTP-U), draft-foschiano-erspan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints
from dissectors.capture import tcp_options
from dissectors.capture.block import VIA
from dissectors.wire.structs import structs

# Kinds of header. The first three end a packet's way.
(
    OTHER,
    FRAGMENT,
    TCP,
    ETHER,
    SLL,
    SLL2,
    NULL,
    RAW,
    VLAN,
    MPLS,
    PPPOE,
    PPP,
    SNAP,
    IPV4,
    IPV6,
    IPV6_OPTION,
    UDP,
    GRE,
    ERSPAN2,
    ERSPAN3,
    VXLAN,
    GENEVE,
    GTPU,
    TCP_HEADER,
    PKTAP,
    NFLOG,
) = range(26)

# Link types (pcap and pcapng number them alike) -> first header.
LINK_TYPES = {
    0: NULL,
    1: ETHER,
    9: PPP,
    12: RAW,
    14: RAW,
    101: RAW,
    108: NULL,
    113: SLL,
    228: IPV4,
    229: IPV6,
    239: NFLOG,
    258: PKTAP,
    276: SLL2,
}
LINK_NAMES = {
    0: "null", 1: "ethernet", 9: "ppp", 12: "raw", 14: "raw", 101: "raw", 108: "loop", 113: "linux-sll",
    228: "ipv4", 229: "ipv6", 239: "nflog", 258: "pktap", 276: "linux-sll2",
}  # fmt: skip
"""Of those that are read."""
_UNREAD_NAMES = {
    6: "token-ring", 8: "slip", 10: "fddi", 104: "cisco-hdlc", 105: "ieee802.11", 107: "frame-relay", 117: "pflog",
    119: "ieee802.11-prism", 122: "ip-over-fc", 127: "ieee802.11-radiotap", 138: "ieee1394-ip",
    162: "user15", 163: "ieee802.11-avs", 187: "bluetooth-h4", 189: "usb-linux", 192: "ppi", 195: "ieee802.15.4",
    201: "bluetooth-h4-phdr", 220: "usb-linux-mmapped", 242: "ip-over-infiniband", 247: "infiniband", 249: "usbpcap",
    253: "netlink", 271: "vsock", 274: "ethernet-mpacket", 292: "zwave",
    **{147 + i: f"user{i}" for i in range(15)},
}  # fmt: skip
"""Of some that are not."""


def link_name(link: int) -> str:
    """A link type by its name, or as its number."""
    return LINK_NAMES.get(link, str(link))


def unread_link(link: int) -> str:
    """A link type that is not read, by its number, and its name where that is known."""
    return f"link type {link} ({_UNREAD_NAMES[link]})" if link in _UNREAD_NAMES else f"link type {link}"


_ETHERTYPES = {
    0x0800: IPV4, 0x86DD: IPV6, 0x8100: VLAN, 0x88A8: VLAN, 0x9100: VLAN, 0x9200: VLAN, 0x8847: MPLS, 0x8848: MPLS,
    0x8864: PPPOE, 0x6558: ETHER, 0x88BE: ERSPAN2, 0x22EB: ERSPAN3, 0x880B: PPP,
}  # fmt: skip
_PROTOCOLS = {4: IPV4, 6: TCP_HEADER, 17: UDP, 41: IPV6, 47: GRE, 0: IPV6_OPTION, 43: IPV6_OPTION, 60: IPV6_OPTION,
              51: IPV6_OPTION, 135: IPV6_OPTION, 137: MPLS}  # fmt: skip
_PPP_PROTOCOLS = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS}
_NULL_FAMILIES = {2: IPV4, 10: IPV6, 23: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}
_VXLAN_PORTS = (4789, 8472)
_GENEVE_PORT = 6081
_GTPU_PORT = 2152
_AH = 51  # its length counts 4-byte units, the other options' 8-byte units
_FRAGMENT_HEADER = 44
_PKTAP = 108  # bytes of its shortest header
_NFLOG_PAYLOAD = 9  # type of the attribute that is the packet
_NFLOG_ATTRIBUTES = 32  # of a packet that are looked at; there are 20 types

# The headers that nearly every packet has. `first`: version and more; `words`: data offset and more.
_IPV4 = np.dtype([
    ("first", "u1"), ("service", "u1"), ("total", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1"),
    ("proto", "u1"), ("check", ">u2"), ("src", ">u4"), ("dst", ">u4"),
])  # fmt: skip
_IPV6 = np.dtype([
    ("first", "u1"), ("flow", "V3"), ("length", ">u2"), ("proto", "u1"), ("hops", "u1"), ("src_hi", ">u8"),
    ("src_lo", ">u8"), ("dst_hi", ">u8"), ("dst_lo", ">u8"),
])  # fmt: skip
_TCP = np.dtype([
    ("sport", ">u2"), ("dport", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("words", "u1"), ("flags", "u1"),
    ("window", ">u2"), ("check", ">u2"), ("urgent", ">u2"),
])  # fmt: skip

_BIT = {name: 1 << i for i, name in enumerate(VIA)}
_PASSES = 24  # headers a packet may have; a bomb of nested tunnels ends here


def _table(mapping: dict[int, int], size: int) -> npt.NDArray[np.int8]:
    table = np.full(size, OTHER, dtype=np.int8)
    for key, kind in mapping.items():
        table[key] = kind
    return table


_ETHERTYPE = _table(_ETHERTYPES, 65536)
_PROTOCOL = _table(_PROTOCOLS, 256)
_PPP_PROTOCOL = _table(_PPP_PROTOCOLS, 65536)
_VERSION = _table({4: IPV4, 6: IPV6}, 16)
_FIRST = _table(LINK_TYPES, 1 << 16)


def first_kind(link: Ints) -> npt.NDArray[np.int8]:
    """The header with which packets of these link types begin; OTHER where the link type is not read."""
    return _FIRST[link]


def next_kind(proto: int) -> int:
    """The header that an IP protocol number announces."""
    return int(_PROTOCOL[proto])


class Layers:
    """The way of n packets through their headers.

    After `run`: `kind` is TCP, FRAGMENT or OTHER for each packet; for TCP ones the columns below are filled.
    """

    def __init__(
        self, buffer: bytes | memoryview, at: Ints, have: Ints, wire: Ints, kind: npt.NDArray[np.int8]
    ) -> None:
        """at: index of each packet in buffer; have, wire: its captured and original length; kind: its first header."""
        n = len(at)
        self.over(buffer)
        self.kind = kind.copy()
        self.pos = at.copy()
        self.end = at + have  # captured
        self.full = at + wire  # on the wire, as the innermost IP header says
        self.via = np.zeros(n, np.int64)
        self.segment = np.zeros(n, np.int64)
        self.src_hi = np.zeros(n, np.uint64)
        self.src_lo = np.zeros(n, np.uint64)
        self.dst_hi = np.zeros(n, np.uint64)
        self.dst_lo = np.zeros(n, np.uint64)
        self.ip_id = np.zeros(n, np.int64)
        self.ip_at = np.full(n, -1, np.int64)  # innermost IP header
        self.proto = np.zeros(n, np.int64)  # what the last IP header or option said comes next
        self.sport = np.zeros(n, np.int64)
        self.dport = np.zeros(n, np.int64)
        self.seq = np.zeros(n, np.int64)
        self.ack = np.zeros(n, np.int64)
        self.flags = np.zeros(n, np.int64)
        self.window = np.zeros(n, np.int64)
        self.check = np.zeros(n, np.int64)
        self.stamps = np.zeros(n, np.int64)
        self.duplicate = np.zeros(n, np.int64)

    def over(self, buffer: bytes | memoryview) -> None:
        """Read from this buffer: the one given at first, or a longer one that begins with it."""
        size = len(buffer)
        self.u8 = np.frombuffer(buffer, np.uint8)
        # overlapping views: element i is the big-endian integer at byte i
        self.be16: npt.NDArray[Any] = np.ndarray((max(0, size - 1),), ">u2", buffer, 0, (1,))
        self.be32: npt.NDArray[Any] = np.ndarray((max(0, size - 3),), ">u4", buffer, 0, (1,))

    def fragments(self) -> Ints:
        """Packets that stand before a piece of a datagram."""
        return np.flatnonzero(self.kind == FRAGMENT)

    def run(self) -> None:
        """Move every packet on until none can go further."""
        for _ in range(_PASSES):
            going = np.flatnonzero(self.kind > TCP)
            if not len(going):
                return
            kinds = self.kind[going]
            for kind in np.flatnonzero(np.bincount(kinds)).tolist():
                here = going if len(going) and (kinds == kind).all() else going[kinds == kind]
                need, handler = _HANDLERS[kind]
                fits = self.pos[here] + need <= self.end[here]
                if not fits.all():
                    self.kind[here[~fits]] = OTHER
                    here = here[fits]
                if len(here):
                    handler(self, here)
        self.kind[self.kind > TCP] = OTHER

    def enter(self, here: Ints, at: Ints) -> None:
        """Enter the virtual network whose number (VNI, 24 bits) lies at these places: VLANs outside do not count."""
        self.segment[here] = (self.be32[at].astype(np.int64) >> 8) + 1 << 24

    def mark(self, here: Ints, via: str) -> None:
        self.via[here] |= _BIT[via]


def _ether(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    kind = x.be16[p + 12].astype(np.int64)
    x.pos[here] = p + 14
    x.kind[here] = np.where(kind <= 1500, SNAP, _ETHERTYPE[kind])


def _snap(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    snap = (x.be32[p] >> 8 == 0xAAAA03) & (x.be16[p + 3] == 0)
    x.pos[here] = p + 8
    x.kind[here] = np.where(snap, _ETHERTYPE[x.be16[p + 6]], OTHER)


def _vlan(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    kind = x.be16[p + 2].astype(np.int64)
    before = x.segment[here]
    vlans = (before << 12 | x.be16[p] & 0xFFF) & 0xFFFFFF
    x.segment[here] = before & ~0xFFFFFF | vlans
    x.pos[here] = p + 4
    x.kind[here] = np.where(kind <= 1500, SNAP, _ETHERTYPE[kind])
    x.mark(here, "vlan")


def _sll(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    x.pos[here] = p + 16
    x.kind[here] = _ETHERTYPE[x.be16[p + 14]]


def _sll2(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    x.pos[here] = p + 20
    x.kind[here] = _ETHERTYPE[x.be16[p]]


def _null(x: Layers, here: Ints) -> None:
    """The address family in the byte order of the machine that captured: one of the two readings is a small number."""
    p = x.pos[here]
    family = x.be32[p].astype(np.int64)
    family = np.where(family > 0xFFFF, family >> 24, family)
    kind = np.full(len(here), OTHER, np.int8)
    for code, to in _NULL_FAMILIES.items():
        kind[family == code] = to
    x.pos[here] = p + 4
    x.kind[here] = kind


def _pktap(x: Layers, here: Ints) -> None:
    """Apple's header, little-endian: its length, 1 where a packet follows, and the packet's own link type."""
    p = x.pos[here]
    length, follows, link = (x.be32[p + i].astype("<u4").byteswap().astype(np.int64) for i in (0, 4, 8))
    good = (length >= _PKTAP) & (follows == 1) & (link < len(_FIRST))
    x.pos[here] = p + np.where(good, length, 0)
    x.kind[here] = np.where(good, _FIRST[np.where(good, link, 0)], OTHER)


def _nflog(x: Layers, here: Ints) -> None:
    """Netfilter's log: attributes (length u16, type u16, value, padded to 4 bytes) until the one with the packet.

    Lengths and types are in the byte order of the machine that captured; all attributes are short but the packet.
    """
    at = x.pos[here] + 4
    x.kind[here] = OTHER
    going = x.u8[x.pos[here] + 1] == 0  # version
    for _ in range(_NFLOG_ATTRIBUTES):
        going &= at + 4 <= x.end[here]
        here, at = here[going], at[going]
        if not len(here):
            return
        length, kind = x.be16[at].astype(np.int64), x.be16[at + 2].astype(np.int64)
        little = x.u8[at + 3] == 0  # no type is above 255
        length = np.where(little, length >> 8 | (length & 0xFF) << 8, length)
        kind = np.where(little, kind >> 8, kind)
        found = (kind == _NFLOG_PAYLOAD) & (length > 4)
        packet = here[found]
        x.pos[packet] = at[found] + 4
        x.end[packet] = np.minimum(x.end[packet], at[found] + length[found])
        x.kind[packet] = RAW
        going = ~found & (length >= 4)
        at = at + (length + 3 & ~3)


def _raw(x: Layers, here: Ints) -> None:
    x.kind[here] = _VERSION[x.u8[x.pos[here]] >> 4]


def _mpls(x: Layers, here: Ints) -> None:
    """One label; below the last one stands IP, or an Ethernet frame behind a control word of four bytes."""
    p = x.pos[here]
    bottom = x.u8[p + 2] & 1 == 1
    x.pos[here] = p + 4
    x.mark(here, "mpls")
    last = here[bottom]
    if len(last):
        q = x.pos[last]
        fits = q < x.end[last]
        nibble = np.where(fits, x.u8[np.minimum(q, len(x.u8) - 1)] >> 4, 15)
        x.kind[last] = np.where(nibble == 0, ETHER, _VERSION[nibble])
        x.pos[last] = np.where(nibble == 0, q + 4, q)


def _pppoe(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    x.pos[here] = p + 8
    x.kind[here] = _PPP_PROTOCOL[x.be16[p + 6]]
    x.mark(here, "pppoe")


def _ppp(x: Layers, here: Ints) -> None:
    """With or without the address and control bytes ff 03."""
    p = x.pos[here]
    p = np.where(x.be16[p] == 0xFF03, p + 2, p)
    fits = p + 2 <= x.end[here]
    kind = _PPP_PROTOCOL[x.be16[np.where(fits, p, 0)]]
    x.pos[here] = p + 2
    x.kind[here] = np.where(fits, kind, OTHER)


def _ipv4(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    ip = structs(x.u8, _IPV4, p)
    first = ip["first"].astype(np.int64)
    header = (first & 15) * 4
    total = ip["total"].astype(np.int64)
    total = np.where(total == 0, x.full[here] - p, total)  # 0: segmentation offload, the card filled it in later
    good = (first >> 4 == 4) & (header >= 20) & (total >= header) & (p + header <= x.end[here])
    fragment = ip["fragment"] & 0x3FFF != 0
    x.src_hi[here] = 0
    x.dst_hi[here] = 0
    x.src_lo[here] = ip["src"].astype(np.uint64) | np.uint64(0xFFFF << 32)
    x.dst_lo[here] = ip["dst"].astype(np.uint64) | np.uint64(0xFFFF << 32)
    x.ip_id[here] = ip["id"]
    _after_ip(x, here, p, p + header, p + total, good, fragment, ip["proto"])


def _ipv6(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    ip = structs(x.u8, _IPV6, p)
    length, proto = ip["length"].astype(np.int64), ip["proto"]
    stop = np.where(length == 0, x.full[here], p + 40 + length)
    x.src_hi[here], x.src_lo[here] = ip["src_hi"], ip["src_lo"]
    x.dst_hi[here], x.dst_lo[here] = ip["dst_hi"], ip["dst_lo"]
    x.ip_id[here] = 0
    _after_ip(x, here, p, p + 40, stop, ip["first"] >> 4 == 6, proto == _FRAGMENT_HEADER, proto)


def _after_ip(x: Layers, here: Ints, start: Ints, pos: Ints, stop: Ints, good: Any, fragment: Any, proto: Any) -> None:
    """Common end of both IP versions: step behind the header; the packet ends where the header says.

    The inner header of a tunnel counts, not the outer one: a mirror may cut what it sends, and then the outer length
    is that of the rest.
    """
    nested = x.ip_at[here] >= 0
    if nested.any():
        inner = here[nested]
        six_in_four = (x.u8[x.ip_at[inner]] >> 4 == 4) & (x.u8[start[nested]] >> 4 == 6)
        bare = x.via[inner] & (_BIT["gre"] | _BIT["vxlan"] | _BIT["geneve"] | _BIT["erspan"] | _BIT["gtp-u"]) == 0
        x.mark(inner[bare & six_in_four], "6in4")
        x.mark(inner[bare & ~six_in_four], "ipip")
    x.ip_at[here] = start
    x.proto[here] = proto
    x.pos[here] = pos
    x.full[here] = stop
    x.end[here] = np.minimum(x.end[here], stop)
    x.kind[here] = np.where(good, np.where(fragment, FRAGMENT, _PROTOCOL[proto]), OTHER)


def _ipv6_option(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    proto = x.u8[p]
    units = x.u8[p + 1].astype(np.int64)
    x.pos[here] = p + np.where(x.proto[here] == _AH, (units + 2) * 4, (units + 1) * 8)
    x.proto[here] = proto
    x.kind[here] = np.where(proto == _FRAGMENT_HEADER, FRAGMENT, _PROTOCOL[proto])


def _udp(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    port = x.be16[p + 2].astype(np.int64)
    kind = np.full(len(here), OTHER, np.int8)
    for vxlan in _VXLAN_PORTS:
        kind[port == vxlan] = VXLAN
    kind[port == _GENEVE_PORT] = GENEVE
    kind[port == _GTPU_PORT] = GTPU
    x.pos[here] = p + 8
    x.kind[here] = kind


def _vxlan(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    x.pos[here] = p + 8
    x.kind[here] = np.where(x.u8[p] & 0x08 != 0, ETHER, OTHER)
    x.enter(here, p + 4)
    x.mark(here, "vxlan")


def _geneve(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    first = x.u8[p].astype(np.int64)
    x.pos[here] = p + 8 + (first & 0x3F) * 4
    x.kind[here] = np.where(first >> 6 == 0, _ETHERTYPE[x.be16[p + 2]], OTHER)
    x.enter(here, p + 4)
    x.mark(here, "geneve")


def _gtpu(x: Layers, here: Ints) -> None:
    """Version 1 G-PDUs (type 255); sequence number, N-PDU and extension headers are stepped over."""
    p = x.pos[here]
    first = x.u8[p].astype(np.int64)
    good = (first >> 4 == 3) & (x.u8[p + 1] == 255)
    options = first & 7 != 0
    q = np.where(options, p + 12, p + 8)
    extended = (first & 4 != 0) & good
    for i in np.flatnonzero(extended).tolist():  # rare: one at a time
        at, end = int(q[i]), int(x.end[here[i]])
        following = int(x.u8[at - 1]) if at <= end else 0
        while following and at < end and x.u8[at]:
            at += int(x.u8[at]) * 4
            following = int(x.u8[at - 1]) if at <= end else 0
        q[i] = at
    fits = q < x.end[here]
    nibble = x.u8[np.where(fits, q, 0)] >> 4
    x.pos[here] = q
    x.kind[here] = np.where(good & fits, _VERSION[nibble], OTHER)
    x.mark(here, "gtp-u")


def _gre(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    flags = x.be16[p].astype(np.int64)
    proto = x.be16[p + 2].astype(np.int64)
    checksum_or_routing = flags & 0xC000 != 0
    size = 4 + 4 * (checksum_or_routing.astype(np.int64) + (flags & 0x2000 != 0) + (flags & 0x1000 != 0))
    kind = _ETHERTYPE[proto].copy()
    # ERSPAN I has no sequence number and no header of its own: the Ethernet frame follows at once
    kind[(proto == 0x88BE) & (flags & 0x1000 == 0)] = ETHER
    kind[flags & 7 == 1] = OTHER  # PPTP
    x.pos[here] = p + size
    x.kind[here] = kind
    x.mark(here, "gre")


def _erspan2(x: Layers, here: Ints) -> None:
    x.pos[here] += 8
    x.kind[here] = ETHER
    x.mark(here, "erspan")


def _erspan3(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    x.pos[here] = p + np.where(x.u8[p + 11] & 1 == 1, 20, 12)
    x.kind[here] = ETHER
    x.mark(here, "erspan")


def _tcp(x: Layers, here: Ints) -> None:
    p = x.pos[here]
    tcp = structs(x.u8, _TCP, p)
    header = (tcp["words"] >> 4).astype(np.int64) * 4
    good = (header >= 20) & (p + header <= x.full[here])
    x.sport[here], x.dport[here] = tcp["sport"], tcp["dport"]
    x.seq[here], x.ack[here] = tcp["seq"], tcp["ack"]
    x.flags[here], x.window[here], x.check[here] = tcp["flags"], tcp["window"], tcp["check"]
    x.pos[here] = p + header
    x.kind[here] = np.where(good, TCP, OTHER)
    stop = np.minimum(p + header, x.end[here])
    x.stamps[here], x.duplicate[here] = tcp_options.read(x.u8, x.be32, p + _TCP.itemsize, stop, x.ack[here])


# kind -> (bytes that must be there, handler)
_HANDLERS: dict[int, tuple[int, Callable[[Layers, Ints], None]]] = {
    ETHER: (14, _ether),
    SLL: (16, _sll),
    SLL2: (20, _sll2),
    NULL: (4, _null),
    RAW: (1, _raw),
    PKTAP: (12, _pktap),
    NFLOG: (4, _nflog),
    VLAN: (4, _vlan),
    MPLS: (4, _mpls),
    PPPOE: (8, _pppoe),
    PPP: (2, _ppp),
    SNAP: (8, _snap),
    IPV4: (20, _ipv4),
    IPV6: (40, _ipv6),
    IPV6_OPTION: (8, _ipv6_option),
    UDP: (8, _udp),
    GRE: (4, _gre),
    ERSPAN2: (8, _erspan2),
    ERSPAN3: (12, _erspan3),
    VXLAN: (8, _vxlan),
    GENEVE: (8, _geneve),
    GTPU: (8, _gtpu),
    TCP_HEADER: (20, _tcp),
}
