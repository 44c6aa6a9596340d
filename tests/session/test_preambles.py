"""What stands before, around and instead of a broker's protocol is stepped over, or named."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import dissectors
from dissectors.capture.block import ACK, FIN
from dissectors.session import preambles
from tests.tcp.test_tracker import CLIENT, SERVER, ConversationT
from tests.wires import Side, pcap

V2 = b"\r\n\r\n\0\r\nQUIT\n"
ADDRESSES = bytes([203, 0, 113, 7, 10, 1, 0, 20]) + struct.pack(">HH", 51234, 9092)
SIX = bytes.fromhex("20010db8000000000000000000000001") * 2 + struct.pack(">HH", 51234, 9092)
Turns = Sequence[tuple[Side, bytes]]
HELLO = bytes.fromhex("16030100430100003f0303") + bytes(61)


def kafka(turns: int = 6) -> list[tuple[Side, bytes]]:
    """A client that asks for the versions, again and again, and is answered."""
    said = []
    for number in range(1, turns + 1):
        asked = struct.pack(">hhih", 18, 0, number, 3) + b"app"
        answered = struct.pack(">ihihhh", number, 0, 1, 18, 0, 3)
        said += [(CLIENT, struct.pack(">i", len(asked)) + asked), (SERVER, struct.pack(">i", len(answered)) + answered)]
    return said


def pulsar() -> list[tuple[Side, bytes]]:
    connect = b"\x08\x02\x12\x08\x0a\x04java\x20\x15"
    connected = b"\x08\x03\x1a\x0a\x0a\x06broker\x10\x15"
    ping, pong = b"\x08\x12\x92\x01\x00", b"\x08\x13\x9a\x01\x00"
    return [
        (side, struct.pack(">II", len(command) + 4, len(command)) + command)
        for side, command in ((CLIENT, connect), (SERVER, connected), (CLIENT, ping), (SERVER, pong))
    ]


def rows(tmp_path: Path, turns: Turns, *, closer: Side | None = None) -> tuple[dict[str, Any], list[Any], list[str]]:
    """(the connection's row, kinds of its exchanges, kinds of findings)."""
    conversation = ConversationT()
    for side, data in turns:
        conversation.send(side, data)
    if closer is not None:
        conversation.send(closer, b"", ACK | FIN)
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(conversation.packets, nano=True))
    found = dissectors.dissect([path], tables=["connections", "exchanges", "findings"])
    (row,) = found["connections"].to_pylist()
    return row, found["exchanges"]["kind"].to_pylist(), found["findings"]["kind"].to_pylist()


