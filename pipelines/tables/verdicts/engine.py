"""All checks, and the order of what they find."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from pipelines.tables.verdicts import IMPACT_SCHEMA, SCHEMA
from pipelines.tables.verdicts.broker_lost import broker_lost
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.changes import with_changes
from pipelines.tables.verdicts.check import Check, worth_asking
from pipelines.tables.verdicts.connections import (
    FAILED_CONNECTS,
    LATE_CONNECTS,
    LATE_HANDSHAKES,
    TLS_REFUSED,
    UNREACHABLE_ADDRESS,
    WRONG_PROTOCOL_VERSION,
    ZERO_WINDOW,
)
from pipelines.tables.verdicts.errors import errors
from pipelines.tables.verdicts.framing import framing_lost
from pipelines.tables.verdicts.kinds import HARMS, SEVERITIES
from pipelines.tables.verdicts.leader_moved import leader_moved
from pipelines.tables.verdicts.lookups import LOOKUPS_REDIRECTED
from pipelines.tables.verdicts.messages import messages
from pipelines.tables.verdicts.paths import PATH_LOST
from pipelines.tables.verdicts.permits import WITHOUT_PERMITS
from pipelines.tables.verdicts.producers import HOT_PARTITION, PRODUCER_STOPPED
from pipelines.tables.verdicts.readers import DELIVERY_STOPPED, consumer_behind
from pipelines.tables.verdicts.rebalances import rebalances
from pipelines.tables.verdicts.redelivered import redelivered
from pipelines.tables.verdicts.shown import SHOWN
from pipelines.tables.verdicts.slow import (
    CAPTURE_PAUSED,
    DELAYED_ACK,
    HEAD_OF_LINE,
    LONGER_PATH,
    RETRANSMISSIONS,
    SLOW_SINCE,
    SLOW_STRETCH,
    SLOW_TAIL,
    UNEVEN_BROKER,
    slow_requests,
)
from pipelines.tables.verdicts.thresholds import CLIENT_NS, ROW_NS
from pipelines.tables.verdicts.told import Told
from pipelines.tables.verdicts.topic_moved import topic_moved
from pipelines.tables.verdicts.transactions import transactions_aborted
from pipelines.tables.verdicts.tuned import TUNED
from pipelines.tables.verdicts.unanswered import FETCH_OVERDUE, unanswered
from pipelines.tables.verdicts.unexplained import (
    ANSWER_CUT,
    CONNECTIONS_RESET,
    METADATA_STORM,
    NO_CONTROLLER,
    NO_LEADER,
    NOT_UNDERSTOOD,
    OUT_OF_SYNC,
)
from pipelines.tables.verdicts.verdict import Judged, Ruling

CHECKS: tuple[Check | Told, ...] = (
    *TUNED,
    *SHOWN,
    CAPTURE_PAUSED,
    broker_lost,
    topic_moved,
    leader_moved,
    NO_CONTROLLER,
    NO_LEADER,
    OUT_OF_SYNC,
    WRONG_PROTOCOL_VERSION,
    framing_lost,
    *TLS_REFUSED,
    UNREACHABLE_ADDRESS,
    *PATH_LOST,
    CONNECTIONS_RESET,
    messages,
    transactions_aborted,
    DELIVERY_STOPPED,
    redelivered,
    *WITHOUT_PERMITS,
    consumer_behind,
    errors,
    ANSWER_CUT,
    *LOOKUPS_REDIRECTED,
    METADATA_STORM,
    FETCH_OVERDUE,
    rebalances,
    RETRANSMISSIONS,
    LONGER_PATH,
    DELAYED_ACK,
    slow_requests,
    HEAD_OF_LINE,
    SLOW_STRETCH,
    UNEVEN_BROKER,
    SLOW_SINCE,
    SLOW_TAIL,
    ZERO_WINDOW,
    NOT_UNDERSTOOD,
    HOT_PARTITION,
    *FAILED_CONNECTS,
    LATE_CONNECTS,
    LATE_HANDSHAKES,
    unanswered,
    PRODUCER_STOPPED,
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
    ranked = sorted(with_changes(capture, capture.told), key=_place)
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
