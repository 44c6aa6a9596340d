"""Random conversations of every era, with holes and junk in them."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dissectors.iggy import PROTOCOL
from tests.feeding import CLIENT, SERVER, Script, feed, feed_every_way
from tests.iggy import wire
from tests.iggy.conversations import conversation, with_holes

SEEDS = st.integers(0, 1 << 32)


@settings(max_examples=60)
@given(SEEDS)
@example(4574)  # an answer to GET_CLUSTER_METADATA without nodes
def test_every_byte_of_a_conversation_with_holes_is_counted_once(seed: int) -> None:
    rng = random.Random(seed)
    feed(PROTOCOL, with_holes(rng, conversation(rng)))


STORE = wire.request(121, b"\1" + wire.number(5) + wire.STREAM + wire.TOPIC + bytes(12))
POLLED = wire.answer(wire.polled(wire.poll_a([b"A"]), 1))


@pytest.mark.parametrize(
    "script",
    [
        [(SERVER, wire.answer(bytes(60))[:14]), (SERVER, 54), (CLIENT, STORE)],
        [(CLIENT, b"these bytes are no frame"), (SERVER, POLLED), (CLIENT, 43), (SERVER, POLLED)],
        [(SERVER, b"\x08"), (SERVER, wire.vsr_reply(2, id=7)), (CLIENT, wire.vsr_request(2, code=1, id=7))],
    ],
    ids=["a hole in the answer before", "a hole behind bytes that are no frame", "junk that the server sent first"],
)
def test_what_shows_the_framing_late_changes_no_row(script: list[tuple[int, bytes | int]]) -> None:
    feed_every_way(PROTOCOL, script)


JUNK = (b"x", b"these bytes are no frame", bytes(30), b"\x08\0\0\0e\0\0\0")


def with_junk(rng: random.Random, script: Script) -> Script:
    """A script into which bytes that are no frame were sent at some places."""
    mixed = list(script)
    for _ in range(rng.choice((1, 1, 2, 3))):
        mixed.insert(rng.randrange(len(mixed) + 1), (rng.choice((CLIENT, SERVER)), rng.choice(JUNK)))
    return mixed


@settings(max_examples=30)
@given(SEEDS)
@example(20000474)  # an error's header whose text rules it out: nothing may be paid for it
@example(20000990)  # an answer between two requests of which the first is none: it may say how the second is read
@example(1111549)  # zeros in a payload that look like the empty answers which are awaited
@example(5000077)  # a place that waited for more bytes than rule it out
@example(5000752)  # bytes that show to be no frame only with the next segment
def test_junk_between_frames_leads_to_the_same_rows_however_the_bytes_arrive(seed: int) -> None:
    rng = random.Random(seed)
    feed_every_way(PROTOCOL, with_junk(rng, conversation(rng)))
