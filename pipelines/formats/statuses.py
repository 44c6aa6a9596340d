"""What became of an exchange, as people read it: the same words in text, in comments and on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RETRANSMITTED = "retransmitted"
BYTES_RETRANSMITTED = f"bytes of it were {RETRANSMITTED}"

# of a row of exchanges: ok, unknown, or the first error
STATUS = "CASE status WHEN 'error' THEN coalesce(error_name, 'error ' || error_code, status) ELSE status END"


def status(exchange: Mapping[str, Any]) -> str:
    """The status of a row of exchanges: ok, unknown, or the name of the first error."""
    if exchange["status"] != "error":
        return exchange["status"] or ""
    code = exchange["error_code"]
    return exchange["error_name"] or ("error" if code is None else f"error {code}")


def marked(text: str, retransmitted: bool | None) -> str:
    """`ok` -> `ok, retransmitted`, where a byte was retransmitted."""
    return f"{text}, {RETRANSMITTED}" if retransmitted else text
