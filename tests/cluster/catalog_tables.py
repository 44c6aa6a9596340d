"""`python -m tests.cluster.catalog_tables NAMESPACE FOLDER analyze …`: a run, twice, and what its catalog has then.

FOLDER gets the rows of each table of NAMESPACE as Spark reads them, named as in OUT: records/exchanges, tables/latency.
"""

import sys

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from pipelines.cli import app


def main() -> None:
    """Run, and read."""
    namespace, folder, *words = sys.argv[1:]
    for _ in range(2):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    spark = SparkSession.getActiveSession()
    assert spark is not None
    for row in spark.sql(f"show tables in {namespace}").collect():
        place = row["tableName"].replace("_", "/", 1)
        spark.table(f"{namespace}.{row['tableName']}").coalesce(1).write.parquet(f"{folder}/{place}")


if __name__ == "__main__":
    main()
