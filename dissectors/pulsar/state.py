"""What one connection knows: versions, the frame limit, what producer and consumer ids stand for.

Small plain values only. CONNECT, CONNECTED, PRODUCER, PRODUCER_SUCCESS and SUBSCRIBE change them; any command may need
them to say which topic it is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dissectors.pulsar.api import text
from dissectors.pulsar.commands import CommandType
from dissectors.pulsar.names import Endpoint, PulsarNames, Topic, short, topic
from dissectors.pulsar.pending import PulsarRequest
from dissectors.rows.layout import ABSENT

_TOPICS = 1000  # listed of one command
_SOFTWARE = re.compile(r"^(.*?)[-_ ]*v?(\d+\.\d[\w.+-]*)$")


@lru_cache(maxsize=256)
def _software(name: str) -> tuple[str, str | None]:
    """What a client or broker calls itself: its name, and its version if it says one."""
    match = _SOFTWARE.match(name)
    return (match[1], match[2]) if match else (name, None)


class PulsarState:
    """What is known of one connection."""

    def __init__(self, limit: int) -> None:
        self.names = PulsarNames(limit)
        self.dialect: str | None = None
        self.client_software: str | None = None
        self.client_version: str | None = None
        self.server_version: str | None = None
        self.max_message_size: int | None = None
        self.connected = False  # the login was accepted

    def update(self, command: str, body: Any, request: PulsarRequest) -> None:
        """Take what a command says. `request`: the request that it is, or answers."""
        update = UPDATES.get(command)
        if update is not None:
            update(self, body, request)

    def set_subject(self, request: PulsarRequest, command: CommandType, body: Any) -> None:
        """Note in `request` which topics, producer or consumer a command is about."""
        find = _SUBJECTS.get(command.about)
        if find is not None and body is not None:
            find(self, request, body)

    def client_is(self, software: str) -> None:
        """A client says what it is: `Pulsar-Java-v3.0.0`."""
        self.client_software, self.client_version = _software(short(software))

    def accept_login(self, software: str | None, protocol_version: int | None, max_message_size: int) -> None:
        """The broker lets a client in. max_message_size: bytes; 0 where it does not say."""
        self.connected = True
        if software is not None:
            name, version = _software(short(software))
            self.server_version = version or name
        if protocol_version is not None:
            self.dialect = f"pulsar-v{protocol_version}"
        if max_message_size > 0:
            self.max_message_size = max_message_size

    # --- updates ---

    def _connect(self, body: Any, request: PulsarRequest) -> None:
        if body.HasField("client_version"):
            self.client_is(text(body.client_version))

    def _connected(self, body: Any, request: PulsarRequest) -> None:
        self.accept_login(
            text(body.server_version) if body.HasField("server_version") else None,
            body.protocol_version if body.HasField("protocol_version") else None,
            body.max_message_size,
        )

    def _producer(self, body: Any, request: PulsarRequest) -> None:
        if request.topic is not None and body.HasField("producer_id"):
            name = short(text(body.producer_name)) if body.HasField("producer_name") else None
            producer = Endpoint(request.topic, name)
            request.attach(producer)
            request.endpoint_id = body.producer_id
            self.names.add_producer(body.producer_id, producer)

    def _producer_success(self, body: Any, request: PulsarRequest) -> None:
        if request.endpoint_id is not None and body.HasField("producer_name"):
            epoch = body.topic_epoch if body.HasField("topic_epoch") and body.producer_ready else None
            self.names.accept(request.endpoint_id, short(text(body.producer_name)), epoch)

    def _partitions(self, body: Any, request: PulsarRequest) -> None:
        if body.HasField("partitions"):
            request.partitions = body.partitions

    def _subscribe(self, body: Any, request: PulsarRequest) -> None:
        if request.topic is not None and body.HasField("consumer_id"):
            name = short(text(body.consumer_name)) if body.HasField("consumer_name") else None
            subscription = short(text(body.subscription)) if body.HasField("subscription") else None
            consumer = Endpoint(request.topic, name, subscription, body.read_compacted)
            request.attach(consumer)
            request.endpoint_id = body.consumer_id
            self.names.add_consumer(body.consumer_id, consumer)

    def _subscribe_scalable(self, body: Any, request: PulsarRequest) -> None:
        if request.topic is not None and body.HasField("consumer_id"):
            consumer = Endpoint(request.topic, short(text(body.consumer_name)), short(text(body.subscription)))
            request.attach(consumer)
            self.names.add_scalable_consumer(body.consumer_id, consumer)

    # --- subjects ---

    def _about_topic(self, request: PulsarRequest, body: Any) -> None:
        if body.HasField("topic"):
            request.is_about(topic(text(body.topic)))

    def _about_producer(self, request: PulsarRequest, body: Any) -> None:
        request.endpoint_id = body.producer_id
        self._about_endpoint(request, self.names.producers.get(body.producer_id))

    def _about_consumer(self, request: PulsarRequest, body: Any) -> None:
        request.endpoint_id = body.consumer_id
        self._about_endpoint(request, self.names.consumers.get(body.consumer_id))

    def _about_scalable(self, request: PulsarRequest, body: Any) -> None:
        self._about_endpoint(request, self.names.scalable.get(body.consumer_id))

    def _about_resource(self, request: PulsarRequest, body: Any) -> None:
        endpoints = self.names.consumers if body.resource_type else self.names.producers
        self._about_endpoint(request, endpoints.get(body.resource_id))

    def _about_partitions(self, request: PulsarRequest, body: Any) -> None:
        self._about_several(request, [topic(text(name)) for name in body.partitions[:_TOPICS]])

    def _about_subscription(self, request: PulsarRequest, body: Any) -> None:
        if body.subscription.topic:
            request.is_about(topic(text(body.subscription.topic)))

    def _about_subscriptions(self, request: PulsarRequest, body: Any) -> None:
        self._about_several(request, [topic(text(one.topic)) for one in body.subscription[:_TOPICS] if one.topic])

    def _about_endpoint(self, request: PulsarRequest, endpoint: Endpoint | None) -> None:
        if endpoint is not None:
            request.attach(endpoint)
            request.is_about(endpoint.topic)

    def _about_several(self, request: PulsarRequest, topics: list[Topic]) -> None:
        if len(topics) == 1:
            request.is_about(topics[0])
        elif topics:
            request.topics = tuple(dict.fromkeys(one.name for one in topics))
            request.partitions = len({one for one in topics if one.partition is not None}) or ABSENT


UPDATES: dict[str, Callable[[PulsarState, Any, PulsarRequest], None]] = {
    "CONNECT": PulsarState._connect,
    "CONNECTED": PulsarState._connected,
    "PRODUCER": PulsarState._producer,
    "PRODUCER_SUCCESS": PulsarState._producer_success,
    "PARTITIONED_METADATA_RESPONSE": PulsarState._partitions,
    "SUBSCRIBE": PulsarState._subscribe,
    "SCALABLE_TOPIC_SUBSCRIBE": PulsarState._subscribe_scalable,
}
"""Commands that change what is known."""

_SUBJECTS: dict[str, Callable[[PulsarState, PulsarRequest, Any], None]] = {
    "topic": PulsarState._about_topic,
    "producer": PulsarState._about_producer,
    "consumer": PulsarState._about_consumer,
    "scalable": PulsarState._about_scalable,
    "resource": PulsarState._about_resource,
    "partitions": PulsarState._about_partitions,
    "subscription": PulsarState._about_subscription,
    "subscriptions": PulsarState._about_subscriptions,
}
