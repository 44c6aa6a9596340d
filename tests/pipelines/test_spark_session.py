"""A session heeds what the user has set, and a job says at once what its workers lack."""

import os
import subprocess
import sys
import time
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import typer

from dissectors.errors import BrokerscopeError
from dissectors.options import Options
from pipelines.cli.analyze import _conf
from pipelines.jobs import plan
from pipelines.jobs.cutting import Sharing, Spread, survey
from pipelines.jobs.surveys import Surveys, begun
from pipelines.sources.register import register
from pipelines.spark import session
from pipelines.spark.application import Application, is_local
from pipelines.spark.daemon import without_archives
from pipelines.spark.executor import SparkExecutor
from pipelines.spark.job import decode_to_records

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "kafka-loss.pcap"


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local[2,4]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)],
)
def test_only_a_local_master_is_local(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_spark_defaults_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# ours\nspark.driver.memory   4g\nspark.eventLog.dir=hdfs://x:1/y\n\nother.key 1\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert session._defaults() == {"spark.driver.memory": "4g", "spark.eventLog.dir": "hdfs://x:1/y"}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))
    assert session._defaults() == {}


def test_in_local_mode_nothing_listens_to_other_machines() -> None:
    assert {session._local(light)[key] for light in (True, False) for key in ("spark.driver.host",
            "spark.driver.bindAddress")} == {"127.0.0.1"}  # fmt: skip


def test_conf_is_as_spark_has_it() -> None:
    assert _conf(["spark.a.b=1", "spark.c=x=y"]) == {"spark.a.b": "1", "spark.c": "x=y"}
    for wrong in ("spark.a", "other.key=1"):
        with pytest.raises(typer.BadParameter):
            _conf([wrong])


def test_a_running_session_keeps_its_settings_but_those_that_are_asked_for(spark: Any) -> None:
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    again = session.start(conf={"spark.brokerscope.splitBytes": "1000"})
    try:
        assert again is spark
        assert spark.conf.get("spark.brokerscope.splitBytes") == "1000"
        assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == before
        assert session.start(conf={"spark.master": str(spark.conf.get("spark.master"))}) is spark  # as it is already
        with pytest.raises(BrokerscopeError, match=r"spark\.driver\.memory"):
            session.start(conf={"spark.driver.memory": "3g"})
    finally:
        spark.conf.unset("spark.brokerscope.splitBytes")


def test_parts_follow_the_bytes_and_the_cores(spark: Any) -> None:
    executor = SparkExecutor(Application.of(spark))
    assert (executor.cores, executor.parts, executor.split_bytes) == (2, None, None)
    assert plan.fair(48 * plan.LEAST_BYTES, 2, 12, plan.BYTES_A_PART) == 2 * plan.LEAST_BYTES
    assert plan.fair(1 << 40, 2, 12, plan.BYTES_A_PART) == plan.BYTES_A_PART
    assert plan.fair(plan.HELD_BYTES + 1, 2, 12, plan.BYTES_A_PART) == plan.LEAST_BYTES


def test_what_one_task_can_hold_is_not_shared_out(spark: Any, samples: list[str]) -> None:
    job, works = plan.plan(SparkExecutor(Application.of(spark)), samples, Options(), "", [])
    assert (job.sharing.parts, len(works)) == (1, 1)


def test_a_large_share_has_a_part_of_its_own_before_all_others() -> None:
    keys = np.arange(10, dtype=np.uint64) << np.uint64(54)  # the first connection of each of ten shares
    parts = Sharing(7, {"a": Spread(2, 3, (7, 4))}).of("a", keys)
    assert (parts[7], parts[4]) == (2, 3)
    assert sorted(set(np.delete(parts, [4, 7]).tolist())) == [4, 5, 6]


def test_a_walk_that_has_begun_is_waited_for_and_one_that_has_not_is_left_to_tasks(samples: list[str]) -> None:
    path = next(p for p in samples if p.endswith(".pcap"))
    limits = Options().limits
    with begun([path], 20_000, limits) as surveys:
        while surveys._walks[path]._state == "PENDING":
            time.sleep(0.01)
        assert surveys.take(path) == survey(path, 20_000, limits)
        assert surveys.take("another") is None
    assert Surveys(20_000, {path: Future()}).take(path) is None


def test_a_walk_ends_when_nobody_waits_for_it_any_more(samples: list[str]) -> None:
    path = next(p for p in samples if p.endswith(".pcap"))

    def stop() -> None:
        raise CancelledError

    with pytest.raises(CancelledError):
        survey(path, 20_000, Options().limits, stop)


def test_workers_that_write_where_the_driver_cannot_read_are_found_at_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Application, "is_local", False)
    SparkExecutor(Application.of(spark)).check(str(tmp_path / "shared"))
    with pytest.raises(BrokerscopeError, match="does not share"):
        SparkExecutor(Application.of(spark)).check("memory://each-process-has-its-own/staging")


