"""What stands for a name that a connection does not know, and what is put in for it."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.rows.late_names import LIKELY, Name, Names, open_keys, open_rows, resolve, unresolved, waiting
from dissectors.rows.sink import Sink

S = 1_000_000_000
WAIT = 300 * S


def names(*reports: tuple[int, str]) -> Names:
    """Reports of one key: (time in seconds, name)."""
    return Names((Name("id", time * S, name) for time, name in reports), wait_ns=WAIT)


def batch(*rows: tuple[int, str]) -> pa.RecordBatch:
    """Rows of a table with a topic and a list of topics: (time in seconds, topic)."""
    times = pa.array([time * 1_000_000 for time, _ in rows]).cast(pa.timestamp("us", "UTC"))
    topics = [topic for _, topic in rows]
    return pa.RecordBatch.from_pydict(
        {"time": times, "topic": topics, "topics": [["other", topic] for topic in topics]}
    )


def test_the_name_reported_last_before_a_row_is_the_one_it_gets() -> None:
    renamed = names((10, "orders"), (20, "orders"), (30, "bills"))
    assert [renamed.get("id", time * S) for time in (10, 29, 30, 10_000)] == ["orders", "orders", "bills", "bills"]


def test_a_name_counts_for_the_five_minutes_before_it_and_no_longer() -> None:
    late = names((400, "orders"))
    assert late.get("id", 100 * S) == "orders"
    assert late.get("id", 100 * S - 1) is None


def test_a_likely_name_is_used_where_no_certain_one_is_known() -> None:
    token = unresolved("id", "7")
    likely = Names([Name("id" + LIKELY, 0, "guess")])
    assert likely.text(token, S) == "guess"
    likely.add(Name("id", S, "sure"))
    assert likely.text(token, S) == "sure"


def test_keys_beyond_the_limit_are_refused_and_counted() -> None:
    full = Names([Name(f"id{i}", 0, "x") for i in range(5)], most=3)
    assert (len(full), full.refused) == (3, 2)


@pytest.mark.parametrize("key", ["iggy/10.0.0.1:8090/1", "kafka/AAAAAAAAAAAAAAAAAAAAAQ"])
@given(st.lists(st.tuples(st.integers(0, 400), st.sampled_from("abc"), st.integers(0, 2)), max_size=16))
def test_parts_that_are_brought_together_say_what_the_whole_says(key: str, reports: list[tuple[int, str, int]]) -> None:
    whole = Names((Name(key, time * S, name) for time, name, _ in reports), wait_ns=WAIT)
    parts = [Names(Name(key, t * S, n) for t, n, part in reports if part == number) for number in range(3)]
    together = Names((name for part in reversed(parts) for name in part), wait_ns=WAIT)
    again, sinks = Names(wait_ns=WAIT), [Sink(()) for _ in range(3)]
    for time, name, part in reversed(reports):
        again.add(Name(key, time * S, name))
        sinks[part].name(key, time * S, name)
    of_sinks = Names((name for sink in sinks for name in sink.names), wait_ns=WAIT)
    counted: dict[tuple[int, str], int] = {}
    for time, name, _ in reports:
        span = (0 if key.startswith("kafka") else time // 60, name)
        counted[span] = min(time, counted.get(span, time))
    every = sorted((time, name) for (_, name), time in counted.items())
    for time in range(-1, 402, 3):
        before = [at for at, _ in every if at <= time] or [at for at, _ in every[:1]]
        want = min((name for at, name in every if at == before[-1]), default=None) if before else None
        if before and before[-1] > time + 300:
            want = None
        for known in (whole, together, again, of_sinks):
            assert known.get(key, time * S) == want


@given(st.lists(st.tuples(st.integers(0, 400), st.sampled_from("ab")), max_size=12), st.integers(0, 400))
def test_a_row_has_the_name_that_was_known_at_its_time_whatever_is_reported_later(
    reports: list[tuple[int, str]], time: int
) -> None:
    then = names(*(report for report in reports if report[0] <= time))
    if (known := then.get("id", time * S)) is not None:
        assert names(*reports).get("id", time * S) == known


@given(st.lists(st.tuples(st.integers(0, 400), st.sampled_from("ab")), max_size=12), st.integers(0, 400))
def test_names_since_a_time_go_on_as_all_of_them(reports: list[tuple[int, str]], time: int) -> None:
    kept = names(*(report for report in reports if report[0] <= time)).since(time * S)
    kept.update(Name("id", at * S, name) for at, name in reports if at > time)
    for at in range(time, 402):
        assert kept.get("id", at * S) == names(*reports).get("id", at * S)


def test_of_names_reported_at_one_time_the_smallest_counts() -> None:
    both = names((10, "iggy-0.7"), (10, "iggy-0.4"))
    assert [both.get("id", time * S) for time in (1, 10, 50)] == ["iggy-0.4"] * 3


@given(
    st.lists(st.tuples(st.sampled_from("kl"), st.integers(0, 9), st.sampled_from("ab")), max_size=12),
    st.lists(st.tuples(st.sampled_from("klm"), st.integers(0, 14), st.sampled_from("abc")), max_size=6),
)
def test_news_say_which_rows_are_called_otherwise_than_before(
    known: list[tuple[str, int, str]], more: list[tuple[str, int, str]]
) -> None:
    reports = [Name(*each) for each in known]
    before = Names(reports, wait_ns=2)
    after = Names([*before, *(Name(*each) for each in more)], wait_ns=2)
    news = after.news(before)
    for key in "klm":
        for time in range(-3, news.get(key, 20)):
            assert after.get(key, time) == before.get(key, time)


def test_a_name_that_is_only_reported_again_is_no_news() -> None:
    before = Names([Name("k", 1, "a"), Name("k", 5, "b")])
    again = Names([*before, Name("k", 3, "a"), Name("k", 9, "b")])
    assert again.news(before) == {}
    assert Names([*before, Name("k", 9, "c")]).news(before) == {"k": 9}
    assert Names([*before, Name("l", 9, "c")], wait_ns=4).news(before) == {"l": 5}


def test_tokens_become_names_in_columns_and_in_lists() -> None:
    rows = batch((1, unresolved("id", "fallback")), (2, "plain"), (3, unresolved("nobody", "fallback")))
    assert open_rows(rows).tolist() == [True, False, True]
    assert open_keys(rows) == {"id", "id?", "nobody", "nobody?"}
    done = resolve(rows, names((0, "orders")))
    assert done.column("topic").to_pylist() == ["orders", "plain", "fallback"]
    assert done.column("topics").to_pylist() == [["other", "orders"], ["other", "plain"], ["other", "fallback"]]


@pytest.mark.parametrize(("clock", "waits"), [(100, True), (301, True), (302, False)])
def test_a_row_waits_for_its_name_as_long_as_one_could_count(clock: int, waits: bool) -> None:
    rows, keys = waiting(batch((1, unresolved("id", "7")), (1, "plain")), names(), clock * S)
    assert rows.tolist() == [waits, False]
    assert keys == ({"id"} if waits else set())


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), max_size=6),
    st.lists(st.integers(0, 9), min_size=1, max_size=8),
    st.integers(0, 20),
)
def test_rows_with_one_token_are_named_and_wait_each_by_its_own_time(
    reports: list[tuple[int, str]], times: list[int], clock: int
) -> None:
    known = Names((Name("id", time * S, name) for time, name in reports), wait_ns=2 * S)
    rows = batch(*((time, unresolved("id", "7")) for time in times))
    ends = [time * S + 999 for time in times]  # a name that is reported in a row's microsecond counts
    want = [known.get("id", end) for end in ends]
    assert resolve(rows, known).column("topic").to_pylist() == [name or "7" for name in want]
    waits, _ = waiting(rows, known, clock * S)
    assert waits.tolist() == [name is None and end + 2 * S > clock * S for name, end in zip(want, ends, strict=True)]
