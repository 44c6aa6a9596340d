"""The verdict on a capture set: what it holds, what is wrong, and the worst rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.findings import KINDS
from pipelines.answers.records import Relations, Row, query, read
from pipelines.blind_spots import LOOKED_AT, BlindSpot, Seen
from pipelines.formats import statuses, units
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lost_brokers import lost_brokers

TABLES = ("exchanges", "batches", "errors", "connections", "findings")
SLOW_NS = 1_000_000_000  # a request that takes longer is worth a sentence
RESENT = 0.01  # share of packets sent again, or of calls that they held up, that is worth a sentence
UNKNOWN_API = "an unknown request"
FEWEST = 100  # values below which a 99th percentile says nothing

_SPAN = "SELECT min(start_time) AS first, max(end_time) AS last, count(*) AS connections FROM connections"
_PROTOCOLS = f"""
WITH carried AS (
    SELECT protocol, count(*) AS connections, count(DISTINCT client_ip) AS clients,
           count(DISTINCT split_part(connection, '>', 2)) AS servers,
           sum(framed_bytes) / nullif(sum(framed_bytes + skipped_bytes + pending_bytes), 0) AS understood
    FROM connections WHERE protocol IS NOT NULL GROUP BY 1
), timed AS (
    SELECT protocol, count(*) AS exchanges, count(*) FILTER (NOT coalesce(long_poll, false)) AS quick,
           quantile_disc(total_ns, 0.5) FILTER (NOT coalesce(long_poll, false)) AS p50_ns,
           CASE WHEN quick >= {FEWEST} THEN quantile_disc(total_ns, 0.99) FILTER (NOT coalesce(long_poll, false)) END
               AS p99_ns,
           max(total_ns) FILTER (NOT coalesce(long_poll, false)) AS max_ns
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
       split_part(connection, '>', 2) AS server, wait_ns, queued_ns, retransmitted,
       request_file AS file, request_packet AS packet
FROM exchanges WHERE total_ns IS NOT NULL AND NOT coalesce(long_poll, false)
ORDER BY total_ns DESC, time, request_file, request_packet LIMIT {{count}}
"""
_FINDINGS = """
SELECT severity, kind, count(*) AS count, arg_min(file, place) AS file, arg_min(packet, place) AS packet
FROM (SELECT *, row(time, file, packet) AS place FROM findings) WHERE severity <> 'info'
GROUP BY 1, 2 ORDER BY severity, count DESC, kind
"""
_LOST_BROKERS = f"{lost_brokers(DuckDB(), ('time', 'message'))} ORDER BY time, message"
_COUNTS = """
SELECT (SELECT count(*) FROM batches WHERE verdict = 'bad') AS bad,
       (SELECT count(*) FROM batches WHERE verdict IN ('ok', 'bad')) AS verified,
       (SELECT count(*) FROM exchanges WHERE kind = 'unanswered') AS unanswered,
       (SELECT count(*) FROM exchanges WHERE kind IN ('call', 'unanswered')) AS calls,
       (SELECT count(DISTINCT (site, exchange_id)) FROM errors
        WHERE expected IS NOT TRUE AND exchange_id IS NOT NULL) AS failed,
       (SELECT sum(retransmissions) FROM connections) AS resent,
       (SELECT sum(client_packets + server_packets) FROM connections) AS packets,
       (SELECT sum(zero_windows) FROM connections) AS zero_windows
"""
_HELD_UP = """
SELECT count(*) FILTER (retransmitted) AS count, quantile_disc(total_ns, 0.5) FILTER (retransmitted) AS total_ns,
       quantile_disc(total_ns, 0.5) FILTER (NOT retransmitted) AS others_ns
FROM exchanges WHERE kind = 'call' AND NOT coalesce(long_poll, false)
"""


@dataclass(frozen=True)
class Summary:
    """The verdict."""

    span: Row  # first, last, connections
    protocols: list[Row]
    wrong: list[str]  # sentences, the worst first
    blind: list[BlindSpot]
    slowest: list[Row]
    errors: list[Row]
    error_kinds: int  # names and APIs among all of them


def summary(tables: Relations, *, rows: int = 5, cut_packets: int | None = None) -> Summary:
    """The verdict on a capture set; `rows` of the slowest requests and the most frequent errors."""
    counts = query(tables, _COUNTS)[0]
    slowest, errors = query(tables, _SLOWEST.format(count=rows)), query(tables, _ERRORS)
    held_up = query(tables, _HELD_UP)[0] if counts["resent"] else None
    return Summary(
        query(tables, _SPAN)[0],
        query(tables, _PROTOCOLS),
        _wrong(counts, errors, slowest, query(tables, _FINDINGS), query(tables, _LOST_BROKERS), held_up),
        _blind_spots(tables, cut_packets),
        slowest,
        errors[:rows],
        len(errors),
    )


def _blind_spots(tables: Relations, cut_packets: int | None) -> list[BlindSpot]:
    seen = Seen()
    for table, columns in LOOKED_AT.items():
        for batch in read(tables, table, columns):
            seen.add(table, batch)
    return seen.spots(cut_packets)


def _wrong(
    counts: Row,
    errors: list[Row],
    slowest: list[Row],
    findings: list[Row],
    lost_brokers: list[Row],
    held_up: Row | None,
) -> list[str]:
    """What is wrong, a sentence each. held_up: the calls that waited for packets that were sent again."""
    made = [row["message"] for row in lost_brokers]
    if counts["bad"]:
        of = f"{units.count(counts['bad'])} of {units.count(counts['verified'])} checksums"
        verb = "is" if counts["bad"] == 1 else "are"
        made.append(f"{of} {verb} wrong: `brokerscope forensics` says which bytes broke, and where")
    if errors:
        total = units.counted(sum(row["count"] for row in errors), "error")
        named = ", ".join(
            f"{row['name']} to {row['api'] or UNKNOWN_API} ({units.count(row['count'])})" for row in errors[:3]
        )
        more = f" and {units.counted(len(errors) - 3, 'more kind')}" if len(errors) > 3 else ""
        answers = f" in {units.counted(counts['failed'], 'answer')}" if counts["failed"] else ""
        made.append(f"{total}{answers}: {named}{more}")
    if counts["unanswered"]:
        share = units.share(counts["unanswered"] / counts["calls"])
        made.append(f"{units.counted(counts['unanswered'], 'request')} ({share}) got no answer in the capture")
    if slowest and slowest[0]["total_ns"] >= SLOW_NS:
        worst = slowest[0]
        queued = worst["queued_ns"] or 0
        where = " behind other requests of its connection" if queued > worst["total_ns"] / 2 else ""
        again = f", and {statuses.BYTES_SENT_AGAIN}" if worst["retransmitted"] else ""
        took = units.duration(worst["total_ns"])
        made.append(f"The slowest request took {took}{where}{again}: {worst['api'] or UNKNOWN_API}")
    for row in findings:
        if row["kind"] not in ("bad_checksum", "gap"):
            made.append(f"{units.count(row['count'])} × {row['kind']}: {_meaning(row['kind'])}")
    if held_up is not None:
        made += _sent_again(counts, held_up)
    return made


def _sent_again(counts: Row, held_up: Row) -> Iterator[str]:
    """What packets that were sent again cost."""
    of_packets, of_calls = counts["resent"] / counts["packets"], held_up["count"] / max(1, counts["calls"])
    if max(of_packets, of_calls) < RESENT:
        return
    sentence = f"{units.share(of_packets)} of the packets were {statuses.SENT_AGAIN}"
    if held_up["count"]:
        calls, median = units.counted(held_up["count"], "call"), units.duration(held_up["total_ns"])
        sentence += f"; {calls} that waited for them took {median} in the median"
        if held_up["others_ns"] is not None:
            sentence += f", the others {units.duration(held_up['others_ns'])}"
    yield sentence


def _meaning(kind: str) -> str:
    known = KINDS.get(kind)
    return known.meaning.rstrip(".") if known else "see `dissect -t findings`"
