"""`spark.read.format("brokerscope")`: its rows are those of `dissect`, and what it refuses it names.

Most tests use the source as Spark's workers do, without a session: partitions go through a pickle.
"""

import json
import os
import pickle
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

import brokerscope
from dissectors import records
from dissectors.errors import InputError, UsageError
from dissectors.run import Run
from pipelines.sources import names, parts
from pipelines.sources.columns import columns, names_of_tables
from pipelines.sources.decoded import BrokerscopeDataSource
from pipelines.tables.registry import TABLES

SAMPLES = Path(__file__).parents[2] / "samples"
KAFKA = [str(SAMPLES / f"kafka-{name}.pcap") for name in ("refused", "transactions", "codecs")]
REFUSED = KAFKA[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", (SAMPLES.parent / "docs" / "spark-tables.md").read_text(), re.S)


def table(paths: Sequence[str], kinds: Mapping[str, str] | None = None, /, **options: str) -> pa.Table:
    """A table, as Spark's workers make it of paths. kinds: the columns of a schema that is given, and their types."""
    source = BrokerscopeDataSource({"paths": json.dumps(list(paths)), **options})
    wanted = source.schema()
    if kinds is not None:
        wanted = StructType()
        for name, kind in kinds.items():
            wanted = wanted.add(name, kind)
    reader = source.reader(wanted)
    batches = [
        batch
        for partition in pickle.loads(pickle.dumps(reader.partitions()))
        for batch in cast(Iterator[pa.RecordBatch], pickle.loads(pickle.dumps(reader)).read(partition))
    ]
    return pa.Table.from_batches(batches, reader._schema)  # type: ignore[attr-defined]


def counted(rows: pa.Table) -> Counter[str]:
    """How often each row is there, whatever the order of rows and the kinds of columns."""
    return Counter(map(repr, rows.to_pylist()))


@pytest.fixture(autouse=True)
def own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are kept for other tasks are kept for this test alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.parametrize("asked", ["", "1", "5"])
@pytest.mark.parametrize("site", ["folder", "file"])
def test_rows_are_those_of_dissect_however_many_tasks_there_are(
    asked: str, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_TOGETHER", 100_000)  # so that capture points are shared out
    options = {"site": site, **({"parts": asked} if asked else {})}
    for name, rows in brokerscope.dissect(KAFKA, tuple(records.TABLES), site=site).items():
        assert counted(table(KAFKA, None, table=name, **options)) == counted(rows)


def test_names_that_only_another_task_knows_are_decoded_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    monkeypatch.setattr(names._NamesRun, "records", lambda self: runs.append(1) or Run.records(self))  # type: ignore[func-returns-value]
    rows = brokerscope.dissect(KAFKA, ("batches",))["batches"]
    assert counted(table(KAFKA, table="batches", parts="40")) == counted(rows)
    assert len(runs) == 1
    alone = table(KAFKA, table="batches", parts="40", names="site")
    assert len(runs) == 1
    assert alone.num_rows == rows.num_rows
    assert set(alone["topic"].to_pylist()) - set(rows["topic"].to_pylist())  # ids that have no name there


def test_a_folder_of_names_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / f"brokerscope-names-{os.geteuid()}"
    folder.mkdir(mode=0o755)
    assert names._folder() is None
    assert counted(table(KAFKA, table="batches", parts="2")) == counted(
        brokerscope.dissect(KAFKA, "batches")["batches"]
    )
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["latency", "t_errors", "verdicts", "corrupt", "throughput"])
def test_tables_of_all_records_are_those_of_analyze(name: str, samples: list[str], analysed: Any) -> None:
    import pyarrow.parquet as pq

    by = {"by": "client"} if name == "latency" else {}
    made = table([*samples, str(analysed.foreign)], None, table=name, bucket="1s", **by)
    known = pq.read_table(analysed.out / "tables" / f"{name.removeprefix('t_')}.parquet")
    assert made.num_rows
    assert counted(made) == counted(known.select(made.column_names))


def test_every_table_of_the_documents_is_there_and_every_column_has_its_comment() -> None:
    assert {name.removeprefix("t_") for name in names_of_tables()} == {*records.TABLES, *TABLES}
    for name in names_of_tables():
        for field in columns(name, full=True, payloads=True):
            assert field.metadata["comment"], (name, field.name)
    first = columns("exchanges").fields[0]
    assert first.metadata["comment"] == records.columns("exchanges")[0].doc


def test_options_select_the_rows_that_the_command_line_selects() -> None:
    rows = brokerscope.open(KAFKA).exchanges
    time = rows.arrow()["time"][50].as_py().isoformat()
    assert counted(table(KAFKA, since=time)) == counted(rows.where(since=time).arrow())
    assert counted(table(KAFKA, until=time)) == counted(rows.where(until=time).arrow())
    assert counted(table(KAFKA, topics="err-*")) == counted(rows.where(topic="err-*").arrow())
    assert table(KAFKA, protocols="pulsar").num_rows == 0
    assert table(KAFKA, sites="nowhere").num_rows == 0
    port = rows.arrow()["client_port"][0].as_py()
    assert counted(table(KAFKA, ports=f"{port},1")) == counted(rows.where(client_port=port).arrow())
    server = rows.arrow()["server_ip"][0].as_py()
    assert counted(table(KAFKA, hosts=server)) == counted(rows.where(f"'{server}' in (client_ip, server_ip)").arrow())
    assert counted(table(KAFKA, hosts="0.0.0.0/0,::/0")) == counted(rows.arrow())
    assert table(KAFKA, hosts="203.0.113.0/24").num_rows == 0


def test_connections_and_findings_of_a_topic_are_those_that_name_it() -> None:
    found = table(KAFKA, table="connections", topics="err-*")
    naming = brokerscope.open(KAFKA).exchanges.where(topic="err-*").arrow()
    assert set(found["connection"].to_pylist()) >= set(naming["connection"].to_pylist())
    assert 0 < found.num_rows < brokerscope.open(KAFKA).connections.arrow().num_rows


def test_a_schema_makes_its_columns_only() -> None:
    rows = table([REFUSED], {"total_ns": "long", "api": "string"})
    assert rows.column_names == ["total_ns", "api"]
    with pytest.raises(UsageError, match=r"column api int: brokerscope has string"):
        table([REFUSED], {"api": "integer"})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tabel": "exchanges"}, "tabel: there is no such option; did you mean table?"),
        ({"table": "exchange"}, "no such table: exchange; did you mean exchanges?"),
        ({"mode": "FAILFAST"}, "mode: there is no such option"),
        ({"since": "soon"}, "since: 'soon' is not a time"),
        ({"hosts": "localhost"}, "hosts: 'localhost' does not appear to be"),
        ({"ports": "70000"}, "ports: 70000 is no TCP port"),
        ({"bucket": "1"}, "bucket: '1' is no width of time"),
        ({"full": "yes"}, "full: 'yes' is neither true nor false"),
        ({"parts": "0"}, "parts: '0' is less than 1"),
        ({"maxFilesPerTrigger": "1"}, "maxFilesPerTrigger: is an option of streams"),
        ({"table": "latency", "by": "colour"}, "by: 'colour' is none of"),
    ],
)
def test_what_means_nothing_is_refused_by_name(options: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        table([REFUSED], None, **options)


def test_a_path_that_is_missing_is_named_or_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.pcap")
    with pytest.raises(InputError, match=r"\[PATH_NOT_FOUND\] Path does not exist: .*gone\.pcap"):
        table([REFUSED, gone])
    assert table([REFUSED, gone], ignoreMissingFiles="true").num_rows == table([REFUSED]).num_rows
    assert table([gone], ignoreMissingFiles="true").num_rows == 0
    assert table([gone], ignoreMissingFiles="true", table="verdicts").num_rows == 0


def test_sparks_options_for_files_mean_what_they_mean(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    shutil.copy(REFUSED, tmp_path / "old.pcap")
    shutil.copy(REFUSED, tmp_path / "deep" / "new.pcap")
    os.utime(tmp_path / "old.pcap", (1_600_000_000, 1_600_000_000))

    def files(**options: str) -> set[str]:
        return {Path(name).name for name in table([str(tmp_path)], None, **options)["request_file"].to_pylist()}

    assert files() == {"old.pcap", "new.pcap"}
    assert files(pathGlobFilter="n*.pcap") == {"new.pcap"}
    assert files(recursiveFileLookup="false") == {"old.pcap"}
    assert files(modifiedBefore="2020-09-14T00:00:00") == {"old.pcap"}
    assert files(modifiedAfter="2020-09-14T00:00:00") == {"new.pcap"}


def test_a_damaged_file_is_a_finding_or_an_error_as_asked_for(tmp_path: Path) -> None:
    torn = tmp_path / "torn.pcap"
    torn.write_bytes(Path(REFUSED).read_bytes()[:-7])
    foreign = tmp_path / "foreign.pcap"
    foreign.write_bytes(b"nothing of the sort")
    found = table([str(tmp_path)], table="findings", parts="2")
    assert sorted(kind for kind in found["kind"].to_pylist() if kind in ("truncated_file", "unreadable_file")) == [
        "truncated_file",
        "unreadable_file",
    ]
    for name in ("findings", "t_findings"):
        with pytest.raises(InputError, match=r"torn\.pcap|foreign\.pcap"):
            table([str(tmp_path)], table=name, ignoreCorruptFiles="false")


def test_captures_with_secrets_are_read_by_every_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    shutil.copy(SAMPLES / "kafka-tls.pcapng", tmp_path / "a")
    shutil.copy(REFUSED, tmp_path / "b")
    monkeypatch.setattr(parts, "_TOGETHER", 1)
    assert parts._has_secrets(str(tmp_path / "a" / "kafka-tls.pcapng"))
    rows = brokerscope.dissect([str(tmp_path)], "exchanges")["exchanges"]
    assert counted(table([str(tmp_path)], parts="2")) == counted(rows)


def test_values_of_python_become_options_as_spark_has_them() -> None:
    from brokerscope.spark import as_text

    assert [as_text(value) for value in (True, ["a", 1], {9092: "kafka"}, "x")] == ["true", "a,1", "9092=kafka", "x"]


# --- in a session ----------------------------------------------------------------------------------------------------


def test_a_session_reads_the_tables_of_captures(spark: Any) -> None:
    from brokerscope import spark as captures

    cap = captures.read(spark, KAFKA, topics=["err-*"], recursiveFileLookup=True)
    known = brokerscope.open(KAFKA).exchanges.where(topic="err-*").arrow()
    assert counted(cap.exchanges.toArrow()) == counted(known)
    assert cap.exchanges.schema["api"].metadata["comment"]
    assert "latency" in dir(cap)
    with pytest.raises(AttributeError, match="no table 'exchange'"):
        _ = cap.exchange
    spark.sql(f"create or replace temporary view x using brokerscope options (table 'verdicts', path '{REFUSED}')")
    assert "sentence" in spark.table("x").columns


def test_captures_in_a_column_are_decoded_each_by_itself(spark: Any) -> None:
    from brokerscope import spark as captures

    frame = spark.createDataFrame(
        [("s3://b/x/one.pcap", Path(REFUSED).read_bytes()), ("two", b"no capture"), ("three", None)],
        "path string, content binary",
    )
    rows = captures.decode(frame, "exchanges").toArrow()
    assert rows.num_rows == brokerscope.dissect(REFUSED, "exchanges")["exchanges"].num_rows
    assert set(rows["request_file"].to_pylist()) == {"s3://b/x/one.pcap"}
    assert set(rows["site"].to_pylist()) == {"s3://b/x"}
    (found,) = captures.decode(frame, "findings").where("kind = 'unreadable_file'").collect()
    assert found["message"] == "two: is not a pcap or pcapng capture"
    with pytest.raises(UsageError, match="each by itself"):
        captures.decode(frame, "latency")


def test_every_example_of_the_documents_runs(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    assert len(EXAMPLES) > 5
    shared: dict[str, Any] = {}
    for number, text in enumerate(EXAMPLES, 1):
        exec(compile(text, f"docs/spark-tables.md, example {number}", "exec"), shared)
