"""Whoever runs the tasks: results in order, errors as they are, and nothing left running."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dissectors.errors import BrokerscopeError, InputError
from dissectors.options import Options
from pipelines.executors.executor import Executor, in_groups
from pipelines.executors.local import WORTH_BYTES, LocalExecutor
from pipelines.jobs import plan
from pipelines.jobs.records import decode_to_records
from tests.pipelines.test_updates import HOURS, Store, chosen, lake_rows

__all__ = ["chosen"]


def doubled(pairs: Sequence[int]) -> list[int]:
    return [2 * n for n in pairs]


def process_of(item: int) -> int:
    time.sleep(0.2)
    return os.getpid()


def fails_of_three(item: int) -> int:
    if item == 3:
        raise InputError("three is no capture")
    return item


def dies(item: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("size", [0, WORTH_BYTES])
def test_results_come_in_the_order_of_the_items(size: int) -> None:
    executor = LocalExecutor(2)
    assert in_groups(executor, doubled, [*range(11)], 2, "doubling", size) == [2 * n for n in range(11)]
    assert executor.map(doubled, [], "nothing", size) == []


def test_small_work_stays_in_this_process_and_large_work_does_not() -> None:
    executor = LocalExecutor(2)
    assert set(executor.map(process_of, range(2), "small")) == {os.getpid()}
    processes = set(executor.map(process_of, range(4), "large", WORTH_BYTES))
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert set(executor.map(process_of, range(4), "again", WORTH_BYTES)) == processes
    del executor
    assert not any(Path(f"/proc/{process}").exists() for process in processes)
    assert set(LocalExecutor(1).map(process_of, range(2), "alone", WORTH_BYTES)) == {os.getpid()}


@pytest.mark.parametrize("size", [0, WORTH_BYTES])
def test_what_a_task_raises_is_raised_here(size: int) -> None:
    with pytest.raises(InputError, match="three is no capture"):
        LocalExecutor(2).map(fails_of_three, range(8), "failing", size)


class OddError(Exception):
    def __init__(self, first: str, second: str) -> None:  # which no pickle of it knows
        super().__init__(f"{first} {second}")


def fails_oddly(item: int) -> None:
    raise OddError("odd", "one")


def test_an_error_that_cannot_be_pickled_is_told_all_the_same() -> None:
    with pytest.raises(RuntimeError, match="OddError: odd one"):
        LocalExecutor(2).map(fails_oddly, range(2), "failing", WORTH_BYTES)


def test_a_process_that_is_killed_is_named_with_what_helps() -> None:
    with pytest.raises(BrokerscopeError, match=r"was killed by signal 9; with --jobs 1 less memory is needed"):
        LocalExecutor(2).map(dies, range(2), "dying", WORTH_BYTES)


def test_a_process_that_is_killed_between_two_jobs_is_told_too() -> None:
    executor = LocalExecutor(2)
    for process in set(executor.map(process_of, range(4), "waiting", WORTH_BYTES)):
        os.kill(process, signal.SIGKILL)
    with pytest.raises(BrokerscopeError, match=r"was killed.*; with --jobs 1 less memory is needed"):
        executor.map(process_of, range(4), "again", WORTH_BYTES)
    assert len(executor.map(process_of, range(4), "with new ones", WORTH_BYTES)) == 4


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from pipelines.executors.local import WORTH_BYTES, LocalExecutor
from tests.pipelines.test_executors import noted
from functools import partial
LocalExecutor(2).map(partial(noted, {str(tmp_path)!r}), range(2), "waiting", WORTH_BYTES)
"""
    parent = subprocess.Popen([sys.executable, "-c", program])
    while parent.poll() is None and len(list(tmp_path.iterdir())) < 2:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    children = [int(path.name) for path in tmp_path.iterdir()]
    deadline = time.monotonic() + 20
    while (left := [child for child in children if Path(f"/proc/{child}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (len(children), left) == (2, [])


def noted(folder: str, item: int) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)


def test_several_processes_write_the_records_of_one(
    samples: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts and splits are many and small here, and every job is given to other processes."""
    monkeypatch.setattr("pipelines.executors.local.WORTH_BYTES", 0)
    monkeypatch.setattr(plan, "HELD_BYTES", 0)
    found = []
    for jobs, parts, split_bytes in ((1, 1, None), (2, 5, 50_000)):
        executor = LocalExecutor(jobs)
        executor.parts, executor.split_bytes = parts, split_bytes
        out = tmp_path / str(jobs)
        decode_to_records(executor, samples, str(out), Options())
        found.append(lake_rows(out))
        assert [path.name for path in out.iterdir()] == ["records"]
    assert found[0] == found[1]


def test_spark_and_this_machine_go_on_with_the_lake_of_each_other(
    spark: Any, chosen: list[str], tmp_path: Path
) -> None:
    from pipelines.spark.application import Application
    from pipelines.spark.executor import SparkExecutor

    store = Store(tmp_path, chosen[:2])
    executors: list[Executor] = [LocalExecutor(2), SparkExecutor(Application.of(spark))]
    for n in range(HOURS):
        store.arrive(store.hour(n))
        store.update(executors[n % 2])
        assert lake_rows(store.lake) == store.expected(), f"after hour {n}"


def test_jobs_say_in_the_ui_of_spark_what_they_do(spark: Any, samples: list[str], tmp_path: Path) -> None:
    from pipelines.spark.application import Application
    from pipelines.spark.executor import SparkExecutor
    from tests.pipelines.sessions import settings

    context = spark.sparkContext
    context.setJobDescription("of the user")
    steps: list[str] = []
    with settings(spark, {"spark.sql.shuffle.partitions": "2", "spark.brokerscope.splitBytes": "50000"}):
        decode_to_records(SparkExecutor(Application.of(spark), steps.append), samples, str(tmp_path / "out"), Options())
    assert context.getLocalProperty("spark.job.description") == "of the user"
    context.setLocalProperty("spark.job.description", None)
    store = context._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    described = [jobs.apply(n).description() for n in range(jobs.size())]
    shown = {description.get() for description in described if description.isDefined()}
    assert steps
    assert set(steps) <= shown
    assert any(step.startswith(f"reading captures: {len(samples)} files, ") for step in steps)
    assert any(step.startswith("decoding: 2 parts, ") for step in steps)
    assert any(step.startswith("putting in names: ") for step in steps)


def test_a_failing_task_keeps_its_cause_on_spark(spark: Any) -> None:
    from pipelines.spark import session
    from pipelines.spark.application import Application
    from pipelines.spark.executor import SparkExecutor

    with pytest.raises(Exception, match="three is no capture") as raised:
        SparkExecutor(Application.of(spark)).map(partial(fails_of_three), [3], "failing")
    assert "three is no capture" in session.gist(raised.value)


@pytest.mark.parametrize("site", ["folder", "file"])
def test_a_hundred_thousand_captures_are_planned_in_little_memory(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "file_size", lambda path: 16_000)
    files = [f"/captures/host-{n % 50}/{n:08}.pcap" for n in range(100_000)]
    tracemalloc.start()
    try:
        job, works = plan.plan(LocalExecutor(2), files, Options(site=site), str(tmp_path), [])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sorted(number for work in works for number, _ in work.splits) == [*range(len(files))]
    assert max(len(work.splits) for work in works) <= plan.FILES_A_TASK
    assert job.sharing.parts <= 32
    assert peak < 1_000 * len(files)
