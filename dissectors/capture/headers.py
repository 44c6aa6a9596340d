"""Kinds of header that a packet goes through, and which one follows which: by number, as the headers give it.

Sources: tcpdump.org link-layer header types; IEEE 802 numbers (EtherTypes); IANA protocol numbers; RFC 1661 (PPP).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dissectors.arrow import Ints

# The first three end a packet's way.
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

_LEAST_BYTES = {
    ETHER: 14, SLL: 16, SLL2: 20, NULL: 4, RAW: 1, PKTAP: 12, NFLOG: 4, VLAN: 4, MPLS: 4, PPPOE: 8, PPP: 2, SNAP: 8,
    IPV4: 20, IPV6: 40, IPV6_OPTION: 8, UDP: 8, GRE: 4, ERSPAN2: 8, ERSPAN3: 12, VXLAN: 8, GENEVE: 8, GTPU: 8,
    TCP_HEADER: 20,
}  # fmt: skip

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
"""Link types (pcap and pcapng number them alike) -> first header."""
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
_ETHERTYPES = {
    0x0800: IPV4, 0x86DD: IPV6, 0x8100: VLAN, 0x88A8: VLAN, 0x9100: VLAN, 0x9200: VLAN, 0x8847: MPLS, 0x8848: MPLS,
    0x8864: PPPOE, 0x6558: ETHER, 0x88BE: ERSPAN2, 0x22EB: ERSPAN3, 0x880B: PPP,
}  # fmt: skip
_PROTOCOLS = {4: IPV4, 6: TCP_HEADER, 17: UDP, 41: IPV6, 47: GRE, 0: IPV6_OPTION, 43: IPV6_OPTION, 60: IPV6_OPTION,
              51: IPV6_OPTION, 135: IPV6_OPTION, 137: MPLS}  # fmt: skip
_PPP_PROTOCOLS = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS}
_NULL_FAMILIES = {2: IPV4, 10: IPV6, 23: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}
_UDP_PORTS = {4789: VXLAN, 8472: VXLAN, 6081: GENEVE, 2152: GTPU}


def _table(mapping: Mapping[int, int], size: int) -> bytes:
    """uint8[size]: the kind of each number; OTHER for one that is not in the mapping."""
    table = bytearray([OTHER]) * size
    for number, kind in mapping.items():
        table[number] = kind
    return bytes(table)


OF_ETHERTYPE, OF_PPP, OF_FAMILY, OF_UDP_PORT, OF_PROTOCOL = 0, 1 << 16, 2 << 16, 3 << 16, 4 << 16
OF_IP_VERSION = OF_PROTOCOL + (1 << 8)
LEAST_BYTES = OF_IP_VERSION + (1 << 4)
FOLLOWING = b"".join((
    _table(_ETHERTYPES, 1 << 16),
    _table(_PPP_PROTOCOLS, 1 << 16),
    _table(_NULL_FAMILIES, 1 << 16),
    _table(_UDP_PORTS, 1 << 16),
    _table(_PROTOCOLS, 1 << 8),
    _table({4: IPV4, 6: IPV6}, 1 << 4),
    _table(_LEAST_BYTES, 26),
))  # fmt: skip
"""uint8: at OF_ETHERTYPE + number the kind of header that an EtherType announces, and so on; at LEAST_BYTES + kind the
bytes of a header that must be there."""
_OF_LINK_TYPE = np.frombuffer(_table(LINK_TYPES, 1 << 16), np.uint8)


def first_kind(link: Ints) -> Ints:
    """The header with which packets of these link types begin; OTHER where the link type is not read."""
    return _OF_LINK_TYPE[link].astype(np.int64)


def kind_of_link(link: int) -> int:
    """The header with which a packet of a link type begins; OTHER where the link type is not read."""
    return LINK_TYPES.get(link, OTHER)


def next_kind(proto: int) -> int:
    """The header that an IP protocol number announces."""
    return FOLLOWING[OF_PROTOCOL + proto]


def link_name(link: int) -> str:
    """A link type by its name, or as its number."""
    return LINK_NAMES.get(link, str(link))


def unread_link(link: int) -> str:
    """A link type that is not read, by its number, and its name where that is known."""
    return f"link type {link} ({_UNREAD_NAMES[link]})" if link in _UNREAD_NAMES else f"link type {link}"
