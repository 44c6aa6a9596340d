"""Which field, and which record, a byte of a unit falls into.

Tables give the fixed headers; what follows is walked message by message as far as it can be read. Everything here may
meet broken bytes, so a walk that leads nowhere ends quietly in the coarser name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from dissectors.kafka.messages import varint
from dissectors.sink import Suspect

Table = tuple[tuple[int, str], ...]  # (offset of the field, its name), ascending


class Part(NamedTuple):
    """A stretch of the unit and its name."""

    start: int
    end: int
    name: str


KAFKA_BATCH: Table = (
    (0, "base_offset"),
    (8, "length"),
    (12, "partition_leader_epoch"),
    (16, "magic"),
    (17, "crc"),
    (21, "attributes"),
    (23, "last_offset_delta"),
    (27, "base_timestamp"),
    (35, "max_timestamp"),
    (43, "producer_id"),
    (51, "producer_epoch"),
    (53, "base_sequence"),
    (57, "record count"),
    (61, "records"),
)
KAFKA_MESSAGE: dict[str, Table] = {
    "magic 0": ((0, "offset"), (8, "size"), (12, "crc"), (16, "magic"), (17, "attributes"), (18, "key")),
    "magic 1": (
        (0, "offset"),
        (8, "size"),
        (12, "crc"),
        (16, "magic"),
        (17, "attributes"),
        (18, "timestamp"),
        (26, "key"),
    ),
}
IGGY_MESSAGE: Table = (
    (0, "checksum"),
    (8, "id"),
    (24, "offset"),
    (32, "timestamp"),
    (40, "origin_timestamp"),
    (48, "user_headers_length"),
    (52, "payload_length"),
    (56, "payload"),
)
IGGY_FRAME: Table = (
    (0, "checksum"),
    (8, "id"),
    (24, "offset_delta"),
    (28, "timestamp_delta"),
    (32, "user_headers_length"),
    (36, "payload_length"),
    (40, "reserved"),
    (48, "payload"),
)
IGGY_BATCH: Table = (
    (0, "partition_id"),
    (8, "base_offset"),
    (16, "base_timestamp"),
    (24, "origin_timestamp"),
    (32, "batch_length"),
    (40, "batch_checksum"),
    (48, "message_count"),
    (52, "frames"),
)


def parts(suspect: Suspect, unit: bytes) -> list[Part]:
    """The named stretches of a unit, ascending; `unit` may be the corrected bytes."""
    walk = {"magic 2": _kafka_batch, "magic 0": _kafka_message, "magic 1": _kafka_message, "entry": _pulsar}.get(
        suspect.format, _iggy
    )
    out: list[Part] = []
    with contextlib.suppress(ValueError, IndexError):  # broken bytes lead nowhere; what was found before stays
        out.extend(walk(suspect, unit))
    return sorted(out, key=lambda part: (part.start, -part.end))


def name(parts_: list[Part], at: int) -> str | None:
    """The name of the innermost part that holds a byte."""
    inside = [part for part in parts_ if part.start <= at < part.end]
    return min(inside, key=lambda part: part.end - part.start).name if inside else None


def body(suspect: Suspect) -> int:
    """Where in the covered bytes the message data begin: headers before are full of zeros."""
    first = suspect.covered[0][0]
    if suspect.format == "magic 2":
        return 61 - first
    if suspect.format == "entry":
        size = 4 + int.from_bytes(suspect.unit[first : first + 4], "big")
        return size if size < len(suspect.unit) - first else 0
    if suspect.format.startswith("magic"):
        return 26 - first
    return {"header-56": 48, "header-64": 56, "vsr-batch": 40}.get(suspect.format, 0)


def _table(table: Table, start: int, end: int, prefix: str = "") -> Iterator[Part]:
    stops = [offset for offset, _ in table[1:]]
    for (offset, label), stop in zip(table, [*stops, end - start], strict=True):
        if start + offset < end:
            yield Part(start + offset, min(end, start + stop), prefix + label)


# --- Kafka -----------------------------------------------------------------------------------------------------------


def _kafka_batch(suspect: Suspect, unit: bytes) -> Iterator[Part]:
    yield from _table(KAFKA_BATCH, 0, len(unit))
    if unit[22] & 7:
        yield Part(61, len(unit), "records, compressed")
        return
    base = int.from_bytes(unit[:8], "big", signed=True)
    count = int.from_bytes(unit[57:61], "big", signed=True)
    at = 61
    for number in range(max(0, count)):
        length, begin = varint(unit, at)
        end = begin + length
        if length < 0 or end > len(unit):
            return
        yield Part(at, end, f"record {number}")
        _, cursor = varint(unit, begin + 1)
        delta, cursor = varint(unit, cursor)
        label = f"record {number} (offset {base + delta})"
        for what in ("key", "value"):
            size, cursor = varint(unit, cursor)
            if size > 0:
                yield Part(cursor, min(end, cursor + size), f"{label} {what}")
                cursor += size
        if cursor < end:
            yield Part(cursor, end, f"{label} headers")
        at = end


def _kafka_message(suspect: Suspect, unit: bytes) -> Iterator[Part]:
    table = KAFKA_MESSAGE[suspect.format]
    yield from _table(table, 0, len(unit))
    at = table[-1][0]
    for what in ("key", "value"):
        size = int.from_bytes(unit[at : at + 4], "big", signed=True)
        yield Part(at, min(len(unit), at + 4), f"{what} length")
        if size > 0:
            yield Part(at + 4, min(len(unit), at + 4 + size), what)
        at += 4 + max(0, size)


# --- Pulsar ----------------------------------------------------------------------------------------------------------


def _pulsar(suspect: Suspect, unit: bytes) -> Iterator[Part]:
    from google.protobuf.message import DecodeError

    from dissectors.pulsar import api, batches

    covered = suspect.covered[0][0]
    yield Part(covered - 4, covered, "checksum")
    yield Part(covered, covered + 4, "metadata size")
    payload = covered + 4 + int.from_bytes(unit[covered : covered + 4], "big")
    yield Part(covered + 4, min(payload, len(unit)), "message metadata")
    if payload >= len(unit):
        return
    try:
        meta = api.MessageMetadata.FromString(unit[covered + 4 : payload])
    except DecodeError:
        yield Part(payload, len(unit), "payload")
        return
    states = (("compressed", meta.compression), ("encrypted", meta.encryption_keys))
    sealed = [label for label, is_so in states if is_so]
    yield Part(payload, len(unit), ", ".join(["payload", *sealed]))
    if sealed or not meta.HasField("num_messages_in_batch"):
        return
    last = payload
    for single in batches.singles(meta, memoryview(unit)[payload:]):
        yield Part(last, payload + single.start, f"message {single.number} metadata")
        last = payload + single.end
        yield Part(payload + single.start, last, f"message {single.number} value")


# --- Iggy ------------------------------------------------------------------------------------------------------------


def _iggy(suspect: Suspect, unit: bytes) -> Iterator[Part]:
    start, end = suspect.covered[0]
    if len(suspect.covered) > 1:
        yield from _table(IGGY_BATCH, 0, len(unit))
        for number, (a, b) in enumerate(suspect.covered[2:]):
            yield Part(a, b, f"checksum of message {number}")
    elif suspect.format == "legacy":
        yield Part(start, end, "payload")
        yield Part(suspect.checksum_at, suspect.checksum_at + 4, "checksum")
    else:
        table, sizes, header = {
            "header-56": (IGGY_MESSAGE, (52, 48), 56),
            "header-64": ((*IGGY_MESSAGE[:-1], (56, "reserved"), (64, "payload")), (52, 48), 64),
            "vsr-batch": (IGGY_FRAME, (36, 32), 48),
        }[suspect.format]
        begin = start - 8
        yield from _table(table, begin, end)
        length = int.from_bytes(unit[begin + sizes[0] : begin + sizes[0] + 4], "little")
        headers = begin + header + length
        if headers < end:
            yield Part(headers, end, "user headers")


__all__ = ["Part", "body", "name", "parts"]
