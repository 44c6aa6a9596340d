"""Record batches of a conversation in frames with holes, and in bytes that are in no frame: see lost_batches.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from dissectors.frame import Frame
from dissectors.inbox import Inbox
from dissectors.kafka import batches
from dissectors.kafka.body_notes import BodyNotes, RecordSet
from dissectors.kafka.decode import NoteBody
from dissectors.kafka.emit import KafkaEmitter
from dissectors.kafka.lost_batches import BatchSearch, CapturedRanges, LostBatch, readable, units
from dissectors.kafka.pending import VerifiedBatch
from dissectors.kafka.record_batch import RecordBatch
from dissectors.options import Options
from dissectors.rows.sink import Sink
from dissectors.search import SearchBudget

_EARLY = 10_000  # batches kept back until a frame proves the protocol


class FoundBatches(Protocol):
    """Where batches go that were found behind holes."""

    def found(self, direction: int, seen: Sequence[VerifiedBatch]) -> None: ...


class RecoveryContext(Protocol):
    """What the recovery needs of its conversation."""

    emit: KafkaEmitter
    options: Options
    sink: Sink
    inboxes: tuple[Inbox, Inbox]

    @property
    def proven(self) -> bool: ...

    def holes(self, frame: Frame) -> list[tuple[int, int]]: ...

    def report_passed_over(self, budget: SearchBudget, direction: int, time: int, packet_ref: int) -> None: ...

    @property
    def carried(self) -> FoundBatches: ...


class BatchRecovery:
    """The record batches of one connection that lie behind holes."""

    __slots__ = ("_conversation", "_early", "_searches", "held")

    def __init__(self, conversation: RecoveryContext) -> None:
        self._conversation = conversation
        self._searches: tuple[BatchSearch, BatchSearch] | None = None  # once there is something to search
        self._early: list[tuple[int, LostBatch]] = []  # of the time before the protocol was proven
        self.held = 0  # bytes kept

    # --- frames with holes ---

    def notes(self, note: NoteBody, frame: Frame, body: int) -> tuple[BodyNotes, int]:
        """Notes of a body, and the index up to which it was read: holes in its records do not end it."""
        data, end = frame.data, frame.end
        if not frame.complete:
            end = readable(note(data, body, end), self._captured(frame), end)
        return note(data, body, end), end

    def units(self, frame: Frame, records: RecordSet, *, lenient: bool, old: int | None) -> Iterator[RecordBatch]:
        """The batches of a record set: see batches.units, and lost_batches.units where bytes are missing."""
        data, limit = frame.data, self._conversation.options.limits.decompressed_bytes
        if self._conversation.emit.report.wants_messages:
            limit = min(limit, self._conversation.sink.room)
        if frame.complete:
            return batches.units(data, records.start, records.size, frame.end, limit, lenient=lenient, old=old)
        return units(data, records, self._captured(frame), limit, self.search(frame.direction), old=old)

    def from_a_batch_on(self, frame: Frame, records: RecordSet) -> RecordSet:
        """A record set that may begin within a batch, from the first whole one on."""
        end = records.start + records.size
        found = self.search(frame.direction).first(frame.data, self._captured(frame), records.start, end)
        start = end if found is None else found
        return records._replace(start=start, size=end - start)

    def count(self, frame: Frame, records: RecordSet, *, old: int | None) -> int:
        """The messages in a record set, as far as its headers were captured."""
        if frame.complete:
            limit = self._conversation.options.limits.decompressed_bytes
            return batches.count(frame.data, records.start, records.size, frame.end, limit)
        return sum(unit.records or 0 for unit in self.units(frame, records, lenient=True, old=old))

    def found(self, frame: Frame, start: int) -> Sequence[VerifiedBatch]:
        """The whole batches in a frame from an index on, where nothing says of what topic they are."""
        if start >= frame.end or not self._conversation.emit.report.looks_into_batches:
            return ()
        found: list[VerifiedBatch] = []
        for at, end in self.places(frame, start):
            found += self.look(frame, at, end)
        return found

    def places(self, frame: Frame, start: int) -> list[tuple[int, int]]:
        """[start, end) of the whole batches in a frame's data, from an index on."""
        search = self.search(frame.direction)
        found = list(search.every(frame.data, self._captured(frame), start, frame.end))
        self._conversation.report_passed_over(search.budget, frame.direction, frame.first_ns, frame.packet_ref)
        return found

    # --- bytes that are in no frame ---

    def skipped(self, direction: int, start: int, end: int) -> None:
        """The bytes [start, end) of a direction's stream, still in its inbox, are in no frame."""
        conversation, search = self._conversation, self.search(direction)
        if not conversation.emit.report.looks_into_batches:
            return
        self.held -= search.held
        for chunk in conversation.inboxes[direction].captured(start, end):
            for lost in search.add(chunk):
                self._report(direction, lost)
            conversation.report_passed_over(search.budget, direction, chunk.times[0], chunk.packet_refs[0])
        self.held += search.held

    def finish(self, *directions: int) -> None:
        """No bytes follow side by side."""
        if not self.held:
            return
        for direction in directions:
            search = self.search(direction)
            self.held -= search.held
            for lost in search.finish():
                self._report(direction, lost)

    def confirm(self) -> None:
        """It is this protocol: report what was found before it was proven."""
        early, self._early = self._early, []
        for direction, lost in early:
            self._report(direction, lost)

    def _report(self, direction: int, lost: LostBatch) -> None:
        if self._conversation.proven:
            self._conversation.carried.found(direction, self.look(lost.frame(direction), 0, len(lost.data)))
        elif len(self._early) < _EARLY:
            self._early.append((direction, lost))

    # --- both ---

    def look(self, frame: Frame, start: int, end: int) -> list[VerifiedBatch]:
        """The batch at [start, end) of a frame's data."""
        emit = self._conversation.emit
        unit = batches.units(frame.data, start, end - start, end, emit.limit, lenient=True)
        return emit.look(frame, None, unit)

    def _captured(self, frame: Frame) -> CapturedRanges:
        return CapturedRanges(self._conversation.holes(frame), frame.end, frame.offset - frame.start)

    def search(self, direction: int) -> BatchSearch:
        """The search in a direction."""
        if self._searches is None:
            largest = self._conversation.options.limits.held_bytes
            self._searches = BatchSearch(largest), BatchSearch(largest)
        return self._searches[direction]
