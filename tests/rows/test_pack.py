"""Numbers of rows are packed as Arrow itself packs them, nulls where there is no value."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dissectors.records import PACKET_MASK, PACKET_SHIFT
from dissectors.rows import pack
from dissectors.rows.layout import ABSENT
from dissectors.wire.arrays import Numbers

EDGES = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63) + 2]
VALUES = st.lists(st.none() | st.sampled_from(EDGES) | st.integers(-(2**63) + 2, 2**63 - 1), min_size=1, max_size=40)


def int64(values: Sequence[int | None]) -> Numbers:
    return np.array([ABSENT if value is None else value for value in values], np.int64).data


def column(type: pa.DataType, rows: int, *buffers: object) -> list[object]:
    """What Arrow makes of buffers."""
    array = pa.Array.from_buffers(type, rows, [*map(pa.py_buffer, buffers)])
    array.validate(full=True)
    return array.to_pylist()


@given(VALUES)
def test_a_row_is_valid_where_it_has_a_value(values: list[int | None]) -> None:
    numbers = int64(values)
    assert column(pa.int64(), len(values), pack.validity(numbers), numbers) == values


@given(st.lists(st.none() | st.booleans(), min_size=1, max_size=40))
def test_truth_values_are_bits(values: list[bool | None]) -> None:
    numbers = int64(values)
    assert column(pa.bool_(), len(values), pack.validity(numbers), pack.flags(numbers)) == values


@given(VALUES)
def test_what_32_bits_do_not_hold_is_no_value(values: list[int | None]) -> None:
    valid, data, absent = pack.halves(int64(values))
    held = [v if v is not None and -(2**31) <= v < 2**31 else None for v in values]
    assert column(pa.int32(), len(values), valid, data) == held
    assert absent == held.count(None)


@given(VALUES)
def test_times_before_1970_are_no_times(values: list[int | None]) -> None:
    found, absent = pack.microseconds(int64(values))
    assert found.tolist() == [ABSENT if v is None or v < 0 else v // 1000 for v in values]
    assert absent == found.tolist().count(ABSENT)


@given(st.lists(st.none() | st.tuples(st.integers(0, 2**22), st.integers(0, PACKET_MASK)), max_size=40))
def test_a_reference_is_a_file_and_a_packet(places: list[tuple[int, int] | None]) -> None:
    files, packets = pack.packets(int64([p and p[0] << PACKET_SHIFT | p[1] for p in places]))
    expected = [p or (ABSENT, ABSENT) for p in places]
    assert [*zip(files.tolist(), packets.tolist(), strict=True)] == expected


@given(st.lists(st.lists(st.none() | st.integers(0, 1), min_size=3, max_size=3), min_size=1, max_size=20), st.data())
def test_a_survey_counts_what_is_absent_and_sees_what_is_constant(
    rows: list[list[int | None]], data: st.DataObject
) -> None:
    columns = np.array([int64([row[k] for row in rows]) for k in range(3)])
    some = data.draw(st.integers(1, len(rows)))
    absent, same = pack.survey(columns.data, some)
    first = [[row[k] for row in rows[:some]] for k in range(3)]
    assert absent.tolist() == [column.count(None) for column in first]
    assert [bool(flag) for flag in same] == [len(set(column)) == 1 for column in first]
