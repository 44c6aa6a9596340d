"""All checks, and the order of what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.tables.verdicts.broker_lost import broker_lost
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.capture_loss import capture_loss
from pipelines.tables.verdicts.clock import clock
from pipelines.tables.verdicts.connections import (
    failed_connects,
    foreign_peer,
    tls_mismatch,
    unreadable,
    zero_window,
)
from pipelines.tables.verdicts.dead_letters import dead_lettered
from pipelines.tables.verdicts.errors import errors
from pipelines.tables.verdicts.framing import framing_lost, stuck_consumer
from pipelines.tables.verdicts.habits import connection_churn, metadata_storm
from pipelines.tables.verdicts.integrity import bad_checksum
from pipelines.tables.verdicts.keepalive import keepalive_timeout
from pipelines.tables.verdicts.kinds import SEVERITIES
from pipelines.tables.verdicts.leader_moved import leader_moved
from pipelines.tables.verdicts.lookups import lookups_redirected
from pipelines.tables.verdicts.malformed import malformed_batches
from pipelines.tables.verdicts.offsets import offsets_moved_back
from pipelines.tables.verdicts.permits import without_permits
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
from pipelines.tables.verdicts.unanswered import fetch_overdue, out_of_order_answers, unanswered
from pipelines.tables.verdicts.verdict import SCHEMA, Row, Ruling
from pipelines.tables.verdicts.violations import protocol_violation


class Check(NamedTuple):
    """One check, and the kind of finding without which it has nothing to say."""

    verdicts: Callable[[Capture], Iterator[Ruling]]
    finding: str | None = None


CHECKS = (
    Check(broker_lost),
    Check(topic_moved, "closed_by_broker"),
    Check(leader_moved),
    Check(tls_mismatch),
    Check(foreign_peer),
    Check(wrong_protocol_version),
    Check(framing_lost, "framing_lost"),
    Check(bad_checksum),
    Check(malformed_batches),
    Check(errors),
    Check(throttled),
    Check(transactions_aborted, "transaction_aborted"),
    Check(offsets_moved_back),
    Check(share_group, "not_accepted"),
    Check(redelivered, "consumption"),
    Check(lookups_redirected, "lookup_redirect"),
    Check(without_permits, "slow_consumer"),
    Check(dead_lettered),
    Check(metadata_storm),
    Check(connection_churn),
    Check(keepalive_timeout, "keepalive_timeout"),
    Check(protocol_violation, "protocol_violation"),
    Check(out_of_order_answers, "out_of_order_answers"),
    Check(fetch_overdue, "fetch_overdue"),
    Check(stuck_consumer, "stuck_consumer"),
    Check(clock),
    Check(rebalances),
    Check(retransmissions),
    Check(slow_requests),
    Check(head_of_line),
    Check(slow_tail),
    Check(uneven_broker),
    Check(zero_window),
    Check(unreadable),
    Check(capture_loss),
    Check(tuned),
    Check(failed_connects),
    Check(unanswered),
)
"""In this order: those behind leave out what verdicts before them explain."""


def judged(duckdb: Any) -> pa.Table:
    """The table `verdicts`, the worst first. duckdb: a connection in which the record tables have their names."""
    capture = Capture(duckdb)
    for check in CHECKS:
        if check.finding is None or check.finding in capture.findings:
            capture.told += check.verdicts(capture)
    found = sorted((verdict.row() for verdict in capture.told), key=_place)
    return pa.Table.from_pylist([{"rank": rank, **row} for rank, row in enumerate(found, 1)], SCHEMA)


def _place(row: Row) -> tuple[int, int, str, str]:
    """Severity, then what it costs: the time of requests, clients concerned and rows counted."""
    cost = (row["cost_ns"] or 0) + CLIENT_NS * len(row["clients"]) + ROW_NS * row["count"]
    return SEVERITIES.index(row["severity"]), -cost, row["kind"], row["sentence"]
