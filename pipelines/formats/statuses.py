"""What became of an exchange, as people read it: the same words in text, in comments and on the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SENT_AGAIN = "sent again"
BYTES_SENT_AGAIN = f"bytes of it were {SENT_AGAIN}"

# of a row of exchanges: ok, unknown, or the first error
STATUS = "CASE status WHEN 'error' THEN coalesce(error_name, 'error ' || error_code, status) ELSE status END"
MARKED = f"{STATUS} || CASE WHEN retransmitted THEN ', {SENT_AGAIN}' ELSE '' END"


def status(exchange: Mapping[str, Any]) -> str:
    """The same of a row in Python."""
    if exchange["status"] != "error":
        return exchange["status"] or ""
    code = exchange["error_code"]
    return exchange["error_name"] or ("error" if code is None else f"error {code}")


def marked(text: str, retransmitted: bool | None) -> str:
    """`ok` -> `ok, sent again`, where a byte was sent again."""
    return f"{text}, {SENT_AGAIN}" if retransmitted else text
