"""What Spark's driver takes for tables and page: `python -m tests.benchmarks.driver [CONNECTIONS [TOPICS]]`.

Records are made up, and their tables computed by a standalone cluster, so that driver and executors are apart. Printed
are the largest resident sizes of the driver's JVM and of this process.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from dissectors.options import Options
from pipelines import report
from pipelines.analyze import CSV_ROWS
from pipelines.spark import session
from pipelines.spark.job import read_records
from pipelines.spark.tables import SparkEngine
from pipelines.tables.compute import compute
from pipelines.tables.on_duckdb import WrittenTables
from pipelines.tables.registry import TABLES
from tests.cluster import servers
from tests.pipelines import made_lake

ROOT = Path(__file__).parents[2]
JVM_MEMORY = "1g"


def main(connections: int, topics: int) -> None:
    """Make records, compute the tables, make the page."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        made_lake.make(out / "records", connections, topics)
        with servers.standalone(Path(name) / "cluster", {}) as cluster:
            words = cluster.conf(Path(sys.executable))[1::2]
            conf = dict(word.split("=", 1) for word in words)
            conf |= {"spark.driver.memory": JVM_MEMORY, "spark.executorEnv.PYTHONPATH": str(ROOT)}
            spark = session.start(cluster.master, light=True, conf=conf)
            with SparkEngine(spark, read_records(spark, str(out / "records"), Options(), [])) as engine:
                compute(engine, out / "tables")
            print(f"tables: JVM {_peak(_driver())} MB, Python {_peak(os.getpid())} MB")
            spark.stop()
        with WrittenTables(out / "tables") as tables:
            for table in TABLES:
                tables.first(table, CSV_ROWS)
        report.write(out)
        print(f"page: Python {_peak(os.getpid())} MB")


def _driver() -> int:
    """The process of the driver's JVM."""
    for folder in Path("/proc").glob("[0-9]*"):
        words = (folder / "cmdline").read_bytes().split(b"\0")
        parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        if parent == str(os.getpid()) and b"org.apache.spark.deploy.SparkSubmit" in words:
            return int(folder.name)
    raise SystemExit("the driver's JVM is not there")


def _peak(process: int) -> int:
    """Its largest resident size, in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*(given + [200_000, 10_000][len(given) :]))
