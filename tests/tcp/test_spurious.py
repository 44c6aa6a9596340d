"""Bytes that were sent again although the other side had them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dissectors
from dissectors.capture import tcp_options
from dissectors.tcp.spurious import MOST
from dissectors.wire.arrays import numbers
from dissectors.wire.big_endian import BigEndian
from tests.timed import Timed, answer, request
from tests.wires import CLIENT, SERVER

ASKED = request(7)
AT = len(request(6))  # stream offset of ASKED
END = AT + len(ASKED)


def known(stamped: bool = False) -> Timed:
    """A connection whose protocol is known, and that has sent ASKED at 10 ms."""
    timed = Timed().send(1, CLIENT, request(6)).send(2, SERVER, answer(6)).ack(3, CLIENT)
    timed.stamped = stamped
    return timed.send(10, CLIENT, ASKED)


def read(tmp_path: Path, timed: Timed) -> tuple[tuple[Any, Any], list[Any]]:
    """(retransmissions, those that were spurious), and whether the stalls that resends ended were."""
    path = timed.send(3000, SERVER, answer(7)).ack(3001, CLIENT).write(tmp_path / "t.pcap")
    found = dissectors.dissect([path], tables=["connections", "stalls"])
    (connection,) = found["connections"].to_pylist()
    stalls = [row["spurious"] for row in found["stalls"].to_pylist() if row["kind"] != "undelivered"]
    return (connection["retransmissions"], connection["spurious"]), stalls


def test_a_duplicate_that_the_receiver_reports_was_sent_in_vain(tmp_path: Path) -> None:
    timed = known().send(220, CLIENT, ASKED, at=AT).ack(221, SERVER, twice=(AT, END))
    assert read(tmp_path, timed) == ((1, 1), [True])


def test_a_report_of_other_bytes_says_nothing_of_these(tmp_path: Path) -> None:
    timed = known().send(220, CLIENT, ASKED, at=AT).ack(221, SERVER, twice=(0, AT))
    assert read(tmp_path, timed) == ((1, 0), [None])


def test_selective_acknowledgement_of_bytes_ahead_reports_no_duplicate(tmp_path: Path) -> None:
    timed = known().send(220, CLIENT, ASKED, at=AT).ack(221, SERVER, upto=AT, twice=(AT, END))
    assert read(tmp_path, timed) == ((1, 0), [None])


@pytest.mark.parametrize(("echo", "spurious"), [(10, True), (220, False)])
def test_an_echo_tells_whether_the_first_or_the_second_segment_arrived(
    tmp_path: Path, echo: int, spurious: bool
) -> None:
    timed = known(stamped=True).send(220, CLIENT, ASKED, at=AT).ack(221, SERVER, echo=echo)
    assert read(tmp_path, timed) == ((1, int(spurious)), [spurious])


def test_bytes_that_were_acknowledged_before_are_sent_again_in_vain(tmp_path: Path) -> None:
    timed = known().ack(11, SERVER).send(220, CLIENT, ASKED, at=AT)
    assert read(tmp_path, timed) == ((1, 1), [])


def test_without_proof_nothing_is_said(tmp_path: Path) -> None:
    assert read(tmp_path, known().send(220, CLIENT, ASKED, at=AT).ack(221, SERVER)) == ((1, 0), [None])


def test_of_many_segments_that_are_sent_again_a_bounded_number_is_waited_for(tmp_path: Path) -> None:
    timed = known()
    for n in range(2 * MOST):
        timed.send(220 + n, CLIENT, ASKED, at=AT)
    timed.ack(221 + 2 * MOST, SERVER, twice=(AT, END))
    assert read(tmp_path, timed)[0] == (2 * MOST, MOST)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_any_bytes_may_stand_in_options(options: list[bytes]) -> None:
    joined = b"".join(options)
    at = 0
    for one in options:
        assert options_of(joined, at, at + len(one)) == options_of(one, 0, len(one))
        at += len(one)


def options_of(data: bytes, at: int, stop: int) -> list[int]:
    """[timestamps, D-SACK] of the options at data[at:stop]."""
    said = numbers(2)
    tcp_options.read_options(BigEndian(data), at, stop, 0, said)
    return list(said)
