"""Aggregate tables, computed again from record rows in plain Python: no SQL, and no helper of the product.

`tables(records, bucket_us)` gives each table as a list of rows, which `comparable` makes equal to what was written
where it is right. It takes records of one capture point: what several of them share is counted once, which these sums
do not know.
"""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

Row = dict[str, Any]
Rows = list[Row]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUANTILES = {"p50": (1, 2), "p90": (9, 10), "p99": (99, 100), "p999": (999, 1000)}


def tables(
    records: Mapping[str, Rows],
    bucket_us: int,
    removed: Callable[[int, int], bool],
    changing: Mapping[str, tuple[str, str]],
) -> dict[str, Rows]:
    """Table -> its rows. removed: whether Kafka 4.0 refuses a version of an API, by its key.

    changing: APIs whose requests are changes, answered or not -> kind of their event, and the thing.
    """
    lag = _lag(
        records["batches"], records.get("positions", []), records["exchanges"], records.get("events", []), bucket_us
    )
    rebalances = _rebalances(records["exchanges"], records.get("events", []))
    happened = _happened(records["exchanges"], records.get("events", []), rebalances, records["connections"])
    return {
        "latency": _latency(records["exchanges"]),
        "activity": _activity(records["exchanges"], bucket_us),
        "distribution": _distribution(records["exchanges"]),
        "causes": _causes(records["exchanges"], records.get("stalls", [])),
        "errors": _errors(records["errors"]),
        "throughput": _throughput(records["batches"], records["exchanges"], bucket_us),
        "integrity": _integrity(records["batches"]),
        "corrupt": _corrupt(records["batches"]),
        "delivery": _delivery(records["batches"], records["exchanges"], records.get("positions", [])),
        "hops": [],
        "rebalances": rebalances,
        "group_events": [_event_of_group(row) for row in happened],
        "groups": _groups(records["exchanges"], records.get("positions", []), records.get("events", []), happened, lag),
        "lag": lag,
        "leaders": _leaders(records["batches"], records.get("positions", [])),
        "changes": _changes(records, changing),
        "clients": _clients(records["exchanges"], records["connections"], records.get("events", []), removed),
        "traffic": _traffic(records["connections"]),
        "health": _health(records["connections"], records["findings"]),
        "findings": _findings(records["findings"]),
    }


