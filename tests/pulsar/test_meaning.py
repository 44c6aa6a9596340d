"""What a connection's frames mean together."""

from __future__ import annotations

import json
from typing import Any

from dissectors.pulsar import PROTOCOL
from dissectors.records import Finding
from dissectors.sink import Sink
from tests.feeding import CLIENT, SERVER, feed_every_way
from tests.pulsar import wire

SECOND = 1_000_000_000
LISTEN = [(CLIENT, wire.subscribe()), (SERVER, wire.success(2))]


def message(number: int, *more: wire.Field) -> tuple[int, bytes]:
    return SERVER, wire.delivery(wire.entry(wire.metadata(number), b"v"), 7, number, *more)


def ack(*numbers: int, cumulative: bool = False) -> tuple[int, bytes]:
    ids: list[wire.Field] = [(3, [(1, 7), (2, number)]) for number in numbers]
    return CLIENT, wire.simple(wire.ACK, (1, 1), (2, cumulative), *ids)


def finding(sink: Sink, kind: str) -> Finding:
    (found,) = [f for f in sink.findings if f.kind == kind]
    return found


def summary(script: list[tuple[int, bytes]]) -> dict[str, Any]:
    found = finding(feed_every_way(PROTOCOL, script), "consumption")
    evidence: dict[str, Any] = json.loads(found.evidence or "")
    return evidence | {"severity": found.severity}


def test_processing_time_is_from_message_to_ack() -> None:
    told = summary([*LISTEN, message(0), message(1), ack(0), ack(1)])
    assert told["processing_ns"] == {"count": 2, "p50": 2_000_000, "p99": 2_000_000, "max": 2_000_000}
    assert (told["delivered"], told["acknowledged"], told["unacknowledged"]) == (2, 2, 0)
    assert (told["topic"], told["subscription"], told["consumer"]) == ("persistent://a/b/orders", "sub", "c-1")


def test_a_cumulative_ack_covers_all_that_came_before() -> None:
    told = summary([*LISTEN, message(0), message(1), message(2), ack(1, cumulative=True)])
    assert (told["acknowledged"], told["unacknowledged"]) == (2, 1)


def test_an_ack_of_a_part_of_a_batch_leaves_it_open() -> None:
    part = wire.simple(wire.ACK, (1, 1), (2, 0), (3, [(1, 7), (2, 0), (4, 1), (5, 4)]))
    told = summary([*LISTEN, message(0), (CLIENT, part)])
    assert (told["acknowledged"], told["unacknowledged"]) == (0, 1)


def test_what_is_asked_for_again_is_not_open_and_counts_when_it_comes() -> None:
    again = wire.simple(wire.REDELIVER, (1, 1), (2, [(1, 7), (2, 0)]))
    told = summary([*LISTEN, message(0), (CLIENT, again), message(0, (3, 1)), ack(0)])
    assert (told["delivered"], told["redelivered"], told["acknowledged"], told["unacknowledged"]) == (2, 1, 1, 0)


def test_a_consumer_without_permits_makes_the_broker_wait() -> None:
    idle = [(CLIENT, wire.simple(wire.PING))] * 1200  # a step of the script is a millisecond
    told = summary([*LISTEN, (CLIENT, wire.flow(2)), message(0), message(1), *idle, (CLIENT, wire.flow(2))])
    assert told["without_permits_ns"] == 1_201_000_000
    assert told["severity"] == "warning"
    told = summary([*LISTEN, (CLIENT, wire.flow(3)), message(0), message(1), *idle, (CLIENT, wire.flow(2))])
    assert (told["without_permits_ns"], told["severity"]) == (0, "info")


def test_permits_granted_before_the_capture_are_not_guessed() -> None:
    script = [message(0), message(1), *[(CLIENT, wire.simple(wire.PING))] * 1200, (CLIENT, wire.flow(2))]
    assert summary(script)["without_permits_ns"] == 0


