"""The aggregate tables: records in, Spark DataFrames out. One module a subject; docs/tables.md is written from here."""

from __future__ import annotations

from pipelines.tables.clients import CLIENTS
from pipelines.tables.delivery import DELIVERY
from pipelines.tables.errors import ERRORS
from pipelines.tables.findings import FINDINGS
from pipelines.tables.health import HEALTH
from pipelines.tables.integrity import CORRUPT, INTEGRITY
from pipelines.tables.latency import ACTIVITY, DISTRIBUTION, LATENCY
from pipelines.tables.table import BY, Ask, Column, Table
from pipelines.tables.throughput import THROUGHPUT

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        LATENCY, ERRORS, THROUGHPUT, INTEGRITY, CORRUPT, DELIVERY, CLIENTS, HEALTH, FINDINGS, ACTIVITY, DISTRIBUTION,
    )
}  # fmt: skip
PRINTED = ("latency", "errors", "throughput", "integrity", "corrupt", "delivery", "clients", "health", "findings")

__all__ = ["BY", "PRINTED", "TABLES", "Ask", "Column", "Table"]
