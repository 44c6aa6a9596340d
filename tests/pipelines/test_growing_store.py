"""A capture store to which everything happens that happens to one, and its lake."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import dissectors
from dissectors.options import Options
from pipelines.executors.executor import Executor
from pipelines.lake.update import planned, update_records
from tests.pipelines import cutting
from tests.pipelines.test_updates import lake_rows, rows

WRITERS = 3


class Store(RuleBasedStateMachine):
    """Captures of several writers, each of which has begun with its share of the packets of one sample."""

    executor: Executor
    sample: Path
    tmp: pytest.TempPathFactory

    @initialize()
    def begin(self) -> None:
        folder = self.tmp.mktemp("store")
        self.day, self.all, self.lake = folder / "day", folder / "all", folder / "lake"
        self.day.mkdir()
        self.all.mkdir()
        self.head, self.packets = cutting.read(self.sample)
        self.file = [0] * WRITERS  # number of the file to which each writes
        self.written = [0] * WRITERS  # packets of each
        self.since = [0] * WRITERS  # of these, in earlier files
        self.changed = False

    def name(self, writer: int, file: int) -> str:
        return f"{file}-eth{writer}.pcap"

    @rule(writer=st.integers(0, WRITERS - 1), share=st.floats(0.02, 0.5))
    def write(self, writer: int, share: float) -> None:
        mine = self.packets[writer::WRITERS]
        self.written[writer] = min(len(mine), self.written[writer] + round(share * len(mine)))
        data = self.head + b"".join(mine[self.since[writer] : self.written[writer]])
        for folder in (self.day, self.all):
            (folder / self.name(writer, self.file[writer])).write_bytes(data)
        self.changed = True

    @rule(writer=st.integers(0, WRITERS - 1))
    def rotate(self, writer: int) -> None:
        self.file[writer] += 1
        self.since[writer] = self.written[writer]

    def finished(self) -> list[Path]:
        current = {self.name(writer, file) for writer, file in enumerate(self.file)}
        return sorted(path for path in self.day.iterdir() if path.name not in current)

    @precondition(lambda self: self.finished())
    @rule(data=st.data())
    def compress(self, data: Any) -> None:
        path = data.draw(st.sampled_from(self.finished()))
        if path.suffix != ".gz":
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()

    @precondition(lambda self: not self.changed and self.finished())
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        data.draw(st.sampled_from(self.finished())).unlink()

    def bare(self, rows: list[str]) -> list[str]:
        """Rows without the folder of their captures, which are called as they were at first."""
        return sorted(re.sub(f"{self.day}|{self.all}", "", row).replace(".pcap.gz", ".pcap") for row in rows)

    @precondition(lambda self: self.changed)
    @rule()
    def update(self) -> None:
        options = Options()
        files = sorted(map(str, self.day.iterdir()))
        with planned(files, str(self.lake), options) as wanted:
            needed = [file.place for file in wanted.replaced.gone]
        if not needed:
            update_records(self.executor, files, str(self.lake), options)
        else:
            note(f"gone, but needed again: {needed}")
            for path in self.all.iterdir():
                if not any((self.day / f"{path.name}{more}").exists() for more in ("", ".gz")):
                    (self.day / path.name).write_bytes(path.read_bytes())
            update_records(self.executor, sorted(map(str, self.day.iterdir())), str(self.lake), options)
        found = lake_rows(self.lake)
        for name, table in dissectors.dissect(sorted(map(str, self.all.iterdir()))).items():
            assert self.bare(found[name]) == self.bare(rows(table)), name
        self.changed = False


def test_whatever_happens_to_a_store_its_lake_is_as_of_one_run(
    executor: Executor, samples: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    Store.executor, Store.tmp = executor, tmp_path_factory
    Store.sample = next(Path(path) for path in samples if path.endswith("kafka-transactions.pcap"))
    healthy = settings(max_examples=5, stateful_step_count=20, suppress_health_check=list(HealthCheck), print_blob=True)
    run_state_machine_as_test(Store, settings=healthy)
