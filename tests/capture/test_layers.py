"""Link layers, IP and tunnels: the inner TCP segment comes out the same. Scapy builds the packets."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP, IPOption_Router_Alert, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, fragment6
from scapy.layers.l2 import GRE, LLC, SNAP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Dot3, Loopback
from scapy.layers.l2 import Ether as ScapyEther
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet as ScapyPacket

import dissectors
from dissectors.capture.block import VIA, address, address_halves
from dissectors.capture.reader import Reader
from dissectors.limits import Limits
from tests.wires import T0, Packet, blocks, pcap

PAYLOAD = bytes(range(64)) * 20


def Ether(**fields: Any) -> ScapyPacket:  # noqa: N802 (scapy's own name)
    return ScapyEther(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", **fields)


def segment() -> ScapyPacket:
    return TCP(sport=40000, dport=9092, seq=4_000_000_000, ack=77, flags="PA", window=501) / PAYLOAD


def v4() -> ScapyPacket:
    return IP(src="10.1.2.3", dst="10.4.5.6", id=4711) / segment()


def v6() -> ScapyPacket:
    return IPv6(src="2001:db8::1", dst="2001:db8::2") / segment()


def outer() -> ScapyPacket:
    return Ether() / IP(src="192.0.2.1", dst="192.0.2.2")


# ruff: noqa: E501
ENCAPSULATED: dict[str, tuple[int, Callable[[], Any], str]] = {
    "ethernet, IPv4": (1, lambda: Ether() / v4(), ""),
    "ethernet, IPv6": (1, lambda: Ether() / v6(), ""),
    "IPv4 options": (1, lambda: Ether() / IP(src="10.1.2.3", dst="10.4.5.6", options=[IPOption_Router_Alert()]) / segment(), ""),
    "IPv6 extension headers": (1, lambda: Ether() / IPv6(src="2001:db8::1", dst="2001:db8::2") / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / segment(), ""),
    "802.1Q": (1, lambda: Ether() / Dot1Q(vlan=42) / v4(), "vlan"),
    "QinQ": (1, lambda: Ether() / Dot1AD(vlan=9) / Dot1Q(vlan=42) / v6(), "vlan"),
    "802.3 SNAP": (1, lambda: Dot3() / LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(code=0x800) / v4(), ""),
    "MPLS": (1, lambda: Ether(type=0x8847) / MPLS(label=100, s=0) / MPLS(label=101, s=1) / v4(), "mpls"),
    "MPLS pseudo-wire": (1, lambda: Ether(type=0x8847) / MPLS(label=100, s=1) / (b"\0\0\0\0" + bytes(Ether() / v4())), "mpls"),
    "PPPoE": (1, lambda: Ether() / PPPoE(sessionid=5) / PPP(proto=0x21) / v4(), "pppoe"),
    "Linux cooked": (113, lambda: CookedLinux(proto=0x800) / v4(), ""),
    "Linux cooked, IPv6": (113, lambda: CookedLinux(proto=0x86DD) / v6(), ""),
    "Linux cooked v2": (276, lambda: CookedLinuxV2(proto=0x800) / v4(), ""),
    "null, little-endian": (0, lambda: Loopback(type=2) / v4(), ""),
    "null, BSD IPv6": (0, lambda: Loopback(type=30) / v6(), ""),
    "loop, big-endian": (108, lambda: b"\0\0\0\x02" + bytes(v4()), ""),
    "PKTAP, Ethernet": (258, lambda: pktap(1) + bytes(Ether() / v4()), ""),
    "PKTAP, raw IPv6": (258, lambda: pktap(12) + bytes(v6()), ""),
    "NFLOG, little-endian": (239, lambda: nflog("<", bytes(v4())), ""),
    "NFLOG, big-endian": (239, lambda: nflog(">", bytes(v6())), ""),
    "raw IPv4": (101, v4, ""),
    "raw IPv6": (101, v6, ""),
    "PPP": (9, lambda: PPP(proto=0x57) / v6(), ""),
    "VXLAN": (1, lambda: outer() / UDP(sport=1, dport=4789) / VXLAN(vni=7) / Ether() / v4(), "vxlan"),
    "GENEVE": (1, lambda: outer() / UDP(sport=1, dport=6081) / GENEVE(proto=0x6558, vni=7) / Ether() / v6(), "geneve"),
    "GRE": (1, lambda: outer() / GRE(proto=0x800) / v4(), "gre"),
    "GRE with key and sequence": (1, lambda: outer() / GRE(proto=0x86DD, key_present=1, key=1, seqnum_present=1) / v6(), "gre"),
    "GRE, Ethernet": (1, lambda: outer() / GRE(proto=0x6558) / Ether() / v4(), "gre"),
    "ERSPAN I": (1, lambda: outer() / GRE(proto=0x88BE) / (bytes(Ether() / v4())), "gre"),
    "ERSPAN II": (1, lambda: outer() / GRE(proto=0x88BE, seqnum_present=1, sequence_number=3) / ERSPAN_II() / Ether() / v4(), "gre,erspan"),
    "ERSPAN III": (1, lambda: outer() / GRE(proto=0x22EB, seqnum_present=1, sequence_number=3) / ERSPAN_III() / Ether() / v4(), "gre,erspan"),
    "IP in IP": (1, lambda: outer() / v4(), "ipip"),
    "6in4": (1, lambda: outer() / v6(), "6in4"),
    "GTP-U": (1, lambda: outer() / UDP(sport=2152, dport=2152) / GTP_U_Header(teid=1, gtp_type=255) / v4(), "gtp-u"),
    "VXLAN in VLAN in GRE": (1, lambda: outer() / GRE(proto=0x6558) / Ether() / Dot1Q(vlan=1) / IP(src="192.0.2.3", dst="192.0.2.4") / UDP(sport=1, dport=4789) / VXLAN(vni=7) / Ether() / v4(), "vlan,vxlan,gre"),
}  # fmt: skip


def pktap(link: int) -> bytes:
    """Apple's header before a packet of a link type."""
    return struct.pack("<III24s", 108, 1, link, b"en0") + bytes(108 - 36)


