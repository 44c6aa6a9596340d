"""One Pulsar connection: frames in, rows out. Other modules do the work; this one says in which order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.options import Options
from dissectors.pulsar.batches import PulsarEntry
from dissectors.pulsar.commands import (
    ACK,
    COMMANDS,
    CONNECT,
    CONNECTED,
    ERROR,
    FAILING,
    INITIAL_RESPONSE,
    MESSAGE,
    ONE_WAY,
    PRODUCER,
    PRODUCER_SUCCESS,
    REQUEST,
    SEND,
    SEND_ERROR,
    SEND_RECEIPT,
    SUBSCRIBE,
    SUCCESS,
    request_of,
)
from dissectors.pulsar.decode import CommandLayout, PulsarCommand, command_of
from dissectors.pulsar.entries import Entries
from dissectors.pulsar.errors import ALWAYS_ERRORS, FAILURES, error_code, error_in
from dissectors.pulsar.events import ASKING, PulsarEvents
from dissectors.pulsar.events import STATING as EVENTFUL_COMMANDS
from dissectors.pulsar.fields import ACK_VALIDATION_ERROR, PRODUCER_SUCCESS_PRODUCER_READY, SEND_RECEIPT_MESSAGE_ID
from dissectors.pulsar.frames import DEFAULT_MESSAGE_BYTES, PADDING, measure
from dissectors.pulsar.loss import resync
from dissectors.pulsar.loss.orphans import ID_FIELDS, LostRequests
from dissectors.pulsar.match import PulsarPendingRequests, key_of
from dissectors.pulsar.names import Topic
from dissectors.pulsar.pending import PulsarRequest, new_request, passing
from dissectors.pulsar.permits import COUNTED, Permits
from dissectors.pulsar.positions import STATING, stated
from dissectors.pulsar.remarks import REMARKABLE, remark
from dissectors.pulsar.replication import named_by
from dissectors.pulsar.rows import PulsarRows
from dissectors.pulsar.rules import RULED, ProtocolRules
from dissectors.pulsar.state import UPDATES, PulsarState
from dissectors.records import Conn
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.session.conversation import Conversation, ConversationSummary
from dissectors.session.exchange import UNKNOWN, ErrorCode, Report
from dissectors.session.frame import Frame, FrameFacts
from dissectors.session.resends import AT_END
from dissectors.tcp.chunk import CLIENT, SERVER, Gap
from dissectors.wire.arrays import Bytes

NO_REQUEST = -1  # the request_id, 2^64-1, of what answers no request

_NEW_TYPES = 64  # of which a finding says that no table knows them


def _marked(codes: Iterable[int]) -> Bytes:
    """uint8[256]: by type of command, whether it is one of these."""
    return memoryview(bytes(code in set(codes) for code in range(256)))


CHANGING: Bytes = _marked(UPDATES)
OPENING: Bytes = _marked(ID_FIELDS)
GRANTING: Bytes = _marked(COUNTED)
REMARKED: Bytes = _marked(REMARKABLE)
CONCERNED: Bytes = _marked(RULED)
STATES: Bytes = _marked(STATING)
EVENTFUL: Bytes = _marked(EVENTFUL_COMMANDS)
DECIDED: Bytes = _marked(ASKING)
FALLIBLE: Bytes = _marked([*FAILURES, *ALWAYS_ERRORS])
"""Types of commands that change what is known, that open or close something, that change permits, that findings are
made of, that rules concern, that state a position, that are events, of which the answers are events, that may carry an
error."""


@carried
@compiled
class PulsarConversation(Conversation):
    """See dissectors.session.conversation.Conversation."""

    state: PulsarState
    pending: PulsarPendingRequests
    rows: PulsarRows
    entries: Entries
    permits: Permits
    events: PulsarEvents
    limit: cython.longlong  # of a frame, as far as this connection has said
    lost_requests: LostRequests
    client_end: cython.longlong = 0  # stream offset at which the client's last frame ended
    _new_types: set[int]  # types of commands that no table knows
    _full: cython.bint
    _command_limit: cython.longlong
    _frame_limit: cython.longlong
    rules: ProtocolRules | None
    _replicates: cython.bint = False  # a SEND was seen whose receipt names a position or a marker

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        report = Report(conn, sink, self.resends, self.closing)
        self.state = PulsarState(options.limits.pending // 10)
        self.pending = PulsarPendingRequests(options.limits.pending)
        self.rows = PulsarRows(report, self.state)
        self.entries = Entries(self, self.rows, self.state)
        self.permits = Permits()
        self.events = PulsarEvents(report)
        self.rules = ProtocolRules(report) if report.wants_events and not midstream else None
        self.limit = options.limits.frame_bytes
        self._frame_limit, self._command_limit = options.limits.frame_bytes, options.limits.command_bytes
        self._full = sink.full
        self.lost_requests = LostRequests()
        self._new_types = set()

    def release(self) -> None:
        """Drop the parts that refer back to the conversation, so that it is freed without the garbage collector."""
        for request in self.pending.rest():  # they wait where it goes on
            if request.batch is not None:
                self.sink.batches.drop(request.batch.slot)
        if self.entries is not None:
            self.entries.messages = None  # type: ignore[assignment]  # they call entries
        self.entries = None  # type: ignore[assignment]
        self.rules = None
        super().release()

    # --- frames ---

    @compiled
    def measure(
        self, direction: cython.int, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.longlong:
        return measure(buf, pos, end, self._frame_limit)

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        announced = self.state.max_message_size if direction == SERVER else None
        limit = self._frame_limit if announced is None else min(self._frame_limit, announced + PADDING)
        return resync.search(buf, pos, end, limit, direction, final, self.budget(direction))

    def on_skipped(self, direction: int, start: int, end: int) -> None:
        self.rules = None  # what fits no frame may have been commands

    def on_gap(self, direction: int, gap: Gap) -> None:
        self.pending.gap(direction, gap.order)
        self.rules = None  # what was not captured may have kept to them
        self.permits.gap_order = gap.order
        if direction == CLIENT and gap.offset == self.client_end:
            self.lost_requests.add_hole(gap.order, self.frames, gap.length)

    @compiled
    def on_frame(self, frame: Frame) -> None:
        command: PulsarCommand = command_of(frame, self._command_limit)
        layout: CommandLayout | None = command.layout
        if frame.direction == CLIENT:
            self.client_end = frame.offset + frame.size
        if command.defect is not None:
            self.finding_at(frame, "malformed_frame", command.defect, type=command.code)
        if frame.size > self.limit:
            self.finding_at(frame, "oversized_frame", "A frame larger than the broker allows", limit=self.limit)
        if layout is None:
            self._on_new_type(frame, command)
            return
        if self.rules is not None and self.state.version < (
            layout.client_since if frame.direction == CLIENT else layout.server_since
        ):
            self.rules.on_newer(frame, layout, self.state.version)
        part: cython.int = layout.client_part if frame.direction == CLIENT else layout.server_part
        if layout.code == ACK and command.number(layout.second) == ABSENT:
            part = ONE_WAY
        if part == REQUEST:
            self._on_request(frame, command, layout)
        elif part == ONE_WAY:
            self._on_one_way(frame, command, layout)
        else:
            self._on_answer(frame, command, layout)

    def on_close(self) -> None:
        for request in self.pending.rest():
            self._give_up(request, AT_END)

    def summary(self) -> ConversationSummary:
        state = self.state
        return ConversationSummary(state.dialect, state.client_software, state.client_version, state.server_version)

    # --- the parts that a command may take ---

    @compiled
    def _on_request(self, frame: Frame, command: PulsarCommand, layout: CommandLayout) -> None:
        request: PulsarRequest = self._begun(new_request(), frame.facts(), command, layout)
        key = request.key
        self._describe(request, frame, command, layout)
        if command.readable:
            self._update(frame, command, request, request)
        if request.key is not key:
            self._replicates = True
        elif key is None and command.cut and layout.space:
            request.key = (layout.space, None)  # its id was not captured
        if request.key is None:
            self._give_up(request, None)
        else:
            self._open(frame.direction, request)

    @compiled
    def _on_one_way(self, frame: Frame, command: PulsarCommand, layout: CommandLayout) -> None:
        request: PulsarRequest = self._begun(passing(), frame, command, layout)
        self._describe(request, frame, command, layout)
        if command.readable:
            self._update(frame, command, request, request)
        self.rows.one_way(frame.direction, request, None)

    @compiled
    def _on_answer(self, frame: Frame, command: PulsarCommand, layout: CommandLayout) -> None:
        answer: PulsarRequest = self._begun(passing(), frame, command, layout)
        if self._replicates and layout.code == SEND_RECEIPT and self.pending.find(frame.direction, named_by(command)):
            answer.key = named_by(command)
        request: PulsarRequest | None = self._find(frame, layout, answer.key, command.cut)
        if request is None:
            self._describe(answer, frame, command, layout)
        else:
            answer.topic = request.topic
        if command.readable:
            self._update(frame, command, answer, answer if request is None else request)
        error = None
        if FALLIBLE[layout.code]:
            error = self._error(command, answer.topic if request is None else request.topic)
            if command.cut and error is None:
                answer.status = UNKNOWN  # what would say so was not captured
        if request is None:
            self._on_orphan(frame, answer, layout, error)
        elif (
            command.code == PRODUCER_SUCCESS
            and command.readable
            and not command.fields.number(PRODUCER_SUCCESS_PRODUCER_READY, 1)
        ):
            request.answer_announced = True  # the producer is queued for an exclusive topic
            answer.topic, answer.topics, answer.partitions = request.topic, request.topics, request.partitions
            self.rows.one_way(frame.direction, answer, None)
        else:
            if DECIDED[request.api_code] and self.rows.report.wants_events:
                self.events.answered(frame, command, request, error)
            self._close(frame, request, answer, error)

    @compiled
    def _error(self, command: PulsarCommand, topic: Topic | None) -> ErrorCode | None:
        """The error that an answer about a topic carries."""
        error = error_in(command.code, command.fields, topic) if command.readable else None
        if error is None and command.code in ALWAYS_ERRORS:
            return error_code(None, None, topic)  # which one was not captured
        return error

    @compiled
    def _update(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        """Take what a command changes. `own`: the command; `request`: the request that it answers, or itself."""
        if CHANGING[command.code]:
            self.state.update(command.code, command.fields, request)
            if command.code == CONNECTED:
                size = self.state.max_message_size or DEFAULT_MESSAGE_BYTES
                self.limit = min(self.limit, size + PADDING)
        if OPENING[command.code]:
            self.lost_requests.update(command.code, command.fields)
        if GRANTING[command.code]:
            self.permits.count(frame, command, own)
        if REMARKED[command.code] and (command.code != ACK or command.fields.has(ACK_VALIDATION_ERROR)):
            remark(self, self.rows, frame, command, own)
        if self.rows.report.wants_events:
            if EVENTFUL[command.code]:
                self.events.stated(frame, command, own, request)
            elif command.code == SEND:
                self.events.sent(frame, command, own)
            elif command.code == SEND_RECEIPT and own.ledger == -1 and own.entry == -1:
                self.events.deduplicated(frame, request)
        if (
            CONCERNED[command.code]
            and self.rules is not None
            and (command.code != SEND or own.endpoint is None or self.rules.gone)
        ):
            self.rules.inspect(frame, command, own)
        if STATES[command.code] and self.rows.report.wants_positions:
            stated(self.rows.report, frame.facts(), command, request)

    def _on_orphan(self, frame: Frame, answer: PulsarRequest, layout: CommandLayout, error: ErrorCode | None) -> None:
        """An answer to nothing that is open: its request was not captured, or it needs none."""
        unrequested = answer.correlation_id == NO_REQUEST
        if layout.code == ERROR and unrequested and not self.state.connected:
            answer.type, answer.correlation_id = COMMANDS[CONNECT], ABSENT
            self.rows.orphan(answer, error)
        elif layout.type.part == INITIAL_RESPONSE or unrequested:
            self.rows.one_way(frame.direction, answer, error)
        else:
            if layout.code == SUCCESS and answer.key is not None:
                answer.type = self.lost_requests.explain(frame.order, self.frames, answer.key[-1]) or layout.type
            if answer.type is not None and answer.type.part != REQUEST and request_of(answer.type) is None:
                self._report_orphan(frame, answer, layout.name, error)
            else:
                self.rows.orphan(answer, error)

    def _report_orphan(self, frame: Frame, answer: PulsarRequest, name: str, error: ErrorCode | None) -> None:
        """An answer that many requests may have: a finding, for no row can say which exchange it is half of."""
        if error is not None:
            self.rows.error(error, answer)
        number = None if answer.correlation_id == ABSENT else answer.correlation_id
        message = f"{name} answers a request that was not captured"
        self.finding_at(frame, "orphan", message, correlation_id=number)

    def _on_new_type(self, frame: Frame, command: PulsarCommand) -> None:
        """A command that is newer than the table. Most carry a request id in field 1; only that is used."""
        if command.code not in self._new_types and len(self._new_types) < _NEW_TYPES:
            self._new_types.add(command.code)
            self.finding_at(frame, "unknown_api", f"Command type {command.code} is not known", type=command.code)
        number = command.first_number(frame)
        request: PulsarRequest = new_request()
        id_ = ABSENT if number is None else number
        request.begin_command(frame.facts(), str(command.code), command.code, None, id_)
        request.key = ("new type", number)
        asked = None if number is None else self.pending.find(frame.direction, request.key)
        if asked is not None:
            self._close(frame, asked, request, None)
        elif number is not None and frame.direction == CLIENT:
            self._open(frame.direction, request)
        else:
            self.rows.one_way(frame.direction, request, None)

    # --- open requests ---

    @compiled
    def _open(self, direction: cython.int, request: PulsarRequest) -> None:
        overdue = self.pending.add(direction, request)
        if overdue is not None:
            self._give_up(overdue, None)

    @compiled
    def _find(
        self, frame: Frame, layout: CommandLayout, key: tuple[Any, ...] | None, cut: cython.bint
    ) -> PulsarRequest | None:
        """The open request that this command answers."""
        if key is None:
            return self.pending.only(frame.direction, layout.space) if cut else None
        if layout.space == "ping":
            for lost in self.pending.take_outlived(frame.direction, key, frame.order):
                self._give_up(lost, frame.order)
        request: PulsarRequest | None = self.pending.find(frame.direction, key)
        return self._find_elsewhere(frame.direction, layout, key) if request is None else request

    def _find_elsewhere(self, direction: int, layout: CommandLayout, key: tuple[Any, ...]) -> PulsarRequest | None:
        """A request without id, one that failed, or one that is newer than the table."""
        without_id = self.pending.without_id(direction, key[0])
        if without_id is not None:
            return without_id
        if layout.code == SEND_RECEIPT or layout.code == SEND_ERROR:
            return self.pending.sent_as(direction, *key[1:])
        if layout.type.by != "request":
            return None
        spaces = (*FAILING, "new type") if layout.code == ERROR else ("new type",)
        keys: Iterable[tuple[Any, ...]] = ((space, *key[1:]) for space in spaces)
        if layout.code == ERROR:
            keys = chain(keys, (("connect",),))  # a login is refused without its id
        found = (self.pending.find(direction, key) for key in keys)
        return next((request for request in found if request is not None), None)

    @compiled
    def _close(self, frame: Frame, request: PulsarRequest, answer: PulsarRequest, error: ErrorCode | None) -> None:
        self.pending.take(frame.direction, request)
        if request.correlation_id == ABSENT:
            request.correlation_id = answer.correlation_id
        if self.rules is not None and (request.api_code == PRODUCER or request.api_code == SUBSCRIBE):
            self.rules.on_answer(request, refused=error is not None)
        self.entries.settle(request, answer, error)
        self.rows.call(request, frame, answer, error)

    @compiled
    def _give_up(self, request: PulsarRequest, until: Any) -> None:
        """No answer came, or was waited for, until a delivery; None: until its own."""
        self.entries.settle(request, None, None)
        self.rows.unanswered(request, until)

    # --- what a row needs of a frame ---

    @compiled
    def _begun(
        self, request: PulsarRequest, facts: FrameFacts, command: PulsarCommand, layout: CommandLayout
    ) -> PulsarRequest:
        """A command of which no more is known than itself says, and nothing yet of what it is about."""
        key = key_of(command, layout)
        id_: cython.longlong = ABSENT if key is None or len(key) < 2 else key[-1]
        request.begin_command(facts, layout.name, layout.code, layout.type, id_)
        request.key = key
        if layout.code == SEND_RECEIPT and command.read_id(SEND_RECEIPT_MESSAGE_ID):
            request.ledger, request.entry = command.ledger(), command.entry()
        if self._full and layout.code != SEND and layout.code != MESSAGE:
            request.body = self._body(command, layout, None)
        return request

    @compiled
    def _describe(self, request: PulsarRequest, frame: Frame, command: PulsarCommand, layout: CommandLayout) -> None:
        """Note what a command is about, and what it carries."""
        if command.readable:
            self.state.set_subject(request, layout, command.fields)
        if layout.code == SEND or layout.code == MESSAGE:
            entry = self.entries.read(frame, command, request)
            if self._full:
                request.body = self._body(command, layout, entry)

    def _body(self, command: PulsarCommand, layout: CommandLayout, entry: PulsarEntry | None) -> str | None:
        """A command as JSON, if a row may show it. Of an answer its request is not known yet."""
        if layout.type.part == REQUEST and not self.sink.wants_body(layout.name):
            return None
        from dissectors.pulsar.bodies import body_of  # only with --full

        return body_of(command, entry, payloads=self.sink.payloads)
