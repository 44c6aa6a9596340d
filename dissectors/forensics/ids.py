"""The id of a suspect message, by which it is known again in other packets."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.sink import Suspect

MOST = 64  # packets with one id that are looked at
ID_BYTES = 16
_VARIED = 4  # different bytes in an id that tells something; 16 bytes of a small number are found everywhere
_HEADERS = {"header-56": 56, "header-64": 64, "vsr-batch": 48}  # bytes of a message's header: checksum 8, id 16 …


class Seen(NamedTuple):
    """A packet that carries the id."""

    place: int
    time: int  # ns
    source: tuple[str, int]  # address and port
    target: tuple[str, int]
    stream: bytes  # of this direction, from the packet on


class Identity(NamedTuple):
    """Where a message's id and its payload with user headers lie in the unit."""

    id: bytes
    at: int
    start: int
    end: int


def identity(suspect: Suspect) -> Identity | None:
    """The id of the message that a suspect is; None for what has none, or one that tells nothing."""
    start, end = suspect.covered[0]
    header = _HEADERS.get(suspect.format)
    if len(suspect.covered) != 1 or (header is None and suspect.format != "legacy"):
        return None
    at = start if header else suspect.checksum_at - ID_BYTES  # the checksum of the legacy layout follows the id
    id_ = suspect.unit[max(at, 0) : at + ID_BYTES]
    if at < 0 or len(id_) < ID_BYTES or len(set(id_)) < _VARIED:
        return None
    return Identity(id_, at, start - 8 + header if header else start, end)
