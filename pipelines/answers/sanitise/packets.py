"""Packets made anew: nothing but IP and TCP around what stands for their bytes.

What lies below and around IP (MAC addresses, VLAN tags, tunnels) and IP options are left out: the packets are of link
type RAW. Ports, sequence numbers, flags, windows, times and lengths stay, and of TCP's options those that everybody
sends; of others the place. A checksum is right, or wrong by the same bits as before; one that was left to the network
card is left to it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dissectors.capture.block import SYN, PacketBlock, address, segment_name
from dissectors.forensics.packet_checksums import PARTIAL, RIGHT, ZERO, HeaderLayout, fold, judge, layout
from dissectors.records import endpoint
from dissectors.tcp.chunk import CLIENT, SERVER
from pipelines.answers.extract.packets import Picked
from pipelines.answers.sanitise.pseudonyms import Pseudonyms
from pipelines.answers.sanitise.streams import Key, Stream, Streams

RAW = 101  # link type: IPv4 or IPv6 without anything before it
_OPTIONS = frozenset({2, 3, 4, 5, 8})  # of TCP: segment size, window scale, SACK twice, timestamps
_END, _NOTHING = 0, 1
_MASK = 0xFFFFFFFF
_V4_MAPPED = 0xFFFF
_TTL = 64
_TCP = 6
_LONGEST = 0xFFFF

Place = tuple[Stream, int, int]  # a stream, a direction, the stream offset of a packet's payload


class NewPacket(NamedTuple):
    """A packet to be written."""

    time: int  # ns
    wire: int  # original length
    data: bytes


class PacketRewriter:
    """Makes packets of some captures anew."""

    def __init__(self, streams: Streams, lasting: Mapping[Key, tuple[int, int]]) -> None:
        """lasting: first and last time (ns) of each connection, by name and incarnation."""
        self._streams = streams
        self._by_ends: dict[str, list[tuple[int, int, int, Stream]]] = {}  # who to whom -> first, last, direction
        for key, stream in streams.streams.items():
            conn = stream.conn
            client, server = endpoint(conn.client_ip, conn.client_port), endpoint(conn.server_ip, conn.server_port)
            first, last = lasting.get(key, (0, 1 << 62))
            for direction, ends in ((CLIENT, f"{client}>{server}"), (SERVER, f"{server}>{client}")):
                self._by_ends.setdefault(ends, []).append((first, last, direction, stream))
        for every in self._by_ends.values():
            every.sort(key=lambda each: each[:3])
        self._latest: dict[tuple[int, int], int] = {}  # stream offset reached, by stream and direction

    def packet(self, picked: Picked) -> NewPacket | None:
        """What stands for a packet; None for one that is no TCP."""
        block, row = picked.block, picked.row
        if block is None:
            return None
        at, have, size = int(block.at[row]), int(block.have[row]), int(block.size[row])
        source = bytes(block.buffer[at : at + have])
        place = self._place(block, row, picked.time)
        if place is None or int(block.flags[row]) & SYN:
            payload = b"\xff" * have
        else:
            payload = self._streams.bytes_at(*place, source)
        where = None
        if picked.start >= 0:
            where = layout(picked.data, at - picked.start, size, int(block.sport[row]), int(block.dport[row]))
        names = self._streams.names if place is None else place[0].names
        data = self._built(picked.data, where, block, row, payload, size, names)
        return NewPacket(picked.time, len(data) + size - have, data)

    def _place(self, block: PacketBlock, row: int, time: int) -> Place | None:
        """Where the payload of a packet lies; None where the connection is of no known protocol."""
        source = endpoint(address(int(block.src_hi[row]), int(block.src_lo[row])), int(block.sport[row]))
        target = endpoint(address(int(block.dst_hi[row]), int(block.dst_lo[row])), int(block.dport[row]))
        every = self._by_ends.get(f"{source}>{target}", ())
        for first, last, direction, stream in every:
            base = stream.directions[direction].base
            elsewhere = bool(stream.segments) and segment_name(int(block.segment[row])) not in stream.segments
            if first <= time <= last and base is not None and not elsewhere:
                mine = (id(stream), direction)
                latest = self._latest.get(mine, 0)
                offset = latest + _nearest((int(block.seq[row]) - base - latest) & _MASK)
                self._latest[mine] = max(latest, offset)
                return stream, direction, offset
        return None

    def _built(
        self,
        old: bytes,
        where: HeaderLayout | None,
        block: PacketBlock,
        row: int,
        payload: bytes,
        size: int,
        names: Pseudonyms,
    ) -> bytes:
        """IP header, TCP header and payload; size: of the payload on the wire. names: of the packet's network."""
        known = where is not None and where.ip >= 0 and where.tcp >= 0
        head = where if known else None
        options = b"" if head is None else _options(old[head.tcp + 20 : head.payload])
        tcp = bytearray(20) + options
        tcp[0:2], tcp[2:4] = (int(ports[row]).to_bytes(2, "big") for ports in (block.sport, block.dport))
        tcp[4:8], tcp[8:12] = (int(numbers[row]).to_bytes(4, "big") for numbers in (block.seq, block.ack))
        tcp[12], tcp[13] = len(tcp) // 4 << 4, int(block.flags[row]) & 0xFF
        tcp[14:16] = int(block.window[row]).to_bytes(2, "big")
        src = names.address(int(block.src_hi[row]), int(block.src_lo[row]))
        dst = names.address(int(block.dst_hi[row]), int(block.dst_lo[row]))
        v4 = src[0] == 0 and src[1] >> 32 == _V4_MAPPED
        ip = self._ipv4(old, head, src, dst, len(tcp) + size, int(block.ip_id[row])) if v4 else _ipv6(
            old, head, src, dst, len(tcp) + size
        )  # fmt: skip
        made = bytes(ip + tcp) + payload
        check = _checksum(old, head, made, len(ip), len(tcp), size)
        return made[: len(ip) + 16] + check + made[len(ip) + 18 :]

    @staticmethod
    def _ipv4(
        old: bytes, where: HeaderLayout | None, src: tuple[int, int], dst: tuple[int, int], length: int, ip_id: int
    ) -> bytes:
        total = 20 + length
        ip = bytearray(20)
        ip[0] = 0x45
        ip[2:4] = (total if total <= _LONGEST else 0).to_bytes(2, "big")
        ip[4:6] = ip_id.to_bytes(2, "big")
        ip[8], ip[9] = _TTL, _TCP
        ip[12:16], ip[16:20] = ((half[1] & _MASK).to_bytes(4, "big") for half in (src, dst))
        if where is not None:
            head = old[where.ip : where.ip + 4 * (old[where.ip] & 15)]
            ip[1], ip[6], ip[8] = head[1], head[6] & 0x40, head[8]
            if head[2:4] == b"\0\0":
                ip[2:4] = b"\0\0"
        right = 0xFFFF - fold(bytes(ip))
        if where is not None:
            stored = int.from_bytes(head[10:12], "big")
            computed = 0xFFFF - fold(head[:10] + b"\0\0" + head[12:])
            right = 0 if stored == 0 else right ^ stored ^ computed
        ip[10:12] = right.to_bytes(2, "big")
        return bytes(ip)


