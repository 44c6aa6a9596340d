"""Packets that carry the id of a suspect message: by it the message is known again."""

from __future__ import annotations

from typing import NamedTuple

MOST = 64  # packets with one id that are looked at


class Sighting(NamedTuple):
    """A packet that carries the id."""

    packet_ref: int
    time: int  # ns
    source: tuple[str, int]  # address and port
    target: tuple[str, int]
    stream: bytes  # of this direction, from the packet on
