"""Several processes: the same rows, and a clean end whatever happens."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dissectors import workers
from dissectors.capture.block import PacketBlock
from dissectors.capture.reader import Reader
from dissectors.errors import BrokerscopeError
from dissectors.forensics import Investigation
from dissectors.limits import Limits
from dissectors.local_decoder import LocalDecoder, can_share
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.run import Run
from dissectors.tcp.keys import connection_hashes
from dissectors.workers import WorkerCommand, Workers, received, shared
from tests.benchmarks import captures

SAMPLES = Path(__file__).parent.parent / "samples"
CAPTURES = sorted(p for p in SAMPLES.iterdir() if p.suffix in (".pcap", ".pcapng"))
MANY = Limits(block_bytes=20_000, decode_bytes=60_000, parallel_bytes=0)  # several blocks, several releases

pytestmark = pytest.mark.skipif(not can_share(), reason="this system has no memfd_create or no fork")


def tables(paths: list[Path], jobs: int, site: str = "folder", limits: Limits = MANY) -> dict[str, pa.Table]:
    options = Options(tables=tuple(TABLES), full=True, payloads=True, jobs=jobs, limits=limits, site=site)
    gathered: dict[str, list[pa.RecordBatch]] = {}
    for table, batch in Run([str(path) for path in paths], options).records():
        gathered.setdefault(table, []).append(batch)
    return {table: pa.Table.from_batches(batches) for table, batches in gathered.items()}


@pytest.mark.parametrize("jobs", [2, 3])
def test_rows_and_their_order_do_not_depend_on_the_number_of_processes(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start = Workers._start
    monkeypatch.setattr(Workers, "_start", lambda *given: started.append(given) or start(*given))  # type: ignore[func-returns-value]
    one, many = tables(CAPTURES, 1), tables(CAPTURES, jobs)
    assert len(started) == jobs
    assert one.keys() == many.keys()
    for table in one:
        assert many[table].equals(one[table]), table


def test_a_shared_block_gives_each_worker_whole_connections_and_all_of_them_every_packet() -> None:
    (block,) = Reader(str(SAMPLES / "kafka-transactions.pcap"), 0, Limits()).blocks()
    commands = [
        WorkerCommand("add_secrets", (b"odd",)),
        WorkerCommand("feed", ("site", block, 7)),
        WorkerCommand("decode", (7,)),
    ]
    parts = []
    for index in range(3):
        secrets, feed, decode = received(*shared(commands, 3), index)
        assert (secrets, decode) == (commands[0], commands[2])
        site, part, clock = feed.arguments
        assert (site, clock) == ("site", 7)
        parts.append(part)
    assert sorted(number for part in parts for number in part.number.tolist()) == block.number.tolist()
    keys = [set(connection_hashes(part).tolist()) for part in parts]
    assert sum(map(len, keys)) == len(set.union(*keys))
    for part in parts:
        same = block.take(np.flatnonzero(np.isin(block.number, part.number)))
        assert_equal(part, same)


def test_a_block_that_is_for_one_worker_reaches_it_whole_and_no_other() -> None:
    (block,) = Reader(str(SAMPLES / "kafka-transactions.pcap"), 0, Limits()).blocks()
    feed = [WorkerCommand("feed", (site, block, 7), owner) for site, owner in (("a", 1), ("b", 0), ("c", 1))]
    for index, sites in enumerate(("b", "ac", "")):
        commands = list(received(*shared(feed, 3), index))
        assert [command.arguments[0] for command in commands] == list(sites)
        for command in commands:
            assert_equal(command.arguments[1], block)


def assert_equal(one: PacketBlock, other: PacketBlock) -> None:
    for name in (field.name for field in fields(one) if field.name != "buffer"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert bytes(one.buffer) == bytes(other.buffer)


def test_a_site_that_is_sent_whole_is_decoded_by_one_process_and_any_other_by_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owners: list[int | None] = []
    share = workers.shared

    def noted(commands: list[WorkerCommand], jobs: int) -> tuple[int, int]:
        owners.extend(command.owner for command in commands if command.name == "feed")
        return share(commands, jobs)

    monkeypatch.setattr(workers, "shared", noted)
    limits = Limits(parallel_bytes=0)
    one, several = (tables(CAPTURES, jobs, site="file", limits=limits) for jobs in (1, 2))
    assert all(several[table].equals(one[table]) for table in one)
    assert set(owners) == {0, 1, None}


def test_checksums_that_are_wrong_are_found_by_several_processes_as_by_one() -> None:
    def verdicts(jobs: int) -> tuple[object, ...]:
        found = Investigation([str(path) for path in CAPTURES], Options(jobs=jobs, limits=MANY))
        found.run()
        cases = [(case.row["connection"], case.row["position"]) for case in found.cases()]
        return found.verdicts, found.inner, found.table, cases

    assert verdicts(2) == verdicts(1)


def test_kept_rows_keep_no_other_rows_in_memory() -> None:
    options = Options(tables=("exchanges", "findings"), jobs=2, limits=MANY)
    kept = [rows for table, rows in Run([str(path) for path in CAPTURES], options).records() if table == "findings"]
    assert len(kept) > 1
    assert "memfd:" not in Path("/proc/self/maps").read_text()


def test_a_small_capture_takes_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        pytest.fail("a worker was started")

    monkeypatch.setattr(Workers, "_start", never)
    assert list(Run([str(CAPTURES[0])], Options(jobs=2)).records())


def test_an_error_in_a_worker_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: LocalDecoder, clock: int) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(LocalDecoder, "decode", broken)
    with pytest.raises(ValueError, match="broken"):
        tables(CAPTURES, 2)


def test_a_worker_that_is_killed_is_one_error_and_no_process_is_left() -> None:
    others = children(os.getpid())  # a Java that an earlier test began
    run = Run([str(path) for path in CAPTURES], Options(jobs=2, limits=MANY))
    rows = run.records()
    next(rows)
    workers = [child for child in children(os.getpid()) if child not in others]
    os.kill(workers[0], signal.SIGKILL)
    with pytest.raises(BrokerscopeError, match="killed by signal 9"):
        list(rows)
    assert len(workers) == 2
    assert not set(children(os.getpid())) & set(workers)


def test_rows_that_nobody_wants_any_more_leave_no_process() -> None:
    others = children(os.getpid())
    rows = Run([str(path) for path in CAPTURES], Options(jobs=2, limits=MANY)).records()
    next(rows)
    assert len(children(os.getpid())) == len(others) + 2
    rows.close()  # type: ignore[attr-defined]
    assert children(os.getpid()) == others


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_when_the_command_ends_its_workers_end(number: int, code: int, tmp_path: Path) -> None:
    path = tmp_path / "tiny.pcap"
    captures.produce(path, 40_000_000, records=1, value_bytes=60)
    command = [sys.executable, "-m", "brokerscope", "dissect", str(path), "--jobs", "2", "-f", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()  # from here on nobody reads: the command waits
    until = time.monotonic() + 60
    while len(workers := children(process.pid)) < 2:
        assert time.monotonic() < until
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Traceback" not in printed
    until = time.monotonic() + 60
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < until, "a worker outlives the command"
        time.sleep(0.1)


def children(pid: int) -> list[int]:
    """Its child processes."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
