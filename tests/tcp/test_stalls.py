"""What held a direction back: losses, windows that close, and acknowledgements that come late."""

from pathlib import Path

import pytest

from dissectors.limits import Limits
from dissectors.tcp import spurious
from dissectors.tcp.flow import Flow
from dissectors.tcp.stalls import MOST, HeldBack, Stalls
from dissectors.tcp.tracker import Tracker
from tests.timed import MS, Timed
from tests.wires import CLIENT, SERVER, T0, blocks, pcap

DATA = b"d" * 100


def flow_of(tmp_path: Path, timed: Timed, block_bytes: int | None = None) -> Flow:
    """The only connection, at its end."""
    tracker = Tracker(Limits())
    flows: dict[int, Flow] = {}
    packets = sorted(timed.packets, key=lambda packet: packet.time)
    for block in blocks(tmp_path / "t.pcap", pcap(packets, nano=True), block_bytes=block_bytes):
        flows |= {id(flow): flow for flow, _ in tracker.feed(block)}
    flows |= {id(flow): flow for flow, _ in tracker.finish()}
    (flow,) = flows.values()
    for half in flow.halves:
        spurious.give_up(half)
        half.stalls.end(half.acked, flow.last_time)
    return flow


def noted(tmp_path: Path, timed: Timed) -> list[HeldBack]:
    """What held back either direction of a connection."""
    return [one for half in flow_of(tmp_path, timed).halves for one in half.stalls.noted]


def stalls(tmp_path: Path, timed: Timed, *, block_bytes: int | None = None) -> list[tuple[str, str, float, float, int]]:
    """Side, kind, begin and end in ms, and stream offset of what held back a connection."""
    flow = flow_of(tmp_path, timed, block_bytes)
    client = 0 if flow.ends[2] == CLIENT.port else 1
    return [
        ("client" if i == client else "server", s.kind, (s.start - T0) / MS, (s.end - T0) / MS, s.offset)
        for i, half in enumerate(flow.halves)
        for s in sorted(half.stalls.noted, key=lambda stall: stall.end)
    ]


def test_bytes_that_are_sent_again_after_a_timer_stood_still_since_they_were_sent(tmp_path: Path) -> None:
    timed = Timed().send(10, CLIENT, DATA).send(215, CLIENT, DATA, at=0).ack(216, SERVER)
    assert stalls(tmp_path, timed) == [("client", "resend_timeout", 10, 215, 0)]


def test_bytes_that_are_sent_again_and_never_acknowledged_are_undelivered_to_the_end(tmp_path: Path) -> None:
    timed = Timed().send(10, CLIENT, DATA[:40]).ack(10.1, SERVER)
    timed.send(5010, CLIENT, DATA).send(5220, CLIENT, DATA, at=40).send(5640, CLIENT, DATA, at=40)
    *resends, last = stalls(tmp_path, timed)
    assert last == ("client", "undelivered", 5010, 5640, 40)
    assert [one[1:4] for one in resends] == [("resend_timeout", 5010, 5220), ("resend_timeout", 5220, 5640)]
    for size in (60, 170, 300):
        assert stalls(tmp_path, timed, block_bytes=size)[-1] == last


def test_an_undelivered_segment_says_its_size_the_largest_that_arrived_and_the_silence_before(tmp_path: Path) -> None:
    timed = Timed().send(10, CLIENT, DATA[:40]).ack(10.1, SERVER)
    timed.send(5010.1, CLIENT, DATA).send(5220, CLIENT, DATA, at=40).send(5640, CLIENT, DATA, at=40)
    (row,) = (each for each in noted(tmp_path, timed) if each.kind == "undelivered")
    assert (row.size, row.largest_delivered, row.idle_ns) == (100, 40, 5000 * MS)


def test_bytes_that_arrive_in_the_end_are_not_undelivered(tmp_path: Path) -> None:
    timed = Timed().send(10, CLIENT, DATA).send(215, CLIENT, DATA, at=0).send(640, CLIENT, DATA, at=0).ack(641, SERVER)
    assert "undelivered" not in [one[1] for one in stalls(tmp_path, timed)]


def test_bytes_that_fill_a_hole_stood_still_since_later_ones_came(tmp_path: Path) -> None:
    timed = Timed().send(10, CLIENT, DATA, seen=False).send(11, CLIENT, DATA).ack(12, SERVER, upto=0)
    assert stalls(tmp_path, timed.send(230, CLIENT, DATA, at=0)) == [("client", "resend_timeout", 11, 230, 0)]


