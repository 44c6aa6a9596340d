"""Pulsar is recognised by one frame header, whatever the port; and takes nobody else's streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.pulsar import PROTOCOL
from tests.pulsar import wire

CERTAIN = 0.9


def judged(client: bytes, server: bytes, midstream: bool, ended: bool = False) -> float:
    """How sure the protocol is of these bytes."""
    return PROTOCOL.recogniser().see(client, server, ended) if midstream else PROTOCOL.recognise(client, server)


CONNECT = wire.connect((3, b"x" * 300))
OTHERS = {
    "TLS": bytes.fromhex("16030101fc010001f80303") + bytes(100),
    "HTTP": b"GET /admin/v2/clusters HTTP/1.1\r\nHost: broker\r\n\r\n",
    "Kafka": bytes.fromhex("0000002f0012000300000000000a6b61666b612d70797468") + bytes(40),
    "Iggy": bytes.fromhex("04000000 01000000"),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
}


@given(st.integers(0, len(CONNECT)))
def test_the_more_of_connect_is_there_the_surer(have: int) -> None:
    confidence = judged(CONNECT[:have], b"", False)
    assert confidence > 0
    assert have < 20 or confidence >= CERTAIN


@pytest.mark.parametrize("other", sorted(OTHERS))
def test_other_protocols_are_not_taken(other: str) -> None:
    assert judged(OTHERS[other], b"", False) == 0
    assert judged(OTHERS[other], b"", True) <= 0.1
    assert judged(b"", OTHERS[other], True) <= 0.1


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
