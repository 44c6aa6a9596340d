"""Rows on a terminal: they fit, key columns stay, what rows share is shown once."""

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.formats.grid import Grid, GridColumn
from pipelines.formats.outline import outline
from pipelines.formats.plain import clean, cut, hanging, width, wrapped

KEY, ELASTIC = GridColumn("key"), GridColumn("name", elastic=True)
COLUMNS = (
    GridColumn("", once=True, lenient=True), GridColumn("time"), GridColumn("n", right=True), ELASTIC,
    GridColumn("extra", need=1),
    GridColumn("shared", once=True, need=2), GridColumn("shown", below=True),
)  # fmt: skip
TEXT = st.text(max_size=120).map(clean)


@given(st.lists(st.lists(TEXT, min_size=7, max_size=7), max_size=6), st.integers(40, 160))
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_lost(rows: list[list[str]], room: int) -> None:
    lines = list(Grid(COLUMNS, room).lines(rows))
    assert all(width(line) <= room for line in lines)
    text = "".join(lines).replace(" ", "")
    for row in rows:
        for cell in (row[1], row[2], row[3], row[6]):
            assert cell.replace(" ", "") in text
    assert all("\n" not in line for line in lines)


@given(st.lists(st.lists(TEXT, min_size=7, max_size=7), min_size=1, max_size=6), st.integers(1, 5))
def test_every_row_is_there_however_rows_are_batched(rows: list[list[str]], size: int) -> None:
    numbered = [[f"r{at}", f"t{at}", *row[2:]] for at, row in enumerate(rows)]
    grid = Grid(COLUMNS, 100)
    made = [line for at in range(0, len(rows), size) for line in grid.lines(numbered[at : at + size])]
    assert all(any(f"t{at}" in line for line in made) for at in range(len(rows)))


def test_what_all_rows_share_is_shown_once_and_a_change_repeats_the_head() -> None:
    grid = Grid((GridColumn("broker", once=True), KEY), 60)
    assert list(grid.lines([["b1", "x"], ["b1", "y"]])) == ["broker b1", "key", "x", "y"]
    assert list(grid.lines([["b1", "z"]])) == ["z"]
    assert list(grid.lines([["b2", "w"]])) == ["broker  key", "b2      w"]
    assert list(grid.lines([["b1", "v"]])) == ["b1      v"]


def test_other_columns_join_in_order_of_need_where_there_is_room() -> None:
    columns = (KEY, GridColumn("second", need=2), GridColumn("first", need=1))
    row = [["k" * 20, "s" * 20, "f" * 20]]
    heads = [next(iter(Grid(columns, room).lines(row))).split() for room in (40, 42, 64)]
    assert heads == [["key"], ["key", "first"], ["key", "second", "first"]]


def test_the_last_columns_stand_below_where_lines_have_no_room_for_all() -> None:
    columns = tuple(GridColumn(name * 16) for name in "abc")
    row = ["1" * 16, "2" * 16, "3"]
    assert list(Grid(columns, 40).lines([row, row])) == [
        f"{'a' * 16}  {'b' * 16}",
        *[f"{'1' * 16}  {'2' * 16}", f"    {'c' * 16}  3"] * 2,
    ]


def test_a_cell_that_does_not_fit_stands_below_its_row() -> None:
    rows = [["1", "x" * 20], ["2", "y" * 100]]
    lines = list(Grid((KEY, GridColumn("name", elastic=True)), 40).lines(rows))
    assert lines[1].split() == ["1", "x" * 20]
    assert lines[2].split() == ["2", "…"]
    assert lines[3].split() == ["name", "y" * 30]
    assert "".join(lines[3:]).count("y") == 100


