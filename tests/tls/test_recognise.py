"""Telling TLS from the three protocols by its first bytes."""

import pytest

from dissectors.tls import KeyLog, looks_like_tls

from .sessions import clear, client_hello, server_hello

HELLO, ANSWER = clear(client_hello()), clear(server_hello(0x1301))
DATA = b"\x17\x03\x03\0\x20" + bytes(32)


@pytest.mark.parametrize(
    ("client", "server"), [(HELLO, b""), (b"", ANSWER), (HELLO, ANSWER), (ANSWER, HELLO), (HELLO[:11], b"")]
)
def test_hellos_are_tls(client: bytes, server: bytes) -> None:
    assert looks_like_tls(client, server) is True


@pytest.mark.parametrize("client", [DATA, DATA + DATA, DATA + DATA[:5]])
def test_records_in_mid_session_are_tls(client: bytes) -> None:
    assert looks_like_tls(client, b"") is True


@pytest.mark.parametrize("client", [b"", HELLO[:1], HELLO[:6], HELLO[:10], DATA[:4], DATA[:20], DATA + DATA[:3]])
def test_too_few_bytes_leave_it_open(client: bytes) -> None:
    assert looks_like_tls(client, b"") is None


@pytest.mark.parametrize(
    "client",
    [
        b"\0\0\0\x17\0\x12\0\x03",  # Kafka
        b"\0\0\0\x1d\0\0\0\x19\x08\x02",  # Pulsar
        b"\x08\0\0\0\x26\0\0\0",  # Iggy
        b"\x16\x03\x01\x02\0\x04\0\x01\xfc\x03\x03",  # a handshake message that opens no session
        DATA + b"GET / HTTP/1.1",
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_anything_else_is_not_tls(client: bytes) -> None:
    assert looks_like_tls(client, b"") is False


def test_more_bytes_never_take_a_certain_answer_back() -> None:
    for stream in (HELLO, ANSWER, DATA + DATA, b"\x17\x03\x03\0\x05hello GET", b"\0\0\0\x17kafka"):
        answers = [looks_like_tls(stream[:size], b"") for size in range(len(stream) + 1)]
        certain = [answer for answer in answers if answer is not None]
        assert len(set(certain)) <= 1, stream


def test_a_key_log_is_read_past_comments_labels_and_damage() -> None:
    random = "AB" * 32
    log = KeyLog.load(
        f"# comment\r\nCLIENT_RANDOM {random} {'01' * 48}\r\nEXPORTER_SECRET {random} {'02' * 32}\n"
        f"CLIENT_RANDOM nonsense\nRSA 1122 3344\n SERVER_TRAFFIC_SECRET_0 {random.lower()}\t{'03' * 32}".encode()
    )
    assert len(log) == 2
    assert log.get("CLIENT_RANDOM", bytes.fromhex(random)) == b"\1" * 48
    assert log.add(f"CLIENT_TRAFFIC_SECRET_0 {random} {'04' * 32}\n".encode()) == 1
    assert len(log) == 3
