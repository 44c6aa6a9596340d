"""Several files of one site as one stream of packets in time order.

Rotated files follow each other and pass through untouched. Files that overlap in time (a ring of two interfaces, a
packet broker that sprays) are merged a stretch at a time: all packets up to the earliest end of the blocks at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dissectors.capture.block import PacketBlock, concat


@dataclass(slots=True)
class _Source:
    blocks: Iterator[PacketBlock]
    block: PacketBlock | None = None

    def advance(self) -> bool:
        self.block = next(self.blocks, None)
        return self.block is not None

    @property
    def first(self) -> int:
        assert self.block is not None
        return int(self.block.clock[0])

    @property
    def last(self) -> int:
        assert self.block is not None
        return int(self.block.clock[-1])


def merge(files: Sequence[tuple[int, Callable[[], Iterator[PacketBlock]]]]) -> Iterator[PacketBlock]:
    """files: (time of the first packet in ns, how to open it). A file is opened only when its time has come."""
    waiting = sorted(files, key=lambda f: f[0])[::-1]
    active: list[_Source] = []
    while waiting or active:
        if not active:
            _start(waiting, active)
            continue
        while waiting and waiting[-1][0] <= min(s.last for s in active):
            _start(waiting, active)
        bound = min(s.last for s in active)
        ready: list[PacketBlock] = []
        for source in list(active):
            block = source.block
            assert block is not None
            if source.first > bound:
                continue
            cut = int(np.searchsorted(block.clock, bound, side="right"))
            ready.append(block if cut == len(block) else block.take(slice(0, cut)))
            if cut < len(block):
                source.block = block.take(slice(cut, len(block)))
            elif not source.advance():
                active.remove(source)
        yield concat(ready)


def _start(waiting: list[tuple[int, Callable[[], Iterator[PacketBlock]]]], active: list[_Source]) -> None:
    source = _Source(waiting.pop()[1]())
    if source.advance():
        active.append(source)
