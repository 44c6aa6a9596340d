"""What the bytes of a frame are, told field by field: what makes a frame anew knows no protocol.

`spans.py` of each protocol reads frames with the protocol's own readers and tells a SpanVisitor what lies where.
Indices count from the first byte of the frame, or of the part that is told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from dissectors.session.frame import Frame
from dissectors.wire.reader import EndsEarlyError

Answered = Callable[[int | None], tuple[int, int | None] | None]
"""Correlation id of an answer, None where it has none -> (API code, version) of its request; None if not known."""

Covered = Callable[[bytes], bytes]
"""All bytes -> those that a checksum covers."""


class SpanVisitor(ABC):
    """Is told what the bytes of a frame are. What it is not told of is not understood.

    source: the bytes, with zeros where some were not captured
    size: as announced; the end of the frame need not be in `source`

    `keep`, `name`, `key` and `uuid` raise EndsEarlyError where bytes are not there, which ends the telling.
    """

    source: bytes
    size: int

    @property
    def complete(self) -> bool:
        """Whether all of the frame is there."""
        return self.whole(0, self.size)

    @abstractmethod
    def whole(self, start: int, end: int) -> bool:
        """Whether these bytes are there."""

    def need(self, start: int, end: int) -> None:
        """Raise EndsEarlyError where these bytes are not there."""
        if not self.whole(start, end):
            raise EndsEarlyError(f"bytes {start} to {end} are not there")

    @abstractmethod
    def first_hole(self, start: int) -> int:
        """Index of the first byte from `start` on that is not there; of the end where all are."""

    @abstractmethod
    def keep(self, start: int, end: int) -> None:
        """Structure or numbers, which name nobody."""

    @abstractmethod
    def name(self, start: int, end: int) -> None:
        """A name, or a text that may hold names."""

    @abstractmethod
    def key(self, start: int, end: int) -> None:
        """A key, or other bytes of an application of which equal ones matter."""

    @abstractmethod
    def uuid(self, start: int, end: int) -> None:
        """An id of 16 bytes."""

    @abstractmethod
    def data(self, start: int, end: int) -> None:
        """What an application wrote, or a secret; as far as it is there."""

    @abstractmethod
    def blank(self, start: int, end: int) -> None:
        """Not understood after all, whatever was told of it before."""

    @abstractmethod
    def unverifiable(self, start: int, end: int) -> None:
        """A checksum of which not all covered bytes are there."""

    @abstractmethod
    def checksum(self, kind: str, start: int, end: int, covered: Covered, *, little: bool = False) -> None:
        """A checksum over bytes of which all are there; told after what it covers."""

    @abstractmethod
    def part(self, start: int, end: int, tell: Tell) -> bool:
        """Bytes with a structure of their own, which `tell` tells; whether it did so without a ReadError."""

    @abstractmethod
    def packed(self, codec: str, start: int, end: int, tell: Tell, *, size: int | None = None) -> None:
        """Bytes compressed by a codec, or by `none`; size: decompressed, where the protocol says it."""

    def head(self, size: int) -> None:
        """Structure that a frame begins with, as far as it is there. Raises ReadError where some of it is not."""
        self.keep(0, min(size, self.first_hole(0)))
        self.need(0, size)

    def frame(self, direction: int) -> Frame:
        """The bytes as the protocols' readers take them."""
        known = self.size if self.complete else self.first_hole(0)
        return Frame(direction, self.source, 0, len(self.source), self.size, known, 0, 0, 0, 0, 0)


Tell = Callable[[SpanVisitor], None]
"""Tells a visitor of the bytes that it holds. Raises ReadError where they are something else."""


class FrameSpans:
    """Tells of the frames of one connection, in their order. A protocol that tells nothing has no more than this."""

    def frame(self, visitor: SpanVisitor, direction: int, answered: Answered) -> None:
        """Tell of a frame. Raises ReadError where it goes on in a way that is not known, or bytes are missing."""

    def batches(self, visitor: SpanVisitor, found: Sequence[tuple[int, int]]) -> None:
        """Tell of batches that lie behind a hole or in no frame; found: index and bytes of each that has a row."""


def covered(*pieces: tuple[int, int]) -> Covered:
    """What a checksum covers, from pieces [start, end)."""
    return lambda data: b"".join([data[start:end] for start, end in pieces])
