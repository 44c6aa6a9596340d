"""Requests that go out and answers that come back, whichever framing carried them: from a frame to its exchange row.

legacy.py, vsr.py   what the frame's header says
request, send       what the request says, and its place among those that wait
pair                the request of an answer (match.py)
answered            what the answer says, and the row
"""

from __future__ import annotations

import json
from struct import Struct
from typing import Any

from dissectors.conversation import Conversation
from dissectors.frame import Frame, FrameFacts
from dissectors.iggy import layouts, tables
from dissectors.iggy.decode import Body, body, error_text
from dissectors.iggy.diagnostics import IggyDiagnostics
from dissectors.iggy.era import Era
from dissectors.iggy.errors import error
from dissectors.iggy.frames import PREFIX
from dissectors.iggy.loss.orphans import IggyOrphans
from dissectors.iggy.match import PAIRED, Pairing
from dissectors.iggy.names import IggyNames
from dissectors.iggy.pending import ANY_LENGTH, DISCONNECTED, Answer, IggyRequest
from dissectors.iggy.rows import IggyRows
from dissectors.iggy.state import LOGINS, IggyState
from dissectors.rows.exchange import CALL, CONSUME, ONE_WAY, PRODUCE, UNANSWERED, ErrorCode, elapsed, queued
from dissectors.rows.table import int64
from dissectors.tcp.chunk import SERVER

_POLLED = Struct("<IQI")  # at the start of polled messages: partition, current offset, count
_GROUPS = frozenset({"consumer_group", "external_group"})
_LONG_NS = 1_000_000_000  # an answer that a client let wait, and that waited so long, is a long poll even if it is full


