"""Consumer groups and subscriptions: who is in them, and when they rebalanced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.report.payload import CARRIED
from pipelines.report.section import Builder, Section, heading
from pipelines.sql.words import CLIENT
from pipelines.tables.table import TableColumn

PAUSE_US = 1_000_000  # joins and syncs closer together than this are one rebalance
REBALANCE = ("JoinGroup", "SyncGroup", "LeaveGroup")
JOINS = ("JoinGroup", "SUBSCRIBE", "JOIN_CONSUMER_GROUP")
LEAVES = ("LeaveGroup", "UNSUBSCRIBE", "CLOSE_CONSUMER", "LEAVE_CONSUMER_GROUP")
COMMITS = ("OffsetCommit", "TxnOffsetCommit", "ACK", "STORE_CONSUMER_OFFSET")

_GROUP = 'protocol, "group"'
_OWNED = f"{_GROUP}, owner"  # Kafka's groups are told apart by name, others by the topic that they belong to as well
_OWNER = "case when protocol <> 'kafka' then topics[1] end as owner"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


# joins, syncs and leaves of a group, numbered by the rebalance that they belong to
_STEPS = f"""
    with steps as (
        select {_GROUP}, {CLIENT} as client, api, error_name, epoch_us(time) as begin_us,
               epoch_us(time) + coalesce(total_ns, 0) // 1000 as end_us, request_file, request_packet
        from exchanges where "group" is not null and api in ({_list(REBALANCE)})),
    apart as (
        select *, begin_us > {PAUSE_US} + max(end_us) over (
            partition by {_GROUP} order by begin_us, end_us rows between unbounded preceding and 1 preceding) as begins
        from steps),
    numbered as (
        select *, count(*) filter (coalesce(begins, true)) over (
            partition by {_GROUP} order by begin_us, end_us rows unbounded preceding) as number
        from apart)
    select * from numbered"""
_REBALANCES = f"""
    select {_GROUP}, number, min(begin_us) as time, (max(end_us) - min(begin_us)) * 1000 as duration_ns,
           count(distinct client) filter (api = 'JoinGroup') as joined,
           count(distinct client) filter (api = 'LeaveGroup') as gone,
           list(distinct client order by client)[:21] as clients,
           arg_min(request_file, row(begin_us, request_file, request_packet)) as file,
           arg_min(request_packet, row(begin_us, request_file, request_packet)) as packet
    from steps group by {_GROUP}, number
    having count(*) filter (api = 'JoinGroup') > 0
    order by time, {_GROUP} limit {CARRIED}"""

_GROUPS = f"""
    with rebalanced as (
        select {_GROUP}, count(*) as rebalances, sum(spent_ns) as rebalancing_ns from (
            select {_GROUP}, (max(end_us) - min(begin_us)) * 1000 as spent_ns
            from steps group by {_GROUP}, number having count(*) filter (api = 'JoinGroup') > 0)
        group by all),
    used as (
        select {_GROUP}, {_OWNER}, count(distinct {CLIENT}) as members, count(*) as exchanges,
               list(distinct {CLIENT} order by {CLIENT})[:21] as clients,
               count(*) filter (api in ({_list(JOINS)})) as joins, count(*) filter (api in ({_list(LEAVES)})) as leaves,
               count(*) filter (api in ({_list(COMMITS)})) as commits, count(*) filter (status = 'error') as errors,
               sum(records) filter (kind in ('call', 'push') and coalesce(records, 0) > 0)::bigint as messages
        from exchanges where "group" is not null group by all),
    named as (
        select {_OWNED}, list(distinct topic order by topic)[:21] as topics
        from (select {_GROUP}, {_OWNER}, unnest(topics) as topic from exchanges where "group" is not null) group by all)
    select used.*, topics, rebalances, rebalancing_ns
    from used left join rebalanced using ({_GROUP})
        left join named on used.protocol = named.protocol and used."group" = named."group"
            and used.owner is not distinct from named.owner
    order by rebalances desc nulls last, exchanges desc, {_OWNED} limit {CARRIED}"""

_GROUP_COLUMNS = (
    TableColumn("protocol", "kafka, pulsar or iggy"),
    TableColumn("group", "consumer group, share group or subscription"),
    TableColumn("members", "different clients that named it", "count"),
    TableColumn("topics", "topics that these requests name", "list"),
    TableColumn("messages", "messages that came with these exchanges", "count"),
    TableColumn("commits", "offset commits and acknowledgements", "count"),
    TableColumn("joins", "requests to join it", "count"),
    TableColumn("leaves", "requests to leave it", "count"),
    TableColumn(
        "rebalances", f"joins less than {PAUSE_US // 1_000_000} s apart count as one; Kafka's classic groups", "count"
    ),
    TableColumn("rebalancing_ns", "time from the first join to the last answer, all rebalances", "ns"),
    TableColumn("errors", "answers that hold an error", "count"),
    TableColumn("clients", "clients that named it", "list"),
)
_REBALANCE_COLUMNS = (
    TableColumn("time", "first join or leave", "time"),
    TableColumn("protocol", "kafka, pulsar or iggy"),
    TableColumn("group", "consumer group"),
    TableColumn("duration_ns", "first join or leave to last answer", "ns"),
    TableColumn("joined", "clients that joined", "count"),
    TableColumn("gone", "clients that left", "count"),
    TableColumn("clients", "who took part", "list"),
    TableColumn("file", "where it began"),
    TableColumn("packet", "", "code"),
)


def rebalances(page: Builder) -> None:
    """Keep the table `rebalances`, which questions to the records may ask from here on."""
    page.keep("steps", _STEPS)
    page.keep("rebalances", _REBALANCES)


def _build(page: Builder) -> Iterator[Any]:
    rebalances(page)
    groups = page.rows(_GROUPS)
    total = page.analysis.facts.totals.get("group")
    yield page.table("groups", _GROUP_COLUMNS, groups, total=max(total or 0, len(groups)), more="records/exchanges")
    yield heading(
        "Rebalances",
        page.table("rebalances", _REBALANCE_COLUMNS, page.rows(f"select * from rebalances order by time, {_GROUP}")),
    )


SECTION = Section(
    "groups",
    "Groups and rebalances",
    "Groups",
    "Consumer groups of Kafka and Iggy, share groups, subscriptions of Pulsar. A rebalance runs from the first join or "
    "leave to the last answer; members do not consume meanwhile.",
    _build,
)
