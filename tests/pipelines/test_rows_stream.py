"""`spark.readStream.format("brokerscope")`: what micro-batches give together is what one query over all files gives.

Most tests drive the stream as Spark does, without a session: offsets go through JSON, partitions through a pickle.
"""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

import brokerscope
from dissectors.errors import UsageError
from pipelines.sources.decoded import BrokerscopeDataSource
from pipelines.sources.stream import Offset, RecordsStream
from tests.pipelines.cutting import cut, read, write

SAMPLES = Path(__file__).parents[2] / "samples"
CAPTURE = SAMPLES / "kafka-transactions.pcap"


class Query:
    """A streaming query over a folder, with its checkpoint: it may be started again at any time."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.rows: list[dict[str, Any]] = []
        self.micro_batches = 0
        self._options = {"path": str(folder), **options}
        self._offset: Offset | None = None

    def run(self, *, available_now: bool) -> None:
        """Take what is there; with available_now, as a run that ends then."""
        stream = self._started()
        if available_now:
            stream.prepareForTriggerAvailableNow()
        while True:
            start = stream.initialOffset() if self._offset is None else self._offset
            end = json.loads(json.dumps(stream.latestOffset(start, stream.getDefaultReadLimit())))
            if end == start:
                return
            self.micro_batches += 1
            self.rows += self.batch(start, end)
            self._offset = end

    def batch(self, start: Offset, end: Offset) -> list[dict[str, Any]]:
        """The rows of a micro-batch."""
        stream = self._started()  # as after a restart: nothing is known but the offsets
        return [
            row
            for partition in pickle.loads(pickle.dumps(stream.partitions(start, end)))
            for made in stream.read(partition)
            for row in made.to_pylist()
        ]

    def _started(self) -> RecordsStream:
        source = BrokerscopeDataSource(self._options)
        return cast(RecordsStream, pickle.loads(pickle.dumps(source)).streamReader(source.schema()))


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


def whole(folder: Path, table: str = "exchanges") -> Counter[str]:
    return counted(brokerscope.dissect(str(folder), table)[table].to_pylist())


@pytest.mark.parametrize("table", ["exchanges", "batches", "connections", "findings"])
def test_files_that_come_one_by_one_give_the_rows_of_one_query(tmp_path: Path, table: str) -> None:
    store = tmp_path / "store"
    store.mkdir()
    pieces = [Path(name) for name in cut(CAPTURE, tmp_path, 4)]
    query = Query(store, table=table)
    for piece in pieces:
        piece.rename(store / piece.name)
        query.run(available_now=False)
    query.run(available_now=True)  # the captures end
    assert counted(query.rows) == whole(store, table)
    before = len(query.rows)
    query.run(available_now=True)
    assert len(query.rows) == before


def test_a_capture_that_grows_is_read_as_far_as_it_is_written(tmp_path: Path) -> None:
    head, packets = read(CAPTURE)
    data = head + b"".join(packets)
    live = tmp_path / "live.pcap"
    query = Query(tmp_path)
    for part in (10, len(data) // 3, len(data) // 2 + 5, len(data)):  # in the header, and within packets
        live.write_bytes(data[:part])
        query.run(available_now=False)
    assert query.micro_batches == 4
    query.run(available_now=True)
    assert counted(query.rows) == whole(tmp_path)


def test_a_micro_batch_that_is_run_again_gives_the_same_rows_although_more_has_come(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    first, second, third = (Path(name) for name in cut(CAPTURE, tmp_path, 3))
    query = Query(store)
    first.rename(store / first.name)
    query.run(available_now=False)
    start = query._offset
    data = second.read_bytes()
    live = store / second.name
    live.write_bytes(data[: len(data) // 2])
    query.run(available_now=False)
    end = query._offset
    assert start is not None
    assert end is not None
    given = query.batch(start, end)
    assert given
    live.write_bytes(data)
    third.rename(store / third.name)
    assert counted(query.batch(start, end)) == counted(given)


def test_a_run_that_ends_gives_open_rows_and_a_later_one_says_how_they_went_on(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    query = Query(store)
    for name in cut(CAPTURE, tmp_path, 11):
        Path(name).rename(store / Path(name).name)
        query.run(available_now=True)
        latest = {row["exchange_id"]: row for row in query.rows}
        assert counted(list(latest.values())) == whole(store)  # the last row of an exchange counts
    known = {row["exchange_id"] for row in query.rows}
    assert len(query.rows) > len(known)  # the cuts were within exchanges


def test_late_files_are_put_where_they_belong(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    query = Query(store)
    for name in reversed(cut(CAPTURE, tmp_path, 3)):
        Path(name).rename(store / Path(name).name)
        query.run(available_now=True)
    assert not whole(store) - counted(query.rows)


def test_a_micro_batch_takes_as_many_files_as_it_is_told(tmp_path: Path) -> None:
    cut(CAPTURE, tmp_path, 5)
    query = Query(tmp_path, maxFilesPerTrigger="2")
    query.run(available_now=True)
    assert query.micro_batches == 3
    assert counted(query.rows) == whole(tmp_path)


def test_captures_that_go_are_no_news_and_take_no_rows_along(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    query = Query(store)
    for name in cut(CAPTURE, tmp_path, 3)[:2]:
        Path(name).rename(store / Path(name).name)
    query.run(available_now=True)
    before = len(query.rows)
    min(store.iterdir()).unlink()
    query.run(available_now=True)
    assert len(query.rows) == before


def test_capture_points_without_news_are_not_decoded(tmp_path: Path) -> None:
    head, packets = read(CAPTURE)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "1.pcap", head, packets[:50])
    query = Query(tmp_path)
    query.run(available_now=False)
    write(tmp_path / "b" / "2.pcap", head, packets[50:])
    stream = query._started()
    start = query._offset
    assert start is not None
    (part,) = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    assert {Path(name).parent.name for name in part.after.sizes} == {"b"}  # type: ignore[attr-defined]


def test_with_a_lookback_files_of_long_ago_are_not_read_again(tmp_path: Path) -> None:
    names = [Path(name) for name in cut(CAPTURE, tmp_path, 3)]
    times = {path.name: 1_700_000_000 + 3600 * number for number, path in enumerate(names)}
    store = tmp_path / "store"
    store.mkdir()
    query = Query(store, lookback="1h")
    for path in names:
        path.rename(store / path.name)
        os.utime(store / path.name, (times[path.name], times[path.name]))
        start = query._offset or query._started().initialOffset()
        query.run(available_now=False)
    assert query._offset is not None
    (part,) = query._started().partitions(start, query._offset)
    assert {Path(name).name for name in part.after.sizes} == {path.name for path in names[1:]}  # type: ignore[attr-defined]
    assert {Path(name).name for name in part.before.sizes} == {names[1].name}  # type: ignore[attr-defined]
    query.run(available_now=True)
    assert len({row["exchange_id"] for row in query.rows}) == sum(whole(store).values())


def test_a_table_of_all_records_is_no_stream(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="latency is made of all records"):
        Query(tmp_path, table="latency").run(available_now=True)


def test_a_stream_of_a_session_starts_again_where_it_was(spark: Any, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    for name in cut(CAPTURE, tmp_path, 2):
        Path(name).rename(store / Path(name).name)
        rows = spark.readStream.format("brokerscope").option("table", "connections").load(str(store))
        query = (
            rows.writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    made = spark.read.parquet(str(tmp_path / "rows"))
    known = brokerscope.dissect(str(store), "connections")["connections"]
    assert {row["connection"] for row in made.collect()} == set(known["connection"].to_pylist())