def comparable(rows: Rows) -> list[str]:
    """Rows in one order; of doubles, nine digits."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        return f"{value:.9g}" if isinstance(value, float) else value

    return sorted(repr([(name, plain(value)) for name, value in sorted(row.items())]) for row in rows)


# --- small things ----------------------------------------------------------------------------------------------------


def _grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, Rows]:
    groups: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _unpacked(batch: Row) -> int | None:
    """Bytes of a batch without compression: as many as are stored where it is not compressed."""
    plain: bool = batch["uncompressed_bytes"] is not None and (batch["codec"] or "none") == "none"
    size: int | None = batch["stored_bytes" if plain else "uncompressed_bytes"]
    return size


def _values(rows: Rows, column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def _sum(values: Iterable[Any]) -> int | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None


def _spread(name: str, values: Iterable[int | None]) -> Row:
    ordered = sorted(value for value in values if value is not None)
    return {
        f"{name}_{quantile}_ns": ordered[-(-len(ordered) * share // of) - 1] if ordered else None
        for quantile, (share, of) in QUANTILES.items()
    } | {f"{name}_max_ns": max(ordered, default=None)}


def _micros(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def _bucket(time: datetime | None, width_us: int) -> datetime | None:
    return None if time is None else EPOCH + timedelta(microseconds=_micros(time) // width_us * width_us)


def _client(row: Row) -> str:
    return " ".join(value for value in (row["client_ip"], row["client_id"]) if value is not None)


def _server(row: Row) -> str:
    ip = row["server_ip"]
    return f"[{ip}]:{row['server_port']}" if ":" in ip else f"{ip}:{row['server_port']}"


def _connection(row: Row) -> tuple[Any, ...]:
    return row["site"], row["connection"], row["incarnation"]


def _names(values: Iterable[Any]) -> list[Any]:
    return sorted({value for value in values if value is not None})[:20]


def _first(rows: Rows, column: str) -> Any:
    def place(row: Row) -> tuple[Any, ...]:
        time = _micros(row["time"]) if row["time"] is not None else 0
        value = row[column]
        return time, row["file"] or "", row["packet"] or 0, "" if value is None else str(value)

    return min(rows, key=place)[column]


def _times(rows: Rows, column: str = "time") -> tuple[Any, Any]:
    times = _values(rows, column)
    return min(times, default=None), max(times, default=None)


# --- exchanges -------------------------------------------------------------------------------------------------------


def _asked(exchanges: Rows) -> Rows:
    def service(row: Row) -> int | None:
        return None if row["wait_ns"] is None else max(0, row["wait_ns"] - (row["queued_ns"] or 0))

    return [
        {**row, "long_poll": _waits(row), "service_ns": service(row)}
        for row in exchanges
        if row["kind"] in ("call", "unanswered")
    ]


_PARTS = ("sending", "network", "resent", "window", "delayed_ack", "queued", "throttled", "broker", "transfer")
_STALLS = {"zero_window": "window", "delayed_ack": "delayed_ack"}  # all other kinds are losses
_SLOW_NS = 20_000_000


_SAME_BYTES = ("direction", "stream_offset")


def _causes(exchanges: Rows, stalls: Rows) -> Rows:
    known = ("time", "request_ns", "wait_ns", "response_ns", "total_ns")
    calls = [row for row in exchanges if row["kind"] == "call"]
    calls = [row for row in calls if all(row[column] is not None for column in known)]
    held = _grouped([row for row in stalls if not row["spurious"]], _connection)
    throttling = _grouped([row for row in calls if (row["throttle_ms"] or 0) > 0], _connection)
    sums: dict[Any, Rows] = defaultdict(list)
    for row in calls:
        total = row["total_ns"] - _held(row)
        if total < _SLOW_NS:
            continue
        told = {"total": total, **_parts(row, held[_connection(row)], throttling[_connection(row)])}
        of = [("api", row["api"]), ("broker", _server(row)), ("client", _client(row))]
        for per, name in [*of, *(("topic", topic) for topic in row["topics"] or [])]:
            if name is not None:
                sums[row["protocol"], per, name].append(told)
    made = []
    for (protocol, per, name), rows in sums.items():
        total = sum(row["total"] for row in rows)
        parts = {part: _sum(row[part] for row in rows) for part in _PARTS}
        most = max(part or 0 for part in parts.values())
        made.append(
            {
                "protocol": protocol, "per": per, "name": name, "count": len(rows), "total_ns": total,
                "max_ns": max(row["total"] for row in rows),
                "largest": next(part for part in _PARTS if (parts[part] or 0) == most),
                **{f"{part}_share": None if ns is None else ns / total for part, ns in parts.items()},
                **{f"{part}_ns": ns for part, ns in parts.items()},
            }
        )  # fmt: skip
    return made


def _held(row: Row) -> int:
    """How long the broker waited on purpose, as the request allowed it."""
    waited: int = row["wait_ns"] - (row["queued_ns"] or 0)
    if row["protocol"] == "kafka" and row["api"] in ("JoinGroup", "SyncGroup"):
        return max(waited, 0)
    if row["long_poll"] and waited >= _SLOW_NS:
        return waited if row["allowed_ns"] is None else min(waited, row["allowed_ns"])
    return 0


def _parts(row: Row, stalls: Rows, throttling: Rows) -> Row:
    """The parts of one exchange: each stall takes what it covers of a phase, and the phase keeps what is left."""
    begins = _micros(row["time"])
    queued = min(max(row["queued_ns"] or 0, 0), row["wait_ns"])
    sent, turn = begins + row["request_ns"] // 1000, begins + (row["request_ns"] + queued) // 1000
    answered, ends = begins + (row["request_ns"] + row["wait_ns"]) // 1000, begins + row["total_ns"] // 1000
    phases = {
        "sending": (begins, sent, row["request_ns"]), "queued": (sent, turn, queued),
        "broker": (turn, answered, row["wait_ns"] - queued - _held(row)),
        "transfer": (answered, ends, row["response_ns"]),
    }  # fmt: skip
    taken: dict[tuple[str, str], int] = defaultdict(int)
    for stall in stalls:
        alike = [s for s in stalls if [s[c] for c in _SAME_BYTES] == [stall[c] for c in _SAME_BYTES]]
        first, start = min(_micros(s["time"]) for s in alike), _micros(stall["time"])
        end = start + stall["duration_ns"] // 1000
        if start >= ends or end <= begins:
            continue
        cause = _STALLS.get(stall["kind"], "resent")
        asks = stall["direction"] == (row["initiator"] or "client")
        within = not asks and answered - 2 <= end <= ends + 2
        counts = {
            "sending": asks,
            "queued": within or (asks and cause != "delayed_ack" and first <= sent + 2),
            "transfer": within or (not asks and start >= answered - 2),
        }
        counts["broker"] = counts["queued"]
        for phase, (low, high, _) in phases.items():
            if counts[phase]:
                taken[phase, cause] += max(0, min(end, high) - max(start, low))
    for other in throttling:
        sent_at = _micros(other["time"])
        wait = sent_at + (other["request_ns"] + other["wait_ns"]) // 1000
        span = other["throttle_ms"] * 1000
        old = {"Produce": 6, "Fetch": 8}.get(other["api"], 0) > (other["version"] or 0)
        start = wait - span if old and span * 1000 <= other["wait_ns"] else sent_at + other["total_ns"] // 1000
        for phase in ("queued", "broker"):
            low, high, _ = phases[phase]
            if start < ends and start + span > begins:
                taken[phase, "throttled"] += max(0, min(start + span, high) - max(start, low))
    parts: Row = dict.fromkeys(_PARTS, 0) | {"network": None}
    for phase, (_, _, ns) in phases.items():
        left = ns
        for cause in ("resent", "window", "delayed_ack", "throttled"):
            part = min(taken[phase, cause] * 1000, left // 1000 * 1000)
            parts[cause] += part
            left -= part
        parts[phase] += left
    return parts


def _waits(row: Row) -> bool:
    """Whether the broker waited on purpose: for data, or for other members of a group."""
    return bool(row["long_poll"]) or (row["protocol"] == "kafka" and row["api"] in ("JoinGroup", "SyncGroup"))


def _counts(rows: Rows) -> Row:
    return {
        "count": sum(row["kind"] == "call" for row in rows),
        "unanswered": sum(row["kind"] == "unanswered" for row in rows),
        "errors": sum(row["status"] == "error" for row in rows),
        "request_bytes": _sum(_values(rows, "request_bytes")),
        "response_bytes": _sum(_values(rows, "response_bytes")),
    }


def _latency(exchanges: Rows) -> Rows:
    made = []
    for (protocol, api, held), rows in _grouped(
        _asked(exchanges), lambda r: (r["protocol"], r["api"], r["long_poll"])
    ).items():
        totals = _values(rows, "total_ns")
        made.append(
            {"protocol": protocol, "api": api, "long_poll": held, **_counts(rows)}
            | {f"{name}_sum_ns": _sum(_values(rows, f"{name}_ns")) for name in ("service", "queued", "total")}
            | {"timed": len(totals), "total_mean_ns": sum(totals) // len(totals) if totals else None}
            | _spread("total", totals)
            | _spread("wait", _values(rows, "wait_ns"))
            | _spread("service", _values(rows, "service_ns"))
            | {"retransmitted": sum(bool(row["retransmitted"]) for row in rows)}
        )
    return made


def _activity(exchanges: Rows, width_us: int) -> Rows:
    seconds = width_us / 1_000_000
    groups = _grouped(_asked(exchanges), lambda r: (r["protocol"], _bucket(r["time"], width_us)))
    return [
        {"protocol": protocol, "bucket": bucket, "bucket_s": seconds, **(counts := _counts(rows))}
        | {"rate": counts["count"] / seconds}
        | _spread("total", [row["total_ns"] for row in rows if not row["long_poll"]])
        for (protocol, bucket), rows in groups.items()
    ]


def _distribution(exchanges: Rows) -> Rows:
    timed = [row for row in _asked(exchanges) if (row["total_ns"] or 0) > 0]
    groups = _grouped(
        timed, lambda r: (r["protocol"], r["api"], r["long_poll"], math.floor(math.log10(r["total_ns"]) * 5))
    )
    return [
        {"protocol": protocol, "api": api, "long_poll": held, "count": len(rows)}
        | {name: math.floor(10 ** (edge / 5)) for name, edge in (("from_ns", at), ("to_ns", at + 1))}
        for (protocol, api, held, at), rows in groups.items()
    ]


def _clients(exchanges: Rows, connections: Rows, events: Rows, removed: Callable[[int, int], bool]) -> Rows:
    software = {
        _connection(row): " ".join(v for v in (row["client_software"], row["client_version"]) if v is not None)
        for row in connections
        if row["client_software"] is not None
    }
    logins = {
        _connection(row): row["subject"]
        for row in sorted(events, key=_moment)
        if row["kind"] == "authenticated" and not row["number"] and row["subject"] is not None
    }
    opened: dict[Any, int] = defaultdict(int)
    peaks: dict[Any, int] = defaultdict(int)
    for row in connections:
        who = row["protocol"], row["client_ip"]
        minute = *who, None if row["start_time"] is None else _micros(row["start_time"]) // 60_000_000
        opened[minute] += 1
        peaks[who] = max(peaks[who], opened[minute])
    used = [row for row in exchanges if row["kind"] in ("call", "unanswered", "oneway")]
    made = []
    for key, rows in _grouped(used, lambda r: (r["protocol"], r["client_ip"], r["client_id"], r["api"])).items():
        protocol, ip, client, api = key
        versions = sorted(set(_values(rows, "version")))
        refused = {row["version"] for row in rows if protocol == "kafka" and removed(row["api_code"], row["version"])}
        first, last = _times(rows)
        made.append(
            {
                "protocol": protocol,
                "client_ip": ip,
                "client_id": client,
                "api": api,
                "software": _names(software.get(_connection(row)) for row in rows),
                "versions": versions,
                "removed": sorted(refused),
                "version_min": min(versions, default=None),
                "version_max": max(versions, default=None),
                "requests": len(rows),
                "errors": sum(row["status"] == "error" for row in rows),
                "connections": len({_connection(row) for row in rows}),
                "connects_peak": peaks.get((protocol, ip)),
                "first_time": first,
                "last_time": last,
                "servers": _names(map(_server, rows)),
                "principals": _names(logins.get(_connection(row)) for row in rows),
            }
        )
    return made


# --- errors and findings ---------------------------------------------------------------------------------------------


def _errors(errors: Rows) -> Rows:
    keys = ("protocol", "api", "scope", "code", "name", "retriable")
    made = []
    for key, rows in _grouped(errors, lambda r: (*(r[k] for k in keys), bool(r["expected"]))).items():
        first, last = _times(rows)
        made.append(
            dict(zip((*keys, "expected"), key, strict=True))
            | {"count": len(rows), "first_time": first, "last_time": last}
            | {"topics": _names(_values(rows, "topic")), "clients": _names(map(_client, rows))}
            | {column: _first(rows, column) for column in ("message", "file", "packet")}
        )
    return made


def _findings(findings: Rows) -> Rows:
    keys = ("severity", "kind", "protocol")
    made = []
    for key, rows in _grouped(findings, lambda r: tuple(r[k] for k in keys)).items():
        first, last = _times(rows)
        made.append(
            dict(zip(keys, key, strict=True))
            | {"count": len(rows), "bytes": _sum(_values(rows, "length")), "first_time": first, "last_time": last}
            | {"connections": len({_connection(row) for row in rows if row["connection"] is not None})}
            | {column: _first(rows, column) for column in ("message", "connection", "file", "packet")}
        )
    return made


# --- batches ---------------------------------------------------------------------------------------------------------


def _throughput(batches: Rows, exchanges: Rows, width_us: int) -> Rows:
    rows = [
        {**row, "n": n, "bucket": _bucket(row["time"], width_us), "refused": row["outcome"] == "error"}
        for n, row in enumerate(batches)
    ]
    known = [
        row
        for row in rows
        if row["role"] == "produce" and row["producer"] is not None and (row["base_sequence"] or 0) >= 0
        if row["base_sequence"] is not None
    ]
    send = ("protocol", "topic", "partition", "producer", "producer_epoch", "base_sequence", "checksum_stored",
            "stored_bytes", "refused")  # fmt: skip
    again: set[int] = set()
    for sent in _grouped(known, lambda r: tuple(r[column] for column in send)).values():
        sent.sort(key=_sent)
        again.update(row["n"] for row in sent[1:])

    def fresh(row: Row) -> bool:
        return row["n"] not in again and not row["refused"] and not row["control"]

    def exchange(row: Row) -> tuple[Any, ...]:
        if row["exchange_id"] is not None:
            return *_connection(row), row["exchange_id"]
        frame = row["correlation_id"] if row["correlation_id"] is not None else -1 - row["stream_offset"]
        return *_connection(row), None, row["producer"], frame

    carried: dict[Any, int] = defaultdict(int)
    for row in rows:
        if row["role"] == "consume" and row["exchange_id"] is not None and fresh(row):
            carried[exchange(row)] += row["records"] or 0
    received: dict[Any, int] = {}
    for row in exchanges:
        if row["kind"] == "call" and (row["payload_bytes"] or 0) > 0 and row["records"] is not None:
            received[(*_connection(row), row["exchange_id"])] = row["records"]
    made = []
    seconds = width_us / 1_000_000
    for key, some in _grouped(rows, lambda r: (r["protocol"], r["topic"], r["role"], r["bucket"])).items():
        messages = 0.0
        for row in some:
            share = 1.0
            one = exchange(row)
            if row["role"] == "consume" and one in received and received[one] < carried.get(one, 0):
                share = received[one] / carried[one]
            messages += (row["records"] or 0) * share if fresh(row) else 0
        counted = [row for row in some if fresh(row)]
        stored, full = _sum(_values(counted, "stored_bytes")), _sum(map(_unpacked, counted))
        sized = _sum(row["stored_bytes"] for row in counted if row["uncompressed_bytes"] is not None)
        whole = math.floor(round(messages, 6) + 0.5)
        made.append(
            dict(zip(("protocol", "topic", "role", "bucket"), key, strict=True))
            | {
                "bucket_s": seconds,
                "exchanges": len({exchange(row) for row in some}),
                "batches": len(some),
                "messages": whole,
                "refused": sum(row["records"] or 0 for row in some if row["refused"]),
                "resent": sum(row["records"] or 0 for row in some if row["n"] in again and not row["refused"]),
                "stored_bytes": stored or 0,
                "uncompressed_bytes": full,
                "message_rate": whole / seconds,
                "byte_rate": (stored or 0) / seconds,
                "compression_ratio": full / sized if full is not None and sized else None,
            }
        )
    return made


def _sent(row: Row) -> tuple[Any, ...]:
    """What decides which batch of one send counts: what was taken, then the first, then its place."""
    place = [(value is not None, value or 0) for value in (row["packet"], row["stream_offset"])]
    time = 0 if row["time"] is None else _micros(row["time"])
    return row["outcome"] != "ok", time, row["file"] or "", *place, row["position"] or ""


def _integrity(batches: Rows) -> Rows:
    keys = ("protocol", "topic", "client", "hour", "role", "checksum_kind")
    seen = [{**row, "client": _client(row), "hour": _bucket(row["time"], 3_600_000_000)} for row in batches]
    return [
        dict(zip(keys, key, strict=True))
        | {"batches": len(rows), "stored_bytes": _sum(_values(rows, "stored_bytes"))}
        | {v: sum(row["verdict"] == v for row in rows) for v in ("ok", "bad", "unverifiable", "absent")}
        | {"verified_bytes": sum(row["stored_bytes"] or 0 for row in rows if row["verdict"] in ("ok", "bad"))}
        for key, rows in _grouped(seen, lambda r: tuple(r[k] for k in keys)).items()
    ]


def _corrupt(batches: Rows) -> Rows:
    shown = (
        "protocol", "time", "topic", "partition", "position", "role", "records", "stored_bytes", "checksum_kind",
        "checksum_stored", "checksum_computed", "outcome", "connection", "file", "packet",
    )  # fmt: skip
    learned = ("pattern", "proven", "broken", "field", "broke", "certainty", "because")
    bad = [row for row in batches if row["verdict"] == "bad"]
    return [{column: row[column] for column in shown} | dict.fromkeys(learned) for row in bad]


_STAGES = ("produce", "replication", "waiting", "fetch", "commit")


def _stages(row: Row, origin: Row, asked: Mapping[Any, Row], stated: Mapping[Any, Rows]) -> Row:
    """Where the time of one delivery went."""
    made_by, fetch = (asked.get((one["site"], one["exchange_id"])) for one in (origin, row))
    there = stated.get(tuple(row[column] for column in ("site", "protocol", "topic", "partition")), [])
    behind = [p for p in there if row["last_offset"] is not None and p["value"] > row["last_offset"]]
    readable = min((p["time"] for p in behind if p["what"] == "high_watermark"), default=None)
    committed = min(
        (p["time"] for p in behind if p["what"] == "committed" and _client(p) == _client(row)), default=None
    )

    def ns(start: datetime, end: datetime | None) -> int | None:
        return None if end is None or end < start else (_micros(end) - _micros(start)) * 1000

    known = fetch is not None and fetch["time"] <= row["time"]
    return {
        "produce": made_by and made_by["total_ns"],
        "replication": ns(origin["time"], readable),
        "waiting": max(0, (_micros(fetch["time"]) - _micros(origin["time"])) * 1000) if fetch and known else None,
        "fetch": ns(max(fetch["time"], origin["time"]), row["time"]) if fetch and known else None,
        "commit": ns(row["time"], committed),
    }


def _delivery(batches: Rows, exchanges: Rows, positions: Rows) -> Rows:
    asked = {(row["site"], row["exchange_id"]): row for row in exchanges if row["kind"] == "call"}
    stated = _grouped(
        [row for row in positions if row["protocol"] == "kafka" and None not in (row["value"], row["time"])],
        lambda row: tuple(row[column] for column in ("site", "protocol", "topic", "partition")),
    )

    def place(row: Row) -> tuple[Any, ...]:
        iggy = row["protocol"] == "iggy"
        where = (None, row["origin_timestamp"]) if iggy else (row["partition"], row["position"])
        return (row["site"], row["protocol"], row["topic"], *where)

    moved = [row for row in batches if None not in (row["topic"], place(row)[-1], row["time"])]
    made = [row for row in moved if row["role"] == "produce" and row["outcome"] != "error"]
    produced = _grouped(made, place)
    deliveries = []
    for row in moved:
        earlier = [p for p in produced.get(place(row), ()) if p["time"] <= row["time"]]
        if row["role"] == "consume" and earlier:
            origin = max(earlier, key=lambda p: (p["time"], p["checksum_stored"] or "", p["exchange_id"] or ""))
            deliveries.append((row, origin))
    groups: dict[Any, list[tuple[Row, Row]]] = defaultdict(list)
    for row, origin in deliveries:
        groups[row["protocol"], row["topic"]].append((row, origin))

    def compared(pairs: list[tuple[Row, Row]], same: bool) -> int:
        sums = ((row["checksum_stored"] or "", origin["checksum_stored"] or "") for row, origin in pairs)
        return sum(bool(a and b) and (a == b) is same for a, b in sums)

    return [
        {
            "protocol": protocol,
            "topic": topic,
            "deliveries": len(pairs),
            "batches": len({place(row) for row, _ in pairs}),
            "same_checksum": compared(pairs, True),
            "other_checksum": compared(pairs, False),
        }
        | _spread("delay", [(_micros(row["time"]) - _micros(origin["time"])) * 1000 for row, origin in pairs])
        | _spreads_of([_stages(row, origin, asked, stated) for row, origin in pairs])
        for (protocol, topic), pairs in groups.items()
    ]


def _spreads_of(stages: Rows) -> Row:
    found: Row = {}
    for name in _STAGES:
        found |= _spread(name, [row[name] for row in stages])
        del found[f"{name}_max_ns"]
    return found


# --- connections -----------------------------------------------------------------------------------------------------

_TCP = ("retransmissions", "duplicates", "out_of_order", "zero_windows", "gaps", "gap_bytes", "framed_bytes",
        "skipped_bytes", "pending_bytes")  # fmt: skip


def _both(row: Row, what: str) -> int:
    return (row[f"client_{what}"] or 0) + (row[f"server_{what}"] or 0)


def _share(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole


def _health(connections: Rows, findings: Rows) -> Rows:
    severities: dict[Any, int] = defaultdict(int)
    for row in findings:
        if row["connection"] is not None:
            severities[(*_connection(row), row["severity"])] += 1
    same = ("site", "protocol", "connection", "incarnation", "start_time", "duration_ns", "handshake", "closed",
            "rtt_ns", "file", "packet", *_TCP)  # fmt: skip
    made = []
    for row in connections:
        packets, captured = _both(row, "packets"), _both(row, "bytes")
        seen = sum(row[column] or 0 for column in ("framed_bytes", "skipped_bytes", "pending_bytes"))
        made.append(
            {column: row[column] for column in same}
            | {"packets": packets, "captured_bytes": captured}
            | {"retransmission_rate": _share(row["retransmissions"], packets)}
            | {"loss_rate": _share(row["gap_bytes"], captured + (row["gap_bytes"] or 0))}
            | {"coverage": _share(row["framed_bytes"], seen) if row["protocol"] is not None else None}
            | {f"{name}_findings": severities[(*_connection(row), name)] for name in ("error", "warning")}
        )
    return made


def _traffic(connections: Rows) -> Rows:
    return [
        {
            "protocol": protocol,
            "connections": len(rows),
            "clients": len(set(_values(rows, "client_ip"))),
            "servers": len(set(map(_server, rows))),
            "first_time": _times(rows, "start_time")[0],
            "last_time": _times(rows, "end_time")[1],
            "packets": sum(_both(row, "packets") for row in rows),
            "captured_bytes": sum(_both(row, "bytes") for row in rows),
        }
        | {column: sum(row[column] or 0 for row in rows) for column in _TCP}
        for protocol, rows in _grouped(connections, lambda r: r["protocol"]).items()
    ]


# --- lag -------------------------------------------------------------------------------------------------------------


_MEMBERS_ASK = {"JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"}


def _lag(batches: Rows, positions: Rows, exchanges: Rows, events: Rows, bucket_us: int) -> Rows:
    units: dict[Any, Rows] = defaultdict(list)
    ends: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    after: dict[Any, int] = {}
    moved = [row for row in batches if row["topic"] and row["time"] and row["outcome"] != "error"]
    heard = max((row["time"] for row in batches if row["protocol"] == "pulsar" and row["time"]), default=None)
    for place, rows in _grouped(moved, lambda row: (row["protocol"], row["topic"], row["partition"])).items():
        if place[0] == "pulsar":
            due = [r for r in rows if r["deliver_at"] is None or r["deliver_at"] <= heard]
            entries = _grouped([r for r in due if r["position"] and ":" in r["position"]], lambda r: r["position"])
            number = 0
            for position in sorted(entries, key=lambda text: tuple(map(int, text.split(":")))):
                held = max(1 if r["records"] is None else r["records"] for r in entries[position])
                units[place].append(_unit(number, number + held - 1, entries[position]))
                number += held
                after[place, position] = number
        else:
            known = [r for r in rows if None not in (r["base_offset"], r["last_offset"])]
            for (base, last), some in _grouped(known, lambda r: (r["base_offset"], r["last_offset"])).items():
                units[place].append(_unit(base, last, some))
        ends[place] += [(unit["seen"], unit["last"] + 1) for unit in units[place]]
    for row in positions:
        if row["what"] == "high_watermark" and row["protocol"] != "pulsar" and row["topic"]:
            ends[row["protocol"], row["topic"], row["partition"]].append((_micros(row["time"]), row["value"]))
    every = _singly(_reached(positions, after), positions, moved, events, after)
    final = max([row["at"] for row in every] + [at for marks in ends.values() for at, _ in marks], default=0)
    reached = _grouped(every, lambda row: (row["place"], row["owner"]))
    shown = {row["group"] for row in exchanges if row["protocol"] == "kafka" and row["api"] in _MEMBERS_ASK}
    shown |= {row["group"] for row in positions if row["protocol"] == "kafka" and row["api"] != "OffsetFetch"}
    return [
        row | ({} if place[0] != "kafka" or owner in shown or row["status"] == "went back" else {"status": None})
        for (place, owner), rows in reached.items()
        for row in _lag_of(place, owner, rows, ends[place], units[place], bucket_us, final)
    ]


def _unit(base: int, last: int, rows: Rows) -> Row:
    first, most = _values(rows, "first_timestamp"), _values(rows, "max_timestamp")
    due = max(map(_micros, _values(rows, "deliver_at")), default=-1)
    return {
        "base": base,
        "last": last,
        "first": max(_micros(min(first)) if first else -1, due),
        "max": max(_micros(max(most)) if most else -1, due),
        "seen": max(min(_micros(row["time"]) for row in rows), due),
        "control": any(row["control"] for row in rows),
    }


def _reached(positions: Rows, after: Mapping[Any, int]) -> Rows:
    found = []
    ended = [row for row in positions if row["what"] == "transaction" and row["protocol"] == "kafka"]
    for row in positions:
        place = (row["protocol"], row["topic"], row["partition"])
        at, value, sought = _micros(row["time"]), row["value"], 0
        owner = row["group"] or (f"consumer {row['consumer']}" if row["consumer"] else None)
        if owner is None or row["topic"] is None:
            continue
        if row["what"] == "committed" and row["protocol"] == "pulsar":
            value, sought = after.get((place, f"{row['ledger']}:{row['value']}")), int(row["api"] == "SEEK")
        elif row["what"] == "pending" and row["protocol"] == "kafka":
            ends = [e for e in ended if e["transaction"] == row["transaction"] and _micros(e["time"]) >= at]
            end = min(ends, key=lambda e: e["time"], default=None)
            if end is None or end["value"] != 1:
                continue
            at = _micros(end["time"])
        elif row["what"] != "committed":
            continue
        if value is not None and (row["protocol"] == "pulsar" or row["partition"] is not None):
            found.append({"place": place, "owner": owner, "at": at, "value": value, "sought": sought})
    return found


def _singly(every: Rows, positions: Rows, moved: Rows, events: Rows, after: dict[Any, int]) -> Rows:
    """With the acknowledgements of Shared and Key_Shared subscriptions, which nobody set back, counted one by one."""
    joined = [e for e in events if e["kind"] == "joined" and e["text"] in ("Shared", "Key_Shared")]
    acking = {(r["group"], r["topic"]) for r in positions if r["what"] in ("committed", "pending")}
    silent = {(e["group"], e["topic"]) for e in events if e["kind"] == "subscribed"} - acking
    shared = silent | {(e["group"], e["topic"]) for e in joined}
    sought = {(row["place"], row["owner"]) for row in every if row["sought"]}
    acked: dict[Any, dict[str, float]] = defaultdict(dict)
    given: dict[Any, int] = {}
    inf = math.inf
    for row in [*positions, *moved]:
        place = (row["protocol"], row["topic"], row["partition"])
        if place[0] != "pulsar" or (row["group"], row["topic"]) not in shared or (place, row["group"]) in sought:
            continue
        if "what" in row and row["what"] in ("committed", "pending"):
            position, at = f"{row['ledger']}:{row['value']}", float(_micros(row["time"]))
        elif row.get("role") == "consume" and row["position"]:
            position, at = row["position"], inf
            if (place, position) in after:
                given[place, row["group"]] = min(_micros(row["time"]), given.get((place, row["group"]), 1 << 62))
        else:
            continue
        if (place, position) in after:
            entries = acked[place, row["group"]]
            entries[position] = min(at, entries.get(position, inf))
    found = [row for row in every if (row["place"], row["owner"]) not in acked]
    for (place, owner), entries in acked.items():
        ends = sorted(end for at, end in after.items() if at[0] == place)
        size = {end: end - before for before, end in itertools.pairwise([0, *ends])}
        known = sorted((after[place, position], at) for position, at in entries.items())
        start = known[0][0] - size[known[0][0]]
        if (place, owner) in given:
            first = {"at": given[place, owner], "value": start, "stands": start}
            found.append({"place": place, "owner": owner, "sought": 0, **first})
        for at in sorted({at for _, at in known} - {inf}):
            furthest = max(end for end, when in known if when <= at)
            done = furthest - sum(size[end] for end, when in known if end <= furthest and when > at)
            open_ends = [end - size[end] for end, when in known if when > at]
            stands = min(open_ends, default=known[-1][0])
            found.append({"place": place, "owner": owner, "at": int(at), "value": done, "sought": 0, "stands": stands})
    return found


def _lag_of(
    place: Any, owner: str, reached: Rows, ends: list[tuple[int, int]], units: Rows, bucket_us: int, final: int
) -> Iterable[Row]:
    said = _grouped(reached, lambda row: row["at"] // bucket_us)
    grown = _grouped([{"at": at, "end": end} for at, end in ends], lambda row: row["at"] // bucket_us)
    number: int | None = None
    end: int | None = None
    stands: int | None = None
    markers = {u["base"] for u in units if u["control"]}
    rows: Rows = []
    for slot in sorted(said.keys() | grown.keys() | {final // bucket_us}):
        times = [row["at"] for row in (*said.get(slot, ()), *grown.get(slot, ()))]
        times += [final] if slot == final // bucket_us else []
        if slot in grown:
            since = slot if place[0] == "iggy" else 0
            end = max(row["end"] for earlier in grown if since <= earlier <= slot for row in grown[earlier])
        if slot in said:
            newest = max(said[slot], key=lambda row: (row["at"], row["value"]))["value"]
            furthest = max(row["value"] for row in said[slot])
            if place[0] != "pulsar" or any(row["sought"] for row in said[slot]):
                number = newest
            else:
                number = furthest if number is None else max(number, furthest)
            stands = max([row["stands"] for row in said[slot] if "stands" in row], default=stands)
        if number is not None:
            rows.append({"slot": slot, "at": max(times), "number": number, "end": end})
            rows[-1]["stands"] = number if stands is None else stands
    moves = [row["at"] for n, row in enumerate(rows) if n == 0 or row["number"] != rows[n - 1]["number"]]
    usual = (max(moves) - min(moves)) / max(len(moves) - 1, 1) if moves else 0
    moved = 0
    before: Row | None = None
    lags: list[tuple[int, int | None]] = []
    for row in rows:
        number, reach = row["number"], None if row["end"] is None else max(row["end"], row["number"])
        behind = None if reach is None else reach - row["number"]
        if behind and markers.issuperset(range(number, row["end"])):
            behind = 0
        moved = row["at"] if before is None or number != before["number"] else moved
        if before is not None and row["number"] < before["number"]:
            status = "went back"
        elif behind is None:
            status = None
        elif not behind:
            status = "keeps up"
        elif row["at"] - moved > max(10_000_000, min(30_000_000, 3 * usual)):
            status = "stopped"
        else:
            age = _late(row["stands"], behind, row["at"], units)
            late = age is not None and age >= 10_000_000_000
            window = max(1, 30_000_000 // bucket_us)
            recent = [lag for slot, lag in (*lags, (row["slot"], behind)) if slot >= row["slot"] - window]
            grows = recent[0] is not None and behind > recent[0]
            overdue = len(moves) > 1 and row["at"] - moved > 3 * usual
            if behind >= (recent[0] or 0) if late else grows and (age is None or overdue):
                status = "falls behind"
            else:
                status = "catches up" if late else "keeps up"
        lags.append((row["slot"], behind))
        before = {"number": number, "behind": behind}
        yield {
            "protocol": place[0], "group": owner, "topic": place[1], "partition": place[2],
            "bucket": EPOCH + timedelta(microseconds=row["slot"] * bucket_us), "committed": number,
            "end_offset": reach, "messages": behind, "lag_ns": _late(row["stands"], behind, row["at"], units),
            "status": status,
        }  # fmt: skip


def _late(number: int, behind: int | None, at: int, units: Rows) -> int | None:
    if not behind:
        return behind
    unit = max((u for u in units if u["base"] <= number), key=lambda u: (u["base"], u["last"]), default=None)
    if unit is None or number > unit["last"] or unit["first"] < 0:
        return None
    made: int = unit["first"]
    if unit["last"] > unit["base"] and unit["max"] > made:
        made += math.floor((unit["max"] - made) * ((number - unit["base"]) / float(unit["last"] - unit["base"])))
    return max(at - made, 0) * 1000


# --- leaders ---------------------------------------------------------------------------------------------------------


def _leaders(batches: Rows, positions: Rows) -> Rows:
    def place(row: Row) -> Any:
        return row["protocol"], row["topic"], row["partition"]

    told = _grouped(
        [row for row in positions if row["what"] == "leader" and (row["topic"] or row["protocol"] == "iggy")], place
    )
    made: Rows = []
    for (protocol, topic, partition), rows in told.items():
        runs: list[Rows] = []
        highest = -1
        for row in sorted(rows, key=lambda r: (r["time"], r["file"], r["packet"])):
            epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
            highest = max(highest, epoch)
            if epoch < highest:
                continue
            same = ("leader", "leader_epoch")
            if not runs or [runs[-1][-1][name] for name in same] != [row[name] for name in same]:
                runs.append([])
            runs[-1].append(row)
        marks = _marks(batches, positions, (protocol, topic, partition))
        for run, following in zip(runs, [*runs[1:], None], strict=True):
            since, until = run[0]["time"], following[0]["time"] if following else None
            isr = [row["isr"] for row in run]
            lags = [behind for at, behind in marks if at >= since and (until is None or at < until)]
            made.append({
                "protocol": protocol, "topic": topic, "partition": partition, "leader": run[0]["leader"],
                "leader_epoch": run[0]["leader_epoch"], "since": since, "until": until or run[-1]["time"],
                "times": len(run), "isr": isr[-1],
                "isr_least": min((len(each) for each in isr if each is not None), default=None),
                "isr_changes": sum(a != b for a, b in itertools.pairwise(isr)),
                "replica_lag": max(lags, default=None), "file": run[0]["file"], "packet": run[0]["packet"],
            })  # fmt: skip
    return made


def _marks(batches: Rows, positions: Rows, place: Any) -> list[tuple[datetime, int]]:
    """When a replica fetched of a partition, and how many messages it was behind."""
    if place[0] != "kafka":
        return []
    mine = [row for row in (*batches, *positions) if (row["protocol"], row["topic"], row["partition"]) == place]
    told = [row for row in mine if row.get("what") == "high_watermark"]
    marks: list[tuple[datetime, str, int, int | None]] = [(row["time"], "end", row["value"], None) for row in told]
    answers: dict[Any, int] = {}
    for row in told:
        if row["exchange_id"]:
            key = row["site"], row["exchange_id"]
            answers[key] = max(answers.get(key, row["value"]), row["value"])
    marks += [
        (row["time"], "fetch", row["value"], answers.get((row["site"], row["exchange_id"])))
        for row in mine
        if row.get("what") == "fetch" and row["replica"] is not None
    ]
    marks += [
        (row["time"], "end", row["last_offset"] + 1, None)
        for row in mine
        if "what" not in row and row["last_offset"] is not None and row["outcome"] != "error"
    ]
    end: int | None = None
    found = []
    for at, what, value, answered in sorted(marks, key=lambda mark: mark[:3]):
        end = value if what == "end" else end
        known = [each for each in (end, answered) if each is not None]
        if what == "fetch" and known:
            found.append((at, max(max(known) - value, 0)))
    return found


# --- rebalances ------------------------------------------------------------------------------------------------------


def _rebalances(exchanges: Rows, events: Rows) -> Rows:
    """Rebalances of classic groups, step by step in time; and of groups that are told epochs."""
    made = []
    steps = [row for row in exchanges if row["protocol"] == "kafka" and row["group"] is not None
             and row["kind"] == "call" and row["status"] == "ok" and row["total_ns"] is not None]  # fmt: skip
    joined = {(row["site"], row["exchange_id"]): row for row in events
              if row["protocol"] == "kafka" and row["kind"] == "joined"}  # fmt: skip
    for group, rows in _grouped(steps, lambda row: row["group"]).items():
        made += _of_group(group, rows, joined)
    heard = [row for row in events if row["kind"] == "epoch"]
    for group, rows in _grouped(heard, lambda row: row["group"]).items():
        left = [row["time"] for row in events if row["kind"] == "left" and row["protocol"] == "kafka"
                and row["group"] == group]  # fmt: skip
        made += _of_epochs(group, rows, left)
    return made


def _of_group(group: str, rows: Rows, events: Mapping[Any, Row]) -> Rows:
    generations = {key: row["number"] for key, row in events.items()}
    joins = sorted((row for row in rows if row["api"] == "JoinGroup"), key=lambda r: (_ends(r), *_begins(r)))
    rounds: list[Rows] = []
    for row in joins:
        last = _ends(rounds[-1][-1]) if rounds else None
        if last is None or _micros(row["time"]) > last:
            rounds.append([])
        rounds[-1].append(row)
    made: Rows = []
    waiting: list[Rows] = []  # rounds since the last that held
    before: Rows | None = None
    before_us = 0
    told = [[generations.get((row["site"], row["exchange_id"])) for row in joined] for joined in rounds]
    newest = [max((one for one in some if one is not None), default=None) for some in told]
    sizes = [len(set(map(_member, joined))) for joined in rounds]
    sizes = [max(size for size, one in zip(sizes, newest, strict=True) if one == newest[n])
             if newest[n] is not None else sizes[n]
             for n in range(len(rounds))]  # fmt: skip

    def after(number: int, api: str) -> Rows:
        """Requests from the first answer of a round to that of the next."""
        opens = _ends(rounds[number][0])
        closes = _ends(rounds[number + 1][0]) if number + 1 < len(rounds) else None
        return [row for row in rows if row["api"] == api and opens <= _micros(row["time"])
                and (closes is None or _micros(row["time"]) < closes)]  # fmt: skip

    fresh = [n for n in range(len(rounds)) if n == 0 or newest[n] is None or newest[n] != newest[n - 1]
             or not after(n - 1, "SyncGroup") or after(n - 1, "LeaveGroup")]  # fmt: skip
    size_before = 0
    ids_before: list[tuple[Any, str]] = []
    for number in fresh:
        joined = rounds[number]
        synced = [_ends(row) for row in after(number, "SyncGroup")]
        waiting.append(joined)
        if not synced and number < fresh[-1]:
            continue
        every = [row for some in waiting for row in some]
        first = min(every, key=_begins)
        ends = max([*synced, *(max(map(_ends, some)) for some in waiting)] if not synced else
                   [*synced, *(max(map(_ends, some)) for some in waiting[:-1])])  # fmt: skip
        turns = [generations.get((row["site"], row["exchange_id"])) for some in waiting for row in some]
        generation = max((one for one in turns if one is not None), default=None)
        ids = [
            (_client(row), events[row["site"], row["exchange_id"]]["subject"])
            for row in sorted(joins, key=_begins)
            if generation is not None and generations.get((row["site"], row["exchange_id"])) == generation
        ]
        ids = [(client, one) for client, one in ids if one is not None]
        lost = generation is not None and bool(set(dict(ids_before).values()) - {one for _, one in ids})
        gone = any(row["api"] == "LeaveGroup" and before_us <= _micros(row["time"]) <= ends for row in rows)
        new = before is not None and bool(set(map(_member, joined)) - set(map(_member, before)))
        made.append(_rebalance(group, first["time"], (ends - _micros(first["time"])) * 1000, {
            "cause": "first seen" if before is None else "joined and left" if gone and new else "left" if gone
            else "lost" if lost or sizes[number] < size_before else "joined" if new
            else "rejoined",
            "members_before": None if before is None else size_before,
            "members_after": sizes[number], "generations": len(waiting),
            "clients": _names(map(_client, every)), "file": first["request_file"], "packet": first["request_packet"],
        }))  # fmt: skip
        before, size_before, before_us, ids_before, waiting = joined, sizes[number], ends, ids, []
    return made


def _of_epochs(group: str, rows: Rows, left: list[Any]) -> Rows:
    made: Rows = []
    before = before_at = None
    for _, told in sorted(_grouped(rows, lambda row: row["number"]).items()):
        first, last = min(told, key=lambda r: (r["time"], r["file"], r["packet"])), max(row["time"] for row in told)
        members = len({row["subject"] for row in told})
        came = any(row["text"] == "first" for row in told)
        gone = before_at is not None and any(before_at < at <= first["time"] for at in left)
        cause = "first seen" if before is None else "joined" if came or members > before else (
            "rejoined" if members == before else "left" if gone else "lost")  # fmt: skip
        took = (_micros(last) - _micros(first["time"])) * 1000
        made.append(_rebalance(group, first["time"], took, {
            "cause": cause, "members_before": before, "members_after": members, "generations": 1,
            "clients": _names(map(_client, told)), "file": first["file"], "packet": first["packet"],
        }))  # fmt: skip
        before, before_at = members, first["time"]
    return made


_MEMBERS = {"joined": "joined", "left": "left", "closed_by_broker": "left"}
_ASKS_IN = {
    "JoinGroup", "SUBSCRIBE", "JOIN_CONSUMER_GROUP", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
}  # fmt: skip
_KINDS = ("classic", "consumer group", "subscription", "consumer", "share", "streams")  # each says more than the last


def _names_of_groups(events: Rows) -> dict[Any, str]:
    """Topic and number of each group of Iggy that was named -> its name."""
    found: dict[Any, str] = {}
    for row in events:
        if row["protocol"] == "iggy" and row["kind"] == "named":
            key = row["topic"], str(row["number"])
            found[key] = max(found.get(key, ""), row["group"])
    return found


def _group_of(row: Row, topic: str | None, names: Mapping[Any, str]) -> tuple[str, str, str]:
    """Protocol, name and topic that a row is of; Kafka's groups belong to no topic."""
    name = row["group"]
    if row["protocol"] == "iggy":
        name = names.get((topic, name), name)
    return row["protocol"], name, "" if row["protocol"] == "kafka" else topic or ""


