"""The record table `messages` with keys and values as what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from dissectors.capture.source import STDIN
from dissectors.kafka.internal_topics import coordinator_record
from dissectors.options import Options
from pipelines.payloads import forms, pulsar
from pipelines.payloads.columns import COLUMNS, RAW, TABLE
from pipelines.payloads.decoders import MisfitError, SchemaError
from pipelines.payloads.pulsar import WireSchemas
from pipelines.payloads.schemas import KEY, VALUE, Schemas
from pipelines.payloads.shown import ShownFields, as_json

_MOST = 1 << 20  # characters of a value as JSON
Rows = Iterator[tuple[str, pa.RecordBatch]]


class Meaning(NamedTuple):
    """A message, read."""

    key: Any = None
    value: Any = None
    schema: str | None = None
    misfit: str | None = None


class PayloadReader:
    """Reads keys and values of messages."""

    def __init__(
        self,
        schemas: Schemas | None = None,
        told: Callable[[], WireSchemas] = WireSchemas,
        shown: ShownFields | None = None,
    ) -> None:
        """schemas: those that are given; told: those in the captures, asked for when a message first needs them."""
        self._schemas = schemas or Schemas()
        self._told = told
        self._shown = shown or ShownFields()

    def of(self, rows: Iterable[tuple[str, pa.RecordBatch]]) -> Rows:
        """Record batches with the names of their tables, those of messages with COLUMNS."""
        for table, batch in rows:
            yield table, self.read(batch) if table == TABLE else batch

    def read_table(self, table: pa.Table) -> pa.Table:
        """The whole table with COLUMNS."""
        return pa.Table.from_batches(map(self.read, table.to_batches()), pa.schema([*table.schema, *COLUMNS]))

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of messages with COLUMNS."""
        names = ("protocol", "topic", "schema_version", "key", "value")
        columns = (batch.column(name).to_pylist() for name in names)
        meanings = [self.meaning(*row) for row in zip(*columns, strict=True)]
        made = [
            [_text(self._shown.of_value(each.key)) for each in meanings],
            [_text(self._shown.of_value(each.value)) for each in meanings],
            [each.schema for each in meanings],
            [each.misfit for each in meanings],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(made, COLUMNS, strict=True)]
        kept = batch.columns
        if self._shown:
            kept = [
                pa.nulls(batch.num_rows, field.type) if field.name in RAW else column
                for field, column in zip(batch.schema, kept, strict=True)
            ]
        return pa.RecordBatch.from_arrays([*kept, *arrays], schema=pa.schema([*batch.schema, *COLUMNS]))

    def meaning(
        self, protocol: str, topic: str | None, version: int | None, key: bytes | None, value: bytes | None
    ) -> Meaning:
        """What a message means."""
        try:
            if protocol == "pulsar" and topic is not None and self._wire.of(topic, version) is not None:
                name, read_key, read_value = self._wire.read(topic, version, key, value)
                return Meaning(read_key, read_value, name)
            record = coordinator_record(topic, key, value) if protocol == "kafka" and topic is not None else None
            if record is not None:
                misfit = None if record.is_whole else f"not as {record.name} of any version that is known"
                return Meaning(record.key, record.value, f"kafka {record.name}", misfit)
            schema, read_value = self._part(topic, VALUE, value)
        except (SchemaError, MisfitError) as error:
            return Meaning(misfit=str(error))
        try:
            _, read_key = self._part(topic, KEY, key)
        except (SchemaError, MisfitError) as error:
            return Meaning(value=read_value, schema=schema, misfit=f"key: {error}")
        return Meaning(read_key, read_value, schema)

    @cached_property
    def _wire(self) -> WireSchemas:
        return self._told()

    def _part(self, topic: str | None, part: str, data: bytes | None) -> tuple[str | None, Any]:
        """(by what it was read, the value) of a key or a value. Raises SchemaError, MisfitError."""
        if data is None:
            return None, None
        for envelope in forms.envelopes(data):
            found = self._schemas.of_id(envelope.id)
            if found is not None:
                indexes, rest = (
                    forms.message_indexes(envelope.data) if found.type == "protobuf" else ((), envelope.data)
                )
                return f"{found.type} {found.name}", found.decode(rest, indexes)
        found = self._schemas.of_topic(topic, part)
        if found is not None:
            return f"{found.type} {found.name}", found.decode(data, ())
        guess = forms.guessed(data) if data else ("text", "")
        return guess or (None, None)


def told_in(files: Sequence[str], options: Options) -> WireSchemas:
    """The schemas that Pulsar's clients and brokers tell each other in captures, which are read for that alone."""
    if STDIN in files:  # what comes from there comes once
        return WireSchemas()
    from dissectors.run import Run

    asked = replace(options, tables=("exchanges",), full=True, payloads=False, bodies_of=pulsar.APIS)
    batches = (batch.select(["api", "topics", "request", "response"]) for _, batch in Run(files, asked).records())
    return pulsar.told(row for batch in batches for row in batch.to_pylist() if row["api"] in pulsar.APIS)


def _text(value: Any) -> str | None:
    """JSON; None for nothing, and for a value of more characters than are shown."""
    if value is None:
        return None
    text = as_json(value)
    return text if len(text) <= _MOST else None
