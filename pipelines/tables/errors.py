"""What brokers refused, and why."""

from __future__ import annotations

from pipelines.sql.words import CLIENT
from pipelines.tables.dialect import LISTED, Dialect
from pipelines.tables.table import Ask, Table, TableColumn, earliest

_KEYS = "protocol, api, scope, code, name, retriable"


def _errors(d: Dialect, ask: Ask) -> str:
    return f"""
        select {_KEYS}, coalesce(expected, false) as expected, count(*) as count,
            min(time) as first_time, max(time) as last_time,
            {d.listed("topic")} as topics, {d.listed("client")} as clients,
            {earliest(d, "message")} as message, {earliest(d, "file")} as file, {earliest(d, "packet")} as packet
        from (select *, {CLIENT} as client from errors)
        group by {_KEYS}, coalesce(expected, false)
    """


ERRORS = Table(
    "errors",
    "Errors in answers: one row per API, code and scope. What is part of normal work comes last. "
    f"Lists hold at most {LISTED} names.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("api", "the API that answered"),
        TableColumn("scope", "what failed: request, topic, partition, group …"),
        TableColumn("code", "number on the wire", "code"),
        TableColumn("name", "the protocol's name for it"),
        TableColumn("retriable", "whether the protocol calls it retriable"),
        TableColumn("expected", "part of normal work, as MEMBER_ID_REQUIRED at a first join"),
        TableColumn("count", "how often", "count"),
        TableColumn("first_time", "first seen", "time"),
        TableColumn("last_time", "last seen", "time"),
        TableColumn("topics", "topics it was about", "list"),
        TableColumn("clients", "clients that got it", "list"),
        TableColumn("message", "text that came with the first one"),
        TableColumn("file", "where the first one is"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
    ),
    _errors,
    headline=(
        "protocol", "api", "name", "code", "scope", "retriable", "expected", "count", "topics", "clients", "file",
        "packet",
    ),
    order=("expected", "count desc", "protocol", "api", "scope", "code", "name", "retriable"),
)  # fmt: skip
