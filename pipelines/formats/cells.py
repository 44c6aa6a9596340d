"""Values of an aggregate table as people read them, by the unit of their column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.formats import units
from pipelines.formats.plain import cut


def _text(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _rate(value: float) -> str:
    return f"{units.short_count(value)}/s"


def _byte_rate(value: float) -> str:
    return f"{units.size(value)}/s"


def _ratio(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _time(value: Any) -> str:
    return str(value.strftime("%Y-%m-%d %H:%M:%S.%f"))[:-3]


def _date(value: Any) -> str:
    return f"{value:%Y-%m-%d}"


def _clock(value: Any) -> str:
    return f"{value:%H:%M:%S.%f}"


def _file(value: str) -> str:
    return value.rsplit("/", 1)[-1]


def _list(value: list[Any]) -> str:
    return ", ".join(str(v) for v in value)


def _payload(value: Any) -> str:
    """A key, value or headers as text; bytes that are no UTF-8 with escapes."""
    return cut(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value))


# unit -> how its values are written; what is not here is text
SHOW: dict[str, Callable[[Any], str]] = {
    "ns": units.duration,
    "bytes": units.size,
    "bytes/s": _byte_rate,
    "1/s": _rate,
    "share": units.share,
    "ratio": _ratio,
    "count": units.count,
    "time": _time,
    "date": _date,
    "clock": _clock,
    "file": _file,
    "list": _list,
    "payload": _payload,
}
NUMBERS = frozenset({"ns", "bytes", "bytes/s", "1/s", "share", "ratio", "count", "code"})  # to the right


def where(file: str | None, packet: int | None) -> str | None:
    """The way back to a packet: `client.pcap:17`."""
    return None if file is None else f"{file.rsplit('/', 1)[-1]}:{packet}"


def show(value: Any, unit: str) -> str:
    """One cell; nothing for null."""
    return "" if value is None else SHOW.get(unit, _text)(value)


def head(name: str) -> str:
    """A column's name as a heading: the unit is seen in the values."""
    return name.removesuffix("_ns").replace("_", " ")
