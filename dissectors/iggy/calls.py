"""Requests that go out and answers that come back, whichever framing carried them: from a frame to its exchange row."""

from __future__ import annotations

import json
from struct import Struct
from typing import Any

from dissectors.conversation import Conversation, Frame
from dissectors.iggy import frames, layouts, tables
from dissectors.iggy.decode import Body, body, error_text
from dissectors.iggy.emit import CONSUME, PRODUCE, Emitter
from dissectors.iggy.era import Era
from dissectors.iggy.errors import Fault, fault
from dissectors.iggy.flight import ANY_LENGTH, DISCONNECTED, Answer, Call
from dissectors.iggy.match import PAIRED, Pairing
from dissectors.iggy.meaning import Meaning
from dissectors.iggy.names import Names
from dissectors.iggy.orphans import Orphans
from dissectors.iggy.state import LOGINS, State

_POLLED = Struct("<IQI")  # at the start of polled messages: partition, current offset, count
_LONG_NS = 1_000_000_000  # an answer that a client let wait, and that waited so long, is a long poll even if it is full


class Calls:
    """The requests and answers of one connection."""

    def __init__(self, talk: Conversation, era: Era, *, midstream: bool) -> None:
        self.talk = talk
        self.era = era
        self.state = State(era, Names(talk.conn, talk.sink))
        self.emit = Emitter(talk, era, self.state)
        self.meaning = Meaning(talk, era)
        self.orphans = Orphans(self)
        self.pairing = Pairing(self._fits, self._suits, talk.options.limits.pending, midstream=midstream)
        self._full = talk.sink.full

    def api(self, code: int) -> str:
        """What a command is called."""
        command = tables.meaning(code, self.era.best)
        return command.name if command else f"COMMAND_{code}"

    def body(self, side: str, code: int, frame: Frame, start: int) -> Body:
        """Read a frame's body, which begins at `start` of its data."""
        limit = min(frame.known, frame.end)
        return body(side, code, self.era, frame.data, start, frame.start + frame.size, limit)

    # --- requests ---

    def request(self, frame: Frame, code: int | None, api: str | None, read: Body) -> Call:
        """What a request's rows need of its frame."""
        call = Call()
        named = read.name if read.exact and code is not None and len(tables.commands().get(code, ())) > 1 else api
        call.api, call.code = named, code
        call.order, call.offset, call.size, call.place = frame.order, frame.offset, frame.size, frame.place
        call.first_ns, call.last_ns = frame.first_ns, frame.last_ns
        call.complete, call.resent = frame.complete, frame.resent
        call.well_formed = read.exact
        call.values = read.values
        call.user = read.values.get("username") if call.api in LOGINS else None
        if code is not None:
            command = tables.meaning(code, self.era.best)
            if command is None:
                self.meaning.unknown(frame, code)
            else:
                call.waits, call.silent = command.waits, command.silent
        self.meaning.misread(frame, call.api, read)
        if "stream_id" in read.values:
            call.topics = self.state.names.of(read.values)
        if _partition(read.values) is not None:
            call.partitions = 1
        return call

    def send(self, call: Call, read: Body, frame: Frame) -> None:
        """A request goes out: what it carries, and its place in the queue."""
        run, partition = read.run, _partition(read.values)
        self.state.asked(call, partition if run is not None else None)
        if run is not None:
            call.records = run.total
            call.payload_bytes = sum(m.payload_length for m in run.messages) if frame.complete else None
            topic = call.topics[0] if call.topics else None
            call.batches = self.emit.batch_rows(run, frame, PRODUCE, topic, partition, call.api, call.request_id)
        elif "messages_count" in read.values:
            call.records = read.values["messages_count"]
        if self._full:
            call.full = self.emit.text(read, frame)
        if call.silent:
            self.emit.exchange(call, None, kind="oneway")
            return
        self.unanswered(self.pairing.call(call))

    def unanswered(self, calls: list[Call]) -> None:
        """Requests that are given up."""
        for call in calls:
            self.emit.exchange(call, None, kind="unanswered")

    # --- answers ---

    def pair(self, answer: Answer, lost: int) -> tuple[str, Call | None]:
        """How an answer is judged, after `lost` bytes of answers, and the request that it belongs to."""
        judged, call, given_up = self.pairing.answer(answer, lost)
        self.unanswered(given_up)
        if judged == PAIRED:
            self.orphans.tell_surplus()
        return judged, call

    def answered(self, call: Call, frame: Frame, status: int, start: int) -> None:
        """The answer to a request: its payload begins at `start` of the frame's data."""
        faults: tuple[Fault, ...] = ()
        read = None
        end = frame.start + frame.size
        if status:
            faults = (self.fault(status, frame, start),)
            self.meaning.refused(call, status)
        elif end > start and self._matters(call):
            read = self._read(call, frame, start)
            self.meaning.misread(frame, call.api, read)
            faults = tuple(fault(s["status"], self.era.allowed) for s in read.values.get("sections", ()) if s["status"])
            if read.name is not None and not read.problem:
                self._learn(call, read.values, frame)
        elif end <= start:
            self._learn(call, {}, frame)
        records, payload, partitions = self._carried(call, read, frame) if not status else (None, None, None)
        waited = not records or frame.first_ns - call.last_ns > _LONG_NS
        self.emit.exchange(
            call,
            frame,
            faults=faults,
            records=records,
            payload_bytes=payload,
            partitions=partitions,
            long_poll=waited if call.waits else None,
            response=self._shown(read, frame, status, faults) if self._full else None,
        )

    def _matters(self, call: Call) -> bool:
        """Whether an answer's payload is worth reading."""
        return (
            self._full
            or self.state.matters(call.api)
            or layouts.delivers(call.code or -1)
            or (call.api == "SEND_MESSAGES" and bool(call.batches))
        )

    def _read(self, call: Call, frame: Frame, start: int) -> Body:
        code = layouts.REGISTER if call.operation == 1 else call.code or -1
        return self.body(layouts.RESPONSE, code, frame, start)

    def _carried(self, call: Call, read: Body | None, frame: Frame) -> tuple[int | None, int | None, int | None]:
        """Messages, their payloads' bytes and partitions of an answer; its batches to their table."""
        if not layouts.delivers(call.code or -1):
            return None, None, None
        if read is None:
            return 0, None, None
        run, values = read.run, read.values
        if run is None:
            return values.get("messages_count"), None, None
        topic = call.topics[0] if call.topics else None
        self.emit.put_batches(
            self.emit.batch_rows(run, frame, CONSUME, topic, values.get("partition_id"), call.api, call.request_id)
        )
        return (
            run.total,
            sum(m.payload_length for m in run.messages),
            len(values["sections"]) if "sections" in values else 1,
        )

    def _shown(self, read: Body | None, frame: Frame, status: int, faults: tuple[Fault, ...]) -> str:
        """The answer's body, for `--full`."""
        if read is not None:
            return self.emit.text(read, frame, status=0)
        if not status:
            return '{"status": 0}'
        told = {"message": faults[0].message} if faults[0].message is not None else {}
        return json.dumps({"status": status, "error": faults[0].name, **told})

    def fault(self, status: int, frame: Frame, start: int) -> Fault:
        """The error that an answer tells, with its text where there is one."""
        text = None
        if frame.complete:
            text = error_text(self.era, frame.data, start, frame.start + frame.size)
        return fault(status, self.era.allowed)._replace(message=text)

    def _learn(self, call: Call, values: dict[str, Any], frame: Frame) -> None:
        """What a successful answer says beyond its own exchange."""
        self.state.answered(call, values, frame.first_ns)
        if call.api == "SEND_MESSAGES" and values.get("confirmations") and len(call.batches) == 1:
            told = values["confirmations"][0]
            row = call.batches[0]
            call.batches = [
                row._replace(
                    partition=told["partition_id"],
                    base_offset=told["base_offset"],
                    last_offset=told["base_offset"] + (row.records or 1) - 1,
                    position=str(told["base_offset"]),
                )
            ]

    # --- which answers a request can have ---

    def has_payload(self, call: Call) -> bool:
        """Whether the command is ever answered with a payload."""
        code = layouts.REGISTER if call.operation == 1 else call.code or -1
        return layouts.has_payload(code, self.era.allowed)

    def _fits(self, call: Call, answer: Answer) -> bool:
        """Whether an answer can be that of a request."""
        if answer.request_id is not None:
            return call.operation == answer.operation or answer.operation not in tables.operations()
        if answer.status:
            return answer.status != DISCONNECTED and (answer.length == 0 or layouts.error_texts(self.era.allowed))
        if answer.length == ANY_LENGTH:
            return self.has_payload(call) or layouts.error_texts(self.era.allowed)
        return answer.length == 0 or self.has_payload(call)

    def _suits(self, call: Call, answer: Answer) -> bool:
        """Whether an answer fits a request in what it holds, too: where nothing else tells whose it is."""
        if not self._fits(call, answer):
            return False
        frame = answer.frame
        if frame is None or answer.status or answer.length < _POLLED.size or not layouts.delivers(call.code or -1):
            return True
        if frame.known - frame.start < frames.PREFIX + _POLLED.size:
            return True
        partition, _, count = _POLLED.unpack_from(frame.data, frame.start + frames.PREFIX)
        asked = call.values.get("partition_id")
        alone = call.values.get("consumer", {}).get("kind") == "consumer"
        elsewhere = alone and asked and asked != partition
        return not elsewhere and bool(count <= call.values.get("count", count))


def _partition(values: dict[str, Any]) -> int | None:
    """The partition that a request names."""
    partitioning = values.get("partitioning")
    if partitioning is not None:
        value = partitioning.get("value") if partitioning["kind"] == "partition_id" else None
        return value if isinstance(value, int) else None
    partition = values.get("partition_id")
    return partition if isinstance(partition, int) else None
