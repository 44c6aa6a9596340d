"""What must hold of every capture, and what it costs to look at it.

Every table with bodies and payloads, as JSON, and forensics where a checksum is bad; now and then another format, and
what the commands answer, which takes twenty times as long as decoding. A capture that cannot be read at all is refused
with a clear error.
"""

import io
import json
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import dissectors
from dissectors.errors import BrokerscopeError
from dissectors.forensics import Investigation, report
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import TABLES
from pipelines.answers import annotate, follow, pcapng_comments
from pipelines.answers.summary import summary
from pipelines.formats import writing

TIMES = 10
FLOOR = 4.0  # seconds of CPU: below it a case is never slow, whatever its seed costs
MEMORY = Limits().memory_bytes
_OTHERS = ("csv", "text", "parquet")
ROUND = 36  # after so many cases the same is asked again
_HARMFUL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")


class FuzzFailureError(Exception):
    """What did not hold."""


class Cost(NamedTuple):
    """Of a look at one capture: CPU seconds, and peak memory in bytes where the system says it."""

    seconds: float
    peak: int


def look(path: Path, keylog: Path | None, number: int) -> None:
    """What the case of this number is asked. Raises whatever goes wrong."""
    keys = None if keylog is None else str(keylog)
    try:
        tables = dissectors.dissect([path], tables=list(TABLES), full=True, payloads=True, keylog=keys)
    except BrokerscopeError:
        return
    for name, table in tables.items():
        for format in ("json",) if number % 3 else ("json", _OTHERS[number // 3 % len(_OTHERS)]):
            _written(format, name, table)
    _conserved(tables["connections"])
    if number % ROUND == 0:
        _answers(path, tables)
    if "bad" in tables["batches"]["verdict"].unique().to_pylist():
        investigation = Investigation([str(path)], Options(keylog=keys))
        investigation.run()
        for number, case in enumerate(investigation.cases(), 1):
            json.dumps(report.as_json(case))
            list(report.as_lines(case, number))
            report.extract(case, number)


def _answers(path: Path, tables: dict[str, pa.Table]) -> None:
    summary(tables)
    for connection in tables["connections"].to_pylist()[:2]:
        follow.follow(tables, connection)
    pcapng_comments.write(str(path), annotate.comments(tables, str(path)), io.BytesIO(), Limits())


def _written(format: str, name: str, table: pa.Table) -> None:
    stream = io.BytesIO()
    with writing(format, name, table.schema, stream) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    made = stream.getvalue()
    if format != "parquet" and (bad := _HARMFUL.search(made)):
        raise FuzzFailureError(
            f"{format} of {name} holds {bad[0]!r}: {made[max(0, bad.start() - 40) : bad.end() + 9]!r}"
        )
    if format == "json":
        for line in made.splitlines():
            json.loads(line, parse_constant=_no_number)


def _no_number(text: str) -> Any:
    raise FuzzFailureError(f"JSON holds {text}")


def _conserved(connections: pa.Table) -> None:
    """Every captured byte is framed, skipped or pending."""
    for row in connections.to_pylist():
        if row["protocol"] is not None and not row["tls"]:
            counted = row["framed_bytes"] + row["skipped_bytes"] + row["pending_bytes"]
            captured = row["client_bytes"] + row["server_bytes"]
            if counted != captured:
                raise FuzzFailureError(f"{row['connection']}: {captured} bytes captured, {counted} accounted for")


# --- cost ------------------------------------------------------------------------------------------------------------


def measured(action: Callable[[], None]) -> Cost:
    """The action's cost."""
    _reset_peak()
    before = time.process_time()
    action()
    return Cost(time.process_time() - before, _peak())


def _reset_peak() -> None:
    """Let the system forget the peak so far, where it can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak() -> int:
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


@cache
def intact_seconds(path: Path, keylog: Path | None, number: int) -> float:
    """What a capture costs that nobody has mutated."""
    return min(measured(lambda: look(path, keylog, number)).seconds for _ in range(2))


def judge(path: Path, seed: Path, keylog: Path | None = None, number: int = 0) -> Cost:
    """Look at a mutated capture. Raises FuzzFailureError, or whatever went wrong."""
    cost = measured(lambda: look(path, keylog, number))
    if cost.peak > MEMORY:
        raise FuzzFailureError(f"{cost.peak >> 20} MiB at most; the limit is {MEMORY >> 20}")
    if cost.seconds > FLOOR and cost.seconds > TIMES * (intact := intact_seconds(seed, keylog, number % ROUND)):
        again = measured(lambda: look(path, keylog, number))  # the machine may have been at something else
        if again.seconds > max(FLOOR, TIMES * intact):
            raise FuzzFailureError(f"{again.seconds:.1f} s; the intact capture takes {intact:.2f} s")
    return cost
