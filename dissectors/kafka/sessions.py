"""Fetch sessions (KIP-227) and share sessions: what a Fetch fetches that names nothing.

A Fetch with session epoch 0 names all partitions, and the answer gives the session its id; with a later epoch it names
only what changed, and what leaves the session. Epoch -1 ends it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from dissectors.kafka.body_notes import BodyNotes, Topic

NEW, FINAL = 0, -1
_NONE: dict[int, int | None] = {}  # never added to
_MAX_SESSIONS = 1000  # of one connection; a client has one for each broker


class FetchSession:
    """The partitions of one session."""

    __slots__ = ("_epoch", "_gapless", "_held", "partitions", "topics")

    def __init__(self, pairs: Iterable[tuple[Any, ...]], whole: bool) -> None:
        self._held: dict[Topic | None, dict[int, int | None]] = {}  # partition -> fetch offset, where there is one
        self.topics: tuple[Topic, ...] = ()
        self.partitions = 0
        self._epoch: int = NEW  # of the newest request
        self._gapless = whole  # nothing of what was asked for since its first request is missing
        self.change(pairs, ())

    def follow(
        self, epoch: int, pairs: Sequence[tuple[Any, ...]], forgotten: Sequence[tuple[Topic, int]], whole: bool
    ) -> None:
        """A request goes on with the session. whole: its body was read to the end."""
        self._gapless = self._gapless and epoch == self._epoch + 1 and whole
        self._epoch = epoch
        if pairs or forgotten:
            self.change(pairs, forgotten)

    def change(self, pairs: Iterable[tuple[Any, ...]], forgotten: Sequence[tuple[Topic, int]]) -> None:
        """Add and remove partitions. pairs: (topic, partition), and the fetch offset where there is one."""
        same = not forgotten
        for topic, partition, *offset in pairs:
            held = self._held.setdefault(topic, {})
            same = same and partition in held
            held[partition] = offset[0] if offset else None
        if same:
            return
        for topic, partition in forgotten:
            left = self._held.get(topic)
            if left is not None:
                left.pop(partition, None)
                if not left:
                    del self._held[topic]
        self.topics = tuple(topic for topic in self._held if topic is not None)  # none: neither name nor id was given
        self.partitions = sum(map(len, self._held.values()))

    def only(self) -> tuple[Topic | None, int | None]:
        """Topic and partition of all that an answer carries, where it can be only one."""
        if len(self._held) != 1 or not self._gapless:
            return None, None
        ((topic, partitions),) = self._held.items()
        return topic, next(iter(partitions)) if len(partitions) == 1 else None

    def fetch_offset(self, topic: Topic | None, partition: int) -> int | None:
        """The offset from which a partition is fetched; None where it is not known."""
        return self._held.get(topic, _NONE).get(partition)

    def fetch_offsets(self, each: Sequence[tuple[Topic | None, int]]) -> list[int | None]:
        """The offsets from which some partitions are fetched; None for those of which it is not known."""
        return [self._held.get(topic, _NONE).get(partition) for topic, partition in each]


class FetchSessions:
    """The sessions of one connection."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: dict[Hashable, FetchSession] = {}

    def request(self, notes: BodyNotes) -> FetchSession | None:
        """The session of a Fetch or ShareFetch; None where it began before the capture."""
        values = notes.values
        if "shareSessionEpoch" in values:
            return self._share(values, notes)
        epoch, number = values.get("sessionEpoch"), values.get("sessionId")
        return self.fetch(
            number or 0, FINAL if epoch is None else epoch, notes.pairs, notes.forgotten, whole=notes.whole
        )

    def fetch(
        self,
        number: int,
        epoch: int,
        pairs: Sequence[tuple[Any, ...]],
        forgotten: Sequence[tuple[Topic, int]],
        *,
        whole: bool = True,
    ) -> FetchSession | None:
        """The session of a Fetch. pairs: (topic, partition, fetch offset)."""
        if epoch in (NEW, FINAL):
            if number:
                self._sessions.pop(number, None)
            return FetchSession(pairs, whole)
        session = self._sessions.get(number)
        if session is not None:
            session.follow(epoch, pairs, forgotten, whole)
        return session

    def answer(
        self, request: Mapping[str, Any], session: FetchSession | None, number: int | None, failed: bool
    ) -> None:
        """The answer to a Fetch: it may name a new session."""
        if failed:
            self._sessions.pop(request.get("sessionId"), None)
        elif number and session is not None and request.get("sessionEpoch") == NEW:
            self.open(number, session)

    def open(self, key: Hashable, session: FetchSession) -> None:
        """A session begins."""
        if len(self._sessions) >= _MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[key] = session

    def _share(self, values: Mapping[str, Any], notes: BodyNotes) -> FetchSession | None:
        key = (values.get("groupId"), values.get("memberId"))
        epoch = values["shareSessionEpoch"]
        if epoch == NEW:
            self.open(key, FetchSession(notes.pairs, notes.whole))
        session = self._sessions.get(key)
        if epoch == FINAL:
            self._sessions.pop(key, None)
        elif epoch != NEW and session is not None:
            session.follow(epoch, notes.pairs, notes.forgotten, notes.whole)
        return session
