"""Which receipt answers a SEND of a replicator, which copies a topic from one cluster to another.

Since Pulsar 4.1 the receipt names the message by its position in the source cluster, and not by its sequence id, of
which the messages of several producers have the same:

    SEND          message metadata: property __MSG_PROP_REPL_SOURCE_POSITION, "ledger:entry"
    SEND_RECEIPT  sequence_id: the ledger; highest_sequence_id: the entry

Markers of replicated subscriptions are named by their sequence id:

    SEND          message metadata: marker_type
    SEND_RECEIPT  sequence_id; highest_sequence_id: -2^63

Both peers say in CONNECT and CONNECTED that they understand this: supports_repl_dedup_by_lid_and_eid. A SEND_ERROR
carries the sequence id in any case.

Source: GeoReplicationProducerImpl and MessageDeduplication of Apache Pulsar 4.2.
"""

from __future__ import annotations

import re
from typing import Any

from dissectors.pulsar import api
from dissectors.pulsar.decode import PulsarCommand
from dissectors.pulsar.fields import (
    META_MARKER_TYPE,
    META_PROPERTIES,
    PAIR_KEY,
    PAIR_VALUE,
    SEND_RECEIPT_HIGHEST_SEQUENCE_ID,
    SEND_RECEIPT_PRODUCER_ID,
    SEND_RECEIPT_SEQUENCE_ID,
)
from dissectors.pulsar.pending import PulsarRequest
from dissectors.wire.protobuf import MessageFields
from dissectors.wire.reader import WireReader

SOURCE_POSITION = b"__MSG_PROP_REPL_SOURCE_POSITION"
_POSITION = re.compile(rb"(\d{1,19}):(\d{1,19})")
_MARKER = -(1 << 63)  # SEND_RECEIPT.highest_sequence_id
_SOURCE_SPACE, _MARKER_SPACE = "source", "marker"  # what keys of pending requests begin with
_PAIR = api.shape("KeyValue")


def receipt_key(meta: MessageFields, request: PulsarRequest) -> tuple[Any, ...] | None:
    """The key of the receipt to a SEND with this message metadata; None where the sequence id is the key.

    request: the SEND, with `endpoint_id` and `correlation_id`.
    """
    if meta.has(META_MARKER_TYPE):
        return _MARKER_SPACE, request.endpoint_id, request.correlation_id
    for start, end in meta.each(META_PROPERTIES):
        position = position_in(meta.data, start, end)
        if position is not None:
            return _SOURCE_SPACE, request.endpoint_id, *position
    return None


def named_by(receipt: PulsarCommand) -> tuple[Any, ...]:
    """The key that a SEND_RECEIPT names, if it answers a replicator. Fields that were not captured are ABSENT."""
    producer, sequence = receipt.number(SEND_RECEIPT_PRODUCER_ID), receipt.number(SEND_RECEIPT_SEQUENCE_ID)
    highest = receipt.number(SEND_RECEIPT_HIGHEST_SEQUENCE_ID)
    return (_MARKER_SPACE, producer, sequence) if highest == _MARKER else (_SOURCE_SPACE, producer, sequence, highest)


def position_in(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Ledger and entry in a property that names a source position. The property is a KeyValue in data[start:end]."""
    if SOURCE_POSITION not in data[start:end]:
        return None
    pair = MessageFields(WireReader())
    if not pair.read(_PAIR, data, start, end) or pair.octets(PAIR_KEY) != SOURCE_POSITION:
        return None
    found = _POSITION.fullmatch(pair.octets(PAIR_VALUE) or b"")
    return None if found is None else (int(found[1]), int(found[2]))
