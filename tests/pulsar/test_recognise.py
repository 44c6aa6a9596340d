"""Pulsar is recognised by one frame header, whatever the port; and takes nobody else's streams."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from dissectors.pulsar import PROTOCOL
from tests.pulsar import wire
from tests.session import recognising
from tests.session.recognising import CERTAIN

judged = partial(recognising.judged, PROTOCOL)
CONNECT = wire.connect((3, b"x" * 300))


@given(st.integers(0, len(CONNECT)))
def test_the_more_of_connect_is_there_the_surer(have: int) -> None:
    confidence = judged(CONNECT[:have], b"", False)
    assert confidence > 0
    assert have < 20 or confidence >= CERTAIN


@given(st.binary(min_size=1, max_size=3000))
def test_random_bytes_are_not_taken(data: bytes) -> None:
    assert judged(data, b"", False) < CERTAIN
    assert judged(data, data, True) < CERTAIN


@given(st.binary(max_size=300))
def test_in_mid_stream_a_frame_behind_a_piece_of_another_tells(before: bytes) -> None:
    assert judged(before + wire.flow(500), b"", True) >= CERTAIN
    assert judged(b"", before + wire.receipt(3), True) >= CERTAIN


def test_the_sides_are_not_confused() -> None:
    assert judged(wire.receipt(3), wire.flow(5), True) < CERTAIN
    assert judged(wire.flow(5), wire.receipt(3), True) >= CERTAIN


def test_a_connection_whose_connect_was_lost_is_known_by_the_answer() -> None:
    assert judged(b"", wire.connected(), False) >= CERTAIN


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_what_is_certain_stays_certain(more: bytes, server: bytes) -> None:
    assert judged(CONNECT + more, server, False) >= CERTAIN
    assert judged(wire.flow(1) + more, server, True) >= CERTAIN
