"""All aggregate tables, in the order in which they are told."""

from __future__ import annotations

from pipelines.tables.causes import CAUSES
from pipelines.tables.changes import CHANGES
from pipelines.tables.clients import CLIENTS
from pipelines.tables.delivery import DELIVERY
from pipelines.tables.errors import ERRORS
from pipelines.tables.findings import FINDINGS
from pipelines.tables.groups import GROUP_EVENTS, GROUPS
from pipelines.tables.health import HEALTH, TRAFFIC
from pipelines.tables.hops import HOPS
from pipelines.tables.integrity import CORRUPT, INTEGRITY
from pipelines.tables.lag import LAG
from pipelines.tables.latency import ACTIVITY, DISTRIBUTION, LATENCY
from pipelines.tables.leaders import LEADERS
from pipelines.tables.rebalances import REBALANCES
from pipelines.tables.table import BY, Ask, Table, TableColumn
from pipelines.tables.throughput import THROUGHPUT
from pipelines.tables.transactions import TRANSACTIONS
from pipelines.tables.upgrades import UPGRADES
from pipelines.tables.verdicts import IMPACTS, VERDICTS

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        VERDICTS, IMPACTS, LATENCY, CAUSES, ERRORS, THROUGHPUT, INTEGRITY, CORRUPT, DELIVERY, HOPS, GROUPS,
        GROUP_EVENTS, TRANSACTIONS, REBALANCES, LAG, LEADERS, CHANGES, CLIENTS, UPGRADES, TRAFFIC, HEALTH, FINDINGS,
        ACTIVITY, DISTRIBUTION,
    )
}  # fmt: skip
READ_BY_OTHERS = (CHANGES, REBALANCES, LAG, GROUP_EVENTS)
"""Tables whose rows queries of others read, as `known_<name>`: those that these read come before them."""

PRINTED = (
    "verdicts", "impacts", "latency", "causes", "errors", "throughput", "integrity", "corrupt", "delivery", "hops",
    "groups", "transactions", "rebalances", "lag", "leaders", "changes", "clients", "upgrades",
    "traffic", "health", "findings",
)  # fmt: skip

__all__ = ["BY", "PRINTED", "TABLES", "Ask", "TableColumn", "Table"]
