"""What a person should look at, counted."""

from __future__ import annotations

from pipelines.tables.dialect import Dialect
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, earliest


def _findings(d: Dialect, ask: Ask) -> str:
    return f"""
        select severity, kind, protocol, count(*) as count,
            count(distinct case when connection is not null then {d.row(*CONNECTION)} end) as connections,
            {d.total("length")} as bytes, min(time) as first_time, max(time) as last_time,
            {earliest(d, "message")} as message, {earliest(d, "connection")} as connection,
            {earliest(d, "file")} as file, {earliest(d, "packet")} as packet
        from findings group by severity, kind, protocol
    """


FINDINGS = Table(
    "findings",
    "What a person should look at: one row per kind of finding, with the first of each. The records hold them all.",
    (
        TableColumn("severity", "info, warning or error"),
        TableColumn("kind", "checksum_mismatch, malformed_frame, gap …"),
        TableColumn("protocol", "kafka, pulsar or iggy; null for a file"),
        TableColumn("count", "how often", "count"),
        TableColumn("connections", "on how many connections", "count"),
        TableColumn("bytes", "bytes concerned", "bytes"),
        TableColumn("first_time", "first seen", "time"),
        TableColumn("last_time", "last seen", "time"),
        TableColumn("message", "what the first one says"),
        TableColumn("connection", "its connection"),
        TableColumn("file", "its file"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
    ),
    _findings,
    headline=("severity", "kind", "protocol", "count", "connections", "message", "file", "packet"),
    order=(
        "case severity when 'error' then 0 when 'warning' then 1 else 2 end", "count desc", "kind", "protocol",
    ),
)  # fmt: skip
