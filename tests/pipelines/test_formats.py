"""Records written as text, JSON, CSV and Parquet say what the record batches say."""

import csv
import gc
import io
import json
import re
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors import records
from dissectors.records import Exchange
from dissectors.rows.sink import to_batch
from pipelines.formats import FORMATS, units, writing
from pipelines.formats.plain import width
from tests.pipelines import synthetic

TABLES = synthetic.make(exchanges=200)


def written(name: str, table: pa.Table, format: str) -> bytes:
    class Kept(io.BytesIO):
        def close(self) -> None:  # a writer may close what it writes to; the bytes are still wanted
            pass

    stream = Kept()
    writer = FORMATS[format](name, table.schema, stream)
    for batch in table.to_batches(max_chunksize=17):
        writer.write(batch)
    writer.close()
    return stream.getvalue()


@pytest.mark.parametrize("name", records.TABLES)
def test_json_is_one_object_a_line_with_every_column(name: str) -> None:
    rows = [json.loads(line) for line in written(name, TABLES[name], "json").splitlines()]
    want = TABLES[name].to_pylist()
    assert len(rows) == len(want)
    for got, row in zip(rows, want, strict=True):
        assert list(got) == list(row)
        for column, value in row.items():
            if isinstance(value, (int, str, list, type(None))) and column not in records.JSON_COLUMNS:
                assert got[column] == value, column


def test_json_writes_times_bytes_and_bodies_as_their_readers_want_them() -> None:
    message = json.loads(written("messages", TABLES["messages"], "json").splitlines()[0])
    assert message["time"] == "2025-10-09T08:53:20.000000Z"
    assert message["value"] == "AP8K"
    assert message["headers"] == {"a": 1}
    assert json.loads(written("findings", TABLES["findings"], "json").splitlines()[0])["evidence"] == {"a": 1}