def test_three_duplicate_acknowledgements_bring_bytes_back_at_once_however_long_the_way(tmp_path: Path) -> None:
    timed = Timed()
    for n in range(5):
        timed.send(10 + n, CLIENT, DATA)
    for n in range(4):
        timed.ack(300 + n, SERVER, upto=0)
    assert stalls(tmp_path, timed.send(304.5, CLIENT, DATA, at=0)) == [("client", "fast_retransmit", 14, 304.5, 0)]


def test_a_timer_that_ends_long_after_duplicate_acknowledgements_is_a_timer(tmp_path: Path) -> None:
    timed = Timed()
    for n in range(5):
        timed.send(10 + n, CLIENT, DATA)
    for n in range(4):
        timed.ack(20 + n, SERVER, upto=0)
    timed.send(24, CLIENT, DATA, at=0).send(230, CLIENT, DATA, at=0)
    found = [one[1:4] for one in stalls(tmp_path, timed)]
    assert found == [("fast_retransmit", 14, 24), ("resend_timeout", 24, 230), ("undelivered", 10, 230)]


def test_acknowledged_bytes_that_come_again_held_nothing_back(tmp_path: Path) -> None:
    timed = Timed().send(10, CLIENT, DATA).ack(10.1, SERVER).send(215, CLIENT, DATA, at=0)
    assert stalls(tmp_path, timed) == []


def test_a_window_that_closes_holds_back_what_comes_when_it_opens(tmp_path: Path) -> None:
    timed = Timed().send(10, SERVER, DATA).ack(11, CLIENT, window=0).ack(500, CLIENT, window=0)
    timed.ack(2011, CLIENT).send(2011.2, SERVER, DATA)
    assert stalls(tmp_path, timed) == [("server", "zero_window", 11, 2011.2, 100)]


def test_a_window_that_opens_for_a_sender_with_nothing_to_say_held_nothing_back(tmp_path: Path) -> None:
    timed = Timed().send(10, SERVER, DATA).ack(11, CLIENT, window=0).ack(2011, CLIENT).send(5000, SERVER, DATA)
    assert stalls(tmp_path, timed) == []


def test_a_piece_that_comes_with_a_late_acknowledgement_was_held_for_it(tmp_path: Path) -> None:
    timed = Timed().send(10, CLIENT, DATA).ack(50.5, SERVER).send(50.6, CLIENT, DATA)
    assert stalls(tmp_path, timed) == [("client", "delayed_ack", 10, 50.6, 100)]


@pytest.mark.parametrize(("acked", "sent"), [(12, 50), (50, 51.4), (50, 60), (700, 700.1)])
def test_a_sender_that_pauses_waits_for_no_acknowledgement(tmp_path: Path, acked: float, sent: float) -> None:
    assert stalls(tmp_path, Timed().send(10, CLIENT, DATA).ack(acked, SERVER).send(sent, CLIENT, DATA)) == []


@pytest.mark.parametrize(("acked", "kinds"), [(161, []), (201, ["delayed_ack"])])
def test_an_acknowledgement_that_is_only_far_was_not_delayed(tmp_path: Path, acked: float, kinds: list[str]) -> None:
    timed = Timed(to_client=80).send(80, SERVER, DATA).ack(acked, CLIENT).send(acked + 0.1, SERVER, DATA)
    assert [kind for _, kind, *_ in stalls(tmp_path, timed)] == kinds


def test_a_full_segment_waits_for_a_window_not_for_an_acknowledgement(tmp_path: Path) -> None:
    timed = Timed().send(10, SERVER, b"d" * 1400).ack(90, CLIENT).send(90.1, SERVER, b"d" * 1400)
    assert stalls(tmp_path, timed) == []


def test_stalls_do_not_overlap_and_do_not_depend_on_blocks(tmp_path: Path) -> None:
    timed = Timed().send(10, CLIENT, DATA).ack(11, SERVER, window=0)
    timed.send(12, CLIENT, DATA).send(300, CLIENT, DATA, at=100)  # a window probe with data, and again
    timed.ack(400, SERVER).send(400.1, CLIENT, DATA)
    found = stalls(tmp_path, timed)
    assert [one[1:4] for one in found] == [("resend_timeout", 12, 300), ("zero_window", 300, 400.1)]
    for size in (60, 170, 300):
        assert stalls(tmp_path, timed, block_bytes=size) == found


def test_of_a_flood_of_losses_a_bounded_number_is_noted() -> None:
    one = Stalls()
    one.advanced_ns = T0
    for n in range(1, MOST + 3):
        one.put(one.repeat(0, T0 + n * 2 * MS, 0, 9, 0, 0))
        if n == 10:
            assert len(one.take()) == 10
    assert (len(one.noted), one.count) == (MOST - 10, MOST + 2)
