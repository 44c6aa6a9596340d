"""Records that Kafka writes for itself.

__consumer_offsets, __transaction_state, __share_group_state
                    key: int16 type, then the key's message; value: int16 version, then the value's message
__cluster_metadata  value: frame version 1 | type | version, as varints, then the record's message (KIP-631)
control records     key: int16 version, int16 type; value: a message that begins with its version
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from dissectors.kafka import schema
from dissectors.kafka.full import full, versioned
from dissectors.kafka.messages import KafkaRecord
from dissectors.kafka.secrets import CLUSTER_METADATA

OFFSETS, TRANSACTIONS, SHARE_STATE = "__consumer_offsets", "__transaction_state", "__share_group_state"
TOPICS = frozenset({OFFSETS, TRANSACTIONS, SHARE_STATE, CLUSTER_METADATA})

_HOMES = {"TransactionLogKey": TRANSACTIONS, "ShareSnapshotKey": SHARE_STATE, "ShareUpdateKey": SHARE_STATE}
_TIERED = ("RemoteLog", "RemotePartition")  # these records live in __remote_log_metadata and have types of their own
_TOPIC_RECORD = bytes([1, 2, 0])  # version of the frame, type, version: there is no other
_CONTROL = {
    0: ("abort", "EndTxnMarker"),
    1: ("commit", "EndTxnMarker"),
    2: ("leaderChange", "LeaderChangeMessage"),
    3: ("snapshotHeader", "SnapshotHeaderRecord"),
    4: ("snapshotFooter", "SnapshotFooterRecord"),
    5: ("kraftVersion", "KRaftVersionRecord"),
    6: ("voters", "VotersRecord"),
}


def decoded(topic: str | None, control: bool, entries: Iterable[KafkaRecord]) -> list[dict[str, Any]]:
    """The records of a batch, as far as they are Kafka's own."""
    if control:
        return [_control(entry) for entry in entries]
    if topic == CLUSTER_METADATA:
        return [_metadata(entry.value) for entry in entries]
    return [_coordinator(topic or "", entry) for entry in entries]


def topic_names(entries: Iterable[KafkaRecord]) -> list[tuple[bytes, str]]:
    """(id, name) of the topics that records of the metadata log create."""
    names = []
    for entry in entries:
        value = entry.value
        if value and value.startswith(_TOPIC_RECORD):
            name = full("TopicRecord", 0, value, 3, len(value)).body.get("name")
            at = 3 + 1 + len((name or "").encode())
            if name and len(value) >= at + 16:
                names.append((value[at : at + 16], name))
    return names


def holders(body: Any) -> Iterator[dict[str, Any]]:
    """What stands for the record sets that are not empty in a decoded body, in wire order."""
    if isinstance(body, list):
        for item in body:
            yield from holders(item)
    elif isinstance(body, dict):
        for name, value in body.items():
            if name in ("records", "unalignedRecords"):
                if value and value["sizeInBytes"] > 0:
                    yield value
            elif isinstance(value, (dict, list)):
                yield from holders(value)


@cache
def _keys(topic: str) -> dict[int, str]:
    """Type of a key -> the name of its messages, without `Key`."""
    found = {}
    for name in schema.messages():
        if name.endswith("Key"):
            message = schema.message(name)
            if message.kind == "coordinator-key" and _HOMES.get(name, OFFSETS) == topic and message.key is not None:
                found[message.key] = name.removesuffix("Key")
    return found


@cache
def _records() -> dict[int, str]:
    """Type of a record in the metadata log -> its message."""
    messages = (schema.message(name) for name in schema.messages() if not name.startswith(_TIERED))
    return {message.key: message.name for message in messages if message.kind == "metadata" and message.key is not None}


def _coordinator(topic: str, entry: KafkaRecord) -> dict[str, Any]:
    key = entry.key
    if key is None or len(key) < 2:
        return {}
    type_ = int.from_bytes(key[:2], "big", signed=True)
    name = _keys(topic).get(type_)
    if name is None:
        return {"type": type_}
    known = schema.message(f"{name}Key").versions
    found = full(f"{name}Key", type_ if type_ in known else known.first, key, 2, len(key))
    value = None if entry.value is None else versioned(f"{name}Value", entry.value)
    return {"type": name, "key": found.body, "value": value}


def _metadata(value: bytes | None) -> dict[str, Any]:
    if value is None or len(value) < 3 or value[0] != 1 or value[1] > 127 or value[2] > 127:
        return {}  # types and versions are small: one byte each
    name = _records().get(value[1])
    if name is None or value[2] not in schema.message(name).versions:
        return {"type": value[1], "version": value[2]}
    return {"type": name, "version": value[2]} | full(name, value[2], value, 3, len(value)).body


def _control(entry: KafkaRecord) -> dict[str, Any]:
    key, value = entry.key or b"", entry.value or b""
    if len(key) < 4:
        return {}
    type_ = int.from_bytes(key[2:4], "big", signed=True)
    name, message = _CONTROL.get(type_, (str(type_), None))
    if message is None or len(value) < 2:
        return {"control": name}
    if message == "EndTxnMarker":
        return {"control": name, "value": versioned(message, value)}
    version = int.from_bytes(value[:2], "big", signed=True)  # the message's own first field
    if version not in schema.message(message).versions:
        return {"control": name}
    return {"control": name, "value": full(message, version, value, 0, len(value)).body}
