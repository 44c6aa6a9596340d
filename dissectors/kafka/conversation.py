"""One Kafka connection: frames in, rows out. The modules beside this one do the work; here it is joined."""

from __future__ import annotations

from typing import Any

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import Derived, carried
from dissectors.kafka import bodies, positions, special
from dissectors.kafka.body_notes import BodyNotes, Topic
from dissectors.kafka.client_ids import ClientIds
from dissectors.kafka.decode import (
    API_VERSIONS,
    FETCH,
    FETCH_SNAPSHOT,
    FIND_COORDINATOR,
    PRODUCE,
    SHARE_FETCH,
    UNSUPPORTED_VERSION,
    ApiVersion,
    api_version,
)
from dissectors.kafka.errors import is_known
from dissectors.kafka.events import KafkaEvents
from dissectors.kafka.fetch import allow, asked, fetching, received, waited_for_data
from dissectors.kafka.frames import measure_request, measure_response, measure_stranger, names_client
from dissectors.kafka.full import ENDS_EARLY
from dissectors.kafka.loss import orphans
from dissectors.kafka.loss.doubts import KINDS as DOUBTED
from dissectors.kafka.loss.doubts import DoubtedFinding, Doubts, LostFraming
from dissectors.kafka.loss.orphans import KafkaOrphans
from dissectors.kafka.loss.recovery import BatchRecovery
from dissectors.kafka.loss.resync import Resync
from dissectors.kafka.match import KafkaPendingRequests
from dissectors.kafka.names import TopicNames
from dissectors.kafka.pending import KafkaRequest, new_request
from dissectors.kafka.precedents import Precedent, Precedents
from dissectors.kafka.produce import sent, settle
from dissectors.kafka.request_sizes import RequestSizes
from dissectors.kafka.rows import KafkaRows
from dissectors.kafka.served import VersionsAnswer, refusal
from dissectors.kafka.sessions import FetchSessions
from dissectors.kafka.tokens import BareTokens
from dissectors.kafka.verify import BatchVerifier
from dissectors.kafka.walk import Walker, walkers_of
from dissectors.kafka.words import ACKS_PLACE, SESSION_PLACE
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.rows.table import RowTable
from dissectors.session.conversation import Conversation, ConversationSummary
from dissectors.session.exchange import CALL, OK, ONE_WAY, ORPHAN, UNANSWERED, Report, queued
from dissectors.session.frame import Frame
from dissectors.session.inbox import INVALID, MORE
from dissectors.session.resends import AT_END
from dissectors.tcp.chunk import CLIENT, SERVER, Chunk, Gap
from dissectors.wire.reader import ReadError, WireReader

REQUEST_AT_LEAST, RESPONSE_AT_LEAST = 12, 8  # bytes of a header
BEHIND_ID, WITHOUT_ID = 14, 12  # where a client id begins, or what follows where there is none

_HOLES = 1000  # how many holes are remembered
_REMEMBERED = 64  # bytes of the end of a request in which the next one may begin
_UNKNOWN = 1000  # and how many APIs that the tables do not have


