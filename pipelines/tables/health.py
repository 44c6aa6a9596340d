"""How well each connection fared, and how much of it was understood; and the same for all of a protocol together."""

from __future__ import annotations

from pipelines.sql.words import SERVER
from pipelines.tables.dialect import Dialect
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, count_if, equal


def _known(*columns: str) -> list[str]:
    return [f"coalesce({column}, 0)" for column in columns]


def _packets(d: Dialect) -> str:
    return d.plus(*_known("client_packets", "server_packets"))


def _captured(d: Dialect) -> str:
    return d.plus(*_known("client_bytes", "server_bytes"))


def _health(d: Dialect, ask: Ask) -> str:
    lost = d.plus("captured_bytes", "coalesce(gap_bytes, 0)")
    understood = d.plus(*_known("framed_bytes", "skipped_bytes", "pending_bytes"))
    conn = ", ".join(CONNECTION)
    return f"""
        with counted as (
            select {conn}, {count_if("severity = 'error'")} as error_findings,
                {count_if("severity = 'warning'")} as warning_findings
            from all_findings where connection is not null group by {conn}
        ), sized as (
            select *, {_packets(d)} as packets, {_captured(d)} as captured_bytes from connections
        )
        select s.site, protocol, s.connection, s.incarnation, start_time, duration_ns, handshake, closed, rtt_ns,
            packets, captured_bytes, retransmissions / nullif(packets, 0) as retransmission_rate, retransmissions,
            duplicates, out_of_order, zero_windows, gaps, gap_bytes, gap_bytes / nullif({lost}, 0) as loss_rate,
            framed_bytes, skipped_bytes, pending_bytes,
            case when protocol is not null then framed_bytes / nullif({understood}, 0) end as coverage,
            coalesce(error_findings, 0) as error_findings, coalesce(warning_findings, 0) as warning_findings,
            file, packet
        from sized s left join counted f on {equal(CONNECTION, "s", "f")}
    """


_SUMS = (
    "retransmissions", "duplicates", "out_of_order", "zero_windows", "gaps", "gap_bytes", "framed_bytes",
    "skipped_bytes", "pending_bytes",
)  # fmt: skip


def _traffic(d: Dialect, ask: Ask) -> str:
    sums = ", ".join(f"coalesce({d.total(column)}, 0) as {column}" for column in _SUMS)
    return f"""
        select protocol, count(*) as connections, count(distinct client_ip) as clients,
            count(distinct {SERVER}) as servers,
            min(start_time) as first_time, max(end_time) as last_time,
            coalesce({d.total(_packets(d))}, 0) as packets, coalesce({d.total(_captured(d))}, 0) as captured_bytes,
            {sums}
        from connections group by protocol
    """


_COUNTED = (
    TableColumn("retransmissions", "segments that repeat bytes sent before", "count"),
    TableColumn("duplicates", "packets captured twice", "count"),
    TableColumn("out_of_order", "segments that came late", "count"),
    TableColumn("zero_windows", "packets that announce a window of zero", "count"),
    TableColumn("gaps", "holes in the capture", "count"),
    TableColumn("gap_bytes", "their bytes", "bytes"),
)
_UNDERSTOOD = (
    TableColumn("framed_bytes", "bytes in frames of the protocol", "bytes"),
    TableColumn("skipped_bytes", "bytes that fit no frame", "bytes"),
    TableColumn("pending_bytes", "bytes of a frame that never ended", "bytes"),
)

HEALTH = Table(
    "health",
    "Each connection: what TCP lost, and how much of the stream was decoded. The worst come first.",
    (
        TableColumn("site", "capture point"),
        TableColumn("protocol", "kafka, pulsar or iggy; null where it is none of these"),
        TableColumn("connection", "client ip:port>server ip:port"),
        TableColumn("incarnation", "0, 1 … when the same addresses and ports are used again", "code"),
        TableColumn("start_time", "first packet", "time"),
        TableColumn("duration_ns", "first to last packet", "ns"),
        TableColumn("handshake", "full, partial or none"),
        TableColumn("closed", "fin (of both sides, whatever followed), reset or open"),
        TableColumn("rtt_ns", "SYN to the ACK that completes the handshake", "ns"),
        TableColumn("packets", "packets of both directions", "count"),
        TableColumn("captured_bytes", "stream bytes of both directions, each counted once", "bytes"),
        TableColumn("retransmission_rate", "retransmissions to packets", "share"),
        *_COUNTED,
        TableColumn("loss_rate", "bytes lost to captured and lost bytes", "share"),
        *_UNDERSTOOD,
        TableColumn("coverage", "framed to captured bytes; null where the protocol is not known", "share"),
        TableColumn("error_findings", "findings of severity error", "count"),
        TableColumn("warning_findings", "findings of severity warning", "count"),
        TableColumn("file", "where its first packet is"),
        TableColumn("packet", "its number in that file, from 1", "code"),
    ),
    _health,
    headline=(
        "protocol", "connection", "captured_bytes", "rtt_ns", "retransmissions", "out_of_order", "zero_windows", "gaps",
        "loss_rate", "coverage", "error_findings", "warning_findings",
    ),
    order=(
        "error_findings desc", "loss_rate desc", "retransmission_rate desc", "captured_bytes desc", "site", "protocol",
        "connection", "incarnation",
    ),
)  # fmt: skip

TRAFFIC = Table(
    "traffic",
    "What the captures hold: the connections of each protocol, added up.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy; null for streams that are none of these"),
        TableColumn("connections", "TCP connections", "count"),
        TableColumn("clients", "addresses that opened them", "count"),
        TableColumn("servers", "addresses and ports that accepted them", "count"),
        TableColumn("first_time", "first packet", "time"),
        TableColumn("last_time", "last packet", "time"),
        TableColumn("packets", "packets of both directions", "count"),
        TableColumn("captured_bytes", "stream bytes of both directions, each counted once", "bytes"),
        *_COUNTED,
        *_UNDERSTOOD,
    ),
    _traffic,
    headline=(
        "protocol", "connections", "clients", "servers", "first_time", "last_time", "packets", "captured_bytes",
        "retransmissions", "gap_bytes", "framed_bytes",
    ),
    order=("protocol",),
)  # fmt: skip
