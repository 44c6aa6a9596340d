"""The command `analyze`, and tables of hours that become tables of days."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.tables import TABLES, Ask
from tests.pipelines import synthetic
from tests.pipelines.conftest import Analysed


@pytest.mark.parametrize(("width", "micros"), [("500ms", 500_000), ("10s", 10_000_000), ("1.5 h", 5_400_000_000)])
def test_a_bucket_is_told_in_words(width: str, micros: int) -> None:
    from pipelines.cli.analyze import _micros

    assert _micros(width) == micros


def test_analyze_prints_tables_and_says_what_it_could_not_read(analysed: Analysed) -> None:
    out, foreign, done = analysed
    assert done.exit_code == 3, done.output
    assert "latency" in done.stdout
    assert done.stdout.rstrip().endswith(str(out / "report.html"))
    assert str(foreign) in done.stderr
    assert pq.read_table(out / "tables" / "latency.parquet").column_names[3] == "client"


@pytest.mark.parametrize("wrong", [["--by", "weather"], ["--bucket", "soon"], ["--bucket", "0s"]])
def test_wrong_usage_ends_before_spark_starts(samples: list[str], tmp_path: Path, wrong: list[str]) -> None:
    done = CliRunner().invoke(app, ["analyze", samples[0], "-o", str(tmp_path / "out"), *wrong])
    assert done.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_sketches_of_parts_merge_to_the_percentile_of_the_whole(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    whole = synthetic.make(exchanges=600)["exchanges"]
    for part in range(3):
        pq.write_table(whole.slice(part * 200, 200), tmp_path / f"hour-{part}.parquet")
        hour = spark.read.parquet(str(tmp_path / f"hour-{part}.parquet"))
        made = TABLES["latency"].build({"exchanges": hour}, Ask()).toArrow()
        pq.write_table(made, tmp_path / f"latency-{part}.parquet")
    hours = spark.read.parquet(str(tmp_path / "latency-*.parquet"))
    day = hours.where("api = 'SEND'").agg(F.kll_merge_agg_bigint("total_sketch").alias("sketch"))
    p90 = day.select(F.kll_sketch_get_quantile_bigint("sketch", F.lit(0.9)).alias("p90")).first()["p90"]
    totals = sorted(r["total_ns"] for r in whole.to_pylist() if r["api"] == "SEND" and r["total_ns"])
    assert p90 == totals[math.ceil(0.9 * len(totals)) - 1]
