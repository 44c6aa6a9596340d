"""The checksums that a batch's compressed data carry: a second opinion on what broke."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.sink import Suspect
from dissectors.wire.codec_sums import BAD, OK, Sum, sums

LIMIT = 16 << 20  # bytes that a batch may become when it is decompressed to be checked
_CONTENT = ("gzip crc32", "lz4 content", "zstd content", "snappy chunk")  # these cover every byte of the content
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Inner(NamedTuple):
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


def inner(suspect: Suspect, corrected: bytes | None) -> Inner:
    """The verdicts of a suspect."""
    return Inner(_of(suspect, suspect.unit), [] if corrected is None else _of(suspect, corrected))


def _names(found: list[Sum], verdict: str, only: tuple[str, ...] = ()) -> str:
    names = (one.name for one in found if one.verdict == verdict and (not only or one.name in only))
    return ", ".join(dict.fromkeys(names))


def _of(suspect: Suspect, unit: bytes) -> list[Sum]:
    codec, start = _compressed(suspect, unit)
    return sums(codec, unit[start:], LIMIT) if start < len(unit) else []


def _compressed(suspect: Suspect, unit: bytes) -> tuple[str, int]:
    """The codec, and where in the unit its data begin."""
    try:
        if suspect.format == "magic 2":
            return _CODECS[unit[22] & 7], 61
        if suspect.format in ("magic 0", "magic 1"):
            at = 18 if suspect.format == "magic 0" else 26
            key = int.from_bytes(unit[at : at + 4], "big", signed=True)
            return _CODECS[unit[17] & 7], at + 8 + max(0, key)
        if suspect.format == "entry":
            return _pulsar(suspect, unit)
    except (IndexError, ValueError):
        pass
    return "none", len(unit)


def _pulsar(suspect: Suspect, unit: bytes) -> tuple[str, int]:
    from google.protobuf.message import DecodeError

    from dissectors.pulsar import api, batches

    start = suspect.covered[0][0]
    payload = start + 4 + int.from_bytes(unit[start : start + 4], "big")
    try:
        meta = api.MessageMetadata.FromString(unit[start + 4 : payload])
    except DecodeError:
        return "none", len(unit)
    return batches.CODECS.get(meta.compression, "none"), payload


__all__ = ["Inner", "inner"]
