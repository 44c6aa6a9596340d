"""The options of brokerscope on Spark, and the one way in which their texts are read.

count   20000000                       a whole number
size    134217728, 16m, 16MB, 1g       bytes, as Spark writes sizes: a k is 1024
rule    place, folder, file, /(broker-\\d+)/    what names a capture point
limits  {"packet_bytes": "1m"}         a JSON object of limits
paths   ["a.pcap", "captures/"]        a JSON list
flag    true, false                    whether something is done
moment  2026-01-31T08:00:00            a time, UTC where it names no zone
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dissectors.errors import UsageError
from dissectors.limits import SPLIT_BYTES, Limits
from dissectors.wording import did_you_mean
from pipelines.formats.units import nanoseconds, utc_time

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
    """What names a capture point: `place`, `folder`, `file`, or a regular expression. Raises ValueError."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return text


def limits(given: Mapping[str, str]) -> Limits:
    """Limits, of which some are changed: name -> size. Raises ValueError."""
    names = sorted(Limits._fields)
    if unknown := given.keys() - set(names):
        raise ValueError(f"{min(unknown)!r} is none of {', '.join(names)}")
    return Limits()._replace(**{name: Option(name, size, None, "").value(text) for name, text in given.items()})


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


def flag(text: str) -> bool:
    """Whether something is done. Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def moment(text: str) -> float:
    """A time as seconds since the epoch; UTC where the text names no zone. Raises ValueError."""
    try:
        time = utc_time(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time like 2026-01-31T08:00:00") from None
    return time.timestamp()


def hosts(text: str) -> tuple[str, ...]:
    """Addresses and networks, apart by commas, as `10.0.0.0/24`. Raises ValueError."""
    return tuple(str(ipaddress.ip_network(one, strict=False)) for one in _names(text))


def ports(text: str) -> tuple[int, ...]:
    """TCP ports, apart by commas. Raises ValueError."""
    found = tuple(count(one) for one in _names(text))
    if wrong := [port for port in found if not 0 <= port < 1 << 16]:
        raise ValueError(f"{wrong[0]} is no TCP port")
    return found


def pairs(text: str) -> dict[str, str]:
    """Pairs like `9092=kafka`, apart by commas. Raises ValueError."""
    found = [one.partition("=") for one in _names(text)]
    if wrong := [key for key, sign, value in found if not (key and sign and value)]:
        raise ValueError(f"{wrong[0]!r} is no pair like NAME=VALUE")
    return {key.strip(): value.strip() for key, _, value in found}


def decode_as(text: str) -> dict[int, str]:
    """Server ports and their protocols, as `9092=kafka`. Raises ValueError."""
    return {ports(port)[0]: protocol for port, protocol in pairs(text).items()}


def width(text: str) -> int:
    """A width of time, as `10s`, in microseconds. Raises ValueError."""
    ns = nanoseconds(text)
    if not ns or ns % 1000:
        raise ValueError(f"{text!r} is no width of time like 100ms, 10s or 1h")
    return ns // 1000


def names(text: str) -> tuple[str, ...]:
    """Names, apart by commas."""
    return tuple(_names(text))


def names_from(text: str) -> str:
    """Where the names of topic ids are taken from. Raises ValueError."""
    if text not in ("everywhere", "site"):
        raise ValueError(f"{text!r} is neither everywhere nor site")
    return text


def _names(text: str) -> list[str]:
    return [one for one in map(str.strip, text.split(",")) if one]


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
        "bytes of captures that a task reads, about; by default up to 128 MiB, or less, down to 16 MiB, so that there "
        "are 4 tasks for each core; more, up to 1 GiB, where there are more than 128 parts", 1,
    ),
    Option(
        "tableRows", count, 1_000_000_000,
        "records up to which tasks compute the tables by DuckDB (in local mode the driver, in a fifth of its memory), "
        "1,000,000,000 by default: a second of CPU for each 100,000 rows, where Spark needs 40 for planning and "
        "compiling its queries, and eight times as much a row; tables that do not fit in the memory of a task Spark "
        "computes; 0 has Spark compute all but those of what is wrong", 0,
    ),
)  # fmt: skip
"""Settings of a session: `--conf spark.brokerscope.NAME=VALUE`."""

_CAPTURES = (
    Option("path", str, None, "a file, a folder or a glob, local or any URL that fsspec opens: what `load` is given"),
    Option("paths", _json_paths, [], "a JSON list of such paths: what `load` is given"),
    Option(
        "site", rule, "place",
        "what names the capture point of a file: `place`, its folder without dates and hours; `folder`; `file`; or a "
        "regular expression",
    ),
    Option("limits", _json_limits, Limits(), "limits as a JSON object, as `--limit` sets them"),
    Option("pathGlobFilter", str, None, "only files whose name, without its folder, fits this glob"),
    Option("recursiveFileLookup", flag, True, "whether folders are read with all below them: `true` by default"),
    Option("modifiedAfter", moment, None, "only files modified after this time; UTC where it names no zone"),
    Option("modifiedBefore", moment, None, "only files modified before this time; UTC where it names no zone"),
    Option("ignoreMissingFiles", flag, False, "whether paths that do not exist are left out: `false` by default"),
    Option(
        "ignoreCorruptFiles", flag, True,
        "whether a file that cannot be read whole is reported in a row and the others are read, which is the default; "
        "`false`: the query fails",
    ),
)  # fmt: skip

SOURCE = (
    *_CAPTURES,
    Option("splitBytes", size, SPLIT_BYTES, "an uncompressed pcap is cut into parts of about this size (128 MiB)", 1),
    Option(
        "payload",
        flag,
        True,
        "whether there is the column `payload`; most of the cost is saved without it, as with a schema that lacks it",
    ),
)
"""Options of `spark.read.format("pcap")`."""

_OF_ROWS = (
    Option("table", str, "exchanges", "a record table, an aggregate table or `verdicts`: `exchanges` by default"),
    Option("since", str, None, "only rows from this time on, as `--since` takes it"),
    Option("until", str, None, "only rows before this time, as `--until` takes it"),
    Option(
        "hosts", hosts, (), "only connections with one of these addresses or networks at an end: `10.0.0.7,10.1.0.0/16`"
    ),
    Option("ports", ports, (), "only connections with one of these ports at an end: `9092,9093`"),
    Option("topics", str, None, "only what names one of these topics, as `--topic` takes them"),
    Option("protocols", str, None, "only these protocols: `kafka,pulsar,iggy`"),
    Option("sites", str, None, "only these capture points; `*` and `?` stand for any text"),
    Option("full", flag, False, "whether exchanges have their decoded bodies"),
    Option("payloads", flag, False, "whether messages have their keys, values and headers"),
    Option(
        "decodeAs", decode_as, {}, "protocols of server ports, stronger than what the content suggests: `9092=kafka`"
    ),
    Option("dialects", pairs, {}, "dialects of protocols, stronger than what the content suggests: `iggy=iggy-0.5`"),
    Option("keylog", str, None, "a file of TLS secrets, a path that all machines mount, or a URL"),
)  # fmt: skip

_SITE, _LIMITS, _CORRUPT = (
    next(option for option in _CAPTURES if option.name == name) for name in ("site", "limits", "ignoreCorruptFiles")
)
CONTENTS = (*_OF_ROWS, _SITE, _LIMITS, _CORRUPT)
"""Options of `brokerscope.spark.decode`."""

ROWS = (
    *_OF_ROWS,
    *_CAPTURES,
    Option("columns", names, (), "only these columns: `api,total_ns`; all by default. `select` alone saves nothing"),
    Option(
        "limit", count, None,
        "rows that each task gives at most, of those that these options and filters that Spark hands over leave", 0,
    ),
    Option("bucket", width, None, "width of a time bucket in aggregate tables, as `10s`; by default one that fits"),
    Option("by", names, (), "keys that the latency table gets besides its own, as `analyze --by` takes them"),
    Option(
        "parts", count, None,
        "tasks that share the connections of one capture point; each reads all its captures. By default one for each "
        "256 MiB, at most 8", 1,
    ),
    Option(
        "names", names_from, "everywhere",
        "`everywhere`: a topic id is named as any capture says, for which each machine may decode all captures once "
        "more; `site`: as the captures of the same task say",
    ),
)  # fmt: skip
"""Options of `spark.read.format("brokerscope")`."""

STREAM = (
    Option("maxFilesPerTrigger", count, None, "files that a micro-batch takes at most; by default all that are new", 1),
    Option(
        "checkpointLocation", str, None,
        "that of the query, which Spark does not tell a source: what the stream carries along is then kept in files "
        "there, else in the offsets, as far as these hold it (1 MiB)",
    ),
)  # fmt: skip
"""Options that `spark.readStream.format("brokerscope")` has beside these."""


def of_session(settings: Mapping[str, str]) -> dict[str, Any]:
    """The values of SESSION, by name. settings: all of a session, by name. Raises UsageError."""
    given = {name.removeprefix(PREFIX): text for name, text in settings.items() if name.startswith(PREFIX)}
    return _values(SESSION, given, PREFIX)


def of_source(given: Mapping[str, str], options: Sequence[Option] = SOURCE) -> dict[str, Any]:
    """The values of a data source's options, by name. given: what it was told. Raises UsageError."""
    return _values(options, given, "")


def _values(options: Sequence[Option], given: Mapping[str, str], prefix: str) -> dict[str, Any]:
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
        name, _ = next(iter(texts.values()))
        known = [prefix + option.name for option in options]
        raise UsageError(f"{prefix}{name}: there is no such option; {did_you_mean(prefix + name, known)}")
    return values
