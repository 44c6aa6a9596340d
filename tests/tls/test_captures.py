"""Real sessions of real clients: every record verifies, and the plaintext is the protocol's."""

import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import dpkt
import pytest

from dissectors import dissect
from dissectors.tcp.chunk import CLIENT, SERVER, Gap
from dissectors.tls import KeyLog, looks_like_tls
from tests.captures import captures

from .sessions import Script, listen

CAPTURES = captures("")
SAMPLES = Path(__file__).parents[2] / "samples"
BIG, IGGY_REQUEST, IGGY_RESPONSE = (">i", 4), ("<i", 4), ("<4xi", 8)  # how a frame gives its length; what precedes
CASES = {
    "kafka/kpy-tls12": ("TLS 1.2", (BIG, BIG)),
    "kafka/kpy-tls13": ("TLS 1.3", (BIG, BIG)),
    "kafka/kpy-tls13-sasl": ("TLS 1.3", (BIG, BIG)),
    "pulsar/tls12_go": ("TLS 1.2", (BIG, BIG)),
    "pulsar/tls13_go": ("TLS 1.3", (BIG, BIG)),
    "iggy/b8-dev-tls13": ("TLS 1.3", (IGGY_REQUEST, IGGY_RESPONSE)),
}


def streams(path: Path) -> list[Script]:
    """The TCP streams of a capture without loss: segments in order of sequence, each byte once."""
    found: dict[frozenset[object], list[Any]] = defaultdict(list)
    with path.open("rb") as file:
        for _, data in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(data).data
            tcp = ip.data
            ends = (ip.src, tcp.sport), (ip.dst, tcp.dport)
            found[frozenset(ends)].append((ends[0], tcp))
    scripts = []
    for packets in found.values():
        client, script, expected = packets[0][0], Script(), {}
        for source, tcp in packets:
            if tcp.flags & dpkt.tcp.TH_SYN:
                expected[source] = tcp.seq + 1
            new = tcp.data[(expected[source] - tcp.seq) & 0xFFFFFFFF :] if tcp.data else b""
            if new:
                expected[source] = (tcp.seq + len(tcp.data)) & 0xFFFFFFFF
                script.append((CLIENT if source == client else SERVER, new))
        if script:
            scripts.append(script)
    return scripts


def frames(data: bytes, prefix: tuple[str, int]) -> int:
    """How many length-prefixed frames the bytes are made of; they must fit exactly."""
    layout, size = prefix
    at = count = 0
    while at < len(data):
        at += size + struct.unpack_from(layout, data, at)[0]
        count += 1
    assert at == len(data)
    return count


@pytest.mark.parametrize("name", CASES)
def test_the_capture_is_decrypted_to_whole_frames(name: str) -> None:
    path = CAPTURES / f"{name}.pcap"
    if not path.exists():
        pytest.skip("the captures are not here")
    version, prefixes = CASES[name]
    log = KeyLog.load(path.with_suffix(".keys"))
    sessions = 0
    for script in streams(path):
        sides = [b"".join(data for side, data in script if side == direction) for direction in (CLIENT, SERVER)]
        assert looks_like_tls(sides[CLIENT][:20], sides[SERVER][:20])
        heard = listen(script, log)
        texts = heard.text(CLIENT), heard.text(SERVER)
        assert heard.layer.problem is None
        assert heard.layer.version == version
        assert not any(isinstance(event, Gap) for events in heard.events for event in events), "a tag does not verify"
        again = listen(script, log, lambda data: [data[:9], data[9:]] if len(data) > 9 else [data])
        assert (again.text(CLIENT), again.text(SERVER)) == texts
        for text, prefix in zip(texts, prefixes, strict=True):
            assert frames(text, prefix)
        sessions += 1
    assert sessions


@pytest.mark.parametrize("tables", [("exchanges",), ("exchanges", "connections")])
def test_a_capture_with_its_own_keys_is_read_whatever_is_wanted_of_it(tables: tuple[str, ...]) -> None:
    found = dissect([str(SAMPLES / "kafka-tls.pcapng")], tables)
    assert len(found["exchanges"]) == len(dissect([str(SAMPLES / "kafka-tls.pcapng")])["exchanges"]) > 0


def test_a_capture_without_keys_has_connections_and_no_exchanges(tmp_path: Path) -> None:
    bare = tmp_path / "bare.pcap"
    with (SAMPLES / "kafka-tls.pcapng").open("rb") as source, bare.open("wb") as target:
        writer = dpkt.pcap.Writer(target)
        for time, packet in dpkt.pcapng.Reader(source):
            writer.writepkt(packet, time)
    assert not len(dissect([str(bare)], ("exchanges",))["exchanges"])
    connections = dissect([str(bare)])["connections"].to_pylist()
    assert connections
    assert all(row["tls"] for row in connections)
