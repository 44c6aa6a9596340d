"""A SUCCESS whose request was lost: which request was it?

SUCCESS answers six kinds of request and holds nothing but the request id. Four of them are short and of a known size.
Where there is just one fresh hole in the client's bytes, it begins where a frame ended, and it is as long as one of the
four would be with that id, and as none of the others, it held that one. Where two readings are left, nothing is said.

    size of a frame  8, type 2, tag 1 or 2, length 1, then its fields: each id 1 and a varint
    UNSUBSCRIBE, CLOSE_PRODUCER, CLOSE_CONSUMER    the id of a producer or consumer; newer UNSUBSCRIBE 2 for `force`
    WATCH_TOPIC_LIST_CLOSE                         the id of a watcher
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from dissectors.pulsar.commands import COMMANDS, CommandType
from dissectors.wire import varint

_FRESH = 32  # frames of both directions within which a lost request has its answer
_IDS = 1000  # producers, consumers and watchers each
ID_FIELDS = {
    "PRODUCER": "producer_id",
    "SUBSCRIBE": "consumer_id",
    "WATCH_TOPIC_LIST": "watcher_id",
    "CLOSE_PRODUCER": "producer_id",
    "CLOSE_CONSUMER": "consumer_id",
    "WATCH_TOPIC_LIST_CLOSE": "watcher_id",
}
"""Commands that open or close something, and the field with its id."""

_OPENING = frozenset(("PRODUCER", "SUBSCRIBE", "WATCH_TOPIC_LIST"))
_IDS_OF = {"producer_id": "producers", "consumer_id": "consumers", "watcher_id": "watchers"}
_BY_NAME = {command.name: command for command in COMMANDS.values()}


class LostBytes(NamedTuple):
    """Bytes of the client that were not captured; they begin where a frame ended."""

    order: int
    frames: int  # of the connection, before it
    length: int


class LostRequests:
    """Fresh holes of the client's stream, and who may close."""

    def __init__(self) -> None:
        self._holes: deque[LostBytes] = deque(maxlen=_FRESH)
        self.producers: set[int] = set()  # introduced and not closed
        self.consumers: set[int] = set()
        self.watchers: set[int] = set()

    def add_hole(self, order: int, frames: int, length: int) -> None:
        """A whole frame of the client may have been in a hole; `frames` came before."""
        self._holes.append(LostBytes(order, frames, length))

    def update(self, name: str, body: Any) -> None:
        """Take a command that may open or close a producer, consumer or watcher."""
        field = ID_FIELDS.get(name)
        if field is not None:
            self.update_id(name, getattr(body, field))

    def update_id(self, name: str, id_: int) -> None:
        """The same, by the id of which the command speaks."""
        ids: set[int] = getattr(self, _IDS_OF[ID_FIELDS[name]])
        if name not in _OPENING:
            ids.discard(id_)
        elif len(ids) < _IDS:
            ids.add(id_)

    def explain(self, order: int, frames: int, request_id: int) -> CommandType | None:
        """What a SUCCESS that was delivered at `order` answers, if there is one reading."""
        fresh = [hole for hole in self._holes if hole.order < order and hole.frames + _FRESH >= frames]
        if len(fresh) != 1:
            return None
        names = set(self._fitting(fresh[0].length, request_id))
        if len(names) != 1:
            return None
        self._holes.remove(fresh[0])
        return _BY_NAME[names.pop()]

    def _fitting(self, length: int, request_id: int) -> Iterable[str]:
        for name, ids in (
            ("CLOSE_PRODUCER", self.producers),
            ("CLOSE_CONSUMER", self.consumers),
            ("UNSUBSCRIBE", self.consumers),
            ("WATCH_TOPIC_LIST_CLOSE", self.watchers),
        ):
            sizes = {_size(name, id_, request_id) for id_ in ids}
            if length in sizes or (name == "UNSUBSCRIBE" and length - 2 in sizes):
                yield name


def _size(name: str, id_: int, request_id: int) -> int:
    """Bytes of a frame that holds no more than these two ids."""
    tag = 1 if _BY_NAME[name].code < 16 else 2
    return 8 + 2 + tag + 1 + (1 + varint.size(id_)) + (1 + varint.size(request_id))
