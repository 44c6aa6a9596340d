"""RawBlock: packets of one file as the container gives them, before any header is read; and the packets in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dissectors.arrow import Ints
from dissectors.capture.block import PacketBlock, sorted_by_time
from dissectors.capture.fragments import Fragments, Packet
from dissectors.capture.headers import TCP
from dissectors.capture.layers import (
    ACK,
    AT,
    CHECK,
    DPORT,
    DST_HI,
    DST_LO,
    FLAGS,
    HAVE,
    IP_ID,
    KIND,
    PAYLOAD,
    REPEATED,
    SEGMENT,
    SEQ,
    SPORT,
    SRC_HI,
    SRC_LO,
    STAMPED,
    VIA_BITS,
    WINDOW,
    Layers,
)
from dissectors.capture.packed import pack, unpack

NO_TIME = -1  # of a packet whose time the capture does not say; like any time before 1970, no row shows it


@dataclass(slots=True, eq=False, repr=False)
class RawBlock:
    """n packets over one buffer; all columns int64[n]."""

    buffer: bytes
    at: Ints  # index of the packet in buffer
    have: Ints  # captured bytes
    wire: Ints  # original length
    time: Ints  # ns since the epoch; NO_TIME
    link: Ints  # link type
    number: int  # of the first packet, from 1

    def __len__(self) -> int:
        return len(self.at)

    def since(self, number: int) -> RawBlock:
        """The packets from this number on."""
        n = number - self.number
        if n <= 0:
            return self
        return RawBlock(
            self.buffer, self.at[n:], self.have[n:], self.wire[n:], self.time[n:], self.link[n:], self.number + n
        )


class Census:
    """What a file held, for `info`."""

    def __init__(self) -> None:
        self.packets = 0
        self.bytes = 0
        self.tcp = 0
        self.tcp_payload = 0
        self.fragments = 0
        self.overlaps = 0  # fragments that disagree with bytes seen before
        self.cut = 0  # packets of which the capture kept only a part
        self.timeless = 0  # packets whose time the capture does not say
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.clock = 0  # latest time so far: packets are ordered by it

    def count(self, raw: RawBlock) -> None:
        """Add a block."""
        if not len(raw):
            return
        self.packets += len(raw)
        self.bytes += int(raw.wire.sum())
        self.cut += int((raw.have < raw.wire).sum())
        known = raw.time[raw.time != NO_TIME]
        self.timeless += len(raw) - len(known)
        if len(known):
            first, last = int(known.min()), int(known.max())
            self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
            self.last_ns = last if self.last_ns is None else max(last, self.last_ns)


def packets(raw: RawBlock, file: int, census: Census, fragments: Fragments) -> PacketBlock | None:
    """The TCP packets of a raw block, fragments put together; None where there are none.

    A datagram of which another file has a later fragment is put off (`Fragments.up_to`).
    """
    census.count(raw)
    if not len(raw):
        return None
    clock = np.maximum(np.maximum.accumulate(raw.time), census.clock)
    census.clock = int(clock[-1])
    layers = Layers(raw.buffer, raw.at, raw.have, raw.wire, raw.link)
    layers.run()
    fragmented = layers.fragments()
    buffer = _joined(raw, file, clock, layers, fragmented, census, fragments) if len(fragmented) else raw.buffer
    block = _tcp_packets(raw, file, clock, layers, buffer)
    if block is None:
        return None
    census.tcp += len(block)
    census.tcp_payload += int(block.size.sum())
    return _put_off(block, fragments) if len(fragmented) and fragments.late else block


def _joined(
    raw: RawBlock, file: int, clock: Ints, layers: Layers, fragmented: Ints, census: Census, fragments: Fragments
) -> bytes:
    """The buffer with the datagrams that fragments are put together to; layers then goes on in these."""

    def packet(i: int) -> Packet:
        at, have = int(raw.at[i]), int(raw.have[i])
        place = (file, raw.number + i, int(raw.time[i]), int(clock[i]), int(raw.link[i]), int(raw.wire[i]))
        return Packet(*place, raw.buffer[at : at + have])

    before = fragments.overlaps
    buffer = fragments.join(layers, fragmented, raw.buffer, packet)
    census.fragments += len(fragmented)
    census.overlaps += fragments.overlaps - before
    return buffer


def _tcp_packets(raw: RawBlock, file: int, clock: Ints, layers: Layers, buffer: bytes) -> PacketBlock | None:
    """The packets in which layers found TCP, over this buffer; None where there are none."""
    tcp = layers.columns[KIND] == TCP
    count = int(np.count_nonzero(tcp))
    if not count:
        return None
    index = slice(None) if count == len(raw) else np.flatnonzero(tcp)  # all of them as they stand, or some
    found = layers.columns[:, index]
    addresses = found.view(np.uint64)
    return PacketBlock(
        buffer,
        np.full(count, file, np.int64),
        np.arange(raw.number, raw.number + len(raw), dtype=np.int64)[index],
        raw.time[index],
        clock[index],
        raw.wire[index],
        addresses[SRC_HI],
        addresses[SRC_LO],
        addresses[DST_HI],
        addresses[DST_LO],
        found[SPORT],
        found[DPORT],
        found[SEQ],
        found[ACK],
        found[FLAGS],
        found[WINDOW],
        found[IP_ID],
        found[CHECK],
        found[STAMPED],
        found[REPEATED],
        found[AT],
        found[PAYLOAD],
        found[HAVE],
        found[VIA_BITS],
        found[SEGMENT],
    )


def _put_off(block: PacketBlock, fragments: Fragments) -> PacketBlock | None:
    """The block without the datagrams that belong to a later packet of another file."""
    late = np.isin(block.number, list(fragments.late))
    if not late.any():
        return block
    datagrams = unpack(pack([block.take(np.flatnonzero(late))]))  # without the other bytes of the block
    _move(datagrams, [fragments.late[number] for number in datagrams.number.tolist()])
    fragments.put_off(sorted_by_time(datagrams))
    return None if late.all() else block.take(np.flatnonzero(~late))


def _move(block: PacketBlock, packets: Sequence[Packet]) -> None:
    """Give the packets of a block the places of others."""
    block.file, block.number, block.time, block.clock, block.length = (
        np.array([getattr(p, name) for p in packets], np.int64) for name in ("file", "number", "time", "clock", "wire")
    )


def rejoin(pending: Sequence[Packet]) -> tuple[PacketBlock | None, list[Packet]]:
    """(the TCP packets that fragments read apart (`Fragments.pending`) are together, those that still wait).

    pending: in time order. A datagram takes the place of the packet that completes it, as it would in one file.
    """
    if not pending:
        return None, []
    wire, time, link = (np.array([getattr(p, name) for p in pending], np.int64) for name in ("wire", "time", "link"))
    have = np.array([len(p.data) for p in pending], np.int64)
    raw = RawBlock(b"".join(p.data for p in pending), np.cumsum(have) - have, have, wire, time, link, number=0)
    fragments = Fragments()
    block = packets(raw, 0, Census(), fragments)
    if block is not None:
        _move(block, [pending[i] for i in block.number.tolist()])
    return block, [pending[p.number] for p in fragments.pending()]
