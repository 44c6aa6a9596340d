"""Which answer belongs to which request: the table in commands.py, carried out.

Both sides send requests (a broker pings and challenges), so what is open is kept by the direction of the request.
Under one key the oldest is answered first: chunks of one message share a key, and so do pings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from dissectors.pulsar.commands import SPACES, CommandType
from dissectors.pulsar.pending import PulsarRequest

Key = tuple[Any, ...]
_HOLES = 64  # of a direction, the latest


def key_of(command: CommandType, body: Any) -> Key | None:
    """What ties this command to its request or answers; None where an id is missing, or where there is no such tie."""
    space, ids = SPACES[command.code]
    if not ids:
        return (space,) if space else None
    if body is None or not body.HasField(ids[-1]):
        return None
    if len(ids) == 1:
        return space, getattr(body, ids[0])
    return (space, getattr(body, ids[0]), getattr(body, ids[1])) if body.HasField(ids[0]) else None


class PulsarPendingRequests:
    """The requests of both directions that wait for their answers."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: tuple[
            dict[Key, PulsarRequest | deque[PulsarRequest]], dict[Key, PulsarRequest | deque[PulsarRequest]]
        ] = ({}, {})
        self._spaces: tuple[dict[str, int], dict[str, int]] = ({}, {})  # how many are open, by the key's first part
        self._count = 0
        self._holes: tuple[deque[int], deque[int]] = (deque(maxlen=_HOLES), deque(maxlen=_HOLES))

    def __len__(self) -> int:
        return self._count

    def open_keys(self) -> Iterator[tuple[int, Key]]:
        """The direction and the key of everything that is open."""
        if self._count:
            yield from ((direction, key) for direction, table in enumerate(self._open) for key in table)

    def pairs_by_key(self, more: int) -> bool:
        """Whether requests and answers are tied by nothing but their keys, also with so many requests more."""
        return self._count + more <= self._limit and all(key[1:] != (None,) for _, key in self.open_keys())

    def gap(self, direction: int, order: int) -> None:
        """Answers from this direction may have been lost."""
        self._holes[direction].append(order)

    def add(self, direction: int, key: Key, request: PulsarRequest) -> PulsarRequest | None:
        """Wait for an answer. Where too many wait, the oldest comes back: it waits no longer."""
        table = self._open[direction]
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
        fullest = max((0, 1), key=lambda d: len(self._open[d]))
        return self._pop(fullest, next(iter(self._open[fullest])))

    def find(self, direction: int, key: Key) -> PulsarRequest | None:
        """The request that an answer from `direction` would answer."""
        there = self._open[1 - direction].get(key)
        return there[0] if isinstance(there, deque) else there

    def only(self, direction: int, space: str) -> Key | None:
        """The key of the one request that is open in a space for an answer from `direction`; None if there are more."""
        if self._spaces[1 - direction].get(space) != 1:
            return None
        return next(key for key in self._open[1 - direction] if key[0] == space)

    def without_id(self, direction: int, space: str) -> Key | None:
        """The same, if it is a request whose id was not captured."""
        key = (space, None)
        return key if self._spaces[1 - direction].get(space) == 1 and key in self._open[1 - direction] else None

    def take(self, direction: int, key: Key) -> PulsarRequest | None:
        """Remove the request that an answer from `direction` answers."""
        if key not in self._open[1 - direction]:
            return None
        return self._pop(1 - direction, key)

    def take_outlived(self, direction: int, key: Key, order: int) -> list[PulsarRequest]:
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

    def _pop(self, requester: int, key: Key) -> PulsarRequest:
        table = self._open[requester]
        there = table[key]
        self._count_open(requester, key, -1)
        if isinstance(there, deque):
            request = there.popleft()
            if not there:
                del table[key]
            return request
        del table[key]
        return there

    def _count_open(self, requester: int, key: Key, change: int) -> None:
        self._count += change
        spaces = self._spaces[requester]
        spaces[key[0]] = spaces.get(key[0], 0) + change