def nflog(order: str, data: bytes) -> bytes:
    """A packet as Netfilter logs it, behind the prefix of its rule and its mark."""
    attributes = [(10, b"kafka\0"), (1, b"\x08\x00\x01\x00"), (9, data)]
    out = b"\x02\0\0\x05"
    for kind, value in attributes:
        out += struct.pack(f"{order}HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
    return out


def test_packets_of_a_link_type_that_is_not_read_are_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap([packet(bytes(Ether() / v4()))] * 2, link=147))
    reader = Reader(str(path), 0, Limits())
    assert not list(reader.blocks())
    assert reader.remarks() == [("unread_link_type", f"{path}: 2 packets of link type 147 (user0), which is not read")]


def packet(data: bytes, at: int = 0, keep: int | None = None) -> Packet:
    return Packet(T0 + at, data[:keep], len(data))


@pytest.mark.parametrize("name", ENCAPSULATED)
def test_the_segment_comes_out_of_every_encapsulation(tmp_path: Path, name: str) -> None:
    link, build, via = ENCAPSULATED[name]
    data = bytes(build())
    (block,) = blocks(tmp_path / "t.pcap", pcap([packet(data)], link=link))
    assert bytes(block.buffer[block.at[0] : block.at[0] + block.have[0]]) == PAYLOAD
    assert (block.sport[0], block.dport[0], block.seq[0], block.ack[0]) == (40000, 9092, 4_000_000_000, 77)
    assert (block.flags[0], block.window[0]) == (0x18, 501)
    inner = bytes(v6()) in data
    source = address(int(block.src_hi[0]), int(block.src_lo[0]))
    assert source in (("2001:db8::1",) if inner or "IPv6 ext" in name else ("10.1.2.3",))

    assert ",".join(v for i, v in enumerate(VIA) if block.via[0] >> i & 1) == via


def test_a_mixed_capture_keeps_packet_numbers(tmp_path: Path) -> None:
    link_one = [name for name, (link, _, _) in ENCAPSULATED.items() if link == 1]
    packets = []
    for name in link_one:
        packets += [packet(bytes(ENCAPSULATED[name][1]())), packet(bytes(outer() / UDP(dport=53) / b"no tcp here"))]
    (block,) = blocks(tmp_path / "t.pcap", pcap(packets))
    assert block.number.tolist() == [2 * i + 1 for i in range(len(link_one))]


def test_padding_is_no_payload(tmp_path: Path) -> None:
    short = Ether() / IP(src="10.1.2.3", dst="10.4.5.6") / TCP(flags="A")
    (block,) = blocks(tmp_path / "t.pcap", pcap([packet(bytes(short) + b"\0" * 6)]))
    assert block.size.tolist() == [0]


def test_a_length_of_zero_left_by_offload_means_the_whole_packet(tmp_path: Path) -> None:
    data = bytearray(bytes(Ether() / v4()))
    data[16:18] = b"\0\0"
    (block,) = blocks(tmp_path / "t.pcap", pcap([packet(bytes(data))]))
    assert block.size.tolist() == [len(PAYLOAD)]


