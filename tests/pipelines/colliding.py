"""Records of connections whose texts share a hash in DuckDB: what a query joins or groups by them must not mix them."""

from typing import Any

import duckdb
import pyarrow as pa

import dissectors
from pipelines.tables.table import RECORDS

SHARED_HASHES = 12  # of connections
Records = dict[str, pa.Table]


def colliding(samples: list[str]) -> Records:
    """The records of one connection, for many whose texts share a hash in DuckDB; its topics have such names too."""
    names = colliding_names()
    assert len(names) >= 2 * SHARED_HASHES
    made = dissectors.dissect([path for path in samples if "kafka-codecs" in path], RECORDS)
    connections = made["connections"].to_pylist()
    (one, *_) = sorted((row["connection"] for row in connections), key=lambda c: -_rows_of(made["batches"], c))
    rows = {name: [row for row in table.to_pylist() if row["connection"] == one] for name, table in made.items()}
    lossy = dissectors.dissect([path for path in samples if "kafka-loss" in path], tables=["findings"])
    rows["findings"] = [row for row in lossy["findings"].to_pylist() if row["connection"] is not None][:1]
    return {
        name: pa.Table.from_pylist(
            [_moved(row, to, n) for n, to in enumerate(names) for row in rows[name]], table.schema
        )
        for name, table in made.items()
    }


def colliding_names() -> list[str]:
    """Connections of which each has the hash of another one."""
    found = duckdb.execute(f"""
        with names as (
            select '10.' || a || '.' || b || '.2:' || p || '>10.71.0.1:9092' as name
            from range(1, 40) t(a), range(1, 40) u(b), range(50000, 50040) v(p)
        )
        select list(name order by name) as same from names group by hash(name) having count(*) > 1
        order by same limit {SHARED_HASHES}""").fetchall()
    return [name for (same,) in found for name in same]


def _rows_of(table: pa.Table, connection: str) -> int:
    return table["connection"].to_pylist().count(connection)


def _moved(row: dict[str, Any], name: str, number: int) -> dict[str, Any]:
    """A row as it would be of another connection."""
    ip, _, port = name.partition(">")[0].rpartition(":")
    moved = {**row, "connection": name, "client_ip": ip, "client_port": int(port)}
    if row.get("topic"):
        moved["topic"] = name
    if row.get("exchange_id"):
        moved["exchange_id"] = row["exchange_id"] if number % 2 else f"{number}"
    return moved
