"""Requests that go out and answers that come back, whichever framing carried them: from a frame to its exchange row."""

from __future__ import annotations

import json
from struct import Struct
from typing import Any

from dissectors.conversation import Conversation
from dissectors.exchange import CALL, CONSUME, ONE_WAY, PRODUCE, UNANSWERED, ErrorCode, elapsed, queued
from dissectors.frame import Frame
from dissectors.iggy import frames, layouts, tables
from dissectors.iggy.decode import Body, body, error_text
from dissectors.iggy.diagnostics import IggyDiagnostics
from dissectors.iggy.era import Era
from dissectors.iggy.errors import error
from dissectors.iggy.loss.orphans import IggyOrphans
from dissectors.iggy.match import PAIRED, Pairing
from dissectors.iggy.names import IggyNames
from dissectors.iggy.pending import ANY_LENGTH, DISCONNECTED, Answer, IggyRequest
from dissectors.iggy.rows import IggyEmitter
from dissectors.iggy.state import LOGINS, IggyState
from dissectors.tcp.chunk import SERVER

_POLLED = Struct("<IQI")  # at the start of polled messages: partition, current offset, count
_GROUPS = frozenset({"consumer_group", "external_group"})
_LONG_NS = 1_000_000_000  # an answer that a client let wait, and that waited so long, is a long poll even if it is full


