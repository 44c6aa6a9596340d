"""What directions remember of delivered bytes: in bundles, compressed after a while, and let go in time."""

import numpy as np
import pytest

from dissectors.tcp.chunk import Chunk
from dissectors.tcp.recent import RECENT_NS, BundledRun, History, Runs

SECOND = 1_000_000_000
AMPLE = 1 << 30


def chunk(offset: int, *pieces: bytes, time: int = 0, packet: int = 1) -> Chunk:
    """Segments one microsecond apart."""
    starts = [offset + sum(map(len, pieces[:i])) for i in range(len(pieces))]
    numbers = range(len(pieces))
    return Chunk.of(offset, b"".join(pieces), starts, [0] * len(pieces), [packet + i for i in numbers],
                 [time + 1000 * i for i in numbers])  # fmt: skip


def remember(history: History, runs: Runs, *new: Chunk) -> Runs:
    for run in new:
        runs.append(run)
        history.keep(runs)
    return runs


def plain(run: Chunk) -> tuple[object, ...]:
    return run.offset, run.data, list(run.starts), list(run.packet_refs), list(run.times)


def seen(history: History, runs: Runs) -> list[tuple[object, ...]]:
    looked = (history.look(runs, i) for i in range(len(runs)))
    return [(run.offset, run.data, list(run.starts), list(run.packet_refs), list(run.times)) for run in looked]


@pytest.mark.parametrize("limit", [AMPLE, 100_000])
def test_runs_come_back_as_they_were_plain_or_compressed(limit: int) -> None:
    history = History(limit)
    many: list[list[Chunk]] = [
        [chunk(100 * n, b"a" * n, b"bc", time=n * SECOND, packet=n), chunk(100 * n + 2 + n, b"d", b"ef" * n, time=n)]
        for n in range(1, 200)
    ]
    remembered = [remember(history, [], *runs) for runs in many]
    history.trim(0)
    bundles = {run.bundle for runs in remembered for run in runs if isinstance(run, BundledRun)}
    assert all(isinstance(run, BundledRun) for runs in remembered for run in runs)
    assert {bundle.plain is None for bundle in bundles} == {limit != AMPLE}
    assert [seen(history, runs) for runs in remembered] == [[plain(run) for run in runs] for runs in many]


def test_fresh_runs_are_seen_before_they_are_in_a_bundle_and_among_bundled_ones() -> None:
    history = History(AMPLE)
    first, second = chunk(0, b"one", b"two"), chunk(6, b"three")
    runs = remember(history, [], first)
    history.trim(0)
    remember(history, runs, second)
    assert seen(history, runs) == [plain(first), plain(second)]


def test_runs_are_let_go_when_nothing_is_compared_with_them_any_more() -> None:
    history = History(AMPLE)
    runs = remember(history, [], chunk(0, b"old", time=0))
    history.trim(0)
    remember(history, runs, chunk(3, b"new", time=RECENT_NS))
    history.trim(RECENT_NS)
    assert len(runs) == 2
    history.trim(RECENT_NS + 2 * SECOND)
    assert [run.offset for run in runs] == [3]
    assert not history.forgotten


def test_beyond_the_limit_the_oldest_are_forgotten_and_counted() -> None:
    history = History(20_000)
    noise = np.random.default_rng(1).bytes(1_000)
    directions: list[Runs] = []
    for n in range(100):
        directions.append(remember(history, [], chunk(0, noise[n:] + noise[:n], time=n)))
        history.trim(n)
    known = [bool(runs) for runs in directions]
    assert not known[0]
    assert known[-1]
    assert known == sorted(known)  # the oldest ones
    assert history.forgotten == known.count(False)


def test_of_the_oldest_what_is_still_remembered_is_compressed_and_later_ones_stay_plain() -> None:
    history = History(100_000)
    directions: list[Runs] = [[] for _ in range(100)]
    new: list[Chunk] = []
    for n in range(8):
        new = [chunk(100 * n, bytes([n, i]) * 50, time=n) for i in range(100)]
        for runs, run in zip(directions, new, strict=True):
            remember(history, runs, run)
        for runs in directions[::2]:  # the others remember all
            if len(runs) > 1:
                history.drop(runs.pop(0))
        history.trim(n)
        assert history._size <= 100_000
    kept = [run.bundle for runs in directions for run in runs if isinstance(run, BundledRun)]
    compressed = {bundle for bundle in kept if bundle.plain is None}
    assert compressed
    assert any(bundle.plain is not None for bundle in kept)
    assert sum(bundle.runs for bundle in compressed) == sum(bundle.plain is None for bundle in kept)
    assert [seen(history, runs)[-1] for runs in directions] == [plain(run) for run in new]
    assert [run[0] for run in seen(history, directions[1])] == [100 * n for n in range(8)][-len(directions[1]) :]


def test_a_bundle_goes_when_its_last_run_is_dropped() -> None:
    history = History(AMPLE)
    runs = remember(history, [], chunk(0, bytes(10_000)), chunk(10_000, bytes(10_000)))
    history.trim(0)
    taken = history._size
    history.drop(runs.pop(0))
    assert history._size == taken
    history.drop(runs.pop(0))
    assert history._size == 0
