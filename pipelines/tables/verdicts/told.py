"""Checks that are a query, keys and a sentence: each is a row of a table, in `tuned.py`, `shown.py`, `unexplained.py`.

A sentence names columns of the row that `together` gives, and how each is said:

    {count:batch}         `12 batches`: a number with its noun; {count:batch/was/were} with a verb as well
    {count:?is/are}       one of two words, as the number is 1 or not
    {servers:broker}      names, or how many there are
    {median_ns:ns}        one of _SAID: a duration, a size in bytes, a share, a number of times …
    {first:place}         where a row is that `first_of` gave; {first[total_ns]:ns} a column of it
    {late_ns:, ~ns~ late}  any of these with words around it; nothing of what is 0, empty or not known

and, of the row as a whole, {who} (its clients) with a verb, {those:?is/are}, {for_topics}, {in_topics}, {of_topics} and
a {comma} before these, {apis}, and {longest} (of `longest_ns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from string import Formatter
from typing import Any, NamedTuple

from pipelines.formats import units, who
from pipelines.sql.views import SomeRows
from pipelines.tables.lag import called
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.verdict import COST_NS, Link, Row, Ruling


class Told(NamedTuple):
    """How rows become a verdict."""

    needs: SomeRows | tuple[SomeRows, ...]  # rows, of some kind, without which there is nothing to tell
    verdict: str
    sentence: str
    rows: str | Callable[[Capture], str]  # what is counted, as a SELECT; "" where that is known to be nothing
    by: tuple[str, ...] = ("protocol",)  # columns that make a group
    more: str = ""  # aggregates that the sentence uses; those named `severity`, `advice`, `chain` are of the verdict
    cost_ns: str = COST_NS  # the aggregate of that name
    detail: str | tuple[str, ...] = ()  # sentences, each left out where a number in it is 0 or not known
    severity: str | None = None
    advice: str | None = None
    keeps: str = ""  # a table in which the rows are kept, as they explain why these requests took long

    @property
    def any_of(self) -> tuple[SomeRows, ...]:
        """Kinds of rows: a capture that has none of them has nothing to tell."""
        return (self.needs,) if isinstance(self.needs, SomeRows) else self.needs

    def verdicts(self, capture: Capture) -> Iterator[Ruling]:
        """The verdicts of a capture: one for each group of rows."""
        rows = self.rows if isinstance(self.rows, str) else self.rows(capture)
        if not rows or (self.keeps and not capture.keep(self.keeps, rows)):
            return
        if self.keeps:
            rows = f"select * from {self.keeps}"
            capture.explain(rows)
        details = (self.detail,) if isinstance(self.detail, str) else self.detail
        ask = capture.timed if "{largest_part}" in details else capture.together
        for row in ask(rows, self.by, self.more, self.cost_ns):
            named = words(row)
            detail = " ".join(said(text, named) for text in details if None not in _numbers(text, named)) or None
            severity, advice = self.severity or row.get("severity"), self.advice or row.get("advice")
            chain = [Link(**each) for each in row.get("chain") or ()]
            yield Ruling(self.verdict, said(self.sentence, named), row, detail, severity, advice, chain)


def said(sentence: str, named: Row) -> str:
    """A sentence with the columns that it names."""
    return _Sentences().vformat(sentence, (), named)


def words(row: Row) -> Row:
    """What a sentence may name, of a row that `together` gives."""
    topics = say.named(row["topics"], "topic")
    return row | {
        "who": say.clients(row),
        "those": 1 if who.is_one(row) else 2,
        "for_topics": topics and f" for {topics}",
        "in_topics": topics and f" in {topics}",
        "of_topics": topics and f" of {topics}",
        "comma": topics and ",",
        "apis": say.apis(row.get("apis") or ()),
        "longest": say.most(row["count"], row.get("longest_ns") or 0),
    }


def _numbers(text: str, named: Row) -> list[Any]:
    """The values that a text names, those that are 0 as None."""
    found = (Formatter().get_field(name, (), named)[0] for _, name, _, _ in Formatter().parse(text) if name)
    return [value if value != 0 else None for value in found]


class _Sentences(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        """A value as a format says it."""
        if "~" in format_spec:
            before, inner, behind = format_spec.split("~")
            return f"{before}{self.format_field(value, inner)}{behind}" if value else ""
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
    "client": say.client,
    "owner": called,
    "place": lambda row: say.place(row["file"], row["packet"]),
}
