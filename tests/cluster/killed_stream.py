"""`python -m tests.cluster.killed_stream CAPTURES OUT CHECKPOINT [--merged] [--to-the-end]`: a stream of exchanges.

It runs until it is killed, a file of captures each micro-batch; with --to-the-end until all that is there was taken. It
writes Parquet as Spark's file sink does; with --merged a folder for each micro-batch, `batch=NUMBER`, as what is to be
merged into a table.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame

from pipelines.spark import session


def main() -> None:
    """Run the stream."""
    captures, out, checkpoint, *more = sys.argv[1:]
    spark = session.start("local[2]", light=True)
    rows = spark.readStream.format("brokerscope").option("table", "exchanges").option("maxFilesPerTrigger", 1)
    writer = rows.load(captures).writeStream.option("checkpointLocation", checkpoint)
    if "--merged" in more:

        def keep(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").parquet(f"{out}/batch={number}")

        writer = writer.foreachBatch(keep)
    else:
        writer = writer.format("parquet").option("path", out)
    writer = writer.trigger(**({"availableNow": True} if "--to-the-end" in more else {"processingTime": "0 seconds"}))
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
