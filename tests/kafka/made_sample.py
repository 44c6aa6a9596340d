"""samples/kafka-made.pcap: what no other sample shows. `python -m tests.kafka.made_sample samples/kafka-made.pcap`

Not captured: written by hand, so that every everyday question has a capture that answers it. Nobody uses TLS, and
nothing is compressed. `billing` logs in by SCRAM-SHA-256, is throttled and sends a batch again; `metrics` produces with
acks=0; `legacy` uses versions of Produce that Kafka 4 has removed, asks again and again for metadata, and meets a
leader that has moved; `intruder` has a wrong password; `reports` reads committed messages, which an open transaction
holds back; another broker fetches as a replica, falls behind and leaves the replicas in sync. The capture begins with a
DNS answer that names the broker.
"""

import ipaddress
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.kafka.wire import batch, fetch, fetched, produce, produced, record, request, response, text
from tests.wires import Packet, Side, Talk, ethernet, ip, pcap

START = 1_795_230_000_000_000_000  # ns
MS = 1_000_000
BROKER = Side("10.74.0.1", 9092)
RESOLVER = "10.74.0.53"
NAME = "broker-1.kafka.example"
ORDERS, EVENTS = "orders", "events"
PRODUCE, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 0, 3, 17, 36
PRODUCER = 7001  # id of an idempotent producer
NOT_LEADER, SASL_FAILED = 6, 58


class _Connection(Talk):
    """One connection to the broker, whose packets come 1 ms apart."""

    def __init__(self, client: Side, at_ms: int) -> None:
        super().__init__(client, BROKER, time=START + at_ms * MS, step=MS)

    def call(self, asked: bytes, answer: bytes | None, wait_ms: int = 1) -> None:
        """A request and its answer, if there is one."""
        self.send(0, asked)
        if answer is not None:
            self.time += wait_ms * MS
            self.send(1, answer)


def _handshake(number: int, client: str, mechanism: str) -> tuple[bytes, bytes]:
    answer = struct.pack(">hi", 0, 1) + text(mechanism)
    return (
        request(SASL_HANDSHAKE, 1, number, text(mechanism), client=client),
        response(SASL_HANDSHAKE, 1, number, answer),
    )


def _authenticate(number: int, client: str, sent: bytes, code: int = 0) -> tuple[bytes, bytes]:
    message = None if code == 0 else "Authentication failed: invalid credentials"
    answer = struct.pack(">h", code) + text(message) + struct.pack(">iq", 0, 0)
    return (
        request(SASL_AUTHENTICATE, 1, number, struct.pack(">i", len(sent)) + sent, client=client),
        response(SASL_AUTHENTICATE, 1, number, answer),
    )


def _metadata(number: int, client: str, topic: str, in_sync: tuple[int, ...] = (1, 2)) -> tuple[bytes, bytes]:
    """Version 1."""
    broker = struct.pack(">i", 1) + text(NAME) + struct.pack(">i", BROKER.port) + text(None)
    isr = struct.pack(f">i{len(in_sync)}i", len(in_sync), *in_sync)
    partition = struct.pack(">hiiiii", 0, 0, 1, 2, 1, 2) + isr
    topics = struct.pack(">ih", 1, 0) + text(topic) + b"\0" + struct.pack(">i", 1) + partition
    asked = struct.pack(">i", 1) + text(topic)
    answer = struct.pack(">i", 1) + broker + struct.pack(">i", 1) + topics
    return request(METADATA, 1, number, asked, client=client), response(METADATA, 1, number, answer)


def _records(first: int, count: int, size: int, producer: int = -1) -> bytes:
    return batch(
        [
            record(n, b"key-%d" % (first + n), b"x" * (size + n), [(b"trace", b"%d" % (first + n))])
            for n in range(count)
        ],
        producer=(producer, 0, first) if producer >= 0 else (-1, -1, -1),
        first=START // MS,
        latest=START // MS,
    )


def _produce_v2(number: int, client: str, topic: str, records: bytes) -> bytes:
    """Without a transactional id, as before version 3."""
    body = struct.pack(">hii", 1, 30000, 1) + text(topic) + struct.pack(">iii", 1, 0, len(records)) + records
    return request(PRODUCE, 2, number, body, client=client)


