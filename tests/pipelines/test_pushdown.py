"""Filters, columns and a limit of a query reach who decodes, and change no row that the query gives."""

import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from dissectors.errors import UsageError
from pipelines.sources import decoded
from pipelines.sources.decoded import BrokerscopeDataSource, FilteredReader, RecordsReader
from pipelines.sources.parts import PartRun
from pipelines.sources.pushdown import ENABLED, Ends, can_test, ends_of, passes, site_of

SAMPLES = Path(__file__).parents[2] / "samples"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = pa.RecordBatch.from_pydict(
    {
        "api": ["Produce", "Fetch", None, "fetch"],
        "server_port": pa.array([9092, None, 9093, 1], pa.int32()),
        "time": pa.array([NOON, None, NOON.replace(hour=13), NOON.replace(hour=11)], pa.timestamp("us", "UTC")),
        "complete": [True, None, False, True],
        "topics": [["a"], [], None, ["b"]],
    }
)


def rows_of(*tests: Filter) -> list[int]:
    """Which rows pass, from 0 on."""
    numbered = ROWS.append_column("n", pa.array(range(ROWS.num_rows)))
    return cast(list[int], passes(numbered, tests).column("n").to_pylist())


@pytest.mark.parametrize(
    ("test", "want"),
    [
        (EqualTo(("api",), "Fetch"), [1]),
        (Not(EqualTo(("api",), "Fetch")), [0, 3]),  # of null nothing is known
        (EqualNullSafe(("api",), "Fetch"), [1]),
        (Not(EqualNullSafe(("api",), "Fetch")), [0, 2, 3]),
        (EqualNullSafe(("api",), None), [2]),
        (In(("api",), ("Fetch", "Produce")), [0, 1]),
        (Not(In(("api",), ("Fetch", "Produce"))), [3]),
        (In(("api",), ("Fetch", None)), [1]),
        (Not(In(("api",), ("Fetch", None))), []),
        (IsNull(("api",)), [2]),
        (IsNotNull(("topics",)), [0, 1, 3]),
        (Not(IsNull(("api",))), [0, 1, 3]),
        (GreaterThan(("server_port",), 9092), [2]),
        (GreaterThanOrEqual(("server_port",), 9092), [0, 2]),
        (LessThan(("server_port",), 9092), [3]),
        (LessThanOrEqual(("server_port",), 9092), [0, 3]),
        (GreaterThanOrEqual(("time",), NOON), [0, 2]),
        (EqualTo(("complete",), True), [0, 3]),
        (StringStartsWith(("api",), "Pro"), [0]),
        (StringEndsWith(("api",), "etch"), [1, 3]),
        (StringContains(("api",), "o"), [0]),
        (Not(StringContains(("api",), "o")), [1, 3]),
    ],
)
def test_a_filter_leaves_the_rows_of_which_it_is_true(test: Filter, want: list[int]) -> None:
    assert can_test(test, ROWS.schema)
    assert rows_of(test) == want


def test_all_filters_are_to_be_true() -> None:
    assert rows_of(GreaterThan(("server_port",), 1), EqualTo(("api",), "Produce")) == [0]


@pytest.mark.parametrize(
    "test",
    [
        EqualTo(("api", "inner"), "x"),
        EqualTo(("none",), "x"),
        EqualTo(("topics",), "x"),
        EqualTo(("api",), 7),
        EqualTo(("server_port",), 1 << 40),
        EqualTo(("time",), datetime(2026, 1, 1)),
        EqualTo(("time",), "2026-01-01"),
        LessThan(("server_port",), math.nan),
        StringContains(("server_port",), "9"),
    ],
)
def test_a_filter_that_rows_cannot_be_tested_with_is_sparks(test: Filter) -> None:
    assert not can_test(test, ROWS.schema)