def test_what_all_names_begin_with_is_said_once_where_a_line_has_no_room() -> None:
    columns = [GridColumn("time"), GridColumn("topic", elastic=True)]
    rows = [[f"01:11:1{n}.604019", f"persistent://public/default/orders-{n}"] for n in range(3)]
    narrow, wide = (list(Grid(columns, room).lines(rows)) for room in (40, 80))
    assert narrow[0] == "topic persistent://public/default/…"
    assert narrow[-1].split() == ["01:11:12.604019", "orders-2"]
    assert len(narrow) == 5
    assert wide[-1].endswith("persistent://public/default/orders-2")
    grid = Grid(columns, 40)
    list(grid.lines(rows))
    later = list(grid.lines([["01:11:19.604019", "persistent://public/other/x, persistent://public/default/y"]]))
    assert later[0] == "topic persistent://public/…"  # what no longer holds is said anew
    assert later[-1].split(maxsplit=1)[1] == "other/x, default/y"
    other = list(grid.lines([["01:11:20.604019", "orders"]]))
    assert "…" not in other[0]
    assert other[-1].split() == ["01:11:20.604019", "orders"]


def test_colour_says_how_bad_it_is_and_pipes_get_none() -> None:
    columns, rows = (GridColumn("status", toned=True),), [["ok"], ["NOT_LEADER"], ["unanswered"]]
    assert "\x1b" not in "".join(Grid(columns, 40).lines(rows))
    _, fine, failed, late = Grid(columns, 40, colour=True).lines(rows)
    assert fine == "ok"
    assert failed == "\x1b[31mNOT_LEADER\x1b[0m"
    assert late.startswith("\x1b[33m")


def test_a_payload_of_control_characters_is_shown_without_an_object_for_each() -> None:
    size = 1 << 20
    tracemalloc.start()
    try:
        assert clean("\0a" * size) == "\\x00a" * size
        assert tracemalloc.get_traced_memory()[1] < 30 * size
    finally:
        tracemalloc.stop()


@given(st.text(max_size=300), st.integers(8, 60))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, room: int) -> None:
    text = clean(text)
    lines = wrapped(text, room)
    assert all(width(line) <= room for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_line_does_not_end_between_a_number_and_its_unit() -> None:
    assert wrapped("slowest 12 ms, then 5 requests", 11) == ["slowest", "12 ms, then", "5 requests"]
    assert wrapped("understood to 100 %", 17) == ["understood to", "100 %"]


def test_a_name_of_64_kib_is_cut_and_says_so() -> None:
    assert cut("x" * 65536).endswith("… (65,536 characters)")
    assert cut("x" * 100) == "x" * 100


def test_a_fact_that_is_too_long_goes_on_below_its_value() -> None:
    assert hanging("  name    one two three", 18) == ["  name    one two", "          three"]


@pytest.mark.parametrize("room", [40, 80])
def test_a_body_is_indented_and_fits(room: int) -> None:
    body = {"topics": [{"name": "x" * 100, "partitions": [1, 2]}, {"name": "\x1b[31m", "deep": {"er": [[1], []]}}]}
    lines = list(outline(body, room))
    assert all(width(line) <= room and line.isprintable() for line in lines)
    assert lines[0] == "topics:"
    assert lines[1].startswith("  - name: ")
    assert any(line.strip() == "partitions: 1, 2" for line in lines)


def test_only_cells_have_tones_and_heads_are_as_wide_as_they_look() -> None:
    columns = (KEY, GridColumn("status", toned=True, elastic=True), GridColumn("packet", right=True))
    rows = [["k" * 14, "ok", "7"], ["k" * 14, "ok, retransmitted", "8"], ["k" * 14, "E" * 60, "9"]]
    plain, coloured = (list(Grid(columns, 40, colour=colour).lines(rows)) for colour in (False, True))
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in coloured] == plain
    assert "\x1b[31m" not in coloured[0]
    assert "\x1b" not in coloured[1]
    assert "\x1b[33mok, retransmitted\x1b[0m" in coloured[2]
    assert "\x1b[31m…\x1b[0m" in coloured[3]
