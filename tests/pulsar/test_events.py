"""What commands of Pulsar say that no column holds: rows of `events`."""

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
        row = next(row for row in feed_every_way(PROTOCOL, script).events if row.kind == "proxied")
        named = {name: getattr(row, name) for name in ("kind", "subject", "text") if getattr(row, name) is not None}
        assert named == {"kind": "proxied", **told}


def test_an_address_that_a_lookup_names_is_told_once() -> None:
    script = []
    for id_ in (1, 2):
        script.append((CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, id_))))
        script.append((SERVER, wire.simple(wire.LOOKUP_RESPONSE, (1, "pulsar://b:6650"), (3, 1), (4, id_))))
    assert events(*script) == [{"kind": "advertised", "subject": "pulsar://b:6650"}]


def test_a_lookup_that_is_sent_on_names_the_other_broker() -> None:
    answer = wire.simple(wire.LOOKUP_RESPONSE, (1, "pulsar://elsewhere:6650"), (3, 0), (4, 10))
    sink = feed_every_way(PROTOCOL, [(CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 10))), (SERVER, answer)])
    assert [row.text for row in sink.events if row.kind == "redirected"] == ["pulsar://elsewhere:6650"]


def test_a_consumer_joins_its_subscription_when_the_broker_lets_it_in() -> None:
    joined, subscribed = events((CLIENT, wire.subscribe(3)), (SERVER, wire.success(3)))
    assert joined["kind"] == "joined"
    assert subscribed["kind"] == "subscribed"
    assert joined["group"] == subscribed["group"]
    assert events((CLIENT, wire.subscribe(3)), (SERVER, wire.error(3))) == []


def test_a_producer_that_the_broker_closes_is_an_event_and_one_that_its_client_closes_is_none() -> None:
    create = [(CLIENT, wire.producer(1, name="p")), (SERVER, wire.producing(1, "p"))]
    close = wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, 9))
    assert events(*create, (SERVER, close)) == [{"kind": "closed_by_broker", "subject": "p"}]
    assert events(*create, (CLIENT, close), (SERVER, wire.success(9))) == []


def test_a_subscription_that_does_not_last_is_not_told_as_one_that_may_have_been_made() -> None:
    reader = wire.subscribe(3, "t", (8, False))
    assert [row["kind"] for row in events((CLIENT, reader), (SERVER, wire.success(3)))] == ["joined"]


def test_where_a_subscription_seeks_to_is_told_with_the_answer() -> None:
    join = [(CLIENT, wire.subscribe(3)), (SERVER, wire.success(3))]
    places: list[tuple[wire.Field, str]] = [
        ((3, [(1, 7), (2, 5)]), "message 7:5"),
        ((3, [(1, wire.ALL_ONES), (2, wire.ALL_ONES)]), "the earliest message"),
        ((4, 1_700_000_000_000), "messages published at 1700000000000 ms"),
    ]
    for field, where in places:
        seek = wire.simple(28, (1, 1), (2, 4), field)
        assert events(*join, (CLIENT, seek), (SERVER, wire.success(4)))[-1] == {
            "kind": "altered",
            "group": "sub",
            "number": 0,
            "text": f"seek to {where}",
        }


def test_a_schema_is_told_once_for_each_version_and_when_it_is_refused() -> None:
    named = wire.simple(wire.PRODUCER, (1, "t"), (2, 1), (3, 1), (4, "p"), (7, [(1, "s"), (3, b"{}"), (4, 4)]))
    taken = wire.producing(1, "p", (4, (3).to_bytes(8, "big")))
    told = {"kind": "registered", "number": 0, "text": "type=Avro, version=3"}
    assert events((CLIENT, named), (SERVER, taken)) == [told]
    close = wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, 2))
    again = (CLIENT, named), (SERVER, taken), (CLIENT, close), (SERVER, wire.success(2)), (CLIENT, named)
    assert events(*again, (SERVER, taken)) == [told]
    assert events((CLIENT, named), (SERVER, wire.error(1, 18)))[0]["number"] == 18
    assert events((CLIENT, named), (SERVER, wire.error(1, 11))) == []


def test_who_logs_in_is_told_but_never_a_password_nor_what_a_token_holds() -> None:
    token = b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln"
    for method, data, name in (("basic", b"alice:hush", "alice"), ("token", token, None)):
        script = [(CLIENT, wire.connect((5, method), (3, data))), (SERVER, wire.connected())]
        (row,) = feed_every_way(PROTOCOL, script).events
        assert (row.kind, row.subject, row.number, row.text) == ("authenticated", name, 0, method)
    assert events() == []


def test_an_end_of_a_transaction_that_failed_is_told_and_aborts_nothing() -> None:
    """Its error is in the exchange."""
    end_txn, response, abort = 56, 57, (4, 1)
    asked = (CLIENT, wire.simple(end_txn, (1, 9), (2, 7), (3, 0), abort))
    ended = {"kind": "transaction_ended", "subject": "(0,7)", "text": "abort"}
    assert events(asked, (SERVER, wire.simple(response, (1, 9), (4, 24), (5, "not found")))) == [ended]
    done = events(asked, (SERVER, wire.simple(response, (1, 9))))
    assert done == [ended, {"kind": "transaction_aborted", "subject": "(0,7)"}]
