"""Which answer belongs to which request: the table in commands.py, carried out.

Both sides send requests (a broker pings and challenges), so what is open is kept by the direction of the request.
Under one key the oldest is answered first: chunks of one message share a key, and so do pings.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from operator import attrgetter
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.pulsar.commands import SEND
from dissectors.pulsar.decode import CommandLayout, PulsarCommand
from dissectors.pulsar.pending import PulsarRequest
from dissectors.rows.layout import ABSENT

_HOLES = 64  # of a direction, the latest
_OLDEST = 200  # open requests that are looked through, the oldest: answers come in the order of requests


@compiled
def key_of(command: PulsarCommand, layout: CommandLayout) -> tuple[Any, ...] | None:
    """What ties this command to its request or answers; None where an id is missing, or where there is no such tie."""
    if not layout.first:
        return (layout.space,) if layout.space else None
    first: cython.longlong = command.number(layout.first)
    if first == ABSENT:
        return None
    if not layout.second:
        return layout.space, first
    second: cython.longlong = command.number(layout.second)
    return None if second == ABSENT else (layout.space, first, second)


@final
@carried
@compiled
class PulsarPendingRequests:
    """The requests of both directions that wait for their answers."""

    _limit: cython.Py_ssize_t
    _open: tuple[dict[tuple[Any, ...], PulsarRequest], dict[tuple[Any, ...], PulsarRequest]]
    _again: tuple[dict[tuple[Any, ...], deque[PulsarRequest]], dict[tuple[Any, ...], deque[PulsarRequest]]]
    _count: cython.Py_ssize_t = 0
    _holes: tuple[deque[int], deque[int]]

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = ({}, {})  # the oldest request of each key
        self._again = ({}, {})  # those that came later with the same key
        self._holes = (deque(maxlen=_HOLES), deque(maxlen=_HOLES))

    def __len__(self) -> int:
        return self._count

    def gap(self, direction: int, order: int) -> None:
        """Answers from this direction may have been lost."""
        self._holes[direction].append(order)

    @compiled
    def add(self, direction: cython.int, request: PulsarRequest) -> PulsarRequest | None:
        """Let a request wait for its answer. Where too many wait, the oldest comes back: it waits no longer."""
        table: dict[tuple[Any, ...], PulsarRequest] = self._open[direction]
        self._count += 1
        if request.key in table:
            self._again[direction].setdefault(request.key, deque()).append(request)
        else:
            table[request.key] = request
        if self._count <= self._limit:
            return None
        fullest: cython.int = 0 if len(self._open[0]) >= len(self._open[1]) else 1
        return self.take(1 - fullest, next(iter(self._open[fullest].values())))

    @compiled
    def find(self, direction: cython.int, key: tuple[Any, ...]) -> PulsarRequest | None:
        """The request that an answer from `direction` would answer."""
        table: dict[tuple[Any, ...], PulsarRequest] = self._open[1 - direction]
        return table.get(key)

    def only(self, direction: int, space: str) -> PulsarRequest | None:
        """The one request that is open in a space for an answer from `direction`; None if there are more."""
        table = self._open[1 - direction]
        found = [key for key in table if key[0] == space] if len(table) <= _OLDEST else []
        return table[found[0]] if len(found) == 1 and found[0] not in self._again[1 - direction] else None

    def without_id(self, direction: int, space: str) -> PulsarRequest | None:
        """The one request that is open in a space, if that request's id was not captured."""
        request = self.find(direction, (space, None))
        return request if request is not None and request is self.only(direction, space) else None

    def sent_as(self, direction: int, producer: int, sequence: int) -> PulsarRequest | None:
        """An open SEND that an answer names by a sequence id which is not its key.

        SEND_ERROR names a batch by the sequence id of its last message, and a replicated message by its own.
        """
        for request in islice(self._open[1 - direction].values(), _OLDEST):
            named = request.correlation_id, request.last_sequence
            if request.api_code == SEND and request.endpoint_id == producer and sequence in named:
                return request
        return None

    def holed(self, direction: int, order: int) -> bool:
        """Whether answers from this direction may have been lost since a delivery, as far as holes are remembered."""
        return any(order < hole for hole in self._holes[direction])

    @compiled
    def take(self, direction: cython.int, request: PulsarRequest) -> PulsarRequest:
        """Remove a request that an answer from `direction` answers; it must be the oldest of its key."""
        table: dict[tuple[Any, ...], PulsarRequest] = self._open[1 - direction]
        again: dict[tuple[Any, ...], deque[PulsarRequest]] = self._again[1 - direction]
        self._count -= 1
        del table[request.key]
        if again and request.key in again:
            later = again[request.key]
            table[request.key] = later.popleft()
            if not later:
                del again[request.key]
        return request

    def take_outlived(self, direction: cython.int, key: tuple[Any, ...], order: int) -> list[PulsarRequest]:
        """Remove those under a key whose answers must have been lost: older than a hole, and sent again since."""
        out = []
        while key in self._again[1 - direction]:
            oldest = self._open[1 - direction][key]
            if not any(oldest.order < hole < order for hole in self._holes[direction]):
                break
            out.append(self.take(direction, oldest))
        return out

    def rest(self) -> list[PulsarRequest]:
        """Everything that is still open, oldest first; nothing is open afterwards."""
        left = [request for table in self._open for request in table.values()]
        left += [request for table in self._again for later in table.values() for request in later]
        for table in (*self._open, *self._again):
            table.clear()
        self._count = 0
        return sorted(left, key=attrgetter("order"))
