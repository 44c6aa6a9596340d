"""Rows of text cells as aligned lines that fit a width. Heads and cells may hold anything: lines are safe to print.

What all rows share is stated once above them. Key columns are always there; others join where there is room. A row in
which a cell does not fit keeps its place, and the cell stands in lines of its own below:

    2026-11-21  protocol kafka  server 10.71.0.1:9092
    time             total     status  api         topic    packet
    01:11:17.604019  1.24 ms   ok      Produce v9  orders       17
    01:11:17.604019  2.10 ms   …       Produce v9  orders       21
        status  UNKNOWN_TOPIC_OR_PARTITION

Where a line has no room, what all names of a column begin with, as `persistent://public/default/`, is stated once too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipelines.formats.plain import clean, cut, width, wrapped
from pipelines.formats.statuses import marked

GAP = 2
NARROWEST = 40  # a terminal below this is not taken at its word
_LEAST = 8  # cells that an elastic column keeps
_MOST = 64  # cells that one column may take
_INDENT = 4
_ELSEWHERE = "…"
_APART, _URL = ", ", "://"  # between names in a cell; in names that begin as a URL does
_RED, _YELLOW, _DIM, _OFF = "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"
_TONES = {
    "error": _RED, "bad": _RED, "warning": _YELLOW, "unanswered": _YELLOW, "unverifiable": _YELLOW, "orphan": _YELLOW,
    marked("ok", True): _YELLOW,
}  # fmt: skip
_QUIET = frozenset({"ok", "unknown", "info", "", "absent", "call", "oneway", "push"})


class GridColumn(NamedTuple):
    """One column of cells.

    need: 0 for a column that is shown at any width; others join in this order.
    once: stated above the rows while all of them agree.
    elastic: may be narrower than its longest cell.
    toned: its cells say how bad it is.
    below: stands in lines of its own, always.
    lenient: an empty cell agrees with what is stated once.
    """

    head: str
    need: int = 0
    right: bool = False
    once: bool = False
    elastic: bool = False
    toned: bool = False
    below: bool = False
    lenient: bool = False


def terminal_width() -> int:
    """Cells of a line: COLUMNS, else the terminal's, else 80."""
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def wants_colour(stream: object) -> bool:
    """Whether a stream is a terminal whose user has not set NO_COLOR."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return os.isatty(stream.fileno())  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return False


class Grid:
    """Lines of rows that may come in several goes; the head is repeated only where the columns change."""

    def __init__(self, columns: Sequence[GridColumn], room: int | None = None, *, colour: bool = False) -> None:
        self._columns = [column._replace(head=cut(clean(column.head))) for column in columns]  # SQL names some
        self._room = room or terminal_width()
        self._colour = colour
        self._varied: set[int] = set()  # `once` columns that rows do not agree on
        self._shared: dict[int, str] | None = None
        self._begins: dict[int, str] = {}  # column -> what its names begin with, which is left out of them
        self._shown: list[int] = []
        self._pushed: set[int] = set()  # key columns that stand below, as lines have no room for them
        self._widths: dict[int, int] = {}

    def lines(self, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """The lines of these rows, with a head where it is due."""
        rows = [[cut(clean(cell)) for cell in row] for row in rows]
        shared = self._common(rows)
        begins = self._common_begins(rows, shared)
        rows = [[_without(cell, begins.get(at, "")) for at, cell in enumerate(row)] for row in rows]
        if shared != self._shared or begins != self._begins:
            self._shared, self._begins = shared, begins
            self._arrange(rows)
            yield from self._head()
        for row in rows:
            yield from self._row(row)

    # --- which columns, how wide -------------------------------------------------------------------------------------

    def _common(self, rows: Sequence[Sequence[str]]) -> dict[int, str]:
        """Column -> what all rows, also those before, say there."""
        shared = {}
        for at, column in enumerate(self._columns):
            if not column.once or at in self._varied:
                continue
            values = {row[at] for row in rows}
            if self._shared is not None and at in self._shared:
                values.add(self._shared[at])
            if column.lenient and len(values) > 1:
                values.discard("")
            if len(values) > 1:
                self._varied.add(at)
            else:
                shared[at] = next(iter(values), "")
        return shared

    def _common_begins(self, rows: Sequence[Sequence[str]], shared: dict[int, str]) -> dict[int, str]:
        """Column -> what all its names begin with, up to a `/`, also those before; none while lines have room.

        Only names that begin as a URL does: Pulsar's topics.
        """
        keys = [at for at, column in enumerate(self._columns) if not (column.need or column.below or at in shared)]
        if not self._begins and _total([self._natural(at, rows) for at in keys]) <= self._room:
            return {}
        found = {}
        for at in keys:
            names = [name for row in rows for name in row[at].split(_APART) if name]
            if at in self._begins:
                names.append(self._begins[at])
            begin = _common_begin(names) if self._columns[at].elastic else ""
            if _URL in begin:
                found[at] = begin
        return found

    def _arrange(self, rows: Sequence[Sequence[str]]) -> None:
        """Choose columns and widths for these rows."""
        assert self._shared is not None
        there = [at for at, column in enumerate(self._columns) if at not in self._shared and not column.below]
        full = {at: self._natural(at, rows) for at in there}
        widths: dict[int, int] = {at: full[at] for at in there if not self._columns[at].need}
        self._squeeze(widths)
        self._pushed = set()
        while len(widths) > 1 and _total(widths.values()) > self._room:
            last = max(widths)
            self._pushed.add(last)
            del widths[last]
        for at in sorted((at for at in there if self._columns[at].need), key=lambda at: self._columns[at].need):
            empty = not any(row[at] for row in rows)
            if not empty and _total([*widths.values(), full[at]]) <= self._room:
                widths[at] = full[at]
        self._shown = sorted(widths)
        self._widths = widths

    def _natural(self, at: int, rows: Sequence[Sequence[str]]) -> int:
        """The width that a column would have: of its longest cell, of nearly all where it is elastic."""
        sizes = sorted(width(row[at]) for row in rows) or [0]
        longest = sizes[-1]
        if self._columns[at].elastic and longest > _MOST:
            longest = max((size for size in sizes if size <= _MOST), default=_MOST)
        return max(width(self._columns[at].head), longest)

    def _squeeze(self, widths: dict[int, int]) -> None:
        """Take cells from the widest elastic columns until the line fits."""
        while (over := _total(widths.values()) - self._room) > 0:
            elastic = [at for at in widths if self._columns[at].elastic and widths[at] > _LEAST]
            if not elastic:
                return
            ordered = sorted(elastic, key=lambda at: -widths[at])
            widest = ordered[0]
            next_width = widths[ordered[1]] if len(ordered) > 1 else _LEAST
            widths[widest] = max(widths[widest] - over, min(next_width, widths[widest] - 1), _LEAST)

    # --- lines -------------------------------------------------------------------------------------------------------

    def _head(self) -> Iterator[str]:
        assert self._shared is not None
        facts = [f"{self._columns[at].head} {value}".strip() for at, value in self._shared.items() if value]
        facts += [f"{self._columns[at].head} {begin}{_ELSEWHERE}" for at, begin in self._begins.items()]
        line = ""
        for fact in facts:
            if line and width(line) + GAP + width(fact) > self._room:
                yield from self._dim(line)
                line = ""
            line = f"{line}{' ' * GAP if line else ''}{fact}"
        if line:
            yield from self._dim(line)
        yield from self._dim(self._aligned([self._columns[at].head for at in self._shown])[0])

    def _dim(self, text: str) -> Iterator[str]:
        for line in wrapped(text.rstrip(), self._room):
            yield f"{_DIM}{line}{_OFF}" if self._colour else line

    def _row(self, row: Sequence[str]) -> Iterator[str]:
        cells = [row[at] for at in self._shown]
        below: list[int] = []  # of `cells`: those that stand in lines of their own
        line, taken = self._aligned(cells, toned_as=cells)
        while taken > self._room and len(below) < len(cells):
            widest = max(
                (i for i in range(len(cells)) if i not in below),
                key=lambda i: width(cells[i]) - self._widths[self._shown[i]],
            )
            below.append(widest)
            there = [_ELSEWHERE if i in below else cell for i, cell in enumerate(cells)]
            line, taken = self._aligned(there, toned_as=cells)
        if taken > self._room:  # not even this fits: the row is a record
            below, line = list(range(len(cells))), ""
        if line:
            yield line
        for i in sorted(below):
            yield from self._below(self._columns[self._shown[i]].head, cells[i])
        for at, column in enumerate(self._columns):
            if (column.below or at in self._pushed) and row[at]:
                yield from self._below(column.head, row[at])

    def _below(self, head: str, cell: str) -> Iterator[str]:
        lead = f"{' ' * _INDENT}{head}  "
        for line in wrapped(cell, max(_LEAST, self._room - len(lead))):
            yield f"{lead}{line}"
            lead = " " * len(lead)

    def _aligned(self, cells: Sequence[str], toned_as: Sequence[str] | None = None) -> tuple[str, int]:
        """(a line, its width). A cell that is too long takes room from the padding of those after it.

        toned_as: the cells whose meaning the tones show; a line of heads has none.
        """
        parts: list[str] = []
        at = due = 0
        for i, (cell, index) in enumerate(zip(cells, self._shown, strict=True)):
            column, wide = self._columns[index], width(cell)
            blank = max(0, due + self._widths[index] - at - wide)
            before = blank if column.right else max(0, due - at)
            parts.append(" " * before + (self._toned(cell, toned_as[i]) if column.toned and toned_as else cell))
            at += before + wide + GAP
            due += self._widths[index] + GAP
            parts.append(" " * GAP)
        line = "".join(parts).rstrip(" ")
        return line, at - GAP if cells and cells[-1] else width(line)

    def _toned(self, cell: str, meant: str) -> str:
        if not self._colour or meant in _QUIET:
            return cell
        return f"{_TONES.get(meant, _RED)}{cell}{_OFF}"


def _common_begin(names: Sequence[str]) -> str:
    """What all names begin with, up to a `/`."""
    least, most = min(names, default=""), max(names, default="")
    size = next((at for at, (a, b) in enumerate(zip(least, most)) if a != b), min(len(least), len(most)))
    return least[: least.rfind("/", 0, size) + 1]


def _without(cell: str, begin: str) -> str:
    """Names, without what they all begin with."""
    return _APART.join(name.removeprefix(begin) for name in cell.split(_APART)) if begin else cell


def _total(widths: Iterable[int]) -> int:
    sizes = list(widths)
    return sum(sizes) + GAP * (len(sizes) - 1)
