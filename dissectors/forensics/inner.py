"""The checksums that a batch's compressed data carry: a second opinion on what broke."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.forensics.units import compressed
from dissectors.rows.sink import Suspect
from dissectors.wire.codec_sums import BAD, OK, Sum, sums

LIMIT = 16 << 20  # bytes that a batch may become when it is decompressed to be checked
_CONTENT = ("gzip crc32", "lz4 content", "zstd content", "snappy chunk")  # these cover every byte of the content


class InnerChecksum(NamedTuple):
    """Verdicts over the bytes as captured, and over the corrected ones where these are known."""

    captured: list[Sum]
    corrected: list[Sum]

    def reasons(self) -> list[str]:
        """What they say, a sentence each."""
        wrong, right = _names(self.captured, BAD), _names(self.captured, OK, _CONTENT)
        if wrong:
            return [f"Inside the batch, wrong as well: {wrong}; so the compressed data broke after they were made"]
        if right:
            return [f"Inside the batch, right: {right}; so the compressed data are intact"]
        mended = _names(self.corrected, OK, _CONTENT)
        if mended and not _names(self.corrected, BAD):
            return [f"Inside the batch, right with the corrected bytes: {mended}"]
        return []


def inner(suspect: Suspect, corrected: bytes | None) -> InnerChecksum:
    """The verdicts of a suspect."""
    return InnerChecksum(_of(suspect, suspect.unit), [] if corrected is None else _of(suspect, corrected))


def _names(found: list[Sum], verdict: str, only: tuple[str, ...] = ()) -> str:
    names = (one.name for one in found if one.verdict == verdict and (not only or one.name in only))
    return ", ".join(dict.fromkeys(names))


def _of(suspect: Suspect, unit: bytes) -> list[Sum]:
    codec, start = compressed(suspect, unit)
    return sums(codec, unit[start:], LIMIT) if start < len(unit) else []


__all__ = ["InnerChecksum", "inner"]
