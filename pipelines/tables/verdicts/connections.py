"""Connections that were refused, stood still or could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.broker_lost import REFUSED, SILENT
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.thresholds import UNDERSTOOD
from pipelines.tables.verdicts.verdict import Ruling, sql_list, together


def failed_connects(capture: Capture) -> Iterator[Ruling]:
    """Attempts that a server refused or left alone, but for those of a broker that was lost."""
    lost = [server for verdict in capture.told if verdict.kind == "broker_lost" for server in verdict.rows["servers"]]
    apart = f"server not in {sql_list(lost)}" if lost else "true"
    for kind, which, verb in (("connect_refused", REFUSED, "refused"), ("connect_silent", SILENT, "did not answer")):
        for row in capture.rows(together(f"select * from v_connections where {which} and {apart}", ["server"])):
            yield Ruling(
                kind,
                f"Server {row['server']} {verb} {say.counted(row['count'], 'attempt')} to connect, of "
                f"{say.clients(row['clients'])}.",
                row,
            )


def zero_window(capture: Capture) -> Iterator[Ruling]:
    """Receivers that did not read."""
    still = "select * from v_connections where zero_windows > 0 and protocol is not null"
    for row in capture.rows(together(still, ["protocol"], "saturated(sum(zero_windows)) as packets")):
        yield Ruling(
            "zero_window",
            f"{say.counted(row['count'], 'connection')} of {say.clients(row['clients'])} stood still because a "
            f"receiver did not read: it closed its window {say.times(row['packets'])}.",
            row,
        )


def unreadable(capture: Capture) -> Iterator[Ruling]:
    """TLS without keys, one direction only, frames that were not found."""
    sealed = "select * from v_connections where tls and protocol is null and client_bytes > 0 and server_bytes > 0"
    for row in capture.rows(together(sealed)):
        yield Ruling(
            "tls_without_keys",
            f"{say.counted(row['count'], 'connection')} to {say.listed(row['servers'], 'server')} "
            f"{'is' if row['count'] == 1 else 'are'} TLS, and the keys are not at hand.",
            row,
        )
    deaf = """
        select * from v_connections
        where protocol is not null and (coalesce(client_packets, 0) = 0) <> (coalesce(server_packets, 0) = 0)"""
    for row in capture.rows(together(deaf)):
        (known,) = capture.rows("select count(*) as count from connections where protocol is not null")
        yield Ruling(
            "one_direction",
            f"Of {row['count']} of {say.counted(known['count'], 'connection')} only one direction was captured.",
            row,
            severity=WARNING if 2 * row["count"] >= known["count"] else NOTE,
        )
    lost = f"""
        select c.* from v_connections c semi join v_whole using (site, connection, incarnation)
        where protocol is not null and handshake <> 'none' and coalesce(skipped_bytes, 0) > 0
            and framed_bytes < {UNDERSTOOD} * (framed_bytes + skipped_bytes + coalesce(pending_bytes, 0))"""
    told = [server for one in capture.told if one.kind == "wrong_protocol_version" for server in one.rows["servers"]]
    apart = f" and server not in {sql_list(told)}" if told else ""
    sums = "saturated(sum(skipped_bytes::hugeint + pending_bytes)) as unread"
    for row in capture.rows(together(lost + apart, ["protocol"], sums)):
        yield Ruling(
            "not_understood",
            f"{units.size(row['unread'])} on {say.counted(row['count'], 'connection')} belong to no frame of "
            f"{row['protocol']}.",
            row,
        )
