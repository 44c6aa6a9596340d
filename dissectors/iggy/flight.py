"""What is in flight on a connection: requests that wait, and what pairing needs to know of an answer."""

from __future__ import annotations

from typing import Any

from dissectors.conversation import Frame

INVALID_COMMAND, DISCONNECTED = 3, 8
ANY_LENGTH = -1  # of an answer that is only supposed: it has a payload


class Call:
    """A request that waits for its answer: what its rows need, without its bytes."""

    __slots__ = (
        "api",
        "batches",
        "code",
        "complete",
        "first_ns",
        "full",
        "last_ns",
        "offset",
        "operation",
        "order",
        "partitions",
        "payload_bytes",
        "place",
        "records",
        "request_id",
        "resent",
        "silent",
        "size",
        "topics",
        "user",
        "values",
        "waits",
        "well_formed",
    )

    def __init__(self) -> None:
        self.api: str | None = None
        self.batches: list[Any] = []
        self.code: int | None = None
        self.complete = True
        self.first_ns = self.last_ns = self.order = self.offset = self.place = self.size = 0
        self.full: str | None = None
        self.operation = 0
        self.partitions: int | None = None
        self.payload_bytes: int | None = None
        self.records: int | None = None
        self.request_id: int | None = None
        self.resent = False
        self.topics: list[str] = []
        self.user: str | None = None
        self.values: dict[str, Any] = {}
        self.waits = self.silent = False
        self.well_formed = True


UNKNOWN = 1 << 30  # requests


class Ghost:
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
        self.beheaded = False  # cut off before its request id: it is told now or never


Entry = Call | Ghost
