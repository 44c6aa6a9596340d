"""The rows that verdicts count, found again in the record tables.

A verdict names the table of its rows (`counted`) and the place of each (`evidence`). An exchange is known by its id and
a file that holds a frame of it; any other row by its first packet and the stream offset of its first byte there.
"""

from __future__ import annotations

_PACKET = "r.file = e.file and r.packet = e.packet"
_OFFSET = f"{_PACKET} and r.stream_offset is not distinct from e.stream_offset"
SAME_ROW = {
    "exchanges": "r.exchange_id = e.exchange_id and e.file in (r.request_file, r.response_file)",
    "batches": _OFFSET,
    "connections": _PACKET,
    "findings": _OFFSET,
}
"""Record table -> whether its row r is at the place e, as a condition."""
