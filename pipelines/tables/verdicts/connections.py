"""Connections that were refused, stood still or could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.sql.words import REFUSED, SILENT
from pipelines.tables.table import CONNECTION
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import MISMATCHED, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.thresholds import UNDERSTOOD
from pipelines.tables.verdicts.verdict import Ruling, sql_list, together

_STOPPED = "zero_windows > 0 and protocol is not null"
_USED = "handshake = 'full' and client_bytes > 0 and closed <> 'open'"
_UNHEARD = "(tls and server_bytes = 0)"
_ALERTED = "(tls is not true and frames > 0 and framed_bytes <= client_bytes and server_bytes > 0)"
_UNREAD = f"""
    protocol is not null and "foreign" is null and handshake <> 'none' and coalesce(skipped_bytes, 0) > 0
        and framed_bytes < {UNDERSTOOD} * (framed_bytes + skipped_bytes + coalesce(pending_bytes, 0))"""


@needs(SomeRows("connections", f"{REFUSED} or {SILENT}"))
def failed_connects(capture: Capture) -> Iterator[Ruling]:
    """Attempts that a server refused or left alone, but for those of a broker that was lost."""
    lost = [server for verdict in capture.told if verdict.kind == "broker_lost" for server in verdict.rows["servers"]]
    apart = f"server not in {sql_list(lost)}" if lost else "true"
    ours = "server_port in (from v_ports)"
    for kind, which, verb in (("connect_refused", REFUSED, "refused"), ("connect_silent", SILENT, "did not answer")):
        failed = f"select * from v_connections where {which} and {apart} and {ours}"
        for row in capture.rows(together(failed, ["server"])):
            attempts = say.counted(row["count"], "connection attempt")
            text = f"Server {row['server']} {verb} {attempts} of {say.clients(row)}"
            (later,) = capture.rows(f"""
                select min(start_time) as time from v_connections
                where server = {say.literal(row["server"])} and handshake = 'full'
                    and epoch_us(start_time) > {say.micros(row["last_time"])}""")
            if later["time"] is None:
                yield Ruling(kind, f"{text}.", row)
            else:
                after = say.span((say.micros(later["time"]) - say.micros(row["last_time"])) * 1000)
                text = f"{text}; it accepted one {after} later."
                yield Ruling(kind, text, row, severity=NOTE, advice="Nothing: it accepts connections again.")


@needs(SomeRows("connections", _STOPPED))
def zero_window(capture: Capture) -> Iterator[Ruling]:
    """Receivers that did not read."""
    still = f"select * from v_connections where {_STOPPED}"
    for row in capture.rows(together(still, ["protocol"], "saturated(sum(zero_windows)) as packets")):
        (cost,) = capture.rows(f"""
            select saturated(sum(window_ns)) as closed_ns, sum(total_ns)::double as total_ns
            from v_causes semi join ({still}) using (protocol, site, connection, incarnation)
            where protocol = {say.literal(row["protocol"])}""")
        yield Ruling(
            "zero_window",
            f"On {say.counted(row['count'], 'connection')} of {say.clients(row)} a receiver stopped reading "
            f"and announced a TCP window of zero {say.times(row['packets'])}.",
            row,
            f"That took {say.span(cost['closed_ns'])}, {say.share(cost['closed_ns'], cost['total_ns'])} of the time of "
            "slow requests there."
            if cost["closed_ns"]
            else None,
        )


# opened, and whole, to a server where others speak TLS, or do not
_SEEN = f"""
    select c.*, o.tls_there, o.plain_there
    from v_connections c semi join v_whole using (site, connection, incarnation)
    join (
        select site, server_ip, server_port, bool_or(tls and server_bytes > 0) as tls_there,
            bool_or(tls is not true and protocol is not null and framed_bytes > client_bytes) as plain_there
        from connections group by all
    ) o using (site, server_ip, server_port)
    where {_USED} and c.server in (from v_spoken)"""
_ALERT = 7
"""Bytes of a TLS alert, with which a TLS server ends a connection that is none."""


@needs(SomeRows("connections", f"{_USED} and ({_UNHEARD} or {_ALERTED})"))
def tls_mismatch(capture: Capture) -> Iterator[Ruling]:
    """TLS on one side only: a server that says nothing to TLS, one that answers plain requests by an alert."""
    silent = f"select * from ({_SEEN}) where {_UNHEARD}"
    for row in capture.rows(together(silent, ["server"], "bool_or(plain_there) as plain_there")):
        speaks = ", which speaks plaintext to others" if row["plain_there"] else ""
        yield Ruling(
            "tls_mismatch",
            f"{say.clients(row)} tried TLS {say.times(row['count'])} with {row['server']}{speaks}: each "
            "connection was closed without an answer.",
            row,
        )
    alerted = f"""
        select * from ({_SEEN})
        where {_ALERTED} and (server_bytes = {_ALERT} or (tls_there and not plain_there))"""
    for row in capture.rows(together(alerted, ["protocol", "server"], "bool_or(tls_there) as tls_there")):
        why = "others speak TLS with it" if row["tls_there"] else f"its answer has the {_ALERT} bytes of a TLS alert"
        who = say.clients(row)
        yield Ruling(
            "tls_mismatch",
            f"{who} spoke plaintext {say.times(row['count'])} to {row['server']}, and {why}; no request was answered.",
            row,
        )


@needs(SomeRows("connections", _UNREAD))
def not_understood(capture: Capture) -> Iterator[Ruling]:
    """Whole connections in which frames were not found."""
    lost = f"""
        select c.* from v_connections c semi join v_whole using (site, connection, incarnation)
            anti join (from events where kind = 'misframed') using (site, connection, incarnation)
        where {_UNREAD} and not {capture.kept(MISMATCHED, CONNECTION, "c")}"""
    sums = "saturated(sum(skipped_bytes::hugeint + pending_bytes)) as unread"
    for row in capture.rows(together(lost, ["protocol"], sums)):
        yield Ruling(
            "not_understood",
            f"{units.size(row['unread'])} on {say.counted(row['count'], 'connection')} could not be decoded as "
            f"{row['protocol']} frames, though nothing is missing.",
            row,
        )
