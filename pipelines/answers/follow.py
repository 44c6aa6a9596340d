"""One connection as a conversation: what each side sent, and what went wrong, in time order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from pipelines.answers.records import Relations, Row, query
from pipelines.formats import statuses, units

TABLES = ("exchanges", "connections", "findings")
CLIENT, SERVER, NOTE = "→", "←", "!"


def follow(tables: Relations, connection: Mapping[str, Any]) -> list[Row]:
    """The events of one connection and incarnation.

    Columns: time, side (→ from the client, ← from the server, ! a note), api, text, wait_ns (before an answer), file,
    packet.
    """
    keys = (connection["site"], connection["connection"], connection["incarnation"])
    where = "WHERE site = ? AND connection = ? AND incarnation = ? ORDER BY time"
    events = [_opened(connection)]
    for exchange in query(tables, f"SELECT * FROM exchanges {where}", keys):
        events += _frames(exchange, connection)
    events += [_note(row) for row in query(tables, f"SELECT * FROM findings {where}", keys)]
    events.sort(key=lambda event: (event["time"] is None, event["time"], event["side"] == NOTE, event["packet"] or 0))
    return [*events, _closed(connection)]


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
