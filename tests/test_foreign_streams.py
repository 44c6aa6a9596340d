"""Streams of other protocols, on the brokers' ports and on others, are nobody's, and nothing is found wrong with them.

STREAMS   what a client and a server say in turns, by hand from the protocols' documents; some bytes are of streams that
          were once taken for a broker's
Each is read whole, from its middle (without its handshake) and cut off, on each port: all in one capture.
"""

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

import dissectors
from tests.iggy.wire import register, vsr_reply, vsr_request
from tests.wires import T0, Packet, Side, Talk, pcap

CLIENT, SERVER = 0, 1
PORTS = (9092, 6650, 8090, 5555)
Turns = Sequence[tuple[int, bytes]]
RANDOM = random.Random(20)


def ask(*asked: bytes, answer: bytes) -> Turns:
    """Requests that have one answer each."""
    return [turn for one in asked for turn in ((CLIENT, one), (SERVER, answer))]


def mysql(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


def smb2(command: int, body: bytes, *, answer: bool) -> bytes:
    head = (
        b"\xfeSMB" + struct.pack("<HHIHHIIQIIQ", 64, 1, 0, command, 1, answer, 0, command, 0xFEFF, 1, 0x400) + bytes(16)
    )
    return struct.pack(">I", len(head + body)) + head + body


def rpc(kind: int, body: bytes) -> bytes:
    return struct.pack("<BBBBIHHI", 5, 0, kind, 3, 16, 16 + len(body), 0, 1) + body


def cassandra(version: int, code: int, body: bytes) -> bytes:
    return struct.pack(">BBHBI", version, 0, 1, code, len(body)) + body


def mongo(number: int, document: bytes) -> bytes:
    body = struct.pack("<IB", 0, 0) + struct.pack("<I", len(document) + 5) + document + b"\0"
    return struct.pack("<IIII", 16 + len(body), number, 0, 2013) + body


def postgres(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", 4 + len(body)) + body


def http2(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2(4, 0, 0, b"\0\3\0\0\0\x64")
HELLO = bytes.fromhex("16030100430100003f0303") + bytes(range(61))
DNS = bytes.fromhex("001c1234010000010000000000000377777707657861") + b"mple\0\0\1\0\1"
BIND = rpc(11, struct.pack("<HHIBBH", 4280, 4280, 0, 1, 0, 0) + bytes(range(44)))
PIPE = bytes.fromhex("2800000000000000000000000001000000")
# an answer of 48 bytes that a batch of Iggy's later framing reads to its end, and an empty poll before more zeros
NETLOGON = bytes.fromhex(
    "00000000280000000000000000000000010000000d000068023c00002e1e5b95fdbc8e92557a9055a21a9ca304000000"
)
IDLE = bytes.fromhex("0000000010000000" + "00" * 16 + "0000000000008000") + bytes(24)
# a lock of SMB2 with the bytes of a Produce without a client and without a topic, and another request behind it
LOCK = bytes.fromhex(
    "0000001e000000000000007800000000000000000000000100000000000000000085041c06d0173100100000000000004d00"
)
DNP3 = bytes.fromhex("05640bc401000200699ec0c1013c020652c3")
TEXT = "Grüße, 你好, привет, سلام, 😀\r\n"

STREAMS: dict[str, Turns] = {
    "HTTP/1.1": ask(
        b"GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n", b"POST /x HTTP/1.1\r\n\r\n", answer=HTTP + b'{"state": "ok"}'
    ),
    "Elasticsearch": ask(
        b'POST /i/_bulk HTTP/1.1\r\n\r\n{"index":{}}\n{"a":1}\n', answer=HTTP + b'{"took":30,"errors":0}'
    ),
    "HTTP/2": [
        (CLIENT, PREFACE),
        (SERVER, http2(4, 0, 0, b"") + http2(4, 1, 0, b"")),
        (CLIENT, http2(1, 5, 1, b"\x82\x86\x84")),
    ],
    "gRPC": [
        (CLIENT, PREFACE + http2(1, 4, 1, b"\x83\x86\x44\x04/a/b") + http2(0, 1, 1, b"\0\0\0\0\x05\x0a\x03abc")),
        (SERVER, http2(4, 0, 0, b"\0\4\0\x10\0\0") + http2(1, 4, 1, b"\x88") + http2(0, 0, 1, b"\0\0\0\0\2\x08\1")),
    ],
    "TLS": [
        (CLIENT, HELLO),
        (SERVER, b"\x16\3\3\0\x7a\2\0\0\x76\3\3" + bytes(range(114))),
        (CLIENT, b"\x17\3\3\0\x40" + bytes(64)),
    ],
    "SSH": ask(
        b"SSH-2.0-OpenSSH_9.2\r\n",
        struct.pack(">IBB", 1020, 4, 20) + RANDOM.randbytes(1018),
        answer=b"SSH-2.0-dropbear\r\n",
    ),
    "Redis": ask(b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n", b"*1\r\n$4\r\nPING\r\n", answer=b"$5\r\nvalue\r\n"),
    "memcached": ask(b"set key 0 900 4\r\ndata\r\n", b"get key\r\n", answer=b"VALUE key 0 4\r\ndata\r\nEND\r\n"),
    "PostgreSQL": [
        (CLIENT, struct.pack(">II", 41, 196608) + b"user\0postgres\0database\0shop\0\0\0\0\0"),
        (SERVER, postgres(b"R", bytes(4)) + postgres(b"S", b"server_version\x0016\0") + postgres(b"Z", b"I")),
        (CLIENT, postgres(b"Q", b"select 1\0")),
        (SERVER, postgres(b"T", b"\0\1a\0" + bytes(18)) + postgres(b"D", b"\0\1\0\0\0\x011") + postgres(b"Z", b"I")),
    ],
    "MySQL": [
        (
            SERVER,
            mysql(0, b"\x0a8.0.36\0" + struct.pack("<I", 8) + b"a" * 8 + bytes(1) + b"\xff\xff\xff\2\0" + bytes(30)),
        ),
        (CLIENT, mysql(1, struct.pack("<II", 0x01FFA685, 1 << 24) + b"\xff" + bytes(23) + b"root\0\0")),
        (SERVER, mysql(2, b"\0\0\0\2\0\0\0")),
        (CLIENT, mysql(0, b"\3select 1")),
        (
            SERVER,
            mysql(1, b"\1") + mysql(2, b"\3def\0\0\0\1a\0\x0c\x3f\0\1\0\0\0\x08\x81\0\0\0\0") + mysql(3, b"\0011"),
        ),
    ],
    "MongoDB": ask(
        mongo(1, b"\x16\0\0\0\x10hello\0\1\0\0\0\0"), mongo(2, b"\x05\0\0\0\0"), answer=mongo(9, b"\x05\0\0\0\0")
    ),
    "AMQP": [
        (CLIENT, b"AMQP\0\0\x09\1"),
        (SERVER, b"\1\0\0\0\0\0\x1c\0\x0a\0\x0a\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\5en_US\xce"),
        (CLIENT, b"\1\0\1\0\0\0\5\0\x14\0\x0a\0\xce\x08\0\0\0\0\0\0\xce"),
        (SERVER, b"\1\0\1\0\0\0\x08\0\x14\0\x0b\0\0\0\0\xce"),
    ],
    "MQTT": ask(b"\x10\x10\0\4MQTT\4\2\0\x3c\0\4app1", b"\xc0\0", b"\x32\x0b\0\3a/b\0\7data", answer=b"\x20\2\0\0"),
    "NATS": [
        (SERVER, b'INFO {"server_id":"N","proto":1}\r\n'),
        (CLIENT, b'CONNECT {"verbose":false}\r\nPING\r\n'),
        (SERVER, b"PONG\r\n"),
    ],
    "Cassandra": ask(
        cassandra(4, 1, b"\0\1\0\x0bCQL_VERSION\0\x053.0.0"),
        cassandra(4, 7, b"\0\0\0\x08select 1\0\1\0"),
        answer=cassandra(0x84, 8, struct.pack(">I", 1)),
    ),
    "ZooKeeper": ask(
        struct.pack(">iiqiqi", 44, 0, 0, 30000, 0, 16) + bytes(16),
        struct.pack(">iii", 8, -2, 11),
        answer=struct.pack(">iiiqi", 36, 0, 30000, 1 << 40, 16) + bytes(16),
    ),
    "SMTP": [
        (SERVER, b"220 mx ESMTP\r\n"),
        *ask(b"EHLO a\r\n", b"MAIL FROM:<a@b>\r\n", b"DATA\r\n", answer=b"250 OK\r\n"),
    ],
    "FTP": [(SERVER, b"220 ready\r\n"), *ask(b"USER a\r\n", b"RETR 1\r\n", answer=b"331 go on\r\n")],
    "IRC": ask(b"NICK a\r\nUSER a 0 * :a\r\n", b"JOIN #a\r\n", answer=b":s 001 a :Welcome\r\n"),
    "DNS": ask(
        DNS, DNS, answer=b"\0\x2c" + DNS[2:4] + b"\x81\x80" + DNS[6:] + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\0\0\1"
    ),
    "LDAP": ask(
        b"\x30\x0c\2\1\1\x60\7\2\1\3\4\0\x80\0", b"\x30\5\2\1\2\x42\0", answer=b"\x30\x0c\2\1\1\x61\7\x0a\1\0\4\0\4\0"
    ),
    "Kerberos": ask(
        b"\0\0\0\x46\x6a\x44\x30\x42\xa1\3\2\1\5" + bytes(range(57)), answer=b"\0\0\0\x30\x7e\x2e" + bytes(46)
    ),
    "SMB2": [
        (CLIENT, smb2(0, struct.pack("<HHHHI", 36, 2, 1, 0, 0) + bytes(range(28)), answer=False)),
        (SERVER, smb2(0, struct.pack("<HHHH", 65, 1, 0x0210, 0) + bytes(56), answer=True)),
        (CLIENT, smb2(11, struct.pack("<HHI", 57, 0, 0x0011C017) + PIPE + LOCK, answer=False)),
        (SERVER, smb2(11, IDLE, answer=True)),
        (CLIENT, LOCK),
        (SERVER, smb2(8, PIPE, answer=True) + NETLOGON),
    ],
    "DCE-RPC": [
        (CLIENT, BIND),
        (SERVER, rpc(12, bytes(range(44)))),
        (CLIENT, rpc(0, bytes(24))),
        (SERVER, rpc(2, bytes(24))),
    ],
    "DNP3": [(CLIENT, DNP3), (SERVER, bytes.fromhex("05640a440200010010f0c0c1810000742a"))],
    "Modbus": ask(b"\0\1\0\0\0\6\1\1\0\0\0\3", b"\0\2\0\0\0\6\1\3\0\0\0\1", answer=b"\0\1\0\0\0\4\1\1\1\0"),
    "TPKT": [
        (CLIENT, b"\3\0\0\x13\x0e\xe0\0\0\0\0\0\1\0\x08\0\3\0\0\0"),
        (SERVER, b"\3\0\0\x13\x0e\xd0\0\0\x12\x34\0\2\0\x08\0\2\0\0\0"),
    ],
    "Oracle": ask(
        b"\0\xe0\0\0\1\0\0\0\1\x3b\1\x2c\x0c\x41\x20\0" + bytes(208), answer=b"\0\x20\0\0\2\0\0\0\1\x3b" + bytes(22)
    ),
    "OpenFlow": ask(
        struct.pack(">BBHI", 1, 0, 8, 1), struct.pack(">BBHI", 1, 2, 8, 2), answer=struct.pack(">BBHI", 1, 0, 8, 1)
    ),
    "BitTorrent": ask(
        b"\x13BitTorrent protocol" + bytes(8) + bytes(range(40)), b"\0\0\0\1\2", answer=b"\0\0\0\5\4\0\0\0\7"
    ),
    "RTMP": ask(b"\3" + RANDOM.randbytes(1536), answer=b"\3" + RANDOM.randbytes(1536)),
    "random": ask(*(RANDOM.randbytes(900) for _ in range(6)), answer=RANDOM.randbytes(900)),
    "zeros": ask(bytes(800), bytes(11), answer=bytes(1000)),
    "ones": ask(b"\xff" * 800, b"\xff" * 11, answer=b"\xff" * 1000),
    "zeros of a server": [(SERVER, bytes(1200))] * 4,
    **{
        f"text in {code}": ask(TEXT.encode(code) * 9, answer=TEXT.encode(code) * 20)
        for code in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-7")
    },
    "text in EBCDIC": ask("HELLO, WORLD ".encode("cp500") * 40, answer="GOOD BYE ".encode("cp500") * 40),
}


def connection(number: int, port: int, turns: Turns, *, whole: bool, ends: bool) -> list[Packet]:
    """The packets of one connection. whole: from its handshake on; ends: to its FIN on both sides."""
    sides = Side("10.1.0.2", 20_000 + number), Side("10.1.0.1", port)
    talk = Talk(*sides, handshake=whole, time=T0 + number * 1_000_000, step=1000)
    for side, data in turns:
        for start in range(0, len(data), 1400):
            talk.send(side, data[start : start + 1400])
    return talk.close() if ends else talk.packets


def from_the_middle(turns: Turns) -> Turns:
    """The second half of a stream, beginning within what its first frame is."""
    later = turns[len(turns) // 2 :]
    (side, data), *rest = later
    return [(side, data[len(data) // 3 :]), *rest]


def cut_off(turns: Turns) -> Turns:
    """A stream whose last bytes are missing."""
    *before, (side, data) = turns
    return [*before, (side, data[: max(1, len(data) // 2)])]


@pytest.mark.parametrize("port", PORTS)
def test_a_stream_of_another_protocol_is_nobodys(port: int, tmp_path: Path) -> None:
    names: dict[int, str] = {}
    packets: list[Packet] = []
    for name, turns in STREAMS.items():
        for how, said, whole, ends in (
            ("whole", turns, True, True),
            ("open", turns, True, False),
            ("from the middle", from_the_middle(turns), False, True),
            ("from the middle, open", from_the_middle(turns), False, False),
            ("cut off", cut_off(turns), True, True),
            ("one direction", [turn for turn in turns if turn[0] == SERVER], False, False),
        ):
            names[20_000 + len(names)] = f"{name}, {how}"
            packets += connection(len(names) - 1, port, said, whole=whole, ends=ends)
    path = tmp_path / "foreign.pcap"
    path.write_bytes(pcap(packets, nano=True))
    found = dissectors.dissect([path], tables=["connections", "exchanges", "batches", "findings"])
    connections = found["connections"].to_pylist()
    assert len(connections) >= len(names) - 1  # a client that is never heard: which end it is may not be known
    claimed = {names.get(c["client_port"], c["connection"]): c["protocol"] for c in connections if c["protocol"]}
    assert claimed == {}
    assert (found["exchanges"].num_rows, found["batches"].num_rows) == (0, 0)
    wrong = {"malformed_frame", "oversized_frame", "checksum_mismatch", "unknown_api", "resync", "orphan", "gap"}
    told = {(names.get(f["client_port"] or 0), f["kind"]) for f in found["findings"].to_pylist() if f["kind"] in wrong}
    assert told == set()


def test_a_port_speaks_for_frames_of_which_a_snap_length_left_too_little(tmp_path: Path) -> None:
    """The zeros with which frames of viewstamped replication begin, 30 bytes of each."""
    turns = ask(vsr_request(1, register(), id=0), answer=vsr_reply(1, id=0))
    packets = connection(0, 8090, turns, whole=True, ends=True)
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap([packet._replace(data=packet.data[: 54 + 30]) for packet in packets], nano=True))
    found = dissectors.dissect([path], tables=["connections", "exchanges"])
    assert found["connections"]["protocol"].to_pylist() == ["iggy"]
    assert found["exchanges"].num_rows == 1
