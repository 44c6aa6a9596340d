"""Verdicts on checksums: per protocol as bars, per topic as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.report.section import Builder, Section, columns_of, heading
from pipelines.tables.integrity import VERDICTS


def _build(page: Builder) -> Iterator[Any]:
    sums: dict[tuple[str, str], dict[str, int]] = {}
    rows = page.analysis["integrity"]
    for row in rows:
        one = sums.setdefault((row["protocol"] or "?", row["checksum_kind"] or "none"), dict.fromkeys(VERDICTS, 0))
        for verdict in VERDICTS:
            one[verdict] += row[verdict]
    totals = [{"protocol": p, "checksum_kind": kind, **counts} for (p, kind), counts in sorted(sums.items())]
    if totals:
        page.payload.table("verdicts", columns_of("integrity", totals[0]), totals)
        yield page.view("verdicts")
    yield heading("Checksums that do not hold", page.aggregate("corrupt"))
    worst = sorted(rows, key=lambda r: (-r["bad"], -r["unverifiable"], -r["batches"]))
    yield heading("By topic, client and hour", page.aggregate("integrity", worst))


SECTION = Section(
    "integrity",
    "Integrity",
    "Integrity",
    "Every checksum on the wire, computed again. Bad only where each byte that it covers was captured, unverifiable "
    "where some are missing, absent where the format carries none.",
    _build,
)
