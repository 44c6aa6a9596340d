"""Consumer groups and subscriptions: who is in them, and when they rebalanced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.report.payload import CARRIED, first_names
from pipelines.report.section import Builder, Section, heading
from pipelines.sql.words import CLIENT
from pipelines.tables.dialect import DuckDB
from pipelines.tables.groups import GROUP_EVENTS, GROUPS
from pipelines.tables.lag import LAG
from pipelines.tables.rebalances import REBALANCES
from pipelines.tables.table import Ask, TableColumn

_CLIENTS = TableColumn("clients", "clients that named it", "list")


def rebalances(page: Builder) -> None:
    """Keep the rows of the table `rebalances`, which questions to the records may ask from here on."""
    page.keep(REBALANCES.known, REBALANCES.query(DuckDB(), Ask()))


def _build(page: Builder) -> Iterator[Any]:
    rebalances(page)
    for table in (LAG, GROUP_EVENTS):
        page.keep(table.known, table.query(DuckDB(), Ask()))
    groups = page.rows(f"""
        with named as (
            select protocol, "group", case when protocol <> 'kafka' then topics[1] end as topic,
                {first_names("client", CLIENT)}
            from exchanges where "group" is not null group by all
        )
        select *, count(*) over () as total from (
            select g.*, coalesce(clients, []) as clients, coalesce(clients_total, 0) as clients_total
            from ({GROUPS.query(DuckDB(), Ask())}) g left join named n on n.protocol = g.protocol
                and n."group" = g."group" and n.topic is not distinct from g.topic
        ) order by {GROUPS.ordering} limit {CARRIED}""")
    yield page.table(GROUPS.name, (*GROUPS.columns, _CLIENTS), groups, more="records/exchanges")
    found = page.rows(f"""
        select * replace (epoch_us(time) as time), count(*) over () as total from {REBALANCES.known}
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
