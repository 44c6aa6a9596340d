"""Damaged and incomplete streams: the records are the same however they are cut, and every byte is counted."""

import struct
from collections.abc import Sequence

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dissectors.kafka import PROTOCOL
from dissectors.kafka.loss.resync import produces
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.kafka.wire import any_body, batch, fetch, fetched, produce, produced, record, request, response

TWO = batch([record(0, b"k", b"v"), record(1, None, None)])
GOOD = [
    (CLIENT, request(18, 3, 1, any_body("ApiVersionsRequest", 3, 1))),
    (SERVER, response(18, 3, 1, any_body("ApiVersionsResponse", 3, 1))),
    (CLIENT, produce(2, {("a", 0): TWO}) + produce(3, {("b", 0): TWO}, acks=0)),
    (SERVER, produced(2, [("a", 0, 0, 5)])),
    (CLIENT, fetch(4, [("a", [0])])),
    (SERVER, fetched(4, {("a", 0): TWO + TWO[:30]})),
    (CLIENT, request(3, 9, 5, any_body("MetadataRequest", 9, 2))),
    (SERVER, response(3, 9, 5, any_body("MetadataResponse", 9, 2))),
    (CLIENT, request(12, 4, 6, any_body("HeartbeatRequest", 4, 3))),
    (SERVER, response(12, 4, 6, any_body("HeartbeatResponse", 4, 3))),
]
QUICK = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(st.data())
def test_damaged_bytes_give_the_same_records_however_they_are_cut(data: st.DataObject) -> None:
    script = [(direction, bytearray(content)) for direction, content in GOOD]
    for _ in range(data.draw(st.integers(1, 4))):
        _, content = data.draw(st.sampled_from(script))
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from([0, 1, 127, 128, 255]))
    feed_every_way(PROTOCOL, [(direction, bytes(content)) for direction, content in script])


def lossy(fates: Sequence[tuple[str, int]]) -> list[tuple[int, bytes | int]]:
    """The good bytes, of which some parts are lost: what becomes of each write, and where it is cut."""
    script: list[tuple[int, bytes | int]] = []
    for (direction, content), (fate, at) in zip(GOOD, fates, strict=True):
        cut = 1 + at % (len(content) - 1)
        if fate == "whole":
            script.append((direction, content))
        elif fate == "lost":
            script.append((direction, len(content)))
        elif fate == "front":
            script += [(direction, cut), (direction, content[cut:])]
        elif fate == "back":
            script += [(direction, content[:cut]), (direction, len(content) - cut)]
        else:
            script += [(direction, content[: cut // 2])] if cut > 1 else []
            script += [(direction, cut - cut // 2), (direction, content[cut:])]
    return script


WHOLE = ("whole", 0)
FATE = st.tuples(st.sampled_from(["whole", "whole", "whole", "lost", "front", "back", "middle"]), st.integers(0, 1000))
# A whole batch of a lost request, before the first frame that names the client.
UNNAMED = [("lost", 0), WHOLE, ("front", 38), WHOLE, ("middle", 14), WHOLE, ("back", 16), WHOLE, WHOLE, WHOLE]


@QUICK
@given(st.lists(FATE, min_size=len(GOOD), max_size=len(GOOD)), st.booleans())
@example(UNNAMED, False)
def test_lost_bytes_give_the_same_records_however_the_rest_is_cut(
    fates: list[tuple[str, int]], midstream: bool
) -> None:
    feed_every_way(PROTOCOL, lossy(fates), midstream=midstream)


def test_a_batch_of_a_lost_request_is_of_the_client_that_spoke_before_it_and_of_none_that_spoke_later() -> None:
    for fates, client in ((UNNAMED, None), ([WHOLE, *UNNAMED[1:]], "tester")):
        sink, _ = feed(PROTOCOL, lossy(fates))
        assert {batch.client_id for batch in sink.batches if batch.topic is None} == {client}


def test_a_packet_may_be_cut_anywhere() -> None:
    for step, (_, data) in enumerate(GOOD):
        for kept in range(len(data)):
            feed(PROTOCOL, GOOD, keep=lambda n, size, at=step, k=kept: k if n == at else size)  # type: ignore[misc]


def test_a_produce_without_a_topic_is_no_sign_of_one() -> None:
    body = b"\xff\xff" + struct.pack(">hii", 1, 1000, 1)
    assert not produces(request(0, 3, 1, body + b"\xff\xff" + bytes(20)), 0)
    assert produces(request(0, 3, 1, body + b"\0\1t" + bytes(20)), 0)
