"""The job behind `brokerscope analyze`: captures to records, tables and the page, on Spark."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dissectors.capture import expand
from dissectors.capture.source import STDIN, open_raw
from dissectors.errors import InputError
from dissectors.options import Options
from pipelines import report
from pipelines.report.load import ABOUT, CASES_FILE, TABLE_FOLDER
from pipelines.secrets import carries_secrets, secrets_in
from pipelines.tables.integrity import CASE_DDL, CASE_KEYS, CASES, case_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.tables.table import Ask, Records, Table

RECORD_FOLDER = "records"
AT_ONCE = 4  # tables computed at the same time: each is a small job with pauses of its own
LIGHT = 256 << 20  # bytes of captures up to which a run is short
BYTES_A_TASK = 256 << 20  # of captures, in one task of the decoding
WIDTHS_US = tuple(int(s * 1_000_000) for s in (0.1, 1, 10, 60, 300, 900, 3600, 6 * 3600, 86400))
BUCKETS = 120  # time buckets with anything in them that a table should have, at most, if nobody says otherwise


@dataclass
class Outcome:
    """What a run made."""

    tables: dict[str, pa.Table]
    page: Path
    files: list[str]
    problems: list[tuple[str, str]] = field(default_factory=list)  # kind of finding, message
    bucket_us: int = 0


def analyze(
    paths: Sequence[str],
    out: Path,
    options: Options,
    *,
    by: Sequence[str] = (),
    bucket_us: int | None = None,
    master: str | None = None,
    tell: Callable[[str], None] = lambda stage: None,
) -> Outcome:
    """Read captures, write OUT/records, OUT/tables, OUT/forensics.jsonl and OUT/report.html.

    bucket_us: width of a time bucket; None chooses one that fits the captures. Raises InputError where nothing can be
    read.
    """
    from pyspark.storagelevel import StorageLevel

    from pipelines import decode, forensics, session
    from pipelines.tables import TABLES, Ask

    files = expand(paths)
    tell("starting Spark")
    spark = session.start(master, light=_size(files) <= LIGHT)
    tell("decoding")
    wanted = {"site": options.site, "limits": json.dumps(asdict(options.limits))}
    packets = spark.read.format("pcap").options(**wanted).load(files)
    secrets = tls_secrets(spark, files, options)
    options = replace(options, keylog=None)  # executors get what is in it, not its path
    made = decode.decode(packets, options, _partitions(spark, files), secrets).persist(StorageLevel.DISK_ONLY)
    try:
        told = decode.names(made)
        tell("writing records")
        records = _each(
            {name: partial(_write, decode.table(made, name, options, told), out, name) for name in options.tables}
        )
    finally:
        made.unpersist()
    problems = _problems(records["findings"])
    if len([kind for kind, _ in problems if kind == "unreadable_file"]) == len(files):
        raise InputError("; ".join(message for _, message in problems))
    tell("looking into bad checksums")
    cases = forensics.cases(spark, files, options, secrets, records)
    (out / CASES_FILE).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    records[CASES] = _case_rows(spark, cases)
    tell("computing tables")
    ask = Ask(tuple(by), bucket_us or choose_bucket(records["exchanges"]))
    tables = _each({name: partial(_compute, table, records, ask) for name, table in TABLES.items()})
    for name, rows in tables.items():
        _save(rows, out / TABLE_FOLDER / name)
    tell("writing the report")
    _describe(out, files, problems, ask.by, ask.bucket_us)
    return Outcome(tables, report.write(out), files, problems, ask.bucket_us)


def choose_bucket(exchanges: DataFrame) -> int:
    """Width in µs of time buckets, so that those with anything in them are at most BUCKETS."""
    from pyspark.sql import functions as F

    counts = [F.count_distinct(F.floor(F.unix_micros("time") / width)) for width in WIDTHS_US]
    for width, count in zip(WIDTHS_US, exchanges.agg(*counts).first() or (), strict=True):
        if count <= BUCKETS:
            return width
    return WIDTHS_US[-1]


def tls_secrets(spark: SparkSession, files: Sequence[str], options: Options) -> list[bytes]:
    """Key logs: the one that the user names, and those that pcapng files carry (anywhere in them, so all are read)."""
    told = []
    if options.keylog is not None:
        with open_raw(options.keylog) as file:
            told.append(file.read())
    carriers = [path for path in files if path != STDIN and carries_secrets(path)]
    if carriers:
        found = spark.sparkContext.parallelize(carriers, len(carriers)).flatMap(secrets_in)
        told += sorted(set(found.collect()))
    return told


def _partitions(spark: SparkSession, files: Sequence[str]) -> int:
    """Tasks for the decoding: as many as the session shuffles with, more where there is much to decode."""
    return max(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), math.ceil(_size(files) / BYTES_A_TASK))


def _size(files: Sequence[str]) -> int:
    """Bytes of the local ones."""
    return sum(Path(file).stat().st_size for file in files if Path(file).is_file())


def _each(jobs: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Run jobs side by side; the first failure is raised."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {name: pool.submit(job) for name, job in jobs.items()}
        return {name: future.result() for name, future in running.items()}


def _write(table: DataFrame, out: Path, name: str) -> DataFrame:
    """Write records of one table, and read them back."""
    folder = str(out / RECORD_FOLDER / name)
    table.write.mode("overwrite").parquet(folder)
    return table.sparkSession.read.schema(table.schema).parquet(folder)


def _compute(table: Table, records: Records, ask: Ask) -> pa.Table:
    return table.build(records, ask).toArrow()


def _save(table: pa.Table, path: Path) -> None:
    """An aggregate table as Parquet and CSV; sketches are for Parquet only."""
    import pyarrow.parquet as pq

    from pipelines.formats.csv import CsvWriter

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path.with_suffix(".parquet"), compression="zstd")
    flat = table.drop_columns([name for name in table.column_names if name.endswith("_sketch")])
    with path.with_suffix(".csv").open("wb") as stream:
        writer = CsvWriter(flat.schema, stream)
        for batch in flat.to_batches():
            writer.write(batch)
        writer.close()


def _problems(findings: DataFrame) -> list[tuple[str, str]]:
    """Files that were not read whole."""
    rows = findings.where("kind in ('unreadable_file', 'truncated_file')").select("kind", "message").collect()
    return sorted((row["kind"], row["message"]) for row in rows)


def _case_rows(spark: SparkSession, cases: Sequence[dict[str, Any]]) -> DataFrame:
    """The cases as a table; of a batch with several bad checksums the first."""
    rows = {tuple(case[key] for key in CASE_KEYS): case_row(case) for case in reversed(cases)}
    return spark.createDataFrame(list(rows.values()), CASE_DDL)


def _describe(
    out: Path, files: Sequence[str], problems: Sequence[tuple[str, str]], by: Sequence[str], bucket_us: int
) -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        ours = version("brokerscope")
    except PackageNotFoundError:
        ours = ""
    about = {
        "version": ours,
        "files": list(files),
        "problems": [message for _, message in problems],
        "by": list(by),
        "bucket_us": bucket_us,
    }
    (out / ABOUT).write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
