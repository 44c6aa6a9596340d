"""Requests that go out and answers that come back, whichever framing carried them: from a frame to its exchange row.

legacy.py, vsr.py   what the frame's header says
request, send       what the request says, and its place among those that wait
pair                the request of an answer (match.py)
answered            what the answer says, and the row
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.iggy import events, layouts, positions
from dissectors.iggy.answer_fit import AnswerFit, answer_code
from dissectors.iggy.changes import COMMANDS
from dissectors.iggy.decode import Body, body, error_text
from dissectors.iggy.diagnostics import IggyDiagnostics
from dissectors.iggy.era import Era
from dissectors.iggy.errors import error
from dissectors.iggy.events import IggyEvents
from dissectors.iggy.frames import LEGACY
from dissectors.iggy.layouts import BodyLayout, CommandFacts
from dissectors.iggy.loss.orphans import IggyOrphans
from dissectors.iggy.match import PAIRED, Pairing
from dissectors.iggy.message import MessageRun
from dissectors.iggy.names import NAMING, IggyNames
from dissectors.iggy.pending import Answer, IggyRequest
from dissectors.iggy.rows import IggyRows
from dissectors.iggy.state import LOGINS, IggyState
from dissectors.iggy.walk import PARTITION, Fields
from dissectors.rows.layout import ABSENT
from dissectors.session.conversation import Conversation
from dissectors.session.exchange import CONSUME, OK, ONE_WAY, PRODUCE, UNANSWERED, ErrorCode, elapsed, queued
from dissectors.session.frame import Frame, FrameFacts
from dissectors.tcp.chunk import SERVER

LONG_NS = 1_000_000_000
SINGLE_CONSUMER, CONSUMER_GROUP, EXTERNAL_GROUP = 1, 2, 3


@final
@carried
@compiled
class IggyExchanges:
    """The requests and answers of one connection."""

    conversation: Conversation
    era: Era
    state: IggyState
    rows: IggyRows
    diagnostics: IggyDiagnostics
    events: IggyEvents
    orphans: IggyOrphans
    fit: AnswerFit
    pairing: Pairing
    answered_ns: cython.longlong  # when the last byte of the newest answer came
    _gave_up: cython.bint = False  # that an answer's request was not looked for is a finding already

    def __init__(self, conversation: Conversation, era: Era, *, midstream: bool) -> None:
        self.conversation = conversation
        self.era = era
        self.state = IggyState(era, IggyNames(conversation.conn, conversation.sink))
        self.rows = IggyRows(conversation, era, self.state)
        self.diagnostics = IggyDiagnostics(conversation, self.rows.report, era)
        self.events = events.IggyEvents(self.rows.report)
        self.orphans = IggyOrphans(self)
        self.fit = AnswerFit(era)
        self.pairing = Pairing(self.fit.fits, self.fit.suits, conversation.options.limits.pending, midstream=midstream)
        self.answered_ns = ABSENT

    def release(self) -> None:
        """Drop the references between its parts, so that it is freed without the garbage collector."""
        self.rows.dialects.release()
        for entry in self.pairing.queue:
            for batch in entry.batches if isinstance(entry, IggyRequest) else ():
                self.rows.report.batches.drop(batch.slot)
        vars(self.orphans).clear()

    def meet_older_server(self) -> None:
        """The client sends VSR frames and the server answers in legacy framing: judge its answers by its own era."""
        self.fit.era = Era()
        self.fit.era.frame_as(LEGACY)

    def api(self, code: int) -> str:
        """The name of a command."""
        return self.era.command(code).name

    @compiled
    def body(self, side: str, code: cython.longlong, frame: Frame, start: cython.Py_ssize_t) -> Body:
        """Read a frame's body, which begins at `start` of its data; a body that no layout reads is a finding.

        It is valid until the next one is read.
        """
        end: cython.Py_ssize_t = frame.start + frame.size
        limit: cython.Py_ssize_t = end if frame.known == end else min(frame.known, frame.end)
        return body(side, code, self.era, frame.data, start, end, limit)

    # --- requests ---

    @compiled
    def request(self, frame: Frame, code: cython.longlong, api: str | None, read: Body) -> IggyRequest:
        """Make a pending request of a frame, whose body was read.

        code: ABSENT where the frame has none. api: None where the code names it.
        """
        command: CommandFacts | None = None if code == ABSENT else self.era.command(code)
        if command is not None and (api is None or command.ambiguous):
            api = read.name if command.ambiguous and read.exact else command.name if api is None else api
        request = IggyRequest(frame.facts(), api, code)
        request.well_formed = read.exact
        if command is not None:
            request.waits, request.silent = command.waits, command.silent
            if not command.known:
                self.diagnostics.unknown(frame, code)
        if read.misread:
            self.diagnostics.misread(frame, api, read)
        if read.fields.reached:
            self._note_fields(request, read)
        return request

    @compiled
    def _note_fields(self, request: IggyRequest, read: Body) -> None:
        """Note what the fields of a request's body say for its row."""
        layout: BodyLayout | None = read.layout
        fields: Fields = read.fields
        assert layout is not None
        if request.api in _KEPT or layout.introduces:
            request.values = fields.values()
            if request.api in LOGINS:
                request.user = request.values.get("username")
        if layout.at_stream_id >= 0:
            stream, topic = fields.identity(layout.at_stream_id), fields.identity(layout.at_topic_id)
            if not topic and request.api == "CREATE_TOPIC" and request.values is not None:
                topic = request.values.get("name")  # its number may be left to the server
            if stream is not None and topic is not None:
                request.topics = self.state.names.topics(stream, topic)
            elif stream is not None:
                request.stream = self.state.names.stream(stream)
        if request.api == "CREATE_STREAM" and request.values is not None:
            request.stream = request.values.get("name")
        request.group = group_of(request.api, layout, fields)
        if fields.form(layout.at_consumer) == SINGLE_CONSUMER:
            request.consumer = str(fields.identity(layout.at_consumer))
        request.most = fields.number(layout.at_count)
        request.offset = fields.number(layout.at_offset)
        request.auto_commit = fields.number(layout.at_auto_commit) == 1
        request.partition_id = request.partition = partition_of(layout, fields)
        if layout.at_partitioning >= 0:
            request.partition = ABSENT
            if fields.form(layout.at_partitioning) == PARTITION:
                request.partition = fields.number(layout.at_partitioning)
        if request.partition != ABSENT:
            request.partitions = 1

    @compiled
    def send(self, request: IggyRequest, read: Body, frame: Frame) -> None:
        """A request goes out: note what it carries, and let it wait for its answer."""
        run: MessageRun | None = read.run
        self.state.request(request, request.partition if run is not None else ABSENT)
        if run is not None:
            request.records = run.total
            request.payload_bytes = run.payload_bytes() if frame.complete else ABSENT
            request.client_id = self.state.user
            key = None if read.layout is None else read.fields.key(read.layout.at_partitioning)
            request.batches = self.rows.batches(run, frame, request.frame, PRODUCE, request.partition, request, key)
        elif read.layout is not None:
            request.records = read.fields.number(read.layout.at_messages_count)
        if self._shows(request):
            request.body = self.rows.text(read, frame)
        if request.silent:
            self.rows.report_request(ONE_WAY, request, None)
        else:
            given_up = self.pairing.send(request)
            if given_up:
                self.unanswered(given_up)

    def unanswered(self, requests: Sequence[IggyRequest], until: int | None = None) -> None:
        """Report requests that are given up. until: the delivery at which that was."""
        for request in requests:
            self.rows.report_request(UNANSWERED, request, until)

    # --- answers ---

    @compiled
    def pair(self, answer: Answer, lost: cython.longlong) -> tuple[str, IggyRequest | None]:
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
            self.unanswered(given_up, answer.order)
        if judged == PAIRED and self.orphans.surplus:
            self.orphans.report_surplus()
        return judged, request

    @compiled
    def answered(self, request: IggyRequest, frame: Frame, status: cython.longlong, start: cython.Py_ssize_t) -> None:
        """Report the answer to a request: its payload begins at `start` of the frame's data."""
        facts: FrameFacts = frame.facts()
        if not self.pairing.multiplexed():
            request.queued_ns = queued(request.frame, facts, self.answered_ns)
        self.answered_ns = facts.arrived_ns()
        errors: Sequence[ErrorCode] = ()
        read: Body | None = None
        records: cython.longlong = 0
        delivers: cython.bint = request.api_code != ABSENT and self.era.command(request.api_code).delivers
        if status:
            errors = (self.error(status, frame, start),)
            self.diagnostics.refused(request, errors[0], frame)
        elif frame.start + frame.size <= start:
            self._learn(request, _NOTHING, facts)
        elif delivers or self._matters(request):
            read = self.body(layouts.RESPONSE, answer_code(request), frame, start)
            errors = self._read_answer(request, read, frame, facts)
        if delivers and not status:
            records = self._delivered(request, read, frame, facts)
        long_poll: cython.longlong = ABSENT
        if request.waits:
            long_poll = records <= 0 or elapsed(request.frame.last_ns, facts.first_ns) > LONG_NS
        shown = self._shown(read, frame, status, errors) if self._shows(request) else None
        if self.rows.report.wants_positions and not status:
            positions.answered(self.rows.report, request, read, facts)
        if self.rows.report.wants_events and request.api in events.KINDS:
            values = read.values if read is not None and not read.misfit.found else _NOTHING
            self.events.answered(request, values, facts, errors, self.state.user)
        self.rows.report_answer(request, facts, errors, OK, shown, long_poll)

    @compiled
    def _shows(self, request: IggyRequest) -> cython.bint:
        """Whether its row has bodies."""
        return self.rows.shows_bodies and self.conversation.sink.wants_body(request.api)

    @compiled
    def _matters(self, request: IggyRequest) -> cython.bint:
        """Whether the payload of an answer without messages is worth reading."""
        return (
            self.state.is_changed_by(request.api)
            or self._shows(request)
            or (request.api == "SEND_MESSAGES" and bool(request.batches))
            or (request.api in positions.READ and self.rows.report.wants_positions)
            or (request.api in events.READ and self.rows.report.wants_events)
        )

    @compiled
    def _read_answer(self, request: IggyRequest, read: Body, frame: Frame, facts: FrameFacts) -> Sequence[ErrorCode]:
        """Learn from the payload of an answer; the errors in it."""
        errors: Sequence[ErrorCode] = ()
        if read.misread:
            self.diagnostics.misread(frame, request.api, read)
        if read.layout is None:
            return errors
        values = read.values if read.layout.has_parts or self.state.is_changed_by(request.api) else _NOTHING
        if "sections" in values:
            failed = [section["status"] for section in values["sections"] if section["status"]]
            errors = tuple(error(code, self.era.allowed) for code in failed)
        if not read.misfit.found:
            self._learn(request, values, facts)
        return errors

    @compiled
    def _delivered(self, request: IggyRequest, read: Body | None, frame: Frame, facts: FrameFacts) -> cython.longlong:
        """Note what an answer with messages delivers, and report its batches; the number of messages."""
        if read is None:
            request.records = 0
            return 0
        run: MessageRun | None = read.run
        layout: BodyLayout | None = read.layout
        if run is None:
            if layout is not None and read.fields.number(layout.at_messages_count) != ABSENT:
                request.records = read.fields.number(layout.at_messages_count)
            return request.records
        assert layout is not None
        request.client_id = self.state.user
        self.rows.report_batches(run, frame, facts, CONSUME, partition_of(layout, read.fields), request)
        request.records, request.payload_bytes = run.total, run.payload_bytes()
        request.partitions = len(read.values["sections"]) if "sections" in layout.plan.names else 1
        return run.total

    def _shown(self, read: Body | None, frame: Frame, status: int, errors: Sequence[ErrorCode]) -> str:
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
            text = error_text(self.fit.era, frame.data, start, frame.start + frame.size)
        found = error(status, self.fit.era.allowed)
        return found if text is None else found._replace(message=text)

    @compiled
    def _learn(self, request: IggyRequest, values: dict[str, Any], facts: FrameFacts) -> None:
        """Keep what a successful answer shows beyond its own exchange, and where messages that were sent now lie."""
        self.state.answered(request, values, facts.first_ns)
        if request.api == "SEND_MESSAGES" and values.get("confirmations") and len(request.batches) == 1:
            confirmed = values["confirmations"][0]
            self.rows.stored(request.batches[0], confirmed["partition_id"], confirmed["base_offset"])


_NOTHING: dict[str, Any] = {}
_KEPT = NAMING | LOGINS | COMMANDS.keys()  # commands whose answers are understood with the fields of the request only


@compiled
def partition_of(layout: BodyLayout, fields: Fields) -> cython.longlong:
    """The partition in a field of that name; ABSENT where there is none."""
    return fields.number(layout.at_partition_id)


@compiled
def group_of(api: str | None, layout: BodyLayout, fields: Fields) -> str | None:
    """The consumer group that a request names: its name, or its number."""
    if layout.at_consumer >= 0:
        form: cython.longlong = fields.form(layout.at_consumer)
        return str(fields.identity(layout.at_consumer)) if form in (CONSUMER_GROUP, EXTERNAL_GROUP) else None
    named = fields.values().get("name") if api == "CREATE_CONSUMER_GROUP" else None  # its number comes with the answer
    if named:
        return str(named)
    if layout.at_group_id < 0 or layout.at_group_id >= fields.reached:
        return None
    return str(fields.identity(layout.at_group_id))
