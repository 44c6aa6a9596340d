"""Numbers as SVG. Colours are CSS variables, so a chart follows the page into the dark.

Time axes leave idle stretches out: captures of a set may lie days apart, and what matters is inside them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from pipelines.formats import units
from pipelines.report.elements import Html, join, tag

WIDTH = 1080
_LEFT, _RIGHT = 64, 10
_IDLE = 30  # buckets without anything that are left out of a time axis
_COLUMNS = 180  # bars that a chart shows at most
_GAP = 3  # columns that stand for what was left out


class Series(NamedTuple):
    """Values of one thing along the columns of an axis; None where there is none."""

    name: str
    colour: str  # a CSS colour
    values: Sequence[float | None]


# --- the time axis ---------------------------------------------------------------------------------------------------


class Axis:
    """Time buckets as columns. Neighbouring buckets share a column where there are too many."""

    def __init__(self, buckets: Sequence[datetime], width_s: float) -> None:
        """buckets: start times, in any order, with repetitions."""
        starts = sorted({round(b.timestamp() / width_s) for b in buckets})
        self.merged = max(1, math.ceil(len(starts) / _COLUMNS))
        steps = sorted({start // self.merged for start in starts})
        self.seconds = width_s * self.merged
        self.stretches: list[list[int]] = []
        for step in steps:
            if self.stretches and step - self.stretches[-1][-1] <= max(2, _IDLE // self.merged):
                self.stretches[-1] += range(self.stretches[-1][-1] + 1, step + 1)
            else:
                self.stretches.append([step])
        self._width_s = width_s
        self._column: dict[int, int] = {}
        at = 0
        for stretch in self.stretches:
            for step in stretch:
                self._column[step] = at
                at += 1
            at += _GAP
        self.columns = max(1, at - _GAP)

    def column(self, bucket: datetime) -> int:
        """The column of a bucket."""
        return self._column[round(bucket.timestamp() / self._width_s) // self.merged]

    def label(self, column: int) -> str:
        """Start time of a column."""
        for stretch in self.stretches:
            first = self._column[stretch[0]]
            if first <= column < first + len(stretch):
                return _clock(stretch[column - first] * self.seconds, self.seconds)
        return ""

    def marks(self) -> list[tuple[int, str]]:
        """(column, label) of the beginnings of stretches, as far as they fit."""
        out: list[tuple[int, str]] = []
        room = self.columns * 150 / (WIDTH - _LEFT - _RIGHT)
        for stretch in self.stretches:
            column = self._column[stretch[0]]
            if not out or column - out[-1][0] >= room:
                out.append((column, _clock(stretch[0] * self.seconds, self.seconds, date=True)))
        step = max(1, math.ceil(room))
        if len(self.stretches) == 1:
            first = self._column[self.stretches[0][0]]
            for column in range(first + step, self.columns - step // 2, step):
                out.append((column, self.label(column)))
        return out

    def breaks(self) -> list[float]:
        """Columns (fractions) in the middle of what was left out."""
        return [self._column[stretch[0]] - (_GAP + 1) / 2 + 0.5 for stretch in self.stretches[1:]]


def _clock(seconds: float, width: float, date: bool = False) -> str:
    from datetime import UTC

    moment = datetime.fromtimestamp(seconds, UTC)
    shown = moment.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")
    return f"{shown}.{moment.microsecond // 1000:03}" if width < 1 else shown


# --- charts ----------------------------------------------------------------------------------------------------------


def bars(
    axis: Axis,
    series: Sequence[Series],
    show: Callable[[float], str],
    *,
    height: int = 150,
    label: str = "",
    base: int = 1000,
) -> Html:
    """Stacked bars along time. base: 1024 for sizes, so that the scale has round numbers."""
    totals = [sum(s.values[c] or 0 for s in series) for c in range(axis.columns)]
    top = _nice(max(totals, default=0), base)
    frame = _Frame(axis, height, label)
    parts = frame.grid([(0, "0"), (0.5, show(top / 2)), (1, show(top))] if top else [(0, "0")])
    wide = max(1.0, frame.step - (1 if frame.step > 3 else 0))
    for column, total in enumerate(totals):
        below = 0.0
        if not total or not top:
            continue
        pieces = []
        told = [axis.label(column)]
        for one in series:
            value = one.values[column]
            if not value:
                continue
            tall = value / top * frame.inner
            y = frame.bottom - below - tall
            pieces.append(
                tag("rect", x=_f(frame.x(column)), y=_f(y), width=_f(wide), height=_f(max(tall, 0.6)), fill=one.colour)
            )
            below += tall
            told.append(f"{one.name}: {show(value)}")
        parts.append(tag("g", tag("title", "\n".join(told)), *pieces, class_="bar"))
    return frame.svg(parts)


def lines(
    axis: Axis, series: Sequence[Series], show: Callable[[float], str], *, height: int = 150, label: str = ""
) -> Html:
    """Lines over a logarithmic scale; a line breaks where there is nothing."""
    values = [v for s in series for v in s.values if v and v > 0]
    frame = _Frame(axis, height, label)
    if not values:
        return frame.svg(frame.grid([]))
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    high = max(high, low + 1)
    every = 1 if high - low <= 4 else 2
    parts = frame.grid([((d - low) / (high - low), show(10.0**d)) for d in range(low, high + 1, every)])
    for one in series:
        run: list[tuple[float, float]] = []
        dots = []
        paths = []
        for column, value in [*enumerate(one.values), (axis.columns, None)]:
            if value and value > 0:
                x = frame.x(column) + frame.step / 2
                y = frame.bottom - (math.log10(value) - low) / (high - low) * frame.inner
                run.append((x, y))
                told = f"{axis.label(column)}\n{one.name}: {show(value)}"
                dots.append(tag("circle", tag("title", told), cx=_f(x), cy=_f(y), r=2.2, fill=one.colour))
            elif run:
                points = " L".join(f"{_f(x)} {_f(y)}" for x, y in run)
                if len(run) > 1:
                    paths.append(tag("path", d=f"M{points}", stroke=one.colour, fill="none", stroke_width=1.4))
                run = []
        parts += [*paths, *dots]
    return frame.svg(parts)


def histogram(bins: Sequence[tuple[int, int, int]], marks: Sequence[tuple[str, int | None]], colour: str) -> Html:
    """(from ns, to ns, count) as bars over a logarithmic scale; marks: name and ns of what to point at."""
    width, height, foot, head = 340, 118, 18, 16
    inner = height - foot - head
    low = math.floor(math.log10(max(1, bins[0][0])))
    high = max(low + 1, math.ceil(math.log10(max(10, bins[-1][1])) - 1e-9))
    most = max(count for _, _, count in bins)

    def x(ns: float) -> float:
        return (math.log10(max(1.0, ns)) - low) / (high - low) * width

    parts = []
    for decade in range(low, high + 1):
        at = x(10.0**decade)
        anchor = "start" if decade == low else "end" if decade == high else "middle"
        parts.append(tag("line", x1=_f(at), x2=_f(at), y1=head, y2=height - foot, class_="grid"))
        parts.append(
            tag(
                "text", re.sub(r"\.0+(?= )", "", units.duration(10**decade)), x=_f(at), y=height - 4, text_anchor=anchor
            )
        )
    for start, end, count in bins:
        left, right = x(start), x(end)
        tall = max(1.0, count / most * inner)
        told = f"{units.duration(start)} to {units.duration(end)}: {units.count(count)}"
        parts.append(
            tag(
                "rect", tag("title", told), x=_f(left + 0.5), width=_f(max(1.0, right - left - 1)),
                y=_f(height - foot - tall), height=_f(tall), fill=colour, class_="bar",
            )
        )  # fmt: skip
    taken = -1e9
    for name, ns in marks:
        if ns:
            at = min(width - 1.0, x(ns))
            parts.append(tag("line", x1=_f(at), x2=_f(at), y1=head - 3, y2=height - foot, class_="mark"))
            if at - taken > 30:
                parts.append(tag("text", name, x=_f(min(at, width - 14)), y=9, text_anchor="middle", class_="name"))
                taken = at
    return _svg(width, height, parts, "spread of durations")


def proportion(parts: Sequence[tuple[str, float, str]]) -> Html:
    """(name, amount, colour) as one bar of full width."""
    whole = sum(amount for _, amount, _ in parts) or 1
    pieces = []
    for name, amount, colour in parts:
        if amount:
            style = f"flex:{amount / whole:.6f};background:{colour}"
            pieces.append(tag("i", style=style, title=f"{name}: {units.count(amount)}"))
    return tag("span", *pieces, class_="proportion")


def share_bar(part: float, colour: str) -> Html:
    """A share as a small bar."""
    return tag("span", tag("i", style=f"width:{max(0.4, part * 100):.2f}%;background:{colour}"), class_="share")


def legend(series: Sequence[Series]) -> Html:
    """Names and colours."""
    return tag("p", *(tag("span", tag("i", style=f"background:{s.colour}"), s.name) for s in series), class_="legend")


# --- the frame around a chart along time -----------------------------------------------------------------------------


class _Frame:
    def __init__(self, axis: Axis, height: int, label: str) -> None:
        self.axis, self.height, self.label = axis, height, label
        self.bottom = height - 20
        self.inner = self.bottom - 10
        # few columns stay slim and to the left: a bar as wide as the page says nothing
        self.step = min(28.0, (WIDTH - _LEFT - _RIGHT) / axis.columns)

    def x(self, column: float) -> float:
        return _LEFT + column * self.step

    def grid(self, ticks: Sequence[tuple[float, str]]) -> list[Html]:
        parts = []
        right = self.x(self.axis.columns)
        for share, name in ticks:
            y = self.bottom - share * self.inner
            parts.append(tag("line", x1=_LEFT, x2=_f(right), y1=_f(y), y2=_f(y), class_="grid"))
            parts.append(tag("text", name, x=_LEFT - 6, y=_f(y + 3.5), text_anchor="end"))
        for column, name in self.axis.marks():
            x = self.x(column)
            parts.append(tag("line", x1=_f(x), x2=_f(x), y1=self.bottom, y2=self.bottom + 4, class_="axis"))
            parts.append(tag("text", name, x=_f(x), y=self.height - 4))
        for middle in self.axis.breaks():
            x = self.x(middle)
            parts.append(tag("line", x1=_f(x), x2=_f(x), y1=8, y2=self.bottom, class_="break"))
        return parts

    def svg(self, parts: Sequence[Html]) -> Html:
        return _svg(WIDTH, self.height, parts, self.label)


def _svg(width: int, height: int, parts: Sequence[Html], label: str) -> Html:
    return tag("svg", join(parts), viewBox=f"0 0 {width} {height}", role="img", aria_label=label, class_="chart")


def _nice(value: float, base: int = 1000) -> float:
    """The next round number at or above a value: 1, 2, 5, 10 … times a power of the base."""
    if value <= 0:
        return 0
    unit = float(base) ** math.floor(math.log(value, base) + 1e-9)
    steps = (power * step for power in (0.001, 0.01, 0.1, 1, 10, 100, 1000) for step in (1, 2, 4, 6, 8))
    return next((step * unit for step in steps if step * unit >= value * 0.9999), value)


def _f(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
