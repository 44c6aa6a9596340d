"""Spark Connect: a server in a process of its own, and one that the client starts."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import servers
from tests.cluster.runs import ROOT, SAMPLES, Out, brokerscope

SMALL = [str(SAMPLES / f"{name}.pcap") for name in ("kafka-codecs", "pulsar-corrupted", "iggy-messages")]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Out:
    """What one process makes of some captures."""
    folder = tmp_path_factory.mktemp("small")
    return Out.made_of(SMALL, folder / "out", folder, "--engine", "local")


def test_a_connect_server_gives_the_same_rows(small: Out, tmp_path: Path) -> None:
    with servers.connect_server(tmp_path) as url:
        made = Out.made_of(SMALL, tmp_path / "out", tmp_path, "--master", url)
        by_spark = ("--master", url, "--conf", "spark.brokerscope.tableRows=0")
        tables = Out.made_of(SMALL, tmp_path / "tables", tmp_path, *by_spark)
    assert made.differs(small) == {}
    assert tables.differs(small) == {}


def test_a_session_as_of_pyspark_remote_local_gives_the_same_rows(
    small: Out, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc_status", reason="make test-cluster installs it")
    monkeypatch.setenv("SPARK_REMOTE", "local")
    made = Out.made_of(SMALL, tmp_path / "out", tmp_path, "--engine", "spark")
    assert made.differs(small) == {}


def test_without_its_packages_connect_is_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked" / "grpc"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('none here')")
    path = os.pathsep.join([str(blocked.parent), str(ROOT)])
    words = ("analyze", SMALL[0], "-o", str(tmp_path / "out"), "--master", "sc://127.0.0.1:1", "--quiet")
    done = brokerscope(*words, env={"PYTHONPATH": path})
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert line.startswith("brokerscope: sc://127.0.0.1:1: Spark Connect needs packages that are not here: pip install")


def test_a_server_that_is_not_there_is_one_line_within_seconds(tmp_path: Path) -> None:
    pytest.importorskip("grpc_status", reason="make test-cluster installs it")
    began = time.monotonic()
    done = brokerscope("analyze", SMALL[0], "-o", str(tmp_path / "out"), "--master", "sc://127.0.0.1:1", "--quiet")
    assert time.monotonic() - began < 60
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert line.startswith("brokerscope: sc://127.0.0.1:1: no Spark Connect server answers (failed to connect")
    assert not (tmp_path / "out").exists()


CALLS = """
import sys
from pipelines.cli import exits
from pipelines.spark import session

with exits.termination():
    there = session.begin(sys.argv[1])
    print("connected", flush=True)
    input()
    print("calling", flush=True)
    print(there.session.conf.getAll)
"""


def test_a_process_whose_server_went_ends_when_it_is_told_to(tmp_path: Path) -> None:
    def said() -> str:
        assert running.stdout is not None
        return running.stdout.readline().strip()

    with servers.connect_server(tmp_path) as url:
        pipe = subprocess.PIPE
        running = subprocess.Popen([sys.executable, "-c", CALLS, url], stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        assert said() == "connected"
    try:
        assert running.stdin is not None
        running.stdin.write("\n")
        running.stdin.flush()
        assert said() == "calling"
        time.sleep(2)
        running.terminate()
        assert running.communicate(timeout=30)[0] == ""
        assert running.returncode == 143
    finally:
        running.kill()
