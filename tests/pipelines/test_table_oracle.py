"""Aggregate tables are what plain Python makes of the same records: see table_oracle.py."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dissectors
from dissectors import records as record_tables
from dissectors.kafka.releases import refused_since
from dissectors.kafka.schema import NO_VERSIONS
from dissectors.session.protocols import protocols
from pipelines.answers.records import database_of
from pipelines.tables.compute import TableEngine, compute
from pipelines.tables.registry import TABLES
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts.engine import judged
from tests.captures import CAPTURES, captures, needs_captures
from tests.pipelines import made_lake, synthetic
from tests.pipelines.colliding import colliding
from tests.pipelines.table_oracle import comparable, tables
from tests.pipelines.test_tables import local_engine, written

BUCKET_US = 1_000_000
JUDGED = ("verdicts", "impacts", "transactions")
"""The tables that are made in this process of all records, whichever engine holds them."""
ALONE = ("upgrades",)
"""Tables that follow lists of the product; their tests look at them case by case."""
CHANGING = {
    api: what
    for protocol in protocols()
    for api, what in protocol.changing().items()
    if api not in ("OffsetCommit", "WriteTxnMarkers")  # many of these are everyday work
}
Records = dict[str, pa.Table]


def test_tables_of_the_samples_are_right(samples: list[str], tmp_path: Path) -> None:
    check_local(dissectors.dissect(samples, RECORDS), tmp_path)


def test_tables_of_made_up_records_are_right(tmp_path: Path) -> None:
    for name, made in (("plain", synthetic.make()), ("resent", synthetic.resent()), ("anew", synthetic.made_anew()),
                       ("aborted", synthetic.aborted())):  # fmt: skip
        check_local(made, tmp_path / name)


def test_tables_of_many_connections_and_topics_are_right(tmp_path: Path) -> None:
    lake = made_lake.make(tmp_path / "lake", connections=900, topics=50, clients=20)
    check_local(
        {name: pq.read_table(lake / name, partitioning=None) for name in record_tables.DEFAULT_TABLES}, tmp_path
    )


@needs_captures
@pytest.mark.parametrize("protocol", ["kafka", "pulsar", "iggy"])
def test_tables_of_captures_from_elsewhere_are_right(protocol: str, tmp_path: Path) -> None:
    assert CAPTURES is not None
    some = [str(path) for path in sorted(captures(protocol).glob("*.pcap"))[:8]]
    check_local(dissectors.dissect(some, RECORDS), tmp_path)


def test_tables_of_connections_that_share_a_hash_are_right(samples: list[str], tmp_path: Path) -> None:
    check_local(colliding(samples), tmp_path)


def check_local(made: Records, folder: Path) -> None:
    with local_engine(written(made, folder / "records")) as engine:
        check(engine, made, folder / "tables")


def check(engine: TableEngine, made: Records, folder: Path) -> None:
    """The tables that the product writes are those of the oracle, row by row."""
    every = {name: made.get(name, record_tables.schema(name).empty_table()) for name in RECORDS}
    with database_of(every) as duckdb:
        judgement = judged(duckdb)
    compute(engine, folder, bucket_us=BUCKET_US, judgement=judgement)
    for name, rows in zip(JUDGED, judgement, strict=True):  # what they say has tests of its own
        assert comparable(pq.read_table(folder / f"{name}.parquet").to_pylist()) == comparable(rows.to_pylist()), name
    wanted = tables({name: table.to_pylist() for name, table in made.items()}, BUCKET_US, refused, CHANGING)
    assert set(wanted) == set(TABLES) - {*JUDGED, *ALONE}
    for name, rows in wanted.items():
        got = pq.read_table(folder / f"{name}.parquet").to_pylist()
        for row in got if name == "errors" else ():
            row.pop("changed_by")  # which changes cause which errors is told by tests of its own, case by case
        written_rows, right_rows = comparable(got), comparable(rows)
        wrong, lacking = set(written_rows) - set(right_rows), set(right_rows) - set(written_rows)
        assert (name, wrong, lacking) == (name, set(), set())
        assert len(written_rows) == len(right_rows), name


def refused(api: int, version: int | None) -> bool:
    """Whether Kafka 4.0 refuses a version of an API."""
    return version is not None and version in refused_since("4.0").get(api, NO_VERSIONS)
