"""Numbers get names wherever a name was learned: in a creation, in an answer, on another connection."""

import struct

import pytest

from dissectors.iggy import PROTOCOL
from dissectors.records import schema
from dissectors.rows.late_names import Names, resolve
from dissectors.rows.sink import Sink, to_batch
from tests.feeding import feed, feed_every_way
from tests.iggy import wire as w
from tests.iggy.eras import PAYLOADS, Script, conversation

LOGIN = conversation((w.request(38, w.login(version="0.8.0")), w.answer(b"\0\0\0\0")))


def stream(number: int, name: str, topics: bytes = b"", count: int = 0) -> bytes:
    return struct.pack("<IQIQQ", number, w.T0, count, 0, 0) + w.str8(name) + topics


def topic(number: int, name: str) -> bytes:
    return struct.pack("<IQIQBQBQQ", number, w.T0, 1, 0, 1, 0, 1, 0, 0) + w.str8(name)


def send(stream: bytes, topic: bytes) -> bytes:
    head = stream + topic + w.partition(0) + struct.pack("<I", 1)
    message = w.message_b(b"x", size=64)
    return w.request(101, struct.pack("<I", len(head)) + head + struct.pack("<IIQ", 0, len(message), 0) + message)


def shown(sink: Sink) -> list[str | None]:
    """Topics of the batches once the names are put in."""
    rows = to_batch("batches", sink.batches, sink.files)
    return resolve(rows, Names(sink.names)).column("topic").to_pylist()


BY_NUMBER = conversation((send(w.number(3), w.number(5)), w.OK))

TELLING: dict[str, Script] = {
    "get stream": conversation((w.request(200, w.name("shop")), w.answer(stream(3, "shop", topic(5, "orders"), 1)))),
    "get streams, get topics": conversation(
        (w.request(201), w.answer(stream(3, "shop"))), (w.request(301, w.number(3)), w.answer(topic(5, "orders")))
    ),
    "create stream, create topic": conversation(
        (w.request(202, w.str8("shop")), w.answer(stream(3, "shop"))),
        (
            w.request(302, w.name("shop") + struct.pack("<IBQQB", 1, 1, 0, 0, 1) + w.str8("orders")),
            w.answer(topic(5, "orders") + bytes(40)),
        ),
    ),
    "get topic": conversation(
        (w.request(201), w.answer(stream(3, "shop"))),
        (w.request(300, w.name("shop") + w.name("orders")), w.answer(topic(5, "orders") + bytes(40))),
    ),
}


@pytest.mark.parametrize("how", TELLING)
@pytest.mark.parametrize("late", [False, True])
def test_a_number_shows_the_name_that_was_learned_before_or_after(how: str, late: bool) -> None:
    script = [*LOGIN, *BY_NUMBER, *TELLING[how]] if late else [*LOGIN, *TELLING[how], *BY_NUMBER]
    assert shown(feed_every_way(PROTOCOL, script)) == ["shop/orders"]


def test_a_number_that_nobody_named_stays_a_number() -> None:
    sink, _ = feed(PROTOCOL, [*LOGIN, *BY_NUMBER])
    assert shown(sink) == ["3/5"]


def test_a_topic_number_under_a_named_stream_is_known_by_that_name() -> None:
    created = conversation((w.request(301, w.name("shop")), w.answer(topic(5, "orders"))))
    sink, _ = feed(PROTOCOL, [*LOGIN, *created, *conversation((send(w.name("shop"), w.number(5)), w.OK))])
    assert shown(sink) == ["shop/orders"]


def test_a_renamed_stream_shows_its_new_name_from_then_on() -> None:
    rename = conversation((w.request(204, w.number(3) + w.str8("store")), w.OK))
    sink, _ = feed(PROTOCOL, [*LOGIN, *TELLING["get stream"], *BY_NUMBER, *rename, *BY_NUMBER])
    assert shown(sink) == ["shop/orders", "store/orders"]


def test_before_0_4_the_name_is_in_the_request() -> None:
    login = conversation((w.request(38, w.login()), w.answer(struct.pack("<I", 1))))
    created = conversation(
        (w.request(202, struct.pack("<I", 3) + w.str8("shop")), w.OK),
        (w.request(302, w.number(3) + struct.pack("<III", 5, 1, 0) + w.str8("orders")), w.OK),
    )
    body = w.number(3) + w.number(5) + w.partition(1) + w.send_a(PAYLOADS)
    sink, _ = feed(PROTOCOL, [*login, *created, *conversation((w.request(101, body), w.OK))])
    assert shown(sink) == ["shop/orders"]


def test_a_refused_creation_gives_no_name() -> None:
    refused = conversation((w.request(202, w.str8("shop")), w.answer(status=1012)))
    sink, _ = feed(PROTOCOL, [*LOGIN, *refused])
    assert not [n for n in sink.names if not n.key.startswith("iggy-dialect")]
    assert schema("batches").get_field_index("topic") >= 0


def test_errors_about_a_stream_name_it() -> None:
    orders = struct.pack("<IBQQB", 1, 1, 0, 0, 1) + w.str8("orders")
    script = conversation(
        (w.request(202, w.str8("shop")), w.answer(status=1012)),
        (w.request(203, w.name("cellar")), w.answer(status=1010)),
        (w.request(200, w.number(9)), w.answer(status=1009)),
        (w.request(302, w.name("shop") + orders), w.answer(status=2013)),
        (w.request(1), w.answer(status=40)),
    )
    sink = feed_every_way(PROTOCOL, [*LOGIN, *script])
    rows = resolve(to_batch("errors", sink.errors, sink.files), Names(sink.names))
    told = dict(zip(rows.column("api").to_pylist(), rows.column("topic").to_pylist(), strict=True))
    assert told == {
        "CREATE_STREAM": "shop", "DELETE_STREAM": "cellar", "GET_STREAM": "9", "CREATE_TOPIC": "shop/orders",
        "PING": None,
    }  # fmt: skip
