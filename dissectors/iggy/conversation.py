"""One Iggy connection: frames in, rows out. The rooms around it do the work; here it is joined."""

from __future__ import annotations

import json
from bisect import bisect_right
from itertools import takewhile
from typing import Any

from dissectors.conversation import MORE, Conversation, Frame, Summary
from dissectors.iggy import frames, layouts, replica, tables
from dissectors.iggy.decode import NON_REPLICATED, Body, body, legacy, result_section, vsr_reply, vsr_request
from dissectors.iggy.emit import CONSUME, PRODUCE, Emitter, message_dicts
from dissectors.iggy.era import Era
from dissectors.iggy.errors import TRANSIENT, Fault, eviction, fault
from dissectors.iggy.frames import EVICTION, LEGACY, REPLY, REQUEST, VSR, Clues
from dissectors.iggy.match import ORPHAN, PAIRED, SURPLUS, Answer, Call, Pairing
from dissectors.iggy.names import TEACHING, Names
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.sink import Sink
from dissectors.tcp.chunk import CLIENT, SERVER, Gap

GET_CLUSTER_METADATA, POLL_MESSAGES = 12, 100
_LOOKED_AT = 64  # requests in flight
_REFUSALS = 1024  # requests refused for now that are remembered
LIKELY = 0.75  # confidence from which other connections may take over what is believed here …
LAST_RESORT = 1 << 62  # … told as if later than everything (ns): what a connection knows for certain goes before
DISCONNECTED = 8
_ROOT = "iggy"
_ROOT_IDS = {0: ("0.6", ""), 1: ("", "0.5")}  # the root user's id -> the releases that give it
_LOGINS = {"LOGIN_REGISTER": (38, "LOGIN_USER"), "LOGIN_REGISTER_WITH_PAT": (44, "LOGIN_WITH_PERSONAL_ACCESS_TOKEN")}
_LOGIN_APIS = frozenset({"LOGIN_USER", "LOGIN_WITH_PERSONAL_ACCESS_TOKEN"})


