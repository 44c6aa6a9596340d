"""The records as checks see them: views with the same columns of who, when and where.

    v_calls        exchanges         v_batches      batches
    v_errors       errors            v_connections  connections
    v_findings     findings          v_events       events
    v_rebalances   the table `rebalances`
    v_sent         attempts to send batches, with when each was stored after all: see `work.py`
    v_readagain    fetch positions that were refused, with when reading went on there: see `work.py`
    v_ports        ports at which a broker's protocol is spoken, or advertised, or that are its defaults: (port)
    v_spoken       addresses at which a broker's protocol is spoken or advertised: (server)
    v_whole        connections of which both directions and every byte were captured: (site, connection, incarnation)
    v_ends         connections, and until when they were there: one that nobody closed, to the end of the capture

    v_forgotten    connections that were reset at the first request after a long silence: (site, connection,
                   incarnation, idle_ns)

    v_noted        exchanges with an event of NOTED, once for each: columns of v_calls, `event` (its kind), and its
                   topic, partition, subject, number, text and direction
    v_changes      the table `changes`
    v_causes       exchanges that took long, with the parts of their time: see `causes.parts`

Tables that a check keeps for those behind it; a query may name them through `Capture.kept` only:

    v_told         exchanges whose duration a verdict has explained: (site, exchange_id)
    v_mismatched   connections of a client and a server of different protocol versions
    v_undelivered  connections with bytes that TCP never got acknowledged
    v_heard        requests by which producers heard that their transaction had timed out: (site, exchange_id)
    v_moved        answers that say that a partition is led elsewhere, where it was found

All views but v_causes, v_rebalances, v_whole, v_ends and v_forgotten have protocol, client, server, topics, "group",
time, until, cost_ns, where the row is (`counted`: its record table; file, packet, exchange_id, stream_offset), and the
record's own columns. A client is `ip name`, where a request of its connection named it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from dissectors.session.protocols import protocols
from pipelines.sql.views import Views
from pipelines.sql.words import CLIENT, EXCUSED, HELD, HELD_NS, SERVER, SERVICE_NS
from pipelines.tables.audit import VIEWS as AUDITED
from pipelines.tables.audit.statement import HAS_HOLE
from pipelines.tables.causes import PARTS, parts
from pipelines.tables.changes import CHANGES
from pipelines.tables.clients import removed_in_kafka_4
from pipelines.tables.dialect import LARGEST, DuckDB
from pipelines.tables.rebalances import REBALANCES
from pipelines.tables.table import Ask
from pipelines.tables.transactions import SCHEMA as TRANSACTIONS
from pipelines.tables.transactions import transactions
from pipelines.tables.verdicts.say import counted, micros, share
from pipelines.tables.verdicts.thresholds import AT_ONCE_US, IDLE_NS, SOON_US
from pipelines.tables.verdicts.verdict import COST_NS, Row, Ruling, sql_list, together
from pipelines.tables.verdicts.work import READ_AGAIN, SENT

TOLD, MISMATCHED, MOVED, UNDELIVERED, HEARD = "v_told", "v_mismatched", "v_moved", "v_undelivered", "v_heard"

NOTED = (
    "closed_by_broker", "migrated", "new_leader", "overtaken", "redirected", "rule_broken", "status",
    "transaction_aborted",
)  # fmt: skip
"""Kinds of events that checks look for in v_noted; the others, of which there may be many, are not in it."""
_AMONG_BROKERS = (
    "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "BrokerHeartbeat", "LeaderAndIsr", "StopReplica", "UpdateMetadata",
    "AlterPartition", "FetchSnapshot",
)  # fmt: skip
_OF_BROKER = f"""(
    coalesce(api in {sql_list(_AMONG_BROKERS)}, false)
    or coalesce(regexp_matches(client_id, '^(broker-[0-9]+-fetcher|raft-client)-'), false))"""
PLACE = "site, connection, incarnation"
_PORTS = sorted({port for protocol in protocols() for port in protocol.ports})
_NAMED = f"""
    select {PLACE}, min(client_id) as client_id from exchanges where client_id is not null group by {PLACE}"""
# small, and read by many checks
_TABLES = {
    "v_names": _NAMED,
    "v_noted": f"""
        select x.*, e.kind as event, e.topic, e.partition, e.subject, e.number, e.text, e.direction
        from events e join v_calls x on e.site = x.site and e.exchange_id = x.exchange_id
        where e.kind in {sql_list(NOTED)}""",
    "v_whole": f"""
        select {PLACE} from connections
        where not {HAS_HOLE} and client_packets > 0 and server_packets > 0""",
    "v_ends": f"""
        select {PLACE}, case when closed <> 'open' then end_time else max(end_time) over () end as end_time
        from connections""",
    "v_forgotten": f"""
        select {PLACE}, max(idle_ns) as idle_ns from (
            select {PLACE}, kind, (epoch_us(time) - max(epoch_us(time) + coalesce(total_ns, 0) // 1000) over (
                partition by {PLACE} order by time rows between unbounded preceding and 1 preceding)) * 1000 as idle_ns
            from exchanges where ({PLACE}) in (select ({PLACE}) from connections where closed = 'reset')
        ) where kind = 'unanswered' and idle_ns >= {IDLE_NS} group by all""",
    "v_excused": EXCUSED,
    "v_sent": SENT,
    "v_readagain": READ_AGAIN,
    "v_ports": f"""
        select server_port as port from connections where protocol is not null
        union select unnest({list(_PORTS)})
        union select try_cast(regexp_extract(subject, ':([0-9]+)$', 1) as integer) from events
            where kind = 'advertised'""",
    "v_spoken": f"""
        select {SERVER} as server from connections where protocol is not null
        union select regexp_replace(subject, '^[a-z+]+://', '') from events where kind = 'advertised'""",
    "v_rebalances": REBALANCES.query(DuckDB(), Ask()),
    "v_causes": parts(DuckDB()),
    "v_changes": CHANGES.query(DuckDB(), Ask()),
    **AUDITED,
}
_VIEWS = {
    "v_calls": f"""
        select *, 'exchanges' as counted, null::bigint as stream_offset, {CLIENT} as client, {SERVER} as server,
            {HELD} as held, {HELD_NS} as held_ns,
            {SERVICE_NS} as service_ns, time + to_microseconds(coalesce(total_ns, 0) // 1000) as until,
            coalesce(request_file, response_file) as file, coalesce(request_packet, response_packet) as packet,
            coalesce(total_ns, 0) as cost_ns
        from exchanges""",
    "v_errors": f"""
        select *, 'exchanges' as counted, null::bigint as stream_offset, {CLIENT} as client, {SERVER} as server,
            null::varchar as "group", time as until, 0 as cost_ns, {_OF_BROKER} as among_brokers,
            case when topic is null then [] else [topic] end as topics
        from errors where not coalesce(expected, false)""",
    "v_batches": f"""
        select *, 'batches' as counted, {CLIENT} as client, {SERVER} as server, time as until, 0 as cost_ns,
            case when topic is null then [] else [topic] end as topics
        from batches""",
    "v_connections": f"""
        select c.*, 'connections' as counted, null::bigint as stream_offset, client_id,
            concat_ws(' ', client_ip, client_id) as client, {SERVER} as server,
            []::varchar[] as topics, null::varchar as "group", start_time as time, end_time as until,
            null::varchar as exchange_id, 0 as cost_ns
        from connections c left join v_names using ({PLACE})""",
    "v_findings": f"""
        select f.*, 'findings' as counted,
            case when client_ip is not null then concat_ws(' ', client_ip, client_id) end as client,
            case when server_ip is not null then {SERVER} end as server, time as until, 0 as cost_ns,
            []::varchar[] as topics, null::varchar as "group", null::varchar as exchange_id
        from findings f left join v_names using ({PLACE})""",
    "v_events": f"""
        select *, {CLIENT} as client, {SERVER} as server from events""",
}
# most checks read these: where rows are few, it costs less to compute them once than to plan that again each time
_KEPT = ("v_calls", "v_errors", "v_connections", "v_findings")
FEW = 200_000  # exchanges
_MADE_OF = {
    "v_noted": "events",
    "v_events": "events",
    "v_calls": "exchanges",
    "v_errors": "errors",
    "v_batches": "batches",
}


def _macros() -> tuple[str, ...]:
    """What queries of checks may call."""
    return (
        # of a sum: 0 of none
        f"saturated(value) as greatest(least(coalesce(value, 0), {LARGEST}), -{LARGEST})::bigint",
        # of a column, its values but null, sorted, and how many: a list holds each as often as it comes, DISTINCT joins
        "names_of(value) as coalesce(list_sort(map_keys(histogram(value))), [])",
        "number_of(value) as coalesce(cardinality(histogram(value)), 0)",
        # of `address id`, the two parts; null where there is no id
        "client_address(client) as nullif(split_part(client, ' ', 1), '')",
        "client_name(client) as nullif(substr(client, strpos(client || ' ', ' ') + 1), '')",
        f"removed(protocol, api_code, version) as {removed_in_kafka_4()}",
    )


_WHILE = f"epoch_us(until) >= {{first}} - {AT_ONCE_US} and epoch_us(time) <= {{last}} + {SOON_US}"
EXPLAINS = {
    "broker_lost": f"(server in {{servers}} or client in {{clients}}) and {_WHILE}",
    "topic_moved": f"""
        list_has_any(coalesce(topics, []), list_value{{topics}}) and error_name is distinct from 'PersistenceError'
            and epoch_us(until) >= {{first}} - {SOON_US} and epoch_us(time) <= {{last}} + {SOON_US}""",
    "no_leader": """
        api = 'Metadata' and list_has_any(coalesce(topics, []), list_value{topics}) and epoch_us(time) >= {first}""",
    "errors": f"""
        api = 'Metadata' and error_name is null and client in {{clients}} and {_WHILE}
            and list_has_any(coalesce(topics, []), list_value{{topics}})""",
    "producer_fenced": f"client in {{clients}} and kind = 'unanswered' and epoch_us(until) >= {{first}} - {SOON_US}",
    "keepalive_timeout": f"""
        kind = 'unanswered' and server in {{servers}} and ({PLACE}) in (
            select ({PLACE}) from exchanges where api = 'PING' and kind = 'unanswered')""",
    "connections_reset": f"client in {{clients}} and server in {{servers}} and {_WHILE}",
    "path_lost": f"({PLACE}) in (select ({PLACE}) from {UNDELIVERED})",
    "framing_lost": f"""
        ({PLACE}) in (select {PLACE} from events where kind = 'misframed') and epoch_us(until) >= {{first}}""",
    "wrong_protocol_version": f"({PLACE}) in (select ({PLACE}) from {MISMATCHED})",
}
"""Kind of verdict -> the requests that it explains: what clients of a lost broker met from then on, what was asked of a
topic that moved, questions for a leader that there is not, or of clients whose other requests fail, what a fenced
producer was not answered any more, what had no answer as a PING had none, what follows a request of a wrong length.
Conditions on v_calls; in braces, of the verdict: its brokers, clients and topics, and its first and last time in µs."""


class Capture(Views):
    """The records of a capture set, as checks ask them."""

    def __init__(self, duckdb: Any, empty: Collection[str] = (), cut: str = "") -> None:
        """duckdb: a connection in which the record tables have their names, each exchange counted once.

        empty: record tables that are known to have no rows; cut: what was asked for, where others are left out.
        """
        ((exchanges,),) = duckdb.execute("select count(*) from exchanges").fetchall()
        self._few = exchanges <= FEW
        kept = {name: _VIEWS[name] for name in _KEPT} if self._few else {}
        empty = {*empty, *(view for view, of in _MADE_OF.items() if of in empty)}
        super().__init__(duckdb, _TABLES | kept, {name: _VIEWS[name] for name in _VIEWS.keys() - kept}, empty)
        self.cut = cut
        self.told: list[Ruling] = []  # by the checks so far
        self._heard = 0  # how many of them are among what is explained
        for macro in _macros():
            duckdb.execute(f"create or replace temp macro {macro}")

    @cached_property
    def transactions(self) -> pa.Table:
        """The table `transactions`."""
        if not self.may_have("events") and not self.may_have("batches"):
            return TRANSACTIONS.empty_table()
        return transactions(self.duckdb)

    def explained(self) -> str:
        """Whether a verdict that was given already explains a request, as a condition on v_calls; see EXPLAINS.

        One cause of a long duration is enough.
        """
        conditions: dict[str, None] = {}  # some are the same for all verdicts of a kind
        for verdict in self.told[self._heard :]:
            if verdict.kind in EXPLAINS:
                row = verdict.rows
                of = {name: sql_list(row[name] or [""]) for name in ("servers", "clients", "topics")}
                first, last = (0 if time is None else micros(time) for time in (row["first_time"], row["last_time"]))
                conditions[EXPLAINS[verdict.kind].format(first=first, last=last, **of)] = None
        if conditions:
            self.explain(f"select * from v_calls where ({') or ('.join(conditions)})")
        self._heard = len(self.told)
        return self.kept(TOLD)

    def kept(self, name: str, key: Sequence[str] = ("site", "exchange_id"), of: str = "") -> str:
        """Whether a row is in a table that a check has kept, as a condition: false where none has.

        key: columns in which they agree; of: the relation that has the row, where a query must say so.
        """
        if not self.has(name):
            return "false"
        row = ", ".join(f"{of}.{column}" if of else column for column in key)
        return f"({row}) in (select ({', '.join(key)}) from {name})"

    def is_lost(self, server: str) -> str:
        """Whether a verdict says that a broker was lost, as a condition. server: what names it, as an expression."""
        lost = [name for verdict in self.told if verdict.kind == "broker_lost" for name in verdict.rows["servers"]]
        return f"coalesce({server} in {sql_list(lost or [''])}, false)"

    def explain(self, query: str) -> None:
        """Remember exchanges whose duration a verdict explains, so that checks that come later leave them out.

        query: a SELECT from v_calls.
        """
        exchanges = f"select site, exchange_id from ({query})"
        if not self.has(TOLD):
            self.keep(TOLD, exchanges)
        else:
            self.make(exchanges)
            self.duckdb.execute(f"insert into {TOLD} {exchanges}")

    def together(self, query: str, by: Sequence[str] = (), more: str = "", cost_ns: str = COST_NS) -> list[Row]:
        """One row for each group of rows; arguments are those of `verdict.together`."""
        return self.rows(together(query, by, more, cost_ns)) if self._may_give(query) else []

    def timed(self, query: str, by: Sequence[str], more: str = "", cost_ns: str = COST_NS) -> list[Row]:
        """The rows of `together`, each with `largest_part`: a sentence that says where most of its time went.

        query: a SELECT from v_calls. The sentence is None where no exchange of a group took long.
        """
        if not self._may_give(query):
            return []
        parts = ", ".join(f"{part.name}_ns as part_{part.name}" for part in PARTS)
        sums = (f"sum(part_{part.name})::double as sum_{part.name}" for part in PARTS)
        known = "count(slow_ns) as known, sum(slow_ns)::double as total"
        slow = f"select site, exchange_id, total_ns as slow_ns, {parts} from v_causes"
        query = f"select * from ({query}) left join ({slow}) using (site, exchange_id)"
        rows = self.rows(together(query, by, ", ".join(filter(None, (more, known, *sums))), cost_ns))
        return [row | {"largest_part": _largest_part(row)} for row in rows]

    def _may_give(self, query: str) -> bool:
        """Whether a query may have rows. Most have none; of few exchanges, to ask that first costs a seventh."""
        return not self._few or bool(self.rows(f"select 1 from ({query}) limit 1"))


def _largest_part(sums: Row) -> str | None:
    """A sentence that names the part that took most of the time of some exchanges; None where none took long."""
    if not sums["known"]:
        return None
    largest = max(PARTS, key=lambda part: sums[f"sum_{part.name}"] or 0)
    whose = f"the time of {counted(sums['known'], 'slow one')} of them"
    if sums["known"] == sums["count"]:
        whose = "its time" if sums["count"] == 1 else "their time"
    return f"{share(sums[f'sum_{largest.name}'], sums['total'])} of {whose} went to {largest.says}."
