"""Where record files lie, and what their places say of their rows."""

from __future__ import annotations

import pytest

from pipelines.storage.record_files import may_hold, place

DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize(
    ("day", "since", "holds"),
    [(20_000, 20_000 * DAY_NS, True), (20_000, 20_001 * DAY_NS - 1, True), (20_000, 20_001 * DAY_NS, False),
     (20_001, 20_000 * DAY_NS, True), (None, 20_000 * DAY_NS, True)],
)  # fmt: skip
def test_a_file_may_hold_rows_of_its_day_and_one_without_a_day_any(day: int | None, since: int, holds: bool) -> None:
    assert may_hold(place("exchanges", "2020-01-01~1", day, "part-0"), since) == holds
