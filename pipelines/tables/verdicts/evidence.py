"""The rows that verdicts count, found again in the record tables.

A verdict names the table of its rows (`counted`) and the place of each (`evidence`). An exchange is known by its id and
a file that holds a frame of it; any other row by its first packet and the stream offset of its first byte there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.sql.database import literal

_PACKET = "r.file = e.file and r.packet = e.packet"
_OFFSET = f"{_PACKET} and r.stream_offset is not distinct from e.stream_offset"
SAME_ROW = {
    "exchanges": "r.exchange_id = e.exchange_id and e.file in (r.request_file, r.response_file)",
    "batches": _OFFSET,
    "connections": _PACKET,
    "findings": _OFFSET,
}
"""Record table -> whether its row r is at the place e, as a condition."""


def rows_of(verdict: Mapping[str, Any]) -> str:
    """A SELECT of the rows of a record table that a verdict counts. verdict: a row of the table `verdicts`."""
    places = ", ".join(
        f"({_text(at['file'])}, {_number(at['packet'])}, {_text(at['exchange_id'])}, {_number(at['stream_offset'])})"
        for at in verdict["evidence"]
    )
    return f"""
        select r.* from {verdict["counted"]} r
        semi join (values {places}) e(file, packet, exchange_id, stream_offset) on {SAME_ROW[verdict["counted"]]}"""


def _text(value: str | None) -> str:
    return "null::varchar" if value is None else literal(value)


def _number(value: int | None) -> str:
    return "null::bigint" if value is None else str(value)