@carried
@compiled
class KafkaConversation(Conversation):
    """One connection between a client (or broker, or controller) and a broker."""

    midstream: cython.bint  # requests may have been on their way when the capture began
    answered: cython.bint  # whether an answer has been matched
    answered_ns: cython.longlong  # when the last byte of the newest answer came
    waiting: KafkaPendingRequests
    rows: KafkaRows
    verifier: BatchVerifier
    events: KafkaEvents
    sessions: FetchSessions
    used: RequestSizes
    precedents: Precedents
    tokens: BareTokens
    clients: ClientIds
    software: tuple[str | None, str | None]
    last_id: cython.longlong  # correlation id of the newest request
    first_fetch: cython.longlong  # stream offset of the first answer to a fetch
    unknown_apis: tuple[tuple[int, int], ...]  # that were reported
    holes_of_client: list[int]  # lengths of the holes in what the client sent
    _resync: Resync | None
    _recovery: BatchRecovery | None
    _orphans: KafkaOrphans | None
    newest: KafkaRequest | None  # the newest request, where another may follow right behind it
    _holding: cython.bint  # whether what looks wrong is kept as a doubt
    _doubts: Doubts | None  # what looks wrong in the newest request
    _lost: LostFraming | None  # while the request behind it is searched
    served: VersionsAnswer | None  # which versions the broker serves, once it has said so
    _frame_limit: Derived[cython.longlong]
    _full: Derived[cython.bint]
    _requests: Derived[Walker]
    _answers: Derived[Walker]

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.midstream = midstream
        self.answered = False
        self.answered_ns = ABSENT
        self.waiting = KafkaPendingRequests(options.limits.pending)
        names = TopicNames(sink)
        self.rows = KafkaRows(Report(conn, sink, self.resends, self.closing), names)
        self.verifier = BatchVerifier(self, self.rows.report, names)
        self.events = KafkaEvents()
        self.sessions = FetchSessions()
        self.used = RequestSizes()
        self.precedents = Precedents()
        self.tokens = BareTokens()
        self.clients = ClientIds(self.precedents)
        self.software = (None, None)
        self.last_id = ABSENT
        self.first_fetch = ABSENT
        self.unknown_apis = ()
        self.holes_of_client = []
        self._resync = None
        self._recovery = None
        self._orphans = None
        self.newest = None
        self._holding = False
        self._doubts = None
        self._lost = None
        self.served = None
        self.inboxes[CLIENT].remembers = _REMEMBERED
        self.restored()

    def restored(self) -> None:
        """Set what follows from the options and from the tables that are wanted."""
        self._frame_limit, self._full = self.options.limits.frame_bytes, self.sink.full
        self._requests, self._answers = walkers_of(self.sink)

    # --- what most connections never need ---

    def recovery(self) -> BatchRecovery:
        """The batches behind holes."""
        if self._recovery is None:
            self._recovery = BatchRecovery(self)
        return self._recovery

    @property
    def held_behind_holes(self) -> int:
        """Bytes kept by a search for batches."""
        return 0 if self._recovery is None else self._recovery.held

    # --- what the base class asks ---

    def measure(
        self, direction: cython.int, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.longlong:
        """Size of the frame at buf[pos]: see Framing."""
        reader: WireReader
        if direction == CLIENT:
            reader = self._requests.reader
            reader.open(buf, pos, end)
            size: cython.longlong = measure_request(reader, self._frame_limit, self.tokens.expected)
            if size > 0:
                if (
                    self.last_id == ABSENT
                    or self.tokens.expected
                    or names_client(reader, pos, self.clients.latest, self.clients.size)
                ):
                    return size
                return measure_stranger(buf, pos, end, size, self.last_id)
            return self._measure_token(buf, pos, end) if size == INVALID and self.frames == 0 else size
        reader = self._answers.reader
        reader.open(buf, pos, end)
        return measure_response(reader, self._frame_limit, self.tokens.expected)

    def measure_cut(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        """Size of a frame of which no more bytes will come: see Framing."""
        if direction == SERVER:
            return MORE
        reader: WireReader = self._requests.reader
        reader.open(buf, pos, end)
        return measure_request(reader, self._frame_limit, self.tokens.expected)

    def mistaken(self, direction: int) -> Chunk | None:
        """The bytes of the newest request, in which the next one may begin: see Framing."""
        inbox, call = self.inboxes[direction], self.newest
        if direction == SERVER or call is None or call.frame is None or not call.frame.complete:
            return None
        if call.frame.offset + call.frame.size != inbox.offset:
            return None
        if self._doubts is not None and self._doubts.framed is not None:
            return self._doubts.framed
        return inbox.before(call.frame.offset + 1)

    def frame_within(self, direction: int, buf: bytes, start: int, end: int) -> int:
        """Where another request begins within one that never ended: see Framing."""
        if direction == SERVER or self.tokens.expected:
            return -1
        at, found = self.resync(direction, buf, start, end, True)
        return at if found else -1

    def on_lost(self, direction: int) -> None:
        """The newest request is not as long as it announces: see Framing."""
        inbox = self.inboxes[direction]
        if self.newest is not None:
            self._lost = LostFraming(self.newest, inbox.offset, *inbox.origin(inbox.offset))
        self.newest = None

    def on_found(self, direction: int, offset: int) -> bool:
        """The next request begins at a stream offset: see Framing."""
        if self._lost is None or direction == SERVER:
            return False
        lost, self._lost = self._lost, None
        lost.found(self, self._doubts, offset)
        return True

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        """Where a frame begins again: see Framing."""
        if self._resync is None:
            self._resync = Resync(self)
        return self._resync.find(direction, buf, pos, end, final)

    def on_frame(self, frame: Frame) -> None:
        """A request or an answer."""
        if self._recovery is not None:
            self._recovery.finish(frame.direction)
        if frame.direction == CLIENT:
            self._request(frame)
        else:
            self._response(frame)

    def on_gap(self, direction: int, gap: Gap) -> None:
        """Requests or answers may have been in a hole."""
        if direction == CLIENT:
            self._settle_doubts()
            self.newest = None
        if direction == SERVER:
            self.waiting.lose()
        elif len(self.holes_of_client) < _HOLES:
            self.holes_of_client.append(gap.length)

    def on_skipped(self, direction: int, start: int, end: int) -> None:
        """Bytes are in no frame: batches may be among them, and answers."""
        if direction == SERVER:
            self.waiting.lose()
        self.recovery().skipped(direction, start, end)

    def on_close(self) -> None:
        """Report what has no answer."""
        self._settle_doubts()
        if self._recovery is not None:
            self._recovery.finish(CLIENT, SERVER)
        for orphan in self._orphans.release() if self._orphans is not None else ():
            call = orphans.explained(self, *orphan)
            if call is not None:
                assert call.api_version is not None
                self._answer(orphan.frame, call, call.api_version, min(orphan.frame.end, orphan.frame.known))
        for call in (*(self.tokens.waiting or ()), *self.waiting.rest()):
            self._report_unserved(call)
            self._unanswered(call, AT_END, explained=False)
        self.tokens.waiting = None

    def release(self) -> None:
        """Let go of what refers to this conversation."""
        self.verifier.conversation = None
        self._resync = self._recovery = None

    def shed(self) -> None:
        """Give up what is not whole."""
        super().shed()
        self._settle_doubts()
        if self._recovery is not None:
            self._recovery.finish(CLIENT, SERVER)

    def confirm(self) -> None:
        """It is Kafka."""
        super().confirm()
        if self._recovery is not None:
            self._recovery.confirm()

    @property
    def held(self) -> int:
        """Bytes kept for frames that are not whole yet, for batches behind holes and for doubts."""
        doubted = self._doubts.framed if self._doubts is not None else None
        return super().held + self.held_behind_holes + (0 if doubted is None else len(doubted.data))

    def summary(self) -> ConversationSummary:
        """For the connection's row."""
        return ConversationSummary(None, *self.software)

    @property
    def client_ids(self) -> list[bytes]:
        """The client ids seen, as on the wire."""
        return list(self.clients.texts)

    # --- requests ---

    @compiled
    def _request(self, frame: Frame) -> None:
        have: cython.Py_ssize_t = min(frame.end, frame.known)
        self.newest = None
        if self._doubts is not None:
            self._settle_doubts()
        if self.tokens.expected and self.tokens.is_sent(self, frame, have):
            return
        if have - frame.start < REQUEST_AT_LEAST:
            self._too_short(frame, have, "A request too short for its header")
            return
        self._holding = frame.complete
        call: KafkaRequest = self._open_request(frame, have)
        self._holding = False
        self.newest = call
        if self._doubts is not None:
            self._doubts.begin(self, frame, call)
        if call.acks == 0:
            if self._doubts is None:
                self.sent_one_way(call)
            return
        dropped = self.waiting.add(call)
        if dropped is not None:
            self._unanswered(dropped, None, explained=False)

    @compiled
    def _open_request(self, frame: Frame, have: cython.Py_ssize_t) -> KafkaRequest:
        """Read a request; what is kept of it until its answer comes."""
        reader: WireReader = self._requests.reader
        start: cython.Py_ssize_t = frame.start
        key: cython.int
        version: cython.int
        client: cython.longlong = -1
        client_id: str | None = None
        reader.open(frame.data, start + 4, have)
        key = reader.i16()
        version = reader.i16()
        self.last_id = reader.i32()
        if have - start >= BEHIND_ID:
            client = reader.i16()
        api: ApiVersion = api_version(key, version)
        at: cython.Py_ssize_t = start + BEHIND_ID
        if not api.has_client_id:
            at = start + WITHOUT_ID
        elif client >= 0:
            at += client
            client_id = self.clients.read(frame, at - client, at, have)
        else:
            self.clients.size = -1
        call: KafkaRequest = new_request(frame.facts(), api, self.last_id, client_id)
        if api.known:
            self._request_body(frame, call, api, at, have)
            self.used.note(api, frame.size)
        else:
            self._report_unknown(frame, api)
        return call

    @compiled
    def _request_body(
        self, frame: Frame, call: KafkaRequest, api: ApiVersion, at: cython.Py_ssize_t, have: cython.Py_ssize_t
    ) -> None:
        """Read what follows the client id of a request, at an index."""
        notes: BodyNotes
        shown: cython.bint = False
        try:
            if frame.complete:
                notes = api.note_request(self._requests, frame.data, at, frame.end)
            else:
                notes, have = self.recovery().notes(self._requests, api, frame, at)
            if self._full and self.sink.wants_body(api.name):
                shown = True
                bodies.show_request(self, frame, call, api, notes, at)
        except ReadError:
            self.report_malformed(frame, api, "request", ENDS_EARLY)
            self._find_batches(frame, call, api, have)
            return
        if not notes.whole and not shown:
            self.report_malformed(frame, api, "request", ENDS_EARLY)
        call.topic_keys = notes.topics()
        call.partitions = notes.partitions
        call.group = notes.group()
        if notes.both:
            self.rows.names.learn(notes.names(), frame.first_ns)
        if api.key == PRODUCE:
            call.acks = notes.number(ACKS_PLACE)
            if notes.record_sets.count:
                sent(self.rows, self.verifier, frame, call, notes)
            if not frame.complete:
                self._find_batches(frame, call, api, have)
        elif api.key == FETCH or api.key == SHARE_FETCH or api.key == FETCH_SNAPSHOT:
            asked(call, notes)
            if api.key == FETCH:
                call.session = self.sessions.fetch(call.session_number, call.session_epoch, notes)
        if api.special:
            special.requested(self, frame, call, api, notes, at)
        if self.rows.report.wants_events and api.eventful:
            self.events.requested(self, frame, call, api, at)
        if self.rows.report.wants_positions:
            positions.asked(self, call, api, notes)
        if call.session is not None:
            call.topic_keys, call.partitions = call.session.topics, call.session.partitions
        if call.max_wait_ms != ABSENT:
            allow(call)

    # --- answers ---

    @compiled
    def _response(self, frame: Frame) -> None:
        reader: WireReader = self._answers.reader
        have: cython.Py_ssize_t = min(frame.end, frame.known)
        before_ns: cython.longlong = self.answered_ns
        api: ApiVersion
        self.answered_ns = frame.first_ns if frame.last_ns == ABSENT else frame.last_ns
        if self.tokens.waiting and self.tokens.is_answered(self, frame, have):
            return
        if have - frame.start < RESPONSE_AT_LEAST:
            self._too_short(frame, have, "A response too short for its header")
            return
        reader.open(frame.data, frame.start + 4, have)
        correlation_id: cython.longlong = reader.i32()
        call: KafkaRequest | None = self.waiting.take(correlation_id)
        if call is None and correlation_id == 0:
            call = self._take_unnumbered()
        if call is None:
            if self._orphans is None:
                self._orphans = KafkaOrphans()
            if not self._orphans.hold(frame, correlation_id, self.midstream and not self.answered):
                orphans.report(self, frame, correlation_id)
            return
        if self.waiting.lost:
            for passed in self.waiting.passed(call):
                self._unanswered(passed, frame.order, explained=True)
        if call.number > self.waiting.newest:
            self.waiting.newest = call.number
        elif self.rows.report.wants_events:
            self.rows.report.event("overtaken", call, frame.facts())
        assert call.frame is not None
        assert call.api_version is not None
        api = call.api_version
        self.answered = True
        call.queued_ns = queued(call.frame, frame, before_ns)
        self._answer(frame, call, api, have)

    @compiled
    def _answer(self, frame: Frame, call: KafkaRequest, api: ApiVersion, have: cython.Py_ssize_t) -> None:
        """Read an answer to a request of this API."""
        notes: BodyNotes
        body: str | None = None
        at: cython.Py_ssize_t = frame.start + RESPONSE_AT_LEAST
        shown: cython.bint = False
        if api.key == API_VERSIONS and self._is_refused(frame, at, have):
            api = api_version(API_VERSIONS, 0)  # a broker that does not know the version answers in the oldest
        if not api.known:
            self.write_unread(frame, call)
            return
        try:
            if frame.complete:
                notes = api.note_response(self._answers, frame.data, at, frame.end)
            else:
                notes, have = self.recovery().notes(self._answers, api, frame, at)
            if self._full and self.sink.wants_body(api.name):
                shown = True
                body = bodies.shown_response(self, frame, call, api, notes, at)
        except ReadError:
            self.report_malformed(frame, api, "response", ENDS_EARLY)
            self._settle_unread(call)
            self.write_unread(frame, call)
            if not frame.complete and api.key in (FETCH, SHARE_FETCH, FETCH_SNAPSHOT):
                self.recovery().report(SERVER, self.recovery().found(frame, have), call, frame.facts())
            return
        if not notes.whole and not shown:
            self.report_malformed(frame, api, "response", ENDS_EARLY)
        self._answer_noted(frame, call, api, notes, have, body)

    @compiled
    def _answer_noted(
        self,
        frame: Frame,
        call: KafkaRequest,
        api: ApiVersion,
        notes: BodyNotes,
        have: cython.Py_ssize_t,
        body: str | None,
    ) -> None:
        """Write what the body of an answer says, of which bytes up to index `have` count. body: as JSON, if wanted."""
        long_poll: cython.longlong = 0
        faults = notes.faults() if notes.errors.count else []
        if faults:
            self._report_unknown_codes(frame, api, notes)
        if notes.both:
            self.rows.names.learn(notes.names(), frame.first_ns)
        if api.key == PRODUCE:
            settle(self.rows, call, notes, True)
            if call.found:
                self.recovery().report(CLIENT, call.found, call, call.frame)
        elif api.key == FETCH or api.key == SHARE_FETCH or api.key == FETCH_SNAPSHOT:
            role = self._fetch_role(frame, call, api)
            found = received(self.rows, self.verifier, frame, call, api, notes, role)
            if not frame.complete:
                self.recovery().report(SERVER, self.recovery().found(frame, have), call, frame.facts())
            long_poll = waited_for_data(frame, call, notes, found)
            if api.key == FETCH:
                self.sessions.answer(
                    call.session_number,
                    call.session_epoch,
                    call.session,
                    notes.number(SESSION_PLACE),
                    bool(faults) and faults[0].scope == "request",
                )
        if api.special and not faults:
            special.answered(self, frame, call, api, notes)
        if self.rows.report.wants_events and self.events.looks_at(api, call, notes, faults):
            self.events.answered(self, frame, call, api, notes, faults)
        if self.rows.report.wants_positions:
            positions.answered(self, frame, call, api, notes, faults)
        if not self.rows.report.wants_exchanges:
            self.rows.errors(call, frame, faults)
            return
        if call.partitions == ABSENT or call.partitions == 0:
            call.partitions = notes.partitions
        topics: tuple[Topic, ...] = ()
        if call.session is None or not call.session.gapless:
            topics = notes.topics()
            if topics and call.session is not None:
                call.session.answered(topics)
        slot: cython.Py_ssize_t = self.rows.open_exchange(
            ORPHAN if call.frame is None else CALL,
            call,
            frame,
            topics,
            faults,
            None,
        )
        table: RowTable = self.rows.report.exchanges
        if notes.whole and not faults:
            table.put_text(slot, fields.EXCHANGE_STATUS, OK)
        table.waiting[slot, fields.EXCHANGE_THROTTLE_MS] = notes.throttle
        table.waiting[slot, fields.EXCHANGE_LONG_POLL] = long_poll
        if body is not None:
            table.put(slot, fields.EXCHANGE_RESPONSE, body)
        self.rows.report.finish_exchange(slot)

    # --- what looks wrong in a request that may be another one's beginning ---

    def finding(
        self, kind: str, message: str, *, direction: int | None = None, time: int | None = None, **more: Any
    ) -> None:
        """Report a finding, or keep it as a doubt: see ConnectionReporter."""
        if self._holding and kind in DOUBTED:
            if self._doubts is None:
                self._doubts = Doubts()
            self._doubts.findings.append(DoubtedFinding(kind, message, direction, time, more))
        else:
            super().finding(kind, message, direction=direction, time=time, **more)

    def _settle_doubts(self) -> None:
        """Tell what is wrong in the newest request: it is as long as it announces, or that will not be known."""
        if self._lost is not None:
            lost, self._lost = self._lost, None
            lost.settle(self)
        if self._doubts is not None:
            doubts, self._doubts = self._doubts, None
            doubts.settle(self)

    # --- what is rare in requests and answers ---

    def _measure_token(self, buf: bytes, pos: int, end: int) -> int:
        """Size of what a connection begins with instead of a request: a SASL token without a handshake, or INVALID."""
        token = self.tokens.begin(buf, pos, end)
        if token:
            self._requests.reader.open(buf, pos, end)
            return measure_request(self._requests.reader, self._frame_limit, True)
        return MORE if token is None and end - pos > 4 else INVALID

    def _take_unnumbered(self) -> KafkaRequest | None:
        """The request that an answer with the id 0 is for, where none has it.

        Kafka 0.8.2 answers so to FindCoordinator while it has no topic for offsets.
        """
        call = self.waiting.oldest(FIND_COORDINATOR, 0)
        return None if call is None else self.waiting.take(call.correlation_id)

    def _too_short(self, frame: Frame, have: int, message: str) -> None:
        """A frame does not have a whole header."""
        if frame.complete:
            self.finding_at(frame, "malformed_frame", message)
        else:
            self.recovery().report(frame.direction, self.recovery().found(frame, have))

    def _report_unknown(self, frame: Frame, api: ApiVersion) -> None:
        if (api.key, api.version) not in self.unknown_apis and len(self.unknown_apis) < _UNKNOWN:
            self.unknown_apis += ((api.key, api.version),)
            message = f"{api.name} version {api.version} is not known: its requests are matched, not decoded"
            self.finding_at(frame, "unknown_api", message, key=api.key, version=api.version)

    def _report_unserved(self, call: KafkaRequest) -> None:
        """Report a request without an answer if the broker said before that it does not serve its version."""
        api, frame = call.api_version, call.frame
        reason = refusal(self.served, api) if self.served is not None and api is not None else None
        if reason is not None and frame is not None:
            self.finding(
                "unserved_version",
                reason[0].upper() + reason[1:],
                direction=CLIENT,
                time=frame.first_ns,
                packet_ref=frame.packet_ref,
                offset=frame.offset,
                length=frame.size,
                api=call.api,
                version=call.version,
            )

    def _report_unknown_codes(self, frame: Frame, api: ApiVersion, notes: BodyNotes) -> None:
        for fault in notes.faults():
            if not is_known(fault.code):
                message = f"{api.name} was answered with error {fault.code}"
                self.finding_at(frame, "unknown_error", message, code=fault.code)

    def _find_batches(self, frame: Frame, call: KafkaRequest, api: ApiVersion, have: int) -> None:
        """Look for the batches of a Produce that was not captured whole, from an index on."""
        if api.key == PRODUCE and not frame.complete:
            call.found = self.recovery().found(frame, have)

    def sent_one_way(self, call: KafkaRequest) -> None:
        """A Produce that nobody answers."""
        self._settle_unread(call)
        if self.rows.report.wants_exchanges:
            self.rows.report.finish_exchange(self.rows.open_exchange(ONE_WAY, call, None, (), [], None))

    def _settle_unread(self, call: KafkaRequest) -> None:
        """Write the batches of a Produce, of which it is not known what became of them."""
        settle(self.rows, call, self._answers.notes, False)
        if call.found and call.frame is not None:
            self.recovery().report(CLIENT, call.found, call, call.frame)

    def write_unread(self, frame: Frame, call: KafkaRequest) -> None:
        """Write an exchange of whose answer nothing is known but that it came."""
        if self.rows.report.wants_exchanges:
            kind = ORPHAN if call.frame is None else CALL
            self.rows.report.finish_exchange(self.rows.open_exchange(kind, call, frame, (), [], None))

    def _unanswered(self, call: KafkaRequest, until: int | None, *, explained: bool) -> None:
        """A request waits no longer. until: the delivery up to which it did. explained: its answer was lost."""
        self._settle_unread(call)
        if self.rows.report.wants_exchanges:
            slot = self.rows.open_exchange(UNANSWERED, call, None, (), [], until)
            if explained:
                self.rows.report.exchanges.put(slot, fields.EXCHANGE_COMPLETE, False)
            self.rows.report.finish_exchange(slot)

    def _is_refused(self, frame: Frame, at: int, have: int) -> bool:
        """Whether a broker says that it does not know the version in which its versions were asked for."""
        return frame.data[at : min(have, at + 2)] == UNSUPPORTED_VERSION.to_bytes(2, "big")

    def _fetch_role(self, frame: Frame, call: KafkaRequest, api: ApiVersion) -> str:
        """The role of the batches in an answer to a fetch."""
        if call.frame is None:
            return self.precedents.of(SERVER, frame.offset).role
        role = fetching(api.key, call.replica)
        if self.first_fetch == ABSENT or frame.offset < self.first_fetch:
            self.first_fetch = frame.offset
            self.precedents.answer(Precedent(frame.offset, api.key, call.client_id, role))
        return role

    # --- findings ---

    def report_malformed(self, frame: Frame, api: ApiVersion, what: str, trouble: object) -> None:
        """Report a request or response that is not as its version should be; one with holes may look so."""
        if frame.complete:
            self.finding_at(
                frame,
                "malformed_frame",
                f"This {api.name} {what} is not as version {api.version} should be: {trouble}",
                api=api.name,
                version=api.version,
            )
