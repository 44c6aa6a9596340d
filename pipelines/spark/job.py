"""Captures to records on Spark: OUT/records, and what the steps after it need to know of the run."""

from __future__ import annotations

import math
import platform
import posixpath
import re
import secrets as random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from dissectors.capture.source import file_size, open_raw
from dissectors.capture.split import Input, splits
from dissectors.errors import BrokerscopeError
from dissectors.limits import MIB, SPLIT_BYTES
from dissectors.options import Options
from dissectors.records import TABLES
from pipelines.spark import blocks, decode, names, package, session
from pipelines.spark import options as spark_options
from pipelines.spark.blocks import Keys, Sharing, Survey, Work
from pipelines.spark.decode import NAMES, OPEN, RECORDS, Decoding, DecodingPart, Job, Waiting
from pipelines.spark.surveys import Surveys, begun
from pipelines.spark.tables import SparkEngine
from pipelines.spark.tasks import MADE, collect, each, in_groups, over, settings, spread
from pipelines.storage import filesystem, outputs, scratch
from pipelines.storage.layout import ABOUT, LAKE_FOLDER, RECORD_FOLDER
from pipelines.storage.record_files import Written, has_many_sites, schemas, write_empty
from pipelines.storage.stored_records import StoredRecords
from pipelines.tables.compute import TableEngine
from pipelines.tables.on_duckdb import LocalEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.tables.table import Records

Mode = Literal["overwrite", "errorifexists"]

LIGHT = 4096 * MIB  # bytes of captures up to which the quick compiler is enough
BYTES_A_PART = 64 * MIB  # of captures, decoded by one task, at most; so many are not shared out
LEAST_BYTES = 16 * MIB  # that a task is worth
READ_ROUNDS, DECODE_ROUNDS = 4, 12
"""Tasks for each core, where the captures are large enough: the core that has done its last one does not wait long."""
UNKNOWN_CORES = 8  # of a session that does not say how many it has
TABLE_MEMORY = "512MB"  # that the driver takes for that; what is more goes to temporary files
FILES_A_TASK = 2000  # read by one task, at most
PARTITIONS = "spark.sql.shuffle.partitions"  # where it is set, the captures are shared out into so many parts
DEFAULT_PARTITIONS = "200"
HADOOP = frozenset({"s3a", "hdfs", "viewfs", "abfs", "abfss", "wasb", "wasbs", "gs"})
"""Schemes that Spark reads itself, where it has the connector; records elsewhere are read through fsspec."""
PROBE = "probe"  # a file by which driver and workers find out whether they share a place
PROBES = 8  # tasks that look for it
PLAIN = (".pcap", ".pcapng", ".cap", ".dmp")  # files that are hardly compressed
EXPANSION = 5  # times its bytes that a compressed one holds
REDUCED = 500_000  # names that every task may read; more are brought together first
ROWS_A_BATCH = 16  # of blocks, between Java and Python: they are some megabytes each


@dataclass(frozen=True)
class SparkRecords:
    """What the decoding of a capture set left behind."""

    spark: SparkSession
    folder: str  # path or URL of the records
    written: list[Written]  # the files in it
    files: list[str]  # captures that the records are of
    problems: list[tuple[str, str]]  # kind of finding, message: files that were not read whole
    options: Options  # as tasks get them
    secrets: list[bytes]  # TLS key logs that the user gave
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # file -> earliest and latest time, ns; if known

    @cached_property
    def records(self) -> Records:
        """The record tables, read from where they were written."""
        return read_records(self.spark, self.stored, self.options)

    @property
    def stored(self) -> StoredRecords:
        """Where the record tables are."""
        files: dict[str, list[str]] = {name: [] for name in self.options.tables}
        for file in self.written:
            files[file.table].append(file.path)
        return StoredRecords(self.folder, files, alone=filesystem.local_path(self.folder) is not None)

    @contextmanager
    def engine(self) -> Iterator[TableEngine]:
        """What computes tables of these records: this process where they are few, else Spark."""
        if sum(file.rows for file in self.written) > spark_options.of_session(self.spark.conf.getAll)["tableRows"]:
            store = posixpath.dirname(self.folder)
            exchange = (
                None if session.is_local(self.spark) else filesystem.join(store, f".staging-{random.token_hex(8)}")
            )
            try:
                with SparkEngine(self.spark, self.records, exchange) as engine:
                    yield engine
            finally:
                if exchange is not None:
                    filesystem.remove_folder(exchange)
        else:
            stored = self.stored
            sources = {name: stored.sources(name) for name in stored.files}
            with scratch.folder() as room, LocalEngine(self.folder, sources, room, memory=TABLE_MEMORY) as engine:
                yield engine


