"""Which answer belongs to which request: by correlation id, and by order.

A broker answers the requests of one connection in the order in which they came, so an answer to a later request says
that the earlier ones will never be answered (their answers were not captured). Ids may repeat and wrap: the oldest
request that waits with an id is meant. A Produce with acks=0 has no answer and never waits here.
"""

from __future__ import annotations

from collections.abc import Sequence

from dissectors.kafka.pending import KafkaRequest


class KafkaPendingRequests:
    """The requests of one connection that wait for their answers, oldest first."""

    __slots__ = ("_calls", "_gone", "_ids", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._calls: list[KafkaRequest | None] = []  # a deque would take ten times the room, and most hold few
        self._gone = 0  # at the head of the list, and None
        self._ids: dict[int | None, int] = {}  # correlation id -> how many wait with it

    def __len__(self) -> int:
        return len(self._calls) - self._gone

    def __contains__(self, correlation_id: int) -> bool:
        return correlation_id in self._ids

    def ids(self) -> list[int]:
        """The correlation ids that an answer may carry."""
        return [i for i in self._ids if i is not None]

    def at(self, turn: int) -> int | None:
        """The correlation id that the answer after `turn` others will carry."""
        call = self._calls[self._gone + turn]
        assert call is not None
        return call.correlation_id

    def find(self, correlation_id: int) -> KafkaRequest | None:
        """The request that an answer with this id would be matched with."""
        if correlation_id not in self._ids:
            return None
        return next(call for call in self._calls if call is not None and call.correlation_id == correlation_id)

    def add(self, call: KafkaRequest) -> KafkaRequest | None:
        """Wait for the answer to `call`. The oldest request, where there are too many: it waits no longer."""
        self._calls.append(call)
        self._ids[call.correlation_id] = self._ids.get(call.correlation_id, 0) + 1
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
        self._calls, self._gone = [], 0
        self._ids.clear()
        return calls

    def _pop(self) -> KafkaRequest:
        call = self._calls[self._gone]
        assert call is not None
        self._calls[self._gone] = None
        self._gone += 1
        if 2 * self._gone >= len(self._calls):
            del self._calls[: self._gone]
            self._gone = 0
        left = self._ids[call.correlation_id] - 1
        if left:
            self._ids[call.correlation_id] = left
        else:
            del self._ids[call.correlation_id]
        return call
