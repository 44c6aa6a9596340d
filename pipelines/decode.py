"""Captures to records on Spark, by the very engine that the local path runs.

    packets --shuffle by (site, flow)--> sorted by time --mapInArrow: engine--> (table, record batch) --> one table each

All packets of a connection meet in one partition, in time order, however many files they came from; a partition runs
many connections through one engine in a single pass, so memory stays flat however large a connection is. What comes out
is one row per finished record batch, in Arrow's own bytes; `names` is one more table among them: what topic ids and the
like are called, told on any connection, put in when the tables are taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dissectors import records
from dissectors.options import Options
from dissectors.sink import Name, Names, has_tokens, resolve, to_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dissectors.capture.block import PacketBlock

NAMES = "names"
MADE = pa.schema([("table", pa.string()), ("batch", pa.binary())])
_DDL = "table string, batch binary"
_NAME_SCHEMA = pa.schema([("key", pa.string()), ("time", pa.int64()), ("name", pa.string())])
_ROWS = 10_000  # of a record batch handed back to Spark

Batches = Iterator[pa.RecordBatch]


def decode(
    packets: DataFrame, options: Options, partitions: int | None = None, secrets: Sequence[bytes] = ()
) -> DataFrame:
    """Packets, as the data source gives them, to rows (table, batch). secrets: TLS key logs."""
    keys = ("site", "flow")
    shuffled = packets.repartition(partitions, *keys) if partitions else packets.repartition(*keys)
    return in_order(shuffled).mapInArrow(_decoder(options, tuple(secrets)), _DDL)


def in_order(packets: DataFrame) -> DataFrame:
    """Packets as an engine wants them: within a partition, site by site, in time order."""
    return packets.sortWithinPartitions("site", "order_ns", "file_order", "packet")


def blocks(
    batches: Batches, files: list[str], problems: list[records.Finding] | None = None
) -> Iterator[tuple[str, PacketBlock]]:
    """(site, packets) of a partition. `files` grows by the names that its packets come from, `problems` by notes."""
    from dissectors.capture.arrow import from_arrow

    for batch in batches:
        notes = batch.column("note")
        if notes.null_count < len(notes):
            if problems is not None:
                problems.extend(_problem(text) for text in notes.drop_null().to_pylist())
            batch = batch.filter(pc.is_null(notes))
        for site, part in _by_site(batch):
            yield site, from_arrow(part, files)


def names(made: DataFrame) -> list[Name]:
    """Every name told in the captures."""
    told: list[Name] = []
    for row in made.where(made["table"] == NAMES).toLocalIterator():
        batch = pa.ipc.read_record_batch(pa.py_buffer(row["batch"]), _NAME_SCHEMA)
        told += (Name(*values) for values in zip(*(c.to_pylist() for c in batch.columns), strict=True))
    return told


def table(made: DataFrame, name: str, options: Options, told: list[Name]) -> DataFrame:
    """One table of records, names put in."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = records.schema(name, full=options.full, payloads=options.payloads)
    rows = made.where(made["table"] == name).select("batch")
    return rows.mapInArrow(_unwrapper(schema, told), from_arrow_schema(schema))


def _decoder(options: Options, secrets: Sequence[bytes]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        from dissectors import engine

        files: list[str] = []
        problems: list[records.Finding] = []
        running, made = engine.decode(blocks(batches, files, problems), options, files)
        for secret in secrets:
            running.keylog.add(secret)
        for name, batch in made:
            yield _wrapped(name, batch)
        if problems and "findings" in options.tables:
            yield _wrapped("findings", to_batch("findings", problems, []))
        if running.sink.names:
            columns = zip(*dict.fromkeys(running.sink.names), strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, _NAME_SCHEMA, strict=True)]
            yield _wrapped(NAMES, pa.RecordBatch.from_arrays(arrays, schema=_NAME_SCHEMA))

    return run


def _unwrapper(schema: pa.Schema, told: list[Name]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        known = Names(told)
        for batch in batches:
            for value in batch.column(0):
                made = pa.ipc.read_record_batch(value.as_buffer(), schema)
                if has_tokens(made):
                    made = resolve(made, known)
                for start in range(0, made.num_rows, _ROWS):
                    yield made.slice(start, _ROWS)

    return run


def _by_site(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Runs of one site; packets come sorted by it."""
    if not batch.num_rows:
        return
    runs = pc.run_end_encode(batch.column("site"))
    start = 0
    for end, site in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield site, batch.slice(start, end - start)
        start = end


def _problem(note: str) -> records.Finding:
    """A file that could not be read whole, told as the local engine tells it."""
    kind, _, message = note.partition(": ")
    severity = "error" if kind == "unreadable_file" else "warning"
    return records.Finding(None, kind, severity, message=message)


def _wrapped(name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    data = batch.serialize().to_pybytes()
    return pa.RecordBatch.from_arrays([pa.array([name]), pa.array([data], pa.binary())], schema=MADE)
