"""What one connection knows: versions, the frame limit, what producer and consumer ids stand for.

Small plain values only. CONNECT, CONNECTED, PRODUCER, PRODUCER_SUCCESS and SUBSCRIBE change them; any command may need
them to say which topic it is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.pulsar.api import shape
from dissectors.pulsar.commands import (
    CONNECT,
    CONNECTED,
    PARTITIONED_METADATA_RESPONSE,
    PRODUCER,
    PRODUCER_SUCCESS,
    SCALABLE_TOPIC_SUBSCRIBE,
    SUBSCRIBE,
)
from dissectors.pulsar.decode import CommandLayout
from dissectors.pulsar.fields import (
    ADD_PARTITION_TO_TXN_PARTITIONS,
    ADD_SUBSCRIPTION_TO_TXN_SUBSCRIPTION,
    CONNECT_CLIENT_VERSION,
    CONNECT_FEATURE_FLAGS,
    CONNECT_PROTOCOL_VERSION,
    CONNECTED_FEATURE_FLAGS,
    CONNECTED_MAX_MESSAGE_SIZE,
    CONNECTED_PROTOCOL_VERSION,
    CONNECTED_SERVER_VERSION,
    END_TXN_ON_SUBSCRIPTION_SUBSCRIPTION,
    FEATURE_SUPPORTS_REPL_DEDUP_BY_LID_AND_EID,
    PARTITIONED_TOPIC_METADATA_RESPONSE_PARTITIONS,
    PRODUCER_PRODUCER_ID,
    PRODUCER_PRODUCER_NAME,
    PRODUCER_SUCCESS_PRODUCER_NAME,
    PRODUCER_SUCCESS_PRODUCER_READY,
    PRODUCER_SUCCESS_TOPIC_EPOCH,
    SCALABLE_TOPIC_ASSIGNMENT_UPDATE_CONSUMER_ID,
    SCALABLE_TOPIC_SUBSCRIBE_CONSUMER_ID,
    SCALABLE_TOPIC_SUBSCRIBE_CONSUMER_NAME,
    SCALABLE_TOPIC_SUBSCRIBE_SUBSCRIPTION,
    SUBSCRIBE_CONSUMER_ID,
    SUBSCRIBE_CONSUMER_NAME,
    SUBSCRIBE_READ_COMPACTED,
    SUBSCRIBE_SUBSCRIPTION,
    SUBSCRIPTION_TOPIC,
    TOPIC_MIGRATED_RESOURCE_ID,
    TOPIC_MIGRATED_RESOURCE_TYPE,
)
from dissectors.pulsar.names import Endpoint, PulsarNames, Topic, short, topic
from dissectors.pulsar.pending import PulsarRequest
from dissectors.rows.layout import ABSENT
from dissectors.wire.per_thread import PerThread
from dissectors.wire.protobuf import MessageFields
from dissectors.wire.reader import WireReader

NEWEST = 1 << 30  # above every version of the protocol

_TOPICS = 1000  # listed of one command
_SOFTWARE = re.compile(r"^(.*?)[-_ ]*v?(\d+\.\d[\w.+-]*)$")


@lru_cache(maxsize=256)
def _software(name: str) -> tuple[str, str | None]:
    """What a client or broker calls itself: its name, and its version if it says one."""
    match = _SOFTWARE.match(name)
    return (match[1], match[2]) if match else (name, None)


@final
@carried
@compiled
class PulsarState:
    """The state of one connection: names, versions and limits that its commands told."""

    names: PulsarNames
    dialect: str | None = None
    client_software: str | None = None
    client_version: str | None = None
    server_version: str | None = None
    max_message_size: int | None = None
    connected: cython.bint = False  # the login was accepted
    source_receipts: cython.bint  # receipts name replicated messages by their source, unless a peer cannot
    version: cython.longlong  # that both peers speak; NEWEST while it is not known
    _client_version: cython.longlong
    _client_sources: cython.bint

    def __init__(self, limit: int) -> None:
        self.names = PulsarNames(limit)
        self.source_receipts = True
        self.version = NEWEST
        self._client_version = NEWEST
        self._client_sources = True

    @compiled
    def update(self, code: cython.int, fields: MessageFields, request: PulsarRequest) -> None:
        """Take what a command of a type says. `request`: the request that it is, or answers."""
        update = UPDATES.get(code)
        if update is not None:
            update(self, fields, request)

    @compiled
    def set_subject(self, request: PulsarRequest, layout: CommandLayout, fields: MessageFields) -> None:
        """Note in `request` which topics, producer or consumer a command is about."""
        if layout.about == "producer":
            request.endpoint_id = fields.number(layout.subject, 0)
            self._about_endpoint(request, self.names.producers.get(request.endpoint_id))
        elif layout.about == "consumer":
            request.endpoint_id = fields.number(layout.subject, 0)
            self._about_endpoint(request, self.names.consumers.get(request.endpoint_id))
        elif layout.about == "topic":
            name = fields.text(layout.subject)
            if name is not None:
                request.is_about(topic(name))
        elif layout.about:
            SUBJECTS[layout.about](self, request, layout, fields)

    # --- updates ---

    def _connect(self, fields: MessageFields, request: PulsarRequest) -> None:
        software = fields.text(CONNECT_CLIENT_VERSION)
        if software is not None:
            self.client_software, self.client_version = _software(short(software))
        if fields.has(CONNECT_PROTOCOL_VERSION):
            self._client_version = fields.number(CONNECT_PROTOCOL_VERSION, 0)
        self._client_sources = _names_sources(fields, CONNECT_FEATURE_FLAGS)

    def _connected(self, fields: MessageFields, request: PulsarRequest) -> None:
        self.connected = True
        software = fields.text(CONNECTED_SERVER_VERSION)
        if software is not None:
            name, release = _software(short(software))
            self.server_version = release or name
        if fields.has(CONNECTED_PROTOCOL_VERSION):
            version: cython.longlong = fields.number(CONNECTED_PROTOCOL_VERSION, 0)
            self.dialect = f"pulsar-v{version}"
            self.version = min(version, self._client_version)
        self.source_receipts = self._client_sources and _names_sources(fields, CONNECTED_FEATURE_FLAGS)
        if fields.number(CONNECTED_MAX_MESSAGE_SIZE, 0) > 0:
            self.max_message_size = fields.number(CONNECTED_MAX_MESSAGE_SIZE, 0)

    def _producer(self, fields: MessageFields, request: PulsarRequest) -> None:
        if request.topic is not None and fields.has(PRODUCER_PRODUCER_ID):
            producer = Endpoint(request.topic, _name(fields, PRODUCER_PRODUCER_NAME))
            request.attach(producer)
            request.endpoint_id = fields.number(PRODUCER_PRODUCER_ID, 0)
            self.names.add_producer(request.endpoint_id, producer)

    def _producer_success(self, fields: MessageFields, request: PulsarRequest) -> None:
        name = _name(fields, PRODUCER_SUCCESS_PRODUCER_NAME)
        if request.endpoint_id != ABSENT and name is not None:
            ready = fields.has(PRODUCER_SUCCESS_TOPIC_EPOCH) and fields.number(PRODUCER_SUCCESS_PRODUCER_READY, 1)
            epoch = fields.number(PRODUCER_SUCCESS_TOPIC_EPOCH, 0) if ready else None
            self.names.accept(request.endpoint_id, name, epoch)

    def _partitions(self, fields: MessageFields, request: PulsarRequest) -> None:
        if fields.has(PARTITIONED_TOPIC_METADATA_RESPONSE_PARTITIONS):
            request.partitions = fields.number(PARTITIONED_TOPIC_METADATA_RESPONSE_PARTITIONS, 0)

    def _subscribe(self, fields: MessageFields, request: PulsarRequest) -> None:
        if request.topic is not None and fields.has(SUBSCRIBE_CONSUMER_ID):
            name, subscription = _name(fields, SUBSCRIBE_CONSUMER_NAME), _name(fields, SUBSCRIBE_SUBSCRIPTION)
            compacted = bool(fields.number(SUBSCRIBE_READ_COMPACTED, 0))
            consumer = Endpoint(request.topic, name, subscription, compacted)
            request.attach(consumer)
            request.endpoint_id = fields.number(SUBSCRIBE_CONSUMER_ID, 0)
            self.names.add_consumer(request.endpoint_id, consumer)

    def _subscribe_scalable(self, fields: MessageFields, request: PulsarRequest) -> None:
        if request.topic is not None and fields.has(SCALABLE_TOPIC_SUBSCRIBE_CONSUMER_ID):
            name = _name(fields, SCALABLE_TOPIC_SUBSCRIBE_CONSUMER_NAME) or ""
            subscription = _name(fields, SCALABLE_TOPIC_SUBSCRIBE_SUBSCRIPTION) or ""
            consumer = Endpoint(request.topic, name, subscription)
            request.attach(consumer)
            self.names.add_scalable_consumer(fields.number(SCALABLE_TOPIC_SUBSCRIBE_CONSUMER_ID, 0), consumer)

    # --- subjects ---

    def _about_scalable(self, request: PulsarRequest, layout: CommandLayout, fields: MessageFields) -> None:
        consumer_id = fields.number(SCALABLE_TOPIC_ASSIGNMENT_UPDATE_CONSUMER_ID, 0)
        self._about_endpoint(request, self.names.scalable.get(consumer_id))

    def _about_resource(self, request: PulsarRequest, layout: CommandLayout, fields: MessageFields) -> None:
        is_consumer = fields.number(TOPIC_MIGRATED_RESOURCE_TYPE, 0) == 1
        endpoints = self.names.consumers if is_consumer else self.names.producers
        self._about_endpoint(request, endpoints.get(fields.number(TOPIC_MIGRATED_RESOURCE_ID, 0)))

    def _about_partitions(self, request: PulsarRequest, layout: CommandLayout, fields: MessageFields) -> None:
        places = fields.each(ADD_PARTITION_TO_TXN_PARTITIONS)[:_TOPICS]
        names = [fields.data[start:end].decode("utf-8", "backslashreplace") for start, end in places]
        self._about_several(request, [topic(name) for name in names])

    def _about_subscription(self, request: PulsarRequest, layout: CommandLayout, fields: MessageFields) -> None:
        self._about_subscriptions_in(request, fields, END_TXN_ON_SUBSCRIPTION_SUBSCRIPTION)

    def _about_subscriptions(self, request: PulsarRequest, layout: CommandLayout, fields: MessageFields) -> None:
        self._about_subscriptions_in(request, fields, ADD_SUBSCRIPTION_TO_TXN_SUBSCRIPTION)

    def _about_subscriptions_in(self, request: PulsarRequest, fields: MessageFields, field: int) -> None:
        one = MessageFields(fields.reader)
        names = []
        for start, end in fields.each(field)[:_TOPICS]:
            one.read(_SUBSCRIPTION, fields.data, start, end)
            names.append(one.text(SUBSCRIPTION_TOPIC))
        self._about_several(request, [topic(name) for name in names if name])

    @compiled
    def _about_endpoint(self, request: PulsarRequest, endpoint: Endpoint | None) -> None:
        if endpoint is not None:
            request.attach(endpoint)
            request.is_about(endpoint.topic)

    def _about_several(self, request: PulsarRequest, topics: list[Topic]) -> None:
        if len(topics) == 1:
            request.is_about(topics[0])
        elif topics:
            request.topics = tuple(dict.fromkeys(one.name for one in topics))
            request.partitions = (
                len({(one.name, one.partition) for one in topics if one.partition is not None}) or ABSENT
            )


_SUBSCRIPTION = shape("Subscription")
_FEATURES = shape("FeatureFlags")
_flags: PerThread = PerThread(lambda: MessageFields(WireReader()))


def _names_sources(fields: MessageFields, field: int) -> bool:
    """Whether a peer understands receipts that name a replicated message by its source position."""
    flags = _flags.get()
    return bool(
        fields.has(field)
        and flags.read(_FEATURES, fields.data, fields.start(field), fields.stop(field))
        and flags.number(FEATURE_SUPPORTS_REPL_DEDUP_BY_LID_AND_EID, 0) != 0
    )


@compiled
def _name(fields: MessageFields, field: cython.Py_ssize_t) -> str | None:
    """A name as it is kept; None where there is none."""
    found = fields.text(field)
    return None if found is None else short(found)


UPDATES: dict[int, Callable[[PulsarState, MessageFields, PulsarRequest], None]] = {
    CONNECT: PulsarState._connect,
    CONNECTED: PulsarState._connected,
    PRODUCER: PulsarState._producer,
    PRODUCER_SUCCESS: PulsarState._producer_success,
    PARTITIONED_METADATA_RESPONSE: PulsarState._partitions,
    SUBSCRIBE: PulsarState._subscribe,
    SCALABLE_TOPIC_SUBSCRIBE: PulsarState._subscribe_scalable,
}
"""Types of commands that change what is known."""

SUBJECTS: dict[str, Callable[[PulsarState, PulsarRequest, CommandLayout, MessageFields], None]] = {
    "scalable": PulsarState._about_scalable,
    "resource": PulsarState._about_resource,
    "partitions": PulsarState._about_partitions,
    "subscription": PulsarState._about_subscription,
    "subscriptions": PulsarState._about_subscriptions,
}
