"""What is kept of a Pulsar command: of a request until its answer comes, of any other until its row is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dissectors.frame import Frame
from dissectors.pulsar.commands import CommandType
from dissectors.pulsar.names import Endpoint, Topic
from dissectors.rows.exchange import OK, PendingRequest
from dissectors.rows.layout import ABSENT

Columns = dict[str, Any]  # of a row that waits for the answer


class PulsarRequest(PendingRequest):
    """A command of one connection, and what is known of it. `frame` is None where only the answer was captured."""

    endpoint_id: int | None = None  # producer or consumer id
    endpoint: Endpoint | None = None
    topic: Topic | None = None  # where it is about one
    position: str | None = None  # ledger:entry, in a receipt
    status: str = OK  # of an answer without an error
    batch: Columns | None = None  # the row of `batches`, which waits for the receipt
    messages: Sequence[Columns] = ()  # the rows of `messages`
    kept: int = 0  # what they are for `Sink.let_go`
    answer_announced: bool = False  # the broker has said that the answer will come later

    fields = (
        *(*PendingRequest.fields, "command", "order", "endpoint_id", "endpoint", "topic", "position", "status"),
        *("batch", "messages", "kept", "answer_announced"),
    )

    def __init__(self, frame: Frame, command: CommandType | None, code: int, correlation_id: int | None) -> None:
        """command: None for one that is newer than the table."""
        name = str(code) if command is None else command.name
        super().__init__(frame.facts, name, code, correlation_id=correlation_id)
        self.command = command
        self.order = frame.order

    def attach(self, endpoint: Endpoint) -> None:
        """It is about this producer or consumer."""
        self.endpoint = endpoint
        self.client_id, self.group = endpoint.name, endpoint.subscription

    def is_about(self, topic: Topic) -> None:
        """It is about this topic."""
        self.topic = topic
        self.topics = (topic.name,)
        self.partitions = ABSENT if topic.partition is None else 1
