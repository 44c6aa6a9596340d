"""`python -m tests.cluster.iceberg_updates NAMESPACE FOLDER KEY=VALUE…`: a lake whose updates go to Iceberg.

Raises AssertionError where a table of the catalog does not have what OUT/records has after each step, or its snapshots
are not of the kinds that they should be. KEY=VALUE: settings of the session.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.storage import lake_files
from tests.pipelines.cutting import cut, read, shifted, write
from tests.pipelines.stored import read as stored_rows

SAMPLE = Path(__file__).parents[2] / "samples" / "kafka-transactions.pcap"
TABLES = ("exchanges", "batches", "connections", "findings", "errors")
DAY_NS = 86_400 * 10**9


class Iceberg:
    """A store of captures, its lake, and what the catalog has of it."""

    def __init__(self, namespace: str, folder: Path, settings: list[str]) -> None:
        self.namespace, self.lake, self.day = namespace, folder / "lake", folder / "day"
        self.aside = folder / "aside"
        for path in (self.day, self.aside):
            path.mkdir(parents=True)
        self.words = [word for setting in settings for word in ("--conf", setting)]
        self.words += ["--update", "--engine", "spark", "--table-format", "iceberg", "--namespace", namespace, "-q"]

    def run(self, *words: str) -> None:
        done = CliRunner().invoke(app, [*words])
        assert done.exit_code == 0, f"{done.output}\n{done.exception}"

    def update(self, *new: Path) -> None:
        for path in new:
            shutil.copy(path, self.day)
        self.run("analyze", str(self.day), "-o", str(self.lake), *self.words)
        for table in TABLES:
            assert self.rows(table) == self.expected(table), table

    @property
    def spark(self) -> SparkSession:
        running = SparkSession.getActiveSession()
        assert running is not None
        return running

    def expected(self, table: str) -> list[str]:
        rows: pa.Table = stored_rows(self.lake / "records" / table)
        return sorted(map(repr, (sorted(row.items()) for row in rows.to_pylist())))

    def rows(self, table: str) -> list[str]:
        rows = self.spark.table(f"{self.namespace}.records_{table}").drop("date").toArrow()
        return sorted(map(repr, (sorted(row.items()) for row in rows.to_pylist())))

    def snapshots(self, table: str) -> list[dict[str, Any]]:
        found = self.spark.table(f"{self.namespace}.records_{table}.snapshots").orderBy("committed_at").collect()
        return [row.asDict() for row in found]

    def partitions(self, table: str) -> set[tuple[str, str]]:
        found = self.spark.table(f"{self.namespace}.records_{table}.partitions").select("partition.*").collect()
        return {(str(row["date"]), row["site"]) for row in found}


def main() -> None:
    """Update, and compare."""
    namespace, folder, *settings = sys.argv[1:]
    store = Iceberg(namespace, Path(folder), settings)
    head, packets = read(SAMPLE)
    hours = [store.aside / name for name in sorted(Path(path).name for path in cut(SAMPLE, store.aside, 2))]
    days = []
    for n in (1, 2):
        days.append(Path(write(store.aside / f"day-{n}.pcap", head, shifted(head, packets, n * DAY_NS))))

    store.update(hours[0])
    (first,) = store.snapshots("exchanges")
    assert first["summary"]["brokerscope.captures"] == "1"
    assert first["summary"]["brokerscope.run"] == lake_files.fingerprint(str(store.lake))
    assert "brokerscope.version" in first["summary"]

    store.update(hours[1])
    store.update(days[0])
    made = {table: [one["operation"] for one in store.snapshots(table)] for table in TABLES}
    assert len(made["exchanges"]) == 3, "an update makes one snapshot"
    assert "append" in made["batches"][1:], "rows that only came are appended"
    assert made["connections"][1] == "overwrite", "open connections have other rows now"
    assert len(store.partitions("exchanges")) == 2
    (site,) = {site for _, site in store.partitions("exchanges")}
    assert site == str(store.day)

    before = {table: len(store.snapshots(table)) for table in TABLES}
    store.update()
    assert {table: len(store.snapshots(table)) for table in TABLES} == before, "nothing is new"

    files = f"{namespace}.records_exchanges.files"
    day = store.spark.table(files).where("cast(partition.date as string) = '2026-11-21'")
    kept = {row["file_path"] for row in day.collect()}
    store.update(days[1])
    assert kept <= {row["file_path"] for row in store.spark.table(files).collect()}, "old days stay as they are"
    assert len(store.partitions("exchanges")) == 3

    store.spark.sql(f"call {namespace.split('.')[0]}.system.rewrite_data_files(table => '{namespace}.records_batches')")
    store.run("expire", str(store.lake), "--before", "2026-11-22")
    store.update()
    assert len(store.partitions("exchanges")) == 2, "what has expired goes from the table too"
    last = store.snapshots("batches")[-1]
    assert last["operation"] in ("overwrite", "delete")

    meanings = {
        row["col_name"]: row["comment"] for row in store.spark.sql(f"describe {namespace}.records_batches").collect()
    }
    assert meanings["codec"]
    assert meanings["date"]
    counts = {
        row["col_name"]: row["comment"] for row in store.spark.sql(f"describe {namespace}.tables_latency").collect()
    }
    assert counts["count"]


if __name__ == "__main__":
    main()
