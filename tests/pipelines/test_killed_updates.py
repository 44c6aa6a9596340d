"""Updates of a store are killed (-9) at random: whoever reads it then sees it as of whole hours.

What readers see while a run commits, and after each step of one, has tests of its own in test_lake_commits.py.
"""

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl

import dissectors
from tests.commands import SAMPLES
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


def test_who_reads_a_store_whose_updates_were_killed_sees_whole_hours(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    aside, day, lake = tmp_path / "aside", tmp_path / "day", tmp_path / "lake"
    aside.mkdir()
    day.mkdir()
    hours = cut(SAMPLES / "kafka-transactions.pcap", aside, HOURS)
    known: list[Rows] = []
    for n in range(1, HOURS + 1):
        table = dissectors.dissect(hours[:n], tables=["exchanges"])["exchanges"]
        known.append(sorted(zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True)))

    def update(patience: float | None = None) -> None:
        command = [sys.executable, "-m", "brokerscope", "analyze", str(day), "-o", str(lake), "--update", "--quiet"]
        try:
            subprocess.run([*command, "--records-only", "--engine", "local"], timeout=patience, check=True)
        except subprocess.TimeoutExpired:  # by then it is killed
            return

    shutil.copy(hours[0], day)
    began = time.monotonic()
    update()
    took, before = time.monotonic() - began, 0
    for n in range(KILLS):
        for path in hours[: 1 + n * HOURS // KILLS]:
            shutil.copy(path, day)
        update(chance.uniform(0.2, 1.5) * took)  # some commit, and some come to their end
        seen = {name: sorted(read(lake / "records" / "exchanges")) for name, read in READERS.items()}
        assert all(found in known[before:] for found in seen.values()), f"update {n} of seed {seed}"
        assert seen["duckdb"] == seen["polars"] == seen["pandas"]
        before = known.index(seen["duckdb"])
    for path in hours:
        shutil.copy(path, day)
    update()
    expected = dissectors.dissect(sorted(map(str, day.iterdir())))
    found = lake_rows(lake)
    assert found == {name: rows(expected[name]) for name in found}, f"seed {seed}"
