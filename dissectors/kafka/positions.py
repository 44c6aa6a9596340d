"""Rows of `positions`: where partitions stand, as requests and answers say it, from the notes of the walk over them.

asked     Fetch: its fetch positions become rows at once. What OffsetCommit, TxnOffsetCommit, ListOffsets and
          InitProducerId say waits with the request: the answer tells what it means, or whether it counts
answered  everything else
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.kafka.body_notes import (
    AT_PARTITION,
    AT_TOPIC,
    PAIR_TOPIC,
    STATED,
    WHAT,
    BodyNotes,
    Fault,
    NoteRows,
    Topic,
)
from dissectors.kafka.decode import (
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    TXN_OFFSET_COMMIT,
    ApiVersion,
)
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.position_fields import (
    EPOCH,
    FIRST_ATTRIBUTE,
    FOUND,
    GROUP_NAME,
    HIGH_WATERMARK,
    ISR,
    LAST_STABLE,
    LEADER,
    LOG_START,
    OLD_OFFSETS,
    REPLICAS,
)
from dissectors.kafka.rows import KafkaRows
from dissectors.kafka.words import ISOLATION_PLACE, KEEPS_PREPARED_PLACE, REPLICA_PLACE, TRANSACTION_PLACE
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.rows.table import RowTable
from dissectors.session.exchange import Report
from dissectors.session.frame import Frame, FrameFacts
from dissectors.wire.arrays import Grid

NO_TOPIC = -2

FETCHED, COMMITTED, PENDING, TRANSACTION = "fetch", "committed", "pending", "transaction"
NAMES = ("high_watermark", "last_stable", "log_start", COMMITTED, "leader", FETCHED)
"""By number of what a field says: what rows call it."""

LATEST, EARLIEST = -1, -2  # timestamps by which ListOffsets asks for the ends of a partition
READ_COMMITTED = 1

_Conversation = Any  # a KafkaConversation, whose module imports this one


class Said(NamedTuple):
    """A number that a request says of a partition, and the epoch that it says with it; ABSENT for none."""

    topic: Topic | None
    partition: int
    number: int
    epoch: int


class Stated(NamedTuple):
    """What a request states that its answer decides on."""

    transaction: str | None  # that the request is part of, or that a producer that begins anew ends
    latest: str | None  # what the offset is that ListOffsets gets for LATEST; None for a replica: the end of the log
    said: Sequence[Said]


@compiled
def asked(conversation: _Conversation, call: KafkaRequest, api: ApiVersion, notes: BodyNotes) -> None:
    """Take what a request says of partitions."""
    key: cython.int = api.key
    if key == FETCH:
        if call.frame is not None and notes.placed.count:
            _fetched(conversation.rows, call, call.frame, notes)
    elif key in (OFFSET_COMMIT, TXN_OFFSET_COMMIT, LIST_OFFSETS, INIT_PRODUCER_ID):
        latest = NAMES[LAST_STABLE] if notes.number(ISOLATION_PLACE) == READ_COMMITTED else NAMES[HIGH_WATERMARK]
        replica: cython.longlong = notes.number(REPLICA_PLACE)
        transaction = None if notes.number(KEEPS_PREPARED_PLACE) == 1 else notes.text(TRANSACTION_PLACE)
        call.stated = Stated(transaction, None if replica >= 0 else latest, _said(notes))


@compiled
def answered(
    conversation: _Conversation,
    frame: Frame,
    call: KafkaRequest,
    api: ApiVersion,
    notes: BodyNotes,
    faults: Sequence[Fault],
) -> None:
    """Write the positions of an answer, and those of its request that it accepts."""
    key: cython.int = api.key
    rows: KafkaRows = conversation.rows
    if key in (END_TXN, INIT_PRODUCER_ID):
        if not faults:
            _transaction_ended(rows, frame.facts(), call)
    elif key in (OFFSET_COMMIT, TXN_OFFSET_COMMIT):
        if call.frame is not None and call.stated is not None:
            _committed(rows, call, call.frame, COMMITTED if key == OFFSET_COMMIT else PENDING, faults)
    elif notes.positions.count:
        most: cython.Py_ssize_t = conversation.options.limits.positions
        if notes.positions.count > most:
            message = f"Of an answer that states {notes.positions.count} positions, the first {most} are read"
            conversation.finding_at(frame, "limit", message, limit="positions")
        _write(rows, frame.facts(), call, notes, min(most, notes.positions.count))


@compiled
def _fetched(rows: KafkaRows, call: KafkaRequest, facts: FrameFacts, notes: BodyNotes) -> None:
    """Write from where a Fetch fetches the partitions that it names."""
    report: Report = rows.report
    table: RowTable = report.positions
    i: cython.Py_ssize_t
    seen: cython.longlong = NO_TOPIC
    slot: cython.Py_ssize_t = report.open_position(call, facts)
    table.put(slot, fields.POSITION_WHAT, FETCHED)
    if call.replica >= 0:
        table.waiting[slot, fields.POSITION_REPLICA] = call.replica
    for i in range(notes.placed.count):
        if notes.placed_offset(i) >= 0:
            if notes.placed.cells[i, PAIR_TOPIC] != seen:
                seen = notes.placed.cells[i, PAIR_TOPIC]
                table.put(slot, fields.POSITION_TOPIC, rows.names.name(notes._topic(seen)))
            table.waiting[slot, fields.POSITION_PARTITION] = notes.placed_partition(i)
            table.waiting[slot, fields.POSITION_VALUE] = notes.placed_offset(i)
            table.add(slot)
    table.drop(slot)


@compiled
def _write(rows: KafkaRows, facts: FrameFacts, call: KafkaRequest, notes: BodyNotes, count: cython.Py_ssize_t) -> None:
    """Write the first `count` positions that the notes of an answer have. Offsets below 0 stand for none.

    Left out is what every answer of a quiet partition says: that its log starts at 0, and that no transaction is open;
    and that one is open, to readers whom it does not hold.
    """
    report: Report = rows.report
    table: RowTable = report.positions
    positions: NoteRows = notes.positions
    i: cython.Py_ssize_t
    what: cython.longlong
    value: cython.longlong
    high: cython.longlong = ABSENT  # the high watermark before a last stable offset
    seen: cython.longlong = NO_TOPIC
    named: cython.longlong = -1  # what the row at the slot is of
    open_: cython.bint = False  # that row is to be added once what else is said of it is read
    slot: cython.Py_ssize_t = report.open_position(call, facts)
    asked_for = None if call.stated is None else _times(call.stated)
    for i in range(count):
        what = positions.cells[i, WHAT]
        value = positions.cells[i, STATED]
        if what >= FIRST_ATTRIBUTE:
            if what == GROUP_NAME:
                if open_:
                    table.add(slot)
                    open_ = False
                table.put(slot, fields.POSITION_GROUP, notes.stated_text(i))
            elif open_ and what == EPOCH and value >= 0:
                table.waiting[slot, fields.POSITION_LEADER_EPOCH] = value
            elif open_ and what in (REPLICAS, ISR):
                place = fields.POSITION_ISR if what == ISR else fields.POSITION_REPLICAS
                table.put(slot, place, notes.stated_brokers(i))
            continue
        if open_:
            table.add(slot)
            open_ = False
        if what == HIGH_WATERMARK:
            high = value
        elif what == LAST_STABLE:
            if value == high or call.isolation != READ_COMMITTED:
                continue
        elif what == LOG_START and value == 0:
            continue
        if what < FOUND:
            if what != named:
                named = what
                table.put(slot, fields.POSITION_WHAT, NAMES[what])
        elif what in (FOUND, OLD_OFFSETS):
            named = -1
            name = _sought(notes, i, call.stated, asked_for)
            if name is None:
                continue
            if what == OLD_OFFSETS:
                offsets = notes.stated_numbers(i, 8)
                value = offsets[0] if offsets else ABSENT
            table.put(slot, fields.POSITION_WHAT, name)
        else:
            continue
        if value < 0 and what != LEADER:
            continue
        if positions.cells[i, AT_TOPIC] != seen:
            seen = positions.cells[i, AT_TOPIC]
            table.put(slot, fields.POSITION_TOPIC, rows.names.name(notes._topic(seen)))
        table.waiting[slot, fields.POSITION_PARTITION] = positions.cells[i, AT_PARTITION]
        table.waiting[slot, fields.POSITION_VALUE] = value
        table.put(slot, fields.POSITION_LEADER, str(value) if what == LEADER and value >= 0 else None)
        table.waiting[slot, fields.POSITION_LEADER_EPOCH] = ABSENT
        table.waiting[slot, fields.POSITION_REPLICAS] = table.waiting[slot, fields.POSITION_ISR] = ABSENT
        open_ = True
    if open_:
        table.add(slot)
    table.drop(slot)


def _times(stated: Stated) -> Mapping[tuple[Topic | None, int], int]:
    """The timestamps by which a ListOffsets asks, by topic and partition."""
    return {(said.topic, said.partition): said.number for said in stated.said}


@compiled
def _sought(
    notes: BodyNotes, i: cython.Py_ssize_t, stated: Stated | None, times: Mapping[tuple[Topic | None, int], int] | None
) -> str | None:
    """What the offset is that an answer to ListOffsets gives; None for one that was sought by its time."""
    if stated is None or times is None:
        return None
    time = times.get((notes._topic(notes.positions.cells[i, AT_TOPIC]), notes.positions.cells[i, AT_PARTITION]))
    return {LATEST: stated.latest, EARLIEST: NAMES[LOG_START]}.get(time) if time is not None else None


@compiled
def _said(notes: BodyNotes) -> list[Said]:
    """The numbers that a request says of partitions, each with the epoch behind it."""
    found: list[Said] = []
    cells: Grid = notes.positions.cells
    count: cython.Py_ssize_t = notes.positions.count
    i: cython.Py_ssize_t
    epoch: cython.longlong
    for i in range(count):
        if cells[i, WHAT] != EPOCH:
            epoch = cells[i + 1, STATED] if i + 1 < count and cells[i + 1, WHAT] == EPOCH else ABSENT
            topic = notes._topic(cells[i, AT_TOPIC])
            found.append(Said(topic, cells[i, AT_PARTITION], cells[i, STATED], epoch))
    return found


def _accepted(stated: Stated, faults: Sequence[Fault]) -> list[Said]:
    """What a commit states, but for what the broker refused."""
    if faults and not any(fault.scope == "partition" for fault in faults):
        return []  # it refused the request
    refused = {(fault.topic, fault.partition) for fault in faults}
    return [said for said in stated.said if said.number >= 0 and (said.topic, said.partition) not in refused]


@compiled
def _committed(rows: KafkaRows, call: KafkaRequest, facts: FrameFacts, what: str, faults: Sequence[Fault]) -> None:
    """Write the offsets that a request commits and the broker accepts."""
    report: Report = rows.report
    table: RowTable = report.positions
    slot: cython.Py_ssize_t = report.open_position(call, facts)
    table.put(slot, fields.POSITION_WHAT, what)
    table.put(slot, fields.POSITION_TRANSACTION, call.stated.transaction)
    for said in _accepted(call.stated, faults):
        table.put(slot, fields.POSITION_TOPIC, rows.names.name(said.topic))
        table.put(slot, fields.POSITION_PARTITION, said.partition)
        table.put(slot, fields.POSITION_VALUE, said.number)
        table.put(slot, fields.POSITION_LEADER_EPOCH, said.epoch if said.epoch >= 0 else None)
        table.add(slot)
    table.drop(slot)


@compiled
def _transaction_ended(rows: KafkaRows, facts: FrameFacts, call: KafkaRequest) -> None:
    """Write that a transaction ended. Of a producer that begins anew, the broker aborts what it had left open."""
    values = call.values or {}
    transaction = call.stated.transaction if call.stated is not None else values.get("transactionalId")
    table: RowTable = rows.report.positions
    slot: cython.Py_ssize_t
    if transaction is not None:
        slot = rows.report.open_position(call, facts)
        table.put(slot, fields.POSITION_WHAT, TRANSACTION)
        table.put(slot, fields.POSITION_VALUE, int(bool(values.get("committed"))))
        table.put(slot, fields.POSITION_TRANSACTION, transaction)
        table.finish(slot)