def _happened(exchanges: Rows, events: Rows, rebalances: Rows, connections: Rows) -> Rows:
    """What happened to groups. `of`: which group; `size`: how many members it has then."""
    names = _names_of_groups(events)
    made: Rows = []
    members: dict[Any, str] = {}
    joined_on: dict[Any, Any] = {}
    ends = [
        row | {"time": row["end_time"], "kind": "ended"} for row in connections if row["closed"] in ("fin", "reset")
    ]

    def add(of: tuple[str, str, str], row: Row, what: str, member: str | None, text: str | None) -> None:
        place = {name: row[name] for name in ("time", "file", "packet")}
        made.append({**place, "of": of, "what": what, "member": member, "client": _client(row), "text": text})

    for row in sorted([*events, *ends], key=lambda r: (r["time"], r["kind"] == "ended", r["file"], r["packet"])):
        if row["kind"] == "ended":
            how = {"fin": "closed", "reset": "reset"}[row["closed"]]
            for (of, member), (connection, client) in joined_on.items():
                if connection == _connection(row) and members[of, member] == "joined":
                    members[of, member] = "left"
                    add(of, row | client, "left", member, f"its connection was {how}")
            continue
        kind, unsubscribed = row["kind"], row["kind"] == "deleted" and row["api"] == "UNSUBSCRIBE" and not row["number"]
        if row["group"] is None:
            continue
        of = _group_of(row, row["topic"], names)
        if row["protocol"] == "kafka":
            member = row["subject"]
        elif row["protocol"] == "pulsar":
            member = " ".join(filter(None, (row["client_ip"], row["subject"] or row["client_id"])))
        else:
            member = f"{row['client_ip']}:{row['client_port']}"
        if kind in _MEMBERS or unsubscribed:
            what = _MEMBERS.get(kind, "left")
            if what == "joined" and row["protocol"] != "kafka":
                client = {"client_ip": row["client_ip"], "client_id": row["client_id"]}
                joined_on[of, member] = _connection(row), client
            if members.get((of, member)) == what:
                continue
            members[of, member] = what
            text = row["text"]
            if kind == "closed_by_broker":
                text = "closed by the broker"
            elif unsubscribed:
                text = "deleted the subscription"
            elif kind == "joined" and text is None and row["protocol"] == "kafka" and row["client_id"] is not None:
                text = f"as {row['client_id']}"
            add(of, row, what, member, text)
        elif kind in ("active", "standby"):
            add(of, row, kind, member, row["text"])
        elif kind == "altered" and (row["text"] or "").startswith("seek") and row["number"] == 0:
            add(of, row, "seeked", member, row["text"])
    for row in exchanges:
        refused = row["status"] == "error" and row["api"] in _ASKS_IN and row["error_name"] != "MEMBER_ID_REQUIRED"
        if row["group"] is not None and (refused or row["api"] == "REACHED_END_OF_TOPIC"):
            side = "request" if row["request_file"] is not None else "response"
            place = {"file": row[f"{side}_file"], "packet": row[f"{side}_packet"]}
            what = "ended" if row["api"] == "REACHED_END_OF_TOPIC" else "refused"
            member = f"{row['client_ip']}:{row['client_port']}"
            add(_group_of(row, (row["topics"] or [None])[0], names), row | place, what, member, row["error_name"])
    for row in rebalances:
        text = f"{row['cause']}, {row['members_after']} members"
        made.append({
            **{name: row[name] for name in ("time", "file", "packet")}, "of": (row["protocol"], row["group"], ""),
            "what": "rebalanced", "member": None, "client": None, "text": text, "took_ns": row["duration_ns"],
            "size": row["members_after"],
        })  # fmt: skip
    return made


