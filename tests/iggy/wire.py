"""A small writer of Iggy's frames, by hand from the protocol's documents: it shares nothing with the dissector."""

import struct
import zlib

import xxhash

T0 = 1_700_000_000_000_000  # microseconds
OK = b"\0" * 8


# --- legacy framing --------------------------------------------------------------------------------------------------


def request(code: int, body: bytes = b"") -> bytes:
    return struct.pack("<II", 4 + len(body), code) + body


def answer(body: bytes = b"", status: int = 0) -> bytes:
    return struct.pack("<II", status, len(body)) + body


def refusal(status: int, text: str) -> bytes:
    """An error as 0.2.2 to 0.4.86 answer it: with a text."""
    return answer(str32(text), status)


def number(value: int) -> bytes:
    return b"\1\4" + struct.pack("<I", value)


def name(value: str) -> bytes:
    return bytes([2, len(value)]) + value.encode()


def str8(value: str) -> bytes:
    return bytes([len(value.encode())]) + value.encode()


def str32(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def partition(value: int) -> bytes:
    return b"\2\4" + struct.pack("<I", value)


BALANCED = b"\1\0"
STREAM, TOPIC = name("shop"), name("orders")

# --- messages --------------------------------------------------------------------------------------------------------


def send_a(payloads: list[bytes], headers: bytes = b"") -> bytes:
    """0.0.4 to 0.4: id, headers, payload."""
    return b"".join(
        struct.pack("<QQI", i, 7, len(headers)) + headers + struct.pack("<I", len(p)) + p
        for i, p in enumerate(payloads)
    )


def poll_a(payloads: list[bytes], first: int = 0, state: int = 1) -> bytes:
    return b"".join(
        struct.pack("<QBQQQII", first + i, state, T0 + i, i, 7, zlib.crc32(p), 0) + struct.pack("<I", len(p)) + p
        for i, p in enumerate(payloads)
    )


def message_b(
    payload: bytes, *, size: int, kind: str = "", offset: int = 0, time: int = 0, headers: bytes = b"", id: int = 1
) -> bytes:
    """0.5 to 0.8: header of 56 or 64 bytes, payload, user headers; kind of checksum: crc32, xxh3 or none."""
    rest = struct.pack("<QQQQQII", id, 7, offset, time, T0, len(headers), len(payload))
    rest += bytes(size - 56) + payload + headers
    checksum = {"crc32": lambda: zlib.crc32(rest), "xxh3": lambda: xxhash.xxh3_64_intdigest(rest), "": lambda: 0}[
        kind
    ]()
    return struct.pack("<Q", checksum) + rest


def send_b(payloads: list[bytes], *, size: int, headers: bytes = b"", to: bytes = partition(1)) -> bytes:
    messages = [message_b(p, size=size, headers=headers, id=i) for i, p in enumerate(payloads)]
    ends, end = b"", 0
    for message in messages:
        end += len(message)
        ends += struct.pack("<IIQ", 0, end, 0)
    head = STREAM + TOPIC + to + struct.pack("<I", len(messages))
    return struct.pack("<I", len(head)) + head + ends + b"".join(messages)


def poll_b(payloads: list[bytes], *, size: int, kind: str, first: int = 0) -> bytes:
    return b"".join(
        message_b(p, size=size, kind=kind, offset=first + i, time=T0 + i, id=i) for i, p in enumerate(payloads)
    )


def polled(messages: bytes, count: int, *, part: int = 1, current: int = 99, more: bytes = b"") -> bytes:
    return struct.pack("<IQI", part, current, count) + more + messages


def header_plain(key: str, kind: int, value: bytes) -> bytes:
    return str32(key) + bytes([kind]) + struct.pack("<I", len(value)) + value


def header_typed(key: str, kind: int, value: bytes) -> bytes:
    return b"\2" + str32(key) + bytes([kind]) + struct.pack("<I", len(value)) + value


def batch(
    payloads: list[bytes],
    *,
    part: int = 0,
    base: int = 0,
    headers: bytes = b"",
    producer: tuple[int, int, int] | None = None,
) -> bytes:
    """A VSR batch with both kinds of checksum; producer: id, epoch, sequence, as idempotent ones stamp it."""
    frames, seals = b"", b""
    for i, payload in enumerate(payloads):
        rest = struct.pack("<QQIIIIQ", i, 7, i, i, len(headers), len(payload), 0) + payload + headers
        seal = struct.pack("<Q", xxhash.xxh3_64_intdigest(rest))
        seals += seal
        frames += seal + rest
    head = struct.pack("<QQQQQ", part, base, T0 if base else 0, T0, 256 + len(frames))
    count = struct.pack("<I", len(payloads))
    stamp, wrote = bytes(0), bytes(20)
    if producer:
        stamp = b"\1" + struct.pack("<QHI", *producer)
        wrote = struct.pack("<B3xQH2xI", 1, *producer)
    whole = xxhash.xxh3_64_intdigest(head + count + stamp + seals)
    return head + struct.pack("<Q", whole) + count + wrote + bytes(184) + frames


# --- what a client asks ----------------------------------------------------------------------------------------------


def login(user: str = "iggy", password: str = "s3cret-pass", version: str | None = None) -> bytes:
    more = b"" if version is None else str32(version) + str32("")
    return str8(user) + str8(password) + more


STRATEGY = b"\1" + struct.pack("<Q", 0)


def poll_2023() -> bytes:
    return (
        b"\1" + struct.pack("<I", 5) + STREAM + TOPIC + struct.pack("<I", 1) + STRATEGY + struct.pack("<I?", 10, True)
    )


def poll_04() -> bytes:
    return b"\1" + number(5) + STREAM + TOPIC + struct.pack("<I", 1) + STRATEGY + struct.pack("<I?", 10, True)


def poll_06(part: int = 1, count: int = 10) -> bytes:
    return b"\1" + number(5) + STREAM + TOPIC + struct.pack("<BI", 1, part) + STRATEGY + struct.pack("<I?", count, True)


# --- VSR framing -----------------------------------------------------------------------------------------------------

SESSION_CLIENT = 0xABCDEF0123456789


def vsr(command: int, fields: dict[int, tuple[str, int]], body: bytes = b"", seal: bool = False) -> bytes:
    """A frame of 256 bytes and a body; `fields` maps an offset to (struct code, value)."""
    header = bytearray(256)
    struct.pack_into("<I", header, 48, 256 + len(body))
    header[60] = command
    for at, (code, value) in fields.items():
        if code == "Q2":
            struct.pack_into("<QQ", header, at, value & (1 << 64) - 1, value >> 64)
        else:
            struct.pack_into("<" + code, header, at, value)
    if seal:
        struct.pack_into("<Q", header, 0, xxhash.xxh3_64_intdigest(bytes(header[16:])))
    return bytes(header) + body


def vsr_request(operation: int, body: bytes = b"", *, id: int = 1, code: int = 0, routed: int = 0) -> bytes:
    fields = {128: ("Q2", SESSION_CLIENT), 168: ("Q", id), 176: ("B", operation), 196: ("I", code), 208: ("Q", routed)}
    return vsr(5, fields, body)


def vsr_reply(operation: int, body: bytes = b"", *, id: int = 1, status: int = 0, committed: int = 0) -> bytes:
    fields = {160: ("Q2", SESSION_CLIENT), 200: ("Q", id), 208: ("B", operation), 216: ("I", status)}
    return vsr(8, {**fields, 220: ("B", committed)}, body)


def eviction(reason: int) -> bytes:
    return vsr(13, {128: ("Q2", SESSION_CLIENT), 255: ("B", reason)})


def register(minor: int = 11, password: str = "s3cret-pass", patch: int = 0) -> bytes:
    secret = b"B" * 32 if minor >= 12 else b""
    return (
        struct.pack("<I", minor << 10 | patch)
        + str8("go-sdk")
        + str8("0.9.0")
        + secret
        + str8("iggy")
        + str8(password)
        + str32("")
    )


def registered(minor: int = 11, patch: int = 0) -> bytes:
    return struct.pack("<IQI", 0, 34, minor << 10 | patch) + str8("0.9.0-edge.5")


def send_vsr(payloads: list[bytes], *, to: bytes = partition(0)) -> bytes:
    head = STREAM + TOPIC + to + struct.pack("<I", len(payloads))
    return struct.pack("<I", len(head)) + head + batch(payloads)


NODE = str32("n1") + str32("::1") + struct.pack("<HHHHBB", 8090, 8080, 3000, 8092, 0, 1)
NODE_SHOWN = {
    "name": "n1",
    "ip": "::1",
    "tcp_port": 8090,
    "quic_port": 8080,
    "http_port": 3000,
    "websocket_port": 8092,
    "role": 0,
    "status": 1,
}
