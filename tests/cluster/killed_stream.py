"""`python -m tests.cluster.killed_stream CAPTURES OUT CHECKPOINT [OPTION…]`: a stream of exchanges.

It runs until it is killed, a file of captures each micro-batch; with --to-the-end until all that is there was taken.
Where it merges, it prints the number of each micro-batch once its offset is written and before it is taken. It
writes Parquet as Spark's file sink does; with --merged a folder for each micro-batch, `batch=NUMBER`, as what is to be
merged into a table; with --by-merge as docs/spark-tables.md says, into a table of Delta, OUT/table, whose rows then go
to OUT/merged.parquet.
"""

import re
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from pipelines.spark import session

DOCS = Path(__file__).parents[2] / "docs" / "spark-tables.md"
MERGED = "/warehouse/exchanges"  # in the example


def documented_merge() -> str:
    """The example of a MERGE in the documentation, up to where the stream is written."""
    (example,) = re.findall(r"```python norun\n(.*?merge into.*?)^rows\.writeStream", DOCS.read_text(), re.M | re.S)
    return str(example)


def announced(take: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """What takes a micro-batch, and prints its number before."""

    def run(batch: DataFrame, number: int) -> None:
        print(number, flush=True)
        take(batch, number)

    return run


def main() -> None:
    """Run the stream."""
    parser = ArgumentParser()
    for name in ("captures", "out", "checkpoint"):
        parser.add_argument(name)
    for name in ("--merged", "--by-merge", "--to-the-end"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--conf", action="append", default=[])
    asked = parser.parse_args()
    spark = session.start("local[2]", light=True, conf=dict(word.split("=", 1) for word in asked.conf))
    reader = spark.readStream.format("brokerscope").option("table", "exchanges").option("maxFilesPerTrigger", 1)
    rows = reader.option("checkpointLocation", asked.checkpoint).load(asked.captures)
    writer = rows.writeStream.option("checkpointLocation", asked.checkpoint)
    if asked.by_merge:
        names: dict[str, Any] = {"spark": spark, "rows": rows}
        exec(documented_merge().replace(MERGED, f"{asked.out}/table"), names)
        writer = writer.foreachBatch(announced(names["keep_last"]))
    elif asked.merged:

        def keep(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").parquet(f"{asked.out}/batch={number}")

        writer = writer.foreachBatch(announced(keep))
    else:
        writer = writer.format("parquet").option("path", asked.out)
    trigger: dict[str, Any] = {"availableNow": True} if asked.to_the_end else {"processingTime": "0 seconds"}
    writer.trigger(**trigger).start().awaitTermination()
    if asked.by_merge:
        merged = spark.read.format("delta").load(f"{asked.out}/table").toArrow()
        pq.write_table(merged, f"{asked.out}/merged.parquet")


if __name__ == "__main__":
    main()
