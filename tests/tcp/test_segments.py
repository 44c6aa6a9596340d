"""Packets with the same addresses and ports in several VLANs or VNIs are of one connection where their streams fit."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from dissectors.capture.block import ACK, FIN, segment_name
from dissectors.limits import Limits
from dissectors.tcp.flow import Flow
from dissectors.tcp.segments import STREAMS
from dissectors.tcp.tracker import Tracker
from tests.tcp.test_tracker import CLIENT, MS, SERVER, ConversationT, client_half, stream, track
from tests.wires import Packet, blocks, ethernet, ip, pcap

BLOCKS = (None, 300, 150)


def vlan(packet: Packet, number: int) -> Packet:
    data = packet.data[:12] + struct.pack(">HH", 0x8100, number) + packet.data[12:]
    return Packet(packet.time, data, len(data))


def vni(packet: Packet, number: int) -> Packet:
    head = struct.pack(">HHHH", 1, 4789, 16 + len(packet.data), 0) + struct.pack(">II", 0x08000000, number << 8)
    data = ethernet(ip("192.0.2.1", "192.0.2.2", 17, head + packet.data))
    return Packet(packet.time, data, len(data))


def talk(isn: int, letter: bytes) -> ConversationT:
    conversation = ConversationT(isn)
    for _ in range(3):
        conversation.send(CLIENT, 3 * letter).send(SERVER, 2 * letter)
    return conversation


def streams(flows: list[Flow]) -> list[tuple[bytes, bytes]]:
    found = []
    for flow in flows:
        (asked, no_gaps), (answered, none) = (stream(flow, side) for side in (client_half(flow), 1 - client_half(flow)))
        assert no_gaps == none == []
        found.append((asked, answered))
    return found


@pytest.mark.parametrize("tag", [vlan, vni])
@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_two_tenants_with_the_same_addresses_have_a_connection_each(
    tmp_path: Path, tag: Callable[[Packet, int], Packet], block_bytes: int
) -> None:
    one, two = talk(1000, b"a").packets, talk(3_000_000_000, b"b").packets
    pairs = zip([tag(p, 10) for p in one], [tag(p, 20) for p in two], strict=True)
    flows = track(tmp_path, [packet for pair in pairs for packet in pair], block_bytes=block_bytes)
    assert streams(flows) == [(b"a" * 9, b"a" * 6), (b"b" * 9, b"b" * 6)]
    assert [flow.incarnation for flow in flows] == [0, 1]
    name = "vlan" if tag is vlan else "vni"
    assert [[segment_name(s) for s in flow.segments] for flow in flows] == [[f"{name} 10"], [f"{name} 20"]]


@pytest.mark.parametrize("block_bytes", BLOCKS)
@pytest.mark.parametrize("back", [20, None])
def test_a_connection_whose_directions_are_tagged_differently_stays_one(
    tmp_path: Path, back: int | None, block_bytes: int
) -> None:
    source = bytes(talk(1000, b"a").packets[0].data[26:30])
    packets = [
        vlan(p, 10) if p.data[26:30] == source else p if back is None else vlan(p, back)
        for p in talk(1000, b"a").packets
    ]
    flows = track(tmp_path, packets, block_bytes=block_bytes)
    assert streams(flows) == [(b"a" * 9, b"a" * 6)]


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_a_packet_that_is_captured_in_two_vlans_is_a_duplicate(tmp_path: Path, block_bytes: int) -> None:
    packets = [copy for p in talk(1000, b"a").packets for copy in (vlan(p, 10), vlan(p, 20))]
    (flow,) = flows = track(tmp_path, packets, block_bytes=block_bytes)
    assert streams(flows) == [(b"a" * 9, b"a" * 6)]
    assert sum(half.duplicates for half in flow.halves) + 1 >= len(packets) // 2


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_ports_that_one_tenant_uses_again_leave_the_other_tenants_connection_alone(
    tmp_path: Path, block_bytes: int
) -> None:
    first = talk(1000, b"a").send(CLIENT, b"", ACK | FIN).send(SERVER, b"", ACK | FIN).packets
    other = talk(3_000_000_000, b"b").packets
    again = [p._replace(time=p.time + 100 * MS) for p in talk(900_000_000, b"c").packets]
    packets = [vlan(p, 10) for p in (*first, *again)] + [vlan(p, 20) for p in other]
    flows = track(tmp_path, sorted(packets, key=lambda p: p.time), block_bytes=block_bytes)
    assert sorted(streams(flows)) == [(b"a" * 9, b"a" * 6), (b"b" * 9, b"b" * 6), (b"c" * 9, b"c" * 6)]
    assert sorted(flow.incarnation for flow in flows) == [0, 1, 2]


def test_a_flood_of_vlans_between_two_endpoints_opens_a_bounded_number_of_connections(tmp_path: Path) -> None:
    packets = [vlan(talk(40_000_000 * n, b"a").packets[0], n) for n in range(1, 100)]
    tracker = Tracker(Limits())
    for block in blocks(tmp_path / "t.pcap", pcap(packets, nano=True)):
        list(tracker.feed(block))
    assert len(tracker) == STREAMS
