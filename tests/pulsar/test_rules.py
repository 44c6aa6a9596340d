"""What breaks a rule of the protocol, and what only looks so."""

from typing import Any

import pytest

from dissectors.pulsar import PROTOCOL
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.pulsar import wire

LOGIN = [(CLIENT, wire.connect()), (SERVER, wire.connected())]
READY = [*LOGIN, (CLIENT, wire.producer()), (SERVER, wire.producing())]
SEND = (CLIENT, wire.send(0, wire.entry(wire.metadata(), b"payload")))
CLOSE = wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, 9))
CLOSED_BY_BROKER = (SERVER, wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, wire.ALL_ONES)))
MIGRATED = 68


def broken(script: list[tuple[int, bytes]]) -> list[str]:
    return [e.subject or "" for e in feed_every_way(PROTOCOL, script).events if e.kind == "rule_broken"]


def again(request: int = 5) -> tuple[int, bytes]:
    return CLIENT, wire.producer(request)


@pytest.mark.parametrize(
    "before",
    [
        LOGIN,
        [*LOGIN, (CLIENT, wire.producer(id_=2)), (SERVER, wire.producing())],
        [*LOGIN, (CLIENT, wire.producer()), (SERVER, wire.error(1))],
        [*READY, (CLIENT, CLOSE), (SERVER, wire.success(9))],
    ],
)
def test_a_send_of_a_producer_that_is_not_there_breaks_the_protocol(before: list[tuple[int, bytes]]) -> None:
    assert broken([*before, SEND, SEND]) == ["unknown_producer"]


@pytest.mark.parametrize("between", [[], [CLOSED_BY_BROKER], [(SERVER, wire.simple(MIGRATED, (1, 1), (2, 0)))]])
def test_a_send_that_crosses_the_broker_closing_its_producer_breaks_nothing(between: list[tuple[int, bytes]]) -> None:
    assert broken([*READY, *between, SEND]) == []


def test_an_attempt_to_create_what_was_not_closed_breaks_the_protocol() -> None:
    pending = [*LOGIN, (CLIENT, wire.producer())]
    assert broken([*pending, again()]) == ["not_closed_before"]
    assert broken([*READY, again()]) == ["not_closed_before"]
    assert broken([*LOGIN, (CLIENT, wire.subscribe()), (CLIENT, wire.subscribe(3))]) == ["not_closed_before"]


@pytest.mark.parametrize(
    "between", [(CLIENT, CLOSE), CLOSED_BY_BROKER, (SERVER, wire.simple(MIGRATED, (1, 1), (2, 0)))]
)
def test_an_attempt_to_create_what_was_closed_is_as_it_should_be(between: tuple[int, bytes]) -> None:
    assert broken([*READY, between, again()]) == []
    assert broken([*LOGIN, (CLIENT, wire.producer()), (SERVER, wire.error(1)), again()]) == []


def test_a_command_that_is_newer_than_the_version_of_the_peers_breaks_the_protocol() -> None:
    old = [
        (CLIENT, wire.simple(wire.CONNECT, (1, "x"), (4, 21))),
        (SERVER, wire.simple(wire.CONNECTED, (1, "y"), (2, 6))),
    ]
    change = (SERVER, wire.simple(31, (1, 1), (2, 1)))
    asked = (CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 1)))
    assert broken([*old, change, change, asked]) == ["newer_command"] * 2  # each once
    assert broken([*LOGIN, change, asked]) == []
    young = [(CLIENT, wire.simple(wire.CONNECT, (1, "x"), (4, 6))), (SERVER, wire.connected())]
    assert broken([*young, asked]) == ["newer_command"]


def test_nothing_is_said_where_bytes_are_missing() -> None:
    script: list[tuple[int, Any]] = [*LOGIN, (CLIENT, 50), SEND, again(), again()]
    sink, _ = feed(PROTOCOL, script)
    assert "rule_broken" not in [e.kind for e in sink.events]
    sink, _ = feed(PROTOCOL, [SEND, again(), again()], midstream=True)
    assert "rule_broken" not in [e.kind for e in sink.events]


def test_where_the_broker_announces_no_limit_a_message_has_5_mib() -> None:
    for announced, size, kinds in ((None, 5 << 20, []), (None, 6 << 20, ["oversized_frame"]), (8 << 20, 6 << 20, [])):
        hello = wire.connected() if announced is None else wire.connected((3, announced))
        sent = (CLIENT, wire.send(0, wire.entry(wire.metadata(), bytes(size - 100))))
        sink, _ = feed(PROTOCOL, [LOGIN[0], (SERVER, hello), *READY[2:], sent])
        assert [f.kind for f in sink.findings] == kinds
