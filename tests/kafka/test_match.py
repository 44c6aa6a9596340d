"""Requests that wait: in the order in which they came, however many wait before and behind."""

from __future__ import annotations

import gc
import sys
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.frame import FrameFacts
from dissectors.kafka.decode import api_version
from dissectors.kafka.match import KafkaPendingRequests
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.sessions import FetchSession

PRODUCE, FETCH = api_version(0, 9), api_version(1, 11)
SESSION = FetchSession([("orders", 0)], whole=True)


def request(number: int, correlation_id: int) -> KafkaRequest:
    frame = FrameFacts(0, number * 100, 100, number * 1_000, number * 1_000 + 5, 7_000_000 + number, False, True)
    fetch = number % 3 == 0
    call = KafkaRequest(frame, FETCH if fetch else PRODUCE, correlation_id, "client")
    call.values = {"acks": number}
    call.session = SESSION if fetch else None
    return call


def facts(call: KafkaRequest) -> tuple[object, ...]:
    assert call.frame is not None
    return call.frame.offset, call.correlation_id, call.api_version, call.values, id(call.session)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 250)), min_size=1, max_size=6),
    st.sampled_from([3, 70, 200, 100_000]),
    st.sampled_from([50, 1_000_000]),
)
def test_requests_wait_in_order_however_many_they_are(turns: list[tuple[int, int]], limit: int, different: int) -> None:
    waiting, plain = KafkaPendingRequests(limit), deque[KafkaRequest]()
    number = 0
    for asked, answered in turns:
        for _ in range(asked):
            dropped = waiting.add(request(number, number % different))
            plain.append(request(number, number % different))
            number += 1
            if len(plain) > limit:
                assert dropped is not None
                assert facts(dropped) == facts(plain.popleft())
        assert len(waiting) == len(plain)
        assert [waiting.at(turn) for turn in range(len(plain))] == [call.correlation_id for call in plain]
        for i in range(answered):
            wanted = number + i if i % 7 == 6 else (plain[min(i % 3, len(plain) - 1)].correlation_id if plain else 0)
            assert wanted is not None
            at = next((turn for turn, call in enumerate(plain) if call.correlation_id == wanted), None)
            found = waiting.find(wanted)
            call, passed = waiting.take(wanted)
            if at is None:
                assert found is call is None
                continue
            before = [plain.popleft() for _ in range(at)]
            expected = plain.popleft()
            assert found is not None
            assert call is not None
            assert facts(found) == facts(call) == facts(expected)
            assert [facts(each) for each in passed] == [facts(each) for each in before]
    assert [facts(call) for call in waiting.rest()] == [facts(call) for call in plain]
    assert not len(waiting)


def test_many_waiting_requests_take_little_room() -> None:
    gc.collect()
    before = sys.getallocatedblocks()
    waiting = KafkaPendingRequests(100_000)
    for number in range(5_000):
        waiting.add(request(number, number))
    gc.collect()
    assert sys.getallocatedblocks() - before < 5_000 * 3  # as objects each takes some ten
    assert [call.correlation_id for call in waiting.rest()] == list(range(5_000))
