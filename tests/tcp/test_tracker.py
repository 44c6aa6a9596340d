"""What TCP did to a stream, and what the tracker makes of it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dissectors.capture.block import ACK, FIN, RST, SYN, VIA
from dissectors.capture.reader import Reader
from dissectors.limits import Limits
from dissectors.tcp.chunk import Chunk, Gap
from dissectors.tcp.flow import Flow
from dissectors.tcp.half import Half
from dissectors.tcp.numbers import BOTH, ORDER_SHIFT
from dissectors.tcp.tracker import Tracker
from tests.pipelines import cutting
from tests.wires import CLIENT, SERVER, T0, Packet, Side, blocks, pcap, segment

ISN, SERVER_ISN = 1000, 9000
MS = 1_000_000


class ConversationT:
    """Writes the packets of one connection, in order; tests then do to them what networks do."""

    def __init__(self, isn: int = ISN, *, handshake: bool = True) -> None:
        self.next = {CLIENT: isn, SERVER: SERVER_ISN}
        self.packets: list[Packet] = []
        self.ip_id = 0
        if handshake:
            self.send(CLIENT, b"", SYN)
            self.send(SERVER, b"", SYN | ACK)
            self.send(CLIENT, b"", ACK)

    def send(self, source: object, payload: bytes = b"", flags: int = ACK, **more: int) -> ConversationT:
        other = SERVER if source is CLIENT else CLIENT
        self.ip_id += 1
        packet = segment(
            source,  # type: ignore[arg-type]
            other,
            self.next[source],  # type: ignore[index]
            self.next[other] if flags & ACK else 0,
            payload,
            flags,
            time=T0 + self.ip_id * MS,
            ip_id=self.ip_id,
            **more,  # type: ignore[arg-type]
        )
        self.packets.append(packet)
        self.next[source] += len(payload) + bool(flags & (SYN | FIN))  # type: ignore[index]
        return self

    def again(self, index: int, *, late: int = 0, payload: bytes | None = None) -> ConversationT:
        """Send a packet once more, with an IP id of its own."""
        old = self.packets[index]
        self.ip_id += 1
        data = bytearray(old.data)
        data[18:20] = self.ip_id.to_bytes(2, "big")
        if payload is not None:
            data[54:] = payload
        self.packets.append(Packet(T0 + self.ip_id * MS + late, bytes(data), old.wire))
        return self

    def fin(self, source: Side) -> ConversationT:
        return self.send(source, b"", ACK | FIN)

    def late(self, index: int) -> ConversationT:
        """A packet comes behind the next one."""
        self.packets.insert(index + 1, self.packets.pop(index))
        return self

    def copied(self, index: int) -> ConversationT:
        """A packet is captured twice."""
        self.packets.insert(index + 1, self.packets[index])
        return self

    def lost(self, index: int) -> ConversationT:
        """The capture lacks a packet."""
        del self.packets[index]
        return self

    def back(self, source: Side, size: int) -> ConversationT:
        """What is sent next begins so many bytes before."""
        self.next[source] -= size
        return self


def track(tmp_path: Path, packets: list[Packet], *, block_bytes: int | None = None) -> list[Flow]:
    """All flows of a capture after its end. What they delivered stands in their `session`, per direction."""
    tracker = Tracker(Limits())
    flows: dict[int, Flow] = {}
    for block in blocks(tmp_path / "t.pcap", pcap(packets, nano=True), block_bytes=block_bytes):
        for flow, _ in tracker.feed(block):
            gather(flows, flow)
    for flow, _ in tracker.finish():
        gather(flows, flow)
    return list(flows.values())


def gather(flows: dict[int, Flow], flow: Flow) -> None:
    flows[id(flow)] = flow
    flow.session = flow.session or ([], [])
    for events, fresh in zip(flow.session, flow.take(), strict=True):
        events += fresh


def client_half(flow: Flow) -> int:
    return 0 if flow.ends[2] == CLIENT.port else 1


def stream(flow: Flow, direction: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Delivered bytes, and (offset, length) of the holes."""
    events = flow.session[direction]
    return (
        b"".join(e.data for e in events if isinstance(e, Chunk)),
        [(e.offset, e.length) for e in events if isinstance(e, Gap)],
    )


