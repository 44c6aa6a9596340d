"""All checks, and the order of what they find."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from pipelines.tables.verdicts.addresses import tls_refused, unreachable_address
from pipelines.tables.verdicts.broker_lost import broker_lost
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.capture_loss import capture_loss
from pipelines.tables.verdicts.check import worth_asking
from pipelines.tables.verdicts.clock import clock
from pipelines.tables.verdicts.connections import (
    failed_connects,
    foreign_peer,
    not_understood,
    one_direction,
    tls_mismatch,
    tls_without_keys,
    zero_window,
)
from pipelines.tables.verdicts.dead_letters import dead_lettered
from pipelines.tables.verdicts.errors import errors
from pipelines.tables.verdicts.framing import framing_lost, stuck_consumer
from pipelines.tables.verdicts.group_status import group_not_ready
from pipelines.tables.verdicts.habits import connection_churn, metadata_storm
from pipelines.tables.verdicts.impact import SCHEMA as IMPACT_SCHEMA
from pipelines.tables.verdicts.integrity import bad_checksum
from pipelines.tables.verdicts.keepalive import keepalive_timeout
from pipelines.tables.verdicts.kinds import HARMS, SEVERITIES
from pipelines.tables.verdicts.leader_moved import leader_moved
from pipelines.tables.verdicts.lookups import lookups_redirected
from pipelines.tables.verdicts.malformed import malformed_batches
from pipelines.tables.verdicts.messages import messages
from pipelines.tables.verdicts.offsets import offsets_moved_back
from pipelines.tables.verdicts.paths import answer_cut, connection_leak, connections_reset, path_lost
from pipelines.tables.verdicts.permits import without_permits
from pipelines.tables.verdicts.protocol_version import wrong_protocol_version
from pipelines.tables.verdicts.readers import consumer_behind, delivery_stopped
from pipelines.tables.verdicts.rebalances import rebalances
from pipelines.tables.verdicts.redelivered import redelivered
from pipelines.tables.verdicts.retransmissions import retransmissions
from pipelines.tables.verdicts.share_groups import share_group
from pipelines.tables.verdicts.slow import head_of_line, slow_requests, slow_tail, uneven_broker
from pipelines.tables.verdicts.thresholds import CLIENT_NS, ROW_NS
from pipelines.tables.verdicts.throttled import throttled
from pipelines.tables.verdicts.topic_moved import topic_moved
from pipelines.tables.verdicts.transactions import transactions_aborted
from pipelines.tables.verdicts.tuned import TUNED
from pipelines.tables.verdicts.unanswered import fetch_overdue, out_of_order_answers, unanswered
from pipelines.tables.verdicts.verdict import SCHEMA, Judged, Ruling
from pipelines.tables.verdicts.violations import protocol_violation

CHECKS = (
    broker_lost,
    topic_moved,
    leader_moved,
    tls_mismatch,
    foreign_peer,
    wrong_protocol_version,
    framing_lost,
    bad_checksum,
    malformed_batches,
    tls_refused,
    unreachable_address,
    path_lost,
    connections_reset,
    messages,
    transactions_aborted,
    errors,
    answer_cut,
    consumer_behind,
    delivery_stopped,
    throttled,
    offsets_moved_back,
    share_group,
    group_not_ready,
    redelivered,
    lookups_redirected,
    without_permits,
    dead_lettered,
    metadata_storm,
    connection_churn,
    connection_leak,
    keepalive_timeout,
    protocol_violation,
    out_of_order_answers,
    fetch_overdue,
    stuck_consumer,
    clock,
    rebalances,
    retransmissions,
    slow_requests,
    head_of_line,
    slow_tail,
    uneven_broker,
    zero_window,
    tls_without_keys,
    one_direction,
    not_understood,
    capture_loss,
    *TUNED,
    failed_connects,
    unanswered,
)
"""In this order: those behind leave out what verdicts before them explain."""


def judged(duckdb: Any, empty: Collection[str] = (), cut: str = "") -> Judged:
    """The tables `verdicts` and `impacts`, the worst first.

    duckdb: a connection in which the record tables have their names; empty: those that are known to have no rows.
    cut: what was asked for, as `Selection.cut` says it, where the tables have only its rows.
    """
    capture = Capture(duckdb, empty, cut)
    for check in worth_asking(capture, CHECKS):
        capture.told += check.verdicts(capture)
    ranked = sorted(capture.told, key=_place)
    return Judged(
        pa.Table.from_pylist([{"rank": rank, **ruling.row()} for rank, ruling in enumerate(ranked, 1)], SCHEMA),
        pa.Table.from_pylist([row for ruling in ranked for row in ruling.impacts()], IMPACT_SCHEMA),
        capture.transactions,
    )


def _place(ruling: Ruling) -> tuple[int, int, int, str, str]:
    """Severity; then work that was not done before work that was late, and what is only a risk behind both.

    Of the same harm, by the time that requests took, clients concerned and rows counted.
    """
    rows = ruling.rows
    harm = _WORST_FIRST.index(ruling.harm) if ruling.harm else len(_WORST_FIRST)
    cost = (rows["cost_ns"] or 0) + CLIENT_NS * len(rows["clients"]) + ROW_NS * rows["count"]
    return SEVERITIES.index(ruling.level), harm, -cost, ruling.kind, ruling.sentence


_WORST_FIRST = tuple(HARMS)
