"""Rules of the protocol that a peer may break. A broker disconnects some of those who do.

unknown_producer   SEND names a producer that its connection has not created, was refused, or has closed
not_closed_before  PRODUCER or SUBSCRIBE names an id that is in use, or one whose request has no answer yet: clients
                   send CLOSE_PRODUCER or CLOSE_CONSUMER before they try again
newer_command      a command that is newer than the protocol version that both peers speak

A rule is judged only where every byte of the connection so far was captured: what is missing may have kept to it.

Source: Pulsar binary protocol specification, "Producer", "Consumer" and "Connection establishment".
"""

from __future__ import annotations

from collections.abc import Callable

from dissectors.pulsar.commands import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    PRODUCER,
    SEND,
    SUBSCRIBE,
    TOPIC_MIGRATED,
    UNSUBSCRIBE,
)
from dissectors.pulsar.decode import CommandLayout, PulsarCommand
from dissectors.pulsar.fields import TOPIC_MIGRATED_RESOURCE_ID, TOPIC_MIGRATED_RESOURCE_TYPE
from dissectors.pulsar.pending import PulsarRequest, new_request
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import Report
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import CLIENT

_ASKED, _OPEN, _CLOSED_BY_BROKER = "asked", "open", "closed"  # states of a producer or consumer
_IDS = 1000  # producers, and consumers; of a connection that has more, no rule about ids is judged
_REPORTS = 100  # events of one connection
_ALL_ONES = (1 << 64) - 1  # ids are shown without a sign


class ProtocolRules:
    """Watches one connection, and reports each violation once for each producer, consumer or command.

    gone: producers that were refused, or that the client has closed
    """

    def __init__(self, report: Report) -> None:
        self._output = report
        self._producers: dict[int, str] = {}  # id -> state
        self._consumers: dict[int, str] = {}
        self.gone: set[int] = set()
        self._crowded = False
        self._reported: set[tuple[str, int]] = set()

    def inspect(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        """Take a command of a type in RULED, which has an id."""
        if not self._crowded and command.code in RULED:
            RULED[command.code](self, frame, command, request)
            self._crowded = max(len(self._producers), len(self._consumers), len(self.gone)) > _IDS

    def on_answer(self, request: PulsarRequest, *, refused: bool) -> None:
        """Take the answer to a PRODUCER or SUBSCRIBE."""
        states = self._states(request)
        if states.get(request.endpoint_id) == _ASKED:
            states[request.endpoint_id] = _OPEN
            if refused:
                self._forget(request)

    def on_newer(self, frame: Frame, layout: CommandLayout, version: int) -> None:
        """Take a command that is newer than the version of the protocol that both peers speak."""
        message = f"{layout.name} belongs to version {layout.type.since} of the protocol, and the peers speak {version}"
        request = new_request()
        request.begin_command(frame.facts(), layout.name, layout.code, layout.type, ABSENT)
        self._report(frame, "newer_command", layout.code, message, request)

    def _send(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        id_ = request.endpoint_id
        if id_ not in self._producers:
            why = "was refused or closed" if id_ in self.gone else "was not created on this connection"
            self._report(frame, "unknown_producer", id_, f"SEND names producer {id_ & _ALL_ONES}, which {why}", request)

    def _create(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        states, id_ = self._states(request), request.endpoint_id
        if id_ == ABSENT:
            return
        if (before := states.get(id_, _CLOSED_BY_BROKER)) != _CLOSED_BY_BROKER:
            state = "is in use" if before == _OPEN else "has no answer yet"
            message = f"{request.api} names id {id_ & _ALL_ONES}, which {state} and was not closed before"
            self._report(frame, "not_closed_before", id_, message, request)
        states[id_] = _ASKED
        self.gone.discard(id_)

    def _close(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        if frame.direction == CLIENT:
            self._forget(request)
        elif request.endpoint_id in (states := self._states(request)):
            states[request.endpoint_id] = _CLOSED_BY_BROKER  # the client may send what it sent before it heard of it

    def _migrated(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        is_consumer = command.fields.number(TOPIC_MIGRATED_RESOURCE_TYPE, 0) == 1
        states = self._consumers if is_consumer else self._producers
        if (id_ := command.fields.number(TOPIC_MIGRATED_RESOURCE_ID, 0)) in states:
            states[id_] = _CLOSED_BY_BROKER

    def _forget(self, request: PulsarRequest) -> None:
        """A producer or consumer is no more."""
        states = self._states(request)
        if states.pop(request.endpoint_id, None) is not None and states is self._producers:
            self.gone.add(request.endpoint_id)

    def _states(self, request: PulsarRequest) -> dict[int, str]:
        """Those of producers or of consumers, whichever a command is about."""
        return self._producers if request.api_code in (PRODUCER, CLOSE_PRODUCER) else self._consumers

    def _report(self, frame: Frame, rule: str, id_: int, message: str, request: PulsarRequest) -> None:
        if (rule, id_) not in self._reported and len(self._reported) < _REPORTS:
            self._reported.add((rule, id_))
            topic = request.topic
            self._output.event(
                "rule_broken",
                request,
                frame.facts(),
                topic=None if topic is None else topic.name,
                partition=None if topic is None else topic.partition,
                subject=rule,
                text=message,
            )


RULED: dict[int, Callable[[ProtocolRules, Frame, PulsarCommand, PulsarRequest], None]] = {
    PRODUCER: ProtocolRules._create,
    SUBSCRIBE: ProtocolRules._create,
    SEND: ProtocolRules._send,
    CLOSE_PRODUCER: ProtocolRules._close,
    CLOSE_CONSUMER: ProtocolRules._close,
    UNSUBSCRIBE: ProtocolRules._close,
    TOPIC_MIGRATED: ProtocolRules._migrated,
}
"""Types of commands that rules about ids concern."""
