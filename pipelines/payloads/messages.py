"""The record table `messages` with keys and values as what they mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from dissectors.capture.source import STDIN
from dissectors.kafka.internal_topics import coordinator_record
from dissectors.options import Options
from pipelines.payloads import forms, pulsar
from pipelines.payloads.columns import COLUMNS, RAW, TABLE
from pipelines.payloads.decoders import LimitError, MisfitError, SchemaError
from pipelines.payloads.meaning import Meaning, misfits
from pipelines.payloads.pulsar import WireSchemas
from pipelines.payloads.schemas import KEY, VALUE, Schemas
from pipelines.payloads.shown import ShownFields, as_json

_MOST = 1 << 20  # characters of a value as JSON
Rows = Iterator[tuple[str, pa.RecordBatch]]


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

    def of(self, rows: Iterable[tuple[str, pa.RecordBatch]], tables: Collection[str]) -> Rows:
        """Record batches of some tables, with their names: those of messages with COLUMNS, and what misfits add.

        rows: of the tables that `read_for` names.
        """
        for table, batch in rows:
            if table == TABLE:
                names = ("protocol", "topic", "schema_version", "key", "value")
                columns = (batch.column(name).to_pylist() for name in names)
                meanings = [self.meaning(*row) for row in zip(*columns, strict=True)]
                for added, more in misfits(batch, meanings):
                    if added in tables:
                        yield added, more
                batch = self._with_columns(batch, meanings) if TABLE in tables else batch
            if table in tables:
                yield table, batch

    def _with_columns(self, batch: pa.RecordBatch, meanings: Sequence[Meaning]) -> pa.RecordBatch:
        """A batch of messages with COLUMNS, without what is not shown."""
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
        told = self._wire.meaning(topic, version, key, value) if protocol == "pulsar" and topic is not None else None
        if told is not None:
            return told
        record = coordinator_record(topic, key, value) if protocol == "kafka" and topic is not None else None
        if record is not None:
            if not record.is_whole:
                return Meaning(record.key, record.value, None, f"not as {record.name} of any version that is known")
            return Meaning(record.key, record.value, f"kafka {record.name}")
        of_value, of_key = self._part(topic, VALUE, value), self._part(topic, KEY, key)
        if of_key.misfit is not None and of_value.misfit is None:
            return Meaning(None, of_value.value, of_key.schema, f"key: {of_key.misfit}")
        return of_value._replace(key=of_key.value)

    @cached_property
    def _wire(self) -> WireSchemas:
        return self._told()

    def _part(self, topic: str | None, part: str, data: bytes | None) -> Meaning:
        """A key or a value, in `value`."""
        if data is None:
            return Meaning()
        found, rest, indexes = None, data, tuple[int, ...]()
        try:
            for envelope in forms.envelopes(data):
                found = self._schemas.of_id(envelope.id)
                if found is not None:
                    rest = envelope.data
                    if found.type == "protobuf":
                        indexes, rest = forms.message_indexes(rest)
                    break
            found = found or self._schemas.of_topic(topic, part)
            if found is not None:
                return Meaning(None, self._schemas.reader(found)(rest, indexes), found.name)
        except MisfitError as error:
            return Meaning(schema=found.name if found else None, misfit=str(error))
        except (SchemaError, LimitError) as error:  # JSON is read without its schema, too
            _, value = (forms.guessed(rest) if found and found.type == "json" else None) or (None, None)
            return Meaning(None, value, None, str(error))
        form, value = (forms.guessed(data) if data else ("text", "")) or (None, None)
        return Meaning(None, value, form)


def told_in(files: Sequence[str], options: Options) -> WireSchemas:
    """The schemas that Pulsar's clients and brokers tell each other in captures, which are read for that alone."""
    if STDIN in files:  # what comes from there comes once
        return WireSchemas()
    from dissectors.run import Run

    asked = options._replace(tables=("exchanges",), full=True, payloads=False, bodies_of=pulsar.APIS)
    batches = (batch.select(["api", "topics", "request", "response"]) for _, batch in Run(files, asked).records())
    return pulsar.told(row for batch in batches for row in batch.to_pylist() if row["api"] in pulsar.APIS)


def _text(value: Any) -> str | None:
    """JSON; None for nothing, and for a value of more characters than are shown."""
    if value is None:
        return None
    text = as_json(value)
    return text if len(text) <= _MOST else None
