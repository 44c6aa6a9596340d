"""Kafka frames and record batches, written by hand."""

import gzip
import random
import struct
import zlib
from typing import Any

import crc32c

from dissectors.kafka import schema
from dissectors.kafka.decode import api_version
from tests.kafka.encoder import Encoder, uvarint


def text(value: str | None) -> bytes:
    """An int16 length and the text."""
    return b"\xff\xff" if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(key: int, version: int, correlation_id: int, body: bytes, client: str | None = "tester") -> bytes:
    api = api_version(key, version)
    head = struct.pack(">hhi", key, version, correlation_id)
    if api.has_client_id:
        head += text(client)
    return frame(head + (b"\0" if api.request_tags else b"") + body)


def response(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    return frame(struct.pack(">i", correlation_id) + (b"\0" if api_version(key, version).response_tags else b"") + body)


def any_body(name: str, version: int, seed: int = 0) -> bytes:
    """A random body of a message."""
    return Encoder(schema.message(name), version, random.Random(seed)).body()[1]


def zigzag(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63) if value >= 0 else ((-value) << 1) - 1)


def record(delta: int, key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]] = []) -> bytes:  # noqa: B006
    """A record of magic 2."""

    def sized(raw: bytes | None) -> bytes:
        return zigzag(-1) if raw is None else zigzag(len(raw)) + raw

    body = b"\0" + zigzag(delta) + zigzag(delta) + sized(key) + sized(value) + zigzag(len(headers))
    body += b"".join(sized(k) + sized(v) for k, v in headers)
    return zigzag(len(body)) + body


def batch(
    records: list[bytes],
    base: int = 0,
    codec: int = 0,
    *,
    stored: bytes | None = None,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    first: int = 1_700_000_000_000,
    latest: int = 1_700_000_000_100,
) -> bytes:
    """A record batch, magic 2. `stored`: the records as compressed."""
    data = b"".join(records) if stored is None else stored
    n = len(records)
    body = struct.pack(">hiqqqhii", attributes | codec, n - 1, first, latest, *producer, n) + data
    tail = struct.pack(">ibI", 0, 2, crc32c.crc32c(body)) + body
    return struct.pack(">qi", base, len(tail)) + tail


def message(
    offset: int, value: bytes | None, *, magic: int = 1, codec: int = 0, key: bytes | None = None, ts: int = 5
) -> bytes:
    """A message of magic 0 or 1."""

    def sized(raw: bytes | None) -> bytes:
        return struct.pack(">i", -1) if raw is None else struct.pack(">i", len(raw)) + raw

    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", ts) if magic else b"") + sized(key) + sized(value)
    tail = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(tail)) + tail


def wrapper(offset: int, inner: list[bytes], magic: int = 1) -> bytes:
    """Messages inside a gzip message."""
    return message(offset, gzip.compress(b"".join(inner), mtime=0), magic=magic, codec=1)


def produce(
    correlation_id: int, sets: dict[tuple[str, int], bytes], acks: int = -1, version: int = 7, **more: Any
) -> bytes:
    """A Produce request, versions 3 to 8."""
    topics: dict[str, list[tuple[int, bytes]]] = {}
    for (topic, partition), records in sets.items():
        topics.setdefault(topic, []).append((partition, records))
    body = text(more.pop("transactional_id", None)) + struct.pack(">hii", acks, 30000, len(topics))
    for topic, partitions in topics.items():
        body += text(topic) + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">ii", p, len(r)) + r for p, r in partitions)
    return request(0, version, correlation_id, body, **more)


def produced(
    correlation_id: int, answers: list[tuple[str, int, int, int]], version: int = 7, throttle: int = 0
) -> bytes:
    """Its response, versions 5 to 7: (topic, partition, error, base offset)."""
    body = struct.pack(">i", len(answers))
    for topic, partition, code, base in answers:
        body += text(topic) + struct.pack(">iihqqq", 1, partition, code, base, -1, 0)
    return response(0, version, correlation_id, body + struct.pack(">i", throttle))


def fetch(
    correlation_id: int, wanted: list[tuple[str, list[int]]], session: tuple[int, int] = (0, -1), **more: Any
) -> bytes:
    """A Fetch request, version 7 to 8; `forgotten`: (topic, partitions) that leave the session."""
    forgotten = more.pop("forgotten", [])
    replica, wait = more.pop("replica", -1), more.pop("wait", 500)
    isolation, offset = more.pop("isolation", 0), more.pop("offset", 0)
    body = struct.pack(">iiiibiii", replica, wait, 1, 1 << 20, isolation, *session, len(wanted))
    for topic, partitions in wanted:
        body += text(topic) + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">iqqi", p, offset, 0, 1 << 20) for p in partitions)
    body += struct.pack(">i", len(forgotten))
    for topic, partitions in forgotten:
        body += text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return request(1, 7, correlation_id, body, **more)


def fetched(
    correlation_id: int,
    sets: dict[tuple[str, int], bytes],
    session: int = 0,
    code: int = 0,
    aborted: tuple[tuple[int, int], ...] = (),
    stable: int = 100,
) -> bytes:
    """Its response, version 7; aborted: (producer id, first offset) of transactions, in each partition; stable: the
    last stable offset, of a partition that ends at 100.
    """
    listed = struct.pack(">i", len(aborted)) + b"".join(struct.pack(">qq", *each) for each in aborted)
    body = struct.pack(">ihii", 0, code, session, len(sets))
    for (topic, partition), records in sets.items():
        body += text(topic) + struct.pack(">iihqqq", 1, partition, 0, 100, stable, 0) + listed
        body += struct.pack(">i", len(records)) + records
    return response(1, 7, correlation_id, body)
