"""One Kafka connection: frames in, rows out. The rooms around it do the work; here it is joined."""

from __future__ import annotations

from typing import Any

from dissectors.conversation import Conversation, Frame, Summary
from dissectors.kafka import batches, envelope
from dissectors.kafka.advice import Watch
from dissectors.kafka.decode import (
    API_VERSIONS,
    ENDS_EARLY,
    ENVELOPE,
    FETCH,
    FETCH_SNAPSHOT,
    JOIN_GROUP,
    NOT_DECODED,
    PRODUCE,
    REQUEST_HEAD,
    RESPONSE_HEAD,
    SASL_HANDSHAKE,
    SHARE_FETCH,
    UNSUPPORTED_VERSION,
    Full,
    Spoken,
    after_tags,
    spoken,
    within,
)
from dissectors.kafka.emit import CONSUME, METADATA_TOPIC_ID, REPLICATE, Emitter, to_json
from dissectors.kafka.emit import PRODUCE as PRODUCED
from dissectors.kafka.frames import Resync, measure_request, measure_response, plausible_request
from dissectors.kafka.match import Call, Waiting
from dissectors.kafka.orphans import Orphans, explain
from dissectors.kafka.secrets import CLUSTER_METADATA
from dissectors.kafka.sessions import Sessions, kept_waiting
from dissectors.kafka.skim import Skim
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.sink import Sink
from dissectors.tcp.chunk import CLIENT, Gap

_SIZES = 1000  # how many lengths are remembered
_CLIENTS = 100  # and how many client ids
METADATA_LOG = (METADATA_TOPIC_ID, CLUSTER_METADATA)
_FETCHES = frozenset({FETCH, SHARE_FETCH})


