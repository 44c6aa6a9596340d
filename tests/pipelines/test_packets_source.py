"""`spark.read.format("pcap")`: its options, its columns, and what it refuses."""

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException
from pyspark.sql.types import DataType, IntegerType, LongType, StructField, StructType

from dissectors.errors import InputError, UsageError
from pipelines.sources.packets import PcapDataSource


def test_a_path_that_does_not_exist_is_an_error_at_load(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"\[PATH_NOT_FOUND\] Path does not exist: .*/nowhere\.pcap"):
        spark.read.format("pcap").load(str(tmp_path / "nowhere.pcap"))


def test_a_schema_of_some_columns_reads_only_these(spark: Any, samples: list[str]) -> None:
    some = spark.read.format("pcap").schema("payload_bytes bigint, dst_port bigint").load(samples[0])
    whole = spark.read.format("pcap").load(samples[0]).select("payload_bytes", "dst_port")
    assert sorted(map(tuple, some.collect())) == sorted(map(tuple, whole.collect()))


def test_sql_has_views_and_a_table_is_refused_when_it_is_made(spark: Any, samples: list[str]) -> None:
    spark.sql(f"create or replace temporary view packets using pcap options (path '{samples[0]}', splitBytes '16m')")
    assert spark.sql("select count(*) as n from packets").first()["n"] > 0
    with pytest.raises(AnalysisException, match="a table does not keep its options"):
        spark.sql(f"create table packets_of_pcap using pcap options (path '{samples[0]}')")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "name the captures"),
        ({"pathglobfiltr": "*"}, "pathglobfiltr: there is no such option; did you mean pathGlobFilter?"),
        ({"splitbytes": "0"}, "splitBytes: '0' is less than 1"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], why: str, samples: list[str]) -> None:
    with pytest.raises(UsageError, match=why):
        PcapDataSource({"path": samples[0], **options} if options else {})


def test_relative_paths_are_those_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pcap").touch()
    monkeypatch.chdir(tmp_path)
    assert PcapDataSource({"path": "a.pcap"}).files == [str(tmp_path / "a.pcap")]
    with pytest.raises(InputError, match="PATH_NOT_FOUND"):
        PcapDataSource({"path": "b.pcap"})


@pytest.mark.parametrize(("name", "kind"), [("dst_port", IntegerType()), ("port", LongType())])
def test_a_column_of_another_type_or_name_is_refused(name: str, kind: DataType, samples: list[str]) -> None:
    with pytest.raises(UsageError, match=f"column {name} {kind.simpleString()}: pcap has"):
        PcapDataSource({"path": samples[0]}).reader(StructType([StructField(name, kind)]))


def test_the_payload_is_left_out_where_that_is_asked_for(spark: Any, samples: list[str]) -> None:
    some = spark.read.format("pcap").option("payload", "false").load(samples[0])
    assert "payload" not in some.columns
    assert some.count() == spark.read.format("pcap").load(samples[0]).count()


def test_a_damaged_file_is_a_note_or_an_error_as_asked_for(samples: list[str], tmp_path: Path) -> None:
    torn = tmp_path / "torn.pcap"
    torn.write_bytes(Path(samples[0]).read_bytes()[:-7])

    def notes(**options: str) -> list[str]:
        source = PcapDataSource({"path": str(tmp_path), **options})
        reader = source.reader(source.schema())
        batches = [cast(pa.RecordBatch, batch) for part in reader.partitions() for batch in reader.read(part)]
        return [note for batch in batches for note in batch.column("note").to_pylist() if note]

    (note,) = notes()
    assert note.startswith("truncated_file: ")
    assert notes(pathGlobFilter="*.pcapng") == []
    with pytest.raises(InputError, match=r"torn\.pcap"):
        notes(ignoreCorruptFiles="false")
