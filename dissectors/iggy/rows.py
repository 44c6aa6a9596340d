"""Rows of one connection: exchanges, errors, batches, messages.

Rows that show the dialect wait until the bytes leave one only, at most ROWS_HELD of them: a connection's rows then all
show one dialect. Where a connection's bytes never settle it, those of another connection to the same server may.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dissectors.conversation import Conversation
from dissectors.frame import Frame, FrameFacts
from dissectors.iggy import batches, tables
from dissectors.iggy.decode import Body
from dissectors.iggy.era import Era
from dissectors.iggy.message import IggyUnit, MessageRun, message_id
from dissectors.iggy.pending import IggyRequest
from dissectors.iggy.secrets import without_payload
from dissectors.iggy.state import IggyState
from dissectors.iggy.verify import ChecksumVerdict, suspects, verify
from dissectors.records import Conn, endpoint
from dissectors.rows.exchange import CONSUME, FAILED, OK, ONE_WAY, PRODUCE, UNKNOWN, ErrorCode, PendingRequest, Report
from dissectors.rows.late_names import unresolved
from dissectors.rows.sink import Sink
from dissectors.rows.table import RowTable, int64

ROWS_HELD = 256
_US = 1000  # ns


class DialectRows:
    """The dialect of one connection, and its finished rows that show it: they wait until it is settled."""

    __slots__ = ("_conn", "_era", "_held", "_sink")

    def __init__(self, conn: Conn, sink: Sink, era: Era) -> None:
        self._conn = conn
        self._sink = sink
        self._era = era
        self._held: list[tuple[str, Any]] = []

    def flush(self) -> None:
        """Report the rows that wait, with the dialect that is believed now."""
        if not self._held:
            return
        dialect = self.dialect()
        for table, row in self._held:
            getattr(self._sink, table).append(row._replace(dialect=dialect))
        self._held.clear()

    def dialect(self) -> str:
        """The dialect; while several releases remain, a token for what another connection to the server shows."""
        era = self._era
        return era.dialect if era.settled else unresolved(self._server_key(), era.dialect)

    def report_dialect(self, time: int) -> None:
        """Report the dialect of this connection: others to this server may show too little."""
        self._sink.name(self._server_key(), time, self._era.dialect, likely=not self._era.settled)

    def _server_key(self) -> str:
        server = endpoint(self._conn.server_ip, self._conn.server_port)
        framing = tables.releases()[self._era.best].framing
        return f"iggy-dialect/{server}/{framing}"

    def finish(self, table: RowTable, slot: int) -> None:
        """Put the dialect into a row and finish it, once the dialect is settled."""
        if self._era.settled:
            self.flush()
            table.put(slot, table.layout.places["dialect"], self._era.dialect)
            table.finish(slot)
        else:
            self._held.append((table.layout.table, table.values(slot)))
            table.drop(slot)
            if len(self._held) >= ROWS_HELD:
                self.flush()


class IggyRows:
    """Writes the rows of one connection."""

    def __init__(self, conversation: Conversation, era: Era, state: IggyState) -> None:
        self.conversation = conversation
        self.dialects = DialectRows(conversation.conn, conversation.sink, era)
        self.report = Report(conversation.conn, conversation.sink, conversation.resends, self.dialects.finish)
        self.state = state

    def text(self, read: Body, frame: Frame, **more: Any) -> str:
        """A body as JSON, for `--full`: everything but payloads."""
        values = {**more, **read.values}
        if read.run is not None:
            values["messages"] = _message_dicts(read.run, frame.data)
        if not self.report.sink.payloads:
            values = without_payload(values)
        return json.dumps(values, default=str, allow_nan=False)

    # --- exchanges ---

    def exchange(
        self,
        kind: str,
        request: IggyRequest,
        answer: FrameFacts | None = None,
        *,
        status: str = OK,
        errors: Sequence[ErrorCode] = (),
        **more: Any,
    ) -> None:
        """A request with its answer, or without; and the batches that it carried. more: as Report.exchange has it."""
        request.client_id = self.state.user or request.user
        if errors:
            topic = request.topics[0] if request.topics else None
            partition = request.values.get("partition_id")
            number = partition if isinstance(partition, int) else None
            errors = [error._replace(topic=topic, partition=number) for error in errors]
        report = self.report
        report.exchange(
            kind,
            request,
            answer,
            status=UNKNOWN if answer is None else status,
            errors=errors,
            **more,
        )
        if request.batches:
            outcome = UNKNOWN if answer is None else FAILED if errors else OK
            for columns in request.batches:
                report.batch(request, request.frame, outcome=outcome, **columns)

    def lone(
        self,
        facts: FrameFacts,
        kind: str,
        api: str | None,
        code: int | None,
        *,
        correlation_id: int | None = None,
        error: ErrorCode | None = None,
        records: int | None = None,
        payload_bytes: int | None = None,
        body: str | None = None,
    ) -> PendingRequest:
        """A frame that is half of nothing: an orphan, a push, or one of a replica."""
        one_way = kind == ONE_WAY
        known = PendingRequest(facts if one_way else None, api, code, correlation_id=correlation_id)
        known.client_id = self.state.user
        known.records, known.payload_bytes = int64(records), int64(payload_bytes)
        if one_way:
            known.body = body
            self.report.exchange(kind, known)
        else:
            errors = () if error is None else (error,)
            self.report.exchange(kind, known, facts, status=OK, errors=errors, body=body)
        return known

    # --- batches and messages ---

    def batches(
        self,
        run: MessageRun,
        frame: Frame,
        facts: FrameFacts,
        role: str,
        topic: str | None,
        partition: int | None,
        request: PendingRequest,
    ) -> list[dict[str, Any]]:
        """The batches of a run, verified: columns of rows of `batches`.

        What is wrong with them becomes findings, their messages rows of `messages`. partition: of units that name none.
        """
        report = self.report
        if not report.looks_into_batches:
            return []
        if run.problem:
            self.conversation.finding_at(frame, "batch_mismatch", run.problem, api=request.api, topic=_plain(topic))
        known = min(frame.known, frame.end)
        rows: list[dict[str, Any]] = []
        for unit in run.units:
            verdict = verify(run, unit, frame.data, known)
            if role == CONSUME and unit.batch is not None:
                partition = unit.batch.partition
            row = self._batch(run, unit, verdict, frame, role, topic, partition)
            if verdict.verdict == "bad":
                self._bad(run, unit, verdict, frame, row, request.api)
            if report.wants_batches:
                rows.append(row)
            if report.wants_messages:
                self._messages(run, unit, frame, facts, row, request)
        return rows

    def report_batches(
        self,
        run: MessageRun,
        frame: Frame,
        facts: FrameFacts,
        role: str,
        topic: str | None,
        partition: int | None,
        request: PendingRequest,
    ) -> None:
        """Report the batches of a consumer or replica, which wait for no answer."""
        outcome = OK if role == CONSUME else UNKNOWN
        for columns in self.batches(run, frame, facts, role, topic, partition, request):
            self.report.batch(request, facts, outcome=outcome, **columns)

    def _batch(
        self,
        run: MessageRun,
        unit: IggyUnit,
        verdict: ChecksumVerdict,
        frame: Frame,
        role: str,
        topic: str | None,
        partition: int | None,
    ) -> dict[str, Any]:
        messages, count, size = run.of(unit), unit.total, unit.end - unit.start
        first = last = None
        if role == PRODUCE:  # the server gives offsets and timestamps later
            times = [m.origin for m in messages if m.origin]
        else:
            times = [m.timestamp or m.origin for m in messages if m.timestamp or m.origin]
            if messages and messages[0].offset is not None:
                first = messages[0].offset
                last = messages[-1].offset if len(messages) == count else None
        wrote = None if unit.batch is None else unit.batch.producer
        time, packet_ref = self.conversation.locate(frame, unit.start)
        return {
            "role": role,
            "topic": topic,
            "partition": partition,
            "base_offset": first,
            "last_offset": last,
            "position": None if first is None else str(first),
            "records": count,
            "codec": "none",
            "stored_bytes": size,
            "uncompressed_bytes": size,
            "format": run.format,
            "producer": None if wrote is None else str(wrote.id),
            "producer_epoch": None if wrote is None else wrote.epoch,
            "base_sequence": None if wrote is None else wrote.sequence,
            "first_timestamp": times[0] * _US if times else None,
            "max_timestamp": max(times) * _US if times else None,
            "checksum_kind": run.checksum_kind,
            "checksum_stored": verdict.stored,
            "checksum_computed": verdict.computed,
            "verdict": verdict.verdict,
            "time": time,
            "packet_ref": packet_ref,
            "stream_offset": frame.offset + unit.start - frame.start,
        }

    def _bad(
        self,
        run: MessageRun,
        unit: IggyUnit,
        verdict: ChecksumVerdict,
        frame: Frame,
        row: dict[str, Any],
        api: str | None,
    ) -> None:
        assert verdict.covered is not None
        at, size = verdict.covered
        message = None if verdict.bad is None else run.of(unit)[verdict.bad]
        what = "batch" if message is None else f"message {verdict.bad}"
        self.conversation.finding_within(
            frame,
            at,
            "bad_checksum",
            f"The checksum of {what} does not fit its bytes",
            length=size,
            api=api,
            topic=_plain(row["topic"]),
            partition=row["partition"],
            position=str(message.offset) if message and message.offset is not None else row["position"],
            message_index=verdict.bad,
            message_id=str(message_id(frame.data, message.id_at)) if message else None,
            wrong=verdict.wrong,
            checksum_kind=run.checksum_kind,
            stored=verdict.stored,
            computed=verdict.computed,
        )
        for kind, stored, computed, checksum, covered in suspects(run, unit, frame.data):
            self.conversation.suspect(
                frame,
                run.format,
                kind,
                stored,
                computed,
                unit=(unit.start, unit.end),
                covered=covered,
                checksum=checksum,
                byteorder="little",
            )

    def _messages(
        self,
        run: MessageRun,
        unit: IggyUnit,
        frame: Frame,
        facts: FrameFacts,
        row: dict[str, Any],
        request: PendingRequest,
    ) -> None:
        payloads, produced = self.report.sink.payloads, row["role"] == PRODUCE
        for m in run.of(unit):
            headers = batches.headers_of(run, m, frame.data)
            offset = None if produced else m.offset
            self.report.message(
                request,
                facts,
                role=row["role"],
                topic=row["topic"],
                partition=row["partition"],
                offset=offset,
                position=None if offset is None else str(offset),
                timestamp=(m.timestamp or m.origin if produced else m.timestamp) * _US or None,
                event_time=m.origin * _US or None,
                message_id=str(message_id(frame.data, m.id_at)),
                value_bytes=m.payload_length,
                header_count=None if headers is None else len(headers),
                header_bytes=m.headers_length,
                value=frame.data[m.payload : m.payload + m.payload_length] if payloads else None,
                headers=json.dumps(headers) if payloads and headers else None,
                time=row["time"],
                packet_ref=row["packet_ref"],
                stream_offset=row["stream_offset"],
            )


def _plain(topic: str | None) -> str | None:
    """A topic for evidence: tokens are not replaced there, so their fallbacks are shown."""
    if topic is None or "\0" not in topic:
        return topic
    parts = topic.split("\0")
    return "".join(parts[i] if i % 3 != 1 else "" for i in range(len(parts)))


def _message_dicts(run: MessageRun, buf: bytes) -> list[dict[str, Any]]:
    return [
        {
            "id": str(message_id(buf, m.id_at)),
            "offset": m.offset,
            "timestamp": m.timestamp,
            "origin_timestamp": m.origin,
            "payload_length": m.payload_length,
            "user_headers": batches.headers_of(run, m, buf),
        }
        for m in run.messages
    ]
