"""What the frames of a connection mean together: how consumers keep up, and what a person should look at.

A broker sends a consumer no more messages than it has permits for; FLOW grants them, each message takes one. A consumer
whose permits run out makes the broker wait: it is slow. MESSAGE to ACK is the time that the application took. What was
delivered and never acknowledged will be delivered again, to this consumer or another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from dissectors.conversation import Conversation
from dissectors.frame import Frame
from dissectors.pulsar.api import text
from dissectors.pulsar.commands import CommandType
from dissectors.pulsar.emit import PulsarEmitter
from dissectors.pulsar.errors import REDIRECT, VALIDATION, error_code, unknown_number
from dissectors.pulsar.names import Endpoint
from dissectors.pulsar.pending import PulsarRequest
from dissectors.redaction import without_tokens
from dissectors.tcp.chunk import CLIENT, SERVER
from dissectors.wording import counted

SLOW_NS = 1_000_000_000
"""A consumer that left the broker without permits for so long in all is worth a warning."""

CUMULATIVE = 1
"""ACK.ack_type: all up to this message."""

_SAMPLES = 1000  # processing times kept for each consumer
_CONSUMERS = 10_000  # of one connection

Position = tuple[int, int]  # ledger, entry


class At(NamedTuple):
    """When a frame came, and where it is."""

    first_ns: int
    last_ns: int
    packet_ref: int
    offset: int


class Consumption:
    """What one consumer was delivered."""

    __slots__ = (
        "acknowledged",
        "at",
        "consumer",
        "delivered",
        "dry_ns",
        "dry_since",
        "permits",
        "redelivered",
        "times",
        "unacknowledged",
    )

    def __init__(self, consumer: Endpoint | None, at: At) -> None:
        self.consumer = consumer
        self.at = at  # its first frame
        self.delivered = 0  # messages
        self.redelivered = 0
        self.acknowledged = 0
        self.unacknowledged: dict[Position, tuple[int, int]] = {}  # entries: time, messages
        self.times: list[int] = []  # ns from MESSAGE to ACK
        self.permits: int | None = None  # None before the first FLOW
        self.dry_since: int | None = None
        self.dry_ns = 0

    def end_dry(self, ns: int | None) -> None:
        """The time without permits ends, if there is one."""
        if self.dry_since is not None and ns is not None:
            self.dry_ns += max(0, ns - self.dry_since)
        self.dry_since = None


class PulsarDiagnostics:
    """Gathers over one connection; reports at its end, and at once what cannot wait."""

    def __init__(self, conversation: Conversation, emit: PulsarEmitter) -> None:
        self._conversation = conversation
        self._emit = emit
        self._limit = conversation.options.limits.pending
        self._consumers: dict[int, Consumption] = {}
        self._unacknowledged = 0  # entries, of all consumers
        self._samples = 0
        self._duplicates = 0

    def inspect(self, frame: Frame, command: CommandType, body: Any, request: PulsarRequest) -> None:
        """Take a command of either side."""
        inspect = INSPECTIONS.get(command.name)
        if inspect is not None:
            inspect(self, frame, body, request)

    def close(self, last_ns: int | None) -> None:
        """Report what the connection amounted to. last_ns: until when it is known."""
        for consumer_id, consumption in self._consumers.items():
            consumption.end_dry(last_ns)
            if consumption.delivered:
                self._report_consumption(consumer_id, consumption)
        conversation = self._conversation
        if self._duplicates:
            dropped = counted(self._duplicates, "duplicate")
            conversation.finding("deduplicated", f"The broker dropped {dropped} of what it already had")

    def _report_consumption(self, consumer_id: int, consumption: Consumption) -> None:
        times = sorted(consumption.times)
        unacknowledged = sum(count for _, count in consumption.unacknowledged.values())
        slow = consumption.dry_ns >= SLOW_NS
        remarks = [f"{counted(consumption.delivered, 'message')} delivered"]
        if consumption.redelivered:
            remarks.append(f"{consumption.redelivered} of them again")
        if unacknowledged:
            remarks.append(f"{unacknowledged} not acknowledged")
        if slow:
            remarks.append(f"the broker had to wait for permits {consumption.dry_ns // 1_000_000} ms")
        consumer = consumption.consumer
        self._conversation.finding(
            "slow_consumer" if slow else "consumption",
            ", ".join(remarks),
            direction=CLIENT,
            time=consumption.at.first_ns,
            packet_ref=consumption.at.packet_ref,
            offset=consumption.at.offset,
            topic=None if consumer is None else consumer.topic.name,
            partition=None if consumer is None else consumer.topic.partition,
            subscription=None if consumer is None else consumer.subscription,
            consumer=None if consumer is None else consumer.name,
            consumer_id=consumer_id,
            delivered=consumption.delivered,
            redelivered=consumption.redelivered,
            acknowledged=consumption.acknowledged,
            unacknowledged=unacknowledged,
            without_permits_ns=consumption.dry_ns,
            processing_ns={
                "count": len(times),
                "p50": _quantile(times, 0.5),
                "p99": _quantile(times, 0.99),
                "max": _quantile(times, 1.0),
            },
        )

    # --- consumers, in plain values: frames come one by one or by column ---

    def consumption(self, consumer_id: int | None, consumer: Endpoint | None, at: At) -> Consumption | None:
        """What is kept of a consumer, of which a frame comes; None where it has no id, or where consumers are many."""
        if consumer_id is None:
            return None
        consumption = self._consumers.get(consumer_id)
        if consumption is None and len(self._consumers) < _CONSUMERS:
            consumption = self._consumers[consumer_id] = Consumption(consumer, at)
        return consumption

    def subscribe(self, consumer_id: int | None, consumer: Endpoint | None, at: At) -> None:
        """A consumer begins."""
        consumption = self.consumption(consumer_id, consumer, at)
        if consumption is not None:
            consumption.consumer = consumer
            self._forget(consumption, list(consumption.unacknowledged))  # of an earlier life of this id
            consumption.end_dry(at.last_ns)
            consumption.permits = 0

    def grant(self, consumption: Consumption, ns: int, permits: int) -> None:
        """A consumer lets the broker send so many messages more."""
        if consumption.permits is None:
            return  # how many it had before the capture began is not known
        consumption.permits += permits
        if consumption.permits > 0:
            consumption.end_dry(ns)

    def leave(self, consumption: Consumption, ns: int) -> None:
        """A consumer ends: nobody waits for its permits any more."""
        consumption.end_dry(ns)
        consumption.permits = None

    def deliver(self, consumption: Consumption, ns: int, position: Position, messages: int, again: bool) -> None:
        """The broker sends an entry of so many messages."""
        consumption.delivered += messages
        if again:
            consumption.redelivered += messages
        if position not in consumption.unacknowledged and self._unacknowledged < self._limit:
            self._unacknowledged += 1
            consumption.unacknowledged[position] = (ns, messages)
        if consumption.permits is not None:
            consumption.permits -= max(1, messages)
            if consumption.permits <= 0 and consumption.dry_since is None:
                consumption.dry_since = ns

    def acknowledge(self, consumption: Consumption, ns: int, positions: Sequence[Position], cumulative: bool) -> None:
        """A consumer acknowledges entries; with `cumulative`, all up to each of them."""
        if not cumulative:
            self._acknowledge(consumption, positions, ns)
            return
        for position in positions:
            before = list(takewhile(position.__ge__, consumption.unacknowledged))
            self._acknowledge(consumption, before, ns)

    def _acknowledge(self, consumption: Consumption, positions: Sequence[Position], time: int) -> None:
        for position in positions:
            entry = consumption.unacknowledged.pop(position, None)
            if entry is None:
                continue
            self._unacknowledged -= 1
            consumption.acknowledged += entry[1]
            if time >= entry[0] and len(consumption.times) < _SAMPLES and self._samples < self._limit:
                self._samples += 1
                consumption.times.append(time - entry[0])

    def _forget(self, consumption: Consumption, positions: Sequence[Position]) -> None:
        """Entries will be delivered again."""
        for position in positions:
            if consumption.unacknowledged.pop(position, None) is not None:
                self._unacknowledged -= 1

    # --- commands, one by one ---

    def _of(self, frame: Frame, request: PulsarRequest) -> Consumption | None:
        return self.consumption(request.endpoint_id, request.endpoint, _at(frame))

    def _subscribe(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        self.subscribe(request.endpoint_id, request.endpoint, _at(frame))

    def _flow(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        consumption = self._of(frame, request)
        if consumption is not None:
            self.grant(consumption, _at(frame).last_ns, body.messagePermits)

    def _leave(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        consumption = self._of(frame, request)
        if consumption is not None:
            self.leave(consumption, frame.first_ns)

    def _message(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        consumption = self._of(frame, request)
        if consumption is not None:
            position = (body.message_id.ledgerId, body.message_id.entryId)
            again = bool(body.redelivery_count)
            self.deliver(consumption, _at(frame).last_ns, position, max(request.records, 0), again)

    def _ack(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        number = body.validation_error if body.HasField("validation_error") else unknown_number(body, 4)
        if number is not None:
            self._report_discarded(frame, body, request, number)
        consumption = self._of(frame, request)
        if consumption is None:
            return
        cumulative = body.ack_type == CUMULATIVE
        positions = []
        for id_ in body.message_id:
            if not id_.ack_set:
                positions.append((id_.ledgerId, id_.entryId))
            elif cumulative:
                positions.append((id_.ledgerId, id_.entryId - 1))  # of its batch, messages are left
        self.acknowledge(consumption, frame.first_ns, positions, cumulative)

    def _redeliver(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        consumption = self._of(frame, request)
        if consumption is not None:
            positions = [(id_.ledgerId, id_.entryId) for id_ in body.message_ids]
            self._forget(consumption, positions or list(consumption.unacknowledged))

    def _report_discarded(self, frame: Frame, body: Any, request: PulsarRequest, number: int) -> None:
        """A client found a message damaged and threw it away: its own verdict."""
        name = VALIDATION.get(number)
        topic = request.topic
        self._conversation.finding_at(
            frame,
            "discarded",
            f"The consumer threw a message away: {name or number}",
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            positions=[f"{id_.ledgerId}:{id_.entryId}" for id_ in body.message_id[:100]],
            error=name or number,
        )
        self._emit.error(error_code(number, name, topic, scope="message"), request)

    # --- connections ---

    def _connect(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        if body.proxy_to_broker_url:
            broker = without_tokens(text(body.proxy_to_broker_url))
            self._conversation.finding_at(frame, "proxy", "A client speaks to a broker through a proxy", broker=broker)
        elif body.HasField("proxy_version") or body.HasField("original_principal"):
            self._conversation.finding_at(
                frame, "proxy", "A proxy speaks for a client", proxy_version=text(body.proxy_version) or None
            )

    def _lookup(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        if not body.HasField("response") or body.response != REDIRECT:
            return
        topic = request.topic
        to = without_tokens(text(body.brokerServiceUrl or body.brokerServiceUrlTls)) or None
        self._conversation.finding_at(
            frame,
            "lookup_redirect",
            f"A lookup was sent on to {to or 'another broker'}",
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            to=to,
        )

    def _receipt(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        if body.HasField("message_id") and request.position is None:
            self._duplicates += 1

    def _close(self, frame: Frame, body: Any, request: PulsarRequest) -> None:
        if request.api == "CLOSE_CONSUMER":
            self._leave(frame, body, request)
        if frame.direction != SERVER:
            return
        topic = request.topic
        moved_to = text(body.assignedBrokerServiceUrl or body.assignedBrokerServiceUrlTls)
        self._conversation.finding_at(
            frame,
            "closed_by_broker",
            f"The broker closed a {'producer' if request.api == 'CLOSE_PRODUCER' else 'consumer'}",
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            moved_to=without_tokens(moved_to) or None,
        )


def _at(frame: Frame) -> At:
    return At(frame.first_ns, frame.arrived_ns, frame.packet_ref, frame.offset)


def _quantile(ordered: list[int], share: float) -> int | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


INSPECTIONS: dict[str, Callable[[PulsarDiagnostics, Frame, Any, PulsarRequest], None]] = {
    "CONNECT": PulsarDiagnostics._connect,
    "SUBSCRIBE": PulsarDiagnostics._subscribe,
    "FLOW": PulsarDiagnostics._flow,
    "MESSAGE": PulsarDiagnostics._message,
    "ACK": PulsarDiagnostics._ack,
    "UNSUBSCRIBE": PulsarDiagnostics._leave,
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": PulsarDiagnostics._redeliver,
    "LOOKUP_RESPONSE": PulsarDiagnostics._lookup,
    "SEND_RECEIPT": PulsarDiagnostics._receipt,
    "CLOSE_PRODUCER": PulsarDiagnostics._close,
    "CLOSE_CONSUMER": PulsarDiagnostics._close,
}
"""Commands that are looked at."""
