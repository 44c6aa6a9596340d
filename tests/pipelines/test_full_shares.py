"""More connections than are followed: what is closed early does not depend on how the work is cut or shared out."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dissectors
from dissectors.capture.reader import Reader
from dissectors.limits import SHARES, Limits
from dissectors.options import Options
from dissectors.tcp.grouping import Grouped
from dissectors.tcp.keys import share_of
from tests.benchmarks import hostile
from tests.test_engine import ANSWER, REQUEST

TABLES = ("exchanges", "connections", "findings")
FLOWS = 2 * SHARES


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("full") / "open.pcap"
    hostile.open_connections(path, 2 * FLOWS, [(0, REQUEST), (1, ANSWER)], port=9092, turns=2)
    return path


def rows(made: dict[str, pa.Table]) -> dict[str, list[str]]:
    return {name: sorted(map(repr, table.to_pylist())) for name, table in made.items()}


def decoded(path: Path, **given: Any) -> dict[str, list[str]]:
    jobs = given.pop("jobs", 1)
    limits = Limits(flows=FLOWS, **given)
    return rows(dissectors.dissect([path], tables=list(TABLES), limits=limits, jobs=jobs))


def test_one_connection_and_many_have_the_same_share(capture: Path) -> None:
    for block in Reader(str(capture), 0, Limits(block_packets=500)).blocks():
        for _, _, key, share in Grouped(block, 0).groups():
            assert share_of(key) == share


def test_connections_are_closed_early_whatever_blocks_they_come_in(capture: Path) -> None:
    want = decoded(capture)
    assert sum("closed early" in row for row in want["findings"]) > SHARES // 2
    for packets in (100, 1_000):
        assert decoded(capture, block_packets=packets) == want


def test_several_processes_close_the_same_connections_early(capture: Path) -> None:
    assert decoded(capture, parallel_bytes=0, jobs=3) == decoded(capture)


def test_spark_closes_the_same_connections_early(spark: Any, capture: Path, tmp_path: Path) -> None:
    from pipelines.spark.job import decode_to_records
    from tests.pipelines.sessions import settings

    options = Options(tables=TABLES, limits=Limits(flows=FLOWS))
    with settings(spark, {"spark.sql.shuffle.partitions": "5", "spark.brokerscope.splitBytes": "100000"}):
        made = decode_to_records(spark, [str(capture)], str(tmp_path / "out"), options).records
    assert rows({name: made[name].toArrow() for name in TABLES}) == decoded(capture)
