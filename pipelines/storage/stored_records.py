"""Which files hold the record tables below a folder: what everything that reads them asks first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.storage import filesystem, lake_files


@dataclass(frozen=True)
class StoredRecords:
    """Record tables as they are at one time, also while a lake that they belong to changes."""

    folder: str  # path or URL; of a lake, one that the next commit leaves alone
    files: Mapping[str, Sequence[str]]  # table -> its files, below that folder
    alone: bool  # whether the folder is local and holds no other files

    @classmethod
    def of(cls, folder: str) -> StoredRecords:
        """The tables in OUT/records: of a lake those of its last commit, else all Parquet files.

        Raises BrokerscopeError where the manifest of a lake is damaged.
        """
        found: dict[str, list[str]] = {}
        commit = lake_files.commit_of(folder)
        local = filesystem.local_path(folder) is not None
        for path in filesystem.find(folder) if commit is None else [file.path for file in commit.manifest.records()]:
            table, inside, _ = path.partition("/")
            if inside and path.endswith(".parquet"):
                found.setdefault(table, []).append(path)
        if commit is None:
            return cls(folder, found, local)
        return cls(commit.records, found, local and commit.manifest.is_flat)

    def sources(self, table: str, files: Sequence[str] | None = None) -> list[str]:
        """Paths or URLs that hold a table, or these files of it: one of a folder instead of many where that will do."""
        if files is None and self.alone:
            return [filesystem.join(self.folder, table)] if table in self.files else []
        return [filesystem.join(self.folder, file) for file in (self.files.get(table, ()) if files is None else files)]
