"""Fetch sessions (KIP-227) and share sessions: what a Fetch fetches that names nothing; and whether it had to wait.

A Fetch with session epoch 0 names all partitions, and the answer gives the session its id; with a later epoch it names
only what changed, and what leaves the session. Epoch -1 ends it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from dissectors.kafka.skim import Skim, Topic

NEW, FINAL = 0, -1
_NEVER_LATE = 10  # a Fetch answered within a tenth of the time that it allows was not kept waiting …
_MS = 1_000_000  # … unless the newest record in the answer is younger than the request
_MAX_SESSIONS = 1000  # of one connection; a client has one for each broker


class Session:
    """The partitions of one session."""

    def __init__(self, pairs: Iterable[tuple[Topic, int]]) -> None:
        self._held: dict[Topic, set[int]] = {}
        self.topics: tuple[Topic, ...] = ()
        self.partitions = 0
        self.change(pairs, ())

    def change(self, pairs: Iterable[tuple[Topic, int]], forgotten: Iterable[tuple[Topic, int]]) -> None:
        """Add and remove partitions."""
        for topic, partition in pairs:
            self._held.setdefault(topic, set()).add(partition)
        for topic, partition in forgotten:
            held = self._held.get(topic)
            if held is not None:
                held.discard(partition)
                if not held:
                    del self._held[topic]
        self.topics = tuple(self._held)
        self.partitions = sum(map(len, self._held.values()))


class Sessions:
    """The sessions of one connection."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: dict[Hashable, Session] = {}

    def request(self, skim: Skim) -> Session | None:
        """What a Fetch or ShareFetch asks for; None where its session began before the capture."""
        values = skim.values
        if "shareSessionEpoch" in values:
            return self._share(values, skim)
        epoch, number = values.get("sessionEpoch"), values.get("sessionId")
        if epoch is None or epoch in (NEW, FINAL):
            if number:
                self._sessions.pop(number, None)
            return Session(skim.pairs)
        session = self._sessions.get(number)
        if session is not None and (skim.pairs or skim.forgotten):
            session.change(skim.pairs, skim.forgotten)
        return session

    def answer(self, asked: Mapping[str, Any], session: Session | None, number: int | None, failed: bool) -> None:
        """The answer to a Fetch: it may name a new session."""
        if failed:
            self._sessions.pop(asked.get("sessionId"), None)
        elif number and session is not None and asked.get("sessionEpoch") == NEW:
            if len(self._sessions) >= _MAX_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)))
            self._sessions[number] = session

    def _share(self, values: Mapping[str, Any], skim: Skim) -> Session | None:
        key = (values.get("groupId"), values.get("memberId"))
        epoch = values["shareSessionEpoch"]
        if epoch == NEW:
            if len(self._sessions) >= _MAX_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)))
            self._sessions[key] = Session(skim.pairs)
        session = self._sessions.get(key)
        if epoch == FINAL:
            self._sessions.pop(key, None)
        elif epoch != NEW and session is not None and (skim.pairs or skim.forgotten):
            session.change(skim.pairs, skim.forgotten)
        return session


def kept_waiting(asked: Mapping[str, Any], asked_ns: int, answered_ns: int, payload: int, newest: int) -> bool:
    """Whether a fetch's answer was late because the request allowed the broker to wait for data.

    payload: bytes of records in the answer; newest: the latest of their timestamps, ms.
    """
    allowed = asked.get("maxWaitMs") or 0  # of an orphan: not told
    if allowed <= 0 or not asked.get("minBytes"):
        return False
    if payload and newest * _MS >= asked_ns:
        return True
    return bool((answered_ns - asked_ns) * _NEVER_LATE >= allowed * _MS)
