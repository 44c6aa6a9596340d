"""The trace that a message belongs to, as the header `traceparent` says it (W3C Trace Context, section 3.2)."""

from __future__ import annotations

import re

HEADER = "traceparent"
_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def trace_id(value: object) -> str | None:
    """The 32 hexadecimal digits of the trace in the header's value, bytes or text; None where it has another form."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    found = _PARENT.match(text) if isinstance(text, str) else None
    return found[1] if found and found[1].strip("0") else None
