"""Writes the small record files of a lake again as larger ones; the rows stay as they are.

Files of one table, day and capture point are put together, as far as they came to the lake by the same stage: a later
update may replace the rows of a stage, and then needs them apart. Rows of connections that are open at the end of the
captures are replaced by each update, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dissectors.capture.source import file_size
from pipelines.jobs.decode import OPEN, merge_files
from pipelines.lake.change import changing
from pipelines.storage import filesystem
from pipelines.storage.lake_files import Staged
from pipelines.storage.layout import RECORD_FOLDER
from pipelines.storage.record_files import StoredRows, Written, share
from pipelines.storage.stages import OpenFile

Size = Callable[[Written], int]


class Compacted(NamedTuple):
    """How many files of records there were, and are."""

    before: int
    after: int


def compact(lake: str, file_bytes: int, *, dry_run: bool = False) -> Compacted:
    """Put the record files of a lake together to files of about so many bytes. Errors are those of `changing`.

    dry_run: say how many files there would be, and leave them.
    """
    with changing(lake) as change:
        after, files = change.after, change.files
        before = [*after.records()]
        known = filesystem.each(file_size, [*map(files.record, before)])
        sizes = {file.path: size for file, size in zip(before, known, strict=True)}
        after.edition = change.before.edition
        saved = 0

        def together(some: Sequence[Written]) -> list[Written]:
            nonlocal saved
            groups = [*_groups(some, lambda file: sizes[file.path], file_bytes)]
            saved += len(some) - len(groups)
            return [*some] if dry_run else [file for group in groups for file in _as_one(group, files)]

        after.kept = together(after.kept)
        for stage in (stage for site in after.sites.values() for stage in site.stages):
            stage.rows.records = together(stage.rows.records)
            groups = [*_open_groups(stage.rows.open, lambda file: sizes[file.path], file_bytes)]
            saved += sum(len(one.records) for group in groups if len(group) > 1 for one in group)
            saved -= sum(1 for group in groups if len(group) > 1)
            if not dry_run:
                stage.rows.open = [file for group in groups for file in _open_as_one(group, files)]
        if saved and not dry_run:
            change.commit()
    return Compacted(len(before), len(before) - saved)


def _groups(files: Iterable[Written], size: Size, most: int) -> Iterator[list[Written]]:
    """Files of one table, day and site in groups of about so many bytes, in their order."""
    groups: dict[str, tuple[int, list[Written]]] = {}
    for file in files:
        held, group = groups.get(share(file.path), (0, []))
        if group and held + size(file) > most:
            yield group
            held, group = 0, []
        group.append(file)
        groups[share(file.path)] = held + size(file), group
    yield from (group for _, group in groups.values())


def _open_groups(files: Iterable[OpenFile], size: Size, most: int) -> Iterator[list[OpenFile]]:
    """Files of rows whose names may change yet, in groups whose record files have about so many bytes."""
    by_path = {file.path: file for file in files}

    def weight(file: Written) -> int:
        return sum(size(record) for record in by_path[file.path].records)

    for group in _groups([Written(file.table, file.path, 0) for file in by_path.values()], weight, most):
        yield [by_path[file.path] for file in group]


def _as_one(group: Sequence[Written], files: Staged) -> list[Written]:
    """The rows of some files in one."""
    if len(group) == 1:
        return [*group]
    rows = [StoredRows(file.table, files.record(file)) for file in group]
    return merge_files(filesystem.join(files.staging, RECORD_FOLDER), rows)


def _open_as_one(group: Sequence[OpenFile], files: Staged) -> list[OpenFile]:
    """The rows of some files whose names may change yet in one."""
    if len(group) == 1:
        return [*group]
    rows = [StoredRows(file.table, files.waiting(file.path)) for file in group]
    waiting = merge_files(filesystem.join(files.staging, OPEN), rows)
    records = _as_one([record for file in group for record in file.records], files)
    return [OpenFile(file.table, file.path, records if n == 0 else []) for n, file in enumerate(waiting)]
