"""The fetches among many frames: the sessions that they change, in order.

A fetch names only what changed, so what it fetches depends on those before it (sessions.py). Bodies are read by column
as those of all other messages; what is left to do in order, between the frames that are not regular, is a few look-ups
in dictionaries for each. A fetch that is regular but for its answer, which is not at hand, waits for it; most
connections of consumers end a step with one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.frame import FrameFacts
from dissectors.kafka.body_notes import Topic
from dissectors.kafka.coded import GrowingColumns
from dissectors.kafka.conversation import KafkaConversation
from dissectors.kafka.decode import FETCH
from dissectors.kafka.decoded_frames import KafkaFrames
from dissectors.kafka.pending import PendingFetches
from dissectors.kafka.precedents import Precedent
from dissectors.kafka.record_set_columns import ROLES, RecordSetColumns
from dissectors.kafka.sessions import NEW, FetchSession
from dissectors.rows.exchange import CONSUME, REPLICATE

T = TypeVar("T")
NOT_KNOWN = int(np.iinfo(np.int64).min)
"""The offset from which a record set was fetched, where no request says it."""


class FetchesInOrder:
    """The regular fetches and those that wait for an answer, and the sessions that they change, in order."""

    def __init__(self, decoded: KafkaFrames, carried: RecordSetColumns) -> None:
        self._decoded, self._carried, self._fetches = decoded, carried, decoded.fetches
        frames, values, read = decoded.frames, decoded.fetches.values, decoded.fetches.read
        self._regular = np.flatnonzero(read & decoded.regular & frames.client)
        self.waiting = np.flatnonzero(read & (decoded.partner < 0) & ~decoded.odd[frames.conversation])
        answers = decoded.partner[self._regular]
        self._learn_roles(answers)
        opens = np.zeros(len(frames), bool)  # a session
        opens[answers] = (values["sessionId"][answers] != 0) & (values["sessionEpoch"][self._regular] == NEW)
        carries = np.zeros(len(frames), bool)
        carries[carried.frame] = True
        answers = answers[opens[answers] | carries[answers]]  # from the others nothing is learned
        which = np.sort(np.concatenate((self._regular, self.waiting, answers)))
        self._at = which.tolist()
        self._taken = 0  # of them
        self._steps = self._prepare(which, opens)
        self.cold = ~decoded.regular  # neither regular nor a fetch that waits
        self.cold[self.waiting] = False
        self._pending = self._waiting()
        self._ends = self._last_together().tolist()
        self._passed = self._begin = 0  # of those that wait; the first of them that its conversation does not know
        self._sessions: dict[int, FetchSession | None] = {}  # by request
        self._wanted: list[tuple[int, Sequence[Topic], int]] = []  # request; topics and partitions of its session
        self._offsets: list[int | None] = [None] * len(carried.frame)  # fetched from, by record set
        self._fetched = carried.partitions()

    def _learn_roles(self, answers: Ints) -> None:
        """Whether it is a client or a broker that fetches, by answer and by connection."""
        decoded = self._decoded
        replicas = self._fetches.of_replicas(self._regular)
        decoded.role[answers] = np.where(replicas, ROLES.index(REPLICATE), ROLES.index(CONSUME))
        conversation = decoded.frames.conversation[answers]
        first = np.flatnonzero(np.diff(conversation, prepend=-1))
        columns = (
            conversation[first],
            decoded.frames.facts(answers[first]).offset,
            decoded.client_id[self._regular[first]],
            decoded.role[answers[first]],
        )
        texts = decoded.texts.texts
        for t, offset, client, role in zip(*(column.tolist() for column in columns), strict=True):
            decoded.conversations[t].precedents.answer(Precedent(offset, FETCH, texts[client], ROLES[role]))

    def _prepare(self, which: Ints, opens: Bools) -> Iterator[tuple[Any, ...]]:
        """All that a step needs of its frame."""
        decoded, carried, values = self._decoded, self._carried, self._fetches.values
        columns = (decoded.frames.conversation, decoded.partner, values["sessionId"], values["sessionEpoch"], opens)
        return zip(
            self._at,
            *(column[which].tolist() for column in columns),
            _by_frame(self._rows(self._fetches.pairs), which),
            _by_frame(self._rows(self._fetches.forgotten), which),
            np.searchsorted(carried.frame, which).tolist(),
            np.searchsorted(carried.frame, which, "right").tolist(),
            strict=True,
        )

    def _rows(self, table: GrowingColumns) -> tuple[Ints, list[tuple[Any, ...]]]:
        """The rows of a table: their frames, and (topic, numbers …)."""
        frame, topic, *numbers = table.by_frame()
        topics = map(self._decoded.texts.values.__getitem__, topic.tolist())
        return frame, list(zip(topics, *(column.tolist() for column in numbers), strict=True))

    def _waiting(self) -> PendingFetches:
        """What is kept of the fetches that wait, of all conversations."""
        decoded, which = self._decoded, self.waiting
        texts = decoded.texts.texts
        frame, topic = self._fetches.topics.by_frame()
        topics: list[Any] = list(map(decoded.texts.values.__getitem__, topic.tolist()))
        return PendingFetches(
            FrameFacts(*(column.tolist() for column in decoded.frames.facts(which))),
            decoded.version[which].tolist(),
            decoded.correlation_id[which].tolist(),
            [texts[code] for code in decoded.client_id[which].tolist()],
            _by_frame((frame, topics), which),
            decoded.partitions[which].tolist(),
            self._fetches.all_values(which),
            [None] * len(which),
        )

    def _last_together(self) -> Bools:
        """The fetches that wait behind which another frame of their conversation comes that may wait, or none."""
        conversation, before = self._decoded.frames.conversation[self.waiting], np.cumsum(self.cold)[self.waiting]
        last: Bools = (np.diff(conversation, append=-1) != 0) | (np.diff(before, append=-1) != 0)
        return last

    def until(self, frame: int) -> None:
        """Take those before a frame."""
        conversations, sessions = self._decoded.conversations, self._sessions
        taken, self._taken = self._taken, bisect_left(self._at, frame, self._taken)
        for i, t, partner, number, epoch, opens, pairs, forgotten, first, last in islice(
            self._steps, self._taken - taken
        ):
            of = conversations[t].sessions
            if partner < 0:
                self._wait(conversations[t], of.fetch(number, epoch, pairs, forgotten))
            elif i < partner:
                session = sessions[i] = of.fetch(number, epoch, pairs, forgotten)
                if session is not None:
                    self._wanted.append((i, session.topics, session.partitions))
            elif (session := sessions[partner]) is not None:
                if opens:
                    of.open(number, session)
                self._offsets[first:last] = session.fetch_offsets(self._fetched[first:last])

    def _wait(self, conversation: KafkaConversation, session: FetchSession | None) -> None:
        """The next fetch waits; those together are handed over together."""
        pending, i = self._pending, self._passed
        if session is not None:
            pending.session[i] = session
            pending.topic_keys[i], pending.partitions[i] = session.topics, session.partitions
        self._passed += 1
        if self._ends[i]:
            conversation.wait_for(pending.part(self._begin, self._passed))
            self._begin = self._passed

    def finish(self) -> None:
        """Take the rest; what the regular ones asked for and got."""
        decoded, fetches = self._decoded, self._fetches
        self.until(len(decoded.frames))
        answers = decoded.partner[self._regular]
        decoded.may_wait[self._regular] = fetches.may_wait(self._regular) & (decoded.throttle[answers] <= 0)
        offsets = [NOT_KNOWN if offset is None else offset for offset in self._offsets]
        self._carried.deliver(np.array(offsets, np.int64))
        self._name()

    def _name(self) -> None:
        """Topics and partitions of the exchanges: by the session of the request, where it is known."""
        decoded = self._decoded
        codes: dict[Sequence[Topic], list[int]] = {}  # of the same topics
        frame: list[int] = []
        topic: list[int] = []
        for i, topics, _ in self._wanted:
            if topics not in codes:
                codes[topics] = list(map(decoded.texts.code, topics))
            frame += [i] * len(topics)
            topic += codes[topics]
        requests = np.array([i for i, _, _ in self._wanted], np.int64)
        decoded.partitions[requests] = [partitions for _, _, partitions in self._wanted]
        known = np.zeros(len(decoded.frames), bool)
        known[requests] = known[decoded.partner[requests]] = True
        decoded.topics.extend(np.array(frame, np.int64), np.array(topic, np.int64))
        frames, named = self._fetches.topics.by_frame()
        others = decoded.regular[frames] & ~known[frames]
        decoded.topics.extend(frames[others], named[others])


def _by_frame(rows: tuple[Ints, list[T]], which: Ints) -> list[Sequence[T]]:
    """The rows, with their frames, that some frames have; most have none."""
    frame, each = rows
    begins, ends = np.searchsorted(frame, which), np.searchsorted(frame, which, "right")
    return [each[a:b] if a < b else () for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]
