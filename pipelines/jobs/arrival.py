"""The packets of one part, as a task that decodes gets them: in time order, from any number of captures."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dissectors.capture.block import PacketBlock, concat
from dissectors.capture.fragments import TIMEOUT_NS, Packet, place
from dissectors.capture.packed import unpack
from dissectors.capture.raw import rejoin
from dissectors.limits import MIB
from dissectors.tcp.keys import connection_hashes
from pipelines.jobs.cutting import PACKET_BYTES, Sharing, WholeBlock
from pipelines.jobs.shuffle import ENDS, FRAGMENTS, SECRETS, CutPiece, blocks_of

_FEED_BYTES = 4 * MIB  # of packets that are decoded together, at least


@dataclass
class Arrival:
    """The pieces of one part, as they come, become blocks of packets."""

    part: int
    pieces: Iterable[CutPiece | WholeBlock]  # by site, kind and time
    sharing: Sharing
    secret: Callable[[bytes], Any]  # takes TLS secrets
    carried: Callable[[str, int], list[Packet]] = lambda site, part: []  # fragments that wait from earlier
    pending: dict[str, list[Packet]] = field(default_factory=dict)  # site -> fragments that still wait
    ends: dict[str, set[int]] = field(default_factory=dict)  # site -> latest times of its files, ns, if reported
    _fragments: dict[str, list[int]] = field(default_factory=dict)  # site -> times of those read apart, ns

    def blocks(self) -> Iterator[tuple[str, PacketBlock]]:
        """(site, packets), each site's in time order. Holds no more than what overlaps in time, and some megabytes."""
        site: str | None = None
        waiting = _Waiting()
        fragments: list[Packet] = []
        for piece in self.pieces:
            if isinstance(piece, WholeBlock):
                yield piece
                continue
            if piece.kind == SECRETS:
                self.secret(bytes(piece.data))
                continue
            if piece.kind == ENDS:
                self.ends.setdefault(piece.site, set()).update(pickle.loads(piece.data))
                continue
            if piece.site != site:
                yield from self._rest(site, waiting, fragments)
                site, fragments = piece.site, self.carried(piece.site, self.part)
            if piece.kind == FRAGMENTS:
                fragments += pickle.loads(piece.data)
                continue
            if fragments:
                waiting.add(self._rejoined(piece.site, fragments))
                fragments = []
            if waiting.size >= _FEED_BYTES:
                yield from ((piece.site, block) for block in waiting.before(piece.first))
            for data in blocks_of(piece.data):
                waiting.add(unpack(data))
        yield from self._rest(site, waiting, fragments)

    def wait_at(self, site: str, time: int) -> bool:
        """Whether a packet behind this time (ns) may complete a datagram that began before, in what others read."""
        return any(time - TIMEOUT_NS < clock <= time for clock in self._fragments.get(site, ()))

    def _rest(self, site: str | None, waiting: _Waiting, fragments: list[Packet]) -> Iterator[tuple[str, PacketBlock]]:
        """What is left of a site, behind its last piece."""
        if site is not None:
            waiting.add(self._rejoined(site, fragments))
            yield from ((site, block) for block in waiting.before(None))

    def _rejoined(self, site: str, fragments: list[Packet]) -> PacketBlock | None:
        """The packets of this part that fragments read by several tasks are together."""
        if not fragments:
            return None
        self._fragments.setdefault(site, []).extend(packet.clock for packet in fragments)
        block, self.pending[site] = rejoin(sorted(fragments, key=place))
        return None if block is None else block.take(self.sharing.of(site, connection_hashes(block)) == self.part)


class _Waiting:
    """Blocks that have come, and may overlap in time with one that will."""

    def __init__(self) -> None:
        self.size = 0  # of all packets, in bytes
        self._blocks: list[PacketBlock] = []

    def add(self, block: PacketBlock | None) -> None:
        if block is not None and len(block):
            self._blocks.append(block)
            self.size += _size(block)

    def before(self, bound: int | None) -> Iterator[PacketBlock]:
        """The packets of before `bound` (ns), all where it is None, in time order."""
        ready: list[PacketBlock] = []
        rest: list[PacketBlock] = []
        for block in self._blocks:
            now, later = (block, None) if bound is None else block.cut_at(bound - 1)
            ready += filter(None, [now])
            rest += filter(None, [later])
        self._blocks = rest
        self.size = sum(map(_size, rest))
        yield from map(concat, _apart(ready))


def _size(block: PacketBlock) -> int:
    return int(block.have.sum()) + PACKET_BYTES * len(block)


def _apart(blocks: Iterable[PacketBlock]) -> Iterator[list[PacketBlock]]:
    """Blocks, each in time order, in groups of which one ends before the next begins.

    Large groups are left as they are, for to join blocks is to copy them; small ones are decoded together.
    """
    group: list[PacketBlock] = []
    size, last = 0, (0, 0, 0)
    for block in sorted(blocks, key=lambda block: _place(block, 0)):
        if size >= _FEED_BYTES and last < _place(block, 0):
            yield group
            group, size = [], 0
        last = max(last, _place(block, -1)) if group else _place(block, -1)
        group.append(block)
        size += _size(block)
    if group:
        yield group


def _place(block: PacketBlock, n: int) -> tuple[int, int, int]:
    """Where a packet of a block stands in the order of packets."""
    return int(block.clock[n]), int(block.file[n]), int(block.number[n])
