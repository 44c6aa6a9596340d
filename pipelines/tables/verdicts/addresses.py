"""Addresses that brokers tell their clients and at which nobody serves them, and TLS handshakes that were refused."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.sql.words import REFUSED, SERVER, SILENT
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import ASKED_AGAIN, USED_AT_ONCE_US
from pipelines.tables.verdicts.verdict import Ruling, together

_LOCAL = "(regexp_matches(told, '^(localhost|127\\.|\\[?::1\\]?:|0\\.0\\.0\\.0)'))"
_BEFORE_WORK = ("ApiVersions", "CONNECT", "SaslHandshake", "SaslAuthenticate", "InitProducerId", "PING")
_LOOKUPS = ("Metadata", "FindCoordinator", "DescribeCluster", "LOOKUP", "PARTITIONED_METADATA", "GET_CLUSTER_METADATA")


@needs(SomeRows("events", "kind = 'advertised'"))
def unreachable_address(capture: Capture) -> Iterator[Ruling]:
    """Addresses of this machine told to clients on others, and addresses at which connects failed."""
    named = f"""
        with told as (
            select e.site, e.connection, e.incarnation, e.time, e.client_ip, e.server_ip, e.protocol,
                regexp_replace(e.subject, '^[a-z+]+://', '') as told
            from events e where e.kind = 'advertised' and e.subject is not null
        ), used as (
            select distinct client_ip, {SERVER} as told from connections where coalesce(server_bytes, 0) > 0
        ), failed as (
            select {SERVER} as told, count(*) as attempts, max(start_time) as last_attempt from connections
            where {REFUSED} or {SILENT} group by all
        ), worked as (
            select client_ip, max(time) as last_work from exchanges
            where kind = 'call' and coalesce(api, '') not in {(*_LOOKUPS, *_BEFORE_WORK)}
            group by all
        )
        select distinct t.site, t.connection, t.incarnation, t.told, f.attempts
        from told t left join failed f using (told)
            left join used u on u.client_ip = t.client_ip and u.told = t.told
            left join worked w on w.client_ip = t.client_ip
        where u.told is null and (
            {_LOCAL} and t.client_ip <> t.server_ip and not regexp_matches(t.client_ip, '^(127\\.|::1$)')
                and (w.last_work is null or f.attempts is not null)
                and epoch_us((select max(end_time) from connections)) - epoch_us(t.time) >= {USED_AT_ONCE_US}
            or f.attempts is not null and t.time <= f.last_attempt and w.last_work is null)"""
    asked = f"""
        select c.*, a.told, a.attempts from v_calls c join ({named}) a using (site, connection, incarnation)
        where c.kind in ('call', 'unanswered') and c.api in {_LOOKUPS}"""
    for row in capture.rows(together(asked, ["protocol", "told"], "max(attempts) as attempts")):
        who = say.clients(row)
        span = say.span((say.micros(row["last_time"]) - say.micros(row["first_time"])) * 1000)
        local = row["told"].startswith(("localhost", "127.", "[::1]", "0.0.0.0"))
        if row["count"] < ASKED_AGAIN and not row["attempts"] and not local:
            continue
        where = ", which is their own machine" if local else ""
        failed = f", and {say.counted(row['attempts'], 'attempt')} to connect there failed" if row["attempts"] else ""
        yield Ruling(
            "unreachable_address",
            f"{say.listed(row['servers'], 'broker')} sends {who} to {row['told']}{where}{failed}: "
            f"asked {say.times(row['count'])} in {span}, and no broker was used there.",
            row,
        )


@needs(SomeRows("connections", "tls_alert is not null"))
def tls_refused(capture: Capture) -> Iterator[Ruling]:
    """TLS handshakes at ports of brokers that an alert in clear ended, by its reason."""
    refused = """
        select * from v_connections
        where tls_alert is not null and tls_alert not like '%close_notify%' and tls_alert not like '%user_canceled%'
            and protocol is null and coalesce(frames, 0) = 0
            and (server_port in (from v_ports) or not exists (from connections where protocol is not null))"""
    for row in capture.rows(together(refused, ["server", "tls_alert"])):
        side, _, alert = row["tls_alert"].partition(": ")
        reason = alert.partition(" ")[2].replace("_", " ")
        clients = say.clients(row)
        if side == "client":
            text = f"{clients} refused the TLS certificate or handshake of {row['server']} {say.times(row['count'])}"
        else:
            text = f"{row['server']} refused the TLS handshake of {clients} {say.times(row['count'])}"
        yield Ruling("tls_refused", f"{text}: {reason}.", row)
