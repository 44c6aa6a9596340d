"""The fetches among many frames: what they and their answers say by column, and the sessions that they change in order.

A fetch names only what changed, so what it fetches depends on those before it (sessions.py). Bodies are read by column
as those of all other messages; what is left to do in order, between the frames that are not regular, is a few look-ups
in dictionaries for each. A fetch that is regular but for its answer, which is not at hand, waits for it; most
connections of consumers end a step with one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from dissectors.exchange import CONSUME, REPLICATE
from dissectors.frame import FrameFacts
from dissectors.frame_columns import Bools, Frames, Ints
from dissectors.kafka.body_summary import BodySummary, Topic
from dissectors.kafka.coded import NO_VALUE, CodedTexts, GrowingColumns
from dissectors.kafka.columnar import ColumnSummary
from dissectors.kafka.delivery import READ_COMMITTED
from dissectors.kafka.pending import PendingFetches
from dissectors.kafka.record_set_columns import ROLES, RecordSetColumns
from dissectors.kafka.sessions import FINAL, NEW, FetchSession

if TYPE_CHECKING:
    from dissectors.kafka.conversation import KafkaConversation
    from dissectors.kafka.exchange_columns import ExchangeColumns

_ABSENT = {"replicaId": NO_VALUE, "maxWaitMs": 0, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": FINAL}
"""The values in fetches and their answers, and what a version means that has no such field."""

NOT_KNOWN = int(np.iinfo(np.int64).min)
"""The offset from which a record set was fetched, where no request says it."""


class FetchColumns:
    """What fetches and their answers say: columns by frame, and tables that name it."""

    def __init__(self, frames: Frames[KafkaConversation], texts: CodedTexts) -> None:
        self._texts = texts
        self.read = np.zeros(len(frames), bool)  # fetches whose bodies are here
        self.values = {name: np.full(len(frames), absent) for name, absent in _ABSENT.items()}
        self.topics = GrowingColumns(2)  # frame, topic: as the body names them
        self.pairs = GrowingColumns(4)  # frame, topic, partition, fetch offset
        self.forgotten = GrowingColumns(3)  # frame, topic, partition

    def keep(self, which: Ints, found: ColumnSummary) -> None:
        """What some bodies say besides topics."""
        for name in _ABSENT.keys() & found.values.keys():
            self.values[name][which] = found.values[name]
        for table, groups in ((self.pairs, found.pairs), (self.forgotten, found.forgotten)):
            for pairs in groups:
                ok = found.ok[pairs.topic.row]
                topic, numbers = pairs.topic.at(ok), (pairs.partition, *pairs.numbers)
                table.extend(which[topic.row], topic.code, *(column[ok] for column in numbers))

    def keep_one(self, i: int, summary: BodySummary) -> None:
        """The same of one."""
        for name, absent in _ABSENT.items():
            value = summary.values.get(name)
            self.values[name][i] = absent if value is None else value
        for table, pairs in ((self.pairs, summary.pairs), (self.forgotten, summary.forgotten)):
            for topic, *numbers in pairs:
                table.add(i, self._texts.code(topic), *numbers)

    def committed_only(self, requests: Ints) -> Bools:
        """Whether messages of aborted transactions do not reach the application."""
        only: Bools = self.values["isolationLevel"][requests] == READ_COMMITTED
        return only

    def of_replicas(self, requests: Ints) -> Bools:
        """Whether it is a broker or controller that fetches."""
        replicas: Bools = self.values["replicaId"][requests] >= 0
        return replicas

    def may_wait(self, requests: Ints) -> Bools:
        """Whether the broker may wait for data."""
        may: Bools = self.values["maxWaitMs"][requests] > 0
        return may

    def all_values(self, requests: Ints) -> Iterator[dict[str, int]]:
        """The values of some fetches, one by one."""
        for row in zip(*(column[requests].tolist() for column in self.values.values()), strict=True):
            yield dict(zip(_ABSENT, row, strict=True))


class FetchesInOrder:
    """The regular fetches and those that wait for an answer, and the sessions that they change, in order."""

    def __init__(self, exchanges: ExchangeColumns, carried: RecordSetColumns) -> None:
        self._exchanges, self._carried, self._fetches = exchanges, carried, exchanges.fetches
        frames, values, read = exchanges.frames, exchanges.fetches.values, exchanges.fetches.read
        self._regular = np.flatnonzero(read & exchanges.regular & frames.client)
        self.waiting = np.flatnonzero(read & (exchanges.partner < 0) & ~exchanges.odd[frames.conversation])
        answers = exchanges.partner[self._regular]
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
        self._pending = self._waiting()
        self._ends = self._last_together(exchanges).tolist()
        self._passed = self._begin = 0  # of those that wait; the first of them that its conversation does not know
        self._sessions: dict[int, FetchSession | None] = {}  # by request
        self._wanted: list[tuple[int, Sequence[Topic], int]] = []  # request; topics and partitions of its session
        self._offset = np.full(len(carried.frame), NOT_KNOWN)  # fetched from, by record set
        self._fetched = carried.partitions()

    def _learn_roles(self, answers: Ints) -> None:
        """Whether it is a client or a broker that fetches, by answer and by connection."""
        exchanges = self._exchanges
        replicas = self._fetches.of_replicas(self._regular)
        exchanges.role[answers] = np.where(replicas, ROLES.index(REPLICATE), ROLES.index(CONSUME))
        conversation = exchanges.frames.conversation[answers]
        newest = np.flatnonzero(np.diff(conversation, append=-1))
        for t, replica in zip(conversation[newest].tolist(), replicas[newest].tolist(), strict=True):
            exchanges.conversations[t].replica = replica

    def _prepare(self, which: Ints, opens: Bools) -> Iterator[tuple[Any, ...]]:
        """All that a step needs of its frame."""
        exchanges, carried, values = self._exchanges, self._carried, self._fetches.values
        columns = (exchanges.frames.conversation, exchanges.partner, values["sessionId"], values["sessionEpoch"], opens)
        return zip(
            self._at,
            *(column[which].tolist() for column in columns),
            self._rows(self._fetches.pairs, which),
            self._rows(self._fetches.forgotten, which),
            np.searchsorted(carried.frame, which).tolist(),
            np.searchsorted(carried.frame, which, "right").tolist(),
            strict=True,
        )

    def _rows(self, table: GrowingColumns, which: Ints) -> list[list[tuple[Any, ...]]]:
        """The rows of a table that some frames have: (topic, numbers …)."""
        frame, topic, *numbers = table.by_frame()
        topics = map(self._exchanges.texts.values.__getitem__, topic.tolist())
        rows = list(zip(topics, *(column.tolist() for column in numbers), strict=True))
        begins, ends = np.searchsorted(frame, which), np.searchsorted(frame, which, "right")
        return [rows[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]

    def _waiting(self) -> PendingFetches:
        """What is kept of the fetches that wait, of all conversations."""
        exchanges, which = self._exchanges, self.waiting
        texts = exchanges.texts.texts
        return PendingFetches(
            FrameFacts(*(column.tolist() for column in exchanges.frames.facts(which))),
            exchanges.version[which].tolist(),
            exchanges.correlation_id[which].tolist(),
            [texts[code] for code in exchanges.client_id[which].tolist()],
            [[topic for (topic,) in topics] for topics in self._rows(self._fetches.topics, which)],
            exchanges.partitions[which].tolist(),
            list(self._fetches.all_values(which)),
            [None] * len(which),
        )

    def _last_together(self, exchanges: ExchangeColumns) -> Bools:
        """The fetches that wait behind which another frame of their conversation comes that may wait, or none."""
        frames, which = exchanges.frames, self.waiting
        cold = ~exchanges.regular
        cold[which] = False
        before = np.cumsum(cold)[which]
        last: Bools = (np.diff(frames.conversation[which], append=-1) != 0) | (np.diff(before, append=-1) != 0)
        return last

    def until(self, frame: int) -> None:
        """Take those before a frame."""
        conversations, sessions = self._exchanges.conversations, self._sessions
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
                for n in range(first, last):
                    offset = session.fetch_offset(*self._fetched[n])
                    if offset is not None:
                        self._offset[n] = offset

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
        exchanges, fetches = self._exchanges, self._fetches
        self.until(len(exchanges.frames))
        answers = exchanges.partner[self._regular]
        exchanges.may_wait[self._regular] = fetches.may_wait(self._regular) & (exchanges.throttle[answers] <= 0)
        self._carried.deliver(self._offset)
        self._name()

    def _name(self) -> None:
        """Topics and partitions of the exchanges: by the session of the request, where it is known."""
        exchanges = self._exchanges
        codes: dict[Sequence[Topic], list[int]] = {}  # of the same topics
        frame: list[int] = []
        topic: list[int] = []
        for i, topics, _ in self._wanted:
            if topics not in codes:
                codes[topics] = list(map(exchanges.texts.code, topics))
            frame += [i] * len(topics)
            topic += codes[topics]
        requests = np.array([i for i, _, _ in self._wanted], np.int64)
        exchanges.partitions[requests] = [partitions for _, _, partitions in self._wanted]
        known = np.zeros(len(exchanges.frames), bool)
        known[requests] = known[exchanges.partner[requests]] = True
        exchanges.topics.extend(np.array(frame, np.int64), np.array(topic, np.int64))
        frames, named = self._fetches.topics.by_frame()
        others = exchanges.regular[frames] & ~known[frames]
        exchanges.topics.extend(frames[others], named[others])
