"""What the frames of a connection mean together: how consumers keep up, and what a person should look at.

A broker sends a consumer no more messages than it has permits for; FLOW grants them, each message takes one. A consumer
whose permits run out makes the broker wait: it is slow. MESSAGE to ACK is the time that the application took. What was
delivered and never acknowledged will be delivered again, to this consumer or another.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from dissectors.conversation import Conversation, Frame
from dissectors.pulsar.api import text
from dissectors.pulsar.commands import Command
from dissectors.pulsar.emit import Emitter
from dissectors.pulsar.errors import VALIDATION, Fault, unknown_number
from dissectors.pulsar.match import Asked
from dissectors.pulsar.names import Party
from dissectors.tcp.chunk import CLIENT, SERVER

SLOW_NS = 1_000_000_000
"""A consumer that left the broker without permits for so long in all is worth a warning."""

_SAMPLES = 1000  # processing times kept for each consumer
_CONSUMERS = 10_000  # of one connection
_CUMULATIVE = 1
_REDIRECT = 0

Position = tuple[int, int]  # ledger, entry


class Consumer:
    """Deliveries to one consumer."""

    __slots__ = (
        "acknowledged",
        "delivered",
        "dry_ns",
        "dry_since",
        "offset",
        "open",
        "party",
        "permits",
        "place",
        "redelivered",
        "time",
        "times",
    )

    def __init__(self, party: Party | None, frame: Frame) -> None:
        self.party = party
        self.time = frame.first_ns
        self.place = frame.place
        self.offset = frame.offset
        self.delivered = 0  # messages
        self.redelivered = 0
        self.acknowledged = 0
        self.open: dict[Position, tuple[int, int]] = {}  # entries not acknowledged: time, messages
        self.times: list[int] = []  # ns from MESSAGE to ACK
        self.permits: int | None = None  # None before the first FLOW
        self.dry_since: int | None = None
        self.dry_ns = 0


class Meaning:
    """Gathers over one connection; tells at its end, and at once what cannot wait."""

    def __init__(self, talk: Conversation, emit: Emitter) -> None:
        self._talk = talk
        self._emit = emit
        self._limit = talk.options.limits.pending
        self._consumers: dict[int, Consumer] = {}
        self._open = 0  # entries that were not acknowledged, of all consumers
        self._samples = 0
        self._redirects = 0
        self._duplicates = 0

    def see(self, frame: Frame, command: Command, body: Any, noted: Asked) -> None:
        """Take a command that was told or asked."""
        look = _LOOKS.get(command.name)
        if look is not None:
            look(self, frame, body, noted)

    def close(self) -> None:
        """Tell what the connection amounted to."""
        for consumer_id, consumer in self._consumers.items():
            if consumer.delivered:
                self._sum_up(consumer_id, consumer)
        talk = self._talk
        if self._redirects:
            talk.finding("lookup_redirect", "info", f"{self._redirects} lookups were sent on to another broker")
        if self._duplicates:
            talk.finding("deduplicated", "info", f"The broker dropped {self._duplicates} entries that it already had")

    def _sum_up(self, consumer_id: int, consumer: Consumer) -> None:
        times = sorted(consumer.times)
        unacked = sum(count for _, count in consumer.open.values())
        slow = consumer.dry_ns >= SLOW_NS
        remarks = [f"{consumer.delivered} messages delivered"]
        if consumer.redelivered:
            remarks.append(f"{consumer.redelivered} of them again")
        if unacked:
            remarks.append(f"{unacked} not acknowledged")
        if slow:
            remarks.append(f"the broker had to wait for permits {consumer.dry_ns // 1_000_000} ms")
        party = consumer.party
        self._talk.finding(
            "consumption",
            "warning" if slow else "info",
            ", ".join(remarks),
            direction=CLIENT,
            time=consumer.time,
            place=consumer.place,
            offset=consumer.offset,
            topic=None if party is None else party.topic.name,
            partition=None if party is None else party.topic.partition,
            subscription=None if party is None else party.subscription,
            consumer=None if party is None else party.name,
            consumer_id=consumer_id,
            delivered=consumer.delivered,
            redelivered=consumer.redelivered,
            acknowledged=consumer.acknowledged,
            unacknowledged=unacked,
            without_permits_ns=consumer.dry_ns,
            processing_ns={
                "count": len(times),
                "p50": _at(times, 0.5),
                "p99": _at(times, 0.99),
                "max": _at(times, 1.0),
            },
        )

    # --- consumers ---

    def _consumer(self, frame: Frame, noted: Asked) -> Consumer | None:
        if noted.id is None:
            return None
        consumer = self._consumers.get(noted.id)
        if consumer is None and len(self._consumers) < _CONSUMERS:
            consumer = self._consumers[noted.id] = Consumer(noted.party, frame)
        return consumer

    def _subscribe(self, frame: Frame, body: Any, noted: Asked) -> None:
        consumer = self._consumer(frame, noted)
        if consumer is not None:
            consumer.party = noted.party
            self._forget(consumer, list(consumer.open))  # of an earlier life of this id: delivered anew
            consumer.permits = 0
            consumer.dry_since = None

    def _flow(self, frame: Frame, body: Any, noted: Asked) -> None:
        consumer = self._consumer(frame, noted)
        if consumer is None or consumer.permits is None:
            return  # how many it had before the capture began is not known
        consumer.permits += body.messagePermits
        if consumer.permits > 0 and consumer.dry_since is not None:
            consumer.dry_ns += max(0, frame.last_ns - consumer.dry_since)
            consumer.dry_since = None

    def _message(self, frame: Frame, body: Any, noted: Asked) -> None:
        consumer = self._consumer(frame, noted)
        if consumer is None:
            return
        count = noted.records or 0
        consumer.delivered += count
        if body.redelivery_count:
            consumer.redelivered += count
        position = (body.message_id.ledgerId, body.message_id.entryId)
        if position not in consumer.open and self._open < self._limit:
            self._open += 1
            consumer.open[position] = (frame.last_ns, count)
        if consumer.permits is not None:
            consumer.permits -= max(1, count)
            if consumer.permits <= 0 and consumer.dry_since is None:
                consumer.dry_since = frame.last_ns

    def _ack(self, frame: Frame, body: Any, noted: Asked) -> None:
        number = body.validation_error if body.HasField("validation_error") else unknown_number(body, 4)
        if number is not None:
            self._discarded(frame, body, noted, number)
        consumer = self._consumer(frame, noted)
        if consumer is None:
            return
        for at in body.message_id:
            position = (at.ledgerId, at.entryId)
            if body.ack_type == _CUMULATIVE:
                last = (at.ledgerId, at.entryId - 1) if at.ack_set else position
                self._done(consumer, list(takewhile(last.__ge__, consumer.open)), frame.first_ns)
            elif not at.ack_set:  # with one, the batch is not done yet
                self._done(consumer, [position], frame.first_ns)

    def _redeliver(self, frame: Frame, body: Any, noted: Asked) -> None:
        consumer = self._consumer(frame, noted)
        if consumer is None:
            return
        ids = [(at.ledgerId, at.entryId) for at in body.message_ids]
        self._forget(consumer, ids or list(consumer.open))

    def _done(self, consumer: Consumer, positions: list[Position], time: int) -> None:
        """Entries were acknowledged whole."""
        for position in positions:
            entry = consumer.open.pop(position, None)
            if entry is None:
                continue
            self._open -= 1
            consumer.acknowledged += entry[1]
            if len(consumer.times) < _SAMPLES and self._samples < self._limit:
                self._samples += 1
                consumer.times.append(time - entry[0])

    def _forget(self, consumer: Consumer, positions: list[Position]) -> None:
        """Entries will be delivered again."""
        for position in positions:
            if consumer.open.pop(position, None) is not None:
                self._open -= 1

    def _discarded(self, frame: Frame, body: Any, noted: Asked, number: int) -> None:
        """A client found a message damaged and threw it away: its own verdict."""
        name = VALIDATION.get(number)
        topic = noted.topic
        self._talk.finding_at(
            frame,
            "discarded",
            "error",
            f"The consumer threw a message away: {name or number}",
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            positions=[f"{at.ledgerId}:{at.entryId}" for at in body.message_id[:100]],
            error=name or number,
        )
        self._emit.error(noted, frame.first_ns, frame.place, Fault(number, name, None), "message")

    # --- connections ---

    def _connect(self, frame: Frame, body: Any, noted: Asked) -> None:
        if body.proxy_to_broker_url:
            self._talk.finding_at(
                frame,
                "proxy",
                "info",
                "A client speaks to a broker through a proxy",
                broker=text(body.proxy_to_broker_url),
            )
        elif body.HasField("proxy_version") or body.HasField("original_principal"):
            self._talk.finding_at(
                frame, "proxy", "info", "A proxy speaks for a client", proxy_version=text(body.proxy_version) or None
            )

    def _lookup(self, frame: Frame, body: Any, noted: Asked) -> None:
        if body.HasField("response") and body.response == _REDIRECT:
            self._redirects += 1

    def _receipt(self, frame: Frame, body: Any, noted: Asked) -> None:
        if body.HasField("message_id") and noted.position is None:
            self._duplicates += 1

    def _closed(self, frame: Frame, body: Any, noted: Asked) -> None:
        if frame.direction != SERVER:
            return
        topic = noted.topic
        self._talk.finding_at(
            frame,
            "closed_by_broker",
            "info",
            f"The broker closed a {'producer' if noted.api == 'CLOSE_PRODUCER' else 'consumer'}",
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            moved_to=text(body.assignedBrokerServiceUrl or body.assignedBrokerServiceUrlTls) or None,
        )


def _at(ordered: list[int], share: float) -> int | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


_LOOKS: dict[str, Callable[[Meaning, Frame, Any, Asked], None]] = {
    "CONNECT": Meaning._connect,
    "SUBSCRIBE": Meaning._subscribe,
    "FLOW": Meaning._flow,
    "MESSAGE": Meaning._message,
    "ACK": Meaning._ack,
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": Meaning._redeliver,
    "LOOKUP_RESPONSE": Meaning._lookup,
    "SEND_RECEIPT": Meaning._receipt,
    "CLOSE_PRODUCER": Meaning._closed,
    "CLOSE_CONSUMER": Meaning._closed,
}
