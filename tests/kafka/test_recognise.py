"""Kafka is distinguished from other protocols by its bytes, on any port and from any point."""

import random
import struct
from collections.abc import Iterable
from functools import partial

from dissectors.kafka import PROTOCOL
from tests.feeding import CLIENT, SERVER, feed
from tests.kafka.wire import batch, fetch, produce, produced, record, request, response
from tests.session import recognising
from tests.session.recognising import CERTAIN

judged = partial(recognising.judged, PROTOCOL)
ONE = batch([record(0, None, b"value")])
HELLO = request(18, 3, 0, b"\x05java\x063.7.0\0")
VERSIONS = struct.pack(">hi", 0, 20) + b"".join(struct.pack(">hhh", key, 0, key % 5) for key in range(20))


def test_one_request_is_enough() -> None:
    for data in (
        HELLO,
        produce(1, {("a", 0): ONE}),
        fetch(7, [("a", [0])]),
        request(3, 0, 1, struct.pack(">i", 0), None),
    ):
        assert judged(data, b"", False) >= CERTAIN


def test_a_request_without_its_end_is_enough_once_it_is_answered() -> None:
    start = produce(1, {("a", 0): ONE})[:24]
    assert 0 < judged(start, b"", False) < CERTAIN
    assert judged(start, produced(2, [("a", 0, 0, 1)]), False) < CERTAIN
    assert judged(start, produced(1, [("a", 0, 0, 1)]), False) >= CERTAIN


def test_a_newer_question_for_versions_is_enough_once_it_is_answered() -> None:
    newer = bytearray(HELLO)
    newer[7] = 9
    unsupported = struct.pack(">iihihhh", 16, 0, 35, 1, 18, 0, 4)
    assert 0 < judged(bytes(newer), b"", False) < CERTAIN
    assert 0 < judged(bytes(newer), response(18, 0, 0, b"\0\0"), False) < CERTAIN
    for answer in (unsupported, response(18, 0, 0, VERSIONS)):
        assert judged(bytes(newer), answer, False) >= CERTAIN
    sink, _ = feed(PROTOCOL, [(CLIENT, bytes(newer)), (SERVER, unsupported)])
    assert [(e.api, e.code, e.expected) for e in sink.errors] == [("ApiVersions", 35, True)]


def test_of_a_large_request_the_first_kilobytes_are_enough() -> None:
    large = produce(1, {("a", 0): batch([record(0, None, bytes(20_000))])})
    assert judged(large[:8000], b"", False) >= CERTAIN
    assert judged(large[:24] + bytes(8000), b"", False) < CERTAIN


def test_fewer_bytes_than_a_header_are_not_enough_and_not_refused() -> None:
    for n in range(1, 14):
        assert 0 < judged(HELLO[:n], b"", False) < CERTAIN


def test_a_request_is_found_in_the_middle_of_a_stream() -> None:
    data = random.Random(1).randbytes(500) + fetch(7, [("a", [0])])
    assert judged(data, b"", True) >= CERTAIN
    assert judged(data, b"", False) < CERTAIN


def answers(ids: Iterable[int]) -> bytes:
    return b"".join(produced(i, [("a", 0, 0, 1)]) for i in ids)


def test_a_list_of_versions_is_enough_but_a_few_lengths_and_ids_are_not() -> None:
    assert 0 < judged(b"", answers(range(15)), True) < CERTAIN
    assert judged(b"", response(18, 0, 0, VERSIONS), True) >= CERTAIN


def test_a_long_row_of_answers_is_enough_where_its_ids_ascend_and_no_request_was_captured() -> None:
    assert judged(b"", answers(range(100, 116)), True) >= CERTAIN
    assert judged(b"", answers(range(100, 148, 3)), False) >= CERTAIN
    assert judged(b"x", answers(range(100, 116)), True) < CERTAIN
    assert 0 < judged(b"", answers([*range(100, 115), 90]), True) < CERTAIN


def test_certainty_does_not_fall_as_bytes_come() -> None:
    data = HELLO + produce(1, {("a", 0): ONE}) + fetch(7, [("a", [0])])
    seen = [judged(data[:n], b"", False) for n in range(1, len(data))]
    assert seen == sorted(seen)
