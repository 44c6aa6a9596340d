"""IPv4 and TCP checksums, against those that scapy computes."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import Dot1Q, Ether

from dissectors.forensics.packet_checksums import judge, layout

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
NETWORKS = {
    "ipv4": lambda: ETHER / IP(src="10.1.2.3", dst="10.3.2.1"),
    "ipv4 with options": lambda: ETHER / IP(src="10.1.2.3", dst="10.3.2.1", options=b"\x01" * 8),
    "vlan": lambda: ETHER / Dot1Q(vlan=7) / IP(src="10.1.2.3", dst="10.3.2.1"),
    "ipv6": lambda: ETHER / IPv6(src="2001:db8::1", dst="2001:db8::2"),
    "ipv6 with an extension": lambda: ETHER / IPv6(src="2001:db8::1", dst="2001:db8::2") / IPv6ExtHdrDestOpt(),
}


def verdicts(packet: bytes, payload: bytes) -> tuple[str | None, str]:
    where = layout(packet, len(packet) - len(payload), len(payload), 4000, 9092)
    ip, tcp = judge(packet, where)
    return ip, tcp


@pytest.mark.parametrize("network", NETWORKS)
@given(payload=st.binary(min_size=1, max_size=99), options=st.booleans(), at=st.integers(0, 98))
def test_right_wrong_and_offloaded_sums_are_distinguished(network: str, payload: bytes, options: bool, at: int) -> None:
    tcp = TCP(sport=4000, dport=9092, flags="A", options=[("NOP", None), ("Timestamp", (1, 2))] if options else [])
    packet = bytes(NETWORKS[network]() / tcp / payload)
    check = layout(packet, len(packet) - len(payload), len(payload), 4000, 9092).tcp + 16
    assume(packet[check : check + 2] != b"\0\0")  # a right sum of 0, once wrong, looks as if it was never made
    ip = None if "ipv6" in network else "right"
    assert verdicts(packet, payload) == (ip, "right")
    data = bytearray(packet)
    at = len(data) - len(payload) + at % len(payload)
    data[at] ^= 1
    changed = bytes(NETWORKS[network]() / tcp / bytes(data[-len(payload) :]))
    assume(changed[check : check + 2] != b"\0\0")  # nor of one whose right sum is 0 now
    assert verdicts(bytes(data), payload) == (ip, "wrong")
    data[check : check + 2] = b"\0\0"
    assert verdicts(bytes(data), payload) == (ip, "zero")


def test_a_wrong_ip_header_sum_is_reported() -> None:
    packet = bytearray(bytes(NETWORKS["ipv4"]() / TCP(sport=4000, dport=9092) / b"x"))
    packet[22] ^= 1  # the time to live is in the header's sum only
    assert verdicts(bytes(packet), b"x") == ("wrong", "right")


def test_a_packet_that_the_capture_cut_cannot_be_judged() -> None:
    packet = bytes(NETWORKS["ipv4"]() / TCP(sport=4000, dport=9092) / b"hello")
    where = layout(packet, len(packet) - 5, 5, 4000, 9092)
    assert judge(packet[:-1], where).tcp == "unverifiable"
