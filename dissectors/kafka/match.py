"""Which answer belongs to which request: by correlation id, and by order.

A broker answers the requests of one connection in the order in which they came, so an answer to a later request says
that the earlier ones will never be answered (their answers were not captured). Ids may repeat and wrap: the oldest
request that waits with an id is meant. A Produce with acks=0 has no answer and never waits here.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import zstandard

from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.sessions import FetchSession

_GROUP = 64  # requests that are packed together; so many wait ready before any are
_LEVEL = 1  # of compression
_NONE: list[Any] = []  # most connections have none; never added to
_FAILURES = (TypeError, AttributeError, pickle.PicklingError)


class _Packed(NamedTuple):
    """Requests as bytes: where the answers were not captured, many wait, and to the end."""

    ids: array[int]  # their correlation ids
    sessions: Sequence[FetchSession | None]  # which are shared with later requests
    data: bytes | list[KafkaRequest]  # the requests themselves where they hold more than plain values

    @classmethod
    def of(cls, calls: list[KafkaRequest]) -> _Packed:
        """So many requests, which are not to be used any more."""
        sessions = [call.session for call in calls]
        for call in calls:
            call.session = None
        data: bytes | list[KafkaRequest] = calls
        with suppress(*_FAILURES):
            data = zstandard.compress(pickle.dumps(calls, pickle.HIGHEST_PROTOCOL), _LEVEL)
        ids = array("q", (call.correlation_id for call in calls if call.correlation_id is not None))
        return cls(ids, sessions if any(sessions) else (), data)

    @property
    def calls(self) -> list[KafkaRequest]:
        """The requests."""
        data = self.data
        calls: list[KafkaRequest] = pickle.loads(zstandard.decompress(data)) if isinstance(data, bytes) else data
        for call, session in zip(calls, self.sessions, strict=False):
            call.session = session
        return calls


class KafkaPendingRequests:
    """The requests of one connection that wait for their answers, oldest first."""

    __slots__ = ("_calls", "_gone", "_ids", "_limit", "_newest", "_packed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: list[KafkaRequest | None] = []  # a deque would take ten times the room, and most hold few
        self._gone = 0  # at the head of the list, and None
        self._packed: list[_Packed] = _NONE  # those that follow
        self._newest: list[KafkaRequest] = _NONE  # and those after them
        self._ids: dict[int | None, int] = {}  # correlation id -> how many wait with it

    def __len__(self) -> int:
        return len(self._calls) - self._gone + len(self._packed) * _GROUP + len(self._newest)

    def __contains__(self, correlation_id: int) -> bool:
        return correlation_id in self._ids

    def ids(self) -> list[int]:
        """The correlation ids that an answer may carry."""
        return [i for i in self._ids if i is not None]

    def at(self, turn: int) -> int | None:
        """The correlation id that the answer after `turn` others will carry."""
        ready = len(self._calls) - self._gone
        if turn < ready:
            call = self._calls[self._gone + turn]
        elif turn < ready + len(self._packed) * _GROUP:
            group, at = divmod(turn - ready, _GROUP)
            return self._packed[group].ids[at]
        else:
            call = self._newest[turn - ready - len(self._packed) * _GROUP]
        assert call is not None
        return call.correlation_id

    def find(self, correlation_id: int) -> KafkaRequest | None:
        """The request that an answer with this id would be matched with."""
        if correlation_id not in self._ids:
            return None
        for call in self._calls:
            if call is not None and call.correlation_id == correlation_id:
                return call
        for packed in self._packed:
            if correlation_id in packed.ids:
                return packed.calls[packed.ids.index(correlation_id)]
        return next(call for call in self._newest if call.correlation_id == correlation_id)

    def add(self, call: KafkaRequest) -> KafkaRequest | None:
        """Wait for the answer to `call`. The oldest request, where there are too many: it waits no longer."""
        self._ids[call.correlation_id] = self._ids.get(call.correlation_id, 0) + 1
        if len(self._calls) - self._gone < _GROUP and not self._newest and not self._packed:
            self._calls.append(call)
        elif not self._newest:
            self._newest = [call]
        else:
            self._newest.append(call)
            if len(self._newest) == _GROUP:
                self._pack()
        return self._pop() if len(self) > self._limit else None

    def take(self, correlation_id: int | None) -> tuple[KafkaRequest | None, Sequence[KafkaRequest]]:
        """The request with this id, and those before it, which will have no answer."""
        if correlation_id not in self._ids:
            return None, ()
        call = self._pop()
        if call.correlation_id == correlation_id:
            return call, ()
        passed = []
        while call.correlation_id != correlation_id:
            passed.append(call)
            call = self._pop()
        return call, passed

    def rest(self) -> list[KafkaRequest]:
        """All that still wait; nobody does afterwards."""
        calls = [call for call in self._calls if call is not None]
        for packed in self._packed:
            calls += packed.calls
        calls += self._newest
        self._calls, self._packed, self._newest, self._gone = [], _NONE, _NONE, 0
        self._ids.clear()
        return calls

    def _pack(self) -> None:
        """Let the newest requests become bytes."""
        if not self._packed:
            self._packed = []
        self._packed.append(_Packed.of(self._newest))
        self._newest = _NONE

    def _pop(self) -> KafkaRequest:
        call = self._calls[self._gone]
        assert call is not None
        self._calls[self._gone] = None
        self._gone += 1
        if 2 * self._gone >= len(self._calls):
            del self._calls[: self._gone]
            self._gone = 0
        if not self._calls:
            if self._packed:
                self._calls = [*self._packed.pop(0).calls]
            elif self._newest:
                self._calls, self._newest = [*self._newest], _NONE
        left = self._ids[call.correlation_id] - 1
        if left:
            self._ids[call.correlation_id] = left
        else:
            del self._ids[call.correlation_id]
        return call
