"""A worker that is killed in the middle of a job changes no row: its work is done again, once."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dissectors
from pipelines.cli.analyze import _spark_errors
from pipelines.cli.exits import NOTHING_MADE
from tests.pipelines.conftest import SAMPLES
from tests.pipelines.killing import STAGES
from tests.pipelines.test_updates import lake_rows, rows

pytest.importorskip("pyspark")
pytestmark = pytest.mark.xdist_group("spark")


def test_a_worker_killed_in_each_stage_changes_no_row(tmp_path: Path) -> None:
    master = os.environ.get("BROKERSCOPE_KILL_MASTER", "local[2,4]")  # local-cluster[2,1,1024] kills whole executors
    captures = [str(SAMPLES / f"{name}.pcap") for name in ("kafka-codecs", "kafka-refused")]
    command = [sys.executable, "-m", "tests.pipelines.killing", master, str(tmp_path / "out"), *captures]
    command += ["--markers", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == list(STAGES)
    expected = {name: rows(table) for name, table in dissectors.dissect(captures).items()}
    assert lake_rows(tmp_path / "out") == expected
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["records"]


def begun(out: Path, *options: str) -> subprocess.Popen[str]:
    """A job on Spark over the samples, in a session of its own."""
    command = [sys.executable, "-m", "brokerscope", "analyze", str(SAMPLES), "-o", str(out), "-q", "--engine", "spark"]
    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize("group", [False, True], ids=["to this process", "to all of the terminal"])
def test_an_interrupt_ends_the_job_without_a_word_of_java(tmp_path: Path, group: bool) -> None:
    job = begun(tmp_path / "out")
    while job.poll() is None and not list(tmp_path.rglob(".brokerscope-*")):
        time.sleep(0.05)
    (os.killpg if group else os.kill)(job.pid, signal.SIGINT)
    _, errors = job.communicate()
    assert job.returncode == 130
    assert errors.strip() == ""
    assert not (tmp_path / "out").exists()


def members(session: int) -> dict[int, str]:
    """The processes of a session that have not ended: their numbers, and the programs that they run."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            name, _, rest = stat.read_text().partition("(")[2].rpartition(") ")
            state, _, _, its_session = rest.split()[:4]
            if int(its_session) == session and state != "Z":
                found[int(stat.parent.name)] = name
    return found


def test_an_interrupt_that_spark_cannot_cancel_is_one_all_the_same() -> None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    def cancel() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Py4JError("Gateway must be connected to send cancel cmd.")  # noqa: B904 (as Py4J raises it)

    with pytest.raises(KeyboardInterrupt), _spark_errors("spark", None):
        cancel()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")
@pytest.mark.parametrize("phase", ["planning", "decoding"])
def test_a_termination_ends_the_job_and_its_java(tmp_path: Path, phase: str) -> None:
    job = begun(tmp_path / "out")

    def has_come() -> bool:
        if phase == "decoding":
            return any(tmp_path.rglob("part-*.parquet"))
        return "java" in members(job.pid).values()

    while job.poll() is None and not has_come():
        time.sleep(0.05)
    job.terminate()
    _, errors = job.communicate(timeout=120)
    said = "brokerscope: terminated, before the answer was whole; files that -o names are as they were"
    assert (job.returncode, errors.strip()) == (143, said)
    deadline = time.monotonic() + 30
    while members(job.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert members(job.pid) == {}
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")
def test_java_that_is_killed_ends_the_job_with_one_line_that_says_so(tmp_path: Path) -> None:
    worker = tmp_path / "python"  # what Java starts for its first task, which kills it
    worker.write_text(
        f'#!/bin/sh\n[ "$(cat /proc/$PPID/comm)" != java ] || kill -9 $PPID\nexec {sys.executable} "$@"\n'
    )
    worker.chmod(0o700)
    job = begun(tmp_path / "out", "--conf", f"spark.pyspark.python={worker}")
    _, errors = job.communicate(timeout=120)
    assert job.returncode == NOTHING_MADE
    assert len(errors.splitlines()) == 1
    assert "Spark's Java process has ended" in errors
    assert "signal 9" in errors
    assert not (tmp_path / "out").exists()
