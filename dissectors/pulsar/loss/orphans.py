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
from typing import NamedTuple

from dissectors.pulsar.commands import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    COMMANDS,
    PRODUCER,
    SUBSCRIBE,
    UNSUBSCRIBE,
    WATCH_TOPIC_LIST,
    WATCH_TOPIC_LIST_CLOSE,
    CommandType,
)
from dissectors.pulsar.fields import (
    CLOSE_CONSUMER_CONSUMER_ID,
    CLOSE_PRODUCER_PRODUCER_ID,
    PRODUCER_PRODUCER_ID,
    SUBSCRIBE_CONSUMER_ID,
    WATCH_TOPIC_LIST_CLOSE_WATCHER_ID,
    WATCH_TOPIC_LIST_WATCHER_ID,
)
from dissectors.wire import varint
from dissectors.wire.protobuf import MessageFields

_FRESH = 32  # frames of both directions within which a lost request has its answer
_IDS = 1000  # producers, consumers and watchers each
ID_FIELDS = {
    PRODUCER: ("producers", PRODUCER_PRODUCER_ID),
    SUBSCRIBE: ("consumers", SUBSCRIBE_CONSUMER_ID),
    WATCH_TOPIC_LIST: ("watchers", WATCH_TOPIC_LIST_WATCHER_ID),
    CLOSE_PRODUCER: ("producers", CLOSE_PRODUCER_PRODUCER_ID),
    CLOSE_CONSUMER: ("consumers", CLOSE_CONSUMER_CONSUMER_ID),
    WATCH_TOPIC_LIST_CLOSE: ("watchers", WATCH_TOPIC_LIST_CLOSE_WATCHER_ID),
}
"""Commands that open or close something: what, and the field with its id."""

_OPENING = frozenset((PRODUCER, SUBSCRIBE, WATCH_TOPIC_LIST))
_ALL_ONES = (1 << 64) - 1  # an id is written without a sign


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

    def update(self, code: int, fields: MessageFields) -> None:
        """Take a command of ID_FIELDS, which opens or closes a producer, consumer or watcher."""
        what, field = ID_FIELDS[code]
        ids: set[int] = getattr(self, what)
        id_ = fields.number(field, 0)
        if code not in _OPENING:
            ids.discard(id_)
        elif len(ids) < _IDS:
            ids.add(id_)

    def explain(self, order: int, frames: int, request_id: int) -> CommandType | None:
        """What a SUCCESS that was delivered at `order` answers, if there is one reading."""
        fresh = [hole for hole in self._holes if hole.order < order and hole.frames + _FRESH >= frames]
        if len(fresh) != 1:
            return None
        codes = set(self._fitting(fresh[0].length, request_id))
        if len(codes) != 1:
            return None
        self._holes.remove(fresh[0])
        return COMMANDS[codes.pop()]

    def _fitting(self, length: int, request_id: int) -> Iterable[int]:
        for code, ids in (
            (CLOSE_PRODUCER, self.producers),
            (CLOSE_CONSUMER, self.consumers),
            (UNSUBSCRIBE, self.consumers),
            (WATCH_TOPIC_LIST_CLOSE, self.watchers),
        ):
            sizes = {_size(code, id_, request_id) for id_ in ids}
            if length in sizes or (code == UNSUBSCRIBE and length - 2 in sizes):
                yield code


def _size(code: int, id_: int, request_id: int) -> int:
    """Bytes of a frame that holds no more than these two ids."""
    tag = 1 if code < 16 else 2
    return 8 + 2 + tag + 1 + (1 + varint.size(id_ & _ALL_ONES)) + (1 + varint.size(request_id & _ALL_ONES))
