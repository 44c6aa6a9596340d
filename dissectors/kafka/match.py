"""Which answer belongs to which request: by correlation id, and by order.

A broker answers the requests of one connection in the order in which they came, so an answer to a later request says
that the earlier ones will never be answered (their answers were not captured). Ids may repeat and wrap: the oldest
request that waits with an id is meant. A Produce with acks=0 has no answer and never waits here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from dissectors.kafka.pending import KafkaRequest, PendingFetches
from dissectors.kafka.sessions import FetchSession
from dissectors.packing import pack, unpack

_READY = 4  # requests that wait ready before any are packed
_GROUP = 16  # requests that are packed together; fewer fetches wait one by one
_COLUMNS = 256  # fetches that are packed together, by column
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


class _PackedFetches(NamedTuple):
    """The same of fetches that came by column."""

    ids: array[int]
    sessions: Sequence[FetchSession | None]
    data: bytes | list[PendingFetches]

    @classmethod
    def of(cls, fetches: PendingFetches) -> _PackedFetches:
        """So many fetches."""
        alone = fetches._replace(session=[None] * len(fetches.session))
        sessions = fetches.session if any(fetches.session) else ()
        return cls(array("q", fetches.correlation_id), sessions, pack([alone]))

    @property
    def fetches(self) -> PendingFetches:
        """The fetches, by column."""
        (fetches,) = unpack(self.data)
        return fetches._replace(session=list(self.sessions)) if self.sessions else fetches

    @property
    def calls(self) -> list[KafkaRequest]:
        """One by one."""
        return list(self.fetches.calls())


class KafkaPendingRequests:
    """The requests of one connection that wait for their answers, oldest first."""

    __slots__ = ("_calls", "_ids", "_limit", "_newest", "_packed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: list[KafkaRequest] = []  # oldest last
        self._packed: list[_Packed | _PackedFetches] = _NONE  # those that follow
        self._newest: list[KafkaRequest] = _NONE  # and those after them
        self._ids: dict[int | None, int] = {}  # correlation id -> how many wait with it

    def __len__(self) -> int:
        packed = sum([len(packed.ids) for packed in self._packed]) if self._packed else 0
        return len(self._calls) + packed + len(self._newest)

    def ids(self) -> list[int]:
        """The correlation ids that an answer may carry."""
        return [i for i in self._ids if i is not None]

    def in_order(self) -> Iterator[int | None]:
        """The correlation ids that answers will carry, one after the other."""
        yield from [call.correlation_id for call in reversed(self._calls)]
        for packed in self._packed:
            yield from packed.ids
        yield from [call.correlation_id for call in self._newest]

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

    def add(self, call: KafkaRequest) -> Sequence[KafkaRequest]:
        """Wait for the answer to `call`. The oldest requests, where there are too many: they wait no longer."""
        self._ids[call.correlation_id] = self._ids.get(call.correlation_id, 0) + 1
        if len(self._calls) < _READY and not self._newest and not self._packed:
            self._calls.insert(0, call)
        elif not self._newest:
            self._newest = [call]
        else:
            self._newest.append(call)
            if len(self._newest) == _GROUP:
                self._pack()
        return self._beyond()

    def add_fetches(self, fetches: PendingFetches) -> Sequence[KafkaRequest]:
        """The same for fetches that came by column."""
        if len(fetches.correlation_id) < _GROUP:
            return [dropped for call in fetches.calls() for dropped in self.add(call)]
        for correlation_id in fetches.correlation_id:
            self._ids[correlation_id] = self._ids.get(correlation_id, 0) + 1
        self._pack()
        for first in range(0, len(fetches.correlation_id), _COLUMNS):
            self._packed.append(_PackedFetches.of(fetches.part(first, first + _COLUMNS)))
        return self._beyond()

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

    def rest(self) -> tuple[list[KafkaRequest], list[PendingFetches]]:
        """All that still wait, those that came by column apart; nobody waits afterwards."""
        fetches = [packed.fetches for packed in self._packed if isinstance(packed, _PackedFetches)]
        packed = chain.from_iterable(packed.calls for packed in self._packed if isinstance(packed, _Packed))
        calls = [*reversed(self._calls), *packed, *self._newest]
        self._calls, self._packed, self._newest = [], _NONE, _NONE
        self._ids.clear()
        return calls, fetches

    def _pack(self) -> None:
        """Let the newest requests become bytes."""
        if not self._packed:
            self._packed = []
        if self._newest:
            self._packed.append(_Packed.of(self._newest))
            self._newest = _NONE

    def _beyond(self) -> Sequence[KafkaRequest]:
        """The oldest requests, where there are too many; they wait no longer."""
        return [self._pop() for _ in range(len(self) - self._limit)]

    def _pop(self) -> KafkaRequest:
        if not self._calls:
            if self._packed:
                self._calls = self._packed.pop(0).calls
            else:
                self._calls, self._newest = self._newest, _NONE
            self._calls.reverse()
        call = self._calls.pop()
        left = self._ids[call.correlation_id] - 1
        if left:
            self._ids[call.correlation_id] = left
        else:
            del self._ids[call.correlation_id]
        return call
