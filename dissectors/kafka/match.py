"""Which answer belongs to which request: by correlation id, and by order.

A broker answers the requests of one connection in the order in which they came, so an answer to a later request says
that the earlier ones will never be answered (their answers were not captured). Ids may repeat and wrap: the oldest
request that waits with an id is meant. A Produce with acks=0 has no answer and never waits here.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.sessions import FetchSession
from dissectors.packing import pack, unpack

_READY = 4  # requests that wait ready before any are packed
_GROUP = 16  # requests that are packed together
_NONE: list[Any] = []  # most connections have none; never added to


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
        ids = array("q", (call.correlation_id for call in calls if call.correlation_id is not None))
        return cls(ids, sessions if any(sessions) else (), pack(calls))

    @property
    def calls(self) -> list[KafkaRequest]:
        """The requests."""
        calls = unpack(self.data)
        for call, session in zip(calls, self.sessions, strict=False):
            call.session = session
        return calls


class KafkaPendingRequests:
    """The requests of one connection that wait for their answers, oldest first."""

    __slots__ = ("_calls", "_ids", "_limit", "_newest", "_packed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: list[KafkaRequest] = []  # oldest last
        self._packed: list[_Packed] = _NONE  # those that follow
        self._newest: list[KafkaRequest] = _NONE  # and those after them
        self._ids: dict[int | None, int] = {}  # correlation id -> how many wait with it

    def __len__(self) -> int:
        return len(self._calls) + len(self._packed) * _GROUP + len(self._newest)

    def __contains__(self, correlation_id: int) -> bool:
        return correlation_id in self._ids

    def ids(self) -> list[int]:
        """The correlation ids that an answer may carry."""
        return [i for i in self._ids if i is not None]

    def at(self, turn: int) -> int | None:
        """The correlation id that the answer after `turn` others will carry."""
        ready = len(self._calls)
        if turn < ready:
            return self._calls[-1 - turn].correlation_id
        if turn < ready + len(self._packed) * _GROUP:
            group, at = divmod(turn - ready, _GROUP)
            return self._packed[group].ids[at]
        return self._newest[turn - ready - len(self._packed) * _GROUP].correlation_id

    def find(self, correlation_id: int) -> KafkaRequest | None:
        """The request that an answer with this id would be matched with."""
        if correlation_id not in self._ids:
            return None
        for call in reversed(self._calls):
            if call.correlation_id == correlation_id:
                return call
        for packed in self._packed:
            if correlation_id in packed.ids:
                return packed.calls[packed.ids.index(correlation_id)]
        return next(call for call in self._newest if call.correlation_id == correlation_id)

    def add(self, call: KafkaRequest) -> KafkaRequest | None:
        """Wait for the answer to `call`. The oldest request, where there are too many: it waits no longer."""
        self._ids[call.correlation_id] = self._ids.get(call.correlation_id, 0) + 1
        if len(self._calls) < _READY and not self._newest and not self._packed:
            self._calls.insert(0, call)
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
        calls = [*reversed(self._calls), *chain.from_iterable(p.calls for p in self._packed), *self._newest]
        self._calls, self._packed, self._newest = [], _NONE, _NONE
        self._ids.clear()
        return calls

    def _pack(self) -> None:
        """Let the newest requests become bytes."""
        if not self._packed:
            self._packed = []
        self._packed.append(_Packed.of(self._newest))
        self._newest = _NONE

    def _pop(self) -> KafkaRequest:
        call = self._calls.pop()
        if not self._calls:
            if self._packed:
                self._calls = self._packed.pop(0).calls
            elif self._newest:
                self._calls, self._newest = self._newest, _NONE
            self._calls.reverse()
        left = self._ids[call.correlation_id] - 1
        if left:
            self._ids[call.correlation_id] = left
        else:
            del self._ids[call.correlation_id]
        return call
