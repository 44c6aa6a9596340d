"""The packets of captures of one capture point in time order: those that are wanted."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissectors.capture.block import PacketBlock
from dissectors.capture.fragments import Fragments
from dissectors.capture.layers import DST_LO, SRC_HI, Layers
from dissectors.capture.raw import Census, RawBlock, packets
from dissectors.capture.reader import Reader
from dissectors.limits import Limits
from pipelines.answers.extract.wanted import WantedPackets

During = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]
"""(times, ns) -> which of them are asked for"""


class Picked(NamedTuple):
    """A packet that is wanted."""

    clock: int  # ns: its time, never stepping back within a file
    file: int  # index of the file
    number: int
    time: int  # ns
    link: int
    wire: int  # original length
    data: bytes  # as captured
    start: int  # of the packet in the buffer of the block, -1 where fragments were put together
    block: PacketBlock | None  # that holds its TCP headers; None for anything else
    row: int


class PacketFiles:
    """Captures of one capture point, to be read once."""

    def __init__(
        self, paths: Sequence[str], limits: Limits, wanted: WantedPackets | None, during: During | None = None
    ) -> None:
        """wanted: None for all packets. Raises InputError for a file that is no capture."""
        self._wanted, self._during = wanted, during
        self._fragments = Fragments()
        self.readers = [Reader(path, n, limits, fragments=self._fragments) for n, path in enumerate(paths)]
        self.left_out = 0  # packets that hold no TCP, where packets of connections are wanted

    def secrets(self) -> Iterator[bytes]:
        """TLS key logs that were met in the files since the last call."""
        for reader in self.readers:
            while reader.notes.secrets:
                yield reader.notes.secrets.pop(0)

    def packets(self) -> Iterator[Picked]:
        """Those that are wanted: of one file in its order, of several in time order."""
        every = [self._of(reader) for reader in self.readers]
        yield from every[0] if len(every) == 1 else heapq.merge(*every, key=lambda packet: packet[:3])

    def _of(self, reader: Reader) -> Iterator[Picked]:
        census = Census()
        for raw in reader.raw_blocks():
            before, fragments = census.clock, census.fragments
            block = packets(raw, reader.file, census, self._fragments)
            clock = np.maximum(np.maximum.accumulate(raw.time), before)
            for index, row in self._rows(raw, block, fragmented=census.fragments > fragments):
                at, have = int(raw.at[index]), int(raw.have[index])
                yield Picked(
                    int(clock[index]), reader.file, raw.number + index, int(raw.time[index]), int(raw.link[index]),
                    int(raw.wire[index]), raw.buffer[at : at + have],
                    at if block is not None and row >= 0 and at <= block.at[row] <= at + have else -1,
                    block if row >= 0 else None, row,
                )  # fmt: skip

    def _rows(self, raw: RawBlock, block: PacketBlock | None, *, fragmented: bool) -> Iterator[tuple[int, int]]:
        """(index of a wanted packet in the raw block, its row in the block of TCP packets or -1), by index."""
        row_of = np.full(len(raw), -1, np.int64)
        keep = np.full(len(raw), self._wanted is None)
        if block is not None:
            index = block.number - raw.number
            here = (index >= 0) & (index < len(raw)) & (block.file == block.file[0])
            rows = np.flatnonzero(here)
            row_of[index[rows]] = rows
            if self._wanted is not None:
                keep[index[rows]] = self._wanted.of(block)[rows]
        if self._wanted is not None:
            self.left_out += int((row_of < 0).sum())
            if fragmented:
                keep |= self._fragmented(raw, self._wanted)
        if self._during is not None:
            keep &= self._during(raw.time)
        for n in np.flatnonzero(keep).tolist():
            yield n, int(row_of[n])

    @staticmethod
    def _fragmented(raw: RawBlock, wanted: WantedPackets) -> npt.NDArray[np.bool_]:
        """The packets that hold a fragment between addresses of a wanted connection."""
        layers = Layers(raw.buffer, raw.at, raw.have, raw.wire, raw.link)
        layers.run()
        found = np.zeros(len(raw), bool)
        for index in layers.fragments().tolist():
            pair = layers.columns[SRC_HI : DST_LO + 1, index].view(np.uint64)
            found[index] = tuple(pair.tolist()) in wanted.address_pairs
        return found
