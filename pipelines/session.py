"""A Spark session that starts light, keeps quiet and leaves nothing in the user's folder."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
LOGGING = Path(__file__).with_name("log4j2.properties")

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # what pyarrow, pandas and duckdb read back unchanged
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.python.unix.domain.socket.enabled": "true",  # 10 to 20 % more through the Python boundary
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # small tables: few tasks
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.shuffle.compress": "true",
}


def start(master: str | None = None, *, light: bool = False) -> SparkSession:
    """The running session, else a new one.

    master: any Spark master; local[*] by default. light: the work is small, so do not spend more on compiling than it
    would save: the JVM stays with its quick compiler, which halves the time of a short local run.
    """
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    machine = java.find()
    os.environ["JAVA_HOME"] = str(machine.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # a machine's name need not resolve
    scratch = tempfile.mkdtemp(prefix="brokerscope-spark-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    builder = SparkSession.builder.appName("brokerscope").master(master or LOCAL)
    for key, value in {**SETTINGS, **_places(scratch), **_launch(light and _is_local(master))}.items():
        builder = builder.config(key, value)
    if _is_local(master):
        builder = builder.config("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))
    with _stderr_to(Path(scratch, "spark.log")):
        return builder.getOrCreate()


def _is_local(master: str | None) -> bool:
    return (master or LOCAL).startswith("local")


def _places(scratch: str) -> dict[str, str]:
    """Everything that Spark would put into the current folder goes to a temporary one."""
    return {
        "spark.sql.warehouse.dir": str(Path(scratch, "warehouse")),
        "spark.local.dir": scratch,
        "spark.sql.artifact.isolation.enabled": "false",
    }


def _launch(light: bool) -> dict[str, str]:
    """How the JVM starts: our logging, room for sorts and broadcasts."""
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if light else []
    options += [f"-Dlog4j2.configurationFile={LOGGING.as_uri()}", f"-Dderby.system.home={tempfile.gettempdir()}"]
    return {"spark.driver.extraJavaOptions": " ".join(options), "spark.driver.memory": "2g"}


@contextlib.contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """A process started meanwhile writes its stderr to a file: JVMs chat there about their own flags."""
    sys.stderr.flush()
    keep = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(keep, 2)
        os.close(keep)
        os.close(log)
