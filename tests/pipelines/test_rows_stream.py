"""`spark.readStream.format("brokerscope")`: what micro-batches give together is what one query over all files gives.

Most tests drive the stream as Spark does, without a session: offsets go through JSON, partitions through a pickle.
"""

import base64
import json
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

import brokerscope
from dissectors.capture.fragments import Fragments
from dissectors.capture.reader import Reader
from dissectors.errors import InputError, UsageError
from pipelines.sources import carried, stream
from pipelines.sources.carried import Offset
from pipelines.sources.decoded import BrokerscopeDataSource
from pipelines.sources.going_on import _SiteRun
from pipelines.sources.stream import RecordsStream
from tests.pipelines.cutting import cut, write
from tests.pipelines.cutting import read as read_packets

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
            self._started().commit(end)

    @property
    def told(self) -> dict[str, Any]:
        """What its last offset says, as Spark shows it in its progress."""
        assert self._offset is not None
        return self._offset

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


def renamed(rows: list[dict[str, Any]], folder: Path, other: Path) -> list[dict[str, Any]]:
    """Rows as they are of captures that lie in another folder."""
    return [
        {
            name: value.replace(str(folder), str(other)) if isinstance(value, str) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def without_places(rows: list[dict[str, Any]]) -> Counter[str]:
    """Rows, but for where their captures lie."""
    places = ("site", "file", "request_file", "response_file")
    return counted([{name: value for name, value in row.items() if name not in places} for row in rows])


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


def whole(folder: Path, table: str = "exchanges") -> Counter[str]:
    return counted(brokerscope.dissect(str(folder), table)[table].to_pylist())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder into which captures come."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("table", ["exchanges", "batches", "connections", "findings"])
def test_files_that_come_one_by_one_give_the_rows_of_one_query(store: Path, tmp_path: Path, table: str) -> None:
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
    head, packets = read_packets(CAPTURE)
    data = head + b"".join(packets)
    live = tmp_path / "live.pcap"
    query = Query(tmp_path)
    for part in (10, len(data) // 3, len(data) // 2 + 5, len(data)):  # in the header, and within packets
        live.write_bytes(data[:part])
        query.run(available_now=False)
    assert query.micro_batches == 4
    query.run(available_now=True)
    assert counted(query.rows) == whole(tmp_path)


def test_a_micro_batch_that_is_run_again_gives_the_same_rows_although_more_has_come(
    store: Path, tmp_path: Path
) -> None:
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


def test_a_run_that_ends_gives_open_rows_and_a_later_one_says_how_they_went_on(store: Path, tmp_path: Path) -> None:
    query = Query(store)
    for name in cut(CAPTURE, tmp_path, 11):
        Path(name).rename(store / Path(name).name)
        query.run(available_now=True)
        latest = {row["exchange_id"]: row for row in query.rows}
        assert counted(list(latest.values())) == whole(store)  # the last row of an exchange counts
    known = {row["exchange_id"] for row in query.rows}
    assert len(query.rows) > len(known)  # the cuts were within exchanges


def test_late_files_are_put_where_they_belong(store: Path, tmp_path: Path) -> None:
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


def test_captures_that_go_are_no_news_and_take_no_rows_along(store: Path, tmp_path: Path) -> None:
    query = Query(store)
    for name in cut(CAPTURE, tmp_path, 3)[:2]:
        Path(name).rename(store / Path(name).name)
    query.run(available_now=True)
    before = len(query.rows)
    min(store.iterdir()).unlink()
    query.run(available_now=True)
    assert len(query.rows) == before


def test_a_micro_batch_decodes_what_is_new_and_no_capture_point_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    known = _SiteRun.reader

    def reader(run: _SiteRun, index: int, path: str, fragments: Fragments) -> Reader:
        read.append(path)
        return known(run, index, path, fragments)

    monkeypatch.setattr(_SiteRun, "reader", reader)
    head, packets = read_packets(CAPTURE)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "1.pcap", head, packets[:50])
    query = Query(tmp_path)
    query.run(available_now=False)
    write(tmp_path / "b" / "2.pcap", head, packets[50:])
    read.clear()
    query.run(available_now=False)
    assert [str(Path(path).relative_to(tmp_path)) for path in read] == ["b/2.pcap"]


@pytest.mark.parametrize("available_now", [True, False])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("table", ["exchanges", "batches", "connections"])
def test_a_ring_of_files_loses_nothing_that_was_read_before_it_went(
    tmp_path: Path, table: str, available_now: bool, inside: bool
) -> None:
    store, every = tmp_path / "store", tmp_path / "every"
    store.mkdir()
    every.mkdir()
    pieces = [Path(name) for name in cut(CAPTURE, every, 9)]
    options = {} if inside else {"checkpointLocation": str(tmp_path / "checkpoint")}
    query = Query(store, table=table, **options)
    for number, piece in enumerate(pieces):
        shutil.copy(piece, store)
        if number >= 2:
            (store / pieces[number - 2].name).unlink()
        query.run(available_now=available_now)
    query.run(available_now=True)
    name = "connection" if table == "connections" else "exchange_id"
    if table == "batches":  # which are given once they are known, and not again
        assert without_places(query.rows) == without_places(brokerscope.dissect(str(every), table)[table].to_pylist())
    else:
        last = list({row[name]: row for row in query.rows}.values())
        assert without_places(last) == without_places(brokerscope.dissect(str(every), table)[table].to_pylist())
    assert query.told["captures_gone"] == 0


def test_a_ring_that_writes_over_its_files_is_one_of_new_captures(tmp_path: Path) -> None:
    store, every = tmp_path / "store", tmp_path / "every"
    store.mkdir()
    every.mkdir()
    query = Query(store)
    for number, piece in enumerate(cut(CAPTURE, every, 7)):
        shutil.copy(piece, store / f"ring{number % 2}.pcap")
        query.run(available_now=False)
    query.run(available_now=True)
    known = brokerscope.dissect(str(every), "exchanges")["exchanges"]
    assert sorted(row["exchange_id"] for row in query.rows) == sorted(known["exchange_id"].to_pylist())


def test_a_micro_batch_whose_captures_have_gone_is_run_again_as_it_was(tmp_path: Path) -> None:
    for number, options in enumerate(({}, {"checkpointLocation": str(tmp_path / "checkpoint")})):
        store = tmp_path / f"store{number}"
        store.mkdir()
        query = Query(store, **options)
        cut(CAPTURE, store, 2)
        start = query._started().initialOffset()
        end = json.loads(json.dumps(query._started().latestOffset(start, ReadAllAvailable())))
        given = query.batch(start, end)
        shutil.rmtree(store)
        store.mkdir()
        assert given
        assert counted(query.batch(start, end)) == counted(given)


def test_rows_that_no_offset_holds_are_decoded_by_tasks(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "INLINE_ROWS", 0)
    test_files_that_come_one_by_one_give_the_rows_of_one_query(store, tmp_path, "exchanges")


def test_rows_that_tasks_can_no_longer_decode_are_an_error_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "INLINE_ROWS", 0)
    cut(CAPTURE, tmp_path, 2)
    (tmp_path / "empty.pcap").write_bytes(b"no capture")
    query = Query(tmp_path)
    start = query._started().initialOffset()
    end = query._started().latestOffset(start, ReadAllAvailable())
    assert query.batch(start, end)  # a capture that nobody can read is none that has gone
    min(tmp_path.glob("kafka*")).unlink()
    with pytest.raises(InputError, match="no such file, and it was read for the state of the stream"):
        query.batch(start, end)
    assert Query(tmp_path, ignoreMissingFiles="true").batch(start, end)


def test_states_lie_in_the_checkpoint_and_those_of_earlier_micro_batches_go(store: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    query = Query(store, checkpointLocation=str(checkpoint))
    sizes = []
    for name in cut(CAPTURE, tmp_path, 12):
        Path(name).rename(store / Path(name).name)
        query.run(available_now=False)
        assert len(json.dumps(query._offset)) < 300
        sizes.append(sum(path.stat().st_size for path in (checkpoint / "brokerscope").iterdir()))
        assert len(list((checkpoint / "brokerscope").glob("*.state"))) <= 2
        assert query.told["state_bytes"] <= sizes[-1]
    assert max(sizes[6:]) < 3 * max(sizes[:6])
    query.run(available_now=True)
    assert counted(query.rows) == whole(store)


def test_a_state_that_no_offset_holds_asks_for_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "INLINE_STATE", 1000)
    cut(CAPTURE, tmp_path, 2)
    with pytest.raises(UsageError, match="set the option checkpointLocation of readStream"):
        Query(tmp_path).run(available_now=False)


def test_captures_that_went_before_they_were_read_are_counted_and_named(store: Path) -> None:
    cut(CAPTURE, store, 3)
    query = Query(store, table="findings", maxFilesPerTrigger="1")
    start = query._started().initialOffset()
    query._offset = query._started().latestOffset(start, ReadMaxFiles(1))
    (store / "kafka-transactions-001.pcap").unlink()
    query.run(available_now=False)
    (found,) = (row for row in query.rows if row["kind"] == "captures_gone")
    assert "1 capture went before they were read" in found["message"].replace("it was", "they were")
    assert "kafka-transactions-001.pcap" in found["message"]
    assert query.told["captures_gone"] == 1
    query.run(available_now=True)
    assert query.told["captures_gone"] == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_late_file_gives_its_rows_and_no_row_has_another_ones_id(tmp_path: Path, kept: bool) -> None:
    """kept: whether the captures are there that were read before it."""
    every, store = tmp_path / "every", tmp_path / "store"
    every.mkdir()
    store.mkdir()
    pieces = [Path(name) for name in cut(CAPTURE, every, 6)]
    query, findings = (Query(store, table=table) for table in ("exchanges", "findings"))
    for number in (0, 2, 3, 1, 4, 5):  # the second one comes late
        shutil.copy(pieces[number], store)
        query.run(available_now=False)
        findings.run(available_now=False)
        if not kept and number == 3:
            for path in store.iterdir():
                path.unlink()
    query.run(available_now=True)
    known = brokerscope.dissect(str(every), "exchanges")["exchanges"].to_pylist()
    if kept:
        last = {row["exchange_id"]: row for row in renamed(query.rows, store, every)}.values()
        assert counted([row for row in last if row["kind"] != "withdrawn"]) == counted(known)
        assert any(row["kind"] == "withdrawn" for row in query.rows)
    ids = [row["exchange_id"] for row in query.rows if not kept]
    assert len(ids) == len(set(ids))
    late = {(row["request_file"], row["request_packet"]) for row in known if "-001." in str(row["request_file"])}
    there = {(row["request_file"], row["request_packet"]) for row in renamed(query.rows, store, every)}
    assert late <= there
    assert ("captures_gone" in {row["kind"] for row in findings.rows}) == (not kept)


def test_another_release_goes_on_with_the_captures_that_are_there(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(store)
    for number, name in enumerate(cut(CAPTURE, tmp_path, 4)):
        Path(name).rename(store / Path(name).name)
        monkeypatch.setattr(stream, "code_version", lambda package, number=number: f"{package} {number // 2}")
        query.run(available_now=False)
    query.run(available_now=True)
    assert counted(query.rows) == whole(store)


def test_connections_that_are_decrypted_are_decoded_again_as_no_secret_is_kept(store: Path, tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "kafka-tls.pcapng", store)
    query = Query(store)
    query.run(available_now=False)
    assert b"CLIENT_" not in base64.b64decode(json.loads(json.dumps(query._offset))["state"])
    for name in cut(CAPTURE, tmp_path, 2):
        Path(name).rename(store / Path(name).name)
        query.run(available_now=False)
    query.run(available_now=True)
    assert counted(query.rows) == whole(store)


def test_a_checkpoint_of_a_release_that_carried_no_state_is_refused(tmp_path: Path) -> None:
    cut(CAPTURE, tmp_path, 2)
    query = Query(tmp_path)
    query._offset = {"files": {"a.pcap": 10}, "ended": False}
    with pytest.raises(InputError, match="of a release that carried no state; begin a new one"):
        query.run(available_now=False)


def test_a_table_of_all_records_is_no_stream(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="latency is made of all records"):
        Query(tmp_path, table="latency").run(available_now=True)


def test_a_stream_of_a_session_starts_again_where_it_was(spark: Any, store: Path, tmp_path: Path) -> None:
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
        told = json.loads(query.recentProgress[-1]["sources"][0]["endOffset"])
        assert told["captures"] == len(list(store.iterdir()))
        assert told["captures_gone"] == 0
        assert 0 < told["state_bytes"] < 1 << 20
    made = spark.read.parquet(str(tmp_path / "rows"))
    known = brokerscope.dissect(str(store), "connections")["connections"]
    assert {row["connection"] for row in made.collect()} == set(known["connection"].to_pylist())