PREAMBLES: dict[str, tuple[Turns, str, str | None]] = {
    "v1": ([(CLIENT, b"PROXY TCP4 203.0.113.7 10.1.0.20 51234 9092\r\n")], "proxy-v1", "203.0.113.7:51234"),
    "v1, IPv6": ([(CLIENT, b"PROXY TCP6 2001:db8::1 ::1 51234 9092\r\n")], "proxy-v1", "[2001:db8::1]:51234"),
    "v1, unknown": ([(CLIENT, b"PROXY UNKNOWN\r\n")], "proxy-v1", None),
    "v1, in pieces": (
        [(CLIENT, b"PROXY TCP4 203.0"), (CLIENT, b".113.7 10.1.0.20 51234 9092\r"), (CLIENT, b"\n")],
        "proxy-v1",
        "203.0.113.7:51234",
    ),
    "v2": ([(CLIENT, V2 + b"\x21\x11\0\x0c" + ADDRESSES)], "proxy-v2", "203.0.113.7:51234"),
    "v2, more fields": (
        [(CLIENT, V2 + b"\x21\x11\0\x10" + ADDRESSES + b"\x04\0\x01x")],
        "proxy-v2",
        "203.0.113.7:51234",
    ),
    "v2, IPv6": ([(CLIENT, V2 + b"\x21\x21\0\x24" + SIX)], "proxy-v2", "[2001:db8::1]:51234"),
    "v2, local": ([(CLIENT, V2 + b"\x20\0\0\0")], "proxy-v2", None),
    "SOCKS5": (
        [
            (CLIENT, b"\5\1\0"), (SERVER, b"\5\0"), (CLIENT, b"\5\1\0\3\x0ab1.example\x23\x84"),
            (SERVER, b"\5\0\0\1\x0a\1\0\x14\x23\x84"),
        ],
        "socks5",
        "b1.example:9092",
    ),
    "SOCKS5, password": (
        [
            (CLIENT, b"\5\2\0\2"), (SERVER, b"\5\2"), (CLIENT, b"\1\4user\6secret"), (SERVER, b"\1\0"),
            (CLIENT, b"\5\1\0\1\x0a\1\0\x14\x23\x84"), (SERVER, b"\5\0\0\4" + bytes(16) + b"\0\0"),
        ],
        "socks5",
        "10.1.0.20:9092",
    ),
    "CONNECT": (
        [
            (CLIENT, b"CONNECT b1.example:9092 HTTP/1.1\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n"),
            (SERVER, b"HTTP/1.1 200 Connection established\r\n\r\n"),
        ],
        "http-connect",
        "b1.example:9092",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PREAMBLES)
@pytest.mark.parametrize("protocol", ["kafka", "pulsar"])
def test_a_preamble_is_stepped_over_and_named(tmp_path: Path, name: str, protocol: str) -> None:
    before, preamble, origin = PREAMBLES[name]
    turns = kafka() if protocol == "kafka" else pulsar()
    row, kinds, findings = rows(tmp_path, [*before, *turns])
    assert (row["protocol"], row["preamble"], row["origin"]) == (protocol, preamble, origin)
    assert set(kinds) == {"call"}
    assert len(kinds) == len(turns) // 2
    assert row["framed_bytes"] == row["client_bytes"] + row["server_bytes"]
    assert not {"malformed_frame", "gap", "resync"} & {*findings}
    assert "secret" not in str(row)


def test_a_preamble_and_the_first_request_may_come_in_one_segment(tmp_path: Path) -> None:
    first, *rest = kafka()
    row, kinds, _ = rows(tmp_path, [(CLIENT, PREAMBLES["v2"][0][0][1] + first[1]), *rest])
    assert (row["preamble"], kinds) == ("proxy-v2", ["call"] * 6)


@pytest.mark.parametrize(
    "data", [b"PROXY TCP4 x\r\n", b"PROXY " + b"x" * 200, V2 + b"\x31\0\0\0", b"CONNECT x\r\n\r\n"]
)
def test_what_only_begins_like_a_preamble_is_none(data: bytes) -> None:
    assert preambles.read(data, b"HTTP/1.1 200 ok\r\n\r\n") is False


@pytest.mark.parametrize("name", PREAMBLES)
def test_a_preamble_is_read_whatever_part_of_it_has_come(name: str) -> None:
    client, server = (b"".join(data for side, data in PREAMBLES[name][0] if side is of) for of in (CLIENT, SERVER))
    for end in range(1, len(client)):
        assert preambles.read(client[:end], server) is True
    for end in range(len(server)):
        assert preambles.read(client, server[:end]) is True
    assert preambles.read(client + b"\0\0", server + b"\0") == preambles.Preamble(
        PREAMBLES[name][1], PREAMBLES[name][2], len(client), len(server)
    )


def test_a_stream_whose_first_bytes_are_nobodys_is_searched_on(tmp_path: Path) -> None:
    row, kinds, findings = rows(tmp_path, [(CLIENT, b"\x7f\x11ROUTE 7 via edge-3\n"), *kafka(20)])
    assert row["protocol"] == "kafka"
    assert "malformed_frame" not in findings
    assert kinds.count("call") >= 18


def test_tls_to_a_plaintext_port_is_a_mismatch(tmp_path: Path) -> None:
    row, _, findings = rows(tmp_path, [(CLIENT, HELLO)], closer=SERVER)
    assert (row["protocol"], row["tls"], row["foreign"], row["closed_by"]) == (None, True, "tls", "server")
    assert findings == ["tls_on_one_side"]


def test_a_client_hello_that_has_no_answer_yet_is_tls(tmp_path: Path) -> None:
    row, _, findings = rows(tmp_path, [(CLIENT, HELLO)])
    assert (row["tls"], row["foreign"], findings) == (True, None, [])


def test_a_handshake_that_the_server_refuses_by_an_alert_is_no_mismatch(tmp_path: Path) -> None:
    row, _, findings = rows(tmp_path, [(CLIENT, HELLO), (SERVER, b"\x15\3\3\0\2\2\x28")], closer=SERVER)
    assert (row["tls"], row["foreign"], findings) == (True, "tls-alert", [])


@pytest.mark.parametrize("turns", [kafka()[:1], pulsar()[:1]])
def test_plaintext_to_a_tls_port_is_a_mismatch_and_no_malformed_frame(tmp_path: Path, turns: Turns) -> None:
    row, _, findings = rows(tmp_path, [*turns, (SERVER, b"\x15\3\3\0\2\2\x46")], closer=SERVER)
    assert (row["foreign"], row["skipped_bytes"]) == ("tls-alert", 7)
    assert "tls_on_one_side" in findings
    assert not {"malformed_frame", "oversized_frame", "resync"} & {*findings}


def test_a_server_that_answers_http_is_no_broker(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    row, _, findings = rows(tmp_path, [*kafka()[:1], (SERVER, answer)], closer=SERVER)
    assert (row["protocol"], row["foreign"], row["skipped_bytes"]) == ("kafka", "http", len(answer))
    assert "other_protocol" in findings
    assert "malformed_frame" not in findings


def test_a_client_that_speaks_http_to_a_broker_is_named(tmp_path: Path) -> None:
    row, _, findings = rows(tmp_path, [(CLIENT, b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n")], closer=SERVER)
    assert (row["protocol"], row["foreign"], findings) == (None, "http", ["other_protocol"])
