"""`python -m tests.cluster.killed_stream CAPTURES OUT CHECKPOINT [--to-the-end]`: a stream of exchanges into Parquet.

It runs until it is killed, a file of captures each micro-batch; with --to-the-end until all that is there was taken.
"""

from __future__ import annotations

import sys

from pipelines.spark import session


def main() -> None:
    """Run the stream."""
    captures, out, checkpoint, *more = sys.argv[1:]
    spark = session.start("local[2]", light=True)
    rows = spark.readStream.format("brokerscope").option("table", "exchanges").option("maxFilesPerTrigger", 1)
    writer = (
        rows.load(captures)
        .writeStream.format("parquet")
        .option("path", out)
        .option("checkpointLocation", checkpoint)
        .trigger(**({"availableNow": True} if more else {"processingTime": "0 seconds"}))
    )
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
