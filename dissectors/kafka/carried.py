"""The record batches that requests and answers of one connection carry, where these go one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from dissectors.frame import Frame, FrameFacts
from dissectors.kafka import batches
from dissectors.kafka.body_notes import BodyNotes, RecordSet
from dissectors.kafka.decode import FETCH, FETCH_SNAPSHOT, SHARE_FETCH, ApiVersion
from dissectors.kafka.delivery import (
    READ_COMMITTED,
    Aborted,
    Acquired,
    aborted_transactions,
    acquired,
    acquired_ranges,
    delivered,
    delivered_of_set,
    later_pieces,
    of_partition,
)
from dissectors.kafka.diagnostics import KafkaDiagnostics
from dissectors.kafka.emit import KafkaEmitter
from dissectors.kafka.names import METADATA_TOPIC_ID
from dissectors.kafka.pending import KafkaRequest, VerifiedBatch
from dissectors.kafka.precedents import Precedent, Precedents, fetching
from dissectors.kafka.record_batch import RecordBatch
from dissectors.kafka.recovery import BatchRecovery
from dissectors.kafka.secrets import CLUSTER_METADATA
from dissectors.options import Options
from dissectors.rows.exchange import OK, REPLICATE, UNKNOWN
from dissectors.rows.exchange import PRODUCE as PRODUCED
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.tcp.chunk import CLIENT, SERVER

METADATA_LOG = (METADATA_TOPIC_ID, CLUSTER_METADATA)


class CarrierContext(Protocol):
    """What this needs of its conversation."""

    emit: KafkaEmitter
    options: Options
    precedents: Precedents
    sink: Sink
    diagnostics: KafkaDiagnostics | None

    @property
    def recovery(self) -> BatchRecovery: ...


class CarriedBatches:
    """The batches of a Produce wait for its answer; those of a fetch are reported at once."""

    __slots__ = ("_conversation", "_diagnostics", "_emit", "_limit", "_precedents")

    def __init__(self, conversation: CarrierContext) -> None:
        self._conversation = conversation
        self._emit, self._diagnostics = conversation.emit, conversation.diagnostics
        self._precedents = conversation.precedents
        self._limit = conversation.options.limits.decompressed_bytes

    def sent(self, frame: Frame, call: KafkaRequest, notes: BodyNotes) -> None:
        """Count the records of a Produce, and look at its batches while its bytes are there."""
        recovery = self._conversation.recovery
        total = size = 0
        carried = []
        old = batches.old_format(True, call.version) if call.version != ABSENT else None
        for records in notes.sets:
            size += records.size
            if not self._emit.report.looks_into_batches:
                total += recovery.count(frame, records, old=old)
                continue
            units = recovery.units(frame, records, lenient=False, old=old)
            seen = self._emit.look(frame, records, units)
            total += sum(batch.unit.records or 0 for batch in seen)
            carried.append((records, self._emit.waiting(frame, call, records, seen)))
            if self._diagnostics is not None:
                answered = call.values.get("acks") != 0
                self._diagnostics.batches(frame, PRODUCED, records.topic, records.partition, seen, answered=answered)
        call.records, call.payload_bytes = total, size
        if carried:
            call.batches = carried

    def settle(self, call: KafkaRequest, codes: dict[Any, int], bases: dict[Any, int] | None, order: int = -1) -> None:
        """Report the batches of a Produce, now that it is known what became of them. order: of the answer."""
        if call.frame is None:
            return
        for (topic, partition, start, _), seen in call.batches:
            code, base = codes.get((topic, partition), 0), None
            outcome = "unknown" if bases is None else "error" if code else "ok"
            if bases is not None and not code:
                base = bases.get((topic, partition))
                if base is None:
                    outcome = "unknown"
                elif base < 0 or (seen and seen[0].unit.start > start):
                    base = None
            if code and self._diagnostics is not None:
                self._diagnostics.refused(topic, partition, seen, order)
            self._emit.batches(PRODUCED, call, call.frame, topic, partition, seen, outcome, base)
        self._conversation.sink.let_go(call.kept)
        call.kept = 0
        self.found(CLIENT, call.found, call, call.frame)

    def fetched(
        self, frame: Frame, call: KafkaRequest, api: ApiVersion, notes: BodyNotes, body: int
    ) -> tuple[int, int]:
        """(records that the application gets, bytes of record sets) of an answer to a fetch; reports its batches."""
        if call.frame is None:
            role = self._precedents.of(SERVER, frame.offset).role
        else:
            role = fetching(api.key, call.values.get("replicaId"))
            self._precedents.answer(Precedent(frame.offset, api.key, call.client_id, role))
        recovery, facts = self._conversation.recovery, frame.facts
        total = 0
        known = min(frame.known, frame.end)
        old = batches.old_format(False, api.version) if api.key == FETCH else None
        shared = api.key == SHARE_FETCH and frame.complete
        listed: Mapping[tuple[str, int], Aborted | Acquired] = {}
        if notes.sets and frame.complete and (shared or call.values.get("isolationLevel") == READ_COMMITTED):
            answer = api.full_response(frame.data, body, frame.start + frame.size).body
            listed = acquired_ranges(answer) if shared else aborted_transactions(answer)
        for records in self.sets(frame, api, notes, body):
            if records.topic in METADATA_LOG:
                self._emit.learn_from_log(frame, records)
                role = REPLICATE  # only brokers and controllers read it
            offset = call.session.fetch_offset(records.topic, records.partition) if call.session else None
            ranges = of_partition(listed, records.topic, records.partition)
            if self._emit.report.looks_into_batches:
                seen = self._emit.look(frame, records, recovery.units(frame, records, lenient=True, old=old))
                if self._diagnostics is not None:
                    self._diagnostics.batches(frame, role, records.topic, records.partition, seen)
                self._emit.batches(role, call, facts, records.topic, records.partition, seen, OK, None)
                read: Iterable[RecordBatch] = [batch.unit for batch in seen]
            elif frame.complete and not shared:
                total += delivered_of_set(frame.data, records.start, records.size, known, self._limit, offset, ranges)
                continue
            else:
                read = recovery.units(frame, records, lenient=True, old=old)
            if shared:
                total += acquired(frame.data, read, ranges, self._limit)
            else:
                total += delivered(frame.data, read, offset, ranges, self._limit)
        return total, sum(records.size for records in notes.sets)

    def sets(self, frame: Frame, api: ApiVersion, notes: BodyNotes, body: int) -> Sequence[RecordSet]:
        """The record sets of an answer; a later piece of a snapshot may begin within a batch, which is left out."""
        if api.key != FETCH_SNAPSHOT or not notes.sets:
            return notes.sets
        later = later_pieces(api.full_response(frame.data, body, frame.start + frame.size).body)
        whole = self._conversation.recovery.from_a_batch_on
        return [
            whole(frame, records) if (records.topic, records.partition) in later else records for records in notes.sets
        ]

    def found(
        self,
        direction: int,
        seen: Sequence[VerifiedBatch],
        call: KafkaRequest | None = None,
        exchange: FrameFacts | None = None,
    ) -> None:
        """Batches behind a hole. call: what carried them; exchange: the frame of it that has a row."""
        if not seen:
            return
        offset = seen[0].stream_offset
        if direction == SERVER and call is not None and call.frame is not None:
            role = fetching(call.api_code, call.values.get("replicaId"))
        else:
            role = self._precedents.of(direction, offset).role
        outcome = UNKNOWN if direction == CLIENT else OK
        call = call or self._precedents.of(direction, offset).lost_request()
        topic, partition = call.session.only() if call.session is not None else (None, None)
        self._emit.batches(role, call, exchange, topic, partition, seen, outcome, None)
