"""A worker that is killed in the middle of a job changes no row: its work is done again, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dissectors
from tests.pipelines.conftest import SAMPLES
from tests.pipelines.killing import STAGES
from tests.pipelines.test_spark_update import lake_rows, rows

pytest.importorskip("pyspark")


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
