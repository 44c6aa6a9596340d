"""Single messages by what they hold: a key, a header, an offset, a text."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from dissectors.errors import UsageError
from pipelines.answers.records import Relations, Row, query
from pipelines.payloads.columns import COLUMNS, KEY_JSON, RAW, VALUE_JSON
from pipelines.payloads.shown import ShownFields, as_json

LONGEST_PATTERN = 1_000  # characters
PAYLOADS = (*RAW, *(field.name for field in COLUMNS))
"""Columns that are shown only where payloads are asked for."""


class MessageFilter(NamedTuple):
    """What messages must have; None for whatever."""

    key: str | None = None  # the key, as text
    header: str | None = None  # NAME, or NAME=VALUE
    offset: int | None = None  # Kafka's and Iggy's offset
    position: str | None = None  # or any protocol's position, as `12:3` of Pulsar, for all messages of that entry
    partition: int | None = None
    grep: str | None = None  # a regular expression (RE2) that key, value or a header matches somewhere

    @property
    def reads_payloads(self) -> bool:
        """Whether keys, values or headers have to be read for it."""
        return any(part is not None for part in (self.key, self.header, self.grep))


def matching(tables: Relations, wanted: MessageFilter, *, most: int | None = None) -> list[Row]:
    """The messages in order of time. tables: `messages`, with payloads where the filter reads them.

    A message that was captured on its way to the broker and from it is there for each. most: of these rows the first.
    Raises UsageError for a pattern that is none.
    """
    import duckdb

    conditions, values = _conditions(wanted)
    limit = "" if most is None else f" LIMIT {most}"
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "time, file, packet, stream_offset, \"offset\", try_cast(split_part(position, ':', 3) AS INTEGER), sequence"
    try:
        return query(tables, f"SELECT * FROM messages {where} ORDER BY {order}{limit}", values)
    except duckdb.InvalidInputException as error:  # what RE2 says of a pattern
        raise UsageError(f"{wanted.grep!r} is no regular expression: {str(error).partition(': ')[2]}") from None


def _conditions(wanted: MessageFilter) -> tuple[list[str], list[str | int]]:
    """SQL, and the values in the places of its question marks."""
    conditions: list[str] = []
    values: list[str | int] = []

    def add(condition: str, *given: str | int) -> None:
        conditions.append(condition)
        values.extend(given)

    if wanted.key is not None:
        add("key = encode(?)", wanted.key)
    if wanted.header is not None:
        name, sign, value = wanted.header.partition("=")
        of_value = " AND (h->>1) = ?" if sign else ""
        pairs = "from_json(headers::JSON, '[\"JSON\"]')"
        add(f"len(list_filter({pairs}, lambda h: (h->>0) = ?{of_value})) > 0", name, *([value] if sign else []))
    if wanted.offset is not None:
        add('"offset" = ?', wanted.offset)
    if wanted.position is not None:
        add("(position = ? OR starts_with(position, ? || ':'))", wanted.position, wanted.position)
    if wanted.partition is not None:
        add('"partition" = ?', wanted.partition)
    if wanted.grep is not None:
        if len(wanted.grep) > LONGEST_PATTERN:
            raise UsageError(f"a regular expression of more than {LONGEST_PATTERN} characters")
        texts = ("key", "value")
        tests = [f"regexp_matches({_text(column)}, ?)" for column in texts] + ["regexp_matches(headers, ?)"]
        add(f"({' OR '.join(f'coalesce({test}, false)' for test in tests)})", *[wanted.grep] * len(tests))
    return conditions, values


def _text(column: str) -> str:
    """Bytes as text: as UTF-8 where they are that, else with escapes for what is not ASCII."""
    return f"coalesce(try(decode({column})), {column}::VARCHAR)"


def position_of(text: str) -> tuple[int | None, str | None]:
    """What `--offset` says: (an offset, None), or (None, a position of another form)."""
    return (int(text), None) if re.fullmatch(r"\d{1,18}", text) else (None, text)


def with_fields(row: Row, shown: ShownFields) -> Row:
    """A message with the fields of key and value that are shown, and without the bytes that hold all of them."""
    read = {name: row[name] and as_json(shown.of_value(json.loads(row[name]))) for name in (KEY_JSON, VALUE_JSON)}
    return {**row, **dict.fromkeys(RAW), **read}
