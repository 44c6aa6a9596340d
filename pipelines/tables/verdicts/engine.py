"""All checks, and the order of what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from pipelines.tables.verdicts.broker_lost import broker_lost
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.capture_loss import capture_loss
from pipelines.tables.verdicts.connections import failed_connects, unreadable, zero_window
from pipelines.tables.verdicts.errors import errors
from pipelines.tables.verdicts.integrity import bad_checksum
from pipelines.tables.verdicts.kinds import SEVERITIES
from pipelines.tables.verdicts.lookups import lookups_redirected
from pipelines.tables.verdicts.malformed import malformed_batches
from pipelines.tables.verdicts.protocol_version import wrong_protocol_version
from pipelines.tables.verdicts.rebalances import rebalances
from pipelines.tables.verdicts.redelivered import redelivered
from pipelines.tables.verdicts.retransmissions import retransmissions
from pipelines.tables.verdicts.share_groups import share_group
from pipelines.tables.verdicts.slow import head_of_line, slow_requests, slow_tail, uneven_broker
from pipelines.tables.verdicts.thresholds import CLIENT_NS, ROW_NS
from pipelines.tables.verdicts.throttled import throttled
from pipelines.tables.verdicts.topic_moved import topic_moved
from pipelines.tables.verdicts.transactions import transactions_aborted
from pipelines.tables.verdicts.tuned import tuned
from pipelines.tables.verdicts.unanswered import unanswered
from pipelines.tables.verdicts.verdict import SCHEMA, Row, Verdict

Check = Callable[[Capture], Iterator[Verdict]]

CHECKS: tuple[Check, ...] = (
    broker_lost, topic_moved, wrong_protocol_version, bad_checksum, malformed_batches, errors, throttled,
    transactions_aborted, share_group, redelivered, lookups_redirected, rebalances, retransmissions, slow_requests,
    head_of_line, slow_tail, uneven_broker, zero_window, unreadable, capture_loss, tuned,
    failed_connects, unanswered,
)  # fmt: skip
"""In this order: the last ones leave out what verdicts before them explain."""


def judged(duckdb: Any) -> pa.Table:
    """The table `verdicts`, the worst first. duckdb: a connection in which the record tables have their names."""
    capture = Capture(duckdb)
    for check in CHECKS:
        capture.told += check(capture)
    found = sorted((verdict.row() for verdict in capture.told), key=_place)
    return pa.Table.from_pylist([{"rank": rank, **row} for rank, row in enumerate(found, 1)], SCHEMA)


def _place(row: Row) -> tuple[int, int, str, str]:
    """Severity, then what it costs: the time of requests, clients concerned and rows counted."""
    cost = (row["cost_ns"] or 0) + CLIENT_NS * len(row["clients"]) + ROW_NS * row["count"]
    return SEVERITIES.index(row["severity"]), -cost, row["kind"], row["sentence"]
