"""Which answer belongs to which request: by correlation id, and by order.

A broker answers the requests of one connection in the order in which they came, so an answer to a later request says
that the earlier ones will never be answered (their answers were not captured). Ids may repeat and wrap: the oldest
request that waits with an id is meant. A Produce with acks=0 has no answer and never waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from dissectors.kafka.pending import KafkaRequest


class KafkaPendingRequests:
    """The requests of one connection that wait for their answers, oldest first."""

    __slots__ = ("_arrived", "_by_id", "_limit", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._arrived = 0  # requests so far: the number of the next
        self._waiting: dict[int, KafkaRequest] = {}  # by number, oldest first
        self._by_id: dict[int | None, deque[int]] = {}  # correlation id -> numbers, oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def ids(self) -> list[int]:
        """The correlation ids that an answer may carry."""
        return [i for i in self._by_id if i is not None]

    def in_order(self) -> Iterator[int | None]:
        """The correlation ids of the requests, oldest first."""
        return (call.correlation_id for call in self._waiting.values())

    def find(self, correlation_id: int) -> KafkaRequest | None:
        """The request that an answer with this id would be matched with."""
        numbers = self._by_id.get(correlation_id)
        return self._waiting[numbers[0]] if numbers else None

    def add(self, call: KafkaRequest) -> Sequence[KafkaRequest]:
        """Wait for the answer to `call`. Returns the oldest requests beyond the limit: they wait no longer."""
        self._waiting[self._arrived] = call
        self._by_id.setdefault(call.correlation_id, deque()).append(self._arrived)
        self._arrived += 1
        return [self._pop_oldest() for _ in range(len(self._waiting) - self._limit)]

    def take(self, correlation_id: int | None) -> tuple[KafkaRequest | None, Sequence[KafkaRequest]]:
        """The request with this id, and those before it, which will have no answer; none of them waits any more."""
        numbers = self._by_id.get(correlation_id)
        if not numbers:
            return None, ()
        number, passed = numbers[0], []
        while next(iter(self._waiting)) != number:
            passed.append(self._pop_oldest())
        return self._pop_oldest(), passed

    def rest(self) -> list[KafkaRequest]:
        """All that still wait, oldest first; nobody waits afterwards."""
        calls = list(self._waiting.values())
        self._waiting.clear()
        self._by_id.clear()
        return calls

    def _pop_oldest(self) -> KafkaRequest:
        number = next(iter(self._waiting))
        call = self._waiting.pop(number)
        numbers = self._by_id[call.correlation_id]
        numbers.popleft()
        if not numbers:
            del self._by_id[call.correlation_id]
        return call