def test_ports_addresses_and_capture_points_are_taken_from_filters() -> None:
    tests = [
        EqualTo(("server_port",), 9092),
        In(("client_port",), (1, 2, None)),
        EqualTo(("server_ip",), "10.0.0.1"),
        EqualTo(("client_ip",), "no address"),
        Not(EqualTo(("server_port",), 9093)),
        GreaterThan(("server_port",), 9000),
        EqualTo(("api",), "Fetch"),
    ]
    assert ends_of(tests) == (Ends(ports=(9092,)), Ends(ports=(1, 2)), Ends(hosts=("10.0.0.1/32",)))
    assert site_of([EqualTo(("api",), "Fetch"), In(("site",), ("/a", "/b"))]) == "/a,/b"
    assert site_of([EqualTo(("site",), "/a*")]) is None
    assert site_of([Not(EqualTo(("site",), "/a"))]) is None


def made(reader: RecordsReader) -> list[dict[str, Any]]:
    batches = (
        batch
        for partition in pickle.loads(pickle.dumps(reader.partitions()))
        for batch in cast(Iterator[pa.RecordBatch], pickle.loads(pickle.dumps(reader)).read(partition))
    )
    return [row for batch in batches for row in batch.to_pylist()]


def reader(monkeypatch: pytest.MonkeyPatch | None = None, **options: str) -> RecordsReader:
    if monkeypatch is not None:
        monkeypatch.setattr(decoded, "is_asked_for_filters", lambda: True)
    source = BrokerscopeDataSource({"path": str(SAMPLES), **options})
    return cast(RecordsReader, source.reader(source.schema()))


def test_a_reader_gives_the_rows_of_its_filters_and_decodes_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    every = made(reader())
    port = every[0]["server_port"]
    wanted = [EqualTo(("server_port",), port), GreaterThan(("total_ns",), 0), EqualTo(("topics",), "x")]
    filtered = reader(monkeypatch)
    assert isinstance(filtered, FilteredReader)
    assert list(filtered.pushFilters(wanted)) == wanted[2:]
    kept: list[int] = []
    select: Callable[..., Any] = PartRun.select

    def counting(self: PartRun, block: Any) -> Any:
        found = select(self, block)
        kept.append(0 if found is None else len(found) - len(block))
        return found

    monkeypatch.setattr(PartRun, "select", counting)
    want = [row for row in every if row["server_port"] == port and (row["total_ns"] or 0) > 0]
    assert sorted(map(repr, made(filtered))) == sorted(map(repr, want))
    assert 0 < len(want) < len(every)
    assert min(kept) <= 0


def test_a_reader_takes_filters_only_where_spark_hands_them_over() -> None:
    assert type(reader()) is RecordsReader


def test_columns_are_those_that_are_named_in_that_order() -> None:
    rows = made(reader(columns="total_ns, api,api"))
    assert {tuple(row) for row in rows} == {("total_ns", "api")}
    with pytest.raises(UsageError, match="no such column: apu; did you mean api"):
        reader(columns="apu")


def test_a_limit_ends_the_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(made(reader(limit="7"))) == 7
    assert made(reader(limit="0")) == []
    assert len(made(reader(limit="1000000"))) > 100


def test_filters_of_spark_reach_the_reader_and_explain_shows_them(spark: Any) -> None:
    from tests.pipelines.sessions import settings

    captures = spark.read.format("brokerscope").load(str(SAMPLES))

    def asked() -> Any:
        return captures.where("api = 'Fetch' and server_port > 1 and total_ns is not null").select("api", "server_port")

    with settings(spark, {ENABLED: "false"}):
        want = sorted(map(tuple, asked().collect()))
    with settings(spark, {ENABLED: "true"}):
        plan = StringIO()
        with redirect_stdout(plan):
            asked().explain(mode="formatted")
        assert sorted(map(tuple, asked().collect())) == want
        assert captures.where("time > timestamp'2100-01-01 00:00:00'").count() == 0
        assert captures.where("time > timestamp'2000-01-01 00:00:00'").count() == captures.count()
    assert want
    pushed = next(line for line in plan.getvalue().splitlines() if line.startswith("PushedFilters"))
    assert "EqualTo(api,Fetch)" in pushed
    assert "GreaterThan(server_port,1)" in pushed
    assert "Filter (" not in plan.getvalue()
