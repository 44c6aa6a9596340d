"""Versions of the schemas of topics, as brokers number them: eight bytes, a signed big-endian number from 0 on.

Source: org.apache.pulsar.common.protocol.schema.BytesSchemaVersion, and LongSchemaVersion of brokers.
"""

from __future__ import annotations

VERSION_BYTES = 8


def schema_version(value: bytes | None) -> int | None:
    """The number of a version; None where there is none, or it has another form."""
    return int.from_bytes(value, "big", signed=True) if value and len(value) == VERSION_BYTES else None
