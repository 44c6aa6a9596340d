"""Where messages lie, whatever their layout: one message, what has a row in `batches`, all messages of a frame."""

from __future__ import annotations

from typing import NamedTuple


class Msg(NamedTuple):
    """One message: indexes in the buffer, times in microseconds."""

    start: int
    covered: int  # first byte that the checksum covers; to the end of the message
    end: int
    id: int
    offset: int | None
    timestamp: int
    origin: int
    payload: int
    payload_length: int
    headers: int
    headers_length: int
    stored: int


class Producer(NamedTuple):
    """Who wrote a VSR batch, where it wants each batch to be stored once."""

    id: int
    epoch: int
    sequence: int  # of the first message


class VsrBatch(NamedTuple):
    """Header of a VSR batch: its fields that are not about its messages."""

    partition: int
    checksum: int
    producer: Producer | None


class IggyUnit(NamedTuple):
    """One row of `batches`: a VSR batch, or all messages of a frame where each has its own checksum."""

    start: int  # indices in the buffer
    end: int
    total: int  # messages as announced; as found where nothing announces them
    messages: list[Msg]
    batch: VsrBatch | None = None

    @property
    def partition(self) -> int | None:
        """The partition that a VSR batch names."""
        return None if self.batch is None else self.batch.partition


class MessageRun(NamedTuple):
    """The messages of one frame."""

    format: str
    checksum_kind: str
    typed: bool  # headers with typed keys
    total: int  # as announced; as found where nothing announces it
    messages: list[Msg]
    units: list[IggyUnit]
    problem: str | None  # what does not fit although every message could be read

    @property
    def payload_bytes(self) -> int:
        """Bytes of all payloads."""
        return sum([message.payload_length for message in self.messages])
