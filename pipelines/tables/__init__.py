"""The aggregate tables: one SQL query each, which DuckDB and Spark run. docs/tables.md is written from here.

latency, errors, throughput, …   one module a subject
table.py         what a table is
dialect.py       what the two engines say differently
points.py        what several capture points saw counts once
verdicts/        what is wrong, in sentences
compute.py       the tables of one run, by an engine
on_duckdb.py     that engine in this process (on Spark: spark/tables.py); and the tables, read again in order
bad_batches.py   bad checksums, and the rows that may tell why
blind_spots.py   what a capture cannot show
"""

from __future__ import annotations

from pipelines.tables.causes import CAUSES
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
from pipelines.tables.verdicts import IMPACTS, VERDICTS

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        VERDICTS, IMPACTS, LATENCY, CAUSES, ERRORS, THROUGHPUT, INTEGRITY, CORRUPT, DELIVERY, HOPS, GROUPS,
        GROUP_EVENTS, TRANSACTIONS, REBALANCES, LAG, LEADERS, CLIENTS, TRAFFIC, HEALTH, FINDINGS, ACTIVITY, DISTRIBUTION,
    )
}  # fmt: skip
PRINTED = (
    "verdicts", "impacts", "latency", "causes", "errors", "throughput", "integrity", "corrupt", "delivery", "hops",
    "groups", "transactions", "rebalances", "lag", "leaders", "clients", "traffic", "health", "findings",
)  # fmt: skip

__all__ = ["BY", "PRINTED", "TABLES", "Ask", "TableColumn", "Table"]
