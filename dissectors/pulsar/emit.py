"""Rows of `exchanges` and `errors`."""

from __future__ import annotations

from dissectors.conversation import Frame
from dissectors.pulsar.commands import ASK, asked_by
from dissectors.pulsar.decode import scrubbed
from dissectors.pulsar.errors import RETRIABLE, Fault
from dissectors.pulsar.match import Asked
from dissectors.pulsar.state import State
from dissectors.records import Conn, Error, Exchange
from dissectors.sink import Sink
from dissectors.tcp.chunk import CLIENT


def signed(value: int) -> int:
    """A 64-bit number as the columns hold it: 2^64-1 is -1."""
    return value if value < 1 << 63 else value - (1 << 64)


class Emitter:
    """Writes what the conversation has found out."""

    def __init__(self, conn: Conn, sink: Sink, state: State) -> None:
        self.conn = conn
        self.sink = sink
        self.state = state
        self._exchanges = "exchanges" in sink.tables
        self._errors = "errors" in sink.tables

    def call(self, asked: Asked, frame: Frame, told: Asked, fault: Fault | None) -> None:
        """A request and its answer, which came in `frame` and says `told`."""
        if fault is not None:
            self.error(asked, frame.first_ns, frame.place, fault)
        if not self._exchanges:
            return
        self.sink.exchanges.append(
            Exchange(
                self.conn,
                self.state.dialect,
                "call",
                asked.api,
                asked.code,
                None,
                asked.correlation_id,
                None if asked.party is None else asked.party.name,
                asked.first_ns,
                asked.last_ns - asked.first_ns,
                frame.first_ns - asked.last_ns,
                frame.last_ns - frame.first_ns,
                frame.last_ns - asked.first_ns,
                asked.size,
                frame.size,
                told.status if fault is None else "error",
                None if fault is None else fault.code,
                None if fault is None else fault.name,
                0 if fault is None else 1,
                asked.topics,
                asked.partitions,
                asked.records,
                asked.payload_bytes,
                asked.waits,
                None,
                asked.resent or frame.resent,
                asked.complete and frame.complete,
                asked.place,
                frame.place,
                asked.body,
                told.body,
                None if asked.party is None else asked.party.subscription,
            )
        )

    def request(self, asked: Asked, kind: str) -> None:
        """A request without an answer: `unanswered`, or `oneway` where none was to be expected."""
        if not self._exchanges:
            return
        self.sink.exchanges.append(
            Exchange(
                self.conn,
                self.state.dialect,
                kind,
                asked.api,
                asked.code,
                None,
                asked.correlation_id,
                None if asked.party is None else asked.party.name,
                asked.first_ns,
                request_ns=asked.last_ns - asked.first_ns,
                request_bytes=asked.size,
                status="unknown",
                topics=asked.topics,
                partitions=asked.partitions,
                records=asked.records,
                payload_bytes=asked.payload_bytes,
                long_poll=asked.waits,
                retransmitted=asked.resent,
                complete=asked.complete,
                request_place=asked.place,
                request=asked.body,
                subscription=None if asked.party is None else asked.party.subscription,
            )
        )

    def response(self, told: Asked, kind: str, fault: Fault | None) -> None:
        """A frame that nothing asked for (`push`), or an answer whose request was not captured (`orphan`)."""
        if kind == "orphan" and told.command is not None:
            request = told.command if told.command.part is ASK else asked_by(told.command)
            if request is not None:
                told.api, told.code = request.name, request.code  # half of that exchange
        if fault is not None:
            self.error(told, told.first_ns, told.place, fault)
        if not self._exchanges:
            return
        self.sink.exchanges.append(
            Exchange(
                self.conn,
                self.state.dialect,
                kind,
                told.api,
                told.code,
                None,
                told.correlation_id,
                None if told.party is None else told.party.name,
                told.first_ns,
                response_ns=told.last_ns - told.first_ns,
                response_bytes=told.size,
                status=told.status if fault is None else "error",
                error_code=None if fault is None else fault.code,
                error_name=None if fault is None else fault.name,
                error_count=0 if fault is None else 1,
                topics=told.topics,
                partitions=told.partitions,
                records=told.records,
                payload_bytes=told.payload_bytes,
                retransmitted=told.resent,
                complete=told.complete,
                response_place=told.place,
                response=told.body,
                subscription=None if told.party is None else told.party.subscription,
            )
        )

    def told(self, direction: int, told: Asked, fault: Fault | None = None) -> None:
        """A frame that is not answered by protocol."""
        if direction == CLIENT:
            self.request(told, "oneway")
        else:
            self.response(told, "push", fault)

    def error(self, asked: Asked, time: int, place: int, fault: Fault, scope: str | None = None) -> None:
        """A row of `errors`; `time` and `place` are the answer's."""
        if not self._errors:
            return
        topic = asked.topic
        self.sink.errors.append(
            Error(
                self.conn,
                asked.api,
                None,
                scope or ("request" if topic is None else "topic"),
                None if topic is None else topic.name,
                None if topic is None else topic.partition,
                fault.code,
                fault.name,
                RETRIABLE.get(fault.name or ""),
                None if fault.message is None else scrubbed(fault.message),
                None if asked.party is None else asked.party.name,
                asked.correlation_id,
                time,
                place,
            )
        )
