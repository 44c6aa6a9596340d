"""A frame that is being written anew: filler, into which what may be kept is copied."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.answers.sanitise.pseudonyms import Pseudonyms

FILLER = 0xFF  # of what is not understood: no protocol takes it for the start of a frame
PAYLOAD = b"x"  # of what an application wrote


class NotUnderstoodError(ValueError):
    """The bytes go on in a way that their schema does not know; or bytes are missing."""


class FrameCopy:
    """The bytes of a frame, and what stands for them. Indices count from the first byte of the frame."""

    def __init__(
        self, source: bytes, names: Pseudonyms, holes: Iterable[tuple[int, int]] = (), size: int | None = None
    ) -> None:
        """holes: [start, end) of bytes that were not captured; in `source` they are zeros. size: as announced, where
        the end of the frame is not in `source`.
        """
        self.source = source
        self.names = names
        self.size = len(source) if size is None else size
        self.out = bytearray([FILLER]) * len(source)
        self._holes = [hole for hole in holes if hole[0] < hole[1]]

    @property
    def complete(self) -> bool:
        """Whether all of the frame is there."""
        return self.whole(0, self.size)

    def whole(self, start: int, end: int) -> bool:
        """Whether these bytes are there."""
        return 0 <= start <= end <= len(self.source) and not any(a < end and start < b for a, b in self._holes)

    def first_hole(self, start: int) -> int:
        """Index of the first byte from `start` on that is not there; of the end where all are."""
        return min((max(a, start) for a, b in self._holes if b > start), default=len(self.source))

    def need(self, start: int, end: int) -> None:
        """Raise NotUnderstoodError where these bytes are not there."""
        if not self.whole(start, end):
            raise NotUnderstoodError(f"bytes {start} to {end} are not there")

    def keep(self, start: int, end: int) -> None:
        """Copy structure or numbers."""
        self.need(start, end)
        self.out[start:end] = self.source[start:end]

    def head(self, size: int) -> None:
        """Copy so many bytes that a frame begins with, as far as they are there; raise where some are not."""
        self.keep(0, min(size, self.first_hole(0)))
        self.need(0, size)

    def name(self, start: int, end: int) -> None:
        """Put a pseudonym for a name."""
        self.need(start, end)
        self.out[start:end] = self.names.name(self.source[start:end])

    def key(self, start: int, end: int) -> None:
        """Put what stands for a key."""
        self.need(start, end)
        self.out[start:end] = self.names.key(self.source[start:end])

    def uuid(self, start: int, end: int) -> None:
        """Put what stands for an id."""
        self.need(start, end)
        self.out[start:end] = self.names.uuid(self.source[start:end])

    def payload(self, start: int, end: int) -> None:
        """Put filler for an application's data."""
        self.out[start:end] = PAYLOAD * (end - start)

    def put(self, start: int, data: bytes) -> None:
        """Put other bytes."""
        self.out[start : start + len(data)] = data

    def blank(self, start: int, end: int) -> None:
        """Take back what was put."""
        self.out[start:end] = bytes([FILLER]) * (end - start)
