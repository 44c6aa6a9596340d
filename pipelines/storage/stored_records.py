"""Which files hold the record tables below a folder: what everything that reads them asks first."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dissectors.errors import InputError
from pipelines.storage import filesystem, lake_files, working_folders
from pipelines.storage.layout import ABOUT, RECORD_FOLDER, refuse_newer

LISTED = "records"  # in OUT/analysis.json: table -> files of it, where OUT is not local


@dataclass(frozen=True)
class StoredRecords:
    """Record tables as they are at one time, also while a lake that they belong to changes."""

    folder: str  # path or URL; of a lake, one that the next commit leaves alone
    files: Mapping[str, Sequence[str]]  # table -> its files, below that folder
    alone: bool  # whether the folder is local and holds no other files

    @classmethod
    def of(cls, folder: str) -> StoredRecords:
        """The tables in OUT/records: those of a lake's last commit, else those that OUT lists, or all Parquet files.

        Raises BrokerscopeError where the manifest of a lake, or the list, is damaged, or OUT is of a newer release.
        """
        refuse_newer(out := posixpath.dirname(folder.rstrip("/")))
        commit = lake_files.commit_of(folder)
        local = filesystem.local_path(folder) is not None
        if commit is None:
            known = None if local else listed(out)
            return cls(folder, _by_table(filesystem.find(folder) if known is None else sorted(known)), local)
        found = _by_table(file.path for file in commit.manifest.records())
        return cls(commit.records, found, local and commit.manifest.is_flat)

    def sources(self, table: str, files: Sequence[str] | None = None) -> list[str]:
        """Paths or URLs that hold a table, or these files of it: one of a folder instead of many where that will do."""
        if files is None and self.alone:
            return [filesystem.join(self.folder, table)] if table in self.files else []
        return [filesystem.join(self.folder, file) for file in (self.files.get(table, ()) if files is None else files)]


RecordsAt = str | StoredRecords
"""Records, or the folder in which they lie: a path or a URL."""


def _by_table(paths: Iterable[str]) -> dict[str, list[str]]:
    """Table -> its files, of files below a folder of records."""
    found: dict[str, list[str]] = {}
    for path in paths:
        table, inside, _ = path.partition("/")
        if inside and path.endswith(".parquet"):
            found.setdefault(table, []).append(path)
    return found


def listed(out: str) -> set[str] | None:
    """The files of OUT/records that OUT/analysis.json names; None where it names none.

    Raises InputError where that is damaged.
    """
    data = filesystem.read(filesystem.join(out, ABOUT))
    try:
        names = json.loads(data or b"{}").get(LISTED)
        return None if names is None else {str(name) for some in names.values() for name in some}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(f"{filesystem.join(out, ABOUT)}: cannot be read: {error}") from None


def tidy(out: str, working: str) -> None:
    """Remove files of OUT/records that belong to no finished run, nor to one that is alive, other than this one.

    working: the folder in which this run has worked.
    """
    working_folders.keep_only(out, RECORD_FOLDER, listed(out), working_folders.run_of(working))
