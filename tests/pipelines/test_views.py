"""Queries with names, the rows that a look needs, and sentences that name columns."""

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection

from pipelines.answers.records import database_of
from pipelines.sql.views import SomeRows, Views
from pipelines.tables import verdicts
from pipelines.tables.verdicts.capture import NOTED
from pipelines.tables.verdicts.told import said


@pytest.fixture
def duckdb() -> Iterator[DuckDBPyConnection]:
    with database_of({"numbers": pa.table({"n": [1, 2, 3]})}) as connection:
        yield connection


def test_a_view_is_made_once_when_a_query_first_names_it_with_those_that_it_names(duckdb: DuckDBPyConnection) -> None:
    watched = Mock(wraps=duckdb)
    views = Views(
        watched, {"v_even": "from v_all where n % 2 = 0", "v_odd": "select 1 // 0"}, {"v_all": "select * from numbers"}
    )
    assert [views.rows("from v_even") for _ in range(2)] == [[{"n": 2}]] * 2
    made = [call.args[0] for call in watched.execute.call_args_list if call.args[0].startswith("create")]
    assert [re.findall("(table|view) (v_[a-z]+)", query)[0] for query in made] == [
        ("view", "v_all"),
        ("table", "v_even"),
    ]


def test_needs_are_met_by_rows_enough(duckdb: DuckDBPyConnection) -> None:
    few, many, none = (
        SomeRows("numbers", "n >= 2", least=2),
        SomeRows("numbers", "n >= 2", least=3),
        SomeRows("numbers", "n >= 2", one="n > 3"),
    )
    assert Views(duckdb, {}).met([few, many, none, few]) == {few}
    assert Views(duckdb, {}, empty=("numbers",)).met([few]) == set()


def test_events_that_checks_look_for_are_noted() -> None:
    """Kinds of events that no check names cost nothing; one that a check names must be there."""
    sources = [path.read_text() for path in Path(verdicts.__file__).parent.glob("*.py")]
    named = {kind for text in sources for kind in re.findall(r"event = '(\w+)'", text)}
    lists = [kinds for text in sources for kinds in re.findall(r"event in (\([^)]*\))", text)]
    assert lists
    assert named | {kind for kinds in lists for kind in re.findall(r"'(\w+)'", kinds)} == set(NOTED)


def test_a_sentence_says_a_number_with_its_noun_and_verb() -> None:
    words = {"count": 12, "one": 1, "names": ["a", "b", "c"], "two": ["a", "b"], "waited_ns": 1_500_000}
    assert said("{count:batch/was/were} and {one:batch/was/were}", words) == "12 batches were and 1 batch was"
    assert said("{count:?is/are} {one:?is/are} {count:times}", words) == "are is 12 times"
    assert said("{names:broker}, {two:broker}, {waited_ns:ns}", words) == "3 brokers, a and b, 1.50 ms"
