"""What is remembered of the lengths of a client's requests, to tell what a hole in them was."""

from dissectors.kafka.decode import FETCH, PRODUCE, ApiVersion, api_version
from dissectors.kafka.request_sizes import RequestSizes

PRODUCE_9, FETCH_12 = api_version(PRODUCE, 9), api_version(FETCH, 12)


def note(used: RequestSizes, api: ApiVersion, size: int, times: int) -> None:
    for _ in range(times):
        used.note(api, size)


def test_a_length_is_usual_for_an_api_once_it_was_seen_three_times() -> None:
    used = RequestSizes()
    note(used, FETCH_12, 80, 2)
    assert not used.usual(FETCH_12, 80)
    note(used, FETCH_12, 80, 1)
    assert used.usual(FETCH_12, 80)
    assert not used.usual(FETCH_12, 81)
    assert not used.usual(PRODUCE_9, 80)
    assert used.apis == (FETCH_12,)


def test_of_very_many_lengths_the_first_are_remembered_and_every_api() -> None:
    used = RequestSizes()
    note(used, PRODUCE_9, 100, 2)
    for size in range(1_000, 8_000):
        note(used, PRODUCE_9, size, 3)
    note(used, FETCH_12, 80, 3)
    note(used, PRODUCE_9, 100, 1)
    assert used.usual(PRODUCE_9, 100)
    assert used.usual(PRODUCE_9, 1_000)
    assert not used.usual(PRODUCE_9, 7_999)
    assert used.apis == (PRODUCE_9, FETCH_12)
