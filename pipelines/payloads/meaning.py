"""What a message means, and what is wrong with one that does not fit its schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from dissectors import records
from dissectors.findings import KINDS

SCHEMA_MISMATCH = "payload_schema_mismatch"  # kind of finding
MISFIT = "misfit"  # kind of event


class Meaning(NamedTuple):
    """A message, read."""

    key: Any = None
    value: Any = None
    schema: str | None = None  # by what it was read; of a misfit, what it should have been
    misfit: str | None = None  # where and why it could not be read; nothing of what it holds

    @property
    def breaks_schema(self) -> bool:
        """Whether it is the message that is wrong: else its schema is, or it is larger than what is read."""
        return self.misfit is not None and self.schema is not None


def misfits(messages: pa.RecordBatch, meanings: Sequence[Meaning]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of columns.ADDS_TO for those messages of a batch that do not fit their schema."""
    unfit = [number for number, meaning in enumerate(meanings) if meaning.breaks_schema]
    if not unfit:
        return
    rows = messages.take(pa.array(unfit))
    reasons = [str(meanings[number].misfit) for number in unfit]
    schemas = [meanings[number].schema for number in unfit]
    topics = rows.column("topic").to_pylist()
    sentences = [
        f"A message of topic {topic or '?'} does not fit {schema}: {reason}."
        for topic, schema, reason in zip(topics, schemas, reasons, strict=True)
    ]
    sides = ["client" if role == "produce" else "server" for role in rows.column("role").to_pylist()]
    severity = [KINDS[SCHEMA_MISMATCH].severity] * len(unfit)
    kind = [SCHEMA_MISMATCH] * len(unfit)
    yield "findings", _made(
        "findings", rows, kind=kind, severity=severity, direction=sides, message=sentences,
        length=rows.column("value_bytes"),
    )  # fmt: skip
    yield "events", _made(
        "events", rows, kind=[MISFIT] * len(unfit), subject=schemas, text=reasons, direction=sides,
        number=rows.column("offset"),
    )  # fmt: skip


def _made(table: str, rows: pa.RecordBatch, **columns: Any) -> pa.RecordBatch:
    """Rows of a record table: these columns, those that `rows` has, too, and nulls."""
    schema = records.schema(table)
    arrays = []
    for field in schema:
        if field.name in columns:
            arrays.append(pa.array(columns[field.name], field.type))
        elif field.name in rows.schema.names:
            arrays.append(rows.column(field.name).cast(field.type))
        else:
            arrays.append(pa.nulls(len(rows), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
