"""Names of topic ids and stream numbers that connections of other tasks report.

A task that has rows with such an id needs the names of all captures. The first one on a machine decodes all of them for
that and leaves the names in a file of the user's own, which the others read:

    TMP/brokerscope-names-UID/KEY.parquet     KEY says which captures, which options and which code
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa

from dissectors import arrow
from dissectors.capture.source import file_size
from dissectors.engine import Batches
from dissectors.limits import Limits
from dissectors.options import ALL_CORES, Options
from dissectors.release import DecodedRows, HeldRows, RowRelease, in_order
from dissectors.rows.late_names import FOREVER, Names, open_keys, open_rows, resolve
from dissectors.run import Run
from pipelines.jobs import names as name_files
from pipelines.sources.files import modified
from pipelines.storage import filesystem
from pipelines.storage.code_version import code_version

_KEPT_S = 86_400  # seconds for which names are kept


class Captures:
    """The captures of a query, which may name what rows of one task do not."""

    def __init__(self, files: Sequence[str], options: Options) -> None:
        """options: those of the query."""
        self.files = list(files)
        self.options = options._replace(tables=(), full=False, payloads=False, jobs=ALL_CORES)

    def names(self, keys: Collection[str]) -> Names:
        """What all connections report of some keys."""
        folder = _folder()
        if folder is None:
            return _reported(self.files, self.options)
        path = folder / f"{self._key()}.parquet"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                beside = path.with_suffix(".new")
                name_files.save(_reported(self.files, self.options), str(beside))
                beside.replace(path)
        wanted = pa.array(sorted(keys), pa.string())
        return name_files.load([str(path)], keys=wanted, wait_ns=self.options.limits.name_wait_ns)

    def _key(self) -> str:
        states = [*filesystem.each(file_size, self.files), *filesystem.each(modified, self.files)]
        made_of = (self.files, states, self.options, code_version("dissectors"))
        return hashlib.sha256(repr(made_of).encode("utf-8", "surrogateescape")).hexdigest()


class NamesLater(RowRelease):
    """Gives rows without a missing name at once, the others at the end, with the names of all captures."""

    def __init__(self, limits: Limits, captures: Captures) -> None:
        super().__init__(limits)
        self._waiting = HeldRows(limits.spill_bytes)
        self._keys: set[str] = set()
        self._captures = captures

    def take(self, release: DecodedRows) -> Batches:
        """The rows that need no name; for each table one batch, in time order."""
        tables: dict[str, list[pa.RecordBatch]] = {}
        for decoded in release.decoded:
            for table, batch in decoded.batches:
                tables.setdefault(table, []).append(batch)
            decoded.batches.clear()
        for table, batches in tables.items():
            batch = in_order(table, batches)
            is_open = open_rows(batch)
            if is_open.any():
                keys = open_keys(batch)
                self._keys |= keys
                self._waiting.put(table, arrow.keep(batch, is_open), keys)
                batch = arrow.keep(batch, ~is_open)
            if batch.num_rows:
                yield table, batch

    def finish(self) -> Batches:
        """The rows that waited."""
        if self._keys:
            self.names = self._captures.names(self._keys)
        for table, batch in self._waiting.due(set(), FOREVER):
            yield table, resolve(batch, self.names)


class _NamesRun(Run):
    """A run that is made for the names that connections report."""

    def release(self) -> RowRelease:
        self.rows = super().release()
        return self.rows


def _reported(files: Sequence[str], options: Options) -> Names:
    run = _NamesRun(files, options)
    for _ in run.records():
        pass
    return run.rows.names


def _folder() -> Path | None:
    """The folder of names, in which names of former days are removed; None where somebody else has one there."""
    folder = Path(tempfile.gettempdir(), f"brokerscope-names-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        return None
    for path in folder.iterdir():
        try:
            if path.lstat().st_mtime < time.time() - _KEPT_S:
                path.unlink()
        except OSError:  # another task has removed it
            continue
    return folder
