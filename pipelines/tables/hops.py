"""What lies between two capture points: the network, and the stacks at both ends of it."""

from __future__ import annotations

from pipelines.sql.words import CLIENT, SERVER
from pipelines.tables.dialect import Dialect
from pipelines.tables.points import THE_SAME_EXCHANGE, outermost
from pipelines.tables.table import Ask, Table, TableColumn, alike, count_if, quantile_columns, quantiles

_SIDES = ("client", "server")
_SPREADS = (*_SIDES, "network")


def _hops(d: Dialect, ask: Ask) -> str:
    measures = (
        f"total_ns, retransmitted, {d.plus('coalesce(request_bytes, 0)', 'coalesce(response_bytes, 0)')} as bytes"
    )
    columns = f"site, protocol, {CLIENT} as client, {SERVER} as server, {measures}"
    key = ("protocol", "api", "client", "server")
    # A request by the server, as Pulsar's PING, takes longer at the server's point: the difference counts without sign.
    sides = f"""
            select coalesce(c.protocol, s.protocol) as protocol, coalesce(c.api, s.api) as api,
                coalesce(c.client, s.client) as client, coalesce(s.server, c.server) as server,
                c.shared_id as c, s.shared_id as s,
                c.site as client_site, s.site as server_site,
                case when s.shared_id is not null then c.total_ns end as client_ns,
                case when c.shared_id is not null then s.total_ns end as server_ns,
                c.bytes as client_bytes, s.bytes as server_bytes,
                coalesce(c.retransmitted, false) as client_resent, coalesce(s.retransmitted, false) as server_resent,
                case when c.sure then abs(c.total_ns - s.total_ns) end as network_ns
            from clients c full outer join servers s on {THE_SAME_EXCHANGE}
        """
    return f"""
        with {outermost(columns)}, {d.once("sides", sides)}, measured as (
            select protocol, api, client, server, max(client_site) as client_site, max(server_site) as server_site,
                {count_if("c is not null and s is not null")} as count,
                {count_if("s is null")} as client_only, {count_if("c is null")} as server_only,
                {", ".join(f"{d.total(f'{side}_bytes')} as {side}_bytes" for side in _SIDES)},
                {", ".join(count_if(f"{side}_resent") + f" as {side}_retransmitted" for side in _SIDES)},
                {count_if("c is not null and s is not null and client_resent <> server_resent")} as lost
            from sides group by protocol, api, client, server
        ), spread as (
            {d.percentiles("sides", key, {name: f"{name}_ns" for name in _SPREADS})}
        )
        select {", ".join(f"m.{name}" for name in key)}, client_site, server_site, count,
            {", ".join(map(quantiles, _SPREADS))}, client_bytes, server_bytes, client_retransmitted,
            server_retransmitted, lost, client_only, server_only
        from measured m left join spread s on {alike(key, "m", "s")}
    """


HOPS = Table(
    "hops",
    "What only two capture points can show: the same exchanges at the point nearest to their clients and at the point "
    "nearest to their servers. `client` is the time from the first byte of a request to the last byte of its answer at "
    "the former, `server` at the latter, `network` the difference: what the network and the stacks between the two "
    "cost. Exchanges that only one point saw are in none of the three. These are durations, so the clocks of the two "
    "points need not agree. One row per API, client and server; none where all connections were seen at one point.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("api", "the protocol's own name"),
        TableColumn("client", "client address and the name it gives itself, as at its own point"),
        TableColumn("server", "server address and port, as at its own point"),
        TableColumn("client_site", "capture point nearest to the client"),
        TableColumn("server_site", "capture point nearest to the server"),
        TableColumn("count", "exchanges seen at both points", "count"),
        *(column for name in _SPREADS for column in quantile_columns(f"{name}_", name)),
        TableColumn("client_bytes", "bytes of requests and answers at the client's point", "bytes"),
        TableColumn("server_bytes", "and at the server's", "bytes"),
        TableColumn("client_retransmitted", "exchanges of which the client's point saw a byte twice", "count"),
        TableColumn("server_retransmitted", "and the server's", "count"),
        TableColumn("lost", "exchanges that lost a segment between the points: only one saw a byte twice", "count"),
        TableColumn("client_only", "exchanges that only the client's point saw", "count"),
        TableColumn("server_only", "exchanges that only the server's point saw", "count"),
    ),
    _hops,
    headline=(
        "protocol", "api", "client", "server", "count", "client_p50_ns", "server_p50_ns", "network_p50_ns",
        "network_p99_ns", "lost", "client_only", "server_only",
    ),
    order=("count desc", "protocol", "api", "client", "server"),
)  # fmt: skip
