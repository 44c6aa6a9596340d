"""Requests that wait: by correlation id, in whatever order their answers come."""

from hypothesis import given
from hypothesis import strategies as st

from dissectors.kafka.decode import api_version
from dissectors.kafka.match import KafkaPendingRequests
from dissectors.kafka.pending import KafkaRequest, new_request
from dissectors.session.frame import FrameFacts

PRODUCE = api_version(0, 9)


def request(number: int, correlation_id: int) -> KafkaRequest:
    frame = FrameFacts(0, number * 100, 100, number, number * 1_000, number * 1_000 + 5, 7_000_000 + number, True)
    return new_request(frame, PRODUCE, correlation_id, "client")


def waiting_for(ids: list[int]) -> tuple[KafkaPendingRequests, list[KafkaRequest]]:
    waiting, calls = KafkaPendingRequests(100), [request(number, id_) for number, id_ in enumerate(ids)]
    for call in calls:
        waiting.add(call)
    return waiting, calls


@given(st.lists(st.integers(0, 12), max_size=40), st.lists(st.integers(0, 14), max_size=60), st.integers(1, 50))
def test_an_answer_is_for_the_oldest_request_with_its_id(asked: list[int], answered: list[int], limit: int) -> None:
    waiting, plain = KafkaPendingRequests(limit), list[KafkaRequest]()
    for number, id_ in enumerate(asked):
        call = request(number, id_)
        dropped = waiting.add(call)
        plain.append(call)
        assert (dropped is not None) == (len(plain) > limit)
        if dropped is not None:
            plain.remove(dropped)
    for id_ in answered:
        expected = next((call for call in plain if call.correlation_id == id_), None)
        assert waiting.find(id_) is expected
        assert waiting.take(id_) is expected
        if expected is not None:
            plain.remove(expected)
        assert len(waiting) == len(plain)
        assert sorted(waiting.ids()) == sorted({call.correlation_id for call in plain})
    assert waiting.rest() == plain
    assert not len(waiting)


def test_an_answer_to_a_later_request_proves_nothing_about_earlier_ones() -> None:
    waiting, calls = waiting_for([5, 6, 7])
    later = waiting.take(7)
    assert later is calls[2]
    assert waiting.passed(later) == []
    assert waiting.take(5) is calls[0]


def test_a_hole_explains_the_requests_before_the_next_one_that_is_answered() -> None:
    waiting, calls = waiting_for([5, 6, 7])
    waiting.lose()
    waiting.add(request(3, 8))
    later = waiting.take(7)
    assert later is not None
    assert waiting.passed(later) == calls[:2]
    assert waiting.ids() == [8]
    last = waiting.take(8)
    assert last is not None
    assert waiting.passed(last) == []
