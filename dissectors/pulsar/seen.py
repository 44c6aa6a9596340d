"""An entry that is being looked at: what the rooms that read it have found out so far."""

from __future__ import annotations

from typing import Any

from dissectors import checksum
from dissectors.conversation import Frame
from dissectors.pulsar.batches import Entry
from dissectors.pulsar.commands import SEND
from dissectors.pulsar.match import Asked


class Seen:
    """An entry, and what was found out about it."""

    __slots__ = (
        "body",
        "codec",
        "computed",
        "entry",
        "frame",
        "kind",
        "meta",
        "noted",
        "place",
        "plain",
        "position",
        "role",
        "stored",
        "time",
        "verdict",
    )

    def __init__(self, frame: Frame, entry: Entry, body: Any, noted: Asked, meta: Any, time: int, place: int) -> None:
        self.frame = frame
        self.entry = entry
        self.body = body
        self.noted = noted
        self.meta = meta
        self.time = time
        self.place = place
        self.role = "produce" if noted.code == SEND else "consume"
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