class IggyConversation(Conversation):
    """One connection between a client and a server, or between two replicas."""

    steady = True

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.era = Era(tables.asked_for(options.iggy_era) if options.iggy_era else 0)
        self.emit = Emitter(self, self.era)
        self.names = Names(conn, sink)
        self.pairing = Pairing(self._fits, options.limits.pending, midstream=midstream)
        self.framing: str | None = None
        if not (self.era.has(LEGACY) and self.era.has(VSR)):
            self._frame_as(LEGACY if self.era.has(LEGACY) else VSR)
        self._software: tuple[str | None, str | None, str | None] = (None, None, None)
        self._ends = [0, 0]  # stream offset after the last frame of a direction
        self._surplus = 0  # answers to no request since the last pair
        self._surplus_at = (0, 0, 0)  # time, place and stream offset of the first
        self._retries: dict[int, int] = {}  # status -> requests sent again after it
        self._refused: dict[tuple[int, int | None, int], int] = {}  # operation, id, size of what was refused -> status
        self._unknown: set[int] = set()
        self._begun: int | None = None  # when the first frame came

    # --- what the base class asks ---

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        most = self.options.limits.frame_bytes
        if self.framing is None:
            framing = frames.detect(direction, buf, pos, end, most)
            if framing is None and not self._beheaded(direction, buf, pos, end):
                return MORE
            self._frame_as(framing or VSR)
        size = frames.measure(self.framing or LEGACY, direction, buf, pos, end, most)
        if size == MORE and self.framing == VSR:
            return self._beheaded(direction, buf, pos, end)
        return size

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        clues = Clues(self.era.allowed, self.options.limits.frame_bytes)
        if direction == SERVER:
            waiting = [entry for entry in self.pairing.queue if isinstance(entry, Call)]
            newest = list(takewhile(lambda call: not self._has_payload(call), reversed(waiting)))
            clues = clues._replace(
                awaited=frozenset(call.code or -1 for call in waiting[-_LOOKED_AT:]),
                waiting=len(waiting),
                empties=0 if self.pairing.pipelined else len(newest),
                earliest=self._after(newest[-1].order, end) if newest else 0,
            )
            if waiting:
                pos = max(pos, self._after(waiting[0].order, end))
        at, found, framing = frames.resync(self.framing, direction, buf, pos, end, final, clues)
        if found and framing:
            self._frame_as(framing)
        return at, found

    def on_frame(self, frame: Frame) -> None:
        lost = self._lost(frame)
        if self._begun is None:
            self._begun = frame.first_ns
        if self.framing == VSR:
            self._on_vsr(frame, lost)
        elif frame.direction == CLIENT:
            self._on_request(frame)
        else:
            self._on_answer(frame, lost)

    def on_gap(self, direction: int, gap: Gap) -> None:
        inbox = self.inboxes[direction]
        within = inbox.size > 0 and inbox.pos < len(inbox.buf)
        lost = gap.offset + gap.length - max(self._ends[direction], gap.offset)
        if direction == CLIENT and not within and lost > 0:
            self.pairing.hole(gap.order, lost)

    def on_close(self) -> None:
        for call in self.pairing.close():
            self.emit.exchange(call, None, kind="unanswered")
        self._tell_surplus()
        self.emit.flush()
        if self._begun is not None and self.era.confidence() >= LIKELY:
            self.emit.tell_dialect(self._begun if self.era.settled else LAST_RESORT)
        if self.frames:
            self._tell_era()
        if self._retries:
            self.finding(
                "retries",
                "info",
                f"{sum(self._retries.values())} requests were refused for now and sent again",
                by_code=self._retries,
            )

    def summary(self) -> Summary:
        name, version, server = self._software
        return (
            super()
            .summary()
            ._replace(
                dialect=self.emit.dialect() if self.frames else None,
                client_software=name,
                client_version=version,
                server_version=server,
            )
        )

    # --- framing ---

    def _frame_as(self, framing: str) -> None:
        if self.framing is None:
            self.framing = framing
            self.era.narrow(tables.of_framing(framing), f"{framing} framing")

    def _after(self, order: int, end: int) -> int:
        """Index of the first byte from the server that was delivered after a request: no answer begins before."""
        inbox = self.inboxes[SERVER]
        piece = bisect_right(inbox.orders, order)
        return end if piece == len(inbox.orders) else min(end, inbox.starts[piece] - inbox.base)

    def _beheaded(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        """Size of a VSR frame whose packet was cut by the snap length before the size could be read, else MORE.

        All that was captured is zero, as a client's header begins; the packet is taken for the frame.
        """
        queue = self.inboxes[direction].queue
        if end - pos < frames.ZEROS_TOLD or not queue:
            return MORE
        gap = queue[0]
        if not isinstance(gap, Gap) or gap.reason != "snaplen":
            return MORE
        if self.framing is None and any(buf[pos:end]):
            return MORE
        return end - pos + gap.length

    def _lost(self, frame: Frame) -> int:
        """Bytes of this direction between the last frame and this one."""
        end = self._ends[frame.direction]
        self._ends[frame.direction] = frame.offset + frame.size
        return frame.offset - end

    # --- legacy framing ---

    def _on_request(self, frame: Frame) -> None:
        _, code = legacy(frame)
        if frame.known - frame.start < 8:
            return
        read = self._body(layouts.REQUEST, code, frame, frame.start + 8)
        call = self._call(frame, code, self._name(code), read)
        self._send(call, read, frame)

    def _on_answer(self, frame: Frame, lost: int) -> None:
        if frame.known - frame.start < 8:
            return
        status, length = legacy(frame)
        answer = Answer(frame.order, frame.first_ns, status, length)
        judged, call, given_up = self.pairing.answer(answer, lost)
        self._give_up(given_up)
        if judged == PAIRED and call is not None:
            self._tell_surplus()
            self._answered(call, frame, status, frame.start + 8)
        else:
            self._unasked(judged, frame, status)

    def _unasked(self, judged: str, frame: Frame, status: int) -> None:
        """An answer to nothing that was captured, or to nothing at all."""
        error = fault(status, self.era.allowed) if status else None
        if judged == SURPLUS:
            if status == DISCONNECTED:
                self.emit.lone(frame, "push", "DISCONNECTED", None, fault=error)
                return
            self._surplus += 1
            if self._surplus == 1:
                self._surplus_at = (frame.first_ns, frame.place, frame.offset)
            self.emit.lone(frame, "orphan", None, None, fault=error)
            return
        run = None
        if frame.size >= 24 and not status and judged == ORPHAN:
            read = self._body(layouts.RESPONSE, POLL_MESSAGES, frame, frame.start + 8)
            run = read.run if read.exact else None
        if run and run.messages:
            self._lone_poll(read, frame)
        else:
            self._orphan(frame, status)

    def _tell_surplus(self) -> None:
        """Answers and requests are paired again: tell of the answers that were none."""
        if not self._surplus:
            return
        time, place, offset = self._surplus_at
        self.finding(
            "pairing_lost",
            "warning",
            f"{self._surplus} answers belong to no request: the server took bytes for frames that were none",
            direction=SERVER,
            time=time,
            place=place,
            offset=offset,
            answers=self._surplus,
        )
        self._surplus = 0

    def _lone_poll(self, read: Body, frame: Frame) -> None:
        run = read.run
        assert run is not None
        partition = read.values.get("partition_id")
        self.emit.put_batches(self.emit.batch_rows(run, frame, CONSUME, None, partition, "POLL_MESSAGES", None))
        self.emit.lone(
            frame,
            "orphan",
            "POLL_MESSAGES",
            POLL_MESSAGES,
            records=run.total,
            payload_bytes=sum(m.payload_length for m in run.messages),
            body=self._text(read, frame, status=0),
        )

    # --- VSR framing ---

    def _on_vsr(self, frame: Frame, lost: int) -> None:
        if frame.known - frame.start < 64:
            self._on_beheaded(frame, lost)
            return
        command = frame.data[frame.start + frames.COMMAND_AT]
        if command == REQUEST:
            self._on_vsr_request(frame)
        elif command == REPLY:
            self._on_vsr_reply(frame, lost)
        elif command == EVICTION:
            self._on_eviction(frame)
        else:
            replica.rows(frame, command, self.emit)

    def _on_beheaded(self, frame: Frame, lost: int) -> None:
        """A frame of which the snap length left too little to tell more than its size and time."""
        if any(frame.data[frame.start : min(frame.known, frame.end)]):
            return  # the middle of a larger frame
        if frame.direction == CLIENT:
            self._give_up(self.pairing.call(self._call(frame, None, None, Body(None, {}))))
            return
        judged, call, given_up = self.pairing.answer(Answer(frame.order, frame.first_ns, 0, 0), lost)
        self._give_up(given_up)
        if judged == PAIRED and call is not None:
            self.emit.exchange(call, frame, status="unknown")

    def _on_vsr_request(self, frame: Frame) -> None:
        header = vsr_request(frame)
        if header is None:
            return
        if header.routed:
            self.era.narrow(tables.span("vsr-0.10", ""), "routing fields in a request's header")
        operation = tables.operations().get(header.operation)
        if header.operation == NON_REPLICATED:
            code, api = header.code, self._name(header.code)
            read = self._body(layouts.REQUEST, code, frame, frame.start + 256)
        elif header.operation == 1:
            read = self._body(layouts.REQUEST, layouts.REGISTER, frame, frame.start + 256)
            code, api = _LOGINS.get(read.name or "", (38, "LOGIN_USER"))
        else:
            code = operation.code if operation else 0
            api = self._name(code) if code else operation.name if operation else f"OPERATION_{header.operation}"
            read = self._body(layouts.REQUEST, code, frame, frame.start + 256) if code else Body(None, {})
        call = self._call(frame, code or None, api, read)
        call.request_id, call.operation = header.request, header.operation
        refused = self._refused.pop((header.operation, header.request, frame.size), None)
        if refused is not None:
            self._retries[refused] = self._retries.get(refused, 0) + 1
        self._check_request(frame, header.checksum)
        self._send(call, read, frame)

    def _check_request(self, frame: Frame, stored: int) -> None:
        """request_checksum: in 0.9 the XXH3-64 of the body where it is not zero; later 128 random bits."""
        if stored >> 64:
            self.era.narrow(tables.span("vsr-0.10", ""), "a random id in place of a request's checksum")
        elif stored and frame.complete:
            if not self.era.settled and replica.body_checksum(frame) == stored:
                self.era.narrow(tables.span("vsr-0.9", "vsr-0.9"), "a request's checksum fits its body")
            if self.era.settled and self.era.dialect == "iggy-vsr-0.9":
                replica.check_body(self, frame, stored, "request_checksum")

    def _on_vsr_reply(self, frame: Frame, lost: int) -> None:
        header = vsr_reply(frame)
        if header is None:
            return
        if header.committed:
            self.era.narrow(tables.span("vsr-0.10", ""), "a committed marker in a reply's header")
        self.pairing.multiplexed = self.era.settled and self.era.dialect == "iggy-vsr-0.10"
        operation = tables.operations().get(header.operation)
        asked = operation.request if operation else header.operation
        answer = Answer(frame.order, frame.first_ns, header.status, frame.size - 256, header.request, asked)
        judged, call, given_up = self.pairing.answer(answer, lost)
        self._give_up(given_up)
        status, start = header.status, frame.start + 256
        if not status and operation and operation.result:
            status, start = result_section(frame.data, start, min(frame.known, frame.end))
        if judged == PAIRED and call is not None:
            self._answered(call, frame, status, start)
            return
        code = operation.code if operation and header.operation != NON_REPLICATED else 0
        error = fault(status, self.era.allowed) if status else None
        if code:
            self.emit.lone(frame, "orphan", self._name(code), code, request_id=header.request, fault=error)
        else:
            self._orphan(frame, status)

    def _on_eviction(self, frame: Frame) -> None:
        if not frame.complete:
            return
        error = eviction(frame.data[frame.start + 255], self.era.allowed)
        call = self.pairing.oldest(frame.order)
        if call is None:
            self.emit.lone(frame, "push", "EVICTION", EVICTION, fault=error)
            return
        self.emit.exchange(call, frame, faults=(error,))

    # --- requests ---

    def _name(self, code: int) -> str:
        command = tables.meaning(code, self.era.best)
        return command.name if command else f"COMMAND_{code}"

    def _body(self, side: str, code: int, frame: Frame, start: int) -> Body:
        limit = min(frame.known, frame.end)
        return body(side, code, self.era, frame.data, start, frame.start + frame.size, limit)

    def _call(self, frame: Frame, code: int | None, api: str | None, read: Body) -> Call:
        """What a request's rows need of its frame."""
        call = Call()
        named = read.name if read.exact and code is not None and len(tables.commands().get(code, ())) > 1 else api
        call.api, call.code = named, code
        call.order, call.offset, call.size, call.place = frame.order, frame.offset, frame.size, frame.place
        call.first_ns, call.last_ns = frame.first_ns, frame.last_ns
        call.complete, call.resent = frame.complete, frame.resent
        call.well_formed = read.exact
        call.values = read.values
        call.user = read.values.get("username") if call.api in _LOGIN_APIS else None
        if code is not None:
            command = tables.meaning(code, self.era.best)
            if command is None:
                self._tell_unknown(frame, code)
            else:
                call.waits, call.silent = command.waits, command.silent
        if read.problem:
            self._malformed(frame, call.api, read)
        elif read.trailing:
            self.finding_at(frame, "trailing_bytes", "info", f"{read.trailing} bytes after the body of {call.api}")
        if "stream_id" in read.values:
            call.topics = self.names.of(read.values)
        partition = _partition(read.values)
        if partition is not None:
            call.partitions = 1
        return call

    def _send(self, call: Call, read: Body, frame: Frame) -> None:
        """A request goes out: what it carries, and its place in the queue."""
        run = read.run
        if run is not None:
            call.records = run.total
            call.payload_bytes = sum(m.payload_length for m in run.messages) if frame.complete else None
            topic = call.topics[0] if call.topics else None
            partition = _partition(read.values)
            if partition in (0, 1) and not self.era.settled:
                releases = tables.span("0.6", "") if partition == 0 else tables.span("", "0.5")
                self.era.favour(releases, f"messages for partition {partition}")  # the first is 1 up to 0.5
            call.batches = self.emit.batch_rows(run, frame, PRODUCE, topic, partition, call.api, call.request_id)
        elif "messages_count" in read.values:
            call.records = read.values["messages_count"]
        if self.sink.full:
            call.full = self._text(read, frame)
        if call.user and isinstance(version := read.values.get("version"), str):
            self._client_says(version)
        if "sdk_name" in read.values:
            values = read.values
            self._software = (values["sdk_name"], values["sdk_version"], self._software[2])
            self.era.narrow(
                tables.speaks(values["protocol_version"]), f"protocol version {values['protocol_version']} in login"
            )
        if call.code == GET_CLUSTER_METADATA and not self.era.settled:
            self.era.favour(tables.span("0.7", ""), "cluster metadata asked for")
        if call.silent:
            self.emit.exchange(call, None, kind="oneway")
            return
        self._give_up(self.pairing.call(call))

    def _client_says(self, version: str) -> None:
        self._software = (self._software[0], version or None, self._software[2])
        for prefix, releases in tables.clients():
            if version.startswith(prefix):
                self.era.favour(releases, f"client version {version}")

    # --- answers ---

    def _answered(self, call: Call, frame: Frame, status: int, start: int) -> None:
        faults: tuple[Fault, ...] = ()
        records = payload = partitions = None
        end = frame.start + frame.size
        response = None
        if status:
            faults = (fault(status, self.era.allowed),)
            if status in TRANSIENT and len(self._refused) < _REFUSALS:
                self._refused[call.operation, call.request_id, call.size] = status
            if self.sink.full:
                response = json.dumps({"status": status, "error": faults[0].name})
        elif end > start and self._matters(call):
            read = self._answer_body(call, frame, start)
            if read.problem:
                self._malformed(frame, call.api, read)
            run = read.run
            if run is not None:
                topic = call.topics[0] if call.topics else None
                partition = read.values.get("partition_id")
                records = run.total
                payload = sum(m.payload_length for m in run.messages)
                partitions = 1
                rows = self.emit.batch_rows(run, frame, CONSUME, topic, partition, call.api, call.request_id)
                self.emit.put_batches(rows)
                if "sections" in read.values:
                    partitions = len(read.values["sections"])
                    faults = tuple(fault(s["status"], self.era.allowed) for s in read.values["sections"] if s["status"])
            elif layouts.delivers(call.code or -1):
                records = read.values.get("messages_count")
            if read.name is not None and not read.problem:
                self._learn(call, read.values, frame)
            if self.sink.full:
                response = self._text(read, frame, status=0)
        else:
            self._learn(call, {}, frame)
            if layouts.delivers(call.code or -1):
                records = 0
            if self.sink.full:
                response = '{"status": 0}'
        long_poll = (not records or frame.first_ns - call.last_ns > 1_000_000) if call.waits else None
        self.emit.exchange(
            call,
            frame,
            faults=faults,
            records=records,
            payload_bytes=payload,
            partitions=partitions,
            long_poll=long_poll,
            response=response,
        )

    def _matters(self, call: Call) -> bool:
        """Whether an answer's payload is worth reading."""
        return (
            self.sink.full
            or not self.era.settled
            or layouts.delivers(call.code or -1)
            or call.api in TEACHING
            or call.api in _LOGIN_APIS
            or (call.api == "SEND_MESSAGES" and bool(call.batches))
        )

    def _answer_body(self, call: Call, frame: Frame, start: int) -> Body:
        if call.operation == 1:
            return self._body(layouts.RESPONSE, layouts.REGISTER, frame, start)
        return self._body(layouts.RESPONSE, call.code or -1, frame, start)

    def _learn(self, call: Call, values: dict[str, Any], frame: Frame) -> None:
        """What a successful answer says beyond its own exchange."""
        if call.api in TEACHING:
            self.names.learn(call.api, call.values, values, frame.first_ns)
        elif call.api in _LOGIN_APIS:
            self.emit.user = call.user or self.emit.user
            if "server_version" in values:
                self._software = (*self._software[:2], values["server_version"])
            elif call.user == _ROOT and "user_id" in values:
                releases = tables.span(*_ROOT_IDS.get(values["user_id"], ("", "")))
                self.era.narrow(releases & tables.of_framing(LEGACY), f"the root user has id {values['user_id']}")
        elif call.api == "SEND_MESSAGES" and values.get("confirmations") and len(call.batches) == 1:
            told = values["confirmations"][0]
            row = call.batches[0]
            last = told["base_offset"] + (row.records or 1) - 1
            call.batches = [
                row._replace(
                    partition=told["partition_id"],
                    base_offset=told["base_offset"],
                    last_offset=last,
                    position=str(told["base_offset"]),
                )
            ]

    def _give_up(self, calls: list[Call]) -> None:
        for call in calls:
            self.emit.exchange(call, None, kind="unanswered")

    def _has_payload(self, call: Call) -> bool:
        """Whether the command is ever answered with a payload."""
        code = layouts.REGISTER if call.operation == 1 else call.code or -1
        return layouts.has_payload(code, self.era.allowed)

    def _fits(self, call: Call, answer: Answer) -> bool:
        """Whether an answer can be that of a request."""
        if answer.request_id is not None:
            return call.operation == answer.operation or answer.operation not in tables.operations()
        if answer.status:
            return answer.length == 0 and answer.status != DISCONNECTED
        return answer.length == 0 or self._has_payload(call)

    # --- findings and bodies ---

    def _text(self, read: Body, frame: Frame, **more: Any) -> str:
        values = {**more, **read.values}
        if read.run is not None:
            values["messages"] = message_dicts(read.run, frame.data)
        return json.dumps(values, default=str, allow_nan=False)

    def _malformed(self, frame: Frame, api: str | None, read: Body) -> None:
        self.finding_at(
            frame,
            "malformed_frame",
            "error",
            f"No layout of {api} reads this body: {read.problem}",
            api=api,
            position=read.at - frame.start,
        )

    def _orphan(self, frame: Frame, status: int) -> None:
        """No row: which command it answers cannot be told."""
        self.finding_at(frame, "orphan_answer", "info", "The request of this answer was not captured", status=status)

    def _tell_unknown(self, frame: Frame, code: int) -> None:
        if code not in self._unknown:
            self._unknown.add(code)
            self.finding_at(frame, "unknown_api", "warning", f"Command {code} is not known", code=code)

    def _tell_era(self) -> None:
        era = self.era
        sure = era.settled
        self.finding(
            "dialect" if sure else "dialect_uncertain",
            "info",
            f"Spoken is {era.dialect}" if sure else f"Several releases read these bytes; {era.dialect} is likeliest",
            dialect=era.dialect,
            confidence=era.confidence(),
            releases=era.names(),
            evidence=era.evidence,
            revised=era.revised,
            overridden=era.fixed,
        )


def _partition(values: dict[str, Any]) -> int | None:
    """The partition that a request names."""
    partitioning = values.get("partitioning")
    if partitioning is not None:
        value = partitioning.get("value") if partitioning["kind"] == "partition_id" else None
        return value if isinstance(value, int) else None
    partition = values.get("partition_id")
    return partition if isinstance(partition, int) else None
