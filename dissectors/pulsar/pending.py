"""What is kept of a Pulsar command: of a request until its answer comes, of any other until its row is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.pulsar.commands import CommandType
from dissectors.pulsar.names import Endpoint, Topic
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import OK, PendingRequest, SentBatch
from dissectors.session.frame import FrameFacts
from dissectors.wire.per_thread import PerThread

Columns = dict[str, Any]  # of a row that waits for the answer


@final
@carried
@compiled(freelist=64)
class PulsarRequest(PendingRequest):
    """A command of one connection, and what is known of it. `frame` is None where only the answer was captured.

    type: its row of the table of commands; None for one that is newer than the table
    order: of its frame
    endpoint_id: of the producer or consumer that it is about; endpoint: what is known of it
    topic: where it is about one
    ledger, entry: the position that a receipt gives
    status: of an answer without an error
    batch: its row of `batches`, which waits for the receipt; messages: those of `messages`
    kept: what the messages are for `Sink.let_go`
    answer_announced: the broker has said that the answer will come later
    key: what ties it to its answer, a tuple or None; of a replicated SEND, what its receipt will name (replication.py)
    last_sequence: of a SEND with a batch, the sequence id of its last message
    permits, permits_left: of a FLOW or MESSAGE, the columns of `exchanges`
    told: what a request says that its answer decides on: see events.py
    """

    type: CommandType | None
    order: cython.longlong
    endpoint_id: cython.longlong
    endpoint: Endpoint | None
    topic: Topic | None
    ledger: cython.longlong
    entry: cython.longlong
    status: str
    batch: SentBatch | None
    messages: Sequence[Columns]
    kept: cython.longlong
    answer_announced: cython.bint
    key: Any
    last_sequence: cython.longlong
    permits: cython.longlong
    permits_left: cython.longlong
    told: Any

    @compiled
    def begin_command(
        self,
        frame: FrameFacts,
        name: str,
        code: cython.longlong,
        type: CommandType | None,
        correlation_id: cython.longlong,
    ) -> None:
        """Set every attribute of a new request. correlation_id: ABSENT where it has none."""
        self.begin(frame, name, code)
        self.correlation_id = correlation_id
        self.type = type
        self.order = frame.order
        self.endpoint_id = ABSENT
        self.endpoint = None
        self.topic = None
        self.ledger = self.entry = ABSENT
        self.status = OK
        self.batch = None
        self.messages = ()
        self.kept = 0
        self.answer_announced = False
        self.key = None
        self.last_sequence = self.permits = self.permits_left = ABSENT
        self.told = None

    @compiled
    def attach(self, endpoint: Endpoint) -> None:
        """It is about this producer or consumer."""
        self.endpoint = endpoint
        self.client_id, self.group = endpoint.name, endpoint.subscription

    @compiled
    def is_about(self, topic: Topic) -> None:
        """It is about this topic."""
        self.topic = topic
        self.topics = topic.names
        self.partitions = ABSENT if topic.partition is None else 1


@compiled
def new_request() -> PulsarRequest:
    """A command that may wait for its answer, before `begin_command`."""
    return PulsarRequest.__new__(PulsarRequest)  # not by its constructor, which costs more than all else


_passing: PerThread = PerThread(new_request)


@compiled
def passing() -> PulsarRequest:
    """A command that waits for nothing, before `begin_command`: of this thread, valid until the next."""
    request: PulsarRequest = _passing.get()
    return request
