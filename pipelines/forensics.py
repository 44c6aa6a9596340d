"""Forensics over an archive: the verdicts of `brokerscope forensics`, from records on Spark.

    records ─ bad batches? ─ none: nothing more is read
                           └ some: their connections are decoded again, and only these, for the suspect bytes
                                   the files of their capture points are searched for the packets that carried them
                                   each case is looked into, as the local command does, and becomes its JSON object

Every step is a Spark job; what comes to the driver is bounded by `LISTED` rows and the limits `suspects` and
`suspect_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dissectors.capture.files import site_of
from dissectors.forensics import Case, report
from dissectors.forensics.cases import examine
from dissectors.forensics.investigation import paired
from dissectors.forensics.packets import Carriers, Wanted, gather_file, joined
from dissectors.forensics.related import Relations
from dissectors.options import Options
from dissectors.redaction import public_path
from dissectors.sink import Suspect, bounded
from pipelines import blocks, decode, spark_job
from pipelines.bad_batches import bad_batches, surroundings
from pipelines.blocks import key_of
from pipelines.tables.compute import TableEngine
from pipelines.tasks import collect, each, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
_ENDS = ("client_ip", "client_port", "server_ip", "server_port")
_ITEMS = 8  # that a task looks into


def cases(
    spark: SparkSession, engine: TableEngine, files: Sequence[str], options: Options, secrets: Sequence[bytes]
) -> list[Row]:
    """One JSON object a bad checksum, as `brokerscope forensics --format json` writes them, in order of time.

    engine: holds the records. secrets: TLS key logs. Of more than LISTED bad batches, the first are looked into.
    """
    bad = bad_batches(engine)
    if not bad:
        return []
    pairs = paired(bad, _suspects(spark, files, options, secrets, bad))
    around = surroundings(engine)
    near = [around.of(row) if suspect else Relations() for row, suspect in pairs]
    wanted = [Wanted(s, r.witnesses) for (_, s), r in zip(pairs, near, strict=True) if s is not None]
    found = iter(_gather(spark, files, options, wanted))
    work = [(row, suspect, next(found) if suspect else None, r) for (row, suspect), r in zip(pairs, near, strict=True)]
    return _spread(spark, work, _examiner(files))


# --- the suspect bytes -----------------------------------------------------------------------------------------------


def _suspects(
    spark: SparkSession, files: Sequence[str], options: Options, secrets: Sequence[bytes], bad: Sequence[Row]
) -> list[Suspect]:
    """What the bad rows were made from: their connections, decoded once more."""
    sites = {row["site"] for row in bad}
    chosen = [i for i, path in enumerate(files) if site_of(path, options.site) in sites]
    only = np.unique(np.array([key_of(*(row[name] for name in _ENDS)) for row in bad], np.uint64))
    wanted = replace(options, tables=("batches", "findings"))
    job, works = spark_job.plan(spark, files, wanted, "", secrets, chosen=chosen, only=only)
    found = [suspect for some in spark_job.decoded(spark, job, works, _decode) for suspect in some]
    return bounded(found, options.limits)


def _decode(rows: Iterable[blocks.Row], job: decode.Job) -> list[Suspect]:
    _, running, batches = decode.decode_rows(rows, job)
    running.sink.suspects = []
    for _ in batches:
        pass  # the rows are there already
    return running.sink.suspects


# --- the packets, and the cases --------------------------------------------------------------------------------------


def _gather(spark: SparkSession, files: Sequence[str], options: Options, wanted: Sequence[Wanted]) -> list[Carriers]:
    """The packets that carried them; a task a file."""
    plain = replace(options, keylog=None)
    concerned = {one.suspect.conn.site for one in wanted}
    named = {witness.file for one in wanted for witness in one.witnesses}
    paths = [(n, p) for n, p in enumerate(files) if public_path(p) in named or site_of(p, options.site) in concerned]
    searched = list(wanted)

    def search(path: tuple[int, str]) -> list[Carriers]:
        return gather_file(*path, searched, plain)

    return joined(_spread(spark, paths, search), wanted) if wanted else []


def _examiner(files: Sequence[str]) -> Callable[[tuple[Row, Suspect | None, Carriers | None, Relations]], Row]:
    names = [public_path(path) for path in files]

    def look(work: tuple[Row, Suspect | None, Carriers | None, Relations]) -> Row:
        row, suspect, carriers, near = work
        if suspect is None or carriers is None:
            return report.as_json(Case(row))
        return report.as_json(examine(row, suspect, carriers, near.rows, names))

    return look


def _spread(spark: SparkSession, items: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
    """The function's results, in order."""
    groups = [list(items[i : i + _ITEMS]) for i in range(0, len(items), _ITEMS)]
    results = collect(spread(spark, groups, each(lambda group: [function(item) for item in group])))
    return [result for some in results for result in some]
