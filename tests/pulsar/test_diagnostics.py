"""What a connection's frames mean together."""

from __future__ import annotations

import json
from typing import Any

from dissectors.pulsar import PROTOCOL
from dissectors.records import Finding
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
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


def summary(script: list[tuple[int, bytes]], kind: str = "consumption") -> dict[str, Any]:
    found = finding(feed_every_way(PROTOCOL, script), kind)
    evidence: dict[str, Any] = json.loads(found.evidence or "")
    return evidence | {"severity": found.severity}


def test_processing_time_is_from_message_to_ack() -> None:
    found = summary([*LISTEN, message(0), message(1), ack(0), ack(1)])
    assert found["processing_ns"] == {"count": 2, "p50": 2_000_000, "p99": 2_000_000, "max": 2_000_000}
    assert (found["delivered"], found["acknowledged"], found["unacknowledged"]) == (2, 2, 0)
    assert (found["topic"], found["subscription"], found["consumer"]) == ("persistent://a/b/orders", "sub", "c-1")


def test_a_cumulative_ack_covers_all_that_came_before() -> None:
    found = summary([*LISTEN, message(0), message(1), message(2), ack(1, cumulative=True)])
    assert (found["acknowledged"], found["unacknowledged"]) == (2, 1)


def test_an_ack_of_a_part_of_a_batch_leaves_it_open() -> None:
    part = wire.simple(wire.ACK, (1, 1), (2, 0), (3, [(1, 7), (2, 0), (4, 1), (5, 4)]))
    found = summary([*LISTEN, message(0), (CLIENT, part)])
    assert (found["acknowledged"], found["unacknowledged"]) == (0, 1)


def test_a_redelivery_request_makes_a_message_unacknowledged_until_it_comes_again() -> None:
    again = wire.simple(wire.REDELIVER, (1, 1), (2, [(1, 7), (2, 0)]))
    found = summary([*LISTEN, message(0), (CLIENT, again), message(0, (3, 1)), ack(0)])
    assert (found["delivered"], found["redelivered"], found["acknowledged"], found["unacknowledged"]) == (2, 1, 1, 0)


def test_a_consumer_without_permits_makes_the_broker_wait() -> None:
    idle = [(CLIENT, wire.simple(wire.PING))] * 1200  # a step of the script is a millisecond
    script = [*LISTEN, (CLIENT, wire.flow(2)), message(0), message(1), *idle, (CLIENT, wire.flow(2))]
    found = summary(script, "slow_consumer")
    assert found["without_permits_ns"] == 1_201_000_000
    assert found["severity"] == "warning"
    found = summary([*LISTEN, (CLIENT, wire.flow(3)), message(0), message(1), *idle, (CLIENT, wire.flow(2))])
    assert (found["without_permits_ns"], found["severity"]) == (0, "info")


def test_a_consumer_that_stays_without_permits_is_slow_until_it_or_the_connection_ends() -> None:
    idle = [(CLIENT, wire.simple(wire.PING))] * 1200
    stuck = [*LISTEN, (CLIENT, wire.flow(2)), message(0), message(1)]
    assert summary([*stuck, *idle], "slow_consumer")["without_permits_ns"] == 1_200_000_000
    for command in (wire.CLOSE_CONSUMER, wire.UNSUBSCRIBE):
        left = (CLIENT, wire.simple(command, (1, 1), (2, 9)))
        assert summary([*stuck, left, message(2), *idle])["without_permits_ns"] == 1_000_000


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


def test_each_lookup_that_is_sent_on_names_the_other_broker() -> None:
    script = []
    for number in range(3):
        script.append((CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, number))))
        script.append((SERVER, wire.simple(wire.LOOKUP_RESPONSE, (1, "pulsar://b:6650"), (3, number % 2), (4, number))))
    found = [f for f in feed_every_way(PROTOCOL, script).findings if f.kind == "lookup_redirect"]
    assert [json.loads(one.evidence or "")["to"] for one in found] == ["pulsar://b:6650"] * 2


def test_a_broker_that_closes_a_consumer_names_the_new_broker() -> None:
    close = wire.simple(wire.CLOSE_CONSUMER, (1, 1), (2, wire.ALL_ONES), (3, "pulsar://b:6650"))
    found = finding(feed_every_way(PROTOCOL, [*LISTEN, (SERVER, close)]), "closed_by_broker")
    assert json.loads(found.evidence or "") == {
        "topic": "persistent://a/b/orders",
        "partition": None,
        "moved_to": "pulsar://b:6650",
    }


def test_both_connections_of_a_proxy_are_distinguished() -> None:
    front = feed_every_way(PROTOCOL, [(CLIENT, wire.connect((6, "10.0.0.9:6650")))])
    assert json.loads(finding(front, "proxy").evidence or "") == {"broker": "10.0.0.9:6650"}
    back = feed_every_way(PROTOCOL, [(CLIENT, wire.connect((7, "admin"), (11, "4.0.8")))])
    assert json.loads(finding(back, "proxy").evidence or "") == {"proxy_version": "4.0.8"}


def test_a_connection_row_names_the_software_of_both_sides() -> None:
    from tests.feeding import feed

    _, conversation = feed(PROTOCOL, [(CLIENT, wire.connect()), (SERVER, wire.connected())])
    found = conversation.summary()
    assert (found.dialect, found.client_software, found.client_version, found.server_version) == (
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
    assert (row.topics, row.partitions) == (["persistent://a/b/c"], 12)


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


def test_no_duration_is_known_where_the_last_byte_of_a_request_was_lost() -> None:
    sent = wire.send(1, wire.entry(wire.metadata(1), b"payload"))
    script: list[tuple[int, bytes | int]] = [
        (CLIENT, sent[:-3]),
        (CLIENT, 3),
        (SERVER, wire.receipt(1)),
    ]
    sink, _ = feed(PROTOCOL, script)
    (row,) = [row for row in sink.exchanges if row.kind == "call"]
    assert (row.request_ns, row.wait_ns, row.queued_ns, row.complete) == (None, None, None, False)


def test_requests_of_one_connection_are_served_side_by_side() -> None:
    script: list[tuple[int, bytes | int]] = [
        (CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 1))),
        (CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 2))),
        (SERVER, wire.simple(wire.LOOKUP_RESPONSE, (3, 1), (4, 1))),
        (SERVER, wire.simple(wire.LOOKUP_RESPONSE, (3, 1), (4, 2))),
    ]
    sink, _ = feed(PROTOCOL, script)
    assert [(row.correlation_id, row.queued_ns) for row in sink.exchanges] == [(1, 0), (2, 0)]


def test_an_orphan_has_the_number_of_its_api() -> None:
    sink, _ = feed(PROTOCOL, [(SERVER, wire.receipt(1))])
    (row,) = sink.exchanges
    assert (row.kind, row.api, row.api_code) == ("orphan", "SEND", wire.SEND)
