"""Requests in flight on a connection, and answers as pairing sees them. Numbers are ABSENT where they are not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.rows.layout import ABSENT
from dissectors.rows.table import int64
from dissectors.session.exchange import PendingRequest, SentBatch
from dissectors.session.frame import Frame, FrameFacts

INVALID_COMMAND, DISCONNECTED = 3, 8
ANY_LENGTH = -1  # of an answer that is only supposed: it has a payload


@final
@carried
@compiled
class IggyRequest(PendingRequest):
    """A request that waits for its answer.

    order: delivery order of its last byte
    batches: that it carries; their rows are completed once it is answered
    operation: of VSR
    stream: that it is about, where it names no topic
    partition: that it names; partition_id: in a field of that name
    most: messages that it asks for
    offset: that it stores; auto_commit: what it gets counts as read
    consumer: name or number of the consumer that asks, if it is in no group
    user: who logs in
    values: fields of the body, where the answer is understood with them only
    waits, silent: its command lets the server wait for data; has no answer
    """

    consumer: str | None = None
    batches: Sequence[SentBatch]
    most: cython.longlong
    offset: cython.longlong
    auto_commit: cython.bint = False
    operation: cython.longlong = 0
    order: cython.longlong
    partition: cython.longlong
    partition_id: cython.longlong
    silent: cython.bint = False
    stream: str | None = None
    user: str | None = None
    values: dict[str, Any] | None = None
    waits: cython.bint = False
    well_formed: cython.bint
    frame: FrameFacts

    def __init__(self, frame: FrameFacts, api: str | None, code: cython.longlong) -> None:
        self.begin(frame, api, code)
        self.topics = ()
        self.order = frame.order
        self.batches = ()
        self.partition = ABSENT
        self.partition_id = ABSENT
        self.most = self.offset = ABSENT
        self.well_formed = True


ANY_NUMBER = 1 << 30  # of requests


class RequestHole:
    """Requests in a hole: at least one, at most `most` whose answers are still to come."""

    __slots__ = ("had", "most", "order")

    def __init__(self, order: int) -> None:
        self.order = order
        self.most = ANY_NUMBER  # until the next frame shows how long the hole is, with what had to be skipped behind it
        self.had = False  # an answer to one of them came

    def bound(self, most: int) -> int:
        """Note that the hole held `most` requests; how many have their answers still to come."""
        self.most = most - (ANY_NUMBER - self.most)
        return self.most


@final
@carried
@compiled
class Answer:
    """An answer as pairing sees it.

    request_id: ABSENT in legacy framing
    frame: of legacy framing, for who looks into it; kept while it is held back
    cut_in_header: of VSR, its request id is missing or no number that fits: it is judged now or never
    """

    order: cython.longlong
    first_ns: cython.longlong
    status: cython.longlong
    length: cython.longlong
    request_id: cython.longlong
    operation: cython.longlong
    frame: Frame | None
    cut_in_header: cython.bint

    def __init__(
        self,
        order: cython.longlong,
        first_ns: cython.longlong,
        status: cython.longlong,
        length: cython.longlong,
        request_id: int | None = None,
        operation: cython.longlong = 0,
        frame: Frame | None = None,
        *,
        cut_in_header: bool = False,
    ) -> None:
        self.order = order
        self.first_ns = first_ns
        self.status = status
        self.length = length
        self.request_id = int64(request_id)
        self.operation = operation
        self.frame = frame
        self.cut_in_header = cut_in_header


Entry = IggyRequest | RequestHole
