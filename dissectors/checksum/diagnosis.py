"""What locating an error has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

SINGLE_BIT, DOUBLE_BIT, BURST, STORED = "single_bit", "double_bit", "burst", "stored_checksum"
ZEROED, SWAPPED, REPEATED, TRUNCATED, SHIFTED = "zeroed_run", "swapped", "repeated", "truncated", "shifted"
UTF8, CRLF, UNKNOWN = "utf8_mangled", "crlf", "unknown"
OVERWRITTEN, OTHER_SEGMENT = "overwritten", "other_segment"


class Flip(NamedTuple):
    """One bit, or where the pattern is one of bytes (`bit` is None) one byte, that is not what it should be."""

    at: int  # byte offset in the covered data, or in the stored checksum as shown, highest byte first
    bit: int | None  # 0 is the lowest
    was: int  # the byte as captured
    should_be: int | None  # the byte as it must have been; None where it is not known
    stored: bool = False  # it is in the stored checksum, not in the data


class Alternative(NamedTuple):
    """Another error that fits the checksum."""

    flips: tuple[Flip, ...]
    share: float  # how likely it is among all that fit, 0 to 1


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The likeliest explanation of a wrong checksum."""

    pattern: str
    flips: tuple[Flip, ...] = ()
    verified: bool = False
    """The corrected bytes match the checksum."""
    candidates: int = 0
    """How many places fit this pattern equally well; 1 is an answer, more is a choice."""
    note: str = ""
    """One sentence for a person."""
    chance: float = 0.0
    """How many matches of this pattern, or a simpler one, chance alone would give: hypotheses tried / 2^32."""
    alternatives: tuple[Alternative, ...] = ()
    """Corrections that fit the checksum as well, the likeliest first, where one error of up to 32 bits is assumed."""
    right: bytes | None = None
    """The data as they should be, where `flips` are not all of it."""
