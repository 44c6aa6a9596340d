"""Verdicts on checksums: per protocol as bars, per topic as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.report.section import Builder, Section, columns_of, heading
from pipelines.tables.integrity import VERDICTS

_VERDICTS = f"""
    select coalesce(protocol, '?') as protocol, coalesce(checksum_kind, 'none') as checksum_kind,
        {", ".join(f"sum({verdict})::bigint as {verdict}" for verdict in VERDICTS)}
    from integrity group by all order by protocol, checksum_kind"""


def _build(page: Builder) -> Iterator[Any]:
    rows = page.analysis["integrity"]
    totals = page.tables(_VERDICTS)
    if totals:
        page.payload.table("verdicts", columns_of("integrity", totals[0]), totals)
        yield page.view("checksums")
    yield heading("Checksums that do not hold", page.aggregate("corrupt"))
    worst = sorted(rows, key=lambda r: (-r["bad"], -r["unverifiable"], -r["batches"]))
    yield heading("By topic, client and hour", page.aggregate("integrity", worst))


SECTION = Section(
    "integrity",
    "Integrity",
    "Every checksum on the wire, computed again. Bad only where each byte that it covers was captured, unverifiable "
    "where some are missing, absent where the format carries none.",
    _build,
)
