"""Clients and servers of different eras: one understands nothing of what the other says."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import MISMATCHED, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Ruling, sql_list, together

# connections on which an answer shows it
_SHOWN = """
    select c.*, e.subject as spoken, e.text as does from v_connections c
    join (select site, connection, incarnation, subject, text from events where kind = 'other_version') e
        using (site, connection, incarnation)"""
_NOTHING_READ = """
    protocol is not null and "foreign" is null and server_bytes > 0 and frames > 0 and framed_bytes <= client_bytes
        and coalesce(skipped_bytes, 0) + coalesce(pending_bytes, 0) >= server_bytes"""
# whole connections with requests, on which the server said something and none of it is an answer
_UNREAD = f"""
    select c.*, dialect as spoken, null::varchar as does
    from v_connections c semi join v_whole using (site, connection, incarnation)
    where {_NOTHING_READ}
        and not exists (
            select 1 from exchanges e where e.kind <> 'unanswered'
                and e.site = c.site and e.connection = c.connection and e.incarnation = c.incarnation)
        and exists (
            select 1 from exchanges e where e.kind = 'unanswered'
                and e.site = c.site and e.connection = c.connection and e.incarnation = c.incarnation)"""


@needs(
    SomeRows("events", "kind = 'other_version'"),
    SomeRows("connections", _NOTHING_READ),
)
def wrong_protocol_version(capture: Capture) -> Iterator[Ruling]:
    """Servers that answer clients of another protocol version, by what shows it; those that speak TLS are told apart.

    Their connections are kept as MISMATCHED: what fails there is explained.
    """
    tls = [server for one in capture.told if one.kind == "tls_mismatch" for server in one.rows["servers"]]
    unread = f"select * from ({_UNREAD}){f' where server not in {sql_list(tls)}' if tls else ''}"
    capture.keep(MISMATCHED, f"{_SHOWN} union all by name {unread}")
    for row in capture.rows(together(f"select * from {MISMATCHED}", ["protocol", "server", "does", "spoken"])):
        does = row["does"] or "answers in another protocol version"
        speak = f"{say.clients(row)} {say.verb(row, 'speaks', 'speak')}"
        yield Ruling(
            "wrong_protocol_version",
            f"Server {row['server']} {does}; {speak} {row['spoken'] or row['protocol']}: "
            f"nothing works on {say.counted(row['count'], 'connection')}.",
            row,
        )
