"""What a suspect unit is, asked of the protocol that made it."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Sequence

from dissectors.checksum.unit_format import FieldSpan, Identity, UnitFormat
from dissectors.rows.sink import Suspect
from dissectors.session.protocols import named
from dissectors.wire.codecs import CodecError

_UNKNOWN = UnitFormat()
_BROKEN = (ValueError, IndexError, struct.error, CodecError)


def unit_format(suspect: Suspect) -> UnitFormat:
    """The format of the suspect, as far as it is known."""
    protocol = named(suspect.conn.protocol)
    return _UNKNOWN if protocol is None else protocol.unit_formats().get(suspect.format, _UNKNOWN)


def fields(suspect: Suspect, unit: bytes) -> list[FieldSpan]:
    """The named stretches of a unit, ascending, as far as it can be read; `unit` may be the corrected bytes."""
    out: list[FieldSpan] = []
    with contextlib.suppress(*_BROKEN):  # broken bytes lead nowhere; what was found before stays
        out.extend(unit_format(suspect).fields(suspect, unit))
    return sorted(out, key=lambda span: (span.start, -span.end))


def field_at(spans: Sequence[FieldSpan], at: int) -> str | None:
    """The name of the innermost stretch that holds a byte."""
    inside = [span for span in spans if span.start <= at < span.end]
    return min(inside, key=lambda span: span.end - span.start).name if inside else None


def data_start(suspect: Suspect) -> int:
    """Where in the covered bytes the message data begin."""
    return unit_format(suspect).data_start(suspect)


def validity(suspect: Suspect) -> Callable[[bytes], bool] | None:
    """A judge of covered bytes; None where they cannot be judged."""
    if len(suspect.covered) != 1:
        return None
    form = unit_format(suspect)
    start, end = suspect.covered[0]

    def valid(covered: bytes) -> bool:
        try:
            return bool(form.is_valid(suspect, covered))
        except _BROKEN:
            return False

    with contextlib.suppress(*_BROKEN):
        if form.is_valid(suspect, suspect.unit[start:end]) is None:
            return None
    return valid


def compressed(suspect: Suspect, unit: bytes) -> tuple[str, int]:
    """The codec, and where in the unit its data begin."""
    try:
        return unit_format(suspect).compressed(suspect, unit)
    except _BROKEN:
        return "none", len(unit)


def identity(suspect: Suspect) -> Identity | None:
    """The id of the message that a suspect is; None for what has none, or one that is not its own."""
    return unit_format(suspect).identity(suspect)