class IggyExchanges:
    """The requests and answers of one connection."""

    def __init__(self, conversation: Conversation, era: Era, *, midstream: bool) -> None:
        self.conversation = conversation
        self.era = era
        self.state = IggyState(era, IggyNames(conversation.conn, conversation.sink))
        self.rows = IggyRows(conversation, era, self.state)
        self.diagnostics = IggyDiagnostics(conversation, era)
        self.orphans = IggyOrphans(self)
        self.pairing = Pairing(self._fits, self._suits, conversation.options.limits.pending, midstream=midstream)
        self.answered_ns: int | None = None  # when the last byte of the newest answer came
        self._gave_up = False  # that an answer's request was not looked for is a finding already

    def api(self, code: int) -> str:
        """The name of a command."""
        command = tables.meaning(code, self.era.best)
        return command.name if command else f"COMMAND_{code}"

    def body(self, side: str, code: int, frame: Frame, start: int) -> Body:
        """Read a frame's body, which begins at `start` of its data; a body that no layout reads is a finding."""
        end = frame.start + frame.size
        limit = end if frame.known == end else min(frame.known, frame.end)
        return body(side, code, self.era, frame.data, start, end, limit)

    # --- requests ---

    def request(self, frame: Frame, code: int | None, api: str | None, read: Body) -> IggyRequest:
        """Make a pending request of a frame, whose body was read. api: None where the code names it."""
        exact, values = read.exact, read.values
        command = None if code is None else tables.meaning(code, self.era.best)
        if api is None and code is not None:
            api = command.name if command else f"COMMAND_{code}"
        if exact and code in tables.ambiguous():
            api = read.name
        request = IggyRequest(frame.facts, api, code)
        request.well_formed = exact
        if command is not None:
            request.waits, request.silent = command.waits, command.silent
        elif code is not None:
            self.diagnostics.unknown(frame, code)
        if read.misread:
            self.diagnostics.misread(frame, api, read)
        if values:
            request.values = values
            request.user = values.get("username") if api in LOGINS else None
            if "stream_id" in values:
                request.topics = self.state.names.of(api, values)
            request.group = group_of(api, values)
            request.partition = _partition(values)
            if request.partition is not None:
                request.partitions = 1
        return request

    def send(self, request: IggyRequest, read: Body, frame: Frame) -> None:
        """A request goes out: note what it carries, and let it wait for its answer."""
        run = read.run
        self.state.request(request, request.partition if run is not None else None)
        if run is not None:
            request.records = run.total
            request.payload_bytes = int64(run.payload_bytes if frame.complete else None)
            request.client_id = self.state.user
            topic = request.topics[0] if request.topics else None
            request.batches = self.rows.batches(run, frame, request.frame, PRODUCE, topic, request.partition, request)
        elif "messages_count" in read.values:
            request.records = int64(read.values["messages_count"])
        if self._shows(request):
            request.body = self.rows.text(read, frame)
        if request.silent:
            self.rows.exchange(ONE_WAY, request)
        else:
            self.unanswered(self.pairing.send(request))

    def unanswered(self, requests: list[IggyRequest], *, until: int | None = None) -> None:
        """Report requests that are given up. until: the delivery at which that was."""
        for request in requests:
            self.rows.exchange(UNANSWERED, request, until=until)

    # --- answers ---

    def pair(self, answer: Answer, lost: int) -> tuple[str, IggyRequest | None]:
        """How an answer is judged, after `lost` bytes of answers, and the request that it belongs to."""
        judged, request, given_up = self.pairing.answer(answer, lost)
        if self.pairing.search_abandoned and not self._gave_up:
            self._gave_up = True
            self.conversation.finding(
                "search_abandoned",
                "Too many requests in flight to match this answer; matching resumes after the next idle period",
                direction=SERVER,
                time=answer.first_ns,
            )
        if given_up:
            self.unanswered(given_up, until=answer.order)
        if judged == PAIRED:
            self.orphans.report_surplus()
        return judged, request

    def answered(self, request: IggyRequest, frame: Frame, status: int, start: int) -> None:
        """Report the answer to a request: its payload begins at `start` of the frame's data."""
        facts = frame.facts
        if not self.pairing.multiplexed:
            request.queued_ns = queued(request.frame, facts, int64(self.answered_ns))
        self.answered_ns = frame.arrived_ns
        errors: tuple[ErrorCode, ...] = ()
        read: Body | None = None
        records = payload_bytes = partitions = None
        delivers = layouts.delivers(request.api_code)
        if status:
            errors = (self.error(status, frame, start),)
            self.diagnostics.refused(request, status)
        elif frame.start + frame.size <= start:
            self._learn(request, {}, facts)
        elif delivers or self._matters(request):
            read = self.body(layouts.RESPONSE, _answer_code(request), frame, start)
            if read.misread:
                self.diagnostics.misread(frame, request.api, read)
            if "sections" in read.values:
                failed = [section["status"] for section in read.values["sections"] if section["status"]]
                errors = tuple(error(code, self.era.allowed) for code in failed)
            if read.name is not None and not read.problem:
                self._learn(request, read.values, facts)
        if delivers and not status:
            records, payload_bytes, partitions = self._delivered(request, read, frame, facts)
        long_poll = None
        if request.waits:
            long_poll = not records or elapsed(request.frame.last_ns, facts.first_ns) > _LONG_NS
        self.rows.exchange(
            CALL,
            request,
            facts,
            errors=errors,
            records=records,
            payload_bytes=payload_bytes,
            partitions=partitions,
            long_poll=long_poll,
            body=self._shown(read, frame, status, errors) if self._shows(request) else None,
        )

    def _shows(self, request: IggyRequest) -> bool:
        """Whether its row has bodies."""
        return self.conversation.sink.wants_body(request.api)

    def _matters(self, request: IggyRequest) -> bool:
        """Whether the payload of an answer without messages is worth reading."""
        return (
            self.state.is_changed_by(request.api)
            or self._shows(request)
            or (request.api == "SEND_MESSAGES" and bool(request.batches))
        )

    def _delivered(
        self, request: IggyRequest, read: Body | None, frame: Frame, facts: FrameFacts
    ) -> tuple[int | None, int | None, int | None]:
        """Messages, their payloads' bytes and partitions of an answer with messages; report its batches."""
        if read is None:
            return 0, None, None
        run, values = read.run, read.values
        if run is None:
            return values.get("messages_count"), None, None
        topic = request.topics[0] if request.topics else None
        request.client_id = self.state.user
        self.rows.report_batches(run, frame, facts, CONSUME, topic, values.get("partition_id"), request)
        return run.total, run.payload_bytes, len(values["sections"]) if "sections" in values else 1

    def _shown(self, read: Body | None, frame: Frame, status: int, errors: tuple[ErrorCode, ...]) -> str:
        """The answer's body, for `--full`."""
        if read is not None:
            return self.rows.text(read, frame, status=0)
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

    def _learn(self, request: IggyRequest, values: dict[str, Any], facts: FrameFacts) -> None:
        """Keep what a successful answer shows beyond its own exchange, and where messages that were sent now lie."""
        self.state.answered(request, values, facts.first_ns)
        if request.api == "SEND_MESSAGES" and values.get("confirmations") and len(request.batches) == 1:
            confirmed, row = values["confirmations"][0], request.batches[0]
            row["partition"], base = confirmed["partition_id"], confirmed["base_offset"]
            row["base_offset"], row["position"] = base, str(base)
            row["last_offset"] = base + (row["records"] or 1) - 1

    # --- which answers a request can have ---

    def has_payload(self, request: IggyRequest) -> bool:
        """Whether the command is ever answered with a payload."""
        return layouts.has_payload(_answer_code(request), self.era.allowed)

    def _fits(self, request: IggyRequest, answer: Answer) -> bool:
        """Whether an answer can be that of a request."""
        if answer.request_id is not None:
            return request.operation == answer.operation or answer.operation not in tables.operations()
        if answer.status:
            return answer.status != DISCONNECTED and (answer.length == 0 or layouts.error_texts(self.era.allowed))
        if answer.length == ANY_LENGTH:
            return self.has_payload(request) or layouts.error_texts(self.era.allowed)
        return answer.length == 0 or self.has_payload(request)

    def _suits(self, request: IggyRequest, answer: Answer) -> bool:
        """Whether an answer fits a request in what it holds, too: where nothing else shows whose it is."""
        if not self._fits(request, answer):
            return False
        frame = answer.frame
        delivers = layouts.delivers(request.api_code)
        if frame is None or answer.status or answer.length < _POLLED.size or not delivers:
            return True
        if frame.known - frame.start < PREFIX + _POLLED.size:
            return True
        partition, _, count = _POLLED.unpack_from(frame.data, frame.start + PREFIX)
        requested = request.values.get("partition_id")
        alone = request.values.get("consumer", {}).get("kind") == "consumer"
        elsewhere = alone and requested and requested != partition
        return not elsewhere and bool(count <= request.values.get("count", count))


def _answer_code(request: IggyRequest) -> int:
    """The code under which layouts has the answer to a request."""
    return layouts.REGISTER if request.operation == 1 else request.api_code


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