def _event_of_group(row: Row) -> Row:
    protocol, group, topic = row["of"]
    rest = {name: value for name, value in row.items() if name not in ("of", "size")}
    return {"took_ns": None, **rest, "protocol": protocol, "group": group, "topic": topic or None}


def _groups(exchanges: Rows, positions: Rows, events: Rows, happened: Rows, lag: Rows) -> Rows:
    names = _names_of_groups(events)
    kinds: dict[Any, int] = {}
    for row in exchanges:
        if row["group"] is not None:
            of = _group_of(row, (row["topics"] or [None])[0], names)
            kinds[of] = max(kinds.get(of, 0), _KINDS.index(_kind_of_group(row["protocol"], row["api"])))
    for row in positions:
        if row["group"] is not None and row["what"] in ("committed", "pending"):
            of = _group_of(row, row["topic"], names)
            kinds[of] = max(kinds.get(of, 0), _KINDS.index(_kind_of_group(row["protocol"], None)))
    last: dict[Any, Row] = {}
    for row in sorted(lag, key=lambda r: r["bucket"]):
        last[row["protocol"], row["group"], row["topic"], row["partition"]] = row
    behind = _grouped(last.values(), lambda row: _group_of(row, row["topic"], names))
    mine = _grouped(happened, lambda row: row["of"])
    made = []
    for of, kind in kinds.items():
        size = most = 0
        for row in sorted(mine[of], key=lambda r: (r["time"], r["file"] or "", r["packet"] or 0, r["member"] or "")):
            size += {"joined": 1, "left": -1}.get(row["what"], 0)
            most = max(most, size)
        most = max((row["size"] for row in mine[of] if "size" in row), default=most)
        count = {what: sum(row["what"] == what for row in mine[of]) for what in ("joined", "left", "rebalanced")}
        heard = [row["number"] for row in events if row["protocol"] == "kafka" == of[0] and row["group"] == of[1]
                 and row["kind"] in ("joined", "epoch") and row["number"] is not None]  # fmt: skip
        made.append({
            "protocol": of[0], "group": of[1], "topic": of[2] or None, "kind": _KINDS[kind], "members": most or None,
            "joined": count["joined"], "left": count["left"], "rebalances": count["rebalanced"],
            "longest_ns": max((row["took_ns"] for row in mine[of] if row["what"] == "rebalanced"), default=None),
            "generation": max(heard, default=None), "lag": _sum(row["messages"] for row in behind.get(of, ())),
        })  # fmt: skip
    return made


