"""Which answer belongs to which request: by correlation id, in whatever order the answers come.

Brokers answer the requests of one connection in the order in which they came, but proxies and faulty clients do not
keep to it, so an answer to a later request proves nothing about an earlier one. Ids may repeat and wrap: the oldest
request that waits with an id is meant. A request waits until its answer comes, until a hole in what the server sent
explains that it does not, until too many wait, or to the end of the connection. A Produce with acks=0 has no answer and
never waits here.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from operator import attrgetter
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka.pending import KafkaRequest


@final
@carried
@compiled
class KafkaPendingRequests:
    """The requests of one connection that wait for their answers."""

    limit: cython.longlong
    arrived: cython.longlong = 0  # requests so far: the number of the next
    count: cython.longlong = 0  # requests that wait
    lost: cython.longlong = 0  # requests with smaller numbers may have been answered in a hole
    newest: cython.longlong  # number of the newest request that was answered
    by_id: dict[int, KafkaRequest]  # correlation id -> the oldest request that waits with it
    again: dict[int, deque[KafkaRequest]]

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.newest = -1
        self.by_id = {}
        self.again = {}  # … -> those that came later with the same id

    def __len__(self) -> int:
        return self.count

    def ids(self) -> list[int]:
        """The correlation ids that an answer may carry."""
        return list(self.by_id)

    def find(self, correlation_id: int) -> KafkaRequest | None:
        """The request that an answer with this id would be matched with."""
        return self.by_id.get(correlation_id)

    @compiled
    def add(self, call: KafkaRequest) -> KafkaRequest | None:
        """Wait for the answer to `call`. Returns a request that waits no longer, where too many do."""
        key: int = call.correlation_id
        call.number = self.arrived
        self.arrived += 1
        self.count += 1
        if key in self.by_id:
            self.again.setdefault(key, deque()).append(call)
        else:
            self.by_id[key] = call
        return self.take(next(iter(self.by_id))) if self.count > self.limit else None

    @compiled
    def take(self, correlation_id: cython.longlong) -> KafkaRequest | None:
        """The oldest request that waits with this id, which waits no longer."""
        key: int = correlation_id
        call: KafkaRequest | None = self.by_id.get(key)
        if call is not None:
            del self.by_id[key]
            self.count -= 1
            if self.again and key in self.again:
                later = self.again[key]
                self.by_id[key] = later.popleft()
                if not later:
                    del self.again[key]
        return call

    def oldest(self, api_code: int, version: int) -> KafkaRequest | None:
        """The oldest request of a version of an API that waits."""
        found = (call for call in self.by_id.values() if (call.api_code, call.version) == (api_code, version))
        return min(found, key=attrgetter("number"), default=None)

    def lose(self) -> None:
        """Bytes of the server are missing: the answers to all that wait may have been in them."""
        self.lost = self.arrived

    @compiled
    def passed(self, call: KafkaRequest) -> list[KafkaRequest]:
        """The requests before `call`, which was answered, whose answers a hole explains: none waits any more."""
        found: list[KafkaRequest] = []
        stop = min(self.lost, call.number)
        for each in self.by_id.values():
            if each.number >= stop:
                break
            found.append(each)
        for each in found:
            self.take(each.correlation_id)
        if stop == self.lost:
            self.lost = 0
        return found

    def rest(self) -> list[KafkaRequest]:
        """Remove and return the requests that have no answer yet, oldest first."""
        calls = sorted(chain(self.by_id.values(), *self.again.values()), key=attrgetter("number"))
        self.by_id.clear()
        self.again.clear()
        self.count = 0
        return calls
