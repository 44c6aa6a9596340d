"""Which answer belongs to which request: the table in commands.py, carried out.

Both sides send requests (a broker pings and challenges), so what is open is kept by the direction of the request.
Under one key the oldest is answered first: chunks of one message share a key, and so do pings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.pulsar.commands import SEND
from dissectors.pulsar.decode import CommandLayout, PulsarCommand
from dissectors.pulsar.pending import PulsarRequest
from dissectors.rows.layout import ABSENT

_HOLES = 64  # of a direction, the latest
_OLDEST = 200  # open requests that are looked through for a SEND, the oldest: answers come in the order of requests


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
    _open: tuple[dict[tuple[Any, ...], Any], dict[tuple[Any, ...], Any]]
    _spaces: tuple[dict[str, int], dict[str, int]]  # how many are open, by the key's first part
    _count: cython.Py_ssize_t = 0
    _holes: tuple[deque[int], deque[int]]

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = (
            {},
            {},
        )  # a request, or a deque of several
        self._spaces = ({}, {})
        self._holes = (deque(maxlen=_HOLES), deque(maxlen=_HOLES))

    def __len__(self) -> int:
        return self._count

    def gap(self, direction: int, order: int) -> None:
        """Answers from this direction may have been lost."""
        self._holes[direction].append(order)

    @compiled
    def add(self, direction: cython.int, key: tuple[Any, ...], request: PulsarRequest) -> PulsarRequest | None:
        """Wait for an answer. Where too many wait, the oldest comes back: it waits no longer."""
        table: dict[tuple[Any, ...], Any] = self._open[direction]
        there = table.get(key)
        if there is None:
            table[key] = request
        elif isinstance(there, deque):
            there.append(request)
        else:
            table[key] = deque((there, request))
        self._count_open(direction, key, 1)
        if self._count <= self._limit:
            return None
        fullest = 0 if len(self._open[0]) >= len(self._open[1]) else 1
        return self._pop(fullest, next(iter(self._open[fullest])))

    @compiled
    def find(self, direction: cython.int, key: tuple[Any, ...]) -> PulsarRequest | None:
        """The request that an answer from `direction` would answer."""
        table: dict[tuple[Any, ...], Any] = self._open[1 - direction]
        there = table.get(key)
        return there if there is None or isinstance(there, PulsarRequest) else there[0]

    def only(self, direction: int, space: str) -> tuple[Any, ...] | None:
        """The key of the one request that is open in a space for an answer from `direction`; None if there are more."""
        if self._spaces[1 - direction].get(space) != 1:
            return None
        return next(key for key in self._open[1 - direction] if key[0] == space)

    def without_id(self, direction: int, space: str) -> tuple[Any, ...] | None:
        """The key of the one request that is open in a space, if that request's id was not captured."""
        key = (space, None)
        return key if self._spaces[1 - direction].get(space) == 1 and key in self._open[1 - direction] else None

    def sent_as(self, direction: int, producer: int, sequence: int) -> tuple[Any, ...] | None:
        """The key of an open SEND that an answer names by a sequence id which is not its key.

        SEND_ERROR names a batch by the sequence id of its last message, and a replicated message by its own.
        """
        for key, there in islice(self._open[1 - direction].items(), _OLDEST):
            request = there[0] if isinstance(there, deque) else there
            named = request.correlation_id, request.last_sequence
            if request.api_code == SEND and request.endpoint_id == producer and sequence in named:
                return key
        return None

    def holed(self, direction: int, order: int) -> bool:
        """Whether answers from this direction may have been lost since a delivery, as far as holes are remembered."""
        return any(order < hole for hole in self._holes[direction])

    @compiled
    def take(self, direction: cython.int, key: tuple[Any, ...]) -> PulsarRequest:
        """Remove the request that an answer from `direction` answers; it must be open."""
        return self._pop(1 - direction, key)

    def take_outlived(self, direction: cython.int, key: tuple[Any, ...], order: int) -> list[PulsarRequest]:
        """Remove those under a key whose answers must have been lost: older than a hole, and sent again since."""
        there = self._open[1 - direction].get(key)
        out = []
        while isinstance(there, deque) and len(there) > 1:
            if not any(there[0].order < hole < order for hole in self._holes[direction]):
                break
            out.append(there.popleft())
            self._count_open(1 - direction, key, -1)
        return out

    def rest(self) -> Iterator[PulsarRequest]:
        """Everything that is still open, oldest first; nothing is open afterwards."""
        left: list[PulsarRequest] = []
        for table in self._open:
            for there in table.values():
                left += there if isinstance(there, deque) else (there,)
            table.clear()
        self._spaces = ({}, {})
        self._count = 0
        left.sort(key=lambda request: request.order)
        yield from left

    @compiled
    def _pop(self, requester: cython.int, key: tuple[Any, ...]) -> PulsarRequest:
        table: dict[tuple[Any, ...], Any] = self._open[requester]
        there: PulsarRequest | deque[PulsarRequest] = table[key]
        self._count_open(requester, key, -1)
        if isinstance(there, deque):
            request = there.popleft()
            if not there:
                del table[key]
            return request
        del table[key]
        return there

    @compiled
    def _count_open(self, requester: cython.int, key: tuple[Any, ...], change: cython.int) -> None:
        self._count += change
        spaces: dict[str, int] = self._spaces[requester]
        spaces[key[0]] = spaces.get(key[0], 0) + change
