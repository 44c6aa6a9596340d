"""Why a request was slow, against captures whose fault was made on purpose: its part is the time that it took."""

from pathlib import Path
from typing import Any

import pytest

import dissectors
from pipelines.answers.records import query
from pipelines.tables.causes import PARTS, parts
from pipelines.tables.dialect import DuckDB
from tests.timed import Timed, answer, request
from tests.wires import CLIENT, SERVER

MS = 1_000_000
Shares = dict[str, float]


def slow(tmp_path: Path, timed: Timed) -> dict[int, Shares]:
    """Of each slow request its parts in ms, by the number of the packet with which it begins."""
    tables = dissectors.dissect([timed.write(tmp_path / "t.pcap")], tables=["exchanges", "stalls"])
    return {row["packet"]: told(row) for row in query(tables, parts(DuckDB()))}


def told(row: dict[str, Any]) -> Shares:
    """The parts that are there, in ms; all of them together are the time of the request, and none is below 0."""
    found = {part.name: row[f"{part.name}_ns"] for part in PARTS if row[f"{part.name}_ns"] is not None}
    assert sum(found.values()) == row["total_ns"]
    assert min(found.values()) >= 0
    return {name: ns / MS for name, ns in found.items() if ns}


def only(found: dict[int, Shares]) -> Shares:
    (parts_of_it,) = found.values()
    return parts_of_it


def begun() -> Timed:
    """A connection with one fast exchange on it."""
    return Timed().send(1, CLIENT, request(1)).send(2, SERVER, answer(1)).ack(2.1, CLIENT)


def largest(found: Shares, part: str, ms: float) -> None:
    """That a part is the largest one, and lies within a tenth of the fault that was made."""
    assert max(found, key=lambda name: found[name]) == part, found
    assert found[part] == pytest.approx(ms, rel=0.1)


def test_a_lost_request_is_the_network_until_it_was_sent_again(tmp_path: Path) -> None:
    timed = begun()
    asked = timed.next[CLIENT]
    timed.send(10, CLIENT, request(2)).send(214, CLIENT, request(2), at=asked).send(219, SERVER, answer(2))
    largest(only(slow(tmp_path, timed)), "resent", 204)


def test_a_request_that_is_lost_again_and_again_is_the_network_each_time(tmp_path: Path) -> None:
    timed = begun()
    asked = timed.next[CLIENT]
    timed.send(10, CLIENT, request(2))
    for ms in (210, 610, 1410):
        timed.send(ms, CLIENT, request(2), at=asked)
    timed.send(1415, SERVER, answer(2))
    assert only(slow(tmp_path, timed)) == {"resent": 1400, "broker": pytest.approx(5)}


def test_a_later_request_that_is_lost_again_and_again_delays_none_before_it(tmp_path: Path) -> None:
    timed = begun().send(10, CLIENT, request(2))
    asked = timed.next[CLIENT]
    timed.send(20, CLIENT, request(3))
    for ms in (220, 620):
        timed.send(ms, CLIENT, request(3), at=asked)
    timed.send(700, SERVER, answer(2)).send(705, SERVER, answer(3))
    first, second = (one for _, one in sorted(slow(tmp_path, timed).items()))
    assert first == {"broker": 690}
    assert second["resent"] == pytest.approx(600)


def test_a_lost_piece_of_an_answer_is_the_network_until_it_came(tmp_path: Path) -> None:
    data = answer(2, 3000)
    timed = begun().send(10, CLIENT, request(2))
    at = timed.next[SERVER]
    timed.send(12, SERVER, data[:1000]).send(12.1, SERVER, data[1000:2000], seen=False)
    timed.send(12.2, SERVER, data[2000:2900])
    timed.send(240, SERVER, data[1000:2000], at=at + 1000).send(240.1, SERVER, data[2900:])
    found = only(slow(tmp_path, timed))
    largest(found, "resent", 227.8)
    assert found["broker"] == pytest.approx(2)


def test_a_broker_that_does_not_read_is_the_window(tmp_path: Path) -> None:
    data = request(2, 6000)
    timed = begun().send(10, CLIENT, data[:3000]).ack(11, SERVER, window=0)
    timed.ack(1511, SERVER).send(1511.1, CLIENT, data[3000:]).send(1520, SERVER, answer(2))
    largest(only(slow(tmp_path, timed)), "window", 1500)


