"""One connection as a conversation: what each side sent, and what went wrong, in time order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pipelines.answers.records import Relations, Row, query
from pipelines.formats import statuses, units
from pipelines.formats.plain import cut
from pipelines.payloads.columns import TABLE as MESSAGES
from pipelines.payloads.columns import meant

TABLES = ("exchanges", "connections", "findings")
MOST_MESSAGES = 100  # of a frame
LONGEST = 1_000  # characters of a key or a value
_ORDER = 'ORDER BY stream_offset, "offset", position'
_MESSAGES = f"""
SELECT * FROM messages WHERE site = ? AND connection = ? AND incarnation = ?
QUALIFY row_number() OVER (PARTITION BY exchange_id, role {_ORDER}) <= {MOST_MESSAGES} {_ORDER}
"""
CLIENT, SERVER, NOTE = "→", "←", "!"


def tables(payloads: bool) -> tuple[str, ...]:
    """The record tables that `follow` reads."""
    return (*TABLES, MESSAGES) if payloads else TABLES


def follow(tables: Relations, connection: Mapping[str, Any]) -> list[Row]:
    """The events of one connection and incarnation; where `tables` has them, with the messages of each frame.

    Columns: time, side (→ from the client, ← from the server, ! a note), api, text, wait_ns (before an answer), file,
    packet.
    """
    keys = (connection["site"], connection["connection"], connection["incarnation"])
    where = "WHERE site = ? AND connection = ? AND incarnation = ? ORDER BY time"
    events = [_opened(connection)]
    carried = _messages(tables, keys) if MESSAGES in tables else {}
    for exchange in query(tables, f"SELECT * FROM exchanges {where}", keys):
        for event in _frames(exchange, connection):
            events += [event, *_said_of(event, carried.get((exchange["exchange_id"], event["side"]), ()))]
    events += [_note(row) for row in query(tables, f"SELECT * FROM findings {where}", keys)]
    events.sort(key=lambda event: (event["time"] is None, event["time"], event["side"] == NOTE, event["packet"] or 0))
    return [*events, _closed(connection)]


def _messages(tables: Relations, keys: Sequence[Any]) -> dict[tuple[str, str], list[Row]]:
    """The messages of a connection by exchange and by the side that sent them, some of each frame."""
    carried: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in query(tables, _MESSAGES, keys):
        carried[row["exchange_id"], CLIENT if row["role"] == "produce" else SERVER].append(row)
    return carried


def _said_of(frame: Row, messages: Sequence[Row]) -> Iterator[Row]:
    """An event for each message of a frame."""
    for row in messages:
        partition = "" if row["partition"] is None else f"[{row['partition']}]"
        parts = [f"{row['topic'] or '?'}{partition} {row['position'] or ''}".rstrip() + ":"]
        for part in ("key", "value"):
            found = meant(row, part)
            if found is None and row[f"{part}_bytes"] is not None:
                found = f"of {units.size(row[f'{part}_bytes'])}"  # hidden
            text = found.decode("utf-8", "backslashreplace") if isinstance(found, bytes) else found or "null"
            parts.append(f"{part} {cut(text, LONGEST)}")
        schema = row.get("schema")  # None also where payloads were not read for their meaning
        if schema not in (None, "text", "json"):
            parts.append(f"({'does not fit ' if row['misfit'] else ''}{schema})")
        yield {**frame, "api": "", "text": " ".join(parts), "wait_ns": None}


_BY = {"client": "the client", "server": "the server", "both": "both sides"}


def _opened(connection: Mapping[str, Any]) -> Row:
    handshake = {"full": "opened", "partial": "opened; part of the handshake is missing"}
    text = handshake.get(connection["handshake"] or "", "began before the capture")
    rtt = "" if connection["rtt_ns"] is None else f", round trip {units.duration(connection['rtt_ns'])}"
    return _event(connection["start_time"], NOTE, "", text + rtt + _tls(connection), connection, "file", "packet")


def _tls(connection: Mapping[str, Any]) -> str:
    """What is known of a connection's TLS: version, duration of the handshake, whether it resumed a session."""
    if not connection["tls"]:
        return ""
    took = connection["tls_handshake_ns"]
    handshake = "" if took is None else f" handshake {units.duration(took)}"
    return f", {connection['tls_version'] or 'TLS'}{handshake}{', session resumed' * bool(connection['tls_resumed'])}"


