"""Records and tables as Iceberg's, by PySpark 4.1: no release of Iceberg fits a later one."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster import servers
from tests.cluster.runs import ROOT, SAMPLES, SITE, Out

PYSPARK = "pyspark>=4.1,<4.2"
ICEBERG = "iceberg-spark-runtime-4.1_2.13"
VERSION = "1.12.0"


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar, from Maven Central."""
    folder = tmp_path_factory.mktemp("iceberg")
    artifact = f"-Dartifact=org.apache.iceberg:{ICEBERG}:{VERSION}"
    copy = "org.apache.maven.plugins:maven-dependency-plugin:copy"
    servers.maven("Iceberg", copy, artifact, f"-DoutputDirectory={folder}")
    return folder / f"{ICEBERG}-{VERSION}.jar"


@pytest.fixture(scope="module")
def older_spark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers.older_spark(tmp_path_factory.mktemp("older") / "python", PYSPARK)


def settings(iceberg: Path, warehouse: Path) -> dict[str, str]:
    """Those of a session with a catalog `lake`."""
    return {
        "spark.jars": str(iceberg),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
        "spark.driver.memory": "1g",
    }


def test_iceberg_follows_the_updates_of_a_lake_by_snapshots(iceberg: Path, older_spark: Path, tmp_path: Path) -> None:
    conf = settings(iceberg, tmp_path / "warehouse")
    command = [str(older_spark), "-m", "tests.cluster.iceberg_updates", "lake.x.y", str(tmp_path / "store")]
    command += ["=".join(pair) for pair in conf.items()]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_iceberg_has_the_records_and_tables_of_out(iceberg: Path, older_spark: Path, tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "kept"
    conf = settings(iceberg, tmp_path / "warehouse")
    words = [
        "analyze",
        str(SAMPLES),
        "-o",
        str(out),
        SITE,
        "-q",
        "--table-format",
        "iceberg",
        "--namespace",
        "lake.x.y",
    ]
    words += [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    command = [str(older_spark), "-m", "tests.cluster.catalog_tables", "lake.x.y", str(kept), *words]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert list((tmp_path / "warehouse" / "x" / "y").glob("*/metadata/*.metadata.json"))
    assert Out.read(str(kept)).differs(Out.read(str(out))) == {}
