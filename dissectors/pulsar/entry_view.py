"""An entry while it is read: what the modules that read it have found so far."""

from __future__ import annotations

from typing import Any

from dissectors import checksum
from dissectors.frame import Frame
from dissectors.pulsar.batches import PulsarEntry
from dissectors.pulsar.commands import SEND
from dissectors.pulsar.pending import PulsarRequest
from dissectors.rows.exchange import CONSUME, PRODUCE


class EntryView:
    """An entry, the command that carries it, and what was found of both."""

    __slots__ = (
        "body",
        "codec",
        "computed",
        "entry",
        "frame",
        "kind",
        "meta",
        "packet_ref",
        "plain",
        "position",
        "request",
        "role",
        "stored",
        "time",
        "verdict",
    )

    def __init__(
        self, frame: Frame, entry: PulsarEntry, body: Any, request: PulsarRequest, time: int, packet_ref: int
    ) -> None:
        self.frame = frame
        self.entry = entry
        self.body = body  # of the command
        self.request = request
        self.meta = entry.meta
        self.time = time
        self.packet_ref = packet_ref
        self.role = PRODUCE if request.api_code == SEND else CONSUME
        self.position: str | None = None
        self.codec = 0
        self.kind = checksum.NONE
        self.stored: str | None = None
        self.computed: str | None = None
        self.verdict = "unverifiable"
        self.plain: bytes | memoryview | None = None  # the payload, decompressed; as it is where it is a chunk

    @property
    def offset(self) -> int:
        """Stream offset of the entry's first byte."""
        return self.frame.offset + self.entry.at - self.frame.start

    @property
    def still_to_deliver(self) -> Any:
        """The words of a MESSAGE that say which of its batch are still to be delivered; SEND has none."""
        return getattr(self.body, "ack_set", ())
