"""What the page counts of requests."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pyarrow as pa

from dissectors.records import schema
from pipelines.report.counted import count
from pipelines.report.records import Records
from pipelines.tables.on_duckdb import LocalEngine

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
FAILED = {"protocol": "kafka", "api": "JoinGroup", "exchange_id": "x", "time": NOON, "total_ns": 5_000}


def errors_by_site(**expected: bool | None) -> dict[str, int]:
    """Errors that are counted where each site saw one request fail, all of the same id, with an error so expected."""
    rows: dict[str, list[dict[str, Any]]] = {
        "exchanges": [{**FAILED, "site": site, "kind": "call", "status": "error"} for site in expected],
        "errors": [{"site": site, "exchange_id": "x", "expected": part} for site, part in expected.items()],
        "batches": [],
    }
    with duckdb.connect() as connection:
        for name, some in rows.items():
            connection.register(name, pa.Table.from_pylist(some, schema(name)))
        connection.execute("create view all_exchanges as from exchanges")
        records = Records(cast(LocalEngine, SimpleNamespace(duckdb=connection)))
        count(records, 1_000_000)
        found = records.rows(
            "select site, sum(errors)::int as n from request_cells join request_keys using (key) group by 1"
        )
    return {row["site"]: row["n"] for row in found}


def test_an_error_is_expected_at_the_capture_point_that_says_so() -> None:
    assert errors_by_site(east=True, west=False, north=None) == {"east": 0, "west": 1, "north": 1}
