"""HTML as values: every text is escaped where it enters, so nothing that a capture holds becomes markup.

`Html` marks what is markup already; anything else given to `tag` is text. There are no style attributes: the page's
Content-Security-Policy forbids them.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from pipelines.formats.plain import clean

LONGEST = 160  # characters of a text on the page; of longer ones the beginning and the end
_TAIL = 24
_VOID = frozenset({"input", "br", "meta", "path", "rect"})


class Html(str):
    """Text that is markup."""

    __slots__ = ()


def shown(value: Any) -> str:
    """A value as text that does nothing, and is not longer than a person reads."""
    whole = str(value)
    if len(whole) <= LONGEST:
        return clean(whole)
    return f"{clean(whole[: LONGEST - _TAIL])}… {clean(whole[-_TAIL:])} ({len(whole):,} characters)"


def text(value: Any) -> Html:
    """A value as text inside markup."""
    return value if isinstance(value, Html) else Html(html.escape(clean(str(value)), quote=True))


def tag(element: str, /, *inside: Any, **attributes: Any) -> Html:
    """An element; attributes that are None are left out, `class_` and `data_x` become class and data-x."""
    given = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    written = "".join(f' {key}="{text(value)}"' for key, value in given)
    if element in _VOID and not inside:
        return Html(f"<{element}{written}/>")
    return Html(f"<{element}{written}>{join(inside)}</{element}>")


def join(parts: Iterable[Any]) -> Html:
    """Parts one after the other; None and nothing are left out."""
    return Html("".join(text(part) for part in parts if part is not None))


def sign(path: str, size: int) -> Html:
    """A sign drawn in the colour of the text around it."""
    stroke = {"stroke": "currentColor", "stroke-width": "1.6", "stroke-linecap": "round", "stroke-linejoin": "round"}
    box = {"width": str(size), "height": str(size), "viewBox": "0 0 16 16", "fill": "none", "aria-hidden": "true"}
    return tag("svg", tag("path", d=path), **box, **stroke)


def badge(protocol: Any) -> Html:
    """The protocol's name on its colour."""
    return tag("span", protocol or "other", class_=f"badge {protocol or ''}".strip())
