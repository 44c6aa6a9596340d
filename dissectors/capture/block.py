"""PacketBlock: the TCP packets of a stretch of capture as columns over one buffer."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Ints

_V4_MAPPED = 0xFFFF << 32  # ::ffff:a.b.c.d: how an IPv4 address lies in (hi, lo)

_VLAN_BITS, _VLAN = 12, 0xFFF

# TCP flags
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

# What a packet came through, as bits of `via`.
VIA = ("vlan", "mpls", "pppoe", "vxlan", "geneve", "gre", "erspan", "ipip", "6in4", "gtp-u", "fragments")


@dataclass(slots=True, eq=False, repr=False)
class PacketBlock:
    """n TCP packets. Every column is int64[n] but where noted; times are ns since the epoch."""

    buffer: bytes | memoryview
    file: Ints  # index of the file
    number: Ints  # packet number in the file, from 1
    time: Ints  # as the capture says
    clock: Ints  # the same, never stepping back within a file: what packets are ordered by
    length: Ints  # on the wire
    src_hi: npt.NDArray[np.uint64]  # addresses as two 64-bit halves; IPv4 as ::ffff:a.b.c.d
    src_lo: npt.NDArray[np.uint64]
    dst_hi: npt.NDArray[np.uint64]
    dst_lo: npt.NDArray[np.uint64]
    sport: Ints
    dport: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    window: Ints
    ip_id: Ints  # 0 for IPv6
    check: Ints  # TCP checksum as on the wire
    stamps: Ints  # TCP timestamps, value << 32 | echo; 0 for none
    duplicate: Ints  # bytes that arrived twice, by D-SACK: left edge << 32 | right edge; 0 for none
    at: Ints  # index of the payload in buffer
    size: Ints  # payload bytes on the wire
    have: Ints  # payload bytes captured
    via: Ints  # bits of VIA
    segment: Ints  # VNI + 1, and up to two VLANs in 12 bits each; 0 for none

    def __len__(self) -> int:
        return len(self.number)

    def take(self, index: npt.NDArray[np.intp] | slice) -> PacketBlock:
        """The rows at `index`, over the same buffer."""
        return PacketBlock(self.buffer, *(getattr(self, f.name)[index] for f in fields(self)[1:]))

    def cut_at(self, time: int) -> tuple[PacketBlock | None, PacketBlock | None]:
        """The packets up to a time (ns), and those behind it; None for none of them."""
        cut = int(np.searchsorted(self.clock, time, side="right"))
        if cut == len(self):
            return (self if cut else None), None
        return (self.take(slice(0, cut)) if cut else None), (self.take(slice(cut, None)) if cut else self)


COLUMNS = tuple(f.name for f in fields(PacketBlock))[1:]


def concat(blocks: Sequence[PacketBlock]) -> PacketBlock:
    """One block of several, in time order; packets of equal time stay in the order of file and number."""
    if len(blocks) == 1:
        return blocks[0]
    shift = np.cumsum([0] + [len(b.buffer) for b in blocks[:-1]])
    columns = {name: np.concatenate([getattr(b, name) for b in blocks]) for name in COLUMNS}
    columns["at"] = np.concatenate([b.at + s for b, s in zip(blocks, shift, strict=True)])
    whole = PacketBlock(b"".join(bytes(b.buffer) for b in blocks), **columns)
    return sorted_by_time(whole)


def sorted_by_time(block: PacketBlock) -> PacketBlock:
    """The packets in the order in which they are decoded."""
    order = in_time_order(block.clock, block.file, block.number)
    return block if order is None else block.take(order)


def in_time_order(clock: Ints, file: Ints, number: Ints) -> npt.NDArray[np.intp] | None:
    """The order in which packets are decoded: by time, then file and number; None where they stand in it."""
    step = np.diff(clock)
    if (step > 0).all():
        return None
    tied = step == 0
    files = np.diff(file)[tied]
    if not (step < 0).any() and not ((files < 0) | ((files == 0) & (np.diff(number)[tied] < 0))).any():
        return None
    return np.lexsort((number, file, clock))


@lru_cache(maxsize=1 << 14)
def address(hi: int, lo: int) -> str:
    """Text of an address given as two halves."""
    if hi == 0 and lo >> 32 == 0xFFFF:
        return f"{lo >> 24 & 255}.{lo >> 16 & 255}.{lo >> 8 & 255}.{lo & 255}"
    return str(ipaddress.IPv6Address(hi << 64 | lo))


def segment_name(segment: int) -> str:
    """`vlan 10`, `vlan 9.42` (the outer one first), `vni 7`, `vni 7 vlan 10`, `untagged`."""
    outer, inner = segment >> _VLAN_BITS & _VLAN, segment & _VLAN
    vlan = ".".join(str(each) for each in (outer, inner) if each)
    vni = segment >> 2 * _VLAN_BITS
    names = ([f"vni {vni - 1}"] if vni else []) + ([f"vlan {vlan}"] if vlan else [])
    return " ".join(names) or "untagged"


def address_halves(text: str) -> tuple[int, int]:
    """The inverse of `address`."""
    ip = ipaddress.ip_address(text)
    if ip.version == 4:
        return 0, _V4_MAPPED | int(ip)
    return int(ip) >> 64, int(ip) & (1 << 64) - 1
