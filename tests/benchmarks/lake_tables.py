"""What tables and page of a lake cost an update, in CPU-seconds: `python -m tests.benchmarks.lake_tables [HOURS …]`.

Records of hours are made up: 500 connections an hour, each with 50 produces and 50 fetches, 100,000 records in all.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from dissectors.records import DEFAULT_TABLES
from pipelines import report
from pipelines.spark.job import TABLE_MEMORY
from pipelines.tables.compute import compute
from pipelines.tables.on_duckdb import LocalEngine
from tests.pipelines import made_lake

HOURS = (8, 32)
CONNECTIONS, REQUESTS, TOPICS, CLIENTS = 500, 50, 100, 250


def spent(function: Callable[[], object]) -> float:
    """CPU-seconds of this process, all threads."""
    before = time.process_time()
    function()
    return time.process_time() - before


def measured(out: Path) -> tuple[float, float]:
    """CPU-seconds for the tables and for the page of OUT/records."""

    records = out / "records"
    sources = {name: [str(records / name)] for name in DEFAULT_TABLES}

    def tables() -> None:
        with LocalEngine(str(records), sources, out / "scratch", memory=TABLE_MEMORY) as engine:
            bucket_us = compute(engine, out / "tables").bucket_us
        (out / "analysis.json").write_text(json.dumps({"bucket_us": bucket_us, "files": []}))

    return spent(tables), spent(lambda: report.write(out))


def main(*hours: int) -> None:
    print("hours    records   tables     page   (CPU-seconds)")
    with tempfile.TemporaryDirectory() as name:
        out, made = Path(name), 0
        for wanted in sorted(hours or HOURS):
            for hour in range(made, wanted):
                made_lake.make(out / "records", CONNECTIONS, TOPICS, CLIENTS, hour=hour, requests=REQUESTS)
            made = wanted
            records = sum(pq.read_metadata(path).num_rows for path in (out / "records").rglob("*.parquet"))
            print(f"{wanted:5} {records:10,} {'{:8.2f} {:8.2f}'.format(*measured(out))}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