def _ipv6(old: bytes, where: HeaderLayout | None, src: tuple[int, int], dst: tuple[int, int], length: int) -> bytes:
    head = bytes([0x60, 0, 0, 0]) if where is None else old[where.ip : where.ip + 2] + b"\0\0"
    hops = _TTL if where is None else old[where.ip + 7]
    size = (length if length <= _LONGEST else 0).to_bytes(2, "big")
    halves = b"".join(half.to_bytes(8, "big") for half in (*src, *dst))
    return head + size + bytes([_TCP, hops]) + halves


def _options(old: bytes) -> bytes:
    """Options of TCP: those that are known; others as options that say nothing."""
    out, at = bytearray(old), 0
    while at < len(old) and old[at] != _END:
        size = 1 if old[at] == _NOTHING else old[at + 1] if at + 1 < len(old) else 0
        if size < 1 or (size < 2 and old[at] != _NOTHING) or at + size > len(old):
            break
        if old[at] not in _OPTIONS:
            out[at : at + size] = bytes([_NOTHING]) * size
        at += size
    out[at:] = bytes(len(out) - at)
    return bytes(out)


def _checksum(old: bytes, where: HeaderLayout | None, made: bytes, ip: int, tcp: int, size: int) -> bytes:
    """The TCP checksum of a packet whose headers have so many bytes; of one that was cut, as if zeros followed."""
    covered = _pseudo(made, tcp + size) + made[ip:]
    right = 0xFFFF - fold(covered)
    if where is None:
        return right.to_bytes(2, "big")
    verdict = judge(old, where).tcp
    if verdict == ZERO:
        return b"\0\0"
    if verdict == PARTIAL:
        stored = int.from_bytes(old[where.tcp + 16 : where.tcp + 18], "big")
        length = tcp + size if stored == fold(_pseudo(old, tcp + size, where.ip)) else 0
        return fold(_pseudo(made, length)).to_bytes(2, "big")
    if verdict != RIGHT and where.payload + where.size <= len(old):
        stored = int.from_bytes(old[where.tcp + 16 : where.tcp + 18], "big")
        blanked = old[where.tcp : where.tcp + 16] + b"\0\0" + old[where.tcp + 18 : where.payload + where.size]
        computed = 0xFFFF - fold(_pseudo(old, len(blanked), where.ip) + blanked)
        right ^= stored ^ computed
    return right.to_bytes(2, "big")


def _pseudo(packet: bytes, length: int, at: int = 0) -> bytes:
    """What the checksum covers before a TCP header; the IP header stands at `at`, length: of what it holds."""
    if packet[at] >> 4 == 4:
        return packet[at + 12 : at + 20] + bytes([0, _TCP]) + (length & _LONGEST).to_bytes(2, "big")
    return packet[at + 8 : at + 40] + length.to_bytes(4, "big") + bytes([0, 0, 0, _TCP])


def _nearest(distance: int) -> int:
    """A distance modulo 2**32, forward or back."""
    return distance - (1 << 32) if distance >= 1 << 31 else distance
