"""What the frames of a connection mean together: how consumers keep up, and what a person should look at.

A broker sends a consumer no more messages than it has permits for; FLOW grants them, each message takes one. A consumer
whose permits run out makes the broker wait: it is slow. A broker sends whole batches, and may read several before it
counts their messages, so it sends more than permits allow; each message beyond them is counted against the next FLOW.
MESSAGE to ACK is the time that the application took. What was delivered and never acknowledged will be delivered again,
to this consumer or another.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

import cython

from dissectors.pulsar.commands import (
    ACK,
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    CONNECT,
    FLOW,
    LOOKUP_RESPONSE,
    MESSAGE,
    REDELIVER_UNACKNOWLEDGED_MESSAGES,
    SEND_RECEIPT,
    SUBSCRIBE,
    UNSUBSCRIBE,
)
from dissectors.pulsar.decode import ID_SHAPE, PulsarCommand
from dissectors.pulsar.emit import PulsarEmitter
from dissectors.pulsar.errors import REDIRECT, VALIDATION, error_code
from dissectors.pulsar.names import Endpoint
from dissectors.pulsar.pending import PulsarRequest
from dissectors.pulsar.positions import owner_of
from dissectors.redaction import without_tokens
from dissectors.session.conversation import Conversation
from dissectors.session.frame import Frame, FrameFacts
from dissectors.tcp.chunk import CLIENT, SERVER
from dissectors.wording import counted

if not cython.compiled:
    from dissectors.pulsar.fields import (
        ACK_ACK_TYPE,
        ACK_MESSAGE_ID,
        ACK_VALIDATION_ERROR,
        CONNECT_ORIGINAL_PRINCIPAL,
        CONNECT_PROXY_TO_BROKER_URL,
        CONNECT_PROXY_VERSION,
        FLOW_MESSAGE_PERMITS,
        ID_ACK_SET,
        LOOKUP_TOPIC_RESPONSE_RESPONSE,
        PUSH_MESSAGE_ID,
        PUSH_REDELIVERY_COUNT,
        REDELIVER_UNACKNOWLEDGED_MESSAGES_MESSAGE_IDS,
    )
    from dissectors.rows.layout import ABSENT

    CUMULATIVE = 1  # ACK.ack_type: all up to this message

SECOND = 1_000_000_000  # ns

KEEP_ALIVE_NS = 10 * SECOND
"""A PING without an answer for so long was not merely in flight when its connection was closed: peers wait 30 s by
default, and never less than a few (keepAliveIntervalSeconds)."""

SLOW_NS = SECOND
"""A consumer that left the broker without permits for so long in all is worth a warning."""

_SAMPLES = 1000  # processing times kept for each consumer
_CONSUMERS = 10_000  # of one connection
_ALL_ONES = (1 << 64) - 1  # ids are shown without a sign

Position = tuple[int, int]  # ledger, entry


class Consumption:
    """What one consumer was delivered.

    begins: its first frame
    delivered, redelivered, acknowledged: messages
    unacknowledged: entries that were delivered: when (ns), and how many messages
    times: ns from MESSAGE to ACK, of the first ones
    permits: ABSENT where it is not known, as some were granted before the capture or in a gap
    counted_from: the delivery order from which permits are counted
    beyond: messages that were sent to it without a permit; beyond_frame: the first of these
    batched: whether one of these came in a batch
    dry_since: since when it has none (ns), ABSENT while it has some; dry_ns: for how long it had none before
    """

    FIELDS = (
        *("begins", "consumer", "delivered", "redelivered", "acknowledged", "unacknowledged", "times", "permits"),
        *("dry_since", "dry_ns", "counted_from", "beyond", "beyond_frame", "batched"),
    )
    """The attributes, as they are pickled."""

    def __init__(self, consumer: Endpoint | None, begins: FrameFacts) -> None:
        self.begins = begins
        self.consumer = consumer
        self.delivered = self.redelivered = self.acknowledged = 0
        self.unacknowledged: dict[Position, tuple[int, int]] = {}
        self.times: list[int] = []
        self.permits = self.dry_since = ABSENT
        self.dry_ns = self.counted_from = self.beyond = 0
        self.beyond_frame: FrameFacts | None = None
        self.batched = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.FIELDS}

    def __setstate__(self, carried: dict[str, Any]) -> None:
        for name, value in carried.items():
            setattr(self, name, value)

    def __reduce__(self) -> Any:
        return Consumption, (self.consumer, self.begins), self.__getstate__()

    def end_dry(self, ns: cython.longlong) -> None:
        """The time without permits ends, if there is one. ns: ABSENT where it is not known when."""
        if self.dry_since != ABSENT and ns > self.dry_since:
            self.dry_ns += ns - self.dry_since
        self.dry_since = ABSENT


class PulsarDiagnostics:
    """Gathers over one connection; reports at its end, and at once what cannot wait."""

    CARRIED = (
        *("_conversation", "_emit", "_limit", "_consumers", "_unacknowledged", "_samples", "_duplicates"),
        *("_gap_order", "_gap_ns"),
    )
    """The attributes, as they are pickled."""

    def __init__(self, conversation: Conversation, emit: PulsarEmitter) -> None:
        self._conversation = conversation
        self._emit = emit
        self._limit = conversation.options.limits.pending
        self._consumers: dict[int, Consumption] = {}
        self._unacknowledged = 0  # entries, of all consumers
        self._samples = 0
        self._duplicates = 0
        self._gap_order = -1  # of the last gap of either direction, and when it was known
        self._gap_ns = ABSENT

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.CARRIED}

    def __setstate__(self, carried: dict[str, Any]) -> None:
        for name, value in carried.items():
            setattr(self, name, value)

    def inspect(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        """Take a command of either side."""
        inspect = _INSPECTIONS.get(command.code)
        if inspect is not None:
            inspect(self, frame, command, request)

    def gap(self, order: int, time: int) -> None:
        """Bytes are missing: from here on permits are unknown, until a consumer subscribes anew. time: ns."""
        self._gap_order, self._gap_ns = order, time

    def unanswered_ping(self, ping: PulsarRequest, last_ns: int | None) -> None:
        """Report a PING that had no answer until its connection was closed, if that was long. last_ns: when it was."""
        frame: FrameFacts | None = ping.frame
        if frame is None or last_ns is None or last_ns - frame.arrived_ns < KEEP_ALIVE_NS:
            return
        waited = last_ns - frame.arrived_ns
        who = "client" if frame.direction == CLIENT else "broker"
        self._conversation.finding(
            "keepalive_timeout",
            f"A PING of the {who} had no answer for {waited // SECOND} s, until the connection was closed",
            direction=frame.direction,
            time=frame.first_ns,
            packet_ref=frame.packet_ref,
            offset=frame.offset,
            length=frame.size,
            waited_ns=waited,
        )

    def close(self, last_ns: int | None) -> None:
        """Report what the connection amounted to. last_ns: until when it is known."""
        for consumer_id, consumption in self._consumers.items():
            self._check_count(consumption)
            end_ns: cython.longlong = ABSENT if last_ns is None else last_ns
            stopped = 0 if consumption.dry_since == ABSENT else max(0, end_ns - consumption.dry_since)
            consumption.end_dry(end_ns)
            if consumption.delivered:
                self._report_consumption(consumer_id, consumption, stopped)
            if consumption.beyond:
                self._report_beyond(consumer_id, consumption)
        conversation = self._conversation
        if self._duplicates:
            dropped = counted(self._duplicates, "duplicate")
            conversation.finding("deduplicated", f"The broker dropped {dropped} of what it already had")

    def _report_consumption(self, consumer_id: int, consumption: Consumption, stopped_ns: int) -> None:
        """stopped_ns: for how long it had no permits when its connection ended."""
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
            time=consumption.begins.first_ns,
            packet_ref=consumption.begins.packet_ref,
            offset=consumption.begins.offset,
            topic=None if consumer is None else consumer.topic.name,
            partition=None if consumer is None else consumer.topic.partition,
            subscription=None if consumer is None else consumer.subscription,
            consumer=None if consumer is None else consumer.name,
            consumer_id=consumer_id & _ALL_ONES,
            delivered=consumption.delivered,
            redelivered=consumption.redelivered,
            acknowledged=consumption.acknowledged,
            unacknowledged=unacknowledged,
            without_permits_ns=consumption.dry_ns,
            stopped_ns=stopped_ns,
            processing_ns={
                "count": len(times),
                "p50": _quantile(times, 0.5),
                "p99": _quantile(times, 0.99),
                "max": _quantile(times, 1.0),
            },
        )

    def _report_beyond(self, consumer_id: int, consumption: Consumption) -> None:
        consumer = consumption.consumer
        frame: FrameFacts | None = consumption.beyond_frame
        assert frame is not None
        who = "a consumer" if consumer is None or not consumer.name else f"consumer {consumer.name}"
        self._conversation.finding(
            "beyond_permits",
            f"{counted(consumption.beyond, 'message')} came to {who} when no permits were left",
            direction=SERVER,
            time=frame.first_ns,
            packet_ref=frame.packet_ref,
            offset=frame.offset,
            length=frame.size,
            topic=None if consumer is None else consumer.topic.name,
            partition=None if consumer is None else consumer.topic.partition,
            subscription=None if consumer is None else consumer.subscription,
            consumer=None if consumer is None else consumer.name,
            consumer_id=consumer_id & _ALL_ONES,
            messages=consumption.beyond,
            batched=consumption.batched,
        )

    # --- consumers ---

    def _check_count(self, consumption: Consumption) -> None:
        """Forget a consumer's permits if bytes are missing since they are counted."""
        if consumption.permits != ABSENT and consumption.counted_from < self._gap_order:
            consumption.end_dry(self._gap_ns)
            consumption.permits = ABSENT

    def _of(self, frame: Frame, request: PulsarRequest) -> Consumption | None:
        """What is kept of the consumer that a command is about; None without its id, or where consumers are many."""
        consumption: Consumption | None = self._consumers.get(request.endpoint_id)
        if consumption is None and request.endpoint_id != ABSENT and len(self._consumers) < _CONSUMERS:
            consumption = self._consumers[request.endpoint_id] = Consumption(request.endpoint, frame.facts)
        return consumption

    def _subscribe(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        consumption = self._of(frame, request)
        if consumption is not None:
            consumption.consumer = request.endpoint
            self._forget(consumption, list(consumption.unacknowledged))  # of an earlier life of this id
            self._check_count(consumption)
            consumption.end_dry(frame.arrived_ns)
            consumption.permits = 0
            consumption.counted_from = frame.order

    def _flow(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        """Count the permits that a consumer grants. What it had before the capture began is not known."""
        request.permits = command.fields.number(FLOW_MESSAGE_PERMITS, 0)
        consumption: Consumption | None = self._of(frame, request)
        if consumption is not None:
            self._check_count(consumption)
            if consumption.permits != ABSENT:
                consumption.permits += request.permits
                request.permits_left = consumption.permits
                if consumption.permits > 0:
                    consumption.end_dry(frame.arrived_ns)

    def _leave(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        """A consumer ends: nobody waits for its permits any more."""
        consumption = self._of(frame, request)
        if consumption is not None:
            self._check_count(consumption)
            consumption.end_dry(frame.first_ns)
            consumption.permits = ABSENT

    def _message(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        """Count what the broker delivers with an entry, and the permits that it takes."""
        consumption: Consumption | None = self._of(frame, request)
        if consumption is not None:
            messages: cython.longlong = request.records if request.records > 0 else 0
            there: cython.bint = command.read_id(PUSH_MESSAGE_ID)
            ledger: cython.longlong = command.ledger() if there else 0
            entry: cython.longlong = command.entry() if there else 0
            position = (ledger, entry)
            now: cython.longlong = frame.arrived_ns
            consumption.delivered += messages
            if command.fields.number(PUSH_REDELIVERY_COUNT, 0):
                consumption.redelivered += messages
            if self._unacknowledged < self._limit and position not in consumption.unacknowledged:
                self._unacknowledged += 1
                consumption.unacknowledged[position] = (now, messages)
            self._check_count(consumption)
            if request.records == ABSENT:  # how many messages it holds was not captured
                consumption.end_dry(now)
                consumption.permits = ABSENT
            if consumption.permits != ABSENT:
                taken: cython.longlong = messages if messages > 1 else 1  # each chunk of a message takes a permit
                if consumption.permits <= 0:
                    self._count_beyond(frame, consumption, taken)
                consumption.permits -= taken
                request.permits_left = consumption.permits
                if consumption.permits <= 0 and consumption.dry_since == ABSENT:
                    consumption.dry_since = now

    def _count_beyond(self, frame: Frame, consumption: Consumption, messages: int) -> None:
        """Count messages that came when no permits were left."""
        consumption.beyond_frame = consumption.beyond_frame or frame.facts
        consumption.beyond += messages
        consumption.batched = consumption.batched or messages > 1

    def _ack(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        if command.fields.has(ACK_VALIDATION_ERROR):
            self._report_discarded(frame, command, request)
        consumption: Consumption | None = self._of(frame, request)
        if consumption is not None:
            cumulative: cython.bint = command.fields.number(ACK_ACK_TYPE, 0) == CUMULATIVE
            start: cython.Py_ssize_t
            stop: cython.Py_ssize_t
            for start, stop in command.fields.each(ACK_MESSAGE_ID):
                command.id.read(ID_SHAPE, command.data, start, stop)
                partly: cython.bint = command.id.has(ID_ACK_SET)  # of its batch, messages are left
                position = (command.ledger(), command.entry() - partly)
                if cumulative:
                    for before in list(takewhile(position.__ge__, consumption.unacknowledged)):
                        self._acknowledge(consumption, before, frame.first_ns)
                elif not partly:
                    self._acknowledge(consumption, position, frame.first_ns)

    def _acknowledge(self, consumption: Consumption, position: Position, time: cython.longlong) -> None:
        delivered = consumption.unacknowledged.pop(position, None)
        if delivered is not None:
            since: cython.longlong = delivered[0]
            messages: cython.longlong = delivered[1]
            self._unacknowledged -= 1
            consumption.acknowledged += messages
            if time >= since and len(consumption.times) < _SAMPLES and self._samples < self._limit:
                self._samples += 1
                consumption.times.append(time - since)

    def _redeliver(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        consumption = self._of(frame, request)
        if consumption is not None:
            positions = command.positions(REDELIVER_UNACKNOWLEDGED_MESSAGES_MESSAGE_IDS)
            self._forget(consumption, positions or list(consumption.unacknowledged))

    def _forget(self, consumption: Consumption, positions: list[Position]) -> None:
        """Entries will be delivered again."""
        for position in positions:
            if consumption.unacknowledged.pop(position, None) is not None:
                self._unacknowledged -= 1

    def _report_discarded(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        """A client found a message damaged and threw it away: its own verdict."""
        number = command.fields.number(ACK_VALIDATION_ERROR, 0)
        name = VALIDATION.get(number)
        topic = request.topic
        positions = command.positions(ACK_MESSAGE_ID)[:100]
        self._conversation.finding_at(
            frame,
            "discarded",
            f"The consumer threw a message away: {name or number}",
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            positions=[f"{ledger & _ALL_ONES}:{entry & _ALL_ONES}" for ledger, entry in positions],
            error=name or number,
        )
        self._emit.error(error_code(number, name, topic, scope="message"), request)

    # --- connections ---

    def _connect(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        fields = command.fields
        broker = fields.text(CONNECT_PROXY_TO_BROKER_URL)
        if broker:
            shown = without_tokens(broker)
            self._conversation.finding_at(frame, "proxy", "A client speaks to a broker through a proxy", broker=shown)
        elif fields.has(CONNECT_PROXY_VERSION) or fields.has(CONNECT_ORIGINAL_PRINCIPAL):
            version = fields.text(CONNECT_PROXY_VERSION) or None
            self._conversation.finding_at(frame, "proxy", "A proxy speaks for a client", proxy_version=version)

    def _lookup(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        if command.fields.number(LOOKUP_TOPIC_RESPONSE_RESPONSE, ABSENT) == REDIRECT:
            topic = request.topic
            to = owner_of(command)
            self._conversation.finding_at(
                frame,
                "lookup_redirect",
                f"A lookup was sent on to {to or 'another broker'}",
                topic=None if topic is None else topic.name,
                partition=None if topic is None else topic.partition,
                to=to,
            )

    def _receipt(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        if request.ledger == -1 and request.entry == -1:
            self._duplicates += 1

    def _close(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        if command.code == CLOSE_CONSUMER:
            self._leave(frame, command, request)
        if frame.direction == SERVER:
            topic = request.topic
            self._conversation.finding_at(
                frame,
                "closed_by_broker",
                f"The broker closed a {'producer' if command.code == CLOSE_PRODUCER else 'consumer'}",
                topic=None if topic is None else topic.name,
                partition=None if topic is None else topic.partition,
                moved_to=owner_of(command),
            )


def _quantile(ordered: list[int], share: float) -> int | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


INSPECTIONS: dict[int, Callable[[PulsarDiagnostics, Frame, PulsarCommand, PulsarRequest], None]] = {
    CONNECT: PulsarDiagnostics._connect,
    SUBSCRIBE: PulsarDiagnostics._subscribe,
    FLOW: PulsarDiagnostics._flow,
    MESSAGE: PulsarDiagnostics._message,
    ACK: PulsarDiagnostics._ack,
    UNSUBSCRIBE: PulsarDiagnostics._leave,
    REDELIVER_UNACKNOWLEDGED_MESSAGES: PulsarDiagnostics._redeliver,
    LOOKUP_RESPONSE: PulsarDiagnostics._lookup,
    SEND_RECEIPT: PulsarDiagnostics._receipt,
    CLOSE_PRODUCER: PulsarDiagnostics._close,
    CLOSE_CONSUMER: PulsarDiagnostics._close,
}
"""Types of commands that are looked at."""
_INSPECTIONS = INSPECTIONS
