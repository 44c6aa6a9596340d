"""Record batches whose requests were not captured: who sent or fetched them.

The first request of a stream says who speaks there, and the first fetch that was answered says who fetches. What is
lost behind it is taken for the same: a connection belongs to one client. What follows a batch says nothing of it: how
late the batch is found depends on how the bytes came.
"""

from __future__ import annotations

from typing import NamedTuple

from dissectors.exchange import CONSUME, REPLICATE
from dissectors.exchange import PRODUCE as PRODUCED
from dissectors.kafka.decode import FETCH_SNAPSHOT, PRODUCE, api_version
from dissectors.kafka.pending import KafkaRequest
from dissectors.tcp.chunk import CLIENT


class Precedent(NamedTuple):
    """A frame that says who speaks."""

    offset: int  # in its stream
    api: int | None
    client_id: str | None
    role: str  # of the batches in such frames


_NOTHING = Precedent(-1, PRODUCE, None, PRODUCED), Precedent(-1, None, None, CONSUME)


def fetching(api: int | None, replica: int | None) -> str:
    """The role of batches that a fetch asks for. replica: the id of the broker that asks."""
    return REPLICATE if api == FETCH_SNAPSHOT or (replica is not None and replica >= 0) else CONSUME


class Precedents:
    """The first frame of each direction that says who speaks."""

    __slots__ = ("_client", "_server")

    def __init__(self) -> None:
        self._client: Precedent | None = None
        self._server: Precedent | None = None

    def request(self, offset: int, client_id: str) -> None:
        """A request is at an offset."""
        if self._client is None or offset < self._client.offset:
            self._client = Precedent(offset, PRODUCE, client_id, PRODUCED)

    def fetched(self, offset: int, api: int | None, client_id: str | None, role: str) -> None:
        """The answer to a captured fetch is at an offset."""
        if self._server is None or offset < self._server.offset:
            self._server = Precedent(offset, api, client_id, role)

    def before(self, direction: int, offset: int) -> Precedent:
        """What is known of batches at an offset."""
        first = self._client if direction == CLIENT else self._server
        return _NOTHING[direction] if first is None or first.offset > offset else first

    def lost_request(self, direction: int, offset: int, correlation_id: int | None = None) -> KafkaRequest:
        """A request that was not captured, and what is known of it because it, or its answer, carries batches."""
        _, api, client_id, _ = self.before(direction, offset)
        call = KafkaRequest(None, None if api is None else api_version(api, 0), correlation_id, client_id)
        call.version = None  # the API is sure, the version is not
        return call
