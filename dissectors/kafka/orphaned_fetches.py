"""Answers to fetches whose requests were not captured, of many connections that have ended, by column.

Which API an answer belongs to is found for each alone (orphans.py). Most of those for which it is found answer fetches:
the plain ones become rows together, with their batches. A plain one has no error and nothing of the controllers' log,
and its batches are whole and right. All others go one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dissectors.frame import Frame
from dissectors.frame_columns import NONE, Frames, nullable
from dissectors.kafka.body_notes import RecordSet
from dissectors.kafka.carried import METADATA_LOG
from dissectors.kafka.conversation import KafkaConversation
from dissectors.kafka.decode import FETCH
from dissectors.kafka.decoded_frames import KafkaFrames
from dissectors.kafka.fetches_in_order import NOT_KNOWN
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.record_set_columns import ROLES, RecordSetColumns
from dissectors.kafka.row_columns import topic_lists
from dissectors.rows.exchange import OK, ORPHAN, columns_from_frames
from dissectors.tcp.chunk import SERVER

_WORTH = 32  # fewer answers are as quick one by one
_MUCH = 4 << 20  # bytes of answers that are kept until they become rows


class _Answer(NamedTuple):
    """A plain answer to a fetch."""

    conversation: KafkaConversation
    frame: Frame
    call: KafkaRequest
    topics: Sequence[str]  # names, as far as they are known
    partitions: int
    sets: Sequence[RecordSet]  # with the same names
    throttle_ms: int | None


def explain_together(conversations: Sequence[KafkaConversation]) -> None:
    """Explain the answers that have waited for the end of their connections."""
    plain: list[_Answer] = []
    size = 0
    for conversation in conversations:
        for frame, call in conversation.explained():
            answer = _plain(conversation, frame, call)
            if answer is None:
                conversation.answer_lost(frame, call)
            else:
                plain.append(answer)
                size += frame.size
        if size > _MUCH:
            _report(plain)
            plain, size = [], 0
    _report(plain)


def _plain(conversation: KafkaConversation, frame: Frame, call: KafkaRequest) -> _Answer | None:
    """The answer, if it is a plain one to a fetch; with the names of topics that are known by now."""
    api, emit = call.api_version, conversation.emit
    if api is None or api.key != FETCH or emit.report.wants_messages or conversation.sink.wants_body(api.name):
        return None
    if conversation.pieces(SERVER, frame.offset, frame.offset + frame.size):
        return None  # it is known of each byte where it came from
    body = api.response_body(frame.data, frame.start + 8)
    notes = api.note_response(frame.data, body, frame.end)
    if not notes.whole or notes.faults or notes.names:
        return None
    if any(records.topic in METADATA_LOG for records in notes.sets):
        return None
    sets = [records._replace(topic=emit.names.name(records.topic) or "") for records in notes.sets]
    topics = emit.names.all((), notes.topics)
    return _Answer(conversation, frame, call, topics, notes.partitions, sets, notes.throttle_ms)


def _report(answers: Sequence[_Answer]) -> None:
    """The rows of plain answers."""
    if not answers:
        return
    left = answers
    if len(answers) >= _WORTH:
        columns = _FetchedColumns(answers)
        columns.decode()
        left = [answer for answer, regular in zip(answers, columns.regular.tolist(), strict=True) if not regular]
    for answer in left:
        answer.conversation.answer_lost(answer.frame, answer.call)


class _FetchedColumns(KafkaFrames):
    """Plain answers to fetches. Each stands for its request, too."""

    def __init__(self, answers: Sequence[_Answer]) -> None:
        conversations = list(dict.fromkeys(answer.conversation for answer in answers))
        number = {conversation: t for t, conversation in enumerate(conversations)}
        frames = [(number[answer.conversation], answer.frame) for answer in answers]
        super().__init__(Frames.kept(conversations, frames))
        self.partner = np.arange(len(answers))
        self.key[:] = FETCH
        self.regular[:] = self.fetches.read[:] = True
        for i, (conversation, frame, call, topics, partitions, sets, throttle_ms) in enumerate(answers):
            self.version[i] = NONE if call.version is None else call.version
            self.client_id[i] = self.texts.code(call.client_id)
            self.role[i] = ROLES.index(conversation.precedents.of(SERVER, frame.offset).role)
            self.throttle[i] = NONE if throttle_ms is None else throttle_ms
            self.partitions[i] = partitions
            for topic in topics:
                self.topics.add(i, self.texts.code(topic))
            shift = int(self.frames.start[i]) - frame.start
            for records in sets:
                start = records.start + shift
                self.sets.add(i, self.texts.code(records.topic), records.partition, start, records.size)

    def decode(self) -> None:
        """The rows; an answer in whose batches anything must be looked into is not regular, and has none."""
        carried = RecordSetColumns(self)
        if not self.regular.any():
            return
        for t in self.frames.conversation[self.regular].tolist():
            self.conversations[t].by_column += 1
        carried.deliver(np.full(len(carried.frame), NOT_KNOWN))
        if self.diagnosing:
            carried.diagnose()
        carried.report()
        if self.report.wants_exchanges:
            self._report_exchanges()

    def _report_exchanges(self) -> None:
        which = np.flatnonzero(self.regular)
        facts = self.frames.facts(which)
        self.sink.extend(
            "exchanges",
            len(which),
            **self.request_columns(which),
            kind=ORPHAN,
            api_code=FETCH,
            version=nullable(self.version[which]),
            status=OK,
            error_count=0,
            topics=topic_lists(self, which),
            partitions=self.partitions[which],
            records=self.records[which],
            payload_bytes=self.payload[which],
            long_poll=False,
            throttle_ms=nullable(self.throttle[which]),
            retransmitted=self.frames.retransmitted(which, facts),
            **columns_from_frames(None, facts),
        )
