"""Fetch sessions (KIP-227) and share sessions: what a Fetch fetches that names nothing.

A Fetch with session epoch 0 names all partitions, and the answer gives the session its id; with a later epoch it names
only what changed, and what leaves the session. Epoch -1 ends it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka.body_notes import BodyNotes, Topic
from dissectors.rows.layout import ABSENT

NEW, FINAL = 0, -1
_NONE: dict[int, int] = {}  # never added to
_MAX_SESSIONS = 1000  # of one connection; a client has one for each broker


@final
@carried
@compiled
class FetchSession:
    """The partitions of one session.

    held: topic -> partition -> fetch offset, ABSENT where none is given
    topics, partitions: which, and how many
    epoch: of the newest request
    gapless: nothing of what was asked for since the first request is missing
    """

    held: dict[Topic | None, dict[int, int]]
    topics: tuple[Topic, ...]
    partitions: cython.longlong = 0
    epoch: cython.longlong
    gapless: cython.bint

    def __init__(self, notes: BodyNotes) -> None:
        """notes: of the request that begins the session."""
        self.held = {}
        self.topics = ()
        self.epoch = NEW
        self.gapless = notes.whole
        self.change(notes)

    @compiled
    def follow(self, epoch: cython.longlong, notes: BodyNotes) -> None:
        """A request goes on with the session: it may add partitions, and remove some."""
        self.gapless = self.gapless and epoch == self.epoch + 1 and notes.whole
        self.epoch = epoch
        self.change(notes)

    @compiled
    def change(self, notes: BodyNotes) -> None:
        """Add and remove the partitions that a request names."""
        i: cython.Py_ssize_t
        changed: cython.bint = False
        for i in range(notes.placed.count):
            topic = notes.placed_topic(i)
            partition: int = notes.placed_partition(i)
            if notes.is_forgotten(i):
                continue
            held = self.held.get(topic)
            if held is None:
                held = self.held[topic] = {}
            changed = changed or partition not in held
            held[partition] = notes.placed_offset(i)
        for i in range(notes.placed.count):
            if notes.is_forgotten(i):
                changed = True
                self._forget(notes.placed_topic(i), notes.placed_partition(i))
        if changed:
            self.topics = tuple([topic for topic in self.held if topic is not None])  # None: without name and id
            self.partitions = sum(map(len, self.held.values()))

    def answered(self, topics: tuple[Topic, ...]) -> None:
        """An answer names topics, which bytes of a request that were not captured may have added."""
        for topic in topics:
            self.held.setdefault(topic, {})
        self.topics = tuple([topic for topic in self.held if topic is not None])

    def _forget(self, topic: Topic | None, partition: int) -> None:
        held = self.held.get(topic)
        if held is not None:
            held.pop(partition, None)
            if not held:
                del self.held[topic]

    def only(self) -> tuple[Topic | None, int | None]:
        """Topic and partition of all that an answer carries, where it can be only one."""
        if len(self.held) != 1 or not self.gapless:
            return None, None
        ((topic, partitions),) = self.held.items()
        return topic, next(iter(partitions)) if len(partitions) == 1 else None

    @compiled
    def fetch_offset(self, topic: Topic | None, partition: cython.longlong) -> cython.longlong:
        """The offset from which a partition is fetched; ABSENT where it is not known."""
        return self.held.get(topic, _NONE).get(partition, ABSENT)


@final
@carried
@compiled
class FetchSessions:
    """The sessions of one connection, by their ids; those of share groups by group and member."""

    sessions: dict[Hashable, FetchSession]

    def __init__(self) -> None:
        self.sessions = {}

    @compiled
    def fetch(self, number: cython.longlong, epoch: cython.longlong, notes: BodyNotes) -> FetchSession | None:
        """The session of a Fetch; None where it began before the capture. ABSENT: of versions without sessions."""
        if epoch in (NEW, FINAL, ABSENT):
            if number != ABSENT and number:
                self.sessions.pop(number, None)
            return FetchSession(notes)
        session = self.sessions.get(number)
        if session is not None:
            session.follow(epoch, notes)
        return session

    @compiled
    def answer(
        self,
        number: cython.longlong,
        epoch: cython.longlong,
        session: FetchSession | None,
        given: cython.longlong,
        failed: cython.bint,
    ) -> None:
        """The answer to a Fetch of a session and an epoch: `given` is the id of a new session, if it opens one."""
        if failed:
            self.sessions.pop(number, None)
        elif given != 0 and given != ABSENT and session is not None and epoch == NEW:
            self.open(given, session)

    def open(self, key: Hashable, session: FetchSession) -> None:
        """A session begins."""
        if len(self.sessions) >= _MAX_SESSIONS:
            self.sessions.pop(next(iter(self.sessions)))
        self.sessions[key] = session

    def share(self, values: Mapping[str, Any], notes: BodyNotes) -> FetchSession | None:
        """The session of a ShareFetch, of which the single values are given; None as for `fetch`."""
        key = (values.get("groupId"), values.get("memberId"))
        epoch = values.get("shareSessionEpoch")
        if epoch == NEW:
            self.open(key, FetchSession(notes))
        session = self.sessions.get(key)
        if epoch == FINAL:
            self.sessions.pop(key, None)
        elif epoch != NEW and session is not None:
            session.follow(ABSENT if epoch is None else epoch, notes)
        return session
