"""Columns of numbers: rows that are alike."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dissectors.kafka.coded import last_alike

ROWS = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 2)), max_size=12)


@given(ROWS.filter(bool), ROWS)
def test_a_wanted_row_is_given_the_last_one_that_is_alike(
    rows: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    known = {row: i for i, row in enumerate(rows)}
    columns = [np.array(each, np.int64).reshape(-1, 2).T for each in (rows, wanted)]
    found, there = last_alike(list(columns[0]), list(columns[1]))
    assert there.tolist() == [row in known for row in wanted]
    assert [i for i, is_there in zip(found.tolist(), there.tolist(), strict=True) if is_there] == [
        known[row] for row in wanted if row in known
    ]
