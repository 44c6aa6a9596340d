"""A store of any size is planned in seconds, and what grows with it does not go through the driver."""

import pickle
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dissectors.errors import InputError, UsageError
from dissectors.limits import MIB, SHARES
from dissectors.options import Options
from pipelines.executors.local import LocalExecutor
from pipelines.jobs import plan
from pipelines.jobs.forecast import Forecast, Listed, forecast, listed
from pipelines.jobs.records import decode_to_records
from pipelines.spark.session import cores
from tests.commands import attempt

TERABYTE = 10**12


def store(terabytes: int, brokers: int = 20) -> list[Listed]:
    """Captures of 125 MB, of so many brokers, that come to a bucket beside each other."""
    files = terabytes * TERABYTE // 125_000_000
    return [Listed(f"s3://captures/broker-{n % brokers}/dt=2026-01-{1 + n % 28:02}/{n:07}.pcap", 125_000_000)
            for n in range(files)]  # fmt: skip


def steps(found: Forecast) -> dict[str, tuple[int, int]]:
    return {step.name: (step.tasks, step.largest) for step in found.steps}


def test_ten_terabytes_have_the_tasks_that_they_need() -> None:
    found = forecast(store(10), Options(), 400)
    assert (found.captures, found.size, found.sites) == (80_000, 10 * TERABYTE, 20)
    tasks, largest = steps(found)["decode"]
    assert tasks > 10 * 400
    assert 256 * MIB < largest <= plan.BYTES_A_PART
    assert steps(found)["cut by connection"][1] <= plan.MOST_CUT
    assert found.copied / found.pieces > plan.PIECE * 0.9  # what one range of a file brings


def test_one_broker_has_at_most_as_many_parts_as_there_are_shares() -> None:
    assert steps(forecast(store(10, brokers=1), Options(), 400))["decode"][0] == SHARES


def test_a_plan_takes_little_memory_and_says_how_much_the_driver_will_take() -> None:
    peaks = []
    for terabytes in (1, 10):
        captures = store(terabytes)
        tracemalloc.start()
        try:
            found = forecast(captures, Options(), 400)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert peaks[-1] < found.driver / 4
    assert peaks[1] < 1_000 * 80_000
    assert found.driver < 1024 * MIB
    assert found.results < 64 * MIB


def test_large_files_are_walked_and_compressed_ones_weigh_what_they_unfold_to() -> None:
    found = forecast([Listed("a/1.pcap", 10_000 * MIB), Listed("a/2.pcap.gz", 1_000 * MIB)], Options(), 8)
    assert found.unpacked == (10_000 + 5_000) * MIB
    assert steps(found)["find places to split"] == (1, 10_000 * MIB)
    assert steps(found)["cut by connection"][1] <= 5_000 * MIB


def test_small_captures_are_decoded_by_who_reads_them() -> None:
    found = forecast([Listed("a.pcap", MIB)], Options(), 8)
    assert steps(found) == {"read and decode": (1, MIB)}
    assert (found.copied, found.pieces, found.spilled) == (0, 0, 0)


def test_a_listing_is_lines_of_path_and_bytes_or_of_json() -> None:
    text = '# of last night\ns3://b/a b\tc.pcap\t12\n\n{"path": "d.pcap", "size": 34}\n'
    assert listed(text.splitlines()) == [Listed("s3://b/a b\tc.pcap", 12), Listed("d.pcap", 34)]


@pytest.mark.parametrize(
    "line", ["a.pcap 12", "a.pcap\t", "\t12", "a\t-1", "{}", '{"path": "a"}', "{", "[1]", "{" * 9999]
)
def test_a_line_that_names_no_capture_is_an_error(line: str) -> None:
    with pytest.raises(InputError, match="line 2"):
        listed(["a\t1", line])


def test_cores_are_those_that_settings_name() -> None:
    assert cores("local[3]", {}) == 3
    assert cores("yarn", {"spark.executor.instances": "100", "spark.executor.cores": "4"}) == 400
    assert cores("yarn", {"spark.dynamicAllocation.maxExecutors": "7"}) == 7
    assert cores("spark://h:7077", {"spark.cores.max": "12"}) == 12
    for settings in ({}, {"spark.cores.max": "many"}):
        with pytest.raises(UsageError, match=r"spark\.cores\.max"):
            cores("yarn", settings)


def test_explain_prints_a_plan_and_writes_nothing(tmp_path: Path) -> None:
    listing = tmp_path / "store.tsv"
    listing.write_text("".join(f"{path}\t{size}\n" for path, size in store(1)))
    said = attempt("analyze", listing, "--explain", "--master", "local[64]")
    assert (said.exit_code, said.stderr) == (0, "")
    assert "8,000 captures of 20 capture points: 931 GiB" in said.stdout
    assert "decode" in said.stdout
    assert [*tmp_path.iterdir()] == [listing]


class Counting(LocalExecutor):
    """Runs tasks here, and weighs what each returns to the driver."""

    parts = 40
    split_bytes = 20_000

    def __init__(self) -> None:
        super().__init__(1)
        self.largest: dict[str, int] = {}

    def map(self, task: Callable[[Any], Any], items: Sequence[Any], described_as: str, size: int = 0) -> list[Any]:
        results = super().map(task, items, described_as, size)
        step = described_as.partition(":")[0]
        self.largest[step] = max(len(pickle.dumps(result)) for result in results) if results else 0
        return results


def test_what_a_task_returns_does_not_grow_with_what_it_read(
    samples: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "HELD_BYTES", 0)
    monkeypatch.setattr(plan, "PIECES_A_SORT", 50)
    executor = Counting()
    decode_to_records(executor, samples, str(tmp_path / "out"), Options())
    assert executor.largest.keys() >= {"reading captures", "sorting packets by part", "decoding"}
    assert executor.largest["reading captures"] < 1_024
    assert executor.largest["decoding"] < 1_500
    assert executor.largest["sorting packets by part"] < 40 * 100
