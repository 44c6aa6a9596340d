"""The records that Spark makes are those of the local engine, however a capture is cut and shared out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dissectors
from dissectors import records
from dissectors.options import Options
from pipelines import decode
from pipelines.analyze import tls_secrets
from tests.pipelines.cutting import cut

TABLES = tuple(records.TABLES)
OPTIONS = Options(tables=TABLES, full=True, payloads=True)


def rows(table: pa.Table, name: str) -> list[str]:
    schema = records.schema(name, full=True, payloads=True)
    return sorted(map(repr, table.cast(schema).to_pylist()))


def local(paths: list[str]) -> dict[str, list[str]]:
    made = dissectors.dissect(paths, tables=TABLES, full=True, payloads=True)
    return {name: rows(table, name) for name, table in made.items()}


def on_spark(spark: Any, paths: list[str], partitions: int, **options: Any) -> dict[str, list[str]]:
    packets = spark.read.format("pcap").options(**options).load(paths)
    made = decode.decode(packets, OPTIONS, partitions, tls_secrets(spark, paths, OPTIONS)).cache()
    told = decode.names(made)
    out = {name: rows(decode.table(made, name, OPTIONS, told).toArrow(), name) for name in TABLES}
    made.unpersist()
    return out


@pytest.fixture(scope="module")
def expected(samples: list[str]) -> dict[str, list[str]]:
    return local(samples)


def test_the_samples_fill_every_table(expected: dict[str, list[str]]) -> None:
    assert {name: bool(made) for name, made in expected.items()} == dict.fromkeys(TABLES, True)


@pytest.mark.parametrize(("partitions", "split_bytes"), [(1, 1 << 30), (5, 20_000)])
def test_partitions_and_splits_change_nothing(
    spark: Any, samples: list[str], expected: dict[str, list[str]], partitions: int, split_bytes: int
) -> None:
    got = on_spark(spark, samples, partitions, splitBytes=split_bytes)
    for name in TABLES:
        assert got[name] == expected[name], name


def test_a_capture_cut_into_files_gives_the_same_rows(spark: Any, tmp_path: Path, samples: list[str]) -> None:
    whole = [Path(p) for p in samples if p.endswith(".pcap")][:4]
    files = [name for path in whole for name in cut(path, tmp_path, 4)]
    torn = tmp_path / "torn.pcap"
    torn.write_bytes(whole[0].read_bytes()[:-7])
    shutil.copy(__file__, tmp_path / "not-a-capture.pcap")
    files += [str(torn), str(tmp_path / "not-a-capture.pcap")]
    want, got = local(files), on_spark(spark, files, 3)
    for name in TABLES:
        assert got[name] == want[name], name
    kinds = {kind for kind in ("truncated_file", "unreadable_file") if any(kind in row for row in got["findings"])}
    assert kinds == {"truncated_file", "unreadable_file"}


def test_the_format_is_found_by_its_name_and_tells_packets(spark: Any, samples: list[str]) -> None:
    packets = spark.read.format("pcap").load(samples[0])
    first = packets.orderBy("packet").first()
    assert first["packet"] == 1
    assert first["note"] is None
    assert first["time_ns"] // 1000 == packets.selectExpr("min(unix_micros(time))").first()[0]
    assert packets.rdd.getNumPartitions() == 1
