"""Python tasks on Spark: values in, values out; or rows in, rows out.

`call` is a plain job where there is a Spark context: no session is needed, and nothing is planned and compiled.
Everything else uses DataFrames, so it runs in any session, Connect's too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from dissectors.capture import stores
from pipelines.pandas_guard import is_without_pandas, without_pandas
from pipelines.process import keep_freed_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pipelines.spark.application import Application

Item = TypeVar("Item")
Result = TypeVar("Result")
Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]  # what mapInArrow runs
MADE = "made binary"  # the columns of what a task made: one pickled value


class _Driver(NamedTuple):
    """What a task takes over from the driver, so that a path means the same and nothing is loaded for nothing."""

    options: dict[stores.Place, stores.Options]  # of object stores, credentials among them
    folder: Path  # of relative paths
    without_pandas: bool  # whether nobody wants pandas of the workers: the driver is a command

    @classmethod
    def of_this_process(cls) -> _Driver:
        return cls(stores.all_options(), Path.cwd(), is_without_pandas())

    def use(self) -> None:
        """Inside a task, before its work."""
        stores.set_options(self.options)
        stores.set_folder(self.folder)
        keep_freed_memory()
        if self.without_pandas:
            without_pandas()


def call(application: Application, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What a function makes of each item, in their order. A Spark task an item; raises what Spark raises."""
    context = application.context
    if context is None:
        return collect(spread(application.session, items, _each(function)))
    driver = _Driver.of_this_process()

    def run(item: Item) -> Result:
        driver.use()
        return function(item)

    return context.parallelize(items, len(items)).map(run).collect()


def spread(spark: SparkSession, items: Sequence[Any], task: Task, ddl: str | StructType = MADE) -> DataFrame:
    """The rows that tasks make of items, a task an item."""
    columns = [pa.array(range(len(items)), pa.int32()), pa.array(map(pickle.dumps, items), pa.binary())]
    # an Arrow table goes to Java as it is, where a list would start Python workers to be pickled once more
    rows = spark.createDataFrame(pa.Table.from_arrays(columns, names=["task", "given"]))
    rows = rows.coalesce(1) if len(items) == 1 else rows.repartitionById(len(items), "task")
    return over(rows, task, ddl)


def over(rows: DataFrame, task: Task, ddl: str | StructType) -> DataFrame:
    """The rows that a task makes of rows, where paths lead to what they are for the driver."""
    driver = _Driver.of_this_process()

    def run(batches: Batches) -> Batches:
        driver.use()
        yield from task(batches)

    return rows.mapInArrow(run, ddl)


def collect(made: DataFrame) -> list[Any]:
    """The values that tasks made, in the order of the tasks."""
    return [pickle.loads(row["made"]) for row in made.collect()]


def _each(function: Callable[[Any], Any]) -> Task:
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
