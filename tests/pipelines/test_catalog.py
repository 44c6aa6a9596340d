"""A table format that the session cannot write is known before anything is decoded."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dissectors.errors import BrokerscopeError
from pipelines.spark import catalog
from pipelines.spark.catalog import Catalog
from tests.commands import attempt


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Catalog("iceberg", "spark_catalog.here"), "Failed to find the data source: iceberg"),
        (Catalog("parquet", "here"), "does not support REPLACE TABLE"),
        (Catalog("iceberg", "lake.brokers"), "single-part namespace"),
    ],
)
def test_what_a_session_lacks_is_named_in_a_line(spark: Any, wanted: Catalog, why: str) -> None:
    with pytest.raises(BrokerscopeError, match=why) as raised:
        wanted.prepare(spark)
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"--table-format {wanted.format}: this session cannot write such tables to ")


def test_it_is_known_before_anything_is_decoded(spark: Any, samples: list[str], tmp_path: Path) -> None:
    words = ["analyze", *samples, "-o", str(tmp_path / "out"), "--table-format", "iceberg", "--namespace", "x.y"]
    done = attempt(*words)
    assert done.exit_code == 4
    assert "this session cannot write such tables to x.y" in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [0, 1, 25])
def test_a_table_comes_to_spark_whole_in_pieces(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(catalog, "_ROWS", 10)
    table = pa.table({"n": pa.array(range(rows), pa.int64()), "names": pa.array([["a"]] * rows, pa.list_(pa.string()))})
    (tmp_path / "t.parquet").mkdir()
    pq.write_table(table, tmp_path / "t.parquet" / "part-0.parquet", row_group_size=3)
    frames = list(catalog._frames(spark, tmp_path / "t.parquet"))
    assert [row["n"] for frame in frames for row in frame.collect()] == list(range(rows))
    assert {frame.schema.simpleString() for frame in frames} == {"struct<n:bigint,names:array<string>>"}
