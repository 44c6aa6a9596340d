"""What a connection's frames mean together."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
    assert (found["without_permits_ns"], found["stopped_ns"]) == (1_201_000_000, 0)
    assert found["severity"] == "warning"
    found = summary([*LISTEN, (CLIENT, wire.flow(3)), message(0), message(1), *idle, (CLIENT, wire.flow(2))])
    assert (found["without_permits_ns"], found["severity"]) == (0, "info")


def test_a_consumer_that_stays_without_permits_is_slow_until_it_or_the_connection_ends() -> None:
    idle = [(CLIENT, wire.simple(wire.PING))] * 1200
    stuck = [*LISTEN, (CLIENT, wire.flow(2)), message(0), message(1)]
    found = summary([*stuck, *idle], "slow_consumer")
    assert (found["without_permits_ns"], found["stopped_ns"]) == (1_200_000_000, 1_200_000_000)
    for command in (wire.CLOSE_CONSUMER, wire.UNSUBSCRIBE):
        left = (CLIENT, wire.simple(command, (1, 1), (2, 9)))
        assert summary([*stuck, left, message(2), *idle])["without_permits_ns"] == 1_000_000


def test_permits_granted_before_the_capture_are_not_guessed() -> None:
    script = [message(0), message(1), *[(CLIENT, wire.simple(wire.PING))] * 1200, (CLIENT, wire.flow(2))]
    assert summary(script)["without_permits_ns"] == 0


def ledger(script: list[tuple[int, Any]]) -> list[tuple[str | None, int | None, int | None]]:
    sink, _ = feed(PROTOCOL, script)
    rows = [row for row in sink.exchanges if row.api in ("FLOW", "MESSAGE")]
    return [(row.api, row.permits, row.permits_left) for row in rows]


def batch(number: int, messages: int) -> tuple[int, bytes]:
    meta = wire.metadata(number, (11, messages))
    return SERVER, wire.delivery(wire.entry(meta, b"".join([wire.single(b"v")] * messages)), 7, number)


def test_permits_are_counted_frame_by_frame() -> None:
    flow = (CLIENT, wire.flow(5))
    assert ledger([*LISTEN, flow, message(0), batch(1, 3), flow, batch(2, 9)]) == [
        ("FLOW", 5, 5),
        ("MESSAGE", None, 4),
        ("MESSAGE", None, 1),
        ("FLOW", 5, 6),
        ("MESSAGE", None, -3),
    ]


def test_permits_are_counted_anew_when_a_consumer_subscribes_again() -> None:
    again = [(CLIENT, wire.subscribe(3)), (SERVER, wire.success(3))]
    assert ledger([*LISTEN, (CLIENT, wire.flow(5)), *again, (CLIENT, wire.flow(2))])[-1] == ("FLOW", 2, 2)


@pytest.mark.parametrize("before", [[], [*LISTEN, (CLIENT, 16)], [*LISTEN, (SERVER, 50)]])
def test_permits_are_not_known_where_some_may_have_been_granted_or_taken_unseen(before: list[tuple[int, Any]]) -> None:
    assert ledger([*before, (CLIENT, wire.flow(5)), message(0)]) == [("FLOW", 5, None), ("MESSAGE", None, None)]


def test_messages_without_a_permit_are_told() -> None:
    script = [*LISTEN, (CLIENT, wire.flow(2)), message(0), message(1), message(2), message(3)]
    found = finding(feed_every_way(PROTOCOL, script), "beyond_permits")
    assert found.message == "2 messages came to consumer c-1 when no permits were left"
    evidence = json.loads(found.evidence or "")
    assert (evidence["messages"], evidence["batched"], evidence["subscription"]) == (2, False, "sub")
    assert (found.time or 0) % SECOND == 5_000_000  # the first of them
    kinds = [f.kind for f in feed_every_way(PROTOCOL, [*LISTEN, (CLIENT, wire.flow(2)), batch(0, 9)]).findings]
    assert "beyond_permits" not in kinds  # a batch is sent whole


@pytest.mark.parametrize(("side", "name"), [(CLIENT, "client"), (SERVER, "server")])
def test_a_ping_without_an_answer_until_the_connection_was_closed_is_told(side: int, name: str) -> None:
    login = [(CLIENT, wire.connect()), (SERVER, wire.connected())]
    idle: list[tuple[int, Any]] = [(1 - side, wire.flow(1) if side else wire.simple(31, (1, 1)))] * 31
    script = [*login, (side, wire.simple(wire.PING)), *idle]
    sink, _ = feed(PROTOCOL, script, hung_up=True, step_ns=SECOND)
    found = finding(sink, "keepalive_timeout")
    assert (found.direction, json.loads(found.evidence or "")) == (name, {"waited_ns": 31 * SECOND})
    ping = next(row for row in sink.exchanges if row.api == "PING")
    assert (ping.kind, ping.initiator) == ("unanswered", name)
    silent = (
        feed(PROTOCOL, script, step_ns=SECOND),  # the capture ended, and the connection did not
        feed(PROTOCOL, script[:12], hung_up=True, step_ns=SECOND),  # too soon to tell
        feed(PROTOCOL, [*script[:3], (1 - side, 13), *idle], hung_up=True, step_ns=SECOND),  # it may have been lost
        feed(PROTOCOL, [*script, (1 - side, wire.simple(wire.PONG))], hung_up=True, step_ns=SECOND),
    )
    assert all("keepalive_timeout" not in [f.kind for f in sink.findings] for sink, _ in silent)


def test_who_asked_is_told_of_requests_answers_and_pushes() -> None:
    script: list[tuple[int, bytes]] = [
        (CLIENT, wire.simple(wire.PING)),
        (SERVER, wire.simple(wire.PONG)),
        (SERVER, wire.simple(wire.PING)),
        (CLIENT, wire.simple(wire.PONG)),
        (CLIENT, wire.simple(wire.PONG)),
        (SERVER, wire.receipt(1)),
        (CLIENT, wire.flow(1)),
        message(0),
    ]
    rows = feed_every_way(PROTOCOL, script).exchanges
    assert [(row.api, row.kind, row.initiator) for row in rows] == [
        ("PING", "call", "client"),
        ("PING", "call", "server"),
        ("PING", "orphan", "server"),
        ("SEND", "orphan", "client"),
        ("FLOW", "oneway", "client"),
        ("MESSAGE", "push", "server"),
    ]


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
    evidence = [json.loads(one.evidence or "") for one in found]
    assert [(one["to"], one["topic"]) for one in evidence] == [("pulsar://b:6650", "persistent://public/default/t")] * 2


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
