"""What requests and answers of Kafka say that no column holds: rows of `events`."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from dissectors.kafka import PROTOCOL
from dissectors.kafka.decode import EVENTFUL, HEARTBEATS, SHARE_ACKNOWLEDGE, SHARE_FETCH
from dissectors.kafka.events import _ANSWERS, _REQUESTS
from tests.feeding import CLIENT, SERVER, feed_every_way
from tests.kafka.wire import request, response

ORDERS = struct.pack(">h", 6) + b"orders"


def events(*script: tuple[int, bytes]) -> list[dict[str, Any]]:
    """What the events of a conversation say, without where and when."""
    shown = ("kind", "topic", "group", "subject", "number", "text")
    return [
        {name: getattr(row, name) for name in shown if getattr(row, name) is not None}
        for row in feed_every_way(PROTOCOL, script).events
    ]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_every_eventful_api_has_a_reader_and_no_other() -> None:
    assert set(_ANSWERS) | HEARTBEATS | {SHARE_FETCH, SHARE_ACKNOWLEDGE} == EVENTFUL
    assert _REQUESTS <= EVENTFUL


def test_who_deletes_a_topic_is_told_with_the_result() -> None:
    asked = struct.pack(">i", 1) + ORDERS + struct.pack(">i", 1000)
    for code in (0, 29):
        answer = struct.pack(">ii", 0, 1) + ORDERS + struct.pack(">h", code)
        assert events((CLIENT, request(20, 1, 1, asked)), (SERVER, response(20, 1, 1, answer))) == [
            {"kind": "deleted", "topic": "orders", "number": code}
        ]


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [("retention.ms", "1000", "retention.ms=1000"), ("sasl.jaas.config", "hush", "sasl.jaas.config=<redacted>")],
)
def test_a_configuration_is_told_but_never_a_secret(key: str, value: str, shown: str) -> None:
    config = struct.pack(">i", 1) + text(key) + text(value)
    asked = struct.pack(">i", 1) + b"\2" + ORDERS + config + b"\0"
    answer = struct.pack(">ii", 0, 1) + struct.pack(">hh", 0, -1) + b"\2" + ORDERS
    assert events((CLIENT, request(33, 0, 1, asked)), (SERVER, response(33, 0, 1, answer))) == [
        {"kind": "altered", "topic": "orders", "number": 0, "text": shown}
    ]


def test_a_topic_that_is_made_compacted_is_told_so() -> None:
    policy = struct.pack(">i", 1) + text("cleanup.policy") + text("compact")
    asked = struct.pack(">i", 1) + ORDERS + struct.pack(">ihi", 3, 1, 0) + policy + struct.pack(">i", 1000)
    answer = struct.pack(">i", 1) + ORDERS + struct.pack(">h", 0)
    assert events((CLIENT, request(19, 0, 1, asked)), (SERVER, response(19, 0, 1, answer))) == [
        {"kind": "created", "topic": "orders", "number": 0, "text": "partitions=3, cleanup.policy=compact"},
        {"kind": "compacted", "topic": "orders", "text": "compact"},
    ]


def test_an_address_that_a_broker_advertises_is_told_once_a_connection() -> None:
    answer = struct.pack(">i", 1) + struct.pack(">i", 1) + text("localhost") + struct.pack(">i", 9092)
    answer += struct.pack(">i", 0)
    script = []
    for id_ in (1, 2):
        script += [(CLIENT, request(3, 0, id_, struct.pack(">i", 0))), (SERVER, response(3, 0, id_, answer))]
    assert events(*script) == [{"kind": "advertised", "subject": "localhost:9092", "number": 1}]


def test_a_member_that_leaves_is_told() -> None:
    asked = text("g") + text("m-1")
    assert events((CLIENT, request(13, 0, 1, asked)), (SERVER, response(13, 0, 1, b"\0\0"))) == [
        {"kind": "left", "group": "g", "subject": "m-1"}
    ]
    assert events((CLIENT, request(13, 0, 1, asked)), (SERVER, response(13, 0, 1, b"\0\x19"))) == []


def test_a_transaction_is_told_with_its_time_out_and_that_it_was_given_up() -> None:
    begin = text("tx") + struct.pack(">i", 60_000)
    began = struct.pack(">ihqh", 0, 0, 7, 0)
    end = text("tx") + struct.pack(">qhb", 7, 0, 0)
    assert events(
        (CLIENT, request(22, 0, 1, begin)),
        (SERVER, response(22, 0, 1, began)),
        (CLIENT, request(26, 0, 2, end)),
        (SERVER, response(26, 0, 2, struct.pack(">ih", 0, 0))),
    ) == [
        {"kind": "transaction_began", "subject": "tx", "number": 60_000, "text": "7"},
        {"kind": "transaction_ended", "subject": "tx", "number": 7, "text": "abort"},
        {"kind": "transaction_aborted", "subject": "tx", "number": 7},
    ]
