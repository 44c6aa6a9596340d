"""Which answer belongs to which request: the table in commands.py, carried out.

Both sides may ask (a broker pings and challenges), so what is open is kept by the direction that asked. Under one key
the oldest is answered first: chunks of one message share a key, and so do pings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from dissectors.conversation import Frame
from dissectors.pulsar.commands import Command
from dissectors.pulsar.names import Party, Topic
from dissectors.records import Batch, Message

Key = tuple[Any, ...]
_HOLES = 64  # of a direction, the latest


class Asked:
    """A request that waits for its answer: what its row needs, and nothing that pins a buffer."""

    __slots__ = (
        "api",
        "batch",
        "body",
        "code",
        "command",
        "complete",
        "correlation_id",
        "first_ns",
        "id",
        "last_ns",
        "messages",
        "order",
        "party",
        "partitions",
        "payload_bytes",
        "place",
        "position",
        "records",
        "resent",
        "size",
        "status",
        "topic",
        "topics",
        "waits",
    )

    def __init__(self, code: int, api: str, command: Command | None, frame: Frame, correlation_id: int | None) -> None:
        self.code = code
        self.api = api
        self.command = command  # None for one that is newer than the table
        self.correlation_id = correlation_id
        self.order = frame.order
        self.first_ns = frame.first_ns
        self.last_ns = frame.last_ns
        self.size = frame.size
        self.place = frame.place
        self.resent = frame.resent
        self.complete = frame.complete
        self.id: int | None = None  # producer or consumer id
        self.party: Party | None = None
        self.topic: Topic | None = None  # where it is about one
        self.topics: tuple[str, ...] | None = None
        self.partitions: int | None = None
        self.records: int | None = None
        self.payload_bytes: int | None = None
        self.position: str | None = None  # ledger:entry, in a receipt
        self.status = "ok"  # of an answer without an error
        self.body: str | None = None
        self.batch: Batch | None = None
        self.messages: list[Message] | None = None
        self.waits = False  # the broker has said that the answer will come later


class Matcher:
    """What is open in both directions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: tuple[dict[Key, Asked | deque[Asked]], dict[Key, Asked | deque[Asked]]] = ({}, {})
        self._spaces: tuple[dict[str, int], dict[str, int]] = ({}, {})  # how many are open, by the key's first part
        self._count = 0
        self._holes: tuple[deque[int], deque[int]] = (deque(maxlen=_HOLES), deque(maxlen=_HOLES))

    def gap(self, direction: int, order: int) -> None:
        """Answers from this direction may have been lost."""
        self._holes[direction].append(order)

    def ask(self, direction: int, key: Key, asked: Asked) -> Asked | None:
        """Note a request. Where too many are open, the oldest comes back: it will not be answered any more."""
        table = self._open[direction]
        there = table.get(key)
        if there is None:
            table[key] = asked
        elif isinstance(there, deque):
            there.append(asked)
        else:
            table[key] = deque((there, asked))
        self._tally(direction, key, 1)
        if self._count <= self._limit:
            return None
        fullest = max((0, 1), key=lambda d: len(self._open[d]))
        return self._pop(fullest, next(iter(self._open[fullest])))

    def peek(self, direction: int, key: Key) -> Asked | None:
        """What an answer from `direction` would answer."""
        there = self._open[1 - direction].get(key)
        return there[0] if isinstance(there, deque) else there

    def only(self, direction: int, space: str) -> Key | None:
        """The key of the one thing that is open in a space for an answer from `direction`; None if there are more."""
        if self._spaces[1 - direction].get(space) != 1:
            return None
        return next(key for key in self._open[1 - direction] if key[0] == space)

    def nameless(self, direction: int, space: str) -> Key | None:
        """The same, if it is a request whose id was not captured."""
        key = (space, None)
        return key if self._spaces[1 - direction].get(space) == 1 and key in self._open[1 - direction] else None

    def answer(self, direction: int, key: Key) -> Asked | None:
        """Take what an answer from `direction` answers."""
        if key not in self._open[1 - direction]:
            return None
        return self._pop(1 - direction, key)

    def outlived(self, direction: int, key: Key, order: int) -> list[Asked]:
        """Take those under a key whose answers must have been lost: older than a hole, and asked again since."""
        there = self._open[1 - direction].get(key)
        out = []
        while isinstance(there, deque) and len(there) > 1:
            if not any(there[0].order < hole < order for hole in self._holes[direction]):
                break
            out.append(there.popleft())
            self._tally(1 - direction, key, -1)
        return out

    def rest(self) -> Iterator[Asked]:
        """Everything that is still open, oldest first; nothing is open afterwards."""
        left: list[Asked] = []
        for table in self._open:
            for there in table.values():
                left += there if isinstance(there, deque) else (there,)
            table.clear()
        self._spaces = ({}, {})
        self._count = 0
        left.sort(key=lambda asked: asked.order)
        yield from left

    def _pop(self, asker: int, key: Key) -> Asked:
        table = self._open[asker]
        there = table[key]
        self._tally(asker, key, -1)
        if isinstance(there, deque):
            asked = there.popleft()
            if not there:
                del table[key]
            return asked
        del table[key]
        return there

    def _tally(self, asker: int, key: Key, change: int) -> None:
        self._count += change
        spaces = self._spaces[asker]
        spaces[key[0]] = spaces.get(key[0], 0) + change
