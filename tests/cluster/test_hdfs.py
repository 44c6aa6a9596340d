"""A small HDFS: captures and results by the NameNode (hdfs://) and by its gateway (webhdfs://)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.storage import filesystem
from tests.cluster import servers
from tests.cluster.runs import Out, brokerscope, upload_samples
from tests.cluster.servers import Hdfs


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with servers.hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        upload_samples(f"{running.url}/captures")
        yield running


@pytest.mark.parametrize(
    ("scheme", "engine"), [("hdfs", "local"), ("hdfs", "spark"), ("webhdfs", "local"), ("webhdfs", "spark")]
)
def test_the_rows_are_those_of_a_run_over_local_files(
    hdfs: Hdfs, expected: Out, tmp_path: Path, scheme: str, engine: str
) -> None:
    root = hdfs.url if scheme == "hdfs" else hdfs.web
    made = Out.made_of([f"{root}/captures/samples"], f"{root}/out-{scheme}-{engine}", tmp_path, "--engine", engine)
    assert made.differs(expected) == {}


def test_spark_reads_the_records_by_its_own_client_of_hdfs(hdfs: Hdfs, expected: Out, tmp_path: Path) -> None:
    by_spark = ("--engine", "spark", "--conf", "spark.brokerscope.tableRows=0")
    made = Out.made_of([f"{hdfs.url}/captures/samples"], f"{hdfs.url}/by-spark", tmp_path, *by_spark)
    assert made.differs(expected) == {}


def test_a_session_of_spark_connect_starts_its_server_after_hdfs_was_read(
    hdfs: Hdfs, expected: Out, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc_status", reason="make test-cluster installs it")
    monkeypatch.setenv("SPARK_REMOTE", "local")
    made = Out.made_of([f"{hdfs.url}/captures/samples"], f"{hdfs.url}/connect", tmp_path, "--engine", "spark")
    assert made.differs(expected) == {}


def test_another_run_replaces_all_of_the_first(hdfs: Hdfs, expected: Out, tmp_path: Path) -> None:
    out, captures = f"{hdfs.url}/replaced", f"{hdfs.url}/captures/samples"
    Out.made_of([f"{captures}/kafka-*"], out, tmp_path, "--engine", "local")
    assert Out.made_of([captures], out, tmp_path, "--engine", "local").differs(expected) == {}
    assert filesystem.folders(out, ".") == []


def test_without_a_client_of_hdfs_it_is_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked" / "hdfs_native"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('none here')")
    done = brokerscope("summary", "hdfs://127.0.0.1:1/x.pcap", env={"PYTHONPATH": f"{blocked.parent}:{servers.ROOT}"})
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("brokerscope: hdfs://127.0.0.1:1/x.pcap: ")
