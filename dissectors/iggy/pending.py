"""What is in flight on a connection: requests that wait, and what pairing needs to know of an answer."""

from __future__ import annotations

from typing import Any

from dissectors.frame import Frame, FrameFacts
from dissectors.rows.exchange import PendingRequest

INVALID_COMMAND, DISCONNECTED = 3, 8
ANY_LENGTH = -1  # of an answer that is only supposed: it has a payload


class IggyRequest(PendingRequest):
    """A request that waits for its answer."""

    __slots__ = ("batches", "operation", "order", "queued_ns", "silent", "user", "values", "waits", "well_formed")

    def __init__(self, frame: Frame, api: str | None, code: int | None) -> None:
        super().__init__(frame.facts, api, code)
        self.topics = []
        self.order = frame.order  # delivery order of its last byte
        self.batches: list[dict[str, Any]] = []  # columns of rows of `batches`, reported once it is answered
        self.operation = 0  # of VSR
        self.queued_ns: int | None = None
        self.user: str | None = None  # who logs in
        self.values: dict[str, Any] = {}  # fields of the body
        self.waits = self.silent = False  # its command lets the server wait for data; has no answer
        self.well_formed = True

    @property
    def facts(self) -> FrameFacts:
        """Of its frame: a request without one is never pending."""
        assert self.frame is not None
        return self.frame


UNKNOWN = 1 << 30  # requests


class RequestHole:
    """Requests in a hole: at least one, at most `most` whose answers are still to come."""

    __slots__ = ("had", "most", "order")

    def __init__(self, order: int) -> None:
        self.order = order
        self.most = UNKNOWN  # until the next frame shows how long the hole is, with what had to be skipped behind it
        self.had = False  # an answer to one of them came

    def bound(self, most: int) -> int:
        """The hole held `most` requests; how many have their answers still to come."""
        self.most = most - (UNKNOWN - self.most)
        return self.most


class Answer:
    """What pairing needs to know of an answer."""

    __slots__ = ("beheaded", "first_ns", "frame", "length", "operation", "order", "request_id", "status")

    def __init__(
        self,
        order: int,
        first_ns: int,
        status: int,
        length: int,
        request_id: int | None = None,
        operation: int = 0,
    ) -> None:
        self.order = order
        self.first_ns = first_ns
        self.status = status
        self.length = length
        self.request_id = request_id
        self.operation = operation
        self.frame: Frame | None = None  # while it is held back
        self.beheaded = False  # cut off before its request id: it is judged now or never


Entry = IggyRequest | RequestHole
