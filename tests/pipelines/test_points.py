"""What two capture points saw is one story: everything counts once, and hops says what lies between them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.answers import diff, records, summary, top
from pipelines.answers.records import database_of
from pipelines.report.records import opened
from pipelines.report.requests import Requests
from pipelines.tables.compute import bound, choose_bucket, compute
from pipelines.tables.points import points
from pipelines.tables.registry import TABLES, Ask
from pipelines.tables.table import RECORDS as SUMMED
from pipelines.tables.verdicts.engine import judged
from tests.pipelines import synthetic
from tests.pipelines.pages import unpacked
from tests.pipelines.synthetic import MS
from tests.pipelines.test_tables import RECORDS, built, computed, every_kind, local_engine, same, spark_engine, written

__all__ = ["every_kind"]

Records = dict[str, pa.Table]
NETWORK_NS = 5 * MS
AT_BROKER = {
    name: table.filter(pc.is_valid(table["connection"])) for name, table in synthetic.make(exchanges=300).items()
}


def changed(records: Records, changes: dict[str, Callable[[pa.ChunkedArray], pa.ChunkedArray]]) -> Records:
    """Records with columns changed wherever they occur."""
    out = {}
    for name, table in records.items():
        for column, change in changes.items():
            if column in table.column_names:
                at = table.schema.get_field_index(column)
                table = table.set_column(at, table.schema.field(at), change(table.column(column)))
        out[name] = table
    return out


def at_site(site: str) -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    return lambda column: pa.chunked_array([pa.array([site] * len(column), pa.string())])


def shifted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """By a clock that is 40 s ahead."""
    return pc.add(column, pa.scalar(40_000_000, pa.duration("us")))


def longer(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.add(column, NETWORK_NS)


def at_clients(records: Records) -> Records:
    """What a capture point at the clients sees of the same."""
    later = {"wait_ns": longer, "total_ns": longer, "time": shifted, "start_time": shifted}
    return changed(records, {"site": at_site("clients"), **later})


AT_CLIENTS = at_clients(AT_BROKER)


def translated(records: Records) -> Records:
    """As seen before addresses are translated: both ends have other names."""

    def text(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.replace_substring(column, "10.0.0.", "192.168.7.")

    return changed(records, {"connection": text, "client_ip": text, "server_ip": text})


def together(*parts: Records) -> Records:
    return {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}


def tables(records: Records, folder: Path) -> Records:
    with local_engine(written(records, folder / "records")) as engine:
        return computed(engine, folder / "tables", bucket_us=1_000_000)


def some(records: Records, folder: Path, *names: str) -> Records:
    """Some of the tables only: each is a query of its own."""
    with local_engine(written(records, folder / "records")) as engine:
        return {name: built(name, engine, Ask(bucket_us=1_000_000)) for name in names}


@pytest.fixture(scope="module")
def at_one_point(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return tables(AT_BROKER, tmp_path_factory.mktemp("one"))


@pytest.mark.parametrize("before", [lambda records: records, translated], ids=["same addresses", "translated"])
def test_two_points_give_the_tables_of_the_one_nearest_to_the_server(
    at_one_point: Records, tmp_path: Path, before: Callable[[Records], Records]
) -> None:
    both = tables(together(AT_BROKER, before(AT_CLIENTS)), tmp_path)
    for name in TABLES:
        if name not in ("hops", "causes"):
            assert both[name].to_pylist() == at_one_point[name].to_pylist(), name
    hops = both["hops"].to_pylist()
    assert sum(row["count"] for row in hops) == pc.sum(pc.equal(AT_BROKER["exchanges"]["kind"], "call")).as_py()
    assert {row["network_p50_ns"] for row in hops} == {NETWORK_NS}
    assert {(row["client_site"], row["server_site"]) for row in hops} == {("clients", "site")}
    assert {(row["client_only"], row["server_only"]) for row in hops} == {(0, 0)}


def test_what_a_request_took_longer_at_the_clients_point_is_the_network(at_one_point: Records, tmp_path: Path) -> None:
    def slow(made: Records) -> dict[tuple[Any, ...], dict[str, Any]]:
        return {(row["protocol"], row["per"], row["name"]): row for row in made["causes"].to_pylist()}

    one, both = slow(at_one_point), slow(some(together(AT_BROKER, AT_CLIENTS), tmp_path, "causes"))
    alike = [(one[key], row) for key, row in both.items() if key in one and one[key]["count"] == row["count"]]
    assert alike  # a way of some milliseconds makes others slow
    for at_broker, row in alike:
        assert (at_broker["network_ns"], row["network_ns"]) == (None, NETWORK_NS * row["count"])
        assert row["total_ns"] == at_broker["total_ns"] + row["network_ns"]
        assert row["broker_ns"] == at_broker["broker_ns"]


def test_a_point_that_sees_packets_before_and_after_address_translation_counts_them_once(
    at_one_point: Records, tmp_path: Path
) -> None:
    both = tables(together(AT_BROKER, translated(AT_BROKER)), tmp_path)
    for name in TABLES:
        if name != "hops":
            assert both[name].to_pylist() == at_one_point[name].to_pylist(), name


def test_connections_that_begin_at_other_times_are_not_two_views_of_one(tmp_path: Path) -> None:
    later = changed(translated(AT_BROKER), {"start_time": shifted})
    both = some(together(AT_BROKER, later), tmp_path, "latency")
    calls = pc.sum(pc.equal(AT_BROKER["exchanges"]["kind"], "call")).as_py()
    assert pc.sum(both["latency"]["count"]).as_py() == 2 * calls


def test_many_connections_that_begin_at_the_same_numbers_are_not_views_of_one(tmp_path: Path) -> None:
    def constant(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array([1001] * len(column), pa.int64())])

    alike = changed(AT_BROKER, {"client_seq": constant, "server_seq": constant})
    both = some(alike, tmp_path, "latency")
    calls = pc.sum(pc.equal(AT_BROKER["exchanges"]["kind"], "call")).as_py()
    assert pc.sum(both["latency"]["count"]).as_py() == calls


def test_a_thousand_points_with_one_connection_are_paired_by_way_of_the_first(tmp_path: Path) -> None:
    row = AT_BROKER["connections"].slice(0, 1)
    sites = [f"s{number:04}" for number in range(1000)]
    many = pa.concat_tables([row] * len(sites))
    at = many.schema.get_field_index("site")
    connections = many.set_column(at, many.schema.field(at), pa.array(sites))
    with local_engine(written({**AT_BROKER, "connections": connections}, tmp_path / "records")) as engine:
        engine.duckdb.execute("set memory_limit = '100MB'")
        query = bound(engine.dialect, points(engine.dialect), engine.relations)
        (found,) = engine.fetch(
            f"select count(*) as rows, count(distinct shared_id) as ids, min(points) as points from ({query})"
        ).to_pylist()
    assert found == {"rows": 1000, "ids": 1, "points": 1000}


@pytest.mark.parametrize("before", [lambda records: records, translated], ids=["same addresses", "translated"])
def test_the_page_counts_what_two_points_saw_once(tmp_path: Path, before: Callable[[Records], Records]) -> None:
    one, both = (counted(records, tmp_path) for records in (AT_BROKER, together(AT_BROKER, before(AT_CLIENTS))))
    assert one["requests"]["api"]
    assert one["batches"]["messages"]
    assert both == one


def counted(records: Records, folder: Path) -> dict[str, dict[str, list[Any]]]:
    """What the page counts of requests and batches; of which connection they are is told by the point that saw them."""
    out = folder / str(records["exchanges"].num_rows)
    written(records, out / "records")
    with opened(str(out / "records")) as found:
        assert found is not None
        carried = Requests(found, []).carried()
        rows = {name: unpacked(carried[name]) for name in ("requests", "batches")}
        return {name: {k: v for k, v in columns.items() if k != "connection"} for name, columns in rows.items()}


def test_what_only_one_point_saw_counts_too(at_one_point: Records, tmp_path: Path) -> None:
    calls = AT_BROKER["exchanges"]
    half = {**AT_BROKER, "exchanges": calls.slice(0, calls.num_rows // 2)}
    both = some(together(half, AT_CLIENTS), tmp_path, "latency", "hops")
    assert pc.sum(both["latency"]["count"]) == pc.sum(at_one_point["latency"]["count"])
    missing = calls.slice(calls.num_rows // 2)
    assert pc.sum(both["hops"]["client_only"]).as_py() == pc.sum(pc.equal(missing["kind"], "call")).as_py()
    for row in both["hops"].to_pylist():  # durations are compared of the same exchanges only
        gap = row["client_p50_ns"] - row["server_p50_ns"] if row["count"] else row["client_p50_ns"]
        assert gap == (NETWORK_NS if row["count"] else None)


def test_the_same_addresses_with_other_sequence_numbers_are_another_connection(tmp_path: Path) -> None:
    def renumbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.add(column, 2_000_000_000)

    later = changed(AT_CLIENTS, {"client_seq": renumbered, "server_seq": renumbered})
    both = some(together(AT_BROKER, later), tmp_path, "latency", "hops")
    calls = pc.sum(pc.equal(AT_BROKER["exchanges"]["kind"], "call")).as_py()
    assert pc.sum(both["latency"]["count"]).as_py() == 2 * calls
    assert both["hops"].num_rows == 0


@pytest.mark.parametrize("before", [lambda records: records, translated], ids=["same addresses", "translated"])
def test_answers_count_what_two_points_saw_once(before: Callable[[Records], Records]) -> None:
    every = together(AT_BROKER, before(AT_CLIENTS))
    with records.counted_once({name: every[name] for name in summary.TABLES}) as (both, shared):
        assert shared == {("site", "clients"): 9}
        assert summary.summary(both) == summary.summary(AT_BROKER)
        for by in top.KEYS:
            assert top.top(both, by, "time") == top.top(AT_BROKER, by, "time"), by
        assert {row["verdict"] for row in diff.diff(AT_BROKER, both).apis} <= {"same", "too few to say"}


@pytest.mark.parametrize("points", [1, 2])
def test_top_tells_the_causes_as_the_table_does_by_any_key(tmp_path: Path, points: int) -> None:
    every = together(AT_BROKER, AT_CLIENTS) if points == 2 else AT_BROKER
    wanted: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in some(every, tmp_path, "causes")["causes"].to_pylist():
        wanted.setdefault(row["per"], {})[row["protocol"], row["name"]] = row
    with records.counted_once({name: every[name] for name in top.TABLES_OF_CAUSES}) as (once, _):
        for per, by in (("api", "api"), ("broker", "server"), ("client", "client"), ("topic", "topic")):
            found = top.causes(once, by, "time", seen=every if points == 2 else None)
            assert {(row["protocol"], row["key"]) for row in found} == set(wanted[per])
            for row in found:
                same = wanted[per][row["protocol"], row["key"]]
                assert (row["count"], row["time_ns"], row["largest"]) == tuple(
                    same[name] for name in ("count", "total_ns", "largest")
                )
                shares = {name: share for name, share in row.items() if name.endswith("_share")}
                assert shares == pytest.approx({name: same[name] for name in shares})
        spans = top.causes(once, "server", "count", 1_000_000)
        assert sum(row["count"] for row in spans) == sum(row["count"] for row in top.causes(once, "server", "count"))
        assert len({row["time"] for row in spans}) > 1


def test_answers_count_what_each_point_saw_alone() -> None:
    other = changed(translated(AT_CLIENTS), {"client_seq": lambda column: pc.add(column, 1_000_000_000)})
    with records.counted_once(both := together(AT_BROKER, other)) as (found, shared):
        assert found is both
        assert not shared


def test_the_run_says_which_points_saw_the_same(tmp_path: Path) -> None:
    with local_engine(written(together(AT_BROKER, AT_CLIENTS), tmp_path / "records")) as engine:
        assert compute(engine, tmp_path / "tables", only=("hops",)).shared == {("site", "clients"): 9}


def test_both_engines_make_the_same_tables_of_every_kind_of_records_and_two_points_by_any_key(
    spark: Any, every_kind: Path, tmp_path: Path
) -> None:
    """Spark takes as long for few rows as for many, so all is compared at once; its workers share no disk with it."""
    seen_twice = translated(at_clients(RECORDS))
    records = {}
    for name in SUMMED:
        known = pq.read_table(every_kind / name, partitioning=None)
        again = [seen_twice[name].select(known.column_names)] if name in seen_twice else []
        records[name] = pa.concat_tables([known, *again])
    with database_of(records) as duckdb:
        judgement = judged(duckdb)
    folder, exchange = written(records, tmp_path / "records"), tmp_path / "exchange"
    with local_engine(folder) as local, spark_engine(spark, folder, exchange) as remote:
        assert choose_bucket(remote) == choose_bucket(local)
        ask: Any = {"by": ("client", "topic", "bucket"), "bucket_us": 60_000_000, "judgement": judgement}
        made = computed(local, tmp_path / "local", **ask)
        same(made, computed(remote, tmp_path / "spark", **ask))
    assert [name for name, table in made.items() if not table.num_rows] == []
    assert list(exchange.iterdir()) == []
