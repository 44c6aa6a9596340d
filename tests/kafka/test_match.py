"""Requests that wait: in the order in which they came, however many wait before and behind."""

from __future__ import annotations

import gc
import sys
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.frame import FrameFacts
from dissectors.kafka.decode import api_version
from dissectors.kafka.match import KafkaPendingRequests
from dissectors.kafka.pending import FETCH_VALUES, KafkaRequest, PendingFetches
from dissectors.kafka.sessions import FetchSession

PRODUCE, FETCH = api_version(0, 9), api_version(1, 11)
SESSION = FetchSession([("orders", 0)], whole=True)


def request(number: int, correlation_id: int) -> KafkaRequest:
    frame = FrameFacts(0, number * 100, 100, number, number * 1_000, number * 1_000 + 5, 7_000_000 + number, True)
    fetch = number % 3 == 0
    call = KafkaRequest(frame, FETCH if fetch else PRODUCE, correlation_id, "client")
    call.values = dict.fromkeys(FETCH_VALUES, number)
    call.session = SESSION if fetch else None
    return call


def fetch(number: int, correlation_id: int) -> KafkaRequest:
    call = request(3 * number, correlation_id)
    call.topic_keys, call.partitions = ("orders",), 1
    return call


def by_column(calls: list[KafkaRequest]) -> PendingFetches:
    rows = [
        (
            call.version,
            call.correlation_id,
            call.client_id,
            call.topic_keys,
            call.partitions,
            tuple(call.values.values()),
            call.session,
        )
        for call in calls
    ]
    frames = FrameFacts._make(map(list, zip(*(call.frame or () for call in calls), strict=True)))
    return PendingFetches._make((frames, *map(list, zip(*rows, strict=True))))


def rest(waiting: KafkaPendingRequests) -> list[tuple[object, ...]]:
    calls, fetches = waiting.rest()
    return sorted([facts(call) for group in fetches for call in group.calls()] + [facts(call) for call in calls])


def facts(call: KafkaRequest) -> tuple[object, ...]:
    assert call.frame is not None
    return (
        call.frame.offset,
        call.correlation_id,
        call.api,
        call.version,
        sorted(call.values.items()),
        call.topic_keys,
        call.partitions,
        id(call.session),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 600), st.integers(0, 250), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([3, 70, 200, 100_000]),
    st.sampled_from([50, 1_000_000]),
)
def test_requests_wait_in_order_however_many_they_are(
    turns: list[tuple[int, int, bool]], limit: int, different: int
) -> None:
    waiting, plain = KafkaPendingRequests(limit), deque[KafkaRequest]()
    number = 0
    for asked, answered, together in turns:
        make = fetch if together else request
        calls = [make(i, i % different) for i in range(number, number + asked)]
        plain.extend(make(i, i % different) for i in range(number, number + asked))
        number += asked
        if together:
            dropped = list(waiting.add_fetches(by_column(calls)))
        else:
            dropped = [oldest for call in calls for oldest in waiting.add(call)]
        beyond = [plain.popleft() for _ in range(len(plain) - limit)]
        assert [facts(call) for call in dropped] == [facts(call) for call in beyond]
        assert len(waiting) == len(plain)
        assert list(waiting.in_order()) == [call.correlation_id for call in plain]
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
    assert rest(waiting) == sorted(facts(call) for call in plain)
    assert not len(waiting)


@pytest.mark.parametrize("together", [False, True])
def test_many_waiting_requests_take_little_room(together: bool) -> None:
    gc.collect()
    before = sys.getallocatedblocks()
    waiting = KafkaPendingRequests(100_000)
    if together:
        waiting.add_fetches(by_column([fetch(number, number) for number in range(5_000)]))
    else:
        for number in range(5_000):
            waiting.add(request(number, number))
    gc.collect()
    assert sys.getallocatedblocks() - before < 5_000 * 3  # as objects each takes some ten
    assert [row[1] for row in rest(waiting)] == list(range(5_000))
