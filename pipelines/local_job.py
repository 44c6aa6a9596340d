"""Captures to records in this process: OUT/records, and what forensics says of bad checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dissectors.forensics import report
from dissectors.forensics.cases import Case, examine
from dissectors.forensics.investigation import paired
from dissectors.forensics.packets import Wanted, gather
from dissectors.forensics.related import Relations, Surroundings
from dissectors.options import Options
from dissectors.redaction import public_path
from dissectors.rows.sink import Suspect
from dissectors.run import Run
from pipelines.storage.record_files import RecordWriter, has_many_sites, write_empty
from pipelines.tables.bad_batches import bad_batches, surroundings
from pipelines.tables.compute import TableEngine


@dataclass(frozen=True)
class LocalRecords:
    """What the decoding of a capture set left behind."""

    problems: list[tuple[str, str]]  # kind of finding, message: files that were not read whole
    suspects: list[Suspect]  # bytes whose checksum is bad
    files: list[str]


def decode_to_records(
    files: Sequence[str], folder: Path, options: Options, progress: Callable[[int], None] | None = None
) -> LocalRecords:
    """Write FOLDER/<table>/*.parquet, in bounded memory. progress: as Run calls it.

    Raises InputError where none of the files can be read.
    """
    return written(Run(files, options, progress), folder)


def written(run: Run, folder: Path) -> LocalRecords:
    """Write the records of a run as FOLDER/<table>/*.parquet. Raises InputError where none of its files can be read."""
    run.suspects = []
    writer = RecordWriter(str(folder), "part", by_site=not has_many_sites(run.files, run.options.site))
    for table, batch in run.records():
        writer.write(table, batch)
    write_empty(str(folder), run.options, {file.table for file in writer.close()})
    return LocalRecords(sorted(run.problems), run.suspects, run.files)


def cases(engine: TableEngine, decoded: LocalRecords, options: Options) -> list[dict[str, Any]]:
    """One JSON object a bad checksum, as `brokerscope forensics --format json` writes them, in order of time.

    Of more than LISTED bad batches, the first are looked into. engine: holds the records.
    """
    bad = bad_batches(engine)
    if not bad:
        return []
    around = surroundings(engine)
    return [report.as_json(case) for case in _looked_into(bad, around, decoded, options)]


def _looked_into(
    bad: Sequence[dict[str, Any]], around: Surroundings, decoded: LocalRecords, options: Options
) -> Iterator[Case]:
    pairs = [
        (row, suspect, around.of(row) if suspect else Relations()) for row, suspect in paired(bad, decoded.suspects)
    ]
    wanted = [Wanted(suspect, near.witnesses) for _, suspect, near in pairs if suspect is not None]
    carriers = iter(gather(decoded.files, wanted, replace(options, keylog=None)))
    names = [public_path(path) for path in decoded.files]
    for row, suspect, near in pairs:
        yield Case(row) if suspect is None else examine(row, suspect, next(carriers), near.rows, names)