def _closed(connection: Mapping[str, Any]) -> Row:
    parts = [*_closers(connection)] or ["still open when the capture ends"]
    counted = (
        ("retransmissions", "segment", statuses.RETRANSMITTED),
        ("gaps", "gap", ""),
        ("zero_windows", "zero window", ""),
    )
    parts += [
        f"{units.counted(connection[column], noun)} {what}".strip()
        for column, noun, what in counted
        if connection[column]
    ]
    return _event(connection["end_time"], NOTE, "", ", ".join(parts), {}, "", "")


def _closers(connection: Mapping[str, Any]) -> Iterator[str]:
    """Who closed a connection, and who reset it; nothing where it stays open."""
    closed_by, reset_by = connection["closed_by"], connection["reset_by"]
    if closed_by is not None and closed_by != reset_by and connection["closed"] != "open":
        yield f"closed by {_BY[closed_by]}"
    if reset_by is not None:
        yield f"reset by {_BY[reset_by]}"


def _frames(exchange: Mapping[str, Any], connection: Mapping[str, Any]) -> list[Row]:
    """The request and the response of an exchange, as far as they are there.

    A broker asks too (PING): then the request is its own, and the response the client's.
    """
    by_server = exchange["initiator"] == "server"
    heard = connection["client_packets" if by_server else "server_packets"] != 0  # the side that answers was captured
    asking, answering = (SERVER, CLIENT) if by_server else (CLIENT, SERVER)
    if exchange["kind"] == "push":
        answering = SERVER
    version = "" if exchange["version"] is None else f" v{exchange['version']}"
    api, number = f"{exchange['api'] or '?'}{version}", exchange["correlation_id"]
    made = []
    if exchange["request_packet"] is not None:
        about = [f"#{number}" if number is not None else "", units.size(exchange["request_bytes"]), _about(exchange)]
        if exchange["kind"] == "unanswered" and heard:
            about.append("never answered")
        made.append(_event(exchange["time"], asking, api, _said(about), exchange, "request_file", "request_packet"))
    if exchange["response_packet"] is not None:
        about = [f"#{number}" if number is not None else "", units.size(exchange["response_bytes"])]
        if exchange["status"] != "ok":
            about.append(statuses.status(exchange))
        if exchange["request_packet"] is None:
            about.append(_about(exchange))
        about += ["long poll"] if exchange["long_poll"] else []
        about += [statuses.RETRANSMITTED] if exchange["retransmitted"] else []
        event = _event(_answered(exchange), answering, api, _said(about), exchange, "response_file", "response_packet")
        made.append({**event, "wait_ns": exchange["wait_ns"]})
    return made


def _answered(exchange: Mapping[str, Any]) -> Any:
    """When the response began; None where it is not known."""
    if exchange["time"] is None:
        return None
    since = (exchange["request_ns"] or 0) + (exchange["wait_ns"] or 0)
    return exchange["time"] + timedelta(microseconds=since // 1000)


def _about(exchange: Mapping[str, Any]) -> str:
    topics = ", ".join(exchange["topics"] or [])
    records = units.counted(exchange["records"], "record") if exchange["records"] else ""
    permits = "" if exchange["permits"] is None else units.counted(exchange["permits"], "permit")
    left = "" if exchange["permits_left"] is None else f"{units.counted(exchange['permits_left'], 'permit')} left"
    return _said([" ".join(part for part in (topics, records) if part), permits, left])


def _said(parts: list[str]) -> str:
    return ", ".join(part for part in parts if part)


def _note(finding: Mapping[str, Any]) -> Row:
    return _event(finding["time"], NOTE, finding["kind"], finding["message"] or "", finding, "file", "packet")


def _event(time: Any, side: str, api: str, text: str, row: Mapping[str, Any], file: str, packet: str) -> Row:
    return {
        "time": time, "side": side, "api": api, "text": text, "wait_ns": None, "file": row.get(file),
        "packet": row.get(packet),
    }  # fmt: skip
