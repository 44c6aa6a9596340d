"""Which answers reached who asked, and who closed and reset a connection."""

from pathlib import Path
from typing import Any

import pytest

import dissectors
from dissectors.capture.block import ACK, FIN, RST
from tests.timed import Timed, answer, request
from tests.wires import CLIENT, SERVER, pcap

ASKED, ANSWERED = request(7), answer(7)


def _asked() -> Timed:
    """A connection whose first request was answered and whose second waits since 10 ms."""
    timed = Timed().send(1, CLIENT, request(6)).send(2, SERVER, answer(6)).ack(3, CLIENT)
    return timed.send(10, CLIENT, ASKED).ack(11, SERVER)


def _read(tmp_path: Path, timed: Timed) -> tuple[Any, Any]:
    """(what became of the last answer, the row of the connection)."""
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(sorted(timed.packets, key=lambda packet: packet.time), nano=True))
    rows = dissectors.dissect([path], tables=["exchanges", "connections"])
    (connection,) = rows["connections"].to_pylist()
    first, last = sorted(rows["exchanges"].to_pylist(), key=lambda row: row["time"])
    assert first["answer"] == "whole"
    return (last["kind"], last["answer"]), connection


def test_an_answer_that_comes_entirely_is_whole(tmp_path: Path) -> None:
    told, connection = _read(tmp_path, _asked().send(20, SERVER, ANSWERED).ack(21, CLIENT))
    assert told == ("call", "whole")
    assert (connection["reset_by"], connection["server_undelivered_bytes"]) == (None, 0)


def test_half_of_a_connection_may_be_closed_and_the_answer_still_be_whole(tmp_path: Path) -> None:
    timed = _asked().flag(15, CLIENT, FIN | ACK).send(20, SERVER, ANSWERED).ack(21, CLIENT)
    assert _read(tmp_path, timed.flag(30, SERVER, FIN | ACK))[0] == ("call", "whole")


def test_an_answer_that_meets_a_reset_of_who_had_closed_is_late(tmp_path: Path) -> None:
    timed = _asked().flag(15, CLIENT, FIN | ACK).send(20, SERVER, ANSWERED).flag(21, CLIENT, RST)
    told, connection = _read(tmp_path, timed)
    assert told == ("call", "late")
    assert (connection["closed_by"], connection["reset_by"]) == ("client", "client")
    assert (connection["client_undelivered_bytes"], connection["server_undelivered_bytes"]) == (0, len(ANSWERED))


def test_an_answer_behind_a_reset_of_who_asked_is_late(tmp_path: Path) -> None:
    assert _read(tmp_path, _asked().flag(15, CLIENT, RST).send(20, SERVER, ANSWERED))[0] == ("call", "late")


def test_an_answer_that_nobody_acknowledged_when_the_capture_ends_is_not_judged(tmp_path: Path) -> None:
    timed = _asked().flag(15, CLIENT, FIN | ACK).send(20, SERVER, ANSWERED)
    assert _read(tmp_path, timed)[0] == ("call", None)


@pytest.mark.parametrize(("closer", "flags"), [(CLIENT, FIN | ACK), (SERVER, FIN | ACK), (CLIENT, RST), (SERVER, RST)])
def test_an_answer_that_begins_and_never_ends_is_cut_whoever_closed(tmp_path: Path, closer: Any, flags: int) -> None:
    timed = _asked().send(20, SERVER, ANSWERED[:12]).ack(21, CLIENT).flag(30, closer, flags)
    assert _read(tmp_path, timed)[0] == ("call", "cut")


def test_an_answer_that_the_end_of_the_capture_cuts_is_not_judged(tmp_path: Path) -> None:
    assert _read(tmp_path, _asked().send(20, SERVER, ANSWERED[:12]).ack(21, CLIENT))[0] == ("call", None)


def test_there_is_no_answer_where_a_peer_closes_before_it_comes(tmp_path: Path) -> None:
    assert _read(tmp_path, _asked().flag(30, SERVER, FIN | ACK))[0] == ("unanswered", "none")
    assert _read(tmp_path, _asked())[0] == ("unanswered", None)


def test_one_side_may_close_and_the_other_one_reset(tmp_path: Path) -> None:
    timed = _asked().send(20, SERVER, ANSWERED).ack(21, CLIENT).flag(30, CLIENT, FIN | ACK).flag(31, SERVER, RST)
    connection = _read(tmp_path, timed)[1]
    assert (connection["closed"], connection["closed_by"], connection["reset_by"]) == ("reset", "client", "server")


def test_bytes_that_are_sent_again_in_vain_are_undelivered_and_those_on_their_way_are_not(tmp_path: Path) -> None:
    timed = Timed().send(1, CLIENT, request(6)).send(2, SERVER, answer(6)).ack(3, CLIENT)
    at = timed.next[CLIENT]
    timed.send(10, CLIENT, ASKED)
    assert _read(tmp_path, timed)[1]["client_undelivered_bytes"] == 0
    timed.send(220, CLIENT, ASKED, at=at)
    assert _read(tmp_path, timed)[1]["client_undelivered_bytes"] == len(ASKED)


def test_an_answer_lasts_from_its_first_bytes_that_arrive_to_the_last_though_segments_were_lost(tmp_path: Path) -> None:
    timed = _asked()
    at = timed.next[SERVER]
    timed.send(20, SERVER, ANSWERED[:20], seen=False).send(21, SERVER, ANSWERED[20:]).ack(22, CLIENT, upto=at)
    timed.send(230, SERVER, ANSWERED[:20], at=at).ack(231, CLIENT)
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(timed.packets, nano=True))
    rows = dissectors.dissect([path], tables=["exchanges"])["exchanges"].to_pylist()
    last = rows[-1]
    assert (last["wait_ns"], last["response_ns"], last["total_ns"]) == (11_000_000, 209_000_000, 220_000_000)
