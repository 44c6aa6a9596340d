"""Checks that are a query, keys and a sentence: each is a row of a table, in `tuned.py`, `shown.py`, `unexplained.py`.

A sentence names columns of the row that `together` gives, and how each is said:

    {count:batch}         `12 batches`: a number with its noun; {count:batch/was/were} with a verb as well
    {count:?is/are}       one of two words, as the number is 1 or not
    {servers:broker}      names, or how many there are
    {median_ns:ns}        one of _SAID: a duration, a size in bytes, a share, a number of times …
    {first:place}         where a row is that `first_of` gave; {first[total_ns]:ns} a column of it

and, of the row as a whole, {who} (its clients), {for_topics}, {in_topics}, {of_topics} and a {comma} before these,
{apis}, and {longest} (of `longest_ns`), {after_silence} (of `idle_ns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from string import Formatter
from typing import Any, NamedTuple

from pipelines.formats import units
from pipelines.sql.views import SomeRows
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import Check
from pipelines.tables.verdicts.verdict import Row, Ruling, together


class Told(NamedTuple):
    """How rows become a verdict."""

    needs: SomeRows  # without which there is nothing to tell
    verdict: str
    sentence: str
    rows: str | Callable[[Capture], str]  # what is counted, as a SELECT
    by: tuple[str, ...] = ("protocol",)  # columns that make a group
    more: str = ""  # aggregates that the sentence uses; those named `severity` and `advice` are of the verdict
    detail: str = ""  # left out where a number in it is 0 or not known
    severity: str | None = None
    advice: str | None = None
    keeps: str = ""  # a table in which the rows are kept, as they explain why these requests took long

    @property
    def check(self) -> Check:
        """The check that it stands for."""
        return Check(partial(_verdicts, self), (self.needs,))


def _verdicts(told: Told, capture: Capture) -> Iterator[Ruling]:
    """One verdict for each group of rows."""
    rows = told.rows if isinstance(told.rows, str) else told.rows(capture)
    if told.keeps:
        if not capture.keep(told.keeps, rows):
            return
        rows = f"select * from {told.keeps}"
        capture.explain(rows)
    timed = "{largest_part}" in told.detail
    for row in capture.timed(rows, told.by, told.more) if timed else capture.rows(together(rows, told.by, told.more)):
        named = words(row)
        detail = None if None in _numbers(told.detail, named) else said(told.detail, named) or None
        severity = told.severity or row.get("severity")
        yield Ruling(told.verdict, said(told.sentence, named), row, detail, severity, told.advice or row.get("advice"))


def said(sentence: str, named: Row) -> str:
    """A sentence with the columns that it names."""
    return _Sentences().vformat(sentence, (), named)


def words(row: Row) -> Row:
    """What a sentence may name, of a row that `together` gives."""
    topics = say.named(row["topics"], "topic")
    return row | {
        "who": say.clients(row),
        "for_topics": topics and f" for {topics}",
        "in_topics": topics and f" in {topics}",
        "of_topics": topics and f" of {topics}",
        "comma": topics and ",",
        "apis": say.apis(row.get("apis") or ()),
        "after_silence": f", each after {say.span(row['idle_ns'])} of silence or more" if row.get("idle_ns") else "",
        "longest": say.most(row["count"], row.get("longest_ns") or 0),
    }


def _numbers(text: str, named: Row) -> list[Any]:
    """The values that a text names, those that are 0 as None."""
    found = (Formatter().get_field(name, (), named)[0] for _, name, _, _ in Formatter().parse(text) if name)
    return [value if value != 0 else None for value in found]


class _Sentences(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        """A value as a format says it."""
        if format_spec in _SAID:
            return _SAID[format_spec](value)
        if format_spec.startswith("?"):
            one, more = format_spec[1:].split("/")
            return one if value == 1 else more
        if isinstance(value, list):
            return say.listed(value, format_spec)
        return say.counted(value, *format_spec.split("/")) if format_spec else str(value)


_SAID: Mapping[str, Callable[[Any], str]] = {
    "ns": say.span,
    "bytes": units.size,
    "share": units.share,
    "times": say.times,
    "number": say.number,
    "clock": lambda time: say.clock(say.micros(time)),
    "names": lambda names: say.joined(sorted(names)),
    "topic": say.topic,
    "place": lambda row: say.place(row["file"], row["packet"]),
}
