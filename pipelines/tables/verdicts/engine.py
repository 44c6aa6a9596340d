"""All checks, and the order of what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from pipelines.tables.verdicts.broker_lost import broker_lost
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.capture_loss import capture_loss
from pipelines.tables.verdicts.errors import errors
from pipelines.tables.verdicts.integrity import bad_checksum
from pipelines.tables.verdicts.kinds import SEVERITIES
from pipelines.tables.verdicts.thresholds import CLIENT_NS, ROW_NS
from pipelines.tables.verdicts.throttled import throttled
from pipelines.tables.verdicts.verdict import SCHEMA, Row, Verdict

Check = Callable[[Capture], Iterator[Verdict]]

CHECKS: tuple[Check, ...] = (
    bad_checksum, errors, throttled, broker_lost, capture_loss,
)  # fmt: skip


def judged(duckdb: Any) -> pa.Table:
    """The table `verdicts`, the worst first. duckdb: a connection in which the record tables have their names."""
    capture = Capture(duckdb)
    found = sorted((verdict.row() for check in CHECKS for verdict in check(capture)), key=_place)
    return pa.Table.from_pylist([{"rank": rank, **row} for rank, row in enumerate(found, 1)], SCHEMA)


def _place(row: Row) -> tuple[int, int, str, str]:
    """Severity, then what it costs: the time of requests, clients concerned and rows counted."""
    cost = (row["cost_ns"] or 0) + CLIENT_NS * len(row["clients"]) + ROW_NS * row["count"]
    return SEVERITIES.index(row["severity"]), -cost, row["kind"], row["sentence"]
