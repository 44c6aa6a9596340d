"""Several files of one site as one stream of packets in time order, and several sites beside each other.

Rotated files follow each other. Files that overlap in time (a ring of two interfaces, a packet broker that sprays) are
merged a stretch at a time: all packets up to the earliest end of the blocks at hand. Small stretches, as small files
give, are joined, since a block costs the same however few packets it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from dissectors.capture.block import PacketBlock, concat
from dissectors.limits import KIB

Opener = Callable[[], Iterator[PacketBlock]]
Late = Callable[[int], PacketBlock | None]
JOINED_BYTES = 128 * KIB  # of small stretches that become a block, about
_END = (1 << 63) - 1  # behind every time


class _Source:
    def __init__(self, blocks: Iterator[PacketBlock]) -> None:
        self.blocks = blocks
        self.block: PacketBlock | None = None

    def advance(self) -> bool:
        self.block = next(self.blocks, None)
        return self.block is not None

    def take(self, bound: int) -> PacketBlock:
        """The packets up to a time (ns); `block` is those behind it, or None where none are at hand."""
        block = self.block
        assert block is not None
        before, self.block = block.cut_at(bound)
        assert before is not None
        return before

    @property
    def first(self) -> int:
        assert self.block is not None
        return int(self.block.clock[0])

    @property
    def last(self) -> int:
        assert self.block is not None
        return int(self.block.clock[-1])


class SitePackets(NamedTuple):
    """Packets of a site, or the news that it has no more."""

    site: str
    block: PacketBlock | None
    clock: int  # every packet before this time (ns), of whatever site, has been given


def interleave(sites: Sequence[tuple[str, int, Opener]]) -> Iterator[SitePackets]:
    """The packets of several sites, block by block: whichever begins first. One block of each open site is in memory.

    sites: (name, time of the first packet in ns, how to open it). A site is opened only when its time has come, and its
    next block is read only when the last one has been dealt with.
    """
    waiting = [(first, number) for number, (_, first, _) in enumerate(sites)]
    heapify(waiting)
    opened: dict[int, Iterator[PacketBlock]] = {}
    ahead: dict[int, PacketBlock] = {}
    clock = 0
    while waiting:
        _, number = heappop(waiting)
        site, _, open_site = sites[number]
        if number in ahead:
            clock = min([int(ahead[number].clock[-1]), *(first for first, _ in waiting[:1])])
            yield SitePackets(site, ahead.pop(number), clock)
        elif number not in opened:
            opened[number] = open_site()
        block = next(opened[number], None)
        if block is None:
            yield SitePackets(site, None, clock)
        else:
            ahead[number] = block
            heappush(waiting, (int(block.clock[0]), number))
        del block


def merge(
    files: Sequence[tuple[int, Opener]], late: Late = lambda time: None, joined_bytes: int = JOINED_BYTES
) -> Iterator[PacketBlock]:
    """The packets of all files, in time order.

    files: (time of the first packet in ns, how to open it). A file is opened only when its time has come.
    late: gives the packets up to a time (ns) that were put off when they were read (`Fragments.up_to`).
    joined_bytes: stretches of several files are joined until they have so many bytes.
    """
    if len(files) == 1:
        yield from files[0][1]()
        return
    waiting = sorted(files, key=lambda f: f[0])[::-1]
    active: list[_Source] = []
    ready: list[PacketBlock] = []
    size = 0
    while waiting or active:
        active = [source for source in active if source.block is not None or source.advance()]
        if not active:
            if waiting:
                _start(waiting, active)
            continue
        while waiting and waiting[-1][0] <= min(s.last for s in active):
            _start(waiting, active)
        bound = min(s.last for s in active)
        stretch = [source.take(bound) for source in active if source.first <= bound]
        stretch += filter(None, [late(bound)])
        ready += stretch
        size += sum(len(block.buffer) for block in stretch)
        del stretch
        if size >= joined_bytes:
            size = 0
            yield concat(_taken(ready))
    ready += filter(None, [late(_END)])
    if ready:
        yield concat(_taken(ready))


def _taken(blocks: list[PacketBlock]) -> list[PacketBlock]:
    """The blocks of a list, which keeps none of them."""
    taken = blocks[:]
    blocks.clear()
    return taken


def _start(waiting: list[tuple[int, Opener]], active: list[_Source]) -> None:
    source = _Source(waiting.pop()[1]())
    if source.advance():
        active.append(source)
