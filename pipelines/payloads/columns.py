"""The columns that the record table `messages` has where keys and values are asked for, besides its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dissectors import records

TABLE = "messages"
ADDS_TO = ("findings", "events")
"""The record tables that get a row for each message that does not fit its schema."""
RAW = ("key", "value", "headers", "ordering_key")
"""The columns that hold what is in messages, as it is."""
KEY_JSON, VALUE_JSON = "key_json", "value_json"
COLUMNS = (
    pa.field(KEY_JSON, pa.string()),  # the key as JSON; null where nothing says what it means
    pa.field(VALUE_JSON, pa.string()),
    pa.field("schema", pa.string()),  # by what the value was read, or should have been
    pa.field("misfit", pa.string()),  # why a key or value could not be read by its schema
)


def schema(table: str, *, full: bool = False, payloads: bool = False) -> pa.Schema:
    """The columns of a record table, with COLUMNS where payloads are asked for."""
    known = records.schema(table, full=full, payloads=payloads)
    return pa.schema([*known, *COLUMNS], known.metadata) if payloads and table == TABLE else known


def read_for(tables: Sequence[str]) -> tuple[str, ...]:
    """The record tables that must be decoded for some, where payloads are read."""
    needs_messages = TABLE not in tables and not set(ADDS_TO).isdisjoint(tables)
    return (*tables, TABLE) if needs_messages else tuple(tables)


def meant(row: Mapping[str, Any], part: str) -> Any:
    """What is shown to people of the `key` or `value` of a message: as JSON what is no text, else as it is."""
    text = row.get(f"{part}_json")
    if text is None:
        return row[part]
    return json.loads(text) if text.startswith('"') else text
