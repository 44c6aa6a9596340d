"""Updates of a store are killed (-9) at random while others read it: each reader sees the store as of whole hours."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl

import dissectors
from tests.pipelines.cutting import cut
from tests.pipelines.test_updates import lake_rows, rows

HOURS, KILLS = 4, 5
COLUMNS = ("exchange_id", "kind")
Rows = list[tuple[str, str]]  # exchange_id and kind, in order: an answer that comes later makes another kind of a row
READERS: dict[str, Callable[[Path], Rows]] = {
    "duckdb": lambda folder: duckdb.connect().sql(f"select {', '.join(COLUMNS)} from '{folder}/*.parquet'").fetchall(),
    "polars": lambda folder: pl.read_parquet(folder, columns=[*COLUMNS]).rows(),
    "pandas": lambda folder: [*pd.read_parquet(folder, columns=[*COLUMNS]).itertuples(index=False, name=None)],
}


class Reading(threading.Thread):
    """Reads a store again and again by one library, as docs/spark.md says: from the folder that the link leads to."""

    def __init__(self, name: str, lake: Path, runs: list[float], known: list[Rows]) -> None:
        """runs: grows with each update that begins. known: the rows as of so many hours."""
        super().__init__(name=name)
        self.records, self.runs, self.known = lake / "records", runs, known
        self.over = threading.Event()
        self.seen: Counter[str] = Counter()  # "as of 1", "as of 2", …, or what was wrong

    def run(self) -> None:
        while not self.over.is_set():
            begun, folder = len(self.runs), os.path.realpath(self.records)
            try:
                found = sorted(READERS[self.name](Path(folder, "exchanges")))
                seen = (
                    f"as of {self.known.index(found) + 1}" if found in self.known else f"a mixture of {len(found)} rows"
                )
            except Exception as error:
                seen = f"{type(error).__name__}: {error}"
            replaced = os.path.realpath(self.records) != folder
            # what a commit replaced stays until the next update begins
            self.seen["too late" if replaced and len(self.runs) > begun and "as of" not in seen else seen] += 1


def kill_updates(capture: Path, folder: Path, kills: int, seed: int) -> dict[str, Counter[str]]:
    """Update a store that grows, and kill most updates; what each reader saw meanwhile.

    capture: is cut into hours. The last update is not killed: its rows must be those of one run over everything.
    """
    chance = random.Random(seed)
    aside, day, lake = folder / "aside", folder / "day", folder / "lake"
    aside.mkdir()
    day.mkdir()
    hours = cut(capture, aside, HOURS)
    known: list[Rows] = []
    for n in range(1, HOURS + 1):
        table = dissectors.dissect(hours[:n], tables=["exchanges"])["exchanges"]
        known.append(sorted(zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True)))
    runs: list[float] = []

    def begin() -> subprocess.Popen[bytes]:
        runs.append(time.monotonic())
        command = [sys.executable, "-m", "brokerscope", "analyze", str(day), "-o", str(lake), "--update", "--quiet"]
        return subprocess.Popen([*command, "--records-only", "--engine", "local"], stdout=subprocess.DEVNULL)

    shutil.copy(hours[0], day)
    assert begin().wait() == 0
    took = time.monotonic() - runs[0]
    readers = [Reading(name, lake, runs, known) for name in READERS]
    for reader in readers:
        reader.start()
    try:
        for n in range(kills):
            for path in hours[: 1 + n * HOURS // kills]:
                shutil.copy(path, day)
            process = begin()
            time.sleep(chance.uniform(0.2, 1.5) * took)  # some commit, and some come to their end
            process.kill()
            process.communicate()
        for path in hours:
            shutil.copy(path, day)
        assert begin().wait() == 0
    finally:
        for reader in readers:
            reader.over.set()
        for reader in readers:
            reader.join()
    expected = dissectors.dissect(sorted(map(str, day.iterdir())))
    found = lake_rows(lake)
    assert found == {name: rows(expected[name]) for name in found}, f"seed {seed}"
    return {reader.name: reader.seen for reader in readers}


def test_who_reads_a_store_while_its_updates_are_killed_sees_whole_hours(samples: list[str], tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    capture = next(Path(path) for path in samples if path.endswith("kafka-transactions.pcap"))
    for name, seen in kill_updates(capture, tmp_path, KILLS, seed).items():
        assert any(text.startswith("as of") for text in seen), f"{name} read nothing: seed {seed}"
        wrong = [text for text in seen if text != "too late" and not text.startswith("as of")]
        assert not wrong, f"{name}, seed {seed}"
