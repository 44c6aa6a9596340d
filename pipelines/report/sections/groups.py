"""Consumer groups and subscriptions: who is in them, and when they rebalanced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.report.payload import CARRIED, first_names
from pipelines.report.section import Builder, Section, heading
from pipelines.sql.words import CLIENT
from pipelines.tables.dialect import DuckDB
from pipelines.tables.rebalances import REBALANCES
from pipelines.tables.table import Ask, TableColumn

JOINS = ("JoinGroup", "SUBSCRIBE", "JOIN_CONSUMER_GROUP")
LEAVES = ("LeaveGroup", "UNSUBSCRIBE", "CLOSE_CONSUMER", "LEAVE_CONSUMER_GROUP")
COMMITS = ("OffsetCommit", "TxnOffsetCommit", "ACK", "STORE_CONSUMER_OFFSET")

_GROUP = 'protocol, "group"'
_OWNED = f"{_GROUP}, owner"  # Kafka's groups are told apart by name, others by the topic that they belong to as well
_OWNER = "case when protocol <> 'kafka' then topics[1] end as owner"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


_GROUPS = f"""
    with rebalanced as (
        select {_GROUP}, count(*) as rebalances, sum(duration_ns)::bigint as rebalancing_ns
        from rebalances group by all),
    used as (
        select {_GROUP}, {_OWNER}, count(distinct {CLIENT}) as members, count(*) as exchanges,
               {first_names("client", CLIENT)},
               count(*) filter (api in ({_list(JOINS)})) as joins, count(*) filter (api in ({_list(LEAVES)})) as leaves,
               count(*) filter (api in ({_list(COMMITS)})) as commits, count(*) filter (status = 'error') as errors,
               sum(records) filter (kind in ('call', 'push') and coalesce(records, 0) > 0)::bigint as messages
        from exchanges where "group" is not null group by all),
    named as (
        select {_OWNED}, {first_names("topic")}
        from (select {_GROUP}, {_OWNER}, unnest(topics) as topic from exchanges where "group" is not null) group by all)
    select used.*, topics, topics_total, rebalances, rebalancing_ns, count(*) over () as total
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
    TableColumn("rebalances", "how often the members joined again; Kafka's classic groups", "count"),
    TableColumn("rebalancing_ns", "time from the first join to the last answer in the capture, all rebalances", "ns"),
    TableColumn("errors", "answers that hold an error", "count"),
    TableColumn("clients", "clients that named it", "list"),
)


def rebalances(page: Builder) -> None:
    """Keep the table `rebalances`, which questions to the records may ask from here on."""
    page.keep(REBALANCES.name, REBALANCES.query(DuckDB(), Ask()))


def _build(page: Builder) -> Iterator[Any]:
    rebalances(page)
    yield page.table("groups", _GROUP_COLUMNS, page.rows(_GROUPS), more="records/exchanges")
    found = page.rows(f"""
        select * replace (epoch_us(time) as time), count(*) over () as total from rebalances
        order by {REBALANCES.ordering} limit {CARRIED}""")
    columns = [column for column in REBALANCES.columns if column.name in REBALANCES.headline]
    yield heading("Rebalances", page.table(REBALANCES.name, columns, found, more="records/exchanges"))


SECTION = Section(
    "groups",
    "Groups and rebalances",
    "Consumer groups of Kafka and Iggy, share groups, subscriptions of Pulsar. A rebalance runs from the first join "
    "that was accepted to the last answer to a SyncGroup; members do not consume meanwhile.",
    _build,
)
