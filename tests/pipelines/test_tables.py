"""Aggregate tables add up to the records they were made from."""

from __future__ import annotations

import collections
import math
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.analyze import choose_bucket
from pipelines.tables import BY, PRINTED, TABLES, Ask
from tests.pipelines import synthetic

RECORDS = synthetic.make(exchanges=400, seconds=40)
ASK = Ask(bucket_us=10_000_000)


@pytest.fixture(scope="module")
def records(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("records")
    frames = {}
    for name, table in RECORDS.items():
        pq.write_table(table, folder / f"{name}.parquet")
        frames[name] = spark.read.parquet(str(folder / f"{name}.parquet"))
    return frames


def built(name: str, records: dict[str, Any], ask: Ask = ASK) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = TABLES[name].build(records, ask).toArrow().to_pylist()
    return rows


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_columns_that_it_documents(records: dict[str, Any], name: str) -> None:
    told = TABLES[name]
    assert TABLES[name].build(records, ASK).columns == [c.name for c in told.columns]
    assert set(told.headline) <= {c.name for c in told.columns}
    assert told.rank in {"", *(c.name for c in told.columns)}


def test_what_is_printed_exists() -> None:
    assert set(PRINTED) <= set(TABLES)


def test_latency_counts_each_call_once_and_its_percentiles_are_exact_for_few_calls(records: dict[str, Any]) -> None:
    calls = [r for r in RECORDS["exchanges"].to_pylist() if r["kind"] in ("call", "unanswered")]
    groups = collections.defaultdict(list)
    for row in calls:
        groups[row["protocol"], row["api"], row["long_poll"]].append(row)
    latency = built("latency", records)
    assert len(latency) == len(groups)
    for row in latency:
        mine = groups[row["protocol"], row["api"], row["long_poll"]]
        totals = sorted(r["total_ns"] for r in mine if r["total_ns"] is not None)
        assert row["count"] == sum(r["kind"] == "call" for r in mine)
        assert row["unanswered"] == sum(r["kind"] == "unanswered" for r in mine)
        assert row["errors"] == sum(r["status"] == "error" for r in mine)
        assert row["total_sum_ns"] == sum(totals)
        assert row["total_max_ns"] == totals[-1]
        for quantile, column in ((0.5, "total_p50_ns"), (0.99, "total_p99_ns")):
            assert row[column] == totals[math.ceil(quantile * len(totals)) - 1]


@pytest.mark.parametrize("keys", [("client",), ("topic", "version"), ("server", "site", "dialect", "bucket")])
def test_latency_by_more_keys_splits_the_same_calls(records: dict[str, Any], keys: tuple[str, ...]) -> None:
    rows = built("latency", records, ASK._replace(by=keys))
    assert list(rows[0])[3 : 3 + len(keys)] == list(keys)
    whole = sum(r["count"] for r in built("latency", records))
    assert sum(r["count"] for r in rows) == whole  # each made-up exchange names one topic
    assert set(keys) <= set(BY)


def test_errors_and_throughput_and_verdicts_add_up(records: dict[str, Any]) -> None:
    batches = RECORDS["batches"]
    assert sum(r["count"] for r in built("errors", records)) == RECORDS["errors"].num_rows
    throughput = built("throughput", records)
    assert sum(r["stored_bytes"] for r in throughput) == pc.sum(batches["stored_bytes"]).as_py()
    assert sum(r["messages"] for r in throughput) == pc.sum(batches["records"]).as_py()
    assert {r["compression_ratio"] for r in throughput} == {2.5}
    assert {r["bucket"].second % 10 for r in throughput} == {0}
    integrity = built("integrity", records)
    assert sum(r["batches"] for r in integrity) == batches.num_rows
    assert sum(r["bad"] for r in integrity) == 1
    assert integrity[0]["bad"] == 1


def test_delivery_finds_each_consumed_batch_and_its_delay(records: dict[str, Any]) -> None:
    rows = built("delivery", records)
    assert sum(r["deliveries"] for r in rows) == sum(r["batches"] for r in rows) == 400
    assert {r["delay_max_ns"] for r in rows} == {5_000_000}
    assert sum(r["same_checksum"] for r in rows) == 400
    assert sum(r["other_checksum"] for r in rows) == 0


def test_clients_tell_how_many_connections_an_address_opened_within_a_minute(records: dict[str, Any]) -> None:
    opened = RECORDS["connections"].to_pylist()
    for row in built("clients", records):
        mine = [c for c in opened if (c["protocol"], c["client_ip"]) == (row["protocol"], row["client_ip"])]
        assert 1 <= row["connects_peak"] <= len(mine)


def test_health_puts_connections_with_findings_first(records: dict[str, Any]) -> None:
    rows = built("health", records)
    assert len(rows) == RECORDS["connections"].num_rows
    assert rows[0]["error_findings"] == 1
    assert rows[0]["coverage"] == pytest.approx(29 / 30)


def test_activity_and_distribution_hold_every_timed_call(records: dict[str, Any]) -> None:
    calls = pc.sum(pc.equal(RECORDS["exchanges"]["kind"], "call")).as_py()
    assert sum(r["count"] for r in built("activity", records)) == calls
    assert sum(r["count"] for r in built("distribution", records)) == calls


def test_a_bucket_is_chosen_that_fits_the_span(records: dict[str, Any]) -> None:
    assert choose_bucket(records["exchanges"]) == 1_000_000


def test_tables_of_nothing_are_empty(records: dict[str, Any]) -> None:
    nothing = {name: frame.limit(0) for name, frame in records.items()}
    assert {name: built(name, nothing) for name in ("latency", "throughput", "health")} == {
        "latency": [], "throughput": [], "health": [],
    }  # fmt: skip