def _produced_v2(number: int, topic: str, code: int, base: int) -> bytes:
    answer = struct.pack(">i", 1) + text(topic) + struct.pack(">iihqq", 1, 0, code, base, -1)
    return response(PRODUCE, 2, number, answer + struct.pack(">i", 0))


def _billing() -> _Connection:
    """Logs in by SCRAM, and produces beyond its quota."""
    it = _Connection(Side("10.74.0.11", 41001), 10)
    it.call(*_handshake(1, "billing", "SCRAM-SHA-256"))
    it.call(*_authenticate(2, "billing", b"n,,n=billing,r=nonce"))
    for number, n in enumerate((0, 1, 2, 2, 3, 4)):  # the third batch twice
        asked = produce(3 + number, {(ORDERS, 0): _records(n * 3, 3, 400, PRODUCER)}, client="billing")
        throttle = 0 if number < 4 else 120 * (number - 3)
        it.call(asked, produced(3 + number, [(ORDERS, 0, 0, n * 3)], throttle=throttle), 4)
    return it


def _metrics() -> _Connection:
    """Produces one message a request, and asks for no answer."""
    it = _Connection(Side("10.74.0.12", 41002), 15)
    for n in range(30):
        it.call(produce(1 + n, {(EVENTS, 0): _records(100 + n, 1, 40)}, acks=0, client="metrics"), None)
    return it


def _legacy() -> _Connection:
    """Of before Kafka 0.11, for a while at a broker that does not lead the partition any more."""
    it = _Connection(Side("10.74.0.13", 41003), 20)
    for n in range(8):
        it.call(*_metadata(1 + 2 * n, "legacy", ORDERS, (1, 2) if n < 5 else (1,)))
        code, base = (NOT_LEADER, -1) if n < 3 else (0, 100 + n)
        asked = _produce_v2(2 + 2 * n, "legacy", ORDERS, _records(200 + n, 1, 900))
        it.call(asked, _produced_v2(2 + 2 * n, ORDERS, code, base), 3)
    return it


def _intruder() -> _Connection:
    """Is refused."""
    it = _Connection(Side("10.74.0.14", 41004), 60)
    it.call(*_handshake(1, "intruder", "PLAIN"))
    it.call(*_authenticate(2, "intruder", b"\0intruder\0guess", SASL_FAILED))
    return it


def _replica() -> _Connection:
    """Another broker, which copies partition 0 of `orders` up to offset 6 of 100."""
    it = _Connection(Side("10.74.0.2", 41005), 70)
    for n in range(3):
        asked = fetch(1 + n, [(ORDERS, [0])], replica=2, offset=2 * n, client="broker-2-fetcher-0")
        it.call(asked, fetched(1 + n, {(ORDERS, 0): b""}))
    return it


def _reports() -> _Connection:
    """Reads what is committed, up to offset 40 of 100."""
    it = _Connection(Side("10.74.0.15", 41006), 75)
    asked = fetch(1, [(ORDERS, [0])], isolation=1, offset=40, client="reports")
    it.call(asked, fetched(1, {(ORDERS, 0): b""}, stable=40))
    return it


def dns_answer(time: int, name: str, address: str, client: str = "10.74.0.11", resolver: str = RESOLVER) -> Packet:
    """A DNS answer with one A record (RFC 1035, section 4)."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
    head = struct.pack(">HHHHHH", 1, 0x8180, 1, 1, 0, 0)
    asked = labels + struct.pack(">HH", 1, 1)
    answer = struct.pack(">HHHIH", 0xC00C, 1, 1, 300, 4) + ipaddress.ip_address(address).packed
    body = head + asked + answer
    datagram = struct.pack(">HHHH", 53, 50000, 8 + len(body), 0) + body
    frame = ethernet(ip(resolver, client, 17, datagram))
    return Packet(time, frame, len(frame))


def packets() -> Iterator[Packet]:
    """All packets, in order of time."""
    connections = [make().close() for make in (_billing, _metrics, _legacy, _intruder, _replica, _reports)]
    every = [packet for some in connections for packet in some]
    yield dns_answer(START, NAME, BROKER.ip)
    yield from sorted(every, key=lambda packet: packet.time)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(pcap(packets()))
