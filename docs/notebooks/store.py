# %% [markdown]
# # A capture store on Spark
#
# For platform engineers: captures as tables in a session that you have, as a stream, and as a store of records that
# other engines read. Run it cell by cell (VS Code, Jupyter with jupytext), or as a program from the folder of the
# repository: `python docs/notebooks/store.py`. It writes to a temporary folder only. Put your own captures in the place
# of `samples/`.

# %%
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
from pyspark.sql import functions as f

from brokerscope import spark as captures

spark = captures.session()  # the running session, else one with a Java of its own
captures.register(spark)  # says what to set where the session's Python lacks brokerscope
room = Path(tempfile.mkdtemp(prefix="brokerscope-notebook-"))

# %% [markdown]
# ## Captures as tables
#
# Nothing is written first. Each record table, each aggregate table and `verdicts` is a DataFrame; columns carry their
# meaning as comments.

# %%
cap = captures.read(spark, "samples/", protocols=["kafka"])
cap.exchanges.groupBy("api").agg(f.count("*").alias("requests"), f.max("total_ns").alias("slowest_ns")).show(5)
cap.verdicts.select("severity", "sentence").show(5, truncate=60)
exchanges = cap.exchanges.count()

# %% [markdown]
# The same in Spark's own words, and in SQL:

# %%
(
    spark.read.format("brokerscope")
    .option("table", "latency")
    .option("protocols", "kafka")
    .load("samples/")
    .createOrReplaceTempView("latency")
)
spark.sql("select api, sum(`count`) as requests from latency group by api order by requests desc").show(5)

# %% [markdown]
# ## A stream
#
# Offsets are files, and how many bytes of each count. A checkpoint goes on where it was left, also after `kill -9`.

# %%
inbox, landed = room / "inbox", room / "landed"
inbox.mkdir()
arriving = sorted(Path("samples").glob("kafka-*.pcap"))


def take_what_is_there() -> int:
    """Run the stream over what has come; returns how many rows there are then."""
    rows = spark.readStream.format("brokerscope").option("table", "exchanges").option("site", "file").load(str(inbox))
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(landed))
        .option("checkpointLocation", str(room / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.parquet(str(landed)).count()


shutil.copy(arriving[0], inbox)
first = take_what_is_there()
shutil.copy(arriving[1], inbox)
both = take_what_is_there()
print(first, "rows, then", both)
assert 0 < first < both

# %% [markdown]
# ## A store of records
#
# `analyze --update` decodes what is new and commits it. A scheduler runs it every hour: it retries on exit code 4, and
# on no other (docs/platform.md).

# %%
store = room / "lake"


def brokerscope(*arguments: str) -> str:
    """Run a command; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "brokerscope", *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


for path in arriving[:2]:
    brokerscope("analyze", str(path), "-o", str(store), "--update", "--records-only", "--quiet")
print(sorted(path.name for path in (store / "records").iterdir()))

# %% [markdown]
# Any engine reads it: a folder of Parquet files for each table. Who reads several tables resolves the link first, and
# so holds one commit while the next is made.

# %%
records = os.path.realpath(store / "records")
by_spark = spark.read.parquet(f"{records}/exchanges")
by_spark.groupBy("site", "date", "api").count().orderBy("api").show(5)
by_duckdb = duckdb.sql(f"select count(*) from '{records}/exchanges/*.parquet'").fetchall()
assert by_duckdb == [(by_spark.count(),)]

# %% [markdown]
# What is old goes, and small files become larger ones; each is one commit.

# %%
print(brokerscope("compact", str(store), "--dry-run"))
print(brokerscope("expire", str(store), "--before", "2020-01-01"))
assert spark.read.parquet(f"{store}/records/exchanges").count() == by_spark.count()

# %%
shutil.rmtree(room)
