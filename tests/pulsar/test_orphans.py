"""A SUCCESS without its request is named where the hole has one reading, and never guessed."""

import pytest

from dissectors.pulsar import PROTOCOL
from tests.feeding import CLIENT, SERVER, feed
from tests.pulsar import wire

ID = 3_000_000_000_000_000_000
HELLO = [(CLIENT, wire.producer()), (SERVER, wire.producing()), (CLIENT, wire.subscribe()), (SERVER, wire.success(2))]


def named(lost: bytes, *before: tuple[int, bytes | int]) -> list[tuple[str | None, int | None]]:
    script: list[tuple[int, bytes | int]] = [*HELLO, *before, (CLIENT, len(lost)), (SERVER, wire.success(ID))]
    sink, _ = feed(PROTOCOL, script)
    return [(row.api, row.correlation_id) for row in sink.exchanges if row.kind == "orphan"]


@pytest.mark.parametrize(
    ("lost", "api"),
    [
        (wire.simple(wire.CLOSE_CONSUMER, (1, 1), (2, ID)), "CLOSE_CONSUMER"),
        (wire.simple(wire.UNSUBSCRIBE, (1, 1), (2, ID), (3, False)), "UNSUBSCRIBE"),
        (wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, ID)), None),  # an older UNSUBSCRIBE is as long
        (wire.subscribe(ID), None),
        (wire.flow(1), None),
    ],
)
def test_a_hole_of_the_size_of_one_request_held_that_request(lost: bytes, api: str | None) -> None:
    assert named(lost) == ([(api, ID)] if api else [])


def test_a_closed_producer_does_not_explain_a_hole() -> None:
    gone = [(CLIENT, wire.simple(wire.CLOSE_CONSUMER, (1, 1), (2, 5))), (SERVER, wire.success(5))]
    assert named(wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, ID)), *gone) == [("CLOSE_PRODUCER", ID)]
    assert named(wire.simple(wire.CLOSE_CONSUMER, (1, 1), (2, ID)), *gone) == []


def test_with_two_fresh_holes_neither_explains_an_answer() -> None:
    lost = wire.simple(wire.CLOSE_CONSUMER, (1, 1), (2, ID))
    assert named(lost, (CLIENT, 40), (CLIENT, wire.flow(1))) == []


def test_an_answer_that_only_one_request_has_names_it() -> None:
    sink, _ = feed(PROTOCOL, [(SERVER, wire.receipt(4)), (SERVER, wire.error(9))])
    assert [(row.kind, row.api, row.api_code) for row in sink.exchanges] == [("orphan", "SEND", wire.SEND)]
    assert [finding.kind for finding in sink.findings] == ["orphan"]  # an ERROR could answer anything
    assert [row.code for row in sink.errors] == [11]