def the_stream(tmp_path: Path, packets: list[Packet]) -> tuple[bytes, list[tuple[int, int]], Half, Flow]:
    """Of the only flow: what its client's half delivered, the holes in it, that half, and the flow."""
    (flow,) = track(tmp_path, packets)
    client = client_half(flow)
    return *stream(flow, client), flow.halves[client], flow


def test_bytes_in_order_are_delivered_as_they_came(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abc").send(SERVER, b"12").send(CLIENT, b"def")
    data, gaps, _, flow = the_stream(tmp_path, conversation.packets)
    assert (data, gaps) == (b"abcdef", [])
    assert flow.packets == 6
    assert flow.opener == client_half(flow)


class Case(NamedTuple):
    """What was captured, and what it is: the client's bytes, holes in them, what its half and the flow say."""

    said: ConversationT
    data: bytes
    gaps: Sequence[tuple[int, int]] = ()
    half: Mapping[str, int] = {}
    flow: Mapping[str, Any] = {}


def begun(*pieces: bytes, handshake: bool = True) -> ConversationT:
    """A connection whose client sends these, a packet each: the first one is the fourth of all."""
    conversation = ConversationT(handshake=handshake)
    for piece in pieces:
        conversation.send(CLIENT, piece)
    return conversation


ONE_RETRANSMISSION = {"retransmissions": 1, "retransmitted_bytes": 3, "duplicates": 0}
CASES = {
    "a segment that comes late is put in its place": Case(
        begun(b"abc", b"def").send(SERVER).late(3), b"abcdef", half={"out_of_order": 1}
    ),
    "a retransmission is delivered once and counted": Case(
        begun(b"abc").again(3).send(CLIENT, b"def"), b"abcdef", half=ONE_RETRANSMISSION
    ),
    "a retransmission that fills a hole is counted": Case(  # the network lost the first one before the capture point
        begun(b"abc", b"def").again(3).again(3, late=200 * MS).lost(3).lost(4), b"abcdef", half={"retransmissions": 1}
    ),
    "a packet captured twice is a duplicate, not a retransmission": Case(
        begun(b"abc", b"def").copied(3), b"abcdef", half={"retransmissions": 0, "duplicates": 1}
    ),
    "overlapping segments deliver each byte once": Case(
        begun(b"abcd").back(CLIENT, 2).send(CLIENT, b"cdef"), b"abcdef"
    ),
    "sequence numbers wrap": Case(
        ConversationT(2**32 - 3).send(CLIENT, b"abc").send(CLIENT, b"def").send(CLIENT, b"ghi"), b"abcdefghi"
    ),
    "acknowledged bytes that were never captured are a gap": Case(
        begun(b"abc", b"LOST", b"xyz").send(SERVER).lost(4), b"abcxyz", [(3, 4)], {"gap_bytes": 4}
    ),
    "a packet cut by the snaplen leaves a hole of its rest": Case(  # nothing of it was lost
        begun().send(CLIENT, b"abcdef", keep=54 + 2).send(CLIENT, b"ghi"), b"abghi", [(2, 4)],
        {"gaps": 0, "gap_bytes": 0, "cut_bytes": 4},
    ),
    "a capture that begins in mid stream starts at the first byte seen": Case(
        begun(b"abc", handshake=False).send(SERVER, b"1").send(CLIENT, b"def"), b"abcdef", flow={"opener": None}
    ),
    "a FIN sent again is a retransmission": Case(
        begun(b"one").fin(CLIENT).back(CLIENT, 1).fin(CLIENT), b"one",
        half={"retransmissions": 1, "retransmitted_bytes": 0},
    ),
    "the last bytes before a FIN that were not captured are a hole": Case(
        begun(b"one", b"lost").send(SERVER).fin(CLIENT).fin(SERVER).send(CLIENT).lost(4),
        b"one", [(3, 4)], flow={"finished": True},
    ),
    "data after a reset is still delivered": Case(
        begun(b"abc").send(SERVER, b"", RST | ACK).send(CLIENT, b"def"), b"abcdef", flow={"reset": True}
    ),
    "keep-alives are not retransmissions": Case(
        begun(b"abc").back(CLIENT, 1).send(CLIENT, b"\0").send(SERVER), b"abc",
        half={"keep_alives": 1, "retransmissions": 0},
    ),
    "a keep-alive before the first byte is one": Case(
        begun().back(CLIENT, 1).send(CLIENT, b"\0").send(SERVER).back(CLIENT, 1).send(CLIENT).back(CLIENT, -1)
        .send(CLIENT, b"abc"), b"abc", half={"keep_alives": 2, "retransmissions": 0},
    ),
    "a keep-alive with a byte does not begin a stream": Case(
        begun(b"\0", handshake=False).send(SERVER).back(CLIENT, 1).send(CLIENT, b"\0").send(SERVER)
        .send(CLIENT, b"abc"), b"abc", half={"keep_alives": 2, "retransmissions": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_said_of_a_stream(case: Case, tmp_path: Path) -> None:
    data, gaps, half, flow = the_stream(tmp_path, case.said.packets)
    assert (data, gaps) == (case.data, [*case.gaps])
    assert {name: getattr(half, name) for name in case.half} == case.half
    assert {name: getattr(flow, name) for name in case.flow} == case.flow


@pytest.mark.parametrize(
    ("sent", "counts"),
    [
        ("def", (1, 3, 0)),
        ("e", (1, 1, 0)),
        ("fgh", (1, 3, 0)),
        ("abcd", (1, 1, 0)),
        ("abcdefghi", (1, 6, 0)),
        ("abc", (0, 0, 1)),
    ],
)
def test_what_waits_behind_a_hole_and_comes_again_is_a_retransmission_however_soon(
    sent: str, counts: tuple[int, int, int], tmp_path: Path
) -> None:
    conversation = ConversationT().send(CLIENT, b"abc").send(CLIENT, b"def").send(CLIENT, b"ghi")
    packets = conversation.packets
    first = packets.pop(3)  # it comes late, or not at all
    start = "abcdefghi".index(sent)
    seq = conversation.next[CLIENT] - 9 + start
    packets.append(
        segment(CLIENT, SERVER, seq, conversation.next[SERVER], sent.encode(), ACK, time=packets[-1].time, ip_id=99)
    )
    if start:
        packets.append(first._replace(time=packets[-1].time))
    data, gaps, half, _ = the_stream(tmp_path, packets)
    assert (data, gaps) == (b"abcdefghi", [])
    late = 1 if start else 0
    assert (half.retransmissions, half.retransmitted_bytes, half.out_of_order - late) == counts


def test_a_segment_with_bytes_that_were_delivered_and_some_that_wait_is_one_retransmission(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abc").send(CLIENT, b"def").send(CLIENT, b"ghi")
    packets = conversation.packets
    del packets[4]
    seq, ack = conversation.next[CLIENT] - 9, conversation.next[SERVER]
    packets.append(segment(CLIENT, SERVER, seq, ack, b"abcdefghi", ACK, time=packets[-1].time, ip_id=99))
    data, gaps, half, _ = the_stream(tmp_path, packets)
    assert (data, gaps) == (b"abcdefghi", [])
    assert (half.retransmissions, half.retransmitted_bytes, half.out_of_order) == (1, 6, 0)


def test_retransmission_with_different_bytes_is_a_conflict_and_the_first_version_stands(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abcdef").again(3, payload=b"abXdYf")
    data, _, half, _ = the_stream(tmp_path, conversation.packets)
    (conflict,) = half.conflicts
    assert data == b"abcdef"
    assert (conflict.offset, conflict.length, conflict.differing) == (2, 3, 2)
    assert (conflict.first_packet_ref, conflict.packet_ref) == (4, 5)


def test_a_gap_is_declared_while_the_connection_goes_on(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abc").send(CLIENT, b"LOST")
    for _ in range(200):
        conversation.send(CLIENT, b"x").send(SERVER, b"", ACK)
    del conversation.packets[4]
    tracker = Tracker(Limits())
    found = None
    for block in blocks(tmp_path / "t.pcap", pcap(conversation.packets, nano=True)):
        for flow, _ in tracker.feed(block):
            found = flow.take()[client_half(flow)]
    assert found is not None
    assert any(isinstance(e, Gap) and e.length == 4 for e in found)


def test_a_request_captured_after_its_answer_is_delivered_before_it(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"ping").send(SERVER, b"pong").send(CLIENT, b"", ACK)
    conversation.packets[3], conversation.packets[4] = conversation.packets[4], conversation.packets[3]
    (flow,) = track(tmp_path, conversation.packets)
    client = client_half(flow)
    (request,), (answer,) = flow.session[client], flow.session[1 - client]
    assert request.data == b"ping"
    assert request.orders[0] < answer.orders[0]


def test_an_answer_that_overtakes_its_request_as_first_bytes_of_both_directions_is_delivered_behind_it(
    tmp_path: Path,
) -> None:
    conversation = ConversationT(handshake=False).send(CLIENT, b"pi").send(CLIENT, b"ng").send(SERVER, b"pong")
    conversation.packets.insert(0, conversation.packets.pop())
    (flow,) = track(tmp_path, conversation.packets)
    client = client_half(flow)
    (request,), (answer,) = flow.session[client], flow.session[1 - client]
    assert (request.data, answer.data) == (b"ping", b"pong")
    assert request.orders[-1] < answer.orders[0]


@pytest.mark.parametrize("silent", [1, 100])
def test_a_direction_that_is_not_captured_holds_the_other_up_for_the_grace_only(tmp_path: Path, silent: int) -> None:
    conversation = ConversationT(handshake=False)
    for _ in range(silent):
        conversation.send(SERVER, b"pong")
    for late in (b"ping", b"more"):
        conversation.send(CLIENT, late).send(SERVER, b"pong")
    (flow,) = track(tmp_path, conversation.packets)
    client = client_half(flow)
    orders = [[order for chunk in flow.session[d] for order in chunk.orders] for d in (1 - client, client)]
    arrivals = [[order >> ORDER_SHIFT for order in direction] for direction in orders]
    grace = Limits().grace_packets
    assert arrivals[0][:silent] == [max(i, min(silent, grace)) for i in range(silent)]
    assert arrivals[1] == [silent, silent + 2]
    assert flow.halves[client].held == flow.halves[1 - client].held == []


@pytest.mark.parametrize("block_bytes", [300, 700, 1 << 20])
def test_the_same_holds_where_a_block_begins_in_between(tmp_path: Path, block_bytes: int) -> None:
    conversation = ConversationT(handshake=False)
    for _ in range(7):
        conversation.send(CLIENT)
    conversation.send(SERVER).send(CLIENT).send(SERVER, b"question").send(CLIENT, b"answer").send(SERVER)
    conversation.packets[9], conversation.packets[10] = conversation.packets[10], conversation.packets[9]
    (flow,) = track(tmp_path, conversation.packets, block_bytes=block_bytes)
    client = client_half(flow)
    (answer,), (question,) = flow.session[client], flow.session[1 - client]
    assert question.orders[0] < answer.orders[0]


def test_a_packet_cut_within_its_tcp_options_is_a_gap_also_where_the_capture_ends_there(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abc").send(CLIENT, bytes(12) + b"defgh")
    last = conversation.packets[-1]
    head = bytearray(last.data[:58])
    head[46] = 0x80  # of eight words, of which six were captured
    conversation.packets[-1] = last._replace(data=bytes(head))
    data, gaps, *_ = the_stream(tmp_path, conversation.packets)
    assert (data, gaps) == (b"abc", [(3, 5)])


def test_used_again_the_same_ports_are_another_incarnation(tmp_path: Path) -> None:
    first = ConversationT().send(CLIENT, b"one").fin(CLIENT).fin(SERVER)
    second = ConversationT(isn=500_000).send(CLIENT, b"two")
    flows = track(tmp_path, first.packets + second.packets)
    assert [f.incarnation for f in flows] == [0, 1]
    assert [stream(f, client_half(f))[0] for f in flows] == [b"one", b"two"]
    assert [f.finished for f in flows] == [True, False]


@pytest.mark.parametrize("other", [5_000, 900_000_000, 3_000_000_000])
@pytest.mark.parametrize("place", [1, 2, 3, 5])
@pytest.mark.parametrize("again", [0, 1])
def test_a_second_answer_to_a_syn_that_the_client_does_not_acknowledge_opens_nothing(
    tmp_path: Path, other: int, place: int, again: int
) -> None:
    earlier = ConversationT(500).fin(CLIENT).fin(SERVER).packets if again else []
    conversation = ConversationT(700_000).send(CLIENT, b"abc").send(SERVER, b"12").send(CLIENT, b"def")
    answer = segment(SERVER, CLIENT, other, 700_001, flags=SYN | ACK, time=conversation.packets[place].time, ip_id=99)
    conversation.packets.insert(place, answer)
    *_, flow = flows = track(tmp_path, [*earlier, *conversation.packets])
    assert len(flows) == 1 + again
    client = client_half(flow)
    assert (stream(flow, client), stream(flow, 1 - client)) == ((b"abcdef", []), (b"12", []))
    assert flow.halves[1 - client].base == SERVER_ISN + 1


@pytest.mark.parametrize(
    ("ends", "closer"),
    [
        ([], None),
        ([(SERVER, FIN), (CLIENT, FIN)], SERVER),
        ([(CLIENT, FIN), (SERVER, FIN)], CLIENT),
        ([(SERVER, RST), (CLIENT, RST)], SERVER),
        ([(CLIENT, FIN), (SERVER, RST)], CLIENT),
    ],
)
def test_who_sent_the_first_fin_or_rst_closed_a_connection(
    tmp_path: Path, ends: list[tuple[Side, int]], closer: Side | None
) -> None:
    conversation = ConversationT().send(CLIENT, b"abc")
    for side, flag in ends:
        conversation.send(side, b"", ACK | flag)
    (flow,) = track(tmp_path, conversation.packets)
    client = client_half(flow)
    assert flow.closer == {None: -1, CLIENT: client, SERVER: 1 - client}[closer]


def test_both_closed_where_each_sent_a_fin_before_it_saw_the_others(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abc").fin(CLIENT)
    conversation.next[CLIENT] -= 1  # which the server has not seen yet
    conversation.fin(SERVER)
    (flow,) = track(tmp_path, conversation.packets)
    assert flow.closer == BOTH


@pytest.mark.parametrize("isn", [500_000, 1_000_000_000, 3_000_000_000])
def test_what_an_earlier_connection_sent_and_came_late_is_not_of_the_one_that_uses_its_ports(
    tmp_path: Path, isn: int
) -> None:
    first = ConversationT().send(CLIENT, b"one").send(SERVER, b"old").fin(SERVER)
    *before, answer, fin = first.fin(CLIENT).packets[:-1]
    second = ConversationT(isn)
    second.next[SERVER] = (isn + 5) % 2**32
    second.packets.clear()
    second.send(SERVER, b"", SYN | ACK).send(CLIENT, b"two").send(SERVER, b"new")
    late = [p._replace(time=second.packets[-1].time) for p in (answer, fin)]
    after = second.send(CLIENT, b"three").send(SERVER, b"newer").packets[-2:]
    after = [p._replace(time=p.time + 20_000 * MS) for p in after]
    syn = segment(CLIENT, SERVER, isn, 0, flags=SYN, time=before[-1].time)
    flows = track(tmp_path, [*before, syn, *second.packets[:-2], *late, *after])
    half = client_half(flows[1])
    assert stream(flows[1], half) == (b"twothree", [])
    assert stream(flows[1], 1 - half) == (b"newnewer", [])
    assert flows[1].halves[1 - half].fin < 0


def test_a_connection_goes_on_where_the_capture_lacks_more_of_it_than_a_window(tmp_path: Path) -> None:
    first = ConversationT().send(CLIENT, b"one").fin(CLIENT).fin(SERVER)
    second = ConversationT(isn=500_000).send(CLIENT, b"two")
    second.next[CLIENT] += 1 << 27
    acknowledged = second.next[CLIENT] - (1 << 27)  # and the peer's acknowledgements say nothing of it
    for _ in range(40):
        second.send(CLIENT, b"x" * 100)
        second.packets.append(segment(SERVER, CLIENT, second.next[SERVER], acknowledged, time=second.packets[-1].time))
    flows = track(tmp_path, first.packets + second.packets)
    data, gaps = stream(flows[1], client_half(flows[1]))
    assert len(gaps) == 1
    assert len(data) > 2000


def test_a_reset_out_of_any_window_ends_nothing(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abc")
    conversation.packets.append(segment(SERVER, CLIENT, 5 << 28, 0, flags=RST, time=T0 + 5 * MS))
    conversation.ip_id += 200_000
    *_, flow = the_stream(tmp_path, conversation.send(CLIENT, b"def").packets)
    assert not flow.reset


def test_an_idle_connection_lacks_no_byte(tmp_path: Path) -> None:
    conversation = ConversationT(handshake=False)
    for _ in range(3):
        conversation.next[CLIENT] -= 1
        conversation.send(CLIENT, b"", ACK)
        conversation.next[CLIENT] += 1
        conversation.send(SERVER, b"", ACK)
    data, gaps, half, flow = the_stream(tmp_path, conversation.packets)
    assert (data, gaps, half.keep_alives) == (b"", [], 3)
    data, gaps, *_ = the_stream(tmp_path, conversation.send(CLIENT, b"abc").packets)
    assert (data, gaps) == (b"abc", [])
    del conversation.packets[-1]
    conversation.next[CLIENT] -= 3
    closed = conversation.fin(CLIENT).fin(SERVER)
    _, gaps, half, flow = the_stream(tmp_path, closed.packets)
    assert (flow.finished, gaps) == (True, [])


@pytest.mark.parametrize(("after", "counts"), [(5, (0, 1)), (300, (1, 0))])
@pytest.mark.parametrize("held", [False, True])
def test_the_same_bytes_without_an_ip_id_are_a_copy_soon_and_a_retransmission_later(
    tmp_path: Path, after: int, counts: tuple[int, int], held: bool
) -> None:
    client, server = Side("fd00::2", CLIENT.port), Side("fd00::1", SERVER.port)
    opening = [
        segment(client, server, ISN, 0, flags=SYN, time=T0),
        segment(server, client, SERVER_ISN, ISN + 1, flags=SYN | ACK, time=T0 + MS),
        segment(client, server, ISN + 1, SERVER_ISN + 1, flags=ACK, time=T0 + 2 * MS),
    ]
    once = segment(client, server, ISN + 1 + 3 * held, SERVER_ISN + 1, b"abc", time=T0 + 3 * MS)
    again = once._replace(time=once.time + after * MS)
    (flow,) = track(tmp_path, [*opening, once, again])
    half = flow.halves[client_half(flow)]
    assert (half.retransmissions, half.duplicates) == counts


def test_each_piece_knows_its_packet_and_its_time(tmp_path: Path) -> None:
    conversation = ConversationT()
    for piece in (b"a" * 10, b"b" * 20, b"c" * 30, b"d" * 5, b"e"):
        conversation.send(CLIENT, piece)
    (flow,) = track(tmp_path, conversation.packets)
    pieces = [
        (start, packet_ref, time)
        for e in flow.session[client_half(flow)]
        for start, packet_ref, time in zip(e.starts, e.packet_refs, e.times, strict=True)
    ]
    assert pieces == [(0, 4, T0 + 4 * MS), (10, 5, T0 + 5 * MS), (30, 6, T0 + 6 * MS), (60, 7, T0 + 7 * MS),
                      (65, 8, T0 + 8 * MS)]  # fmt: skip


# --- properties ---


@st.composite
def mistreated(draw: st.DrawFn) -> tuple[list[Packet], bytes, bytes, bool]:
    """A conversation whose packets were lost, doubled, sent again and shuffled on their way to the capture."""
    handshake = draw(st.booleans())
    conversation = ConversationT(handshake=handshake)
    sent = {CLIENT: b"", SERVER: b""}
    for i in range(draw(st.integers(1, 30))):
        source = draw(st.sampled_from([CLIENT, SERVER]))
        payload = bytes([i + 1]) * draw(st.integers(0, 12))
        conversation.send(source, payload)
        sent[source] += payload
        if draw(st.integers(0, 9)) == 0:
            conversation.again(draw(st.integers(0, len(conversation.packets) - 1)))
    if draw(st.booleans()):
        conversation.fin(CLIENT).fin(SERVER)
    packets = conversation.packets
    for _ in range(draw(st.integers(0, 6))):
        i = draw(st.integers(0, len(packets) - 1))
        what = draw(st.sampled_from(["lose", "double", "swap"]))
        if what == "double":
            packets.insert(i, packets[i])
        elif what == "swap" and i:
            packets[i - 1], packets[i] = packets[i], packets[i - 1]
        elif what == "lose" and len(packets) > 1:
            del packets[i]
    times = sorted(p.time for p in packets)
    packets = [Packet(t, p.data, p.wire) for t, p in zip(times, packets, strict=True)]
    return packets, sent[CLIENT], sent[SERVER], handshake


def delivered(flow: Flow) -> tuple[object, ...]:
    """Everything that later floors can see of a flow, freed of how it was cut into chunks and of absolute orders."""
    sides, orders = [], []
    for direction, events in enumerate(flow.session):
        pieces: list[object] = []
        for e in events:
            if isinstance(e, Gap):
                pieces.append(("gap", e.offset, e.length, e.reason, e.packet_ref, e.time))
                orders.append((e.order, direction, e.offset))
                continue
            bounds = [*e.starts, e.offset + len(e.data)]
            for i, start in enumerate(e.starts):
                data = e.data[start - e.offset : bounds[i + 1] - e.offset]
                pieces.append((start, data, e.packet_refs[i], e.times[i]))
                orders.append((e.orders[i], direction, start))
        half = flow.halves[direction]
        counts = [getattr(half, n) for n in ("packets", "bytes", "retransmissions", "duplicates", "out_of_order",
                                             "gaps", "gap_bytes", "keep_alives", "zero_windows")]  # fmt: skip
        sides.append((pieces, counts, half.conflicts))
    return flow.ends, flow.incarnation, sides, [o[1:] for o in sorted(orders)], flow.packets, flow.first_time


def test_an_acknowledgement_captured_twice_is_a_duplicate_wherever_the_capture_is_cut(tmp_path: Path) -> None:
    conversation = ConversationT(handshake=False)
    for _ in range(6):
        conversation.send(CLIENT, b"", ACK)
    packets = [*conversation.packets[:3], *conversation.packets[2:]]
    for block_bytes in (10_000, 245):
        (flow,) = track(tmp_path, packets, block_bytes=block_bytes)
        assert flow.halves[client_half(flow)].duplicates == 1


@pytest.mark.parametrize("block_bytes", [60, 400, 1 << 20])
def test_bytes_whose_other_direction_is_not_captured_wait_wherever_the_capture_is_cut(
    tmp_path: Path, block_bytes: int
) -> None:
    conversation = ConversationT(handshake=False).send(CLIENT, b"", SYN)
    for payload in (b"", b"", b"", b"d"):
        conversation.send(CLIENT, payload)
    conversation.again(1)  # behind one byte, what was sent before it looks like a keep-alive
    for _ in range(20):
        conversation.send(CLIENT)
    (whole,) = track(tmp_path, conversation.packets)
    (in_blocks,) = track(tmp_path, conversation.packets, block_bytes=block_bytes)
    assert delivered(in_blocks) == delivered(whole)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=mistreated(), block_bytes=st.integers(60, 2000))
def test_streams_do_not_depend_on_blocks(
    tmp_path: Path, case: tuple[list[Packet], bytes, bytes, bool], block_bytes: int
) -> None:
    packets, *_ = case
    whole = [delivered(f) for f in track(tmp_path, packets)]
    assert [delivered(f) for f in track(tmp_path, packets, block_bytes=block_bytes)] == whole


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=mistreated())
def test_every_captured_byte_is_delivered_once_and_every_hole_is_counted(
    tmp_path: Path, case: tuple[list[Packet], bytes, bytes, bool]
) -> None:
    packets, client, server, handshake = case
    for flow in track(tmp_path, packets):
        for direction, whole in ((client_half(flow), client), (1 - client_half(flow), server)):
            half = flow.halves[direction]
            isn = ISN if direction == client_half(flow) else SERVER_ISN
            begin = half.base - isn - handshake  # bytes sent before the first one seen
            at = 0
            for event in flow.session[direction]:
                assert event.offset == at
                if isinstance(event, Gap):
                    at += event.length
                    continue
                if begin >= 0:
                    assert event.data == whole[begin + at : begin + at + len(event.data)]
                at += len(event.data)
            assert at == half.next
            assert half.bytes == sum(len(e.data) for e in flow.session[direction] if isinstance(e, Chunk))


@pytest.mark.parametrize("late", [1, 2, 5])
def test_a_shuffled_capture_has_no_gaps(tmp_path: Path, late: int) -> None:
    conversation = ConversationT()
    for i in range(60):
        conversation.send(CLIENT, bytes([i]) * 7).send(SERVER, bytes([i]) * 3)
    shuffled = sorted(range(len(conversation.packets)), key=lambda i: i + (i * 7919 % 11) / 11 * late)
    packets = [
        Packet(T0 + n * MS, conversation.packets[i].data, conversation.packets[i].wire) for n, i in enumerate(shuffled)
    ]
    (flow,) = track(tmp_path, packets)
    assert not flow.halves[0].gaps
    assert not flow.halves[1].gaps
    assert stream(flow, client_half(flow))[0] == b"".join(bytes([i]) * 7 for i in range(60))


def test_syn_fin_and_their_answers_captured_twice_are_duplicates(tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abc").send(SERVER, b"de").send(CLIENT, b"", FIN | ACK)
    conversation.send(SERVER, b"", FIN | ACK).send(CLIENT, b"", ACK)
    sent = [  # as hosts send them that do not number their packets
        packet._replace(data=packet.data[:18] + bytes(2) + packet.data[20:]) if len(packet.data) == 54 else packet
        for packet in conversation.packets
    ]
    packets = [copy for packet in sent for copy in (packet, packet._replace(time=packet.time + 1000))]
    for shuffled in (packets, [*packets[0:1], packets[2], packets[1], *packets[3:]]):
        (flow,) = track(tmp_path, shuffled)
        assert sum(half.retransmissions for half in flow.halves) == 0
        assert sum(half.duplicates for half in flow.halves) >= 6
    (flow,) = track(tmp_path, [sent[0], sent[0]._replace(time=sent[0].time + 1500 * MS)])
    assert sum(half.retransmissions for half in flow.halves) == 1


def other_traffic(count: int) -> list[Packet]:
    """Connections of others, each with some kilobytes, all within a second."""
    return [
        segment(Side("10.9.9.9", 1024 + i), SERVER, 1, 1, bytes([i & 0xFF]) * 60_000, ACK, time=T0 + 4 * MS + i * 1000)
        for i in range(count)
    ]


@pytest.mark.parametrize("others", [0, 200])
@pytest.mark.parametrize("block_bytes", [None, 200_000])
@pytest.mark.parametrize("late", [0, 2000 * MS])
def test_whether_a_conflict_is_seen_depends_on_its_connection_only(
    tmp_path: Path, others: int, block_bytes: int | None, late: int
) -> None:
    conversation = ConversationT().send(CLIENT, b"abcdef")
    conversation.again(3, late=2000 * MS + late, payload=b"abXdef")
    packets = [*conversation.packets[:-1], *other_traffic(others), conversation.packets[-1]]
    conflicts = [half.conflicts for flow in track(tmp_path, packets, block_bytes=block_bytes) for half in flow.halves]
    assert sum(map(len, conflicts)) == (late == 0)


@pytest.mark.parametrize("block_bytes", [700, 1 << 20])
def test_a_connection_knows_what_its_packets_came_through_wherever_they_are(tmp_path: Path, block_bytes: int) -> None:
    conversation = ConversationT()
    for n in range(40):
        conversation.send(CLIENT, bytes(600 if n == 20 else 100)).send(SERVER)
    path = tmp_path / "whole.pcap"
    path.write_bytes(pcap(conversation.packets))
    head, packets = cutting.read(path)
    path.write_bytes(head + b"".join(cutting.fragmented(head, packets, 400, random.Random(1))))
    tracker = Tracker(Limits())
    for block in Reader(str(path), 0, Limits(block_bytes=block_bytes)).blocks():
        flows = [flow for flow, _ in tracker.feed(block)]
    assert [VIA[n] for n in range(len(VIA)) if flows[0].via >> n & 1] == ["fragments"]
