"""Names of machines beside their addresses: `10.0.0.7 (app-1)`. The one place that knows them, and that writes them.

Names come from a file of the user (`--hosts`), else from what the captures tell (dissectors/capture/host_names.py). An
address is never replaced, and in JSON a row keeps it and has `host_names` beside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dissectors.errors import InputError

HOST_NAMES = "host_names"
"""The key of a row in JSON that holds address -> name, for the addresses in it."""
ADDRESSED = (
    "client_ip",
    "server_ip",
    "client",
    "server",
    "clients",
    "servers",
    "origin",
    "leader",
    "subject",
    "detail",
)
"""Columns in which addresses stand."""
_MOST_BYTES = 16 << 20  # of a file of names
_LONGEST = 60  # characters of a name that are shown
_ADDRESS_HEADS = ("ip", "ip_address", "address", "podip", "pod_ip", "internal-ip")
_NAME_HEADS = ("name", "host", "hostname", "host_name", "pod")
_V4 = r"\d{1,3}(?:\.\d{1,3}){3}"
_V6 = r"[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}"
_END = rf"(?:\[(?:{_V6})\]|{_V4})"
_TOKEN = re.compile(
    rf"`[^`]*` | (?<![\w.:\[])(?P<first>{_END}:\d{{1,5}})>(?P<second>{_END}:\d{{1,5}}) | "
    rf"(?<![\w.:\[])(?P<one>{_END}(?::\d{{1,5}})?|{_V6})(?![\w\]]|:\w|\.\d)",
    re.X,
)

_known: dict[str, str] = {}
_unread: list[Callable[[], Mapping[str, str]]] = []  # what tells more names, asked when the first is wanted
_source: list[Hashable] = []  # what `use` was told last of where its names come from


def use(names: Mapping[str, str], told: Callable[[], Mapping[str, str]] | None = None, source: Hashable = None) -> None:
    """Write these names beside addresses from now on: address -> name.

    told: gives more, of addresses that have none here; asked when a text or a row is first written
    source: what these names come from: where it is that of the names in use, nothing is asked anew
    """
    if source is not None and _source == [source]:
        return
    _source[:] = [source]
    _known.clear()
    _known.update(names)
    _unread[:] = [] if told is None else [told]


@contextmanager
def used(names: Mapping[str, str]) -> Iterator[None]:
    """Within the block, write these names too, where no other is in use for an address."""
    before = dict(names_in_use())
    use({**names, **before})
    try:
        yield
    finally:
        use(before)


def names_in_use() -> Mapping[str, str]:
    """Address -> name."""
    while _unread:
        for address, name in _unread.pop()().items():
            _known.setdefault(address, name)
    return _known


def with_names(text: str) -> str:
    """A text with the names of the machines whose addresses stand in it; what stands in backquotes stays as it is."""
    if not names_in_use():
        return text
    return _TOKEN.sub(_named, text)


def beside(values: Any) -> dict[str, str]:
    """The names of the machines whose addresses a row has, in texts and lists of any depth."""
    found: dict[str, str] = {}
    if names_in_use():
        for text in _texts(values):
            for match in _TOKEN.finditer(text):
                for end in filter(None, (match["first"], match["second"], match["one"])):
                    address = _address(end)
                    if address in _known:
                        found[address] = _known[address]
    return found


def _named(match: re.Match[str]) -> str:
    ends = [end for end in (match["first"], match["second"], match["one"]) if end]
    names = [_known.get(_address(end)) for end in ends]
    if not any(names):
        return match[0]
    said = " > ".join((name or "?")[:_LONGEST] for name in names)
    return f"{match[0]} ({said})"


def _address(end: str) -> str:
    """The address of `ip`, `ip:port` or `[ip]:port`."""
    if end.startswith("["):
        return end[1:].partition("]")[0]
    return end if end.count(":") > 1 else end.partition(":")[0]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


# --- files of names --------------------------------------------------------------------------------------------------


def read(path: str) -> dict[str, str]:
    """Address -> name, of a file as /etc/hosts, the output of `kubectl get pods -o wide`, or CSV.

    Raises InputError where it cannot be read, or names nothing.
    """
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    found = dict(_of_table(lines) or _of_hosts(lines))
    if not found:
        raise InputError(
            f"{path}: no names: lines are ADDRESS NAME, CSV with columns ip and name, or kubectl's -o wide"
        )
    return found


def _of_table(lines: list[str]) -> list[tuple[str, str]] | None:
    """Rows of a table whose first line names columns; None where it does not."""
    if not lines:
        return None
    import csv

    with_commas = "," in lines[0]
    rows: Iterable[list[str]] = csv.reader(lines) if with_commas else (re.split(r"\s{2,}|\t", line) for line in lines)
    heads, *rest = ([cell.strip() for cell in row] for row in rows)
    columns = {head.lower().replace(" ", "_"): place for place, head in enumerate(heads)}
    addresses = [columns[head] for head in _ADDRESS_HEADS if head in columns]
    names = [columns[head] for head in _NAME_HEADS if head in columns]
    if addresses and names:
        return [pair for row in rest if (pair := _pair(row, addresses[0], names[0]))]
    if with_commas:  # without headings: the address first, or the name
        return [pair for row in (heads, *rest) if (pair := _pair(row, 0, 1) or _pair(row, 1, 0))]
    return None


def _of_hosts(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if pair := _pair(line.partition("#")[0].split(), 0, 1):
            yield pair


def _pair(cells: list[str], address: int, name: int) -> tuple[str, str] | None:
    if len(cells) <= max(address, name) or not cells[name]:
        return None
    import ipaddress

    with suppress(ValueError):
        return str(ipaddress.ip_address(cells[address])), cells[name]
    return None
