"""One Pulsar connection: frames in, rows out. Other modules do the work; this one says in which order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

from dissectors.conversation import Conversation, ConversationSummary
from dissectors.frame import Frame
from dissectors.options import Options
from dissectors.pulsar import frames, resync
from dissectors.pulsar.batches import PulsarEntry
from dissectors.pulsar.commands import (
    COMMANDS,
    CONNECT,
    CONNECTED,
    ERROR,
    FAILING,
    INITIAL_RESPONSE,
    ONE_WAY,
    PAYLOAD,
    PRODUCER_SUCCESS,
    REQUEST,
    SEND_RECEIPT,
    SPACES,
    SUCCESS,
    CommandRole,
    CommandType,
    part_of,
    request_of,
)
from dissectors.pulsar.decode import DecodedCommand, decode, first_number, to_dict
from dissectors.pulsar.diagnostics import PulsarDiagnostics
from dissectors.pulsar.emit import PulsarEmitter, signed
from dissectors.pulsar.entries import Entries, position_of
from dissectors.pulsar.errors import ALWAYS_ERRORS, error_code, error_in, may_fail
from dissectors.pulsar.match import Key, PulsarPendingRequests, key_of
from dissectors.pulsar.orphans import LostRequests
from dissectors.pulsar.pending import PulsarRequest
from dissectors.pulsar.state import PulsarState
from dissectors.records import Conn
from dissectors.resends import AT_END
from dissectors.rows.exchange import UNKNOWN, ErrorCode, Report
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.tcp.chunk import CLIENT, SERVER, Gap

NO_REQUEST = -1  # the request_id, 2^64-1, of what answers no request
_NEW_TYPES = 64  # of which a finding says that no table knows them


class PulsarConversation(Conversation):
    """See dissectors.conversation.Conversation."""

    steady = True

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        report = Report(conn, sink, self.resends)
        self.state = PulsarState(options.limits.pending // 10)
        self.pending = PulsarPendingRequests(options.limits.pending)
        self.emit = PulsarEmitter(report, self.state)
        self.entries = Entries(self, self.state, report)
        watched = report.wants_findings or report.wants_errors
        self.diagnostics = PulsarDiagnostics(self, self.emit) if watched else None
        self.limit = options.limits.frame_bytes  # of a frame, as far as this connection has said
        self.lost_requests = LostRequests()
        self.client_end = 0  # stream offset at which the client's last frame ended
        self._new_types: set[int] = set()  # types of commands that no table knows

    def release(self) -> None:
        vars(self.entries).clear()  # they refer to themselves
        super().release()

    # --- frames ---

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        return frames.measure(buf, pos, end, self.options.limits.frame_bytes)

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        limit = self.limit if direction == SERVER else self.options.limits.frame_bytes
        return resync.search(buf, pos, end, limit, direction, final, self.budget(direction))

    def on_gap(self, direction: int, gap: Gap) -> None:
        self.pending.gap(direction, gap.order)
        if direction == CLIENT and gap.offset == self.client_end:
            self.lost_requests.add_hole(gap.order, self.frames, gap.length)

    def on_frame(self, frame: Frame) -> None:
        decoded = decode(frame, self.options.limits.command_bytes)
        if frame.direction == CLIENT:
            self.client_end = frame.offset + frame.size
        if decoded.defect is not None:
            self.finding_at(frame, "malformed_frame", decoded.defect, type=decoded.code)
        if frame.size > self.limit:
            self.finding_at(frame, "oversized_frame", "A frame larger than the broker allows", limit=self.limit)
        command = decoded.command
        if command is None:
            self._on_new_type(frame, decoded)
            return
        part = part_of(command, frame.direction, decoded.body)
        if part is REQUEST:
            self._on_request(frame, decoded, command)
        elif part is ONE_WAY:
            self._on_one_way(frame, decoded, command)
        else:
            self._on_answer(frame, decoded, command, part)

    def on_close(self) -> None:
        for request in self.pending.rest():
            self._give_up(request, until=AT_END)
        if self.diagnostics is not None:
            self.diagnostics.close(self.last_ns)

    def summary(self) -> ConversationSummary:
        state = self.state
        return (
            super()
            .summary()
            ._replace(
                dialect=state.dialect,
                client_software=state.client_software,
                client_version=state.client_version,
                server_version=state.server_version,
            )
        )

    def lower_limit(self) -> None:
        """The broker has said how large a frame may be."""
        if self.state.max_message_size is not None:
            self.limit = min(self.limit, self.state.max_message_size + frames.PADDING)

    # --- the parts that a command may take ---

    def _on_request(self, frame: Frame, decoded: DecodedCommand, command: CommandType) -> None:
        key = key_of(command, decoded.body)
        request = self._request(frame, decoded, command, key)
        self._describe(request, frame, decoded, command)
        if decoded.body is not None:
            self._update(frame, command, decoded.body, request, request)
        if key is None and decoded.cut and SPACES[command.code][0]:
            key = (SPACES[command.code][0], None)  # its id was not captured
        if key is None:
            self._give_up(request)
        else:
            self._open(frame.direction, key, request)

    def _on_one_way(self, frame: Frame, decoded: DecodedCommand, command: CommandType) -> None:
        request = self._request(frame, decoded, command, key_of(command, decoded.body))
        self._describe(request, frame, decoded, command)
        if decoded.body is not None:
            self._update(frame, command, decoded.body, request, request)
        self.emit.one_way(frame.direction, request)

    def _on_answer(self, frame: Frame, decoded: DecodedCommand, command: CommandType, part: CommandRole) -> None:
        body = decoded.body
        key = key_of(command, body)
        answer = self._request(frame, decoded, command, key)
        open_key = self._find(frame, command, key, decoded.cut)
        request = None if open_key is None else self.pending.find(frame.direction, open_key)
        if request is None:
            self._describe(answer, frame, decoded, command)
        if body is not None:
            self._update(frame, command, body, answer, request or answer)
        topic = (request or answer).topic
        error = None if body is None else error_in(body, topic)
        if error is None and command.code in ALWAYS_ERRORS:
            error = error_code(None, None, topic)  # which one was not captured
        if decoded.cut and error is None and may_fail(command.code):
            answer.status = UNKNOWN  # what would say so was not captured
        if open_key is None or request is None:
            self._on_orphan(frame, answer, command, part, key, error)
        elif command.code == PRODUCER_SUCCESS and body is not None and not body.producer_ready:
            request.answer_announced = True  # the producer is queued for an exclusive topic
            answer.topic, answer.topics, answer.partitions = request.topic, request.topics, request.partitions
            self.emit.one_way(frame.direction, answer)
        else:
            self._close(frame, open_key, answer, error)

    def _update(
        self, frame: Frame, command: CommandType, body: Any, own: PulsarRequest, request: PulsarRequest
    ) -> None:
        """Take what a command changes. `own`: the command; `request`: the request that it answers, or itself."""
        self.state.update(command.name, body, request)
        self.lost_requests.update(command.name, body)
        if command.code == CONNECTED:
            self.lower_limit()
        if self.diagnostics is not None:
            self.diagnostics.inspect(frame, command, body, own)

    def _on_orphan(
        self,
        frame: Frame,
        answer: PulsarRequest,
        command: CommandType,
        part: CommandRole,
        key: Key | None,
        error: ErrorCode | None,
    ) -> None:
        """An answer to nothing that is open: its request was not captured, or it needs none."""
        unrequested = answer.correlation_id == NO_REQUEST
        if command.code == ERROR and unrequested and not self.state.connected:
            answer.command, answer.correlation_id = COMMANDS[CONNECT], ABSENT
            self.emit.orphan(answer, error)
        elif part is INITIAL_RESPONSE or unrequested:
            self.emit.one_way(frame.direction, answer, error)
        else:
            if command.code == SUCCESS and key is not None:
                answer.command = self.lost_requests.explain(frame.order, self.frames, key[-1]) or command
            if answer.command is not None and answer.command.part is not REQUEST and request_of(answer.command) is None:
                self._report_orphan(frame, answer, command, error)
            else:
                self.emit.orphan(answer, error)

    def _report_orphan(
        self, frame: Frame, answer: PulsarRequest, command: CommandType, error: ErrorCode | None
    ) -> None:
        """An answer that many requests may have: a finding, for no row can say which exchange it is half of."""
        if error is not None:
            self.emit.error(error, answer)
        self.finding_at(
            frame,
            "orphan",
            f"{command.name} answers a request that was not captured",
            correlation_id=answer.correlation_id,
        )

    def _on_new_type(self, frame: Frame, decoded: DecodedCommand) -> None:
        """A command that is newer than the table. Most carry a request id in field 1; only that is used."""
        if decoded.code not in self._new_types and len(self._new_types) < _NEW_TYPES:
            self._new_types.add(decoded.code)
            self.finding_at(frame, "unknown_api", f"Command type {decoded.code} is not known", type=decoded.code)
        number = first_number(frame, decoded.after)
        request = PulsarRequest(frame, None, decoded.code, None if number is None else signed(number))
        key = ("new type", number)
        if number is not None and self.pending.find(frame.direction, key) is not None:
            self._close(frame, key, request, None)
        elif number is not None and frame.direction == CLIENT:
            self._open(frame.direction, key, request)
        else:
            self.emit.one_way(frame.direction, request)

    # --- open requests ---

    def _open(self, direction: int, key: Key, request: PulsarRequest) -> None:
        overdue = self.pending.add(direction, key, request)
        if overdue is not None:
            self._give_up(overdue)

    def _find(self, frame: Frame, command: CommandType, key: Key | None, cut: bool) -> Key | None:
        """The key under which a request is open that this command answers."""
        direction, pending = frame.direction, self.pending
        if key is None:
            return pending.only(direction, SPACES[command.code][0]) if cut else None
        if command.by == "ping":
            for lost in pending.take_outlived(direction, key, frame.order):
                self._give_up(lost, until=frame.order)
        if pending.find(direction, key) is not None:
            return key
        without_id = pending.without_id(direction, key[0])
        if without_id is not None:
            return without_id
        if command.by != "request":
            return None
        spaces = (*FAILING, "new type") if command.code == ERROR else ("new type",)
        keys: Iterable[Key] = ((space, *key[1:]) for space in spaces)
        if command.code == ERROR:
            keys = chain(keys, (("connect",),))  # a login is refused without its id
        return next((key for key in keys if pending.find(direction, key) is not None), None)

    def _close(self, frame: Frame, key: Key, answer: PulsarRequest, error: ErrorCode | None) -> None:
        request = self.pending.take(frame.direction, key)
        assert request is not None
        if request.correlation_id == ABSENT:
            request.correlation_id = answer.correlation_id
        self.entries.settle(request, answer, error)
        self.emit.call(request, frame, answer, error)

    def _give_up(self, request: PulsarRequest, *, until: int | None = None) -> None:
        self.entries.settle(request, None, None)
        self.emit.unanswered(request, until=until)

    # --- what a row needs of a frame ---

    def _request(self, frame: Frame, decoded: DecodedCommand, command: CommandType, key: Key | None) -> PulsarRequest:
        id_ = signed(key[-1]) if key and len(key) > 1 else None
        request = PulsarRequest(frame, command, command.code, id_)
        body = decoded.body
        if command.code == SEND_RECEIPT and body is not None and body.HasField("message_id"):
            request.position = position_of(body.message_id)
        if self._shows(command) and command.code not in PAYLOAD:
            request.body = self._text(body, None)
        return request

    def _describe(self, request: PulsarRequest, frame: Frame, decoded: DecodedCommand, command: CommandType) -> None:
        """What a command is about, and what it carries."""
        self.state.set_subject(request, command, decoded.body)
        if command.code in PAYLOAD:
            entry = self.entries.read(frame, decoded, request)
            if self._shows(command):
                request.body = self._text(decoded.body, entry)

    def _shows(self, command: CommandType) -> bool:
        """Whether a command may be in a row that has bodies. Of an answer its request is not known yet."""
        return self.sink.full and (command.part is not REQUEST or self.sink.wants_body(command.name))

    def _text(self, body: Any, entry: PulsarEntry | None) -> str | None:
        """A command as JSON: its fields, and the metadata that came with it."""
        if body is None:
            return None
        payloads = self.sink.payloads
        shown = to_dict(body, payloads=payloads)
        if entry is not None:
            if entry.broker is not None:
                shown["broker_entry_metadata"] = to_dict(entry.broker, payloads=payloads)
            if entry.meta is not None:
                shown["metadata"] = to_dict(entry.meta, payloads=payloads)
        return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