def test_a_message_that_a_client_threw_away_is_its_verdict() -> None:
    for number, name in enumerate(
        ["UncompressedSizeCorruption", "DecompressionError", "ChecksumMismatch", "BatchDeSerializeError"]
    ):
        bad = wire.simple(wire.ACK, (1, 1), (2, 0), (3, [(1, 7), (2, 5)]), (4, number))
        sink = feed_every_way(PROTOCOL, [*LISTEN, (CLIENT, bad)])
        found = finding(sink, "discarded")
        assert found.severity == "error"
        assert json.loads(found.evidence or "")["positions"] == ["7:5"]
        assert [(e.scope, e.code, e.name, e.topic) for e in sink.errors] == [
            ("message", number, name, "persistent://a/b/orders")
        ]


def test_lookups_that_are_sent_on_are_counted() -> None:
    script = []
    for number in range(3):
        script.append((CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, number))))
        script.append((SERVER, wire.simple(wire.LOOKUP_RESPONSE, (1, "pulsar://b:6650"), (3, number % 2), (4, number))))
    assert finding(feed_every_way(PROTOCOL, script), "lookup_redirect").message == (
        "2 lookups were sent on to another broker"
    )


def test_a_broker_that_closes_tells_where_to_go() -> None:
    close = wire.simple(wire.CLOSE_CONSUMER, (1, 1), (2, wire.NOBODY), (3, "pulsar://b:6650"))
    found = finding(feed_every_way(PROTOCOL, [*LISTEN, (SERVER, close)]), "closed_by_broker")
    assert json.loads(found.evidence or "") == {
        "topic": "persistent://a/b/orders",
        "partition": None,
        "moved_to": "pulsar://b:6650",
    }


def test_both_connections_of_a_proxy_are_told_apart() -> None:
    front = feed_every_way(PROTOCOL, [(CLIENT, wire.connect((6, "10.0.0.9:6650")))])
    assert json.loads(finding(front, "proxy").evidence or "") == {"broker": "10.0.0.9:6650"}
    back = feed_every_way(PROTOCOL, [(CLIENT, wire.connect((7, "admin"), (11, "4.0.8")))])
    assert json.loads(finding(back, "proxy").evidence or "") == {"proxy_version": "4.0.8"}


def test_a_connection_tells_who_speaks() -> None:
    from tests.feeding import feed

    _, talk = feed(PROTOCOL, [(CLIENT, wire.connect()), (SERVER, wire.connected())])
    told = talk.summary()
    assert (told.dialect, told.client_software, told.client_version, told.server_version) == (
        "pulsar-v21",
        "Pulsar-Test",
        "1.2.3",
        "4.5.6",
    )


def test_partitions_are_what_the_broker_says() -> None:
    script = [
        (CLIENT, wire.simple(wire.PARTITIONED_METADATA, (1, "persistent://a/b/c"), (2, 5))),
        (SERVER, wire.simple(wire.PARTITIONED_METADATA_RESPONSE, (1, 12), (2, 5), (3, 0))),
    ]
    (row,) = feed_every_way(PROTOCOL, script).exchanges
    assert (row.topics, row.partitions) == (("persistent://a/b/c",), 12)


def test_a_failed_lookup_is_an_error_with_and_without_a_reason() -> None:
    for fields, code in (([(6, 0), (7, "why not")], 0), ([(6, 250)], 250), ([], None)):
        script = [
            (CLIENT, wire.simple(wire.LOOKUP, (1, "persistent://a/b/c"), (2, 5))),
            (SERVER, wire.simple(wire.LOOKUP_RESPONSE, (3, 2), (4, 5), *fields)),
        ]
        sink = feed_every_way(PROTOCOL, script)
        assert [(e.code, e.name, e.topic) for e in sink.errors] == [
            (code, "UnknownError" if code == 0 else None, "persistent://a/b/c")
        ]
        assert sink.exchanges[0].status == "error"
