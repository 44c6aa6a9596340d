"""What ids stand for on one connection: producer_id and consumer_id -> topic, partition, names, subscription.

An id is known only from the PRODUCER or SUBSCRIBE that introduced it on the same connection. Where that was not
captured the id stays without a name: ids are counted per client and say nothing by themselves.
"""

from __future__ import annotations

import re
from functools import lru_cache
from sys import intern
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.rows.layout import ABSENT

NAME_LENGTH = 1024
"""Characters kept of a name. Brokers accept far fewer; what is longer is hostile, and names are kept."""

_PARTITION = re.compile(r"^(.*)-partition-(\d{1,9})$", re.DOTALL)


@final
@carried
@compiled
class Topic:
    """A topic as records show it: the full name without the partition's suffix; partition: None where it has none.

    names: its name, as a list of topics
    """

    name: str
    partition: int | None
    names: tuple[str]

    def __init__(self, name: str, partition: int | None) -> None:
        self.name = name
        self.partition = partition
        self.names = (name,)


def short(name: str) -> str:
    """A name as it is kept: the same object for equal ones, which rows know by its address."""
    return intern(name[:NAME_LENGTH])


def topic(name: str) -> Topic:
    """`orders`, `tenant/ns/orders` and `persistent://tenant/ns/orders-partition-3`, as brokers read them.

    A name without a domain is persistent; one without a namespace is in public/default (TopicName.get).
    """
    return _topic(name[:NAME_LENGTH])


@lru_cache(maxsize=4096)
def _topic(name: str) -> Topic:
    if "://" not in name:
        name = f"persistent://{name}" if "/" in name else f"persistent://public/default/{name}"
    match = _PARTITION.match(name)
    return Topic(match[1], int(match[2])) if match else Topic(name, None)


@final
@carried
@compiled
class Endpoint:
    """A producer or a consumer.

    name: of the producer or consumer; subscription: of a consumer
    compacted: a consumer that reads the compacted topic
    epoch: topic epoch of an exclusive producer
    fenced: another has taken the topic since: the broker refuses what this producer sends
    permits, permits_since: of a consumer, see permits.py
    """

    topic: Topic
    name: str | None
    subscription: str | None
    compacted: cython.bint
    epoch: int | None
    fenced: cython.bint
    permits: cython.longlong
    permits_since: cython.longlong = 0

    def __init__(
        self,
        topic: Topic,
        name: str | None = None,
        subscription: str | None = None,
        compacted: bool = False,
        epoch: int | None = None,
        fenced: bool = False,
    ) -> None:
        self.topic = topic
        self.name = name
        self.subscription = subscription
        self.compacted = compacted
        self.epoch = epoch
        self.fenced = fenced
        self.permits = ABSENT


@final
@carried
@compiled
class PulsarNames:
    """Producers and consumers of one connection, the newest `limit` of each."""

    producers: dict[int, Endpoint]
    consumers: dict[int, Endpoint]
    scalable: dict[int, Endpoint]  # consumers of whole scalable topics, which have ids of their own
    reads_compacted: cython.bint = False  # a consumer has read a compacted topic
    _exclusive: dict[tuple[str, int | None], int]  # the exclusive producer of a topic
    _limit: cython.Py_ssize_t

    def __init__(self, limit: int) -> None:
        self.producers = {}
        self.consumers = {}
        self.scalable = {}
        self._exclusive = {}
        self._limit = limit

    def add_producer(self, producer_id: int, producer: Endpoint) -> None:
        """A client introduces a producer."""
        self._put(self.producers, producer_id, producer)

    def add_consumer(self, consumer_id: int, consumer: Endpoint) -> None:
        """A client introduces a consumer."""
        self.reads_compacted |= consumer.compacted
        self._put(self.consumers, consumer_id, consumer)

    def add_scalable_consumer(self, consumer_id: int, consumer: Endpoint) -> None:
        """A client introduces a consumer of a scalable topic."""
        self._put(self.scalable, consumer_id, consumer)

    def accept(self, producer_id: int, name: str, epoch: int | None) -> None:
        """The broker has let a producer in, and has chosen or confirmed its name.

        One with a higher topic epoch fences the exclusive producer that was there before.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            return
        self.producers[producer_id] = Endpoint(producer.topic, name, epoch=epoch, fenced=producer.fenced)
        if epoch is None:
            return
        topic = (producer.topic.name, producer.topic.partition)
        before = self._exclusive.get(topic)
        other = None if before is None else self.producers.get(before)
        if before is not None and other is not None and other.epoch is not None and other.epoch < epoch:
            self.producers[before] = Endpoint(other.topic, other.name, epoch=other.epoch, fenced=True)
        self._exclusive[topic] = producer_id
        if len(self._exclusive) > self._limit:
            self._exclusive.pop(next(iter(self._exclusive)))

    def _put(self, endpoints: dict[int, Endpoint], id_: int, endpoint: Endpoint) -> None:
        endpoints.pop(id_, None)
        endpoints[id_] = endpoint
        if len(endpoints) > self._limit:
            endpoints.pop(next(iter(endpoints)))
