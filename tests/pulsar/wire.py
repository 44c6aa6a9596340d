"""Pulsar frames, written byte by byte: nothing here uses the schema or the library that the decoder uses."""

from collections.abc import Iterable, Sequence

import crc32c

Field = tuple[int, "int | bytes | str | bool | list[Field]"]
ALL_ONES = (1 << 64) - 1

# type numbers, as in the specification
CONNECT, CONNECTED, SUBSCRIBE, PRODUCER, SEND, SEND_RECEIPT, SEND_ERROR, MESSAGE, ACK, FLOW = range(2, 12)
UNSUBSCRIBE, SUCCESS, ERROR, CLOSE_PRODUCER, CLOSE_CONSUMER, PRODUCER_SUCCESS, PING, PONG = range(12, 20)
REDELIVER, PARTITIONED_METADATA, PARTITIONED_METADATA_RESPONSE, LOOKUP, LOOKUP_RESPONSE = range(20, 25)
AUTH_CHALLENGE, AUTH_RESPONSE, ACK_RESPONSE = 36, 37, 38
CHECKSUM_ERROR = 9


def varint(value: int) -> bytes:
    value &= ALL_ONES
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes | str | bool | list[Field]) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, list):
        value = message(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(fields: Iterable[Field]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def base(type_: int, fields: Sequence[Field]) -> bytes:
    return message([(1, type_), (type_, list(fields))])


def simple(type_: int, *fields: Field) -> bytes:
    command = base(type_, fields)
    return u32(len(command) + 4) + u32(len(command)) + command


def metadata(sequence: int = 0, *more: Field, producer: str = "p-1", published: int = 1_700_000_000_000) -> bytes:
    return message([(1, producer), (2, sequence), (3, published), *more])


def entry(
    meta: bytes, payload: bytes, *, crc: int | None = None, magic: bool = True, broker: bytes | None = None
) -> bytes:
    covered = u32(len(meta)) + meta + payload
    stored = crc32c.crc32c(covered) if crc is None else crc
    before = b"" if broker is None else b"\x0e\x02" + u32(len(broker)) + broker
    return before + (b"\x0e\x01" + u32(stored) if magic else b"") + covered


def carrying(type_: int, fields: Sequence[Field], entry: bytes) -> bytes:
    command = base(type_, fields)
    return u32(len(command) + 4 + len(entry)) + u32(len(command)) + command + entry


def send(sequence: int, entry: bytes, *more: Field, producer: int = 1) -> bytes:
    return carrying(SEND, [(1, producer), (2, sequence), *more], entry)


def receipt(sequence: int, ledger: int = 7, entry: int = 0, *, producer: int = 1) -> bytes:
    return simple(SEND_RECEIPT, (1, producer), (2, sequence), (3, [(1, ledger), (2, entry)]))


def refusal(sequence: int, error: int = CHECKSUM_ERROR, *, producer: int = 1) -> bytes:
    return simple(SEND_ERROR, (1, producer), (2, sequence), (3, error), (4, "no"))


def delivery(entry: bytes, ledger: int = 7, number: int = 0, *more: Field, consumer: int = 1) -> bytes:
    return carrying(MESSAGE, [(1, consumer), (2, [(1, ledger), (2, number)]), *more], entry)


def connect(*more: Field) -> bytes:
    return simple(CONNECT, (1, "Pulsar-Test-v1.2.3"), (4, 21), *more)


def connected(*more: Field) -> bytes:
    return simple(CONNECTED, (1, "Pulsar Server4.5.6"), (2, 21), *more)


def producer(request: int = 1, topic: str = "persistent://a/b/orders", *, id_: int = 1, name: str = "p-1") -> bytes:
    return simple(PRODUCER, (1, topic), (2, id_), (3, request), (4, name))


def producing(request: int = 1, name: str = "p-1", *more: Field) -> bytes:
    return simple(PRODUCER_SUCCESS, (1, request), (2, name), *more)


def subscribe(request: int = 2, topic: str = "persistent://a/b/orders", *more: Field, id_: int = 1) -> bytes:
    return simple(SUBSCRIBE, (1, topic), (2, "sub"), (3, 1), (4, id_), (5, request), (6, "c-1"), *more)


def success(request: int) -> bytes:
    return simple(SUCCESS, (1, request))


def error(request: int, code: int = 11, text: str = "not there") -> bytes:
    return simple(ERROR, (1, request), (2, code), (3, text))


def flow(permits: int, consumer: int = 1) -> bytes:
    return simple(FLOW, (1, consumer), (2, permits))


def single(payload: bytes, *more: Field) -> bytes:
    """One message of a batch."""
    meta = message([*more, (3, len(payload))])
    return u32(len(meta)) + meta + payload
