"""What commands of Pulsar say that no column holds: rows of `events`."""

from __future__ import annotations

from typing import Any

from dissectors.pulsar import PROTOCOL
from tests.feeding import CLIENT, SERVER, feed_every_way
from tests.pulsar import wire

HELLO = [(CLIENT, wire.connect()), (SERVER, wire.connected())]
TOPIC_MIGRATED = 68


def events(*script: tuple[int, bytes]) -> list[dict[str, Any]]:
    """What the events of a conversation say, without where and when."""
    shown = ("kind", "group", "subject", "number", "text")
    return [
        {name: getattr(row, name) for name in shown if getattr(row, name) is not None}
        for row in feed_every_way(PROTOCOL, [*HELLO, *script]).events
    ]


def test_a_topic_that_migrates_names_its_new_cluster() -> None:
    plain, tls = (3, "pulsar://green:6650"), (4, "pulsar+ssl://green:6651")
    create = [(CLIENT, wire.producer(1, name="p")), (SERVER, wire.producing(1, "p"))]
    for named, url in (((plain, tls), plain[1]), ((tls,), tls[1])):
        told = (SERVER, wire.simple(TOPIC_MIGRATED, (1, 1), (2, 0), *named))
        assert events(*create, told) == [{"kind": "migrated", "subject": "p", "text": url}]


def test_both_sides_of_a_proxy_say_so() -> None:
    for field, told in (
        ((6, "10.0.0.9:6650"), {"subject": "client", "text": "10.0.0.9:6650"}),
        ((11, "4.0.8"), {"subject": "proxy", "text": "4.0.8"}),
        ((7, "shop"), {"subject": "proxy"}),
    ):
        script = [(CLIENT, wire.connect(field)), (SERVER, wire.connected())]
        (row,) = feed_every_way(PROTOCOL, script).events
        named = {name: getattr(row, name) for name in ("kind", "subject", "text") if getattr(row, name) is not None}
        assert named == {"kind": "proxied", **told}


def test_an_address_that_a_lookup_names_is_told_once() -> None:
    script = []
    for id_ in (1, 2):
        script.append((CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, id_))))
        script.append((SERVER, wire.simple(wire.LOOKUP_RESPONSE, (1, "pulsar://b:6650"), (3, 1), (4, id_))))
    assert events(*script) == [{"kind": "advertised", "subject": "pulsar://b:6650"}]


def test_a_consumer_joins_its_subscription_when_the_broker_lets_it_in() -> None:
    (joined,) = events((CLIENT, wire.subscribe(3)), (SERVER, wire.success(3)))
    assert joined["kind"] == "joined"
    assert joined["group"]
    assert events((CLIENT, wire.subscribe(3)), (SERVER, wire.error(3))) == []


def test_a_producer_that_the_broker_closes_is_an_event_and_one_that_its_client_closes_is_none() -> None:
    create = [(CLIENT, wire.producer(1, name="p")), (SERVER, wire.producing(1, "p"))]
    close = wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, 9))
    assert events(*create, (SERVER, close)) == [{"kind": "closed_by_broker", "subject": "p"}]
    assert events(*create, (CLIENT, close), (SERVER, wire.success(9))) == []