@given(st.lists(st.tuples(st.text(), st.lists(st.text()), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_json_survives_any_text(rows: list[tuple[str, list[str], int]]) -> None:
    made = [Exchange(None, api=a, topics=b, correlation_id=c) for a, b, c in rows]  # type: ignore[arg-type]
    table = pa.Table.from_batches([to_batch("exchanges", made, [])])
    got = [json.loads(line) for line in written("exchanges", table, "json").split(b"\n")[:-1]]
    want = [(r["api"], r["topics"], r["correlation_id"]) for r in table.to_pylist()]
    assert [(g["api"], g["topics"], g["correlation_id"]) for g in got] == want


@pytest.mark.parametrize("name", records.TABLES)
def test_csv_has_a_head_and_a_line_for_each_row(name: str) -> None:
    text = written(name, TABLES[name], "csv").decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == TABLES[name].num_rows
    assert list(rows[0]) == TABLES[name].column_names


def test_csv_joins_lists() -> None:
    table = pa.Table.from_batches([to_batch("exchanges", [Exchange(None, topics=["a", "b"])], [])])  # type: ignore[arg-type]
    assert next(csv.DictReader(io.StringIO(written("exchanges", table, "csv").decode())))["topics"] == "a;b"


NAMES = (
    "<script>alert(1)</script>", "\x1b[31mred\x1b[2J", "a\u202eb\u2066c", "nul\0", "line\nbreak\r", "\x9b31m",
    "=cmd|' /C calc'!A0",
    "+1", "-1", "@SUM(A1)", '"quoted",;', "x" * 65536, b"bad\xff".decode("utf-8", "backslashreplace"), "\udcff",
)  # fmt: skip


def named(name: str) -> pa.Table:
    row = Exchange(None, api=name, client_id=name, topics=[name, "b"], error_name=name, status="error")  # type: ignore[arg-type]
    return pa.Table.from_batches([to_batch("exchanges", [row], [name])])


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
@pytest.mark.parametrize("format", ["text", "json", "csv"])
def test_a_hostile_name_does_nothing_where_it_is_printed(name: str, format: str) -> None:
    text = written("exchanges", named(name), format).decode()
    assert all(c == "\n" or c.isprintable() for c in text)
    if format == "json":
        (row,) = map(json.loads, text.splitlines())
        assert row["topics"][1] == "b"
        assert row["client_id"] == named(name)["client_id"][0].as_py()
    if format == "csv":
        (cells,) = csv.DictReader(io.StringIO(text, newline=""))
        assert not [cell for cell in cells.values() if cell[:1] in ("=", "+", "-", "@")]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_parquet_keeps_a_hostile_name(name: str) -> None:
    table = named(name)
    assert pq.read_table(io.BytesIO(written("exchanges", table, "parquet"))).equals(table)


def test_json_has_no_nan() -> None:
    row = Exchange(None, request='{"a": NaN, "b": [Infinity, -Infinity, "NaN"]}')  # type: ignore[arg-type]
    table = pa.Table.from_batches([to_batch("exchanges", [row], [], full=True)])
    (line,) = written("exchanges", table, "json").splitlines()
    request = json.loads(line, parse_constant=lambda name: pytest.fail(name))["request"]
    assert request == {"a": None, "b": [None, None, "NaN"]}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_a_hostile_name_in_a_body_does_nothing_where_json_is_printed(name: str) -> None:
    body = {"topics": [{"name": name.encode("utf-8", "backslashreplace").decode(), "é": 1}]}
    row = Exchange(None, request=json.dumps(body, ensure_ascii=False))  # type: ignore[arg-type]
    table = pa.Table.from_batches([to_batch("exchanges", [row], [], full=True)])
    text = written("exchanges", table, "json").decode()
    assert all(c == "\n" or c.isprintable() for c in text)
    assert json.loads(text)["request"] == body


@pytest.mark.parametrize("room", [-1, 3000])
@pytest.mark.parametrize("format", FORMATS)
def test_an_output_that_fails_leaves_no_second_error(format: str, room: int, capfd: pytest.CaptureFixture[str]) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() > room:
                raise OSError(28, "No space left on device")
            return super().write(data)

    def fill() -> None:
        with writing(format, "exchanges", TABLES["exchanges"].schema, stream) as writer:
            for batch in TABLES["exchanges"].to_batches(max_chunksize=10):
                writer.write(batch)

    stream = Full()
    with pytest.raises(OSError, match="No space"):
        fill()
    stream.close()
    gc.collect()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", records.TABLES)
def test_parquet_gives_the_table_back(name: str) -> None:
    assert pq.read_table(io.BytesIO(written(name, TABLES[name], "parquet"))).equals(TABLES[name])


@pytest.mark.parametrize("name", records.TABLES)
def test_text_holds_every_row_and_no_control_character(name: str) -> None:
    text = written(name, TABLES[name], "text").decode()
    assert all(c == "\n" or c.isprintable() for c in text)
    rows = [line for line in text.splitlines() if re.match(r"\d\d:\d\d:\d\d| {15}", line)]
    assert len(rows) == TABLES[name].num_rows
    assert max(map(width, text.splitlines())) <= 80


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_without_rows_is_written_too(format: str) -> None:
    empty = records.schema("exchanges").empty_table()
    out: Any = written("exchanges", empty, format)
    assert out == b"" if format == "json" else out


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ns"), (1.5, "1.50 s"), (119, "119 s"), (125, "2 min 05 s"), (-125, "-2 min 05 s"), (7_322, "2 h 02 min"),
     (172_799, "47 h 59 min"), (172_800, "2 d 00 h"), (3e6, "34 d 17 h")],
)  # fmt: skip
def test_a_long_duration_is_written_in_days_hours_and_minutes(seconds: float, text: str) -> None:
    assert units.duration(seconds * 1e9) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [(1, "100 %"), (0.9997, "99.97 %"), (0.99995, ">99.99 %"), (0.995, "99.50 %"), (0.812, "81.2 %"), (0, "0 %"),
     (0.00001, "<0.01 %")],
)  # fmt: skip
def test_only_a_whole_share_is_written_as_one(part: float, text: str) -> None:
    assert units.share(part) == text


@pytest.mark.parametrize(
    "text", ["1 year 2 months 3 days -05:00:00", "-1 year -2 months", "-00:00:07.5", "30:00:00", "00:00:00", "-1 day"]
)
def test_an_interval_is_written_as_the_database_writes_it(text: str) -> None:
    made = duckdb.sql(f"select interval '{text}' as i")
    assert made is not None
    interval = made.to_arrow_table().column(0)[0].as_py()
    assert units.interval(*interval) == text
