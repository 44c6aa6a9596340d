"""One Kafka connection: frames in, rows out. The modules beside this one do the work; here it is joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from sys import intern
from typing import Any

from dissectors.conversation import Conversation, ConversationSummary
from dissectors.frame import Frame
from dissectors.kafka import envelope
from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.carried import CarriedBatches
from dissectors.kafka.decode import (
    API_VERSIONS,
    ENVELOPE,
    FETCH,
    FETCH_SNAPSHOT,
    JOIN_GROUP,
    PRODUCE,
    REQUEST_HEAD,
    RESPONSE_HEAD,
    SASL_HANDSHAKE,
    SHARE_FETCH,
    UNSUPPORTED_VERSION,
    ApiVersion,
    api_version,
)
from dissectors.kafka.diagnostics import ACKNOWLEDGING, INSPECTED, KafkaDiagnostics, Remark, share_acknowledged
from dissectors.kafka.emit import KafkaEmitter, to_json
from dissectors.kafka.errors import is_known
from dissectors.kafka.frames import measure_request, measure_response, plausible_request
from dissectors.kafka.full import ENDS_EARLY, Full
from dissectors.kafka.match import KafkaPendingRequests
from dissectors.kafka.orphans import LOST_REQUEST, KafkaOrphans, RequestSizes, explain
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.precedents import Precedents
from dissectors.kafka.recovery import BatchRecovery
from dissectors.kafka.resync import Resync
from dissectors.kafka.sessions import FetchSessions
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.resends import AT_END
from dissectors.rows.exchange import (
    CALL,
    OK,
    ONE_WAY,
    ORPHAN,
    UNANSWERED,
    UNKNOWN,
    elapsed,
    held,
    queued,
)
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.rows.table import int64
from dissectors.tcp.chunk import CLIENT, SERVER, Gap
from dissectors.wire.reader import ReadError

_HOLES = 1000  # how many holes are remembered
_CLIENTS = 100  # and how many client ids
_OF_SESSIONS = frozenset({FETCH, SHARE_FETCH})
FETCHES = frozenset({FETCH, SHARE_FETCH, FETCH_SNAPSHOT})
"""Requests whose answers carry batches."""


class KafkaConversation(Conversation):
    """One connection between a client (or broker, or controller) and a broker."""

    steady = True

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.midstream = midstream  # requests may have been on their way when the capture began
        self.answered = False  # whether an answer has been matched
        self.answered_ns: int | None = None  # when the last byte of the newest answer came
        self.waiting = KafkaPendingRequests(options.limits.pending)
        self.emit = KafkaEmitter(self)
        self.raw_sasl = False  # between a SaslHandshake v0 and the first request after it, bare tokens are sent
        self.tokens: Sequence[KafkaRequest] = ()  # tokens of the client that wait for the server's
        self.diagnostics = KafkaDiagnostics() if "findings" in sink.tables else None
        self.software: tuple[str | None, str | None] = (None, None)
        self.last_id: int | None = None  # correlation id of the newest request
        self._client_ids: dict[bytes, str] = {}
        self._used = RequestSizes()
        self._unknown: tuple[tuple[int, int], ...] = ()  # APIs reported as unknown
        self.precedents = Precedents()

    # --- what most connections never need ---

    @cached_property
    def _resync(self) -> Resync:
        return Resync(self)

    @cached_property
    def recovery(self) -> BatchRecovery:
        """The batches behind holes."""
        return BatchRecovery(self)

    @cached_property
    def carried(self) -> CarriedBatches:
        """The batches of requests and answers."""
        return CarriedBatches(self)

    @cached_property
    def orphans(self) -> KafkaOrphans:
        """The answers that nothing explains yet."""
        return KafkaOrphans()

    @cached_property
    def sessions(self) -> FetchSessions:
        """The fetch sessions."""
        return FetchSessions()

    @cached_property
    def _holes(self) -> list[int]:
        """Lengths of the holes in what the client sent."""
        return []

    def _made(self, part: str) -> Any:
        """Such a part, or None where nothing needed it so far."""
        return vars(self).get(part)

    @property
    def held_behind_holes(self) -> int:
        """Bytes kept by a search for batches."""
        recovery: BatchRecovery | None = self._made("recovery")
        return recovery.held if recovery else 0

    # --- what the base class asks ---

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        measure = measure_request if direction == CLIENT else measure_response
        return measure(buf, pos, end, self.options.limits.frame_bytes, self.raw_sasl)

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        return self._resync.find(direction, buf, pos, end, final)

    def on_frame(self, frame: Frame) -> None:
        if self.held_behind_holes:
            self.recovery.finish(frame.direction)
        if frame.direction == CLIENT:
            self._on_request(frame)
        else:
            self._on_response(frame)

    def on_gap(self, direction: int, gap: Gap) -> None:
        if direction == CLIENT and len(self._holes) < _HOLES:
            self._holes.append(gap.length)

    def on_skipped(self, direction: int, start: int, end: int) -> None:
        self.recovery.skipped(direction, start, end)

    def on_close(self) -> None:
        for frame, call in self.explained():
            self.answer_lost(frame, call)
        for call in (*self.tokens, *self.waiting.rest()):
            self._unanswered(call, until=AT_END)
        self.tokens = ()
        self._advise()

    def shed(self) -> None:
        super().shed()
        if self.held_behind_holes:
            self.recovery.finish(CLIENT, SERVER)

    def confirm(self) -> None:
        super().confirm()
        if self._made("recovery"):
            self.recovery.confirm()

    @property
    def held(self) -> int:
        return super().held + self.held_behind_holes

    def summary(self) -> ConversationSummary:
        name, version = self.software
        return super().summary()._replace(client_software=name, client_version=version)

    @property
    def client_ids(self) -> list[bytes]:
        """The client ids seen, as on the wire."""
        return list(self._client_ids)

    # --- requests ---

    def _on_request(self, frame: Frame) -> None:
        data, start = frame.data, frame.start
        have = min(frame.end, frame.known)
        if self.raw_sasl:
            if not plausible_request(data, start, have):
                self.tokens = (*self.tokens, KafkaRequest(frame.facts, None, None, None))
                return
            self.raw_sasl = False
        if have - start < 12:
            if frame.complete:
                self.finding_at(frame, "malformed_frame", "A request too short for its header")
            else:
                self.carried.found(CLIENT, self.recovery.found(frame, have))
            return
        call = self.open_request(frame)
        if call.api_code == PRODUCE and call.values.get("acks") == 0:
            self.carried.settle(call, {}, None)
            self.emit.exchange(ONE_WAY, call)
            return
        for dropped in self.waiting.add(call):
            self._unanswered(dropped)

    def open_request(self, frame: Frame) -> KafkaRequest:
        """What is kept of a request until its answer comes."""
        data, start = frame.data, frame.start
        have = min(frame.end, frame.known)
        _, key, version, correlation_id, n = REQUEST_HEAD.unpack_from(
            data + b"\0\0" if have - start < 14 else data, start
        )
        api = api_version(key, version)
        body = start + 14
        client_id = None
        if not api.has_client_id:
            body = start + 12
        elif n >= 0:
            body += n
            raw = data[start + 14 : body]
            client_id = self._client_ids.get(raw)
            if client_id is None and body <= have:  # the beginning of a name is another name
                client_id = self.note_client_id(raw, frame.offset)
        self.last_id = correlation_id
        call = KafkaRequest(frame.facts, api, correlation_id, client_id)
        if api.known:
            self._request_body(frame, call, api, data, body, have)
            self.note_use(api, frame.size)
            if self.diagnostics is not None:
                self.diagnostics.request(frame, call)
        elif (key, version) not in self._unknown and len(self._unknown) < 1000:
            self._unknown += ((key, version),)
            self.finding_at(
                frame,
                "unknown_api",
                f"{api.name} version {version} is not known: its requests are matched, not decoded",
                key=key,
                version=version,
            )
        return call

    def note_client_id(self, name: bytes, offset: int) -> str:
        """Take note of the client id of a request; its text."""
        text = intern(name.decode("utf-8", "backslashreplace"))  # many connections have the same
        self.precedents.request(offset, text)
        if len(self._client_ids) < _CLIENTS:
            self._client_ids[name] = text
        return text

    def note_use(self, api: ApiVersion, size: int, times: int = 1) -> None:
        """Take note of requests that the client made."""
        self._used.note(api, size, times)

    def _request_body(
        self, frame: Frame, call: KafkaRequest, api: ApiVersion, data: bytes, body: int, have: int
    ) -> None:
        if not frame.complete:
            data = data[:have]
        try:
            body = api.request_body(data, body)
            notes, have = self.recovery.notes(api.note_request, frame, body)
            if self.sink.wants_body(api.name):
                whole = api.full_request(data, body, frame.start + frame.size)
                if api.key == ENVELOPE:
                    call.inner = envelope.open_request(whole.body)
                elif notes.sets:
                    self.emit.describe(frame, notes.sets, whole.body)
                call.body = self._full(frame, api, "request", whole)
        except ReadError:
            self._malformed(frame, api, "request", ENDS_EARLY)
            if api.key == PRODUCE:
                call.found = self.recovery.found(frame, have)
            return
        is_whole = notes.whole
        if not is_whole and not self.sink.wants_body(api.name):
            self._malformed(frame, api, "request", ENDS_EARLY)
        self._requested(frame, call, api, notes)
        if api.key == PRODUCE:
            call.found = self.recovery.found(frame, have)
        elif api.key in ACKNOWLEDGING and self.diagnostics is not None and frame.complete and is_whole:
            whole = api.full_request(data, body, frame.start + frame.size)
            self._remark(frame, share_acknowledged(whole.body))

    def _remark(self, frame: Frame, remark: Remark | None) -> None:
        """Report what is remarkable of a frame, if anything."""
        if remark is not None:
            self.finding_at(frame, remark.kind, remark.message, **remark.evidence)

    def _requested(self, frame: Frame, call: KafkaRequest, api: ApiVersion, notes: BodyNotes) -> None:
        """What the body of a request says."""
        call.topic_keys, call.partitions, call.values = notes.topics, notes.partitions, notes.values
        call.group = notes.values.get("groupId")
        if notes.names:
            self.emit.names.learn(notes.names, frame.first_ns)
        if api.key in _OF_SESSIONS:
            call.session = session = self.sessions.request(notes)
            if session is not None:
                call.topic_keys, call.partitions = session.topics, session.partitions
        elif notes.sets:
            self.carried.sent(frame, call, notes)
        elif api.key == API_VERSIONS and notes.values:
            self.software = (notes.values["clientSoftwareName"], notes.values["clientSoftwareVersion"])

    # --- responses ---

    def _on_response(self, frame: Frame) -> None:
        data, start = frame.data, frame.start
        before_ns = self.answered_ns
        self.answered_ns = frame.arrived_ns
        if self.tokens:
            token, *self.tokens = self.tokens
            self.emit.exchange(CALL, token, frame)
            return
        have = min(frame.end, frame.known)
        if have - start < 8:
            if frame.complete:
                self.finding_at(frame, "malformed_frame", "A response too short for its header")
            else:
                self.carried.found(SERVER, self.recovery.found(frame, have))
            return
        _, correlation_id = RESPONSE_HEAD.unpack_from(data, start)
        call, passed = self.waiting.take(correlation_id)
        for lost in passed:
            self._unanswered(lost, until=frame.order, complete=False)
        if call is None:
            if not self.orphans.hold(frame, correlation_id, self.midstream and not self.answered):
                self._report_orphan(frame, correlation_id)
            return
        self.answer(frame, call, before_ns)

    def answer(self, frame: Frame, call: KafkaRequest, before_ns: int | None) -> None:
        """The answer to a request. before_ns: when the answer before it on this connection had come, if one had."""
        self.answered = True
        assert call.frame is not None
        call.queued_ns = queued(call.frame, frame.facts, int64(before_ns))
        if self.diagnostics is not None and call.queued_ns > 0 and call.api_code not in _OF_SESSIONS:
            self.diagnostics.queued(call.frame, call.api or "", call.queued_ns)
        api = call.api_version
        if api is None or not (api.known or _is_too_new(api, frame.data, frame.start + 8)):
            self.emit.exchange(CALL, call, frame)
        else:
            self._answer(frame, call, api, frame.start + 8, min(frame.end, frame.known))

    def explained(self) -> Iterator[tuple[Frame, KafkaRequest]]:
        """The answers whose requests were not captured, with what is known of these at the end; others are reported."""
        if self.held_behind_holes:
            self.recovery.finish(CLIENT, SERVER)
        if self._made("orphans"):
            for orphan in self.orphans.release():
                call = self._explain(*orphan)
                if call is not None:
                    yield orphan.frame, call

    def _explain(self, frame: Frame, correlation_id: int, early: bool) -> KafkaRequest | None:
        """What is known of the request of an answer; None where that is nothing, and the answer is reported."""
        api = explain(frame, self._used, self._holes)
        if api is None and (self._used.apis or self._holes) and not early:
            self._report_orphan(frame, correlation_id)
            return None
        ids = list(self._client_ids.values())
        call = KafkaRequest(None, api, correlation_id, ids[0] if len(ids) == 1 else None)
        if api is None:
            self.emit.exchange(ORPHAN, call, frame)
            found = self.recovery.found(frame, frame.start + 8)
            lost = self.precedents.of(SERVER, frame.offset).lost_request(correlation_id)
            self.carried.found(SERVER, found, lost, frame.facts)
            return None
        if api not in self._used.apis:
            call.version = ABSENT  # the API is sure, the version is not
        return call

    def answer_lost(self, frame: Frame, call: KafkaRequest) -> None:
        """The answer to a request that was not captured, of an API that is known."""
        assert call.api_version is not None
        self._answer(frame, call, call.api_version, frame.start + 8, min(frame.end, frame.known))

    def _report_orphan(self, frame: Frame, correlation_id: int) -> None:
        message = str(correlation_id).join(LOST_REQUEST)
        self.finding_at(frame, ORPHAN, message, correlation_id=correlation_id)
        found = self.recovery.found(frame, frame.start + 8)
        self.carried.found(SERVER, found, self.precedents.of(SERVER, frame.offset).lost_request(correlation_id))

    def _answer(self, frame: Frame, call: KafkaRequest, api: ApiVersion, body: int, have: int) -> None:
        data = frame.data if frame.complete else frame.data[:have]
        if _is_too_new(api, data, body):
            api = api_version(API_VERSIONS, 0)  # a broker that does not know the version answers in the oldest
        text = None
        try:
            body = api.response_body(data, body)
            notes, have = self.recovery.notes(api.note_response, frame, body)
            if self.sink.wants_body(api.name):
                whole = api.full_response(data, body, frame.start + frame.size)
                if api.key == ENVELOPE:
                    envelope.open_response(whole.body, call.inner or {})
                if notes.sets:
                    self.emit.describe(frame, self.carried.sets(frame, api, notes, body), whole.body)
                text = self._full(frame, api, "response", whole)
        except ReadError:
            self._malformed(frame, api, "response", ENDS_EARLY)
            self.carried.settle(call, {}, None)
            self.emit.exchange(ORPHAN if call.frame is None else CALL, call, frame)
            if api.key in FETCHES:
                self.carried.found(SERVER, self.recovery.found(frame, have), call, frame.facts)
            return
        if not notes.whole and not self.sink.wants_body(api.name):
            self._malformed(frame, api, "response", ENDS_EARLY)
        self._answered(frame, call, api, notes, body, have, text)

    def _answered(
        self,
        frame: Frame,
        call: KafkaRequest,
        api: ApiVersion,
        notes: BodyNotes,
        body: int,
        have: int,
        text: str | None,
    ) -> None:
        """What the body of an answer says, from `body` to `have`. text: all of it, where that is wanted."""
        faults = notes.faults
        for fault in faults:
            if not is_known(fault.code):
                message = f"{api.name} was answered with error {fault.code}"
                self.finding_at(frame, "unknown_error", message, code=fault.code)
        if notes.names:
            self.emit.names.learn(notes.names, frame.first_ns)
        records = payload = None
        long_poll = 0
        if api.key in FETCHES:
            records, payload = self.carried.fetched(frame, call, api, notes, body)
            self.carried.found(SERVER, self.recovery.found(frame, have), call, frame.facts)
            long_poll = self._waited_for_data(frame, call, notes, payload)
            if api.key == FETCH:
                failed = bool(faults) and faults[0].scope == "request"
                self.sessions.answer(call.values, call.session, notes.values.get("sessionId"), failed)
        elif api.key == PRODUCE:
            if call.batches or call.found:
                codes = {(f.topic, f.partition): f.code for f in faults}
                bases = {(topic, partition): base for topic, partition, base in notes.pairs}
                self.carried.settle(call, codes, bases, frame.order)
        elif api.key == JOIN_GROUP and self.diagnostics is not None and not faults:
            self.diagnostics.joined(frame, call.values.get("groupId"), notes.values.get("generationId"))
        elif api.key == SASL_HANDSHAKE and api.version == 0 and not faults:
            self.raw_sasl = True
        if api.key in INSPECTED and self.diagnostics is not None and not faults and call.frame is not None:
            self._remark(frame, self.diagnostics.answered(api, call.values, notes.values))
        self.emit.exchange(
            ORPHAN if call.frame is None else CALL,
            call,
            frame,
            status=OK if notes.whole else UNKNOWN,
            faults=faults,
            topics=notes.topics if call.session is None else (),
            partitions=notes.partitions,
            throttle_ms=notes.throttle_ms,
            records=records,
            payload_bytes=payload,
            long_poll=long_poll,
            body=text,
        )

    @staticmethod
    def _waited_for_data(frame: Frame, call: KafkaRequest, notes: BodyNotes, payload: int) -> int:
        """Whether a broker held a fetch until it had something, or as long as it may."""
        if call.frame is None or (call.values.get("maxWaitMs") or 0) <= 0 or notes.throttle_ms:
            return 0
        return held(elapsed(call.frame.last_ns, frame.first_ns), call.queued_ns, payload)

    # --- both ---

    def _advise(self) -> None:
        if self.diagnostics is None:
            return
        clients = list(self._client_ids.values())
        for kind, message, first, evidence in self.diagnostics.findings():
            self.finding(
                kind,
                message,
                direction=first.direction,
                time=first.time,
                packet_ref=first.packet_ref,
                offset=first.offset,
                client_id=clients[0] if clients else None,
                software=" ".join(filter(None, self.software)) or None,
                **evidence,
            )

    def _unanswered(self, call: KafkaRequest, *, until: int | None = None, **columns: Any) -> None:
        self.carried.settle(call, {}, None)
        self.emit.exchange(UNANSWERED, call, until=until, **columns)

    def _full(self, frame: Frame, api: ApiVersion, what: str, full: Full) -> str:
        """A body as JSON; what is odd about it becomes a finding."""
        if full.trouble:
            self._malformed(frame, api, what, full.trouble)
        elif full.left and frame.complete:
            self.finding_at(
                frame,
                "trailing_bytes",
                f"{full.left} bytes follow the body of this {api.name} {what}; brokers ignore them",
                api=api.name,
                version=api.version,
                bytes=full.left,
            )
        return to_json(full.body)

    def _malformed(self, frame: Frame, api: ApiVersion, what: str, trouble: object) -> None:
        if frame.complete:
            self.finding_at(
                frame,
                "malformed_frame",
                f"This {api.name} {what} is not as version {api.version} should be: {trouble}",
                api=api.name,
                version=api.version,
            )


def _is_too_new(api: ApiVersion, data: bytes, body: int) -> bool:
    """Whether a broker answers that it does not know the version in which its versions were asked for."""
    return api.key == API_VERSIONS and data[body : body + 2] == UNSUPPORTED_VERSION.to_bytes(2, "big")
