"""What a conversation learnt -> rows of records.

Rows that show the dialect wait until the bytes leave one only, at most ROWS_HELD of them: a connection's rows then all
tell the same. Where a connection's bytes never settle it, those of another connection to the same server may.
"""

from __future__ import annotations

import json
from typing import Any

from dissectors.conversation import Conversation, Frame
from dissectors.iggy import batches, tables
from dissectors.iggy.batches import Run, Stored, Verdict
from dissectors.iggy.decode import Body
from dissectors.iggy.era import Era
from dissectors.iggy.errors import Fault
from dissectors.iggy.flight import Call
from dissectors.iggy.message import Msg
from dissectors.iggy.state import State
from dissectors.records import Batch, Error, Exchange, Message, endpoint
from dissectors.sink import unresolved

ROWS_HELD = 256
_US = 1000  # ns

PRODUCE, CONSUME, REPLICATE = "produce", "consume", "replicate"


class Emitter:
    """Writes the rows of one connection."""

    def __init__(self, talk: Conversation, era: Era, state: State) -> None:
        self.talk = talk
        self.conn = talk.conn
        self.sink = talk.sink
        self.era = era
        self.state = state
        self._held: list[tuple[list[Any], Any]] = []
        self._exchanges = "exchanges" in self.sink.tables
        self._batches = "batches" in self.sink.tables
        self._errors = "errors" in self.sink.tables
        self._messages = "messages" in self.sink.tables

    @property
    def wants_messages(self) -> bool:
        """Whether single messages matter to any table."""
        return self._batches or self._messages or "findings" in self.sink.tables

    def flush(self) -> None:
        """No more evidence is waited for: the rows held get the dialect believed now."""
        dialect = self.dialect()
        for rows, row in self._held:
            rows.append(row._replace(dialect=dialect))
        self._held.clear()

    def dialect(self) -> str:
        """What is spoken; while several releases remain, a token for what another connection to the server shows."""
        era = self.era
        return era.dialect if era.settled else unresolved(self._server_key(), era.dialect)

    def tell_dialect(self, time: int) -> None:
        """Other connections to this server may ask."""
        self.sink.name(self._server_key(), time, self.era.dialect)

    def _server_key(self) -> str:
        server = endpoint(self.conn.server_ip, self.conn.server_port)
        framing = tables.releases()[self.era.best].framing
        return f"iggy-dialect/{server}/{framing}"

    def _put(self, rows: list[Any], row: Any) -> None:
        if self._held or not self.era.settled:
            self._held.append((rows, row))
            if self.era.settled or len(self._held) >= ROWS_HELD:
                self.flush()
        else:
            rows.append(row)

    def _dialect(self) -> str | None:
        return self.era.dialect if self.era.settled else None

    def text(self, read: Body, frame: Frame, **more: Any) -> str:
        """A body, for `--full`: everything but payloads."""
        values = {**more, **read.values}
        if read.run is not None:
            values["messages"] = _message_dicts(read.run, frame.data)
        return json.dumps(values, default=str, allow_nan=False)

    # --- exchanges ---

    def exchange(
        self,
        call: Call,
        frame: Frame | None,
        *,
        kind: str = "call",
        faults: tuple[Fault, ...] = (),
        records: int | None = None,
        payload_bytes: int | None = None,
        partitions: int | None = None,
        long_poll: bool | None = None,
        response: str | None = None,
        status: str | None = None,
    ) -> None:
        """A request with its answer, or without (`unanswered`, `oneway`)."""
        if self._exchanges:
            total = None if frame is None else frame.last_ns - call.first_ns
            first = faults[0] if faults else None
            self._put(
                self.sink.exchanges,
                Exchange(
                    self.conn,
                    self._dialect(),
                    kind,
                    call.api,
                    call.code,
                    None,
                    call.request_id,
                    self.state.user or call.user,
                    call.first_ns,
                    call.last_ns - call.first_ns,
                    None if frame is None else frame.first_ns - call.last_ns,
                    None if frame is None else frame.last_ns - frame.first_ns,
                    total,
                    call.size,
                    None if frame is None else frame.size,
                    status or ("unknown" if frame is None else "error" if first else "ok"),
                    first.code if first else None,
                    first.name if first else None,
                    len(faults),
                    call.topics,
                    call.partitions if partitions is None else partitions,
                    call.records if records is None else records,
                    call.payload_bytes if payload_bytes is None else payload_bytes,
                    long_poll,
                    None,
                    call.resent or (frame is not None and frame.resent),
                    call.complete and (frame is None or frame.complete),
                    call.place,
                    None if frame is None else frame.place,
                    call.full,
                    response,
                ),
            )
        if faults and frame is not None:
            self.errors(faults, frame, call)
        if call.batches:
            outcome = "unknown" if frame is None else "error" if faults else "ok"
            for row in call.batches:
                self._put(self.sink.batches, row._replace(outcome=outcome, dialect=self._dialect()))

    def lone(
        self,
        frame: Frame,
        kind: str,
        api: str | None,
        code: int | None,
        *,
        request_id: int | None = None,
        fault: Fault | None = None,
        records: int | None = None,
        payload_bytes: int | None = None,
        body: str | None = None,
    ) -> None:
        """A frame that is half of nothing: an orphan, a push, or one of a replica."""
        oneway = kind == "oneway"
        if self._exchanges:
            self._put(
                self.sink.exchanges,
                Exchange(
                    self.conn,
                    self._dialect(),
                    kind,
                    api,
                    code,
                    correlation_id=request_id,
                    client_id=self.state.user,
                    time=frame.first_ns,
                    request_ns=frame.last_ns - frame.first_ns if oneway else None,
                    response_ns=None if oneway else frame.last_ns - frame.first_ns,
                    request_bytes=frame.size if oneway else None,
                    response_bytes=None if oneway else frame.size,
                    status="error" if fault else "unknown" if oneway else "ok",
                    error_code=fault.code if fault else None,
                    error_name=fault.name if fault else None,
                    error_count=1 if fault else 0,
                    records=records,
                    payload_bytes=payload_bytes,
                    retransmitted=frame.resent,
                    complete=frame.complete,
                    request_place=frame.place if oneway else None,
                    response_place=None if oneway else frame.place,
                    request=body if oneway else None,
                    response=None if oneway else body,
                ),
            )
        if fault:
            self.errors((fault,), frame, None, api, request_id)

    def errors(
        self,
        faults: tuple[Fault, ...],
        frame: Frame,
        call: Call | None,
        api: str | None = None,
        request_id: int | None = None,
    ) -> None:
        """One row an error."""
        if not self._errors:
            return
        topic = call.topics[0] if call and call.topics else None
        partition = call.values.get("partition_id") if call else None
        for fault in faults:
            self.sink.errors.append(
                Error(
                    self.conn,
                    call.api if call else api,
                    None,
                    fault.scope,
                    topic,
                    partition if isinstance(partition, int) else None,
                    fault.code,
                    fault.name,
                    fault.retriable,
                    fault.message,
                    self.state.user or (call.user if call else None),
                    call.request_id if call else request_id,
                    frame.first_ns,
                    frame.place,
                )
            )

    # --- batches and messages ---

    def batch_rows(
        self,
        run: Run,
        frame: Frame,
        role: str,
        topic: str | None,
        partition: int | None,
        api: str | None,
        request_id: int | None,
    ) -> list[Batch]:
        """The batch rows of a run, verified; findings for what is wrong with it; its messages to their table."""
        if not self.wants_messages:
            return []
        known = min(frame.known, frame.end)
        rows: list[Batch] = []
        if run.problem:
            self.talk.finding_at(frame, "batch_mismatch", "warning", run.problem, api=api, topic=_plain(topic))
        for batch in run.batches or ((None,) if run.messages or run.total else ()):
            messages = run.messages if batch is None else batch.messages
            verdict = (
                batches.verify(run, frame.data, known)
                if batch is None
                else batches.verify_batch(batch, frame.data, known)
            )
            if role == CONSUME and batch is not None:
                partition = batch.partition
            row = self._batch_row(run, batch, verdict, frame, role, topic, partition, api, request_id)
            if verdict.verdict == "bad":
                self._bad(run, batch, verdict, frame, row)
            if self._batches:
                rows.append(row)
            if self._messages:
                self._message_rows(run, messages, frame, row)
        return rows

    def _batch_row(
        self,
        run: Run,
        batch: Stored | None,
        verdict: Verdict,
        frame: Frame,
        role: str,
        topic: str | None,
        partition: int | None,
        api: str | None,
        request_id: int | None,
    ) -> Batch:
        messages = run.messages if batch is None else batch.messages
        start, end = (run.start, run.end) if batch is None else (batch.start, batch.end)
        count = run.total if batch is None else batch.total
        placed = role != PRODUCE and bool(messages) and messages[0].offset is not None
        first = messages[0].offset if placed else None
        last = messages[-1].offset if placed and len(messages) == count else None
        times = [m.timestamp or m.origin for m in messages] if role != PRODUCE else [m.origin for m in messages]
        times = [time for time in times if time]
        wrote = None if batch is None else batch.producer
        return Batch(
            self.conn,
            role,
            topic,
            partition,
            first,
            last,
            None if first is None else str(first),
            count,
            "none",
            end - start,
            end - start,
            run.format,
            producer=None if wrote is None else str(wrote.id),
            producer_epoch=None if wrote is None else wrote.epoch,
            base_sequence=None if wrote is None else wrote.sequence,
            first_timestamp=times[0] * _US if times else None,
            max_timestamp=max(times) * _US if times else None,
            checksum_kind=run.checksum_kind,
            checksum_stored=verdict.stored,
            checksum_computed=verdict.computed,
            verdict=verdict.verdict,
            outcome="ok" if role == CONSUME else "unknown",
            dialect=self._dialect(),
            client_id=self.state.user,
            correlation_id=request_id,
            api=api,
            time=frame.first_ns,
            place=frame.place,
            stream_offset=frame.offset + start - frame.start,
        )

    def put_batches(self, rows: list[Batch]) -> None:
        """Batches of a consumer or replica, which wait for no answer."""
        for row in rows:
            self._put(self.sink.batches, row)

    def _bad(self, run: Run, batch: Stored | None, verdict: Verdict, frame: Frame, row: Batch) -> None:
        assert verdict.covered is not None
        messages = run.messages if batch is None else batch.messages
        at, size = verdict.covered
        message = None if verdict.bad is None else messages[verdict.bad]
        what = "batch" if message is None else f"message {verdict.bad}"
        self.talk.finding(
            "bad_checksum",
            "error",
            f"The checksum of {what} does not fit its bytes",
            direction=frame.direction,
            time=frame.first_ns,
            place=frame.place,
            offset=frame.offset + at - frame.start,
            length=size,
            api=row.api,
            topic=_plain(row.topic),
            partition=row.partition,
            position=str(message.offset) if message and message.offset is not None else row.position,
            message_index=verdict.bad,
            message_id=str(message.id) if message else None,
            wrong=verdict.wrong,
            checksum_kind=run.checksum_kind,
            stored=verdict.stored,
            computed=verdict.computed,
        )
        for kind, stored, computed, checksum, covered in batches.suspects(run, batch, messages, frame.data):
            self.talk.suspect(
                frame,
                run.format,
                kind,
                stored,
                computed,
                unit=(run.start, run.end) if batch is None else (batch.start, batch.end),
                covered=covered,
                checksum=checksum,
                byteorder="little",
            )

    def _message_rows(self, run: Run, messages: list[Msg], frame: Frame, row: Batch) -> None:
        for m in messages:
            headers = batches.headers_of(run, m, frame.data)
            offset = None if row.role == PRODUCE else m.offset
            payloads = self.sink.payloads
            self.sink.messages.append(
                Message(
                    self.conn,
                    row.role,
                    row.topic,
                    row.partition,
                    offset,
                    None if offset is None else str(offset),
                    (m.timestamp if row.role != PRODUCE else m.timestamp or m.origin) * _US or None,
                    m.origin * _US or None,
                    None,
                    None,
                    str(m.id),
                    None,
                    m.payload_length,
                    None if headers is None else len(headers),
                    m.headers_length,
                    None,
                    frame.data[m.payload : m.payload + m.payload_length] if payloads else None,
                    json.dumps(headers) if payloads and headers else None,
                    row.correlation_id,
                    row.api,
                    frame.first_ns,
                    frame.place,
                    row.stream_offset,
                )
            )


def _plain(topic: str | None) -> str | None:
    """A topic for evidence: tokens are not replaced there, so their fallbacks are shown."""
    if topic is None or "\0" not in topic:
        return topic
    parts = topic.split("\0")
    return "".join(parts[i] if i % 3 != 1 else "" for i in range(len(parts)))


def _message_dicts(run: Run, buf: bytes) -> list[dict[str, Any]]:
    return [
        {
            "id": str(m.id),
            "offset": m.offset,
            "timestamp": m.timestamp,
            "origin_timestamp": m.origin,
            "payload_length": m.payload_length,
            "user_headers": batches.headers_of(run, m, buf),
        }
        for m in run.messages
    ]
