"""Where one message lies, whatever its layout."""

from __future__ import annotations

from typing import NamedTuple


class Msg(NamedTuple):
    """One message: indexes in the buffer, times in microseconds."""

    start: int
    covered: int  # first byte that the checksum covers; to the end of the message
    end: int
    id: int
    offset: int | None
    timestamp: int
    origin: int
    payload: int
    payload_length: int
    headers: int
    headers_length: int
    stored: int
