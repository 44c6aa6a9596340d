"""Forensics over an archive: the verdicts of `brokerscope forensics`, from records on Spark.

    records ─ bad batches? ─ none: nothing more is read
                           └ some: their connections are decoded again, and only these, for the suspect bytes
                                   the files of their capture points are searched for the packets that carried them
                                   each case is looked into, as the local command does, and becomes its JSON object

Every step is a Spark job; what comes to the driver is bounded by `LISTED` rows and the limits `suspects` and
`suspect_bytes`.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dissectors.capture.files import site_of
from dissectors.forensics import Case, report
from dissectors.forensics.cases import examine
from dissectors.forensics.investigation import paired
from dissectors.forensics.packets import Carriers, Wanted, gather_file, joined
from dissectors.forensics.related import ANSWERED, IDENTITIES, REACTION, RELATED, SIGHTING, Relations, Surroundings
from dissectors.options import Options
from dissectors.records import PLACE_MASK, PLACE_SHIFT
from dissectors.sink import Suspect
from pipelines import decode
from pipelines.tables.integrity import LISTED
from pipelines.tables.table import Records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]


def cases(
    spark: SparkSession, files: Sequence[str], options: Options, secrets: Sequence[bytes], records: Records
) -> list[Row]:
    """One JSON object a bad checksum, as `brokerscope forensics --format json` writes them, in order of time.

    secrets: TLS key logs. Of more than LISTED bad batches, the first are told.
    """
    bad = _bad(records["batches"])
    if not bad:
        return []
    pairs = paired(bad, _suspects(spark, files, options, secrets, bad))
    around = _surroundings(records, bad)
    near = [around.of(row) if suspect else Relations() for row, suspect in pairs]
    wanted = [Wanted(s, r.witnesses) for (_, s), r in zip(pairs, near, strict=True) if s is not None]
    found = iter(_gather(spark, files, options, wanted))
    work = [(row, suspect, next(found) if suspect else None, r) for (row, suspect), r in zip(pairs, near, strict=True)]
    return _spread(spark, work, _examiner(files))


def _bad(batches: DataFrame) -> list[Row]:
    from pyspark.sql import functions as F

    order = ("time", "file", "packet", "stream_offset")
    rows: list[Row] = batches.where(F.col("verdict") == "bad").orderBy(*order).limit(LISTED).toArrow().to_pylist()
    return rows


def _surroundings(records: Records, bad: Sequence[Row]) -> Surroundings:
    """The sightings and answers that may belong to one of these rows."""
    from pyspark.sql import functions as F

    batches, schema = records["batches"], records["batches"].schema
    parts = []
    for _, keys in IDENTITIES:
        values = list({tuple(row[key] for key in keys): None for row in bad if all(row[k] is not None for k in keys)})
        if values:
            known = batches.sparkSession.createDataFrame(values, _fields(schema, keys))
            parts.append(batches.join(F.broadcast(known), list(keys), "left_semi").select(*SIGHTING))
    sightings = None
    for part in parts:
        sightings = part if sightings is None else sightings.unionAll(part)
    errors = records["errors"].where(F.col("name").rlike(f"(?i){REACTION}"))
    told = {tuple(row[key] for key in ANSWERED) for row in bad}
    return Surroundings(
        None if sightings is None else sightings.distinct().limit(RELATED * LISTED).toArrow(),
        [row for row in errors.limit(LISTED).toArrow().to_pylist() if tuple(row[k] for k in ANSWERED) in told],
    ).ordered()


def _fields(schema: Any, keys: Sequence[str]) -> Any:
    from pyspark.sql.types import StructType

    return StructType([schema[key] for key in keys])


# --- the suspect bytes -----------------------------------------------------------------------------------------------


def _suspects(
    spark: SparkSession, files: Sequence[str], options: Options, secrets: Sequence[bytes], bad: Sequence[Row]
) -> list[Suspect]:
    """What the bad rows were made from: their connections, decoded once more."""
    from pyspark.sql import functions as F

    sites = {row["site"] for row in bad}
    paths = [path for path in files if site_of(path, options.site) in sites]
    given = {"site": options.site, "limits": json.dumps(asdict(options.limits))}
    packets = spark.read.format("pcap").options(**given).load(paths)
    known = spark.createDataFrame(sorted({(row["site"], _flow(row)) for row in bad}), "site string, flow string")
    concerned = packets.join(F.broadcast(known), ["site", "flow"], "left_semi").select(*packets.columns)
    shuffled = decode.in_order(concerned.repartition("site", "flow"))
    index = {path: number for number, path in enumerate(files)}
    out: list[Suspect] = []
    for told in shuffled.mapInArrow(_decoder(options, tuple(secrets)), "suspects binary").toLocalIterator():
        names, found = pickle.loads(told["suspects"])
        out += [_placed(suspect, [index[name] for name in names]) for suspect in found]
    return _bounded(sorted(out, key=lambda s: (s.pieces[0][2], s.pieces[0][1], s.offset)), options)


def _decoder(options: Options, secrets: Sequence[bytes]) -> Callable[[decode.Batches], decode.Batches]:
    options = replace(options, tables=("batches", "findings"))

    def run(batches: decode.Batches) -> decode.Batches:
        from dissectors import engine

        files: list[str] = []
        running, made = engine.decode(decode.blocks(batches, files), options, files)
        running.sink.suspects = []
        for secret in secrets:
            running.keylog.add(secret)
        for _ in made:
            pass  # the rows are there already
        told = pickle.dumps((files, running.sink.suspects))
        yield pa.RecordBatch.from_arrays([pa.array([told], pa.binary())], names=["suspects"])

    return run


def _flow(row: Row) -> str:
    """As the data source names it: both ends, the lesser first."""
    ends = (f"{row['client_ip']} {row['client_port']}", f"{row['server_ip']} {row['server_port']}")
    return "-".join(sorted(ends))


def _placed(suspect: Suspect, files: Sequence[int]) -> Suspect:
    """With places that count the files of the whole set."""
    pieces = tuple(
        (offset, files[place >> PLACE_SHIFT] << PLACE_SHIFT | place & PLACE_MASK, time)
        for offset, place, time in suspect.pieces
    )
    return suspect._replace(pieces=pieces)


def _bounded(suspects: Sequence[Suspect], options: Options) -> list[Suspect]:
    """The first ones, within the limits."""
    kept, size = [], 0
    for suspect in suspects[: options.limits.suspects]:
        size += len(suspect.unit)
        if size > options.limits.suspect_bytes:
            break
        kept.append(suspect)
    return kept


# --- the packets, and the cases --------------------------------------------------------------------------------------


def _gather(spark: SparkSession, files: Sequence[str], options: Options, wanted: Sequence[Wanted]) -> list[Carriers]:
    """The packets that carried them; a task a file."""
    plain = replace(options, keylog=None)
    concerned = {one.suspect.conn.site for one in wanted}
    named = {witness.file for one in wanted for witness in one.witnesses}
    paths = [(n, p) for n, p in enumerate(files) if p in named or site_of(p, options.site) in concerned]
    shared = spark.sparkContext.broadcast(pickle.dumps(list(wanted)))

    def search(path: tuple[int, str]) -> list[Carriers]:
        return gather_file(*path, pickle.loads(shared.value), plain)

    return joined(_spread(spark, paths, search), wanted) if wanted else []


def _examiner(files: Sequence[str]) -> Callable[[tuple[Row, Suspect | None, Carriers | None, Relations]], Row]:
    names = list(files)

    def look(work: tuple[Row, Suspect | None, Carriers | None, Relations]) -> Row:
        row, suspect, carriers, near = work
        if suspect is None or carriers is None:
            return report.as_json(Case(row))
        return report.as_json(examine(row, suspect, carriers, near.rows, names))

    return look


def _spread(spark: SparkSession, items: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """The function's results, in order; as many tasks as the session has cores, or items."""
    context = spark.sparkContext
    tasks = max(1, min(len(items), 4 * context.defaultParallelism))

    def run(part: Iterable[Any]) -> Iterable[Any]:
        return (function(item) for item in part)

    return list(context.parallelize(items, tasks).mapPartitions(run).collect())
