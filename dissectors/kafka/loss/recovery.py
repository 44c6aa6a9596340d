"""Record batches of a conversation in frames with holes, and in bytes that are in no frame: see lost_batches.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.kafka import batches
from dissectors.kafka.body_notes import BodyNotes, RecordSet
from dissectors.kafka.decode import ApiVersion
from dissectors.kafka.fetch import fetching
from dissectors.kafka.loss.lost_batches import HEAD, BatchSearch, CapturedRanges, LostBatch, readable, units
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.record_batch import RecordBatch, read_batches
from dissectors.kafka.walk import Walker
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import OK, UNKNOWN
from dissectors.session.frame import Frame, FrameFacts
from dissectors.tcp.chunk import CLIENT, SERVER
from dissectors.wire.reader import reader

_Conversation = Any  # a KafkaConversation, whose module imports this one

_EARLY = 10_000  # batches kept back until a frame proves the protocol


class BatchRecovery:
    """The record batches of one connection that lie behind holes."""

    __slots__ = ("_conversation", "_early", "_searches", "held")

    def __init__(self, conversation: _Conversation) -> None:
        self._conversation = conversation
        self._searches: tuple[BatchSearch, BatchSearch] | None = None  # once there is something to search
        self._early: list[tuple[int, LostBatch]] = []  # of the time before the protocol was proven
        self.held = 0  # bytes kept

    # --- frames with holes ---

    def notes(self, walker: Walker, api: ApiVersion, frame: Frame, at: int) -> tuple[BodyNotes, int]:
        """Notes of a body, and the index up to which it was read: holes in its records do not end it.

        at: index after the header's last fixed field. Raises ReadError where no body begins.
        """
        note, body = (
            (api.note_request, api.request_body)
            if frame.direction == CLIENT
            else (api.note_response, api.response_body)
        )
        data, end = frame.data, frame.end
        if not frame.complete:
            body(data[: min(end, frame.known)], at)
            end = readable(note(walker, data, at, end), self._captured(frame), end)
        return note(walker, data, at, end), end

    def units(self, frame: Frame, records: RecordSet, *, lenient: bool, old: int) -> Iterator[RecordBatch]:
        """The batches of a record set: see batches.units, and lost_batches.units where bytes are missing."""
        data, limit = frame.data, self._conversation.options.limits.decompressed_bytes
        if self._conversation.rows.report.wants_messages:
            limit = min(limit, self._conversation.sink.room)
        if frame.complete:
            return batches.units(data, records.start, records.size, frame.end, limit, lenient=lenient, old=old)
        return units(data, records, self._captured(frame), limit, self.search(frame.direction), old=old)

    def begin_with_batch(self, frame: Frame, records: RecordSet) -> None:
        """Let a record set that may begin within a batch begin with the first whole one."""
        end = records.start + records.size
        found = self.search(frame.direction).first(frame.data, self._captured(frame), records.start, end)
        records.start = end if found is None else found
        records.size = end - records.start

    def found(self, frame: Frame, start: int) -> list[RecordBatch]:
        """The whole batches in a frame from an index on, where nothing says of what topic they are."""
        if start >= frame.end or not self._conversation.rows.report.looks_into_batches:
            return []
        return self.look(frame, self.places(frame, start))

    def places(self, frame: Frame, start: int) -> list[tuple[int, int]]:
        """[start, end) of the whole batches in a frame's data, from an index on."""
        search = self.search(frame.direction)
        fits = frame.end - start >= HEAD
        found = search.whole(frame.data, self._captured(frame), start, frame.end) if fits else []
        self._conversation.report_passed_over(search.budget, frame.direction, frame.first_ns, frame.packet_ref)
        return found

    # --- bytes that are in no frame ---

    def skipped(self, direction: int, start: int, end: int) -> None:
        """The bytes [start, end) of a direction's stream, still in its inbox, are in no frame."""
        conversation, search = self._conversation, self.search(direction)
        if not conversation.rows.report.looks_into_batches:
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
            self.report(direction, self.look(lost.frame(direction), [(0, len(lost.data))]))
        elif len(self._early) < _EARLY:
            self._early.append((direction, lost))

    # --- both ---

    def report(
        self,
        direction: int,
        found: list[RecordBatch],
        call: KafkaRequest | None = None,
        exchange: FrameFacts | None = None,
    ) -> None:
        """Write batches behind a hole. call: what carried them; exchange: the frame of it that has a row."""
        if not found:
            return
        precedents, offset = self._conversation.precedents, found[0].stream_offset
        if direction == SERVER and call is not None and call.frame is not None:
            role = fetching(call.api_code, call.replica)
        else:
            role = precedents.of(direction, offset).role
        outcome = UNKNOWN if direction == CLIENT else OK
        call = call or precedents.of(direction, offset).lost_request()
        topic, partition = call.session.only() if call.session is not None else (None, None)
        number = ABSENT if partition is None else partition
        self._conversation.rows.batches(role, call, exchange, topic, number, found, outcome, ABSENT)

    def look(self, frame: Frame, places: list[tuple[int, int]]) -> list[RecordBatch]:
        """The batches at some places [start, end) of a frame's data, verified."""
        found: list[RecordBatch] = []
        r = reader()
        for start, end in places:
            r.open(frame.data, start, end)
            found += read_batches(r, end, end)
        self._conversation.verifier.look(frame, None, found)
        return found

    def _captured(self, frame: Frame) -> CapturedRanges:
        return CapturedRanges(self._conversation.holes(frame), frame.end, frame.offset - frame.start)

    def search(self, direction: int) -> BatchSearch:
        """The search in a direction."""
        if self._searches is None:
            largest = self._conversation.options.limits.held_bytes
            self._searches = BatchSearch(largest), BatchSearch(largest)
        return self._searches[direction]
