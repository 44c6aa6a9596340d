"""An OUT folder that nobody analysed: records and tables of any size, with any names, for tests of the page."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dissectors.records import schema
from pipelines.tables.registry import TABLES
from pipelines.tables.table import TableColumn
from pipelines.tables.verdicts import SCHEMA as VERDICTS
from tests.pipelines import synthetic

START = datetime.fromtimestamp(synthetic.START // 1_000_000_000, UTC)
NUMBERS = {"ns", "bytes", "bytes/s", "1/s", "share", "ratio", "count", "code"}
YES_OR_NO = ("long_poll", "retriable", "proven", "expected")
WORDS = {"protocol": "kafka", "severity": "warning", "verdict": "bad", "role": "produce"}


def folder(out: Path, records: dict[str, pa.Table], tables: dict[str, list[dict[str, Any]]]) -> Path:
    """Write an OUT folder; tables that are not given are empty."""
    for name, rows in records.items():
        (out / "records" / name).mkdir(parents=True)
        pq.write_table(rows, out / "records" / name / "part-0.parquet")
    (out / "tables").mkdir(parents=True)
    for name, described in TABLES.items():
        given = tables.get(name, [])
        made = {c.name: pa.array([row.get(c.name) for row in given], _type(c)) for c in described.columns}
        pq.write_table(pa.table(made), out / "tables" / f"{name}.parquet")
    return out


def rows(table: str, count: int, name: str = "name") -> list[dict[str, Any]]:
    """Rows of a table in which each text has `name` in it and each number is at hand."""
    return [{c.name: _value(c, n, name) for c in TABLES[table].columns} for n in range(count)]


def records(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Records of which only the columns that are given are there."""
    given = {name for row in rows for name in row}
    return pa.Table.from_pylist(rows, schema=pa.schema([f for f in schema(table) if f.name in given]))


def _value(column: TableColumn, n: int, name: str) -> Any:
    if column.unit in NUMBERS:
        return 1000 + n
    if column.name in YES_OR_NO:
        return False
    if column.unit == "time":
        return START + timedelta(seconds=n % 100)
    if column.unit == "list":
        return [f"{name}-{n}-{i}" for i in range(5)]
    if column.unit == "rows":
        return []
    if column.name in WORDS:
        return WORDS[column.name]
    if column.name == "connection":
        return f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}:40000>10.0.0.1:9092"
    return f"{name}-{n}"


def _type(column: TableColumn) -> pa.DataType:
    if column.unit == "time":
        return pa.timestamp("us", "UTC")
    if column.unit == "list":
        return pa.list_(pa.string())
    if column.unit == "rows":
        return VERDICTS.field(column.name).type
    if column.name in YES_OR_NO:
        return pa.bool_()
    if column.unit in ("share", "ratio", "1/s", "bytes/s"):
        return pa.float64()
    return pa.int64() if column.unit in NUMBERS else pa.string()


def exchanges(count: int, topics: int, clients: int, seconds: int = 120) -> pa.Table:
    """Requests of many clients to many topics; columns that no question needs are left out, as old versions did."""
    rng, n = np.random.default_rng(1), np.arange(count)
    client = n % clients
    addresses = np.array([f"10.{c >> 16 & 255}.{c >> 8 & 255}.{c & 255}" for c in range(clients)])
    wait = (rng.lognormal(1, 1, count) * 1e6).astype("int64")
    times = np.datetime64(synthetic.START // 1000, "us") + (n * (seconds * 1_000_000 // count)).astype("m8[us]")
    names = np.array([f"topic-{t:04}" for t in range(topics)])
    offsets = pa.array(np.arange(count + 1), pa.int32())
    return pa.table(
        {
            "protocol": pa.array(np.array(["kafka", "pulsar", "iggy"])[n % topics % 3]),
            "connection": pa.array([f"{a}:40000>10.9.0.1:9092" for a in addresses[client]]),
            "client_ip": pa.array(addresses[client]),
            "server_ip": pa.array(np.array(["10.9.0.1", "10.9.0.2", "fd00::1"])[n % topics % 3]),
            "server_port": pa.array(np.full(count, 9092), pa.int32()),
            "kind": pa.array(np.where(n % 500 == 3, "unanswered", "call")),
            "api": pa.array(np.array(["Produce", "Fetch", "Metadata", "SEND"])[n % 4]),
            "client_id": pa.array([f"client-{c}" for c in client]),
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "wait_ns": pa.array(wait),
            "total_ns": pa.array(wait + 1000, mask=n % 500 == 3),
            "status": pa.array(np.where(n % 97 == 0, "error", "ok")),
            "error_name": pa.array(np.where(n % 97 == 0, "NOT_LEADER_OR_FOLLOWER", np.array(None)), pa.string()),
            "topics": pa.ListArray.from_arrays(offsets, pa.array(names[n % topics])),
            "long_poll": pa.array(n % 50 == 7),
            "request_file": pa.array(["captures/it's here.pcap"] * count),
            "request_packet": pa.array(n + 1),
        }
    )
