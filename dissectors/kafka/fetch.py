"""Fetch, ShareFetch, FetchSnapshot: what was asked for, and the batches of the answer, which are written at once."""

from __future__ import annotations

from collections.abc import Mapping

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.kafka.batches import NO_MAGIC, old_format
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
    later_pieces,
    of_partition,
)
from dissectors.kafka.names import METADATA_TOPIC_ID
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.record_batch import RecordBatch
from dissectors.kafka.rows import KafkaRows
from dissectors.kafka.secrets import CLUSTER_METADATA
from dissectors.kafka.verify import BatchVerifier
from dissectors.kafka.words import (
    EPOCH_PLACE,
    ISOLATION_PLACE,
    MAX_WAIT_PLACE,
    MIN_BYTES_PLACE,
    REPLICA_PLACE,
    SESSION_PLACE,
)
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import CONSUME, OK, REPLICATE, elapsed, held
from dissectors.session.frame import Frame

MS_NS = 1_000_000
TICK_NS = 200_000_000  # how late a broker's timer may be: it looks for what has expired so often

FAR_BEHIND = 10  # times the offsets of an answer: who has so many more to read found data when it asked

_METADATA_LOG = (METADATA_TOPIC_ID, CLUSTER_METADATA)


@compiled
def asked(call: KafkaRequest, notes: BodyNotes) -> None:
    """Keep what the answer to a fetch is understood by."""
    call.replica = notes.number(REPLICA_PLACE)
    call.max_wait_ms = notes.number(MAX_WAIT_PLACE)
    call.min_bytes = notes.number(MIN_BYTES_PLACE)
    call.isolation = notes.number(ISOLATION_PLACE)
    call.session_number = notes.number(SESSION_PLACE)
    call.session_epoch = notes.number(EPOCH_PLACE)


@compiled
def allow(call: KafkaRequest) -> None:
    """Note how long a fetch lets the broker wait for data, once its topics are known.

    Who wants 0 bytes lets it wait for nothing, but for the controllers' log.
    """
    if call.max_wait_ms > 0 and (call.min_bytes != 0 or (call.topic_keys and call.topic_keys[0] in _METADATA_LOG)):
        call.allowed_ns = call.max_wait_ms * MS_NS


def fetching(api: int, replica: int) -> str:
    """The role of batches that a fetch asks for. replica: the id of the broker that asks, below 0 for none."""
    return REPLICATE if api == FETCH_SNAPSHOT or replica >= 0 else CONSUME


@compiled
def received(
    rows: KafkaRows,
    verifier: BatchVerifier,
    frame: Frame,
    call: KafkaRequest,
    api: ApiVersion,
    notes: BodyNotes,
    role: str,
) -> list[RecordSet]:
    """Write the batches of an answer to a fetch, and count the records that the application gets of them.

    role: of the batches, as the request says it. Returns the record sets, with their batches.
    """
    records: RecordSet
    total: cython.longlong = 0
    size: cython.longlong = 0
    offset: cython.longlong
    looks: cython.bint = rows.report.wants_batches or rows.report.wants_messages or rows.report.wants_findings
    shared: cython.bint = api.key == SHARE_FETCH and frame.complete
    found: list[RecordSet] = notes.sets()
    old: cython.int = NO_MAGIC if api.key != FETCH or api.version > 3 else old_format(False, api.version)
    listed: Mapping[tuple[str, int], Aborted | Acquired] | None = None
    for records in found:
        size += records.size
    if found and frame.complete and (shared or call.isolation == READ_COMMITTED):
        listed = _listed(frame, api, shared)
    if found and api.key == FETCH_SNAPSHOT:
        begin_with_batches(verifier, frame, api, found)
    for records in found:
        if records.topic in _METADATA_LOG:
            verifier.learn_names(frame, records)
            role = REPLICATE  # only brokers and controllers read it
        offset = ABSENT if call.session is None else call.session.fetch_offset(records.topic, records.partition)
        records.batches = verifier.batches_of(frame, records, True, old)
        if looks:
            verifier.look(frame, records, records.batches)
            rows.batches(role, call, frame, records.topic, records.partition, records.batches, OK, ABSENT)
        ranges = () if listed is None else of_partition(listed, records.topic, records.partition)
        if shared:
            total += acquired(frame.data, records.batches, ranges, verifier.limit)
        else:
            total += delivered(frame.data, records.batches, offset, ranges, verifier.limit)
    call.records = total
    call.payload_bytes = size
    return found


@compiled
def waited_for_data(frame: Frame, call: KafkaRequest, notes: BodyNotes, found: list[RecordSet]) -> cython.longlong:
    """Whether a broker held a fetch until it had something, or as long as it may: 1, 0 or ABSENT.

    What comes later than the fetch allows is not held, nor is what had data. found: as `received` returned it.
    """
    wait_ns: cython.longlong
    if call.frame is None or call.allowed_ns == ABSENT or (notes.throttle != ABSENT and notes.throttle != 0):
        return 0
    wait_ns = elapsed(call.frame.last_ns, frame.first_ns)
    if wait_ns != ABSENT and wait_ns - max(0, call.queued_ns) > call.allowed_ns + TICK_NS:
        return 0
    waited: cython.longlong = held(wait_ns, call.queued_ns, call.payload_bytes)
    return 0 if waited == 1 and found and had_data(call, notes, found) else waited


@compiled
def had_data(call: KafkaRequest, notes: BodyNotes, found: list[RecordSet]) -> cython.bint:
    """Whether a broker had more than a fetch wanted before it asked: a partition goes on far behind what it was given.

    What a broker waits for is given as soon as there are `min_bytes`, so that little is left.
    """
    records: RecordSet
    first: RecordBatch
    last: RecordBatch
    i: cython.Py_ssize_t
    end: cython.longlong
    if call.min_bytes == ABSENT or call.payload_bytes < 2 * call.min_bytes:
        return False
    for i in range(len(found)):
        records = found[i]
        end = notes.readable_until(i)
        if records.batches:
            first, last = records.batches[0], records.batches[len(records.batches) - 1]
            if 0 <= first.base_offset <= last.last_offset < end and (  # so that no difference overflows
                (end - last.last_offset) // FAR_BEHIND > last.last_offset - first.base_offset
            ):
                return True
    return False


def _listed(frame: Frame, api: ApiVersion, shared: bool) -> Mapping[tuple[str, int], Aborted | Acquired]:
    """What an answer lists for each partition: aborted transactions, or what a member of a share group acquired."""
    body = api.full_response(frame.data, api.response_body(frame.data, frame.start + 8), frame.start + frame.size).body
    return acquired_ranges(body) if shared else aborted_transactions(body)


def begin_with_batches(verifier: BatchVerifier, frame: Frame, api: ApiVersion, found: list[RecordSet]) -> None:
    """A later piece of a snapshot may begin within a batch, which is left out."""
    at = api.response_body(frame.data, frame.start + 8)
    later = later_pieces(api.full_response(frame.data, at, frame.start + frame.size).body)
    for records in found:
        if (records.topic, records.partition) in later:
            verifier.conversation.recovery().begin_with_batch(frame, records)
