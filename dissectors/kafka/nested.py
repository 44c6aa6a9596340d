"""Messages inside the bytes of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _size(raw: bytes) -> Any:
    """Opaque bytes, told by their size."""
    return {"sizeInBytes": len(raw)}


SHOWN: dict[tuple[str, str], Callable[[bytes], Any]] = {
    ("EnvelopeRequest", "requestData"): _size,
    ("EnvelopeResponse", "responseData"): _size,
    ("PushTelemetryRequest", "metrics"): _size,
}
"""(message, field) -> how `--full` shows its bytes; others are base64."""