def test_a_cut_packet_shows_what_is_missing(tmp_path: Path) -> None:
    data = bytes(Ether() / v4())
    (block,) = blocks(tmp_path / "t.pcap", pcap([packet(data, keep=96)]))
    assert (block.size[0], block.have[0]) == (len(PAYLOAD), 96 - 54)


@pytest.mark.parametrize("name", ["VXLAN", "GENEVE", "GRE", "GRE, Ethernet", "ERSPAN II", "IP in IP", "GTP-U"])
def test_a_packet_that_a_mirror_cut_inside_its_tunnel_is_as_one_cut_by_a_snap_length(tmp_path: Path, name: str) -> None:
    whole = ScapyEther(bytes(ENCAPSULATED[name][1]()))
    sent = IP(src="192.0.2.1", dst="192.0.2.2", proto=whole[IP].proto) / bytes(whole[IP].payload)[:120]
    data = bytes(Ether() / sent)  # the outer header says the length of what the mirror sent
    (block,) = blocks(tmp_path / "t.pcap", pcap([packet(data)]))
    assert block.size.tolist() == [len(PAYLOAD)]
    assert bytes(block.buffer[block.at[0] : block.at[0] + block.have[0]]) == PAYLOAD[: block.have[0]]
    assert 0 < block.have[0] < 120


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("backwards", [False, True])
def test_fragments_are_put_together(tmp_path: Path, version: int, backwards: bool) -> None:
    if version == 4:
        parts = fragment(v4(), fragsize=400)
    else:
        parts = fragment6(IPv6(src="2001:db8::1", dst="2001:db8::2") / IPv6ExtHdrFragment(id=9) / segment(), 450)
    data = [bytes(Ether() / p) for p in parts]
    assert len(data) > 2
    packets = [packet(d, i) for i, d in enumerate(data[::-1] if backwards else data)]
    (block,) = blocks(tmp_path / "t.pcap", pcap(packets, nano=True))
    assert bytes(block.buffer[block.at[0] : block.at[0] + block.have[0]]) == PAYLOAD
    assert block.number.tolist() == [len(packets)]


def test_fragments_that_disagree_are_a_finding_and_the_first_version_stands(tmp_path: Path) -> None:
    parts = [bytearray(bytes(Ether() / p)) for p in fragment(v4(), fragsize=400)]
    forged = bytearray(parts[1])
    forged[60] ^= 0xFF
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap([packet(bytes(p)) for p in (parts[0], parts[1], forged, *parts[2:])]))
    reader = Reader(str(path), 0, Limits())
    (block,) = reader.blocks()
    assert bytes(block.buffer[block.at[0] : block.at[0] + block.have[0]]) == PAYLOAD
    ((kind, message),) = reader.remarks()
    assert kind == "fragment_overlap"
    assert "1 IP fragments disagree" in message
    findings = dissectors.dissect([path], tables=["findings"])["findings"].to_pylist()
    assert "fragment_overlap" in [f["kind"] for f in findings]


def test_a_fragment_that_never_comes_leaves_nothing(tmp_path: Path) -> None:
    parts = fragment(v4(), fragsize=400)
    del parts[1]
    assert blocks(tmp_path / "t.pcap", pcap([packet(bytes(Ether() / p)) for p in parts])) == []


def test_fragments_of_a_tunnel_are_put_together_before_the_tunnel_is_opened(tmp_path: Path) -> None:
    whole = IP(src="192.0.2.1", dst="192.0.2.2", id=3) / UDP(sport=1, dport=4789) / VXLAN(vni=7) / Ether() / v4()
    parts = [packet(bytes(Ether() / p)) for p in fragment(whole, fragsize=600)]
    (block,) = blocks(tmp_path / "t.pcap", pcap(parts))
    assert bytes(block.buffer[block.at[0] : block.at[0] + block.have[0]]) == PAYLOAD


@pytest.mark.parametrize("text", ["10.0.0.1", "255.255.255.255", "::1", "2001:db8::ffff:1"])
def test_addresses_come_back_as_they_went(text: str) -> None:
    assert address(*address_halves(text)) == text


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_headers_never_fail_and_never_reach_outside_the_packet(tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ENCAPSULATED)))
    link, build, _ = ENCAPSULATED[name]
    damaged = bytearray(bytes(build()))
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, min(len(damaged) - 1, 140)))] = data.draw(st.integers(0, 255))
    keep = data.draw(st.integers(0, len(damaged)))
    packets = [packet(bytes(damaged), keep=keep), packet(bytes(damaged))]
    for block in blocks(tmp_path / "t.pcap", pcap(packets, link=link)):
        assert (block.have <= block.size).all()
        assert (block.at + block.have <= len(block.buffer)).all()
        assert (block.have >= 0).all()
