"""A frame, or what is compressed in it, that is being made anew: filler, into which what may be kept is copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from dissectors.checksum import compute
from dissectors.session.spans import Covered, SpanVisitor, Tell
from dissectors.wire.codecs import CodecError, decompress, without_listeners
from dissectors.wire.reader import ReadError
from pipelines.answers.sanitise.pseudonyms import Pseudonyms
from pipelines.answers.sanitise.refit import refitted

FILLER = 0xFF  # of what is not understood: no protocol takes it for the start of a frame
PAYLOAD = b"x"  # of what an application wrote
_UNPACKED = 64 << 20  # bytes of one batch


class _Checksum(NamedTuple):
    """A checksum that is computed anew when all is told."""

    kind: str
    start: int
    end: int
    covered: Covered
    order: Literal["little", "big"]


class FrameCopy(SpanVisitor):
    """The bytes of a frame, and what stands for them.

    lost: compressed parts that are filler now and no longer decompress
    """

    def __init__(
        self, source: bytes, names: Pseudonyms, holes: Iterable[tuple[int, int]] = (), size: int | None = None
    ) -> None:
        """holes: [start, end) of bytes that were not captured; in `source` they are zeros. size: as announced, where
        the end of the frame is not in `source`.
        """
        self.source = source
        self.names = names
        self.size = len(source) if size is None else size
        self.lost = 0
        self._out = bytearray([FILLER]) * len(source)
        self._holes = [hole for hole in holes if hole[0] < hole[1]]
        self._keys: list[tuple[int, int]] = []
        self._data: list[tuple[int, int]] = []
        self._checksums: list[_Checksum] = []

    def whole(self, start: int, end: int) -> bool:
        return 0 <= start <= end <= len(self.source) and not any(a < end and start < b for a, b in self._holes)

    def first_hole(self, start: int) -> int:
        return min((max(a, start) for a, b in self._holes if b > start), default=len(self.source))

    def _taken(self, start: int, end: int) -> bytes:
        self.need(start, end)
        return self.source[start:end]

    def keep(self, start: int, end: int) -> None:
        self._out[start:end] = self._taken(start, end)

    def name(self, start: int, end: int) -> None:
        self._out[start:end] = self.names.name(self._taken(start, end))

    def key(self, start: int, end: int) -> None:
        self._out[start:end] = self.names.key(self._taken(start, end))
        self._keys.append((start, end))

    def uuid(self, start: int, end: int) -> None:
        self._out[start:end] = self.names.uuid(self._taken(start, end))

    def data(self, start: int, end: int) -> None:
        end = min(end, len(self.source))
        self._out[start:end] = PAYLOAD * (end - start)
        self._data.append((start, end))

    def blank(self, start: int, end: int) -> None:
        self._out[start:end] = bytes([FILLER]) * (end - start)
        self._checksums = [each for each in self._checksums if not start <= each.start < end]

    def unverifiable(self, start: int, end: int) -> None:
        self._out[start:end] = bytes(end - start)

    def checksum(self, kind: str, start: int, end: int, covered: Covered, *, little: bool = False) -> None:
        self._checksums.append(_Checksum(kind, start, end, covered, "little" if little else "big"))

    def part(self, start: int, end: int, tell: Tell) -> bool:
        inner = FrameCopy(self.source[start:end], self.names)
        try:
            tell(inner)
        except ReadError:
            return False
        self._out[start:end] = inner.made()
        return True

    def packed(self, codec: str, start: int, end: int, tell: Tell, *, size: int | None = None) -> None:
        self.blank(start, end)
        if codec == "none":
            self.part(start, end, tell)
            return
        try:
            with without_listeners():
                inner = FrameCopy(decompress(codec, self.source[start:end], limit=_UNPACKED, size=size), self.names)
            tell(inner)
        except (CodecError, ReadError):
            return
        made = refitted(codec, inner.made, inner.room, end - start)
        if made is None:  # keys compress worse than before where they resembled each other
            for a, b in inner._keys:
                inner._out[a:b] = PAYLOAD * (b - a)
            made = refitted(codec, inner.made, inner.room, end - start)
        if made is None:
            self.lost += 1
        else:
            self._out[start:end] = made

    @property
    def room(self) -> int:
        """Bytes that may be noise."""
        return sum(end - start for start, end in self._data)

    def made(self, noise: int = 0) -> bytes:
        """What stands for the bytes; the last `noise` bytes of an application's data do not compress.

        A checksum that did not hold differs from the right one by the same bits as before.
        """
        out = bytearray(self._out)
        random, plain = memoryview(self.names.noise(noise)), self.room - noise
        for start, end in self._data:
            kept = min(plain, end - start)
            plain -= kept
            out[start + kept : end] = random[: end - start - kept]
            random = random[end - start - kept :]
        for kind, start, end, covered, order in self._checksums:
            wrong = int.from_bytes(self.source[start:end], order) ^ compute(kind, covered(self.source))
            out[start:end] = (compute(kind, covered(bytes(out))) ^ wrong).to_bytes(end - start, order)
        return bytes(out)