def start(files: Sequence[str], master: str | None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, else one that fits the size of the captures. conf: settings that the user asks for."""
    return session.start(master, light=sum(sizes(files)) <= LIGHT, conf=conf)


@contextmanager
def ahead(
    files: Sequence[str], master: str | None, conf: Mapping[str, str], options: Options
) -> Iterator[Surveys | None]:
    """Large captures are walked while a session starts on this machine; None where none is about to."""
    known = session.known(master, conf)
    threads = session.threads(master, known)
    if threads is None:
        yield None
        return
    weighed = dict(zip(files, sizes(files), strict=True))
    split_bytes = _split_bytes(known, sum(weighed.values()), threads)
    with begun([path for path, size in weighed.items() if size > split_bytes], split_bytes, options.limits) as surveys:
        yield surveys


def decode_to_records(
    spark: SparkSession,
    files: Sequence[str],
    out: str,
    options: Options,
    surveys: Surveys | None = None,
    *,
    mode: Mode = "overwrite",
) -> SparkRecords:
    """Write OUT/records/<table>/*.parquet, and nothing before all is decoded.

    files: as `capture.expand` gives them. out: a path, or a URL that fsspec opens for writing. mode: "overwrite"
    replaces the records there, on a local file system in one step; "errorifexists" refuses to. Raises InputError where
    none of the files can be read, and OutputError where OUT/records is there and may not be replaced: it holds
    captures, anything but record tables, or what `brokerscope analyze` made tables of or updates.
    """
    _refuse_to_replace(out, files, mode)
    keylog = read_keylog(options)
    options = replace(options, keylog=None)  # executors get what is in it, not its path
    out, name = filesystem.absolute(out), f".staging-{random.token_hex(8)}"
    staging = filesystem.join(out, name)
    try:
        check_workers(spark, staging)
        job, works = plan(spark, files, options, staging, keylog, surveys=surveys)
        job = replace(job, by_site=not has_many_sites(files, options.site))
        made: list[DecodingPart] = decoded(spark, job, works, decode.decode_part)
        written = [file for part in made for file in part.records] + resolve(spark, job, made)
        problems = blocks.checked([problem for part in made for problem in part.problems], len(files))
        written += write_empty(filesystem.join(staging, RECORDS), options, {file.table for file in written})
        filesystem.replace_folder(out, RECORD_FOLDER, filesystem.join(name, RECORDS), [file.path for file in written])
    finally:
        filesystem.remove_folder(staging)
    return SparkRecords(spark, filesystem.join(out, RECORD_FOLDER), written, list(files), problems, options, keylog)


def _refuse_to_replace(out: str, files: Sequence[str], mode: Mode) -> None:
    """Raise OutputError where OUT/records may not be replaced by records of these files."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode={mode!r} is none of {', '.join(get_args(Mode))}")
    folder = filesystem.join(out, RECORD_FOLDER)
    local = filesystem.local_path(folder)
    there = filesystem.folders(folder, "")
    foreign = [name for name in there if name not in TABLES]
    if foreign:
        raise outputs.OutputIsInputError(
            f"{folder} holds {foreign[0]!r}, which brokerscope did not write; choose another folder"
        )
    if there and mode == "errorifexists":
        raise outputs.OutputError(f"{folder}: is there already, and mode='errorifexists' does not replace it")
    made = [name for name in (ABOUT, LAKE_FOLDER) if name in filesystem.folders(out, name)]
    if made:
        raise outputs.OutputError(
            f"{out}: `brokerscope analyze` keeps these records (there is {made[0]}): name another"
        )
    if local is not None:
        outputs.refuse_inputs(local, files)


def check_workers(spark: SparkSession, staging: str) -> None:
    """Raises BrokerscopeError where workers have not got this package, or write where the driver cannot read."""
    if session.is_local(spark):
        return
    token = random.token_hex(16)
    filesystem.write(filesystem.join(staging, PROBE), token.encode())
    try:
        answers = collect(spread(spark, range(PROBES), each(partial(_answer, staging, token))))
    except Exception as error:  # Connect and the JVM have different ones
        lacking = re.search(r"No module named '(\w+)", str(error))
        if lacking is None:
            raise
        whole = "" if lacking[1] in package.PACKAGES else " --dependencies"
        raise BrokerscopeError(
            f"the workers lack {lacking[1]}: install it there, or `brokerscope package{whole} -o FILE.tar.gz` "
            "makes an archive that brings it to them"
        ) from error
    for host, sees, name in answers:
        if not sees or filesystem.read(filesystem.join(staging, name)) != token.encode():
            raise BrokerscopeError(
                f"{posixpath.dirname(staging)}: worker {host} does not share this place: OUT must be a folder that all "
                "machines mount, or a URL of an object store"
            )


def _answer(staging: str, token: str, number: int) -> tuple[str, bool, str]:
    """On a worker: (its name, whether it reads what the driver wrote, the file that it wrote)."""
    name = f"{PROBE}-{number}"
    sees = filesystem.read(filesystem.join(staging, PROBE)) == token.encode()
    filesystem.write(filesystem.join(staging, name), token.encode())
    return platform.node(), sees, name


def sizes(files: Sequence[str]) -> list[int]:
    """About how many bytes each is to read."""
    return filesystem.each(_weight, files)


def _weight(path: str) -> int:
    return file_size(path) * (1 if path.endswith(PLAIN) else EXPANSION)


def read_keylog(options: Options) -> list[bytes]:
    """The TLS key log that the user names."""
    if options.keylog is None:
        return []
    with open_raw(options.keylog) as file:
        return [file.read()]


# --- the plan --------------------------------------------------------------------------------------------------------


def plan(
    spark: SparkSession,
    files: Sequence[str],
    options: Options,
    staging: str,
    keylog: Sequence[bytes],
    *,
    chosen: Sequence[int] | None = None,
    only: Keys | None = None,
    surveys: Surveys | None = None,
) -> tuple[Job, list[Work]]:
    """How captures are shared out: what each task reads, and which connections each part holds.

    chosen: indices of the files to read; all where it is None. only: hashes of the connections to decode, sorted.
    """
    chosen = range(len(files)) if chosen is None else chosen
    shares = share_out(spark, [Input(i, files[i]) for i in chosen], options, surveys)
    part = _fair(shares.size, cores(spark), DECODE_ROUNDS, BYTES_A_PART)
    large = [key for key, weight in shares.weights.most_common() if weight > part] if shares.size > part else []
    rest = max(0, shares.size - sum(shares.weights[key] for key in large))
    sharing = Sharing(_parts(spark, rest, part), {key: i for i, key in enumerate(large)}, only)
    return Job(staging, options, tuple(files), sharing, tuple(keylog)), shares.works


def cores(spark: SparkSession) -> int:
    """Tasks that run at once, as far as the session knows."""
    with suppress(Exception):  # Connect has no such thing
        return max(1, spark.sparkContext.defaultParallelism)
    return UNKNOWN_CORES


def _split_bytes(settings: Mapping[str, str], total: int, cores: int) -> int:
    """Bytes that a task reads, about: what the user says, else so that all cores have some."""
    wanted: int | None = spark_options.of_session(settings)["splitBytes"]
    return wanted or _fair(total, cores, READ_ROUNDS, SPLIT_BYTES)


def _fair(total: int, cores: int, rounds: int, most: int) -> int:
    """Bytes for each task, so that every core gets `rounds` of them, or fewer where they would be too small."""
    return most if total <= BYTES_A_PART else min(most, max(LEAST_BYTES, math.ceil(total / (cores * rounds))))


class Shares(NamedTuple):
    """How the reading of captures is shared out."""

    works: list[Work]  # one a task
    size: int  # bytes to read, about
    weights: Counter[int]  # share of the connections -> about how many bytes of payload


def share_out(spark: SparkSession, files: Sequence[Input], options: Options, surveys: Surveys | None = None) -> Shares:
    """Share out these files to tasks. Large ones that `surveys` has not walked are walked by tasks first."""
    whole = sizes([file.path for file in files])
    weighed = [file.since.size if file.since else size for file, size in zip(files, whole, strict=True)]
    total = sum(weighed)
    split_bytes = surveys.split_bytes if surveys else _split_bytes(spark.conf.getAll, total, cores(spark))
    large = [file for file, size in zip(files, weighed, strict=True) if size > split_bytes]
    found: dict[Input, Survey | None] = {file: surveys.take(file.path) if surveys else None for file in large}
    rest = [file for file, survey in found.items() if survey is None]
    walked = collect(spread(spark, rest, decode.surveyor(options, split_bytes))) if rest else []
    found |= dict(zip(rest, walked, strict=True))
    weights: Counter[int] = Counter()
    pieces = []
    for file, size in zip(files, weighed, strict=True):
        survey = found.get(file)
        weights.update(survey.weights if survey else {})
        for split in splits(file.path, options.site, survey.parts if survey else [], file.since):
            pieces.append((split.part.size if split.part else size, (file.number, split)))
    return Shares(_packed(pieces, split_bytes), total, weights)


def _parts(spark: SparkSession, size: int, part: int) -> int:
    """Partitions for so many bytes, in parts of so many, unless the user set spark.sql.shuffle.partitions."""
    wanted = str(spark.conf.get(PARTITIONS, DEFAULT_PARTITIONS))
    return int(wanted) if wanted != DEFAULT_PARTITIONS else math.ceil(size / part) or 1


def _packed(pieces: Sequence[tuple[int, Any]], split_bytes: int) -> list[Work]:
    """Pieces, in order, as the work of tasks of about `split_bytes` each."""
    out: list[list[Any]] = []
    held = split_bytes
    for size, piece in pieces:
        if not out or held + size > split_bytes or len(out[-1]) >= FILES_A_TASK:
            out.append([])
            held = 0
        out[-1].append((size, piece))
        held += size
    return [Work(tuple(piece for _, piece in some), sum(size for size, _ in some)) for some in out]


# --- the jobs --------------------------------------------------------------------------------------------------------


def decoded(spark: SparkSession, job: Job, works: Sequence[Work], function: Decoding) -> list[Any]:
    """What a function makes of the packets of each part: cut, shuffle, decode."""
    small = len(works) == 1 and works[0].size <= BYTES_A_PART
    if small and (job.sharing.parts == 1 or job.reports):  # the number of a lake's parts says nothing of what is new
        made = collect(spread(spark, works, decode.single(job, function)))
    else:
        with settings(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_A_BATCH)}):
            cut = spread(spark, works, decode.cutter(job), blocks.DDL)
            parts = cut.repartitionById(job.sharing.parts, "part").sortWithinPartitions(*blocks.ORDER)
            made = collect(over(parts, decode.decoder(job, function), MADE))
    return [result for results in made for result in results]


def resolve(spark: SparkSession, job: Job, made: Sequence[DecodingPart]) -> list[Written]:
    """Put names into the records that wait for them."""
    staging, options = job.staging, job.options
    waiting = [Waiting(f.table, filesystem.join(staging, OPEN, f.path)) for part in made for f in part.open]
    if not waiting:
        return []
    paths = [filesystem.join(staging, NAMES, path) for part in made for path in part.names]
    if sum(part.changes for part in made) > REDUCED:
        paths = collect(spread(spark, range(names.BUCKETS), decode.reducer(staging, paths)))
    done = in_groups(
        spark, waiting, decode.RESOLVED_AT_ONCE, decode.resolver(staging, paths, options, by_site=job.by_site)
    )
    return [file for files in done for file in files]


def read_records(spark: SparkSession, stored: StoredRecords, options: Options) -> Records:
    """The record tables as DataFrames."""
    from pyspark.sql.pandas.types import from_arrow_schema

    tables = schemas(options)
    reader = spark.read.option("recursiveFileLookup", "true")

    def by_spark() -> Records:
        frames = {
            name: reader.schema(from_arrow_schema(schema)).parquet(*stored.sources(name))
            for name, schema in tables.items()
        }
        assert all(frame.columns for frame in frames.values())  # which looks for the files, in a Connect session too
        return frames

    if filesystem.local_path(stored.folder) is not None:
        return by_spark()
    if urlsplit(stored.folder).scheme in HADOOP:
        with suppress(Exception):  # no connector, or none that knows the credentials: each says so in its own way
            return by_spark()
    return {
        name: spread(spark, stored.sources(name), decode.reader(), from_arrow_schema(schema))
        for name, schema in tables.items()
    }
