"""What every protocol promises of streams that are not its own."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.session.conversation import Protocol
from dissectors.session.protocols import protocols
from tests.session.recognising import CERTAIN, judged

STREAMS = {
    "kafka request": struct.pack(">IHHI", 0x2F, 18, 3, 1) + b"\0\x09librdkafka" + bytes(30),
    "pulsar CONNECT": b"\0\0\0\x2a\0\0\0\x26\x08\x02\x12\x22\x0a\x055.0.0\x1a\0\x20\x15" + bytes(30),
    "pulsar PING": b"\0\0\0\x09\0\0\0\x05\x08\x12\x92\x01\0" * 4,
    "iggy ping": b"\4\0\0\0\1\0\0\0" * 5,
    "iggy login": b"\x1a\0\0\0\x26\0\0\0\4iggy\4iggy" + bytes(20),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
    "HTTP": b"GET /admin/v2/clusters HTTP/1.1\r\nHost: broker\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n" * 8,
    "zeros": bytes(200),
    "ones": b"\xff" * 200,
}
NOT_OWN = [(protocol, name) for protocol in protocols() for name in STREAMS if not name.startswith(protocol.name)]
FROM_THE_MIDDLE = {"kafka": 0.3, "pulsar": 0.1, "iggy": 0.3}
"""How sure a protocol is at most of what may be the middle of one of its frames."""


@pytest.mark.parametrize(("protocol", "name"), NOT_OWN, ids=[f"{name} by {each.name}" for each, name in NOT_OWN])
def test_other_protocols_are_not_claimed(protocol: Protocol, name: str) -> None:
    data = STREAMS[name]
    assert judged(protocol, data, b"", False) == 0
    assert judged(protocol, b"", data, False) < CERTAIN
    for client, server in ((data, b""), (b"", data), (data, data)):
        assert judged(protocol, client, server, True) <= FROM_THE_MIDDLE[protocol.name]


@pytest.mark.parametrize("protocol", protocols(), ids=lambda protocol: protocol.name)
@settings(max_examples=150)
@given(st.binary(max_size=400), st.binary(max_size=400), st.booleans())
def test_any_bytes_get_a_confidence(protocol: Protocol, client: bytes, server: bytes, midstream: bool) -> None:
    assert 0 <= judged(protocol, client, server, midstream) <= 1
