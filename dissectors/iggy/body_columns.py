"""Bodies of one command, many at once: which layouts read each, and what they say.

decode.body reads one body: which of a command's layouts do so narrows the era, and the likeliest of those that do is
chosen. Here every layout that a connection may use is tried on all of its bodies together; the bits of a body are the
layouts that read it. What these bits mean depends on the era at that moment: `reading` says it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.frame_columns import Frames
from dissectors.iggy import columnar, layouts, message_columns, tables
from dissectors.iggy.columnar import BodyColumns
from dissectors.iggy.conversation import IggyConversation
from dissectors.iggy.decode import reads, releases_text
from dissectors.iggy.layouts import REQUEST, BodyLayout
from dissectors.iggy.message_columns import RunColumns, UnitValues


class BodyReading(NamedTuple):
    """What decode.body makes of a body that some layouts read."""

    layout: int  # the one chosen
    readers: int  # releases
    reason: str  # for the era
    fits: bool  # whether the chosen one is among those that may speak


class Variant(NamedTuple):
    """Bodies as one layout reads them."""

    rows: Ints  # of the command's bodies: those that it was tried on
    body: BodyColumns
    runs: RunColumns | None
    units: UnitValues | None
    sums: list[str | None]


class Bodies:
    """The bodies of one command."""

    def __init__(self, side: str, code: int, which: Ints) -> None:
        self.side = side
        self.code = code
        self.which = which  # frames, ascending
        self.layouts = layouts.candidates(side, code, 0)
        self.bits = np.zeros(len(which), np.int64)
        self.unsure: Bools = np.zeros(len(which), bool)
        self.variants: dict[int, Variant] = {}

    @property
    def usable(self) -> Bools:
        """The bodies that are read, and for which nothing else is to be looked at."""
        read: Bools = (self.bits != 0) & ~self.unsure
        return read

    def read(self, frames: Frames[IggyConversation], at: Ints, end: Ints, allowed: Ints, *, verify: bool) -> None:
        """Try the layouts. allowed: the releases that may speak, of each body. verify: whether checksums matter."""
        octets = frames.octets
        for number, layout in enumerate(self.layouts):
            rows = np.flatnonzero(allowed & layout.releases)
            if not len(rows):
                continue
            body = columnar.read(layout, octets, at[rows], end[rows])
            for row in np.flatnonzero(body.unsure).tolist():  # few: its reader tells
                body.ok[row] = reads(layout, frames.buf, int(at[rows[row]]), int(end[rows[row]]))
            unsure: Bools = np.zeros(len(rows), bool)
            runs = units = None
            sums: list[str | None] = []
            if layout.run:
                begin = np.where(body.ok, body.at, end[rows])
                count = body.numbers.get("messages_count")
                runs = message_columns.read(layout.run, frames.buf, octets, begin, end[rows], count)
                units = message_columns.values(runs, octets, produced=self.side == REQUEST)
                if verify:
                    sums = message_columns.verify(runs, frames.buf, octets)
                body.ok &= runs.ok
                unsure = runs.unsure & body.ok
            self.bits[rows] |= body.ok.astype(np.int64) << number
            self.unsure[rows] |= unsure
            self.variants[number] = Variant(rows, body, runs, units, sums)


@cache
def reading(side: str, code: int, bits: int, allowed: int) -> BodyReading:
    """See decode.body. bits: the layouts that read the body, as positions in layouts.candidates(side, code, 0)."""
    numbers = {layout: number for number, layout in enumerate(layouts.candidates(side, code, 0))}
    chosen: BodyLayout | None = None
    readers = 0
    for layout in layouts.candidates(side, code, allowed):
        if chosen and (tables.settled(allowed) or not layout.releases & allowed):
            break
        if bits >> numbers[layout] & 1:
            readers |= layout.releases
            chosen = chosen or layout
    assert chosen is not None
    reason = f"{side} {chosen.name} read by {releases_text(readers)}"
    return BodyReading(numbers[chosen], readers, reason, bool(chosen.releases & allowed))
