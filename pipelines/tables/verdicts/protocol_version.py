"""Clients and servers of different eras: one understands nothing of what the other says."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.verdict import Ruling, sql_list, together

# whole connections with requests, on which the server said something and none of it is an answer
_FOREIGN = """
    select c.*, dialect as spoken from v_connections c semi join v_whole using (site, connection, incarnation)
    where protocol is not null and "foreign" is null and server_bytes > 0 and frames > 0
        and coalesce(skipped_bytes, 0) + coalesce(pending_bytes, 0) >= server_bytes
        and framed_bytes <= client_bytes
        and not exists (
            select 1 from exchanges e where e.kind <> 'unanswered'
                and e.site = c.site and e.connection = c.connection and e.incarnation = c.incarnation)
        and exists (
            select 1 from exchanges e where e.kind = 'unanswered'
                and e.site = c.site and e.connection = c.connection and e.incarnation = c.incarnation)"""


def wrong_protocol_version(capture: Capture) -> Iterator[Ruling]:
    """Servers whose bytes are no answers in the protocol version of the client; those that speak TLS are told apart."""
    tls = [server for one in capture.told if one.kind == "tls_mismatch" for server in one.rows["servers"]]
    foreign = f"select * from ({_FOREIGN}){f' where server not in {sql_list(tls)}' if tls else ''}"
    for row in capture.rows(together(foreign, ["protocol", "server"], "any_value(spoken) as spoken")):
        version = row["spoken"] or row["protocol"]
        yield Ruling(
            "wrong_protocol_version",
            f"Server {row['server']} answers {say.clients(row['clients'])} in another protocol version than {version}: "
            f"nothing works on {say.counted(row['count'], 'connection')}.",
            row,
        )
