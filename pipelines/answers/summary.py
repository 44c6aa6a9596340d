"""A capture set in a screenful: what it holds, what is wrong, what it cannot show, and the worst rows."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipelines.answers.records import Relations, Row, database_of, empty, read
from pipelines.formats import statuses
from pipelines.sql.database import fetched
from pipelines.sql.words import HELD, SERVER
from pipelines.tables.blind_spots import LOOKED_AT, BlindSpot, Seen
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts.engine import judged
from pipelines.tables.verdicts.thresholds import ENOUGH

TABLES = RECORDS

_TIME = "$time"  # of an object in a kept summary that stands for a time

_SPAN = "SELECT min(start_time) AS first, max(end_time) AS last, count(*) AS connections FROM connections"
_PROTOCOLS = f"""
WITH carried AS (
    SELECT protocol, count(*) AS connections, count(DISTINCT client_ip) AS clients,
           count(DISTINCT {SERVER}) AS servers,
           sum(framed_bytes) / nullif(sum(framed_bytes + skipped_bytes + pending_bytes), 0) AS decoded
    FROM connections WHERE protocol IS NOT NULL GROUP BY 1
), timed AS (
    SELECT protocol, count(*) AS exchanges, count(*) FILTER (NOT {HELD}) AS timed,
           quantile_disc(total_ns, 0.5) FILTER (NOT {HELD}) AS p50_ns,
           CASE WHEN timed >= {ENOUGH} THEN quantile_disc(total_ns, 0.99) FILTER (NOT {HELD}) END
               AS p99_ns,
           max(total_ns) FILTER (NOT {HELD}) AS max_ns
    FROM exchanges GROUP BY 1
)
SELECT * FROM carried LEFT JOIN timed USING (protocol) ORDER BY exchanges DESC NULLS LAST
"""
_ERRORS = """
SELECT coalesce(name, 'error ' || code) AS name, api, count(*) AS count, min(time) AS time,
       arg_min(file, place) AS file, arg_min(packet, place) AS packet, arg_min(topic, place) AS topic
FROM (SELECT *, row(time, file, packet, topic) AS place FROM errors) WHERE expected IS NOT TRUE
GROUP BY 1, 2 ORDER BY count DESC, 1, 2
"""
_SLOWEST = f"""
SELECT time, total_ns, {statuses.STATUS} AS status, api,
       list_aggregate(topics, 'string_agg', ', ') AS topic, client_id AS client,
       {SERVER} AS server, wait_ns, queued_ns, retransmitted,
       request_file AS file, request_packet AS packet
FROM exchanges WHERE total_ns IS NOT NULL AND NOT {HELD}
ORDER BY total_ns DESC, time, request_file, request_packet, exchange_id LIMIT {{count}}
"""


_JUDGED = """
SELECT count(*) FILTER (kind = 'call' AND total_ns IS NOT NULL AND NOT unread) AS answered,
       count(*) FILTER (kind = 'call' AND total_ns IS NOT NULL AND unread) AS unread,
       (SELECT count(*) FROM batches WHERE role = 'produce') AS sent,
       (SELECT count(*) FROM batches WHERE role = 'consume') AS read,
       (SELECT count(*) FROM batches WHERE verdict = 'ok') AS right
FROM (SELECT *, status = 'unknown' AND NOT complete AS unread FROM exchanges)
"""


@dataclass(frozen=True)
class Summary:
    """What a capture set holds, and what is wrong."""

    span: Row  # first, last, connections
    protocols: list[Row]
    verdicts: list[Row]  # rows of the table `verdicts`, the worst first
    blind: list[BlindSpot]
    slowest: list[Row]
    errors: list[Row]
    error_kinds: int  # names and APIs among all of them
    judged: Row  # requests answered, answers that could not be read, batches sent and read, checksums that are right
    cut: str  # what was asked for, where that leaves out what the work of a client may need


def summary(tables: Relations, *, rows: int = 5, cut: str = "") -> Summary:
    """Summarise record tables TABLES; with so many `rows` of the slowest requests and of the most frequent errors.

    cut: what was asked for, as `Selection.cut` says it, where the tables have only its rows.
    """
    without_rows = empty(tables)
    with database_of(tables) as duckdb:
        errors = [] if "errors" in without_rows else fetched(duckdb, _ERRORS)
        return Summary(
            fetched(duckdb, _SPAN)[0],
            fetched(duckdb, _PROTOCOLS),
            judged(duckdb, without_rows, cut).verdicts.to_pylist(),
            _blind_spots(tables),
            fetched(duckdb, _SLOWEST.format(count=rows)),
            errors[:rows],
            len(errors),
            fetched(duckdb, _JUDGED)[0],
            cut,
        )


def to_json(made: Summary) -> str:
    """A summary as text, for `from_json`."""
    return json.dumps(vars(made), default=lambda value: {_TIME: value.isoformat()})


def from_json(text: str | None) -> Summary | None:
    """A summary that `to_json` wrote; None of no text, or of another."""
    with suppress(ValueError, TypeError, KeyError):
        if text is not None:
            parts = json.loads(text, object_hook=_with_times)
            return Summary(**{**parts, "blind": [BlindSpot(*spot) for spot in parts["blind"]]})
    return None


def _with_times(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value[_TIME]) if value.keys() == {_TIME} else value


def _blind_spots(tables: Relations) -> list[BlindSpot]:
    seen = Seen()
    for table, columns in LOOKED_AT.items():
        for batch in read(tables, table, columns):
            seen.add(table, batch)
    return seen.spots()
