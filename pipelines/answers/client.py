"""What one client did: its connections, what it asked for, what it wrote and read, its groups, and what went wrong."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.answers import top
from pipelines.answers.records import Relations, Row, database_of, empty, query
from pipelines.sql.words import HELD, SERVER
from pipelines.tables.verdicts.engine import judged

_CONNECTIONS = f"""
SELECT protocol, client_ip, {SERVER} AS server, count(*) AS connections, min(start_time) AS first,
       max(end_time) AS last, sum(client_bytes)::BIGINT AS sent, sum(server_bytes)::BIGINT AS received,
       count(*) FILTER (tls) AS with_tls, count(*) FILTER (closed = 'reset') AS resets,
       sum(retransmissions)::BIGINT AS retransmissions,
       string_agg(DISTINCT concat_ws(' ', client_software, client_version), ', ') AS software
FROM connections GROUP BY 1, 2, 3 ORDER BY connections DESC, 1, 2, 3
"""
_IDS = "SELECT DISTINCT client_id FROM exchanges WHERE client_id <> '' ORDER BY 1"
_PRINCIPALS = """
SELECT DISTINCT subject FROM events
WHERE kind = 'authenticated' AND coalesce(number, 0) = 0 AND subject <> '' ORDER BY 1
"""
_MOVED = """
SELECT role, topic, count(*) AS batches, sum(records)::BIGINT AS messages, sum(stored_bytes)::BIGINT AS bytes,
       round(avg(records), 1) AS a_batch, string_agg(DISTINCT codec, ', ' ORDER BY codec) AS codecs,
       count(*) FILTER (outcome = 'error') AS refused
FROM batches WHERE control IS NOT TRUE GROUP BY 1, 2 ORDER BY bytes DESC NULLS LAST, 1, 2
"""
_GROUPS = """
SELECT "group", count(*) AS requests, min(time) AS first, max(time) AS last
FROM exchanges WHERE "group" <> '' GROUP BY 1 ORDER BY 1
"""
_ERRORS = """
SELECT coalesce(name, 'error ' || code) AS name, api, topic, count(*) AS count, min(time) AS first
FROM errors WHERE expected IS NOT TRUE GROUP BY 1, 2, 3 ORDER BY count DESC, 1, 2, 3
"""
_SLOWEST = f"""
SELECT time, total_ns, api, list_aggregate(topics, 'string_agg', ', ') AS topic, request_file AS file,
       request_packet AS packet
FROM exchanges WHERE total_ns IS NOT NULL AND NOT {HELD}
ORDER BY total_ns DESC, time, request_file, request_packet LIMIT 5
"""


class ClientPage(NamedTuple):
    """What a page about a client shows: its ids, and the rows of each part of the page, the largest or first on top."""

    ids: list[str]
    principals: list[str]  # names that it logged in with, and subjects of its TLS certificates
    connections: list[Row]
    apis: list[Row]  # as `top` by API
    topics: list[Row]  # what it wrote and read
    groups: list[Row]
    errors: list[Row]
    slowest: list[Row]
    verdicts: list[Row]  # that its own requests show; what needs those of others is not judged


def client(tables: Relations, cut: str) -> ClientPage:
    """tables: RECORDS with the rows of the client only; cut: what was asked for, as `Selection.cut` says it."""
    with database_of(tables) as duckdb:
        verdicts = judged(duckdb, empty(tables), cut).verdicts.to_pylist()
    return ClientPage(
        [row["client_id"] for row in query(tables, _IDS)],
        [row["subject"] for row in query(tables, _PRINCIPALS)],
        query(tables, _CONNECTIONS),
        top.top(tables, "api", "count"),
        query(tables, _MOVED),
        query(tables, _GROUPS),
        query(tables, _ERRORS),
        query(tables, _SLOWEST),
        verdicts,
    )