def _kind_of_group(protocol: str, api: str | None) -> str:
    """Of which kind a request says that its group is."""
    if protocol != "kafka":
        return {"pulsar": "subscription", "iggy": "consumer group"}[protocol]
    if api in ("ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge"):
        return "share"
    return {"StreamsGroupHeartbeat": "streams", "ConsumerGroupHeartbeat": "consumer"}.get(api or "", "classic")


def _rebalance(group: str, time: datetime, took_ns: int, more: Row) -> Row:
    return {"protocol": "kafka", "group": group, "time": time, "duration_ns": took_ns, **more}


def _begins(row: Row) -> tuple[int, str, int]:
    return _micros(row["time"]), row["request_file"] or "", row["request_packet"] or 0


def _ends(row: Row) -> int:
    return _micros(row["time"]) + int(row["total_ns"]) // 1000


def _member(row: Row) -> tuple[Any, ...]:
    return row["client_ip"], row["client_port"], row["client_id"]


# --- changes ---------------------------------------------------------------------------------------------------------

_SETTING = re.compile(r"([A-Za-z0-9_.-]*[A-Za-z0-9_.])([+-]?)=")
_CHANGING = {"created", "deleted", "altered", "subscribed", "registered"}


def _changes(records: Mapping[str, Rows], changing: Mapping[str, tuple[str, str]]) -> Rows:
    events, exchanges = records.get("events", []), records["exchanges"]
    events = sorted(events, key=lambda row: (row["time"], row["file"], row["packet"]))
    names = _names_of_groups(events)
    codes = {(row["site"], row["exchange_id"], row["code"]): row["name"] for row in
             sorted(records["errors"], key=lambda row: row["name"] or "", reverse=True)}  # fmt: skip
    joined = {row["group"] for row in events if row["protocol"] == "kafka" and row["kind"] == "joined"}
    positions = records.get("positions", [])
    fetched = {
        (row["topic"], row["client_ip"], row["client_id"]) for row in positions
        if row["what"] == "fetch" and row["protocol"] == "kafka" and row["replica"] is None
    }  # fmt: skip
    changes = []
    for row in events:
        if row["kind"] not in _CHANGING or row["thing"] is None:
            continue
        consumer = (row["topic"], row["client_ip"], row["client_id"]) in fetched and row["group"] not in joined
        if not (row["api"] == "OffsetCommit" and consumer):
            changes.append(row)
    known = _known_settings(events, changes, positions)
    used, made = set(), []
    for row in changes:
        lives = sum(
            one["kind"] == "deleted" and one["number"] == 0 and _of(one) == _of(row) and _moment(one) <= _moment(row)
            for one in events if one["thing"] == row["thing"] and one["kind"] in _CHANGING
        )  # fmt: skip
        if row["kind"] in ("subscribed", "registered"):
            use = (row["protocol"], row["topic"], row["group"], lives, row["kind"], row["number"],
                   row["text"] if row["thing"] == "schema" else None)  # fmt: skip
            if use in used:
                continue
            used.add(use)
        setting = _SETTING.match(row["text"] or "") if row["kind"] == "altered" else None
        before = None
        if setting is not None:
            earlier = [each for each in known if each[0] == (*_thing(row), setting[1]) and each[1] <= row["time"]
                       and each[3] is not row and not (each[1] == row["time"] and each[4])]  # fmt: skip
            before = max(earlier, key=lambda each: (each[1], each[2]))[5] if earlier else None
        number = row["number"]
        result = "ok" if number == 0 else codes.get((row["site"], row["exchange_id"], number)) or f"error {number}"
        logins = [one["subject"] for one in events if one["kind"] == "authenticated" and one["number"] == 0
                  and one["subject"] is not None and _connection(one) == _connection(row)
                  and _moment(one) <= _moment(row)]  # fmt: skip
        made.append(_change(row, names) | {
            "principal": logins[-1] if logins else None,
            "action": "created" if row["kind"] == "subscribed" and lives else row["kind"], "thing": row["thing"],
            "partition": row["partition"], "detail": row["text"], "before": before or None, "result": result,
        })  # fmt: skip
    silent = {_connection(row) for row in records["connections"] if row["server_packets"] == 0}
    for row in exchanges:
        if row["kind"] == "unanswered" and row["api"] in changing:
            action, thing = changing[row["api"]]
            asked = row | {"topic": (row["topics"] or [None])[0], "subject": None, "thing": thing}
            asked |= {"file": row["request_file"], "packet": row["request_packet"]}
            made.append(_change(asked, names) | {
                "principal": None, "action": action, "thing": thing, "partition": None, "detail": None, "before": None,
                "result": None if _connection(row) in silent else "no answer",
            })  # fmt: skip
    return made