class Calls:
    """The requests and answers of one connection."""

    def __init__(self, conversation: Conversation, era: Era, *, midstream: bool) -> None:
        self.conversation = conversation
        self.era = era
        self.state = IggyState(era, IggyNames(conversation.conn, conversation.sink))
        self.emit = IggyEmitter(conversation, era, self.state)
        self.diagnostics = IggyDiagnostics(conversation, era)
        self.orphans = IggyOrphans(self)
        self.pairing = Pairing(self._fits, self._suits, conversation.options.limits.pending, midstream=midstream)
        self.answered_ns: int | None = None  # when the last byte of the newest answer came
        self._gave_up = False  # that an answer's request was not looked for is a finding already

    def api(self, code: int) -> str:
        """What a command is called."""
        command = tables.meaning(code, self.era.best)
        return command.name if command else f"COMMAND_{code}"

    def body(self, side: str, code: int, frame: Frame, start: int) -> Body:
        """Read a frame's body, which begins at `start` of its data."""
        limit = min(frame.known, frame.end)
        return body(side, code, self.era, frame.data, start, frame.start + frame.size, limit)

    # --- requests ---

    def request(self, frame: Frame, code: int | None, api: str | None, read: Body) -> IggyRequest:
        """What a request's rows need of its frame."""
        named = read.name if read.exact and code is not None and len(tables.commands().get(code, ())) > 1 else api
        call = IggyRequest(frame, named, code)
        call.well_formed = read.exact
        call.values = read.values
        call.user = read.values.get("username") if call.api in LOGINS else None
        if code is not None:
            command = tables.meaning(code, self.era.best)
            if command is None:
                self.diagnostics.unknown(frame, code)
            else:
                call.waits, call.silent = command.waits, command.silent
        self.diagnostics.misread(frame, call.api, read)
        if "stream_id" in read.values:
            call.topics = self.state.names.of(call.api, read.values)
        call.group = group_of(call.api, read.values)
        if _partition(read.values) is not None:
            call.partitions = 1
        return call

    def send(self, call: IggyRequest, read: Body, frame: Frame) -> None:
        """A request goes out: what it carries, and its place in the queue."""
        run, partition = read.run, _partition(read.values)
        self.state.request(call, partition if run is not None else None)
        if run is not None:
            call.records = run.total
            call.payload_bytes = sum(m.payload_length for m in run.messages) if frame.complete else None
            topic = call.topics[0] if call.topics else None
            call.client_id = self.state.user
            call.batches = self.emit.batches(run, frame, PRODUCE, topic, partition, call)
        elif "messages_count" in read.values:
            call.records = read.values["messages_count"]
        if self._shows(call):
            call.body = self.emit.text(read, frame)
        if call.silent:
            self.emit.exchange(ONE_WAY, call)
            return
        self.unanswered(self.pairing.call(call))

    def unanswered(self, calls: list[IggyRequest], *, until: int | None = None) -> None:
        """Requests that are given up."""
        for call in calls:
            self.emit.exchange(UNANSWERED, call, until=until)

    # --- answers ---

    def pair(self, answer: Answer, lost: int) -> tuple[str, IggyRequest | None]:
        """How an answer is judged, after `lost` bytes of answers, and the request that it belongs to."""
        judged, call, given_up = self.pairing.answer(answer, lost)
        if self.pairing.search_abandoned and not self._gave_up:
            self._gave_up = True
            self.conversation.finding(
                "search_abandoned",
                "So many requests wait that an answer's own was not looked for; pairing goes on after a pause",
                direction=SERVER,
                time=answer.first_ns,
            )
        self.unanswered(given_up, until=answer.order)
        if judged == PAIRED:
            self.orphans.report_surplus()
        return judged, call

    def answered(self, call: IggyRequest, frame: Frame, status: int, start: int) -> None:
        """The answer to a request: its payload begins at `start` of the frame's data."""
        if not self.pairing.multiplexed:
            call.queued_ns = queued(call.facts, frame.facts, self.answered_ns)
        self.answered_ns = frame.first_ns if frame.last_ns is None else frame.last_ns
        errors: tuple[ErrorCode, ...] = ()
        read = None
        end = frame.start + frame.size
        if status:
            errors = (self.error(status, frame, start),)
            self.diagnostics.refused(call, status)
        elif end > start and self._matters(call):
            read = self._read(call, frame, start)
            self.diagnostics.misread(frame, call.api, read)
            errors = tuple(error(s["status"], self.era.allowed) for s in read.values.get("sections", ()) if s["status"])
            if read.name is not None and not read.problem:
                self._learn(call, read.values, frame)
        elif end <= start:
            self._learn(call, {}, frame)
        records, payload, partitions = self._carried(call, read, frame) if not status else (None, None, None)
        wait_ns = elapsed(call.facts.last_ns, frame.first_ns)
        waited = not records or (wait_ns or 0) > _LONG_NS
        self.emit.exchange(
            CALL,
            call,
            frame,
            errors=errors,
            records=records,
            payload_bytes=payload,
            partitions=partitions,
            long_poll=waited if call.waits else None,
            body=self._shown(read, frame, status, errors) if self._shows(call) else None,
        )

    def _shows(self, call: IggyRequest) -> bool:
        """Whether its row has bodies."""
        return self.conversation.sink.wants_body(call.api)

    def _matters(self, call: IggyRequest) -> bool:
        """Whether an answer's payload is worth reading."""
        return (
            self._shows(call)
            or self.state.matters(call.api)
            or layouts.delivers(call.api_code or -1)
            or (call.api == "SEND_MESSAGES" and bool(call.batches))
        )

    def _read(self, call: IggyRequest, frame: Frame, start: int) -> Body:
        code = layouts.REGISTER if call.operation == 1 else call.api_code or -1
        return self.body(layouts.RESPONSE, code, frame, start)

    def _carried(self, call: IggyRequest, read: Body | None, frame: Frame) -> tuple[int | None, int | None, int | None]:
        """Messages, their payloads' bytes and partitions of an answer; its batches to their table."""
        if not layouts.delivers(call.api_code or -1):
            return None, None, None
        if read is None:
            return 0, None, None
        run, values = read.run, read.values
        if run is None:
            return values.get("messages_count"), None, None
        topic = call.topics[0] if call.topics else None
        call.client_id = self.state.user
        self.emit.report_batches(run, frame, CONSUME, topic, values.get("partition_id"), call)
        return (
            run.total,
            sum(m.payload_length for m in run.messages),
            len(values["sections"]) if "sections" in values else 1,
        )

    def _shown(self, read: Body | None, frame: Frame, status: int, errors: tuple[ErrorCode, ...]) -> str:
        """The answer's body, for `--full`."""
        if read is not None:
            return self.emit.text(read, frame, status=0)
        if not status:
            return '{"status": 0}'
        text = {"message": errors[0].message} if errors[0].message is not None else {}
        return json.dumps({"status": status, "error": errors[0].name, **text})

    def error(self, status: int, frame: Frame, start: int) -> ErrorCode:
        """The error of an answer, with its text where there is one."""
        text = None
        if frame.complete:
            text = error_text(self.era, frame.data, start, frame.start + frame.size)
        return error(status, self.era.allowed)._replace(message=text)

    def _learn(self, call: IggyRequest, values: dict[str, Any], frame: Frame) -> None:
        """What a successful answer shows beyond its own exchange."""
        self.state.answered(call, values, frame.first_ns)
        if call.api == "SEND_MESSAGES" and values.get("confirmations") and len(call.batches) == 1:
            confirmed, row = values["confirmations"][0], call.batches[0]
            row["partition"], base = confirmed["partition_id"], confirmed["base_offset"]
            row["base_offset"], row["position"] = base, str(base)
            row["last_offset"] = base + (row["records"] or 1) - 1

    # --- which answers a request can have ---

    def has_payload(self, call: IggyRequest) -> bool:
        """Whether the command is ever answered with a payload."""
        code = layouts.REGISTER if call.operation == 1 else call.api_code or -1
        return layouts.has_payload(code, self.era.allowed)

    def _fits(self, call: IggyRequest, answer: Answer) -> bool:
        """Whether an answer can be that of a request."""
        if answer.request_id is not None:
            return call.operation == answer.operation or answer.operation not in tables.operations()
        if answer.status:
            return answer.status != DISCONNECTED and (answer.length == 0 or layouts.error_texts(self.era.allowed))
        if answer.length == ANY_LENGTH:
            return self.has_payload(call) or layouts.error_texts(self.era.allowed)
        return answer.length == 0 or self.has_payload(call)

    def _suits(self, call: IggyRequest, answer: Answer) -> bool:
        """Whether an answer fits a request in what it holds, too: where nothing else shows whose it is."""
        if not self._fits(call, answer):
            return False
        frame = answer.frame
        if frame is None or answer.status or answer.length < _POLLED.size or not layouts.delivers(call.api_code or -1):
            return True
        if frame.known - frame.start < frames.PREFIX + _POLLED.size:
            return True
        partition, _, count = _POLLED.unpack_from(frame.data, frame.start + frames.PREFIX)
        requested = call.values.get("partition_id")
        alone = call.values.get("consumer", {}).get("kind") == "consumer"
        elsewhere = alone and requested and requested != partition
        return not elsewhere and bool(count <= call.values.get("count", count))


def _partition(values: dict[str, Any]) -> int | None:
    """The partition that a request names."""
    partitioning = values.get("partitioning")
    if partitioning is not None:
        value = partitioning.get("value") if partitioning["kind"] == "partition_id" else None
        return value if isinstance(value, int) else None
    partition = values.get("partition_id")
    return partition if isinstance(partition, int) else None


def group_of(api: str | None, values: dict[str, Any]) -> str | None:
    """The consumer group that a request names: its name, or its number."""
    consumer = values.get("consumer")
    if isinstance(consumer, dict):
        return str(consumer["id"]) if consumer.get("kind") in _GROUPS else None
    if "group_id" not in values:
        return None
    named = values.get("name") if api == "CREATE_CONSUMER_GROUP" else None
    return str(named or values["group_id"])
