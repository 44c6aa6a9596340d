"""Produce: the batches of a request wait for its answer, which says what became of them."""

from __future__ import annotations

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.kafka.batches import NO_MAGIC, old_format
from dissectors.kafka.body_notes import BodyNotes, RecordSet, Topic
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.record_batch import RecordBatch
from dissectors.kafka.rows import KafkaRows
from dissectors.kafka.verify import BatchVerifier
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import FAILED, OK, PRODUCE, UNKNOWN
from dissectors.session.frame import Frame


@compiled
def sent(
    rows: KafkaRows,
    verifier: BatchVerifier,
    frame: Frame,
    call: KafkaRequest,
    notes: BodyNotes,
) -> None:
    """Count the records of a request, and verify its batches while its bytes are there."""
    records: RecordSet
    batch: RecordBatch
    total: cython.longlong = 0
    size: cython.longlong = 0
    looks: cython.bint = rows.report.wants_batches or rows.report.wants_messages or rows.report.wants_findings
    old: cython.int = NO_MAGIC if call.version > 2 else old_format(True, call.version)
    found: list[RecordSet] = notes.sets()
    for records in found:
        size += records.size
        records.batches = verifier.batches_of(frame, records, False, old)
        for batch in records.batches:
            if batch.count != ABSENT:
                total += batch.count
        if looks:
            verifier.look(frame, records, records.batches)
            if rows.report.wants_messages and call.acks != 0:
                _keep_messages(rows, verifier, frame, call, records)
    call.records = total
    call.payload_bytes = size
    if looks:
        call.sets = found


@compiled
def settle(
    rows: KafkaRows,
    call: KafkaRequest,
    notes: BodyNotes,
    answered: cython.bint,
) -> None:
    """Write the batches of a request, now that it is known what became of them: by the notes of the answer.

    Without one, what became of them is unknown.
    """
    records: RecordSet
    base: cython.longlong
    code: cython.longlong
    codes: dict[tuple[Topic | None, int | None], int] | None = None
    if call.sets is None or call.frame is None:
        return
    if answered and notes.errors.count:
        codes = {(fault.topic, fault.partition): fault.code for fault in notes.faults()}
    for records in call.sets:
        outcome = UNKNOWN
        base = ABSENT
        if answered:
            code = 0 if codes is None else codes.get((records.topic, records.partition), 0)
            if code:
                outcome = FAILED
            else:
                base = notes.placed_number(records.topic, records.partition)
                if base != ABSENT:
                    outcome = OK
                if base < 0 or _begins_later(records):
                    base = ABSENT
        rows.batches(PRODUCE, call, call.frame, records.topic, records.partition, records.batches, outcome, base)
    call.sets = None  # they are not needed again, and the newest request is kept
    if call.kept:
        rows.report.sink.let_go(call.kept)
        call.kept = 0


@compiled
def _begins_later(records: RecordSet) -> cython.bint:
    """Whether the first batch of a set was not captured."""
    first: RecordBatch
    if not records.batches:
        return False
    first = records.batches[0]
    return first.start > records.start


def _keep_messages(
    rows: KafkaRows, verifier: BatchVerifier, frame: Frame, call: KafkaRequest, records: RecordSet
) -> None:
    """Let the messages of a request wait for its answer; where too many wait, they are written now."""
    for batch in records.batches:
        if batch.entries:
            kept = rows.report.sink.keep(0 if batch.uncompressed == ABSENT else batch.uncompressed, len(batch.entries))
            call.kept += kept
            if not kept:
                name = rows.names.name(records.topic)
                rows.messages(PRODUCE, call, call.frame, name, records.partition, batch, ABSENT)
                batch.entries = ()
                verifier.report_early(frame)
