"""HTML as values: every text is escaped where it enters, so nothing that a capture holds becomes markup.

`Html` marks what is markup already; anything else given to `tag` is text.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from pipelines.formats import cells
from pipelines.formats.text import clean
from pipelines.tables.table import Column

_LONG = 44  # characters that stay on one line
_VOID = frozenset({"line", "rect", "path", "circle", "input", "br", "meta"})


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def text(value: Any) -> Html:
    """A value as text inside markup."""
    return value if isinstance(value, Html) else Html(html.escape(clean(str(value)), quote=True))


def tag(element: str, /, *inside: Any, **attributes: Any) -> Html:
    """An element; attributes that are None are left out, `class_` and `data_x` become class and data-x."""
    given = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    told = "".join(f' {key}="{text(value)}"' for key, value in given)
    if element in _VOID and not inside:
        return Html(f"<{element}{told}/>")
    return Html(f"<{element}{told}>{join(inside)}</{element}>")


def join(parts: Iterable[Any]) -> Html:
    """Parts one after the other; None and nothing are left out."""
    return Html("".join(text(part) for part in parts if part is not None))


def table(
    columns: Sequence[Column],
    rows: Sequence[dict[str, Any]],
    *,
    total: int | None = None,
    more: str = "",
    heads: dict[str, str] | None = None,
    marks: dict[str, str] | None = None,
) -> Html:
    """A table that can be sorted and filtered.

    total: rows that there are, where not all are here; more: where the others are; marks: column -> class of a cell
    whose value is not zero.
    """
    if not rows:
        return Html("")
    head = tag("tr", *(_head(column, heads or {}) for column in columns))
    body = join(tag("tr", *(_cell(row.get(c.name), c, (marks or {}).get(c.name)) for c in columns)) for row in rows)
    note = None
    if total is not None and total > len(rows):
        note = tag("p", f"The first {len(rows)} of {total}. All of them: ", tag("code", more), class_="note")
    return join([tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="scroll"), note])


def _head(column: Column, heads: dict[str, str]) -> Html:
    shown = heads.get(column.name, cells.head(column.name))
    return tag("th", shown, title=column.doc, class_="n" if column.unit in cells.NUMBERS else None, scope="col")


def _cell(value: Any, column: Column, mark: str | None) -> Html:
    shown = cells.show(value, column.unit)
    classes = [mark] if mark and value else []
    sort = None
    if column.unit in cells.NUMBERS:
        classes.append("n")
        sort = value
    elif len(shown) > _LONG:
        classes.append("long")
    elif not isinstance(value, list):
        classes.append("name")
    return tag("td", shown, class_=" ".join(classes) or None, data_sort=sort)