class KafkaConversation(Conversation):
    """One connection between a client (or broker, or controller) and a broker."""

    steady = True

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.midstream = midstream  # requests may have been on their way when the capture began
        self.answered = False  # whether an answer has been matched
        self.waiting = Waiting(options.limits.pending)
        self.sessions = Sessions()
        self.emit = Emitter(self)
        self.raw_sasl = False  # between a SaslHandshake v0 and the first request after it, bare tokens are sent
        self.tokens: list[Call] = []  # tokens of the client that wait for the server's
        self.watch = Watch() if "findings" in sink.tables else None
        self.software: tuple[str | None, str | None] = (None, None)
        self.orphans = Orphans()
        self.last_id: int | None = None  # correlation id of the newest request
        self._client_ids: dict[bytes, str] = {}
        self._spoken: dict[Spoken, dict[int, int]] = {}  # what the client speaks, and the lengths of its requests
        self._holes: list[int] = []  # lengths of the holes in what the client sent
        self._unknown: tuple[tuple[int, int], ...] = ()  # APIs told as unknown
        self._resync = Resync(self)

    # --- what the base class asks ---

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        measure = measure_request if direction == CLIENT else measure_response
        return measure(buf, pos, end, self.options.limits.frame_bytes, self.raw_sasl)

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        return self._resync.find(direction, buf, pos, end, final)

    def on_frame(self, frame: Frame) -> None:
        if frame.direction == CLIENT:
            self._on_request(frame)
        else:
            self._on_response(frame)

    def on_gap(self, direction: int, gap: Gap) -> None:
        if direction == CLIENT and len(self._holes) < _SIZES:
            self._holes.append(gap.length)

    def on_close(self) -> None:
        for orphan in self.orphans.release():
            self._explain(*orphan)
        for call in (*self.tokens, *self.waiting.rest()):
            self._unanswered(call, complete=None)
        self.tokens.clear()
        self._advise()

    def summary(self) -> Summary:
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
                self.tokens.append(Call(frame, None, None, None))
                return
            self.raw_sasl = False
        if have - start < 12:
            if frame.complete:
                self.finding_at(frame, "malformed_frame", "error", "A request too short for its header")
            return
        call = self.ask(frame)
        if call.spoken is not None and call.spoken.key == PRODUCE and call.values.get("acks") == 0:
            self._produced(call, {}, None)
            self.emit.exchange("oneway", call)
            return
        dropped = self.waiting.add(call)
        if dropped is not None:
            self._unanswered(dropped, complete=None)

    def ask(self, frame: Frame) -> Call:
        """A request with its header: what is kept of it until its answer comes."""
        data, start = frame.data, frame.start
        have = min(frame.end, frame.known)
        _, key, version, correlation_id, n = REQUEST_HEAD.unpack_from(
            data + b"\0\0" if have - start < 14 else data, start
        )
        said = spoken(key, version)
        body = start + 14
        client_id = None
        if not said.has_client_id:
            body = start + 12
        elif n >= 0:
            body += n
            raw = data[start + 14 : body]
            client_id = self._client_ids.get(raw)
            if client_id is None:
                client_id = self.meet(raw) if body <= have else raw.decode("utf-8", "backslashreplace")
        self.last_id = correlation_id
        call = Call(frame, said, correlation_id, client_id)
        if said.known:
            self._request_body(frame, call, said, data, body, have)
            self.spoke(said, frame.size)
            if self.watch is not None:
                self.watch.request(frame, call)
        elif (key, version) not in self._unknown and len(self._unknown) < 1000:
            self._unknown += ((key, version),)
            self.finding_at(
                frame,
                "unknown_api",
                "warning",
                f"{said.api} version {version} is not known: its requests are matched, not decoded",
                key=key,
                version=version,
            )
        return call

    def meet(self, name: bytes) -> str:
        """Take note of a client id; its text."""
        text = name.decode("utf-8", "backslashreplace")
        if len(self._client_ids) < _CLIENTS:
            self._client_ids[name] = text
        return text

    def spoke(self, said: Spoken, size: int, times: int = 1) -> None:
        """Take note of requests that the client made."""
        sizes = self._spoken.get(said)
        if sizes is None:
            sizes = self._spoken[said] = {}
        if len(sizes) < _SIZES:
            sizes[size] = sizes.get(size, 0) + times

    def _request_body(self, frame: Frame, call: Call, said: Spoken, data: bytes, body: int, have: int) -> None:
        if not frame.complete:
            data = data[:have]
        try:
            if said.request_tags:
                body = after_tags(data, body)
            skim = said.skim_request(data, body, have)
            if not skim.whole:
                skim = within(said.skim_request, data, body, have)
            if self.sink.full:
                whole = said.full_request(data, body, frame.start + frame.size)
                if said.key == ENVELOPE:
                    call.inner = envelope.open_request(whole.body)
                elif skim.sets:
                    self.emit.describe(frame, skim.sets, whole.body)
                call.text = self._full(frame, said, "request", whole)
        except NOT_DECODED:
            self._malformed(frame, said, "request", ENDS_EARLY)
            return
        if not skim.whole and not self.sink.full:
            self._malformed(frame, said, "request", ENDS_EARLY)
        call.topics, call.partitions, call.values = skim.topics, skim.partitions, skim.values
        if skim.names:
            self.emit.learn(skim.names, frame.first_ns)
        if said.key in _FETCHES:
            call.session = self.sessions.request(skim)
            if call.session is not None:
                call.topics, call.partitions = call.session.topics, call.session.partitions
        elif skim.sets:
            self._carried(frame, call, skim)
        elif said.key == API_VERSIONS and skim.values:
            self.software = (skim.values["clientSoftwareName"], skim.values["clientSoftwareVersion"])

    def _carried(self, frame: Frame, call: Call, skim: Skim) -> None:
        """Count the records of a Produce, and look at its batches while its bytes are there."""
        total = size = 0
        known, limit = min(frame.known, frame.end), self.options.limits.decompressed_bytes
        carried = []
        old = batches.old_format(True, call.version) if call.version is not None else None
        for records in skim.sets:
            size += records.size
            if not self.emit.looks:
                total += batches.count(frame.data, records.start, records.size, known, limit)[0]
                continue
            seen = self.emit.look(frame, records, lenient=False, old=old)
            total += sum(batch.unit.records or 0 for batch in seen)
            carried.append((records.topic, records.partition, seen))
            if self.watch is not None:
                self.watch.batches(frame, PRODUCED, records.topic, records.partition, seen)
        call.records, call.payload_bytes = total, size
        if carried:
            call.batches = carried

    def _produced(self, call: Call, codes: dict[Any, int], bases: dict[Any, int] | None) -> None:
        """Tell the batches of a Produce, now that it is known what became of them."""
        for topic, partition, seen in call.batches:
            code, base = codes.get((topic, partition), 0), None
            outcome = "unknown" if bases is None else "error" if code else "ok"
            if bases is not None and not code:
                base = bases.get((topic, partition))
                if base is None:
                    outcome = "unknown"
                elif base < 0:
                    base = None
            if code and self.watch is not None:
                self.watch.refused(topic, partition, seen)
            self.emit.batches(PRODUCED, call, topic, partition, seen, outcome, base)

    # --- responses ---

    def _on_response(self, frame: Frame) -> None:
        data, start = frame.data, frame.start
        if self.tokens:
            self.emit.exchange("call", self.tokens.pop(0), frame)
            return
        have = min(frame.end, frame.known)
        if have - start < 8:
            if frame.complete:
                self.finding_at(frame, "malformed_frame", "error", "A response too short for its header")
            return
        _, correlation_id = RESPONSE_HEAD.unpack_from(data, start)
        call, passed = self.waiting.take(correlation_id)
        for lost in passed:
            self._unanswered(lost, complete=False)
        if call is None:
            if not self.orphans.hold(frame, correlation_id, self.midstream and not self.answered):
                self._tell_orphan(frame, correlation_id)
            return
        self.answer(frame, call)

    def answer(self, frame: Frame, call: Call) -> None:
        """The answer to a request."""
        self.answered = True
        said = call.spoken
        if said is None or not said.known:
            self.emit.exchange("call", call, frame)
        else:
            self._answer(frame, call, said, frame.start + 8, min(frame.end, frame.known))

    def _explain(self, frame: Frame, correlation_id: int, early: bool) -> None:
        """An answer to a request that was not captured, now that all that was captured is known."""
        said = explain(frame, self._spoken, self._holes)
        if said is None and (self._spoken or self._holes) and not early:
            self._tell_orphan(frame, correlation_id)
            return
        ids = list(self._client_ids.values())
        call = Call(frame, said, correlation_id, ids[0] if len(ids) == 1 else None)
        call.seen = False
        if said is None:
            self.emit.exchange("orphan", call, frame)
            return
        if said not in self._spoken:
            call.version = None  # the API is sure, the version is not
        self._answer(frame, call, said, frame.start + 8, min(frame.end, frame.known))

    def _tell_orphan(self, frame: Frame, correlation_id: int) -> None:
        self.finding_at(
            frame,
            "orphan",
            "info",
            f"An answer with correlation id {correlation_id}, whose request was not captured",
            correlation_id=correlation_id,
        )

    def _answer(self, frame: Frame, call: Call, said: Spoken, body: int, have: int) -> None:
        kind = "call" if call.seen else "orphan"
        data = frame.data if frame.complete else frame.data[:have]
        if said.key == API_VERSIONS and data[body : body + 2] == UNSUPPORTED_VERSION.to_bytes(2, "big"):
            said = spoken(API_VERSIONS, 0)  # a broker that does not know the version answers in the oldest
        text = None
        try:
            if said.response_tags:
                body = after_tags(data, body)
            skim = said.skim_response(data, body, have)
            if not skim.whole:
                skim = within(said.skim_response, data, body, have)
            if self.sink.full:
                whole = said.full_response(data, body, frame.start + frame.size)
                if said.key == ENVELOPE:
                    envelope.open_response(whole.body, call.inner or {})
                if skim.sets:
                    self.emit.describe(frame, skim.sets, whole.body)
                text = self._full(frame, said, "response", whole)
        except NOT_DECODED:
            self._malformed(frame, said, "response", ENDS_EARLY)
            self._produced(call, {}, None)
            self.emit.exchange(kind, call, frame)
            return
        if not skim.whole and not self.sink.full:
            self._malformed(frame, said, "response", ENDS_EARLY)
        faults = skim.faults
        if skim.names:
            self.emit.learn(skim.names, frame.first_ns)
        records = payload = None
        long_poll = False
        if said.key in _FETCHES or said.key == FETCH_SNAPSHOT:
            records, payload, newest = self._fetched(frame, call, said, skim)
            long_poll = not skim.throttle_ms and kept_waiting(
                call.values, call.last_ns, frame.first_ns, payload, newest
            )
            if said.key == FETCH:
                failed = bool(faults) and faults[0].scope == "request"
                self.sessions.answer(call.values, call.session, skim.values.get("sessionId"), failed)
        elif said.key == PRODUCE:
            if call.batches:
                codes = {(f.topic, f.partition): f.code for f in faults}
                self._produced(call, codes, {(topic, partition): base for topic, partition, base in skim.pairs})
        elif said.key == JOIN_GROUP and self.watch is not None and not faults:
            self.watch.joined(frame, str(call.values.get("groupId")), skim.values.get("generationId"))
        elif said.key == SASL_HANDSHAKE and said.version == 0 and not faults:
            self.raw_sasl = True
        if faults:
            self.emit.errors(call, frame, faults)
        status = "error" if faults else "ok" if skim.whole else "unknown"
        self.emit.exchange(
            kind,
            call,
            frame,
            status,
            faults,
            skim.topics if call.session is None else (),
            skim.partitions,
            skim.throttle_ms,
            records,
            payload,
            long_poll,
            text,
        )

    def _fetched(self, frame: Frame, call: Call, said: Spoken, skim: Skim) -> tuple[int, int, int]:
        """(records, bytes of record sets, newest timestamp in ms) of an answer to a fetch; its batches are told."""
        replica = call.values.get("replicaId")
        role = REPLICATE if said.key == FETCH_SNAPSHOT or (replica is not None and replica >= 0) else CONSUME
        total, newest = 0, batches.NO_TIMESTAMP
        known = min(frame.known, frame.end)
        old = batches.old_format(False, said.version) if said.key == FETCH else None
        for records in skim.sets:
            if records.topic in METADATA_LOG:
                self.emit.learn_from_log(frame, records)
            if self.emit.looks:
                seen = self.emit.look(frame, records, lenient=True, old=old)
                if self.watch is not None:
                    self.watch.batches(frame, role, records.topic, records.partition, seen)
                self.emit.batches(role, call, records.topic, records.partition, seen, "ok", None)
                total += sum(batch.unit.records or 0 for batch in seen)
                newest = max([newest, *(batch.unit.max_timestamp for batch in seen)])
            else:
                limit = self.options.limits.decompressed_bytes
                n, latest = batches.count(frame.data, records.start, records.size, known, limit)
                total += n
                newest = max(newest, latest)
        return total, sum(records.size for records in skim.sets), newest

    # --- both ---

    def _advise(self) -> None:
        if self.watch is None:
            return
        clients = list(self._client_ids.values())
        for kind, severity, message, first, evidence in self.watch.findings():
            self.finding(
                kind,
                severity,
                message,
                direction=first.direction,
                time=first.time,
                place=first.place,
                offset=first.offset,
                client_id=clients[0] if clients else None,
                software=" ".join(filter(None, self.software)) or None,
                **evidence,
            )

    def _unanswered(self, call: Call, complete: bool | None) -> None:
        self._produced(call, {}, None)
        self.emit.exchange("unanswered", call, complete=complete)

    def _full(self, frame: Frame, said: Spoken, what: str, full: Full) -> str:
        """A body as JSON; what is odd about it becomes a finding."""
        if full.trouble:
            self._malformed(frame, said, what, full.trouble)
        elif full.left and frame.complete:
            self.finding_at(
                frame,
                "trailing_bytes",
                "info",
                f"{full.left} bytes follow the body of this {said.api} {what}; brokers ignore them",
                api=said.api,
                version=said.version,
                bytes=full.left,
            )
        return to_json(full.body)

    def _malformed(self, frame: Frame, said: Spoken, what: str, trouble: object) -> None:
        if frame.complete:
            self.finding_at(
                frame,
                "malformed_frame",
                "error",
                f"This {said.api} {what} is not as version {said.version} should be: {trouble}",
                api=said.api,
                version=said.version,
            )