def _change(row: Row, names: Mapping[Any, str]) -> Row:
    """The columns that a change has of its event or exchange."""
    topic, group = row["topic"], row["group"]
    name = names.get((topic, group)) if row["protocol"] == "iggy" else None
    of_group = row["thing"] in ("offsets", "group", "subscription")
    subject = next(
        (
            each
            for each in ((group, row["subject"]) if of_group else (row["subject"], topic, group))
            if each is not None
        ),
        None,
    )
    return {
        "time": row["time"], "protocol": row["protocol"], "client_ip": row["client_ip"], "client_id": row["client_id"],
        "server": _server(row), "subject": name if name and subject == group else subject, "topic": topic,
        "group": name or group, "api": row["api"], "exchange_id": row["exchange_id"], "file": row["file"],
        "packet": row["packet"],
    }  # fmt: skip


def _of(row: Row) -> tuple[Any, ...]:
    return row["protocol"], row["topic"], row["partition"], row["group"], row["thing"]


def _moment(row: Row) -> tuple[Any, ...]:
    return row["time"], row["file"], row["packet"]


def _thing(row: Row) -> tuple[Any, ...]:
    """What tells things with settings apart."""
    name = row["subject"] if row["subject"] is not None else row["topic"]
    part = -1 if row["partition"] is None else row["partition"]
    return row["protocol"], row["thing"], name or "", row["group"] or "", part