def test_a_set_without_any_readable_file_is_an_error(spark: Any, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.pcap"
    foreign.write_bytes(b"nothing of the sort")
    with pytest.raises(BrokerscopeError, match=r"foreign\.pcap"):
        decode_to_records(spark, [str(foreign)], str(tmp_path / "out"), Options())
    assert list((tmp_path / "out").glob("*")) == []


def test_a_session_of_another_python_is_told_what_to_set_for_the_format(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # without the packages of this one
    other.chmod(0o755)
    program = """
import pipelines.spark.session
from dissectors.errors import BrokerscopeError
from pipelines.sources.register import register
spark = pipelines.spark.session.start("local[1]", light=True)
try:
    register(spark)
except BrokerscopeError as error:
    print(error)
"""
    env = os.environ | {"PYSPARK_PYTHON": str(other), "PYSPARK_DRIVER_PYTHON": str(other)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert f"set PYSPARK_PYTHON={sys.executable} before the session begins" in done.stdout


def test_a_session_that_has_brokerscope_registers_the_format(spark: Any) -> None:
    register(spark)
    assert "payload" in spark.read.format("pcap").load(".").columns


NUMPY = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "numpy/__init__.py", line 120, in <module>
ImportError:

IMPORTANT: PLEASE READ THIS FOR ADVICE ON HOW TO SOLVE THIS ISSUE!

Original error was: _multiarray_umath.so: failed to map segment from shared object
\tat org.apache.spark.api.python.BasePythonRunner"""


@pytest.mark.parametrize(
    ("text", "cause", "setting"),
    [
        (NUMPY, "a Python worker ran out of memory", "spark.executor.pyspark.memory"),
        (
            "PythonException\nMemoryError\n\tat java",
            "a Python worker ran out of memory",
            "spark.executor.pyspark.memory",
        ),
        ("x\nCaused by: java.io.EOFException: Python worker exited unexpectedly (crashed)", "killed", "memoryOverhead"),
        ("Job aborted\njava.lang.OutOfMemoryError: Java heap space", "Java ran out of memory", "spark.executor.memory"),
        ("java.io.IOException: No space left on device\n\tat sun.nio", "a disk is full", "spark.local.dir"),
        ('Job aborted: Cannot run program "/no/python": error=2', "/no/python", "spark.pyspark.python"),
        ("ValueError: odd\n\tat x", "ValueError: odd", ""),
        ("", "Exception", ""),
    ],
)
def test_the_line_of_a_failure_names_its_cause_and_the_setting_to_change(text: str, cause: str, setting: str) -> None:
    line = session.gist(Exception(text))
    assert cause in line
    assert setting in line
    assert "\n" not in line


def test_why_spark_stopped_is_read_from_the_log_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Exception("Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:\n")
    monkeypatch.setattr(session, "_log", tmp_path / "spark.log")
    assert "Spark stopped while it worked" in session.gist(stopped)
    killed = (
        "12:00 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: Master removed our application"
    )
    (tmp_path / "spark.log").write_text(f"{killed}: FAILED\n")
    line = session.gist(stopped)
    assert "executors do not start" in line
    assert "Master removed our application: FAILED" in line


def where_pyspark_lies(item: object) -> str:
    import pyspark

    return pyspark.__file__


def test_workers_on_this_machine_run_the_installed_pyspark_and_not_its_archive(spark: Any) -> None:
    import pyspark

    (there,) = SparkExecutor(Application.of(spark)).map(where_pyspark_lies, [1], "looking")
    assert there == pyspark.__file__


def has_pandas(item: object) -> bool:
    pa.array([None])
    return "pandas" in sys.modules


def test_a_command_on_spark_loads_no_pandas_here_or_in_its_workers(tmp_path: Path) -> None:
    program = """
import sys
from pipelines.pandas_guard import without_pandas
from pipelines.spark import session
from pipelines.spark.executor import SparkExecutor
from tests.pipelines.test_spark_session import has_pandas

without_pandas()
print(SparkExecutor(session.begin("local[1]", light=True)).map(has_pandas, [1], "looking"), "pandas" in sys.modules)
"""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "[False] False\n", done.stderr


def test_archives_of_pyspark_stay_on_the_path_where_nothing_else_has_it() -> None:
    import pyspark

    archives = ["/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip"]
    installed = str(Path(pyspark.__file__).parents[1])
    assert without_archives([*archives, installed]) == [installed]
    assert without_archives([*archives, "/nowhere"]) == [*archives, "/nowhere"]


def test_tasks_need_no_session_and_one_that_is_made_later_has_their_context(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from pyspark import SparkContext
from pyspark.sql import SparkSession
from dissectors.options import Options
from pipelines.analyze import Execution, analyze
from pipelines.spark import application, session
Path({str(tmp_path / "out")!r}).mkdir()
execution = Execution("local[1]", {{"spark.brokerscope.splitBytes": "50000"}})
outcome = analyze([{str(SAMPLE)!r}], Path({str(tmp_path / "out")!r}), Options(), "spark", execution=execution)
assert outcome.page.is_file()
assert SparkSession.getActiveSession() is None
assert application.running().settings["spark.brokerscope.splitBytes"] == "50000"
made = session.start(conf={{"spark.sql.shuffle.partitions": "3"}})
assert made.sparkContext is SparkContext._active_spark_context
print(made.conf.get("spark.sql.shuffle.partitions"), made.conf.get("spark.sql.session.timeZone"), made.range(3).count())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("3 UTC 3", 0), done.stderr
