"""Lines and dots along time, by matplotlib, or by altair where only that is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any

from dissectors.errors import BrokerscopeError

Points = Sequence[tuple[datetime, float]]


class MissingLibraryError(BrokerscopeError):
    """What was asked for needs a library that is not installed."""


def library(name: str, purpose: str) -> Any:
    """A library that brokerscope does not need itself. Raises MissingLibraryError where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingLibraryError(f"{purpose} needs {name}: pip install {name.partition('.')[0]}") from None


def draw(series: Mapping[str, Points], *, y: str, by: str, lines: bool) -> Any:
    """A colour for each label: matplotlib's Axes, or a Chart of altair.

    series: label -> (time, value); y: what the values are, with their unit; by: what the labels are; lines: whether
    points are joined. Raises MissingLibraryError where neither library is installed.
    """
    for name, drawn in (("matplotlib.pyplot", _by_matplotlib), ("altair", _by_altair)):
        try:
            found = import_module(name)
        except ImportError:
            continue
        return drawn(found, series, y, by, lines)
    raise MissingLibraryError("a plot needs matplotlib or altair: pip install 'brokerscope[plot]'")


def _by_matplotlib(pyplot: Any, series: Mapping[str, Points], y: str, by: str, lines: bool) -> Any:
    dates = import_module("matplotlib.dates")
    _, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
    for label, points in series.items():
        axes.plot([time for time, _ in points], [value for _, value in points], ".-" if lines else ".", label=label)
    axes.set_xlabel("time (UTC)")
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    if series:
        axes.legend(title=by, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return axes


def _by_altair(altair: Any, series: Mapping[str, Points], y: str, by: str, lines: bool) -> Any:
    rows = [
        {"time": time.isoformat(), "value": value, "label": label}
        for label, points in series.items()
        for time, value in points
    ]
    chart = altair.Chart(altair.Data(values=rows))
    return (chart.mark_line(point=True) if lines else chart.mark_point()).encode(
        x=altair.X("time:T", title="time (UTC)"),
        y=altair.Y("value:Q", title=y),
        color=altair.Color("label:N", title=by),
    )