def _known_settings(events: Rows, changes: Rows, positions: Rows) -> list[Any]:
    """(thing and setting, time, order of equal times, row, whether a change made it so at that time, value)"""
    known: list[Any] = []
    for row in events:
        if row["text"] is not None and (
            row["kind"] == "described" or (row["kind"] == "created" and row["number"] == 0)
        ):
            for item in row["text"].split(", "):
                match = _SETTING.match(item)
                value = item[match.end() :] if match else item
                setting = match[1] if match else ""
                known.append(((*_thing(row), setting), row["time"], _tie(row, value), row, True, value))
    for row in changes:
        match = _SETTING.match(row["text"] or "") if row["kind"] == "altered" else None
        if match is not None and row["number"] == 0:
            value = "" if match[2] else row["text"][match.end() :]
            known.append(((*_thing(row), match[1]), row["time"], _tie(row, value), row, True, value))
    counts: dict[Any, Rows] = defaultdict(list)
    resets = {(row["site"], row["exchange_id"]) for row in changes if (row["text"] or "").startswith("offset=")}
    for row in positions:
        if row["protocol"] != "kafka" or row["partition"] is None or row["topic"] is None:
            continue
        if row["what"] == "leader":
            counts[row["site"], row["exchange_id"], row["topic"]].append(row)
        elif row["what"] == "committed" and (row["site"], row["exchange_id"]) not in resets:
            of = ("kafka", "offsets", row["topic"], row["group"] or "", row["partition"], "offset")
            value = str(row["value"])
            known.append((of, row["time"], _tie(row, value), row, True, value))
    for (_, _, topic), rows in counts.items():
        first = {name: min(row[name] for row in rows) for name in ("time", "file", "packet")}
        value = str(max(row["partition"] for row in rows) + 1)
        of = ("kafka", "topic", topic, "", -1, "partitions")
        known.append((of, first["time"], _tie(first, value), first, True, value))
    return known


def _tie(row: Row, value: str) -> tuple[Any, ...]:
    return row["file"], row["packet"], value