def test_a_client_that_does_not_read_its_answer_is_the_window(tmp_path: Path) -> None:
    data = answer(2, 6000)
    timed = begun().send(10, CLIENT, request(2)).send(13, SERVER, data[:3000]).ack(14, CLIENT, window=0)
    timed.ack(914, CLIENT).send(914.2, SERVER, data[3000:])
    largest(only(slow(tmp_path, timed)), "window", 900)


def test_a_last_piece_that_waits_for_an_acknowledgement_is_a_delayed_one(tmp_path: Path) -> None:
    data = request(2, 300)
    timed = begun().send(10, CLIENT, data[:100]).ack(50, SERVER).send(50.1, CLIENT, data[100:])
    largest(only(slow(tmp_path, timed.send(52, SERVER, answer(2)))), "delayed_ack", 40)


def test_a_client_that_sends_its_request_in_drops_is_still_sending(tmp_path: Path) -> None:
    data = request(2, 400)
    timed = begun()
    for n in range(4):
        timed.send(10 + 50 * n, CLIENT, data[100 * n : 100 * (n + 1) if n < 3 else None]).ack(10.1 + 50 * n, SERVER)
    largest(only(slow(tmp_path, timed.send(162, SERVER, answer(2)))), "sending", 150)


def test_a_request_behind_a_slow_one_waits_in_the_queue(tmp_path: Path) -> None:
    timed = begun().send(10, CLIENT, request(2)).send(11, CLIENT, request(3))
    timed.send(510, SERVER, answer(2)).send(520, SERVER, answer(3))
    first, second = (one for _, one in sorted(slow(tmp_path, timed).items()))
    largest(first, "broker", 500)
    largest(second, "queued", 499)


def test_a_request_on_a_connection_that_a_quota_mutes_is_throttled(tmp_path: Path) -> None:
    timed = begun().send(10, CLIENT, request(2)).send(12, SERVER, answer(2, throttle_ms=800))
    timed.send(13, CLIENT, request(3)).send(815, SERVER, answer(3))
    largest(only(slow(tmp_path, timed)), "throttled", 799)


def test_a_long_answer_is_its_transfer(tmp_path: Path) -> None:
    data = answer(2, 20000)
    timed = begun().send(10, CLIENT, request(2))
    for n in range(20):
        timed.send(15 + 10 * n, SERVER, data[1000 * n : 1000 * (n + 1) if n < 19 else None])
    largest(only(slow(tmp_path, timed)), "transfer", 190)


def test_a_slow_answer_on_a_connection_without_a_fault_is_the_broker(tmp_path: Path) -> None:
    timed = begun().send(10, CLIENT, request(2)).ack(50, SERVER).send(310, SERVER, answer(2))
    assert only(slow(tmp_path, timed)) == {"broker": 300}


def test_what_holds_back_other_requests_is_not_counted_twice(tmp_path: Path) -> None:
    timed = begun().send(10, CLIENT, request(2))
    asked = timed.next[CLIENT]
    timed.send(20, CLIENT, request(3)).send(225, CLIENT, request(3), at=asked)  # lost while the first is served
    timed.send(400, SERVER, answer(2)).send(410, SERVER, answer(3))
    first, second = (one for _, one in sorted(slow(tmp_path, timed).items()))
    assert first == {"broker": 390}
    assert second["resent"] == pytest.approx(205)
    assert second["queued"] == pytest.approx(175)


def test_bytes_of_an_answer_before_do_not_delay_what_was_seen_of_the_next(tmp_path: Path) -> None:
    timed = begun().send(10, CLIENT, request(2)).send(11, CLIENT, request(3))
    at = timed.next[SERVER]
    timed.send(12, SERVER, answer(2)).send(112, SERVER, answer(3))
    timed.send(330, SERVER, answer(2), at=at)
    assert only(slow(tmp_path, timed)) == {"broker": pytest.approx(100), "queued": 1}


def test_requests_below_twenty_milliseconds_are_not_taken_apart(tmp_path: Path) -> None:
    assert slow(tmp_path, begun().send(10, CLIENT, request(2)).send(29, SERVER, answer(2))) == {}
