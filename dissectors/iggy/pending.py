"""Requests in flight on a connection, and answers as pairing sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dissectors.frame import Frame, FrameFacts
from dissectors.rows.exchange import PendingRequest

INVALID_COMMAND, DISCONNECTED = 3, 8
ANY_LENGTH = -1  # of an answer that is only supposed: it has a payload


class IggyRequest(PendingRequest):
    """A request that waits for its answer."""

    __slots__ = ("batches", "operation", "order", "partition", "silent", "user", "values", "waits", "well_formed")

    fields = (*PendingRequest.fields, *__slots__)
    frame: FrameFacts

    def __init__(self, frame: FrameFacts, api: str | None, code: int | None) -> None:
        super().__init__(frame, api, code)
        self.topics = []
        self.order = frame.order  # delivery order of its last byte
        self.batches: Sequence[dict[str, Any]] = ()  # columns of rows of `batches`, reported once it is answered
        self.operation = 0  # of VSR
        self.partition: int | None = None  # the one that it names
        self.user: str | None = None  # who logs in
        self.values: dict[str, Any] = {}  # fields of the body
        self.waits = self.silent = False  # its command lets the server wait for data; has no answer
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


class Answer:
    """An answer as pairing sees it."""

    __slots__ = ("cut_in_header", "first_ns", "frame", "length", "operation", "order", "request_id", "status")

    def __init__(
        self,
        order: int,
        first_ns: int,
        status: int,
        length: int,
        request_id: int | None = None,
        operation: int = 0,
        frame: Frame | None = None,
        *,
        cut_in_header: bool = False,
    ) -> None:
        self.order = order
        self.first_ns = first_ns
        self.status = status
        self.length = length
        self.request_id = request_id
        self.operation = operation
        self.frame = frame  # of legacy framing, for who looks into it; kept while it is held back
        self.cut_in_header = cut_in_header  # its request id is missing: it is judged now or never


Entry = IggyRequest | RequestHole
