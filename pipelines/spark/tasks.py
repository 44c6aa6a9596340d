"""Python tasks on Spark: values in, values out. Only DataFrames are used, so it runs in any session, Connect's too."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dissectors.capture import stores
from pipelines.process import keep_freed_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]  # what mapInArrow runs
MADE = "made binary"  # the columns of what a task made: one pickled value


def spread(spark: SparkSession, items: Sequence[Any], task: Task, ddl: str | StructType = MADE) -> DataFrame:
    """What tasks make of items, a task an item."""
    columns = [pa.array(range(len(items)), pa.int32()), pa.array(map(pickle.dumps, items), pa.binary())]
    # an Arrow table goes to Java as it is, where a list would start Python workers to be pickled once more
    rows = spark.createDataFrame(pa.Table.from_arrays(columns, names=["task", "given"]))
    rows = rows.coalesce(1) if len(items) == 1 else rows.repartitionById(len(items), "task")
    return over(rows, task, ddl)


def over(rows: DataFrame, task: Task, ddl: str | StructType) -> DataFrame:
    """What a task makes of rows, where paths lead to what they are for the driver: with its credentials and folder."""
    options, folder = stores.all_options(), Path.cwd()

    def run(batches: Batches) -> Batches:
        stores.set_options(options)
        stores.set_folder(folder)
        keep_freed_memory()
        yield from task(batches)

    return rows.mapInArrow(run, ddl)


def collect(made: DataFrame) -> list[Any]:
    """The values that tasks made, in the order of the tasks."""
    return [pickle.loads(row["made"]) for row in made.collect()]


def each(function: Callable[[Any], Any]) -> Task:
    """A task that gives a value for each that it is given."""

    def run(batches: Batches) -> Batches:
        return made(function(item) for item in given(batches))

    return run


def given(batches: Batches) -> Iterator[Any]:
    """Inside a task: what it was given."""
    for batch in batches:
        for value in batch.column(batch.num_columns - 1):
            yield pickle.loads(value.as_buffer())


def made(values: Iterable[Any]) -> Batches:
    """Inside a task: what it has made."""
    for value in values:
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(value)], pa.binary())], names=["made"])
