"""Names of the fields that a body of Kafka may have, as `--full` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dissectors.kafka import nested, schema
from dissectors.kafka.schema import SchemaField

_ADDED = ("sizeInBytes", "uncompressedBytes", "names", "control", "decoded", "api", "body")
"""What is shown beside fields of the schema: of record sets, control records and messages within messages."""


@cache
def body_names() -> frozenset[str]:
    """Every field of every message in every version, and what is shown beside fields."""
    fields = {name for message in schema.messages() for name in _names(schema.message(message).fields)}
    return frozenset((*fields, *(name + nested.DECODED for name in fields), *_ADDED))


def _names(fields: tuple[SchemaField, ...]) -> Iterator[str]:
    for field in fields:
        yield field.name
        yield from _names(field.fields)
