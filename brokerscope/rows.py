"""Rows of a table as objects with attributes, and tables as HTML for notebooks."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from brokerscope.drawing import library
from dissectors.wording import did_you_mean
from pipelines.formats.plain import clean, cut
from pipelines.sql.bodies import plain

if TYPE_CHECKING:
    import pandas

_BODIES = ("request", "response")  # columns of `exchanges` that hold JSON
_SHOWN = 20  # rows of a table in a notebook
_LONGEST = 200  # characters of a cell


class AnswerRow(Mapping[str, Any]):
    """One row: `row.api`, `row["api"]`, `dict(row)`. Decoded bodies are dicts whose fields are attributes too.

    An attribute is found whatever its case, with `_` or without: `row.request.max_wait_ms` is Kafka's maxWaitMs.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        if name in self._values:
            return _wrapped(self._values[name])
        if name.startswith("__"):
            raise AttributeError(name)
        for own in self._values:
            if plain(own) == plain(name):
                return _wrapped(self._values[own])
        raise AttributeError(f"no column {name!r}; {did_you_mean(name, self._values)}")

    def __getitem__(self, name: str) -> Any:
        return _wrapped(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return (
            f"AnswerRow({', '.join(f'{name}={value!r}' for name, value in self._values.items() if value is not None)})"
        )

    def _repr_html_(self) -> str:
        return html_table(["column", "value"], ([name, value] for name, value in self._values.items()))


def _wrapped(value: Any) -> Any:
    if isinstance(value, list):
        return [_wrapped(each) for each in value]
    return AnswerRow(value) if isinstance(value, dict) else value


def rows_of(values: Iterable[Mapping[str, Any]]) -> Iterator[AnswerRow]:
    """Rows of a table. Bodies, which are JSON text in a table, become dicts."""
    for each in values:
        bodies = {name: json.loads(each[name]) for name in _BODIES if isinstance(each.get(name), str)}
        yield AnswerRow({**each, **bodies} if bodies else each)


class AnswerRows(list[AnswerRow]):
    """The rows of an answer, which a notebook shows as a table."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], shown: Sequence[str] = ()) -> None:
        """shown: the columns that a notebook shows; all by default."""
        super().__init__(map(AnswerRow, rows))
        self._columns = shown

    def pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame of pandas. Raises MissingLibraryError without it."""
        frame: pandas.DataFrame = library("pandas", ".pandas()").DataFrame([dict(row) for row in self])
        return frame

    def _repr_html_(self) -> str:
        rows = [{name: row[name] for name in self._columns or row} for row in self]
        return first_rows(rows, len(rows))


def html_table(heads: Sequence[str], rows: Iterable[Sequence[Any]], more: int = 0) -> str:
    """A table in HTML; more: rows that are not in it."""
    lines = ["<table><thead><tr>", *(f"<th>{_cell(head)}</th>" for head in heads), "</tr></thead><tbody>"]
    lines += [f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows]
    lines.append("</tbody></table>")
    if more:
        lines.append(f"<p>and {more:,} more rows</p>")
    return "".join(lines)


def first_rows(rows: Sequence[Mapping[str, Any]], total: int) -> str:
    """The first rows of a table in HTML, without the columns in which all of them are empty."""
    some = rows[:_SHOWN]
    heads = [name for name in (some[0] if some else {}) if any(row[name] not in (None, [], "") for row in some)]
    return html_table(heads, ([row[name] for name in heads] for row in some), total - len(some))


def _cell(value: Any) -> str:
    text = "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return html.escape(cut(clean(text), _LONGEST))
