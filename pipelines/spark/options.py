"""The options of brokerscope on Spark, and the one way in which their texts are read.

count   5000000                        a whole number
size    134217728, 16m, 16MB, 1g       bytes, as Spark writes sizes: a k is 1024
rule    folder, file, /(broker-\\d+)/    what names a capture point
limits  {"packet_bytes": "1m"}         a JSON object of limits
paths   ["a.pcap", "captures/"]        a JSON list
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from dissectors.errors import UsageError
from dissectors.limits import SPLIT_BYTES, Limits

PREFIX = "spark.brokerscope."  # of the options of a session
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"([0-9]{1,15})([kmgt]?)(?:i?b)?")


def count(text: str) -> int:
    """A whole number. Raises ValueError."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def size(text: str) -> int:
    """Bytes. Raises ValueError."""
    found = _SIZE.fullmatch(text.lower())
    if found is None:
        raise ValueError(f"{text!r} is no size like 65536, 64k, 16m or 1g")
    return int(found[1]) << 10 * _POWERS[found[2]]


def rule(text: str) -> str:
    """What names a capture point: `folder`, `file`, or a regular expression. Raises ValueError."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return text


def limits(given: Mapping[str, str]) -> Limits:
    """Limits, of which some are changed: name -> size. Raises ValueError."""
    names = sorted(field.name for field in fields(Limits))
    if unknown := given.keys() - set(names):
        raise ValueError(f"{min(unknown)!r} is none of {', '.join(names)}")
    return replace(Limits(), **{name: Option(name, size, None, "").value(text) for name, text in given.items()})


def _json_limits(text: str) -> Limits:
    given = json.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f'{text!r} is no JSON object like {{"packet_bytes": "1m"}}')
    return limits({name: str(value) for name, value in given.items()})


def _json_paths(text: str) -> list[str]:
    given = json.loads(text)
    if not isinstance(given, list) or not all(isinstance(path, str) for path in given):
        raise ValueError(f"{text!r} is no JSON list of paths")
    return given


class Option(NamedTuple):
    """One option: what it is called, how its text is read, and what holds where it is not given."""

    name: str
    read: Callable[[str], Any]
    default: Any
    doc: str
    least: int | None = None

    def value(self, text: str) -> Any:
        """The value that a text means. Raises ValueError, which names the option."""
        try:
            value = self.read(text.strip())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.name}: {error}") from None
        if self.least is not None and value < self.least:
            raise ValueError(f"{self.name}: {text!r} is less than {self.least}")
        return value


SESSION = (
    Option(
        "splitBytes", size, None,
        "bytes of a capture that a task reads, about; by default up to 128 MiB, or less, down to 16 MiB, so that there "
        "are 4 tasks for each core", 1,
    ),
    Option(
        "tableRows", count, 5_000_000,
        "records up to which the driver computes the tables in bounded memory, 5,000,000 by default: a second of CPU "
        "for each 200,000 rows, where Spark needs 40 for planning and compiling its queries, however few the rows are; "
        "0 has Spark do it", 0,
    ),
)  # fmt: skip
"""Settings of a session: `--conf spark.brokerscope.NAME=VALUE`."""

SOURCE = (
    Option("path", str, None, "a file, a folder or a glob, local or any URL that fsspec opens: what `load` is given"),
    Option("paths", _json_paths, [], "a JSON list of such paths: what `load` is given"),
    Option("site", rule, "folder", "what names the capture point of a file: `folder`, `file`, or a regular expression"),
    Option("limits", _json_limits, Limits(), "limits as a JSON object, as `--limit` sets them"),
    Option("splitBytes", size, SPLIT_BYTES, "an uncompressed pcap is cut into parts of about this size (128 MiB)", 1),
)
"""Options of `spark.read.format("pcap")`."""

_OF_FILES = (
    "pathGlobFilter", "recursiveFileLookup", "modifiedAfter", "modifiedBefore", "ignoreCorruptFiles",
    "ignoreMissingFiles",
)  # fmt: skip
"""Options of Spark's own file sources, as people spell them: Spark hands over names in small letters."""


def of_session(settings: Mapping[str, str]) -> dict[str, Any]:
    """The values of SESSION, by name. settings: all of a session, by name. Raises UsageError."""
    given = {name.removeprefix(PREFIX): text for name, text in settings.items() if name.startswith(PREFIX)}
    return _values(SESSION, given, PREFIX)


def of_source(given: Mapping[str, str]) -> dict[str, Any]:
    """The values of SOURCE, by name. given: what the data source was told. Raises UsageError."""
    return _values(SOURCE, given, "")


def _values(options: Iterable[Option], given: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """The value of each option, by name; names are told apart without regard to case, as Spark does."""
    texts = {name.lower(): (name, text) for name, text in given.items()}
    values = {}
    for option in options:
        _, text = texts.pop(option.name.lower(), ("", None))
        try:
            values[option.name] = option.default if text is None else option.value(text)
        except ValueError as error:
            raise UsageError(f"{prefix}{error}") from None
    if texts:
        low, (name, _) = next(iter(texts.items()))
        spelled = next((one for one in _OF_FILES if one.lower() == low), name)
        known = ", ".join(prefix + option.name for option in options)
        raise UsageError(f"{prefix}{spelled}: there is no such option; there are {known}")
    return values
