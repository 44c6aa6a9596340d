"""Rows go into a table as values and come out as Arrow columns, whatever waits, and however many there are."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors import records
from dissectors.limits import Limits
from dissectors.records import TABLES, Batch, Conn, Error, Exchange, Finding
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT, Kind, layout
from dissectors.rows.sink import Sink, to_batch
from dissectors.rows.table import RowTable
from dissectors.rows.texts import Numbered, Texts
from dissectors.session.closing import Closing
from dissectors.session.exchange import PendingRequest, Report
from dissectors.session.frame import FrameFacts
from dissectors.session.resends import Resends

CONN = Conn("here", "10.0.0.1", 4000, "10.0.0.2", 9092, 0, "kafka")
FILES = ["a.pcap", "b.pcap"]
OF_TYPE: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    pa.list_(pa.string()): st.lists(st.text("abc", max_size=2), max_size=3),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    # the largest number is not told from none when rows are put in order
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 2).filter(lambda number: number != ABSENT),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=8),
}


def table(name: str = "exchanges", *options: str) -> RowTable:
    return RowTable(layout(name), Texts(), Numbered(), Numbered(), options)


def sink(*tables: str, **options: Any) -> Sink:
    made = Sink(tables, **options)
    made.files = FILES
    return made


def drained(sink: Sink, table: str) -> list[dict[str, Any]]:
    found = [batch.to_pylist() for name, batch in sink.drain() if name == table]
    return [row for rows in found for row in rows]


def values(field: records.Field) -> st.SearchStrategy[Any]:
    """What a NamedTuple may hold in a field."""
    if field.kind == "conn":
        return st.sampled_from([CONN, Conn("there", "::1", 1, "::2", 2, 3)])
    if field.kind == "packet_ref":
        places = st.tuples(st.integers(0, 1), st.integers(1, 1 << 39))
        return st.none() | places.map(lambda place: place[0] << records.PACKET_SHIFT | place[1])
    if field.kind == "time":
        return st.none() | st.integers(0, 1 << 62)
    return st.none() | OF_TYPE[field.columns[0].type]


def expected(field: records.Field, value: Any) -> dict[str, Any]:
    """The columns of a field with a value, as Arrow makes them of Python values."""
    if field.kind == "conn":
        return {column.name: getattr(value, column.name) for column in field.columns}
    if field.kind == "packet_ref":
        file, packet = (column.name for column in field.columns)
        if value is None:
            return {file: None, packet: None}
        return {file: FILES[value >> records.PACKET_SHIFT], packet: value & records.PACKET_MASK}
    if field.kind == "time":
        return {field.name: pa.scalar(None if value is None else value // 1000, field.columns[0].type).as_py()}
    return {field.name: value}


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=20)
@given(st.data())
def test_rows_come_out_as_they_went_in_by_time(name: str, data: st.DataObject) -> None:
    every = layout(name).fields
    row = st.tuples(*(values(field) for field in every))
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    batch = to_batch(name, rows, FILES, full=True, payloads=True)
    assert batch.schema == records.schema(name, full=True, payloads=True)
    given = [
        {column: cell for field, value in zip(every, row) for column, cell in expected(field, value).items()}
        for row in rows
    ]
    keys = records.ordered_by(name)
    assert batch.to_pylist() == sorted(given, key=lambda row: [(row[key] is None, row[key] or 0) for key in keys])


def test_a_connection_is_named_in_all_rows_whenever_they_leave_and_after_numbers_begin_again() -> None:
    found = sink("findings", limits=Limits(names=2))
    others = [Conn("there", "::1", port, "::2", 2, 3, "iggy") for port in (1, 2, 3)]
    for conns in ([CONN], [None, others[0], CONN], [others[1]], [others[2], CONN, None]):
        found.findings.extend(Finding(conn, "gap", "info", None, "", time) for time, conn in enumerate(conns))
        rows = drained(found, "findings")
        assert [(row["site"], row["connection"], row["client_port"], row["protocol"]) for row in rows] == [
            (conn.site, conn.connection, conn.client_port, conn.protocol) if conn else (None,) * 4 for conn in conns
        ]


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=20)
@given(st.data())
def test_a_table_shows_the_rows_that_it_holds(name: str, data: st.DataObject) -> None:
    row = st.tuples(*(values(field) for field in layout(name).fields)).map(lambda row: TABLES[name](*row))
    rows = data.draw(st.lists(row, max_size=5))
    held = table(name, "full", "payloads")
    held.extend(rows)
    assert len(held) == len(rows)
    assert list(held) == rows


def test_rows_stand_in_the_order_in_which_they_were_finished() -> None:
    held = table()
    first, second = held.open(), held.open()
    for slot, api in ((first, "Produce"), (second, "Fetch")):
        held.put(slot, fields.EXCHANGE_API, api)
    held.finish(second)
    held.finish(first)
    assert [row.api for row in held] == ["Fetch", "Produce"]


def test_a_row_that_waits_holds_back_no_other_and_outlives_many_blocks() -> None:
    rows = sink("exchanges", full=True)
    held = rows.exchanges
    waits = held.open()
    held.put(waits, fields.EXCHANGE_CONN, CONN)
    held.put(waits, fields.EXCHANGE_API, "Fetch")
    held.put(waits, fields.EXCHANGE_TOPICS, ["orders"])
    held.put(waits, fields.EXCHANGE_REQUEST, '{"late": true}')
    for i in range(20_000):
        held.append(Exchange(CONN, correlation_id=i, request=f'{{"number": {i}}}'))
    found = drained(rows, "exchanges")
    assert [row["correlation_id"] for row in found] == list(range(20_000))
    assert found[-1]["request"] == '{"number": 19999}'
    held.finish(waits)
    (row,) = drained(rows, "exchanges")
    assert (row["api"], row["topics"], row["request"]) == ("Fetch", ["orders"], '{"late": true}')


def test_slots_are_used_again_and_begin_empty() -> None:
    held = table()
    slots = [held.open() for _ in range(100)]
    for slot in slots:
        held.put(slot, fields.EXCHANGE_API, "Produce")
        held.drop(slot)
    assert {held.open() for _ in range(100)} == set(slots)
    assert set(held.values(slots[0])) == {None}


def test_a_field_of_an_option_that_is_not_set_stays_empty() -> None:
    held = table("messages")
    held.append((CONN, *[None] * (layout("messages").places["value"] - 1), b"payload"))
    assert held[0].value is None


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 200])
def test_a_number_that_no_column_holds_is_null(number: int) -> None:
    rows = sink("exchanges")
    rows.exchanges.append(Exchange(CONN, correlation_id=number, api_code=number, time=number))
    (row,) = drained(rows, "exchanges")
    assert (row["correlation_id"], row["api_code"], row["time"]) == (None, None, None)


def test_a_number_too_large_for_its_column_is_null() -> None:
    rows = sink("exchanges")
    rows.exchanges.append(Exchange(CONN, api_code=1 << 31, partitions=-(1 << 31) - 1, version=7))
    (row,) = drained(rows, "exchanges")
    assert (row["api_code"], row["partitions"], row["version"]) == (None, None, 7)


def test_text_that_is_no_unicode_is_escaped() -> None:
    rows = sink("exchanges", full=True)
    rows.exchanges.append(Exchange(CONN, client_id="a\udcff", request="b\udcff", topics=["c\udcff"]))
    (row,) = drained(rows, "exchanges")
    assert (row["client_id"], row["request"], row["topics"]) == ("a\\udcff", "b\\udcff", ["c\\udcff"])


def test_checksums_positions_and_ids_may_be_numbers() -> None:
    rows = sink("batches")
    report = Report(CONN, rows, Resends(), Closing())
    request = PendingRequest(FrameFacts(0, 700, 10, 0, 5_000, 6_000, 1, True), "Produce", 0)
    for position, stored in ((0, 0xE3069283), (1 << 70, 1), ("5:6", "0xffffffffffffffff"), (None, None)):
        slot = report.open_batch(request, None)
        report.batches.put_named(slot, {"position": position, "checksum_stored": stored})
        report.finish_batch(slot)
    found = drained(rows, "batches")
    assert [row["position"] for row in found] == ["0", str(1 << 70), "5:6", None]
    shown = ["0xe3069283", "0x00000001", "0xffffffffffffffff", None]
    assert [row["checksum_stored"] for row in found] == shown
    assert {row["exchange_id"] for row in found} == {f"{CONN.id}-c700"}


def test_texts_that_no_row_has_any_more_are_forgotten() -> None:
    rows = sink("exchanges", limits=Limits(names=100))
    held = rows.exchanges
    waits = held.open()
    held.put(waits, fields.EXCHANGE_CONN, CONN)
    held.put(waits, fields.EXCHANGE_CLIENT_ID, "waits")
    for i in range(1000):
        held.append(Exchange(CONN, client_id=f"client-{i}", topics=[f"topic-{i}"]))
    assert len(drained(rows, "exchanges")) == 1000
    assert held.texts.count == 1
    held.append(Exchange(CONN, client_id="later"))
    held.finish(waits)
    assert [row["client_id"] for row in drained(rows, "exchanges")] == ["later", "waits"]


def test_rows_are_carried_along_with_what_writes_them() -> None:
    rows = sink("errors", "batches")
    rows.errors.append(Error(CONN, name="NOT_LEADER", code=6, message="not here"))
    rows.batches.append(Batch(CONN, position="7:1", checksum_kind="crc32c", checksum_stored="0x00000001"))
    copy = pickle.loads(pickle.dumps(rows))
    mine, theirs = ({name: batch.to_pylist() for name, batch in each.drain()} for each in (rows, copy))
    assert mine.keys() == {"errors", "batches"}
    assert mine == theirs


def test_whole_numbers_are_handed_over_without_a_copy() -> None:
    rows = sink("exchanges")
    for i in range(200):
        rows.exchanges.append(Exchange(CONN, wait_ns=i))
    block = pa.py_buffer(rows.exchanges.block)
    ((_, batch),) = rows.drain()
    address = batch.column("wait_ns").buffers()[1].address
    assert block.address <= address < block.address + block.size
    assert batch.column("wait_ns").to_pylist() == list(range(200))


# --- what is declared ---


def test_fields_are_declared_to_the_compiler_as_records_have_them() -> None:
    assert Path(fields.__file__).with_suffix(".pxd").read_text() == fields.declaration()


def test_every_field_has_a_constant() -> None:
    assert layout("exchanges").places["time"] == fields.EXCHANGE_TIME
    assert Kind.LOOSE == fields.LOOSE
    with pytest.raises(AttributeError):
        fields.EXCHANGE_NOTHING  # noqa: B018


def test_a_misspelt_column_is_an_error() -> None:
    held = table("batches")
    with pytest.raises(KeyError):
        held.put_named(held.open(), {"no_such_column": 1})


def test_rows_without_a_connection_stand_beside_those_of_unknown_protocols() -> None:
    unknown = Conn("here", "10.0.0.1", 4000, "10.0.0.2", 7)
    batch = to_batch("findings", [Finding(conn, "gap", time=i) for i, conn in enumerate((None, unknown, CONN))], FILES)
    assert batch.column("protocol").to_pylist() == [None, None, "kafka"]
    assert batch.column("site").to_pylist() == [None, "here", "here"]


@given(st.integers(0, (1 << 62) - 1), st.integers(0, records.HALF), st.integers(0, records.HALF))
def test_a_position_is_one_number_or_two_with_a_colon(one: int, first: int, second: int) -> None:
    rows = sink("batches")
    slot = rows.batches.reopen(records.Batch(CONN))
    rows.batches.waiting[slot, fields.BATCH_POSITION] = records.PAIR | first << records.HALF_BITS | second
    assert rows.batches.values(slot).position == f"{first}:{second}"
    rows.batches.append(records.Batch(CONN, position=one))  # type: ignore[arg-type]
    rows.batches.finish(slot)
    assert [row["position"] for row in drained(rows, "batches")] == [str(one), f"{first}:{second}"]
