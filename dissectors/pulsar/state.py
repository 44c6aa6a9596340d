"""What one connection has told about itself, and which topic a command is about.

Small plain values only: versions, the frame limit, and what producer and consumer ids stand for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dissectors.pulsar.api import text
from dissectors.pulsar.commands import Command
from dissectors.pulsar.match import Asked
from dissectors.pulsar.names import Names, Party, Topic, short, topic

_TOPICS = 1000  # listed of one command
_SOFTWARE = re.compile(r"^(.*?)[-_ ]*v?(\d+\.\d[\w.+-]*)$")


class State:
    """Told by CONNECT, CONNECTED, PRODUCER, PRODUCER_SUCCESS and SUBSCRIBE."""

    def __init__(self, limit: int) -> None:
        self.names = Names(limit)
        self.dialect: str | None = None
        self.client_software: str | None = None
        self.client_version: str | None = None
        self.server_version: str | None = None
        self.max_message_size: int | None = None
        self.connected = False  # the login was accepted

    def learn(self, name: str, body: Any, asked: Asked) -> None:
        """Take what a command tells. `asked`: the request that it is, or answers."""
        lesson = _LESSONS.get(name)
        if lesson is not None:
            lesson(self, body, asked)

    def subject(self, asked: Asked, command: Command, body: Any) -> None:
        """Note on `asked` which topics, producer or consumer a command is about."""
        find = _SUBJECTS.get(command.about)
        if find is not None and body is not None:
            find(self, asked, body)

    # --- lessons ---

    def _connect(self, body: Any, asked: Asked) -> None:
        if body.HasField("client_version"):
            told = short(text(body.client_version))
            match = _SOFTWARE.match(told)
            self.client_software = match[1] if match else told
            self.client_version = match[2] if match else None

    def _connected(self, body: Any, asked: Asked) -> None:
        self.connected = True
        if body.HasField("server_version"):
            told = short(text(body.server_version))
            match = _SOFTWARE.match(told)
            self.server_version = match[2] if match else told
        if body.HasField("protocol_version"):
            self.dialect = f"pulsar-v{body.protocol_version}"
        if body.max_message_size > 0:
            self.max_message_size = body.max_message_size

    def _producer(self, body: Any, asked: Asked) -> None:
        if asked.topic is not None and body.HasField("producer_id"):
            name = short(text(body.producer_name)) if body.HasField("producer_name") else None
            asked.party = Party(asked.topic, name)
            asked.id = body.producer_id
            self.names.produce(body.producer_id, asked.party)

    def _producer_success(self, body: Any, asked: Asked) -> None:
        if asked.id is not None and body.HasField("producer_name"):
            epoch = body.topic_epoch if body.HasField("topic_epoch") and body.producer_ready else None
            self.names.accepted(asked.id, short(text(body.producer_name)), epoch)

    def _partitions(self, body: Any, asked: Asked) -> None:
        if body.HasField("partitions"):
            asked.partitions = body.partitions

    def _subscribe(self, body: Any, asked: Asked) -> None:
        if asked.topic is not None and body.HasField("consumer_id"):
            name = short(text(body.consumer_name)) if body.HasField("consumer_name") else None
            subscription = short(text(body.subscription)) if body.HasField("subscription") else None
            asked.party = Party(asked.topic, name, subscription, body.read_compacted)
            asked.id = body.consumer_id
            self.names.consume(body.consumer_id, asked.party)

    def _subscribe_scalable(self, body: Any, asked: Asked) -> None:
        if asked.topic is not None and body.HasField("consumer_id"):
            asked.party = Party(asked.topic, short(text(body.consumer_name)), short(text(body.subscription)))
            self.names.follow(body.consumer_id, asked.party)

    # --- subjects ---

    def _about_topic(self, asked: Asked, body: Any) -> None:
        if body.HasField("topic"):
            self._about(asked, topic(text(body.topic)))

    def _about_producer(self, asked: Asked, body: Any) -> None:
        asked.id = body.producer_id
        self._about_party(asked, self.names.producers.get(body.producer_id))

    def _about_consumer(self, asked: Asked, body: Any) -> None:
        asked.id = body.consumer_id
        self._about_party(asked, self.names.consumers.get(body.consumer_id))

    def _about_scalable(self, asked: Asked, body: Any) -> None:
        self._about_party(asked, self.names.scalable.get(body.consumer_id))

    def _about_resource(self, asked: Asked, body: Any) -> None:
        parties = self.names.consumers if body.resource_type else self.names.producers
        self._about_party(asked, parties.get(body.resource_id))

    def _about_partitions(self, asked: Asked, body: Any) -> None:
        self._about_several(asked, [topic(text(name)) for name in body.partitions[:_TOPICS]])

    def _about_subscription(self, asked: Asked, body: Any) -> None:
        if body.subscription.topic:
            self._about(asked, topic(text(body.subscription.topic)))

    def _about_subscriptions(self, asked: Asked, body: Any) -> None:
        self._about_several(asked, [topic(text(one.topic)) for one in body.subscription[:_TOPICS] if one.topic])

    def _about_party(self, asked: Asked, party: Party | None) -> None:
        if party is not None:
            asked.party = party
            self._about(asked, party.topic)

    def _about(self, asked: Asked, named: Topic) -> None:
        asked.topic = named
        asked.topics = (named.name,)
        asked.partitions = None if named.partition is None else 1

    def _about_several(self, asked: Asked, named: list[Topic]) -> None:
        if len(named) == 1:
            self._about(asked, named[0])
        elif named:
            asked.topics = tuple(dict.fromkeys(one.name for one in named))
            asked.partitions = len({one for one in named if one.partition is not None}) or None


_LESSONS: dict[str, Callable[[State, Any, Asked], None]] = {
    "CONNECT": State._connect,
    "CONNECTED": State._connected,
    "PRODUCER": State._producer,
    "PRODUCER_SUCCESS": State._producer_success,
    "PARTITIONED_METADATA_RESPONSE": State._partitions,
    "SUBSCRIBE": State._subscribe,
    "SCALABLE_TOPIC_SUBSCRIBE": State._subscribe_scalable,
}
_SUBJECTS: dict[str, Callable[[State, Asked, Any], None]] = {
    "topic": State._about_topic,
    "producer": State._about_producer,
    "consumer": State._about_consumer,
    "scalable": State._about_scalable,
    "resource": State._about_resource,
    "partitions": State._about_partitions,
    "subscription": State._about_subscription,
    "subscriptions": State._about_subscriptions,
}
