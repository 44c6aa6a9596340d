"""Record batches whose requests were not captured: who sent or fetched them.

The first request of a stream says who speaks there, and the first fetch that was answered says who fetches. What is
lost behind it is taken for the same: a connection belongs to one client. What follows a batch says nothing of it: how
late the batch is found depends on how the bytes came.
"""

from __future__ import annotations

from typing import NamedTuple

from dissectors.kafka.decode import PRODUCE, api_version
from dissectors.kafka.pending import KafkaRequest, new_request
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import CONSUME
from dissectors.session.exchange import PRODUCE as PRODUCED
from dissectors.tcp.chunk import CLIENT


class Precedent(NamedTuple):
    """What a frame says of the batches that follow it in its stream."""

    offset: int  # of the frame, in the stream
    api: int | None
    client_id: str | None
    role: str

    @classmethod
    def nothing(cls, direction: int) -> Precedent:
        """What is known before any frame was seen."""
        return cls(-1, PRODUCE, None, PRODUCED) if direction == CLIENT else cls(-1, None, None, CONSUME)

    @classmethod
    def request(cls, offset: int, client_id: str) -> Precedent:
        """Of a request at an offset."""
        return cls(offset, PRODUCE, client_id, PRODUCED)

    def lost_request(self, correlation_id: int | None = None) -> KafkaRequest:
        """A request that was not captured, and what is known of it because it, or its answer, carries batches."""
        api = None if self.api is None else api_version(self.api, 0)
        call = new_request(None, api, ABSENT if correlation_id is None else correlation_id, self.client_id)
        call.version = ABSENT  # the API is sure, the version is not
        return call


class Precedents:
    """The first request of a connection, and the first fetch that was answered: earlier ones replace later ones."""

    __slots__ = ("_answer", "_request")

    def __init__(self) -> None:
        self._request: tuple[int, str] | None = None
        self._answer: Precedent | None = None

    def request(self, offset: int, client_id: str) -> None:
        """Take note of a request at an offset."""
        if self._request is None or offset < self._request[0]:
            self._request = offset, client_id

    def answer(self, answer: Precedent) -> None:
        """Take note of the answer to a fetch that was captured."""
        if self._answer is None or answer.offset < self._answer.offset:
            self._answer = answer

    def of(self, direction: int, offset: int) -> Precedent:
        """What is known of batches at an offset whose requests were not captured."""
        first = self._answer
        if direction == CLIENT:
            first = Precedent.request(*self._request) if self._request else None
        return first if first and first.offset <= offset else Precedent.nothing(direction)
