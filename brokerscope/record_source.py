"""Where record tables of an open capture come from: captures, which are decoded, or a folder that `analyze` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dissectors import records
from dissectors.api import dissect
from dissectors.capture.files import expand
from dissectors.capture.source import exists
from dissectors.errors import InputError, UsageError
from dissectors.options import Options
from pipelines.answers.records import captures_of, read_analysis
from pipelines.payloads.columns import ADDS_TO, TABLE
from pipelines.storage.layout import is_analysis, single_analysis
from pipelines.storage.stored_records import StoredRecords


class RecordSource:
    """Reads tables when they are asked for."""

    def __init__(self, paths: Sequence[str], options: Options) -> None:
        """Raises InputError where no file can be read, UsageError where nothing is named."""
        self.options = options
        self.out = paths[0] if single_analysis(paths) else None
        self.paths = list(paths)
        self._files = None if self.out is not None else _files(paths)

    @property
    def files(self) -> list[str]:
        """The captures; of a folder that `analyze` wrote those that its records name, as far as they are there."""
        if self._files is None:
            assert self.out is not None
            self._files, gone = captures_of(self.out)
            if not self._files:
                raise InputError(
                    f"{self.out}: this reads the captures, and they no longer exist: {', '.join(gone[:3])}"
                )
        return self._files

    def read(self, names: Sequence[str]) -> dict[str, pa.Table]:
        """Tables, each in order of time."""
        if self.out is None:
            return dissect(self.paths, names, **keywords(self.options))
        kept = set(StoredRecords.of(f"{self.out}/records").files)
        stored = [name for name in names if name in kept and not self._adds_to(name)]
        decoded = [name for name in names if name not in stored and self._must_decode(name)]
        found = {
            name: rows if isinstance(rows, pa.Table) else rows.to_table()
            for name, rows in read_analysis(self.out, [name for name in names if name not in decoded]).items()
        }
        if decoded:
            found |= dissect(self.files, decoded, **keywords(self.options))
        return {
            name: table.sort_by([(column, "ascending") for column in records.ordered_by(name)])
            for name, table in found.items()
        }

    def _must_decode(self, name: str) -> bool:
        """Whether OUT never has what is asked for of a table: tables that are asked for by name, bodies, payloads."""
        return name == "messages" or self._adds_to(name)

    def _adds_to(self, name: str) -> bool:
        return self.options.full if name == "exchanges" else self.options.payloads and name in (TABLE, *ADDS_TO)


def keywords(options: Options) -> dict[str, Any]:
    """Options as keywords of `dissect`."""
    names = ("full", "payloads", "site", "decode_as", "keylog", "dialects", "jobs", "limits")
    return {name: getattr(options, name) for name in names}


def _files(paths: Sequence[str]) -> list[str]:
    files = expand(paths)
    gone = [path for path in files if path != "-" and not exists(path)]
    if gone:
        raise InputError(f"{gone[0]}: no such file")
    if not files:
        raise UsageError("no captures: name one at least")
    for path in files:
        if is_analysis(path):
            raise InputError(f"{path}: a folder that `analyze` wrote: give it alone, not with captures")
    return files
