"""What was decoded once is kept: record tables of captures, and answers over them, in the user's cache folder.

    $XDG_CACHE_HOME/brokerscope/KEY/TABLE.parquet     the rows of one record table
    $XDG_CACHE_HOME/brokerscope/KEY/made.json         what could not be read, last: without it these do not count
    $XDG_CACHE_HOME/brokerscope/KEY/NAME-CODE.json    an answer over the rows, by the code that computed it

KEY says which captures (their content, and the names that rows have), which code and which options made the rows. The
folder is the user's alone, as rows say as much as captures do. Of more than MOST_BYTES what was used longest ago goes.
Nothing here is needed: whatever goes wrong, captures are decoded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import xxhash

from dissectors import records
from dissectors.options import ALL_CORES, Options
from pipelines.storage.code_version import code_state

if TYPE_CHECKING:
    from pipelines.formats.parquet import ParquetWriter

MOST_BYTES = 4 << 30  # of the folder
_MADE = "made.json"
_CHUNK = 1 << 22
_DIGESTS = "digests.json"  # (size, time of change) of a file -> digest of its content, so that it is read once
_MOST_DIGESTS = 10_000
_LEFT_OVER = 86_400  # seconds after which rows that are still being written belong to nobody


class CachedRows(NamedTuple):
    """Rows that were kept."""

    files: Mapping[str, str]  # record table -> its Parquet file
    problems: Sequence[tuple[str, str]]  # kind of finding, message: of captures that could not be read whole
    cut: int  # packets that the captures' snap length had cut short


class RecordCache:
    """The kept rows of some captures with some options."""

    def __init__(self, folder: Path, captures: Sequence[str], options: Options) -> None:
        self._root = folder
        self._captures = captures
        self._options = options
        self._states = [_state(path) for path in captures]
        self._entry = folder / _key(folder, captures, options)

    @classmethod
    def of(cls, captures: Sequence[str], options: Options) -> RecordCache | None:
        """The rows of these captures; None where they are not local files, or there is no folder for rows."""
        with contextlib.suppress(OSError, ValueError):
            if all(Path(path).is_file() for path in captures):
                return cls(_folder(), captures, options)
        return None

    def find(self, tables: Sequence[str]) -> CachedRows | None:
        """What was kept of some tables; None where one of them was not."""
        files = {table: str(self._entry / f"{table}.parquet") for table in tables}
        try:
            made = json.loads((self._entry / _MADE).read_text())
            if not all(table in made["tables"] and Path(file).exists() for table, file in files.items()):
                return None
            os.utime(self._entry)  # used now
            return CachedRows(files, [(kind, message) for kind, message in made["problems"]], made["cut"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def find_answer(self, name: str) -> str | None:
        """An answer that was kept by this name; None where none was."""
        try:
            text = self._answer(name).read_text()
            os.utime(self._entry)
        except (OSError, ValueError):
            return None
        return text

    def keep_answer(self, name: str, text: str) -> None:
        """Keep an answer over the rows of the captures, if these are still what they were."""
        with contextlib.suppress(OSError):
            if self._is_current():
                self._entry.mkdir(mode=0o700, exist_ok=True)
                path = self._answer(name)
                temporary = path.with_name(f"{path.name}.{os.getpid()}")
                temporary.write_text(text)
                temporary.replace(path)

    def _answer(self, name: str) -> Path:
        return self._entry / f"{name}-{code_state('pipelines')}.json"

    @contextlib.contextmanager
    def keeping(self) -> Iterator[RowKeeper]:
        """Keep the rows that the keeper is given, if it was told that they are all."""
        keeper = RowKeeper(self._entry, self._options, self._is_current)
        try:
            yield keeper
        finally:
            keeper.close()
            if keeper.whole:
                _shrink(self._root, MOST_BYTES)

    def _is_current(self) -> bool:
        """Whether the captures are as they were when their content was read for the key."""
        return [_state(path) for path in self._captures] == self._states


class RowKeeper:
    """Writes the rows of one run beside what is kept; they count once all are there."""

    def __init__(self, entry: Path, options: Options, is_current: Callable[[], bool]) -> None:
        from pipelines.formats.parquet import ParquetWriter

        self.whole = False
        self._entry = entry
        self._is_current = is_current
        self._tables = options.tables
        self._temporary = entry.with_name(f"{entry.name}.{os.getpid()}")
        self._writers: dict[str, tuple[Any, ParquetWriter]] = {}
        with contextlib.suppress(OSError):
            self._temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
            for table in options.tables:
                stream = (self._temporary / f"{table}.parquet").open("wb")
                schema = records.schema(table, full=options.full, payloads=options.payloads)
                self._writers[table] = stream, ParquetWriter(schema, stream)

    def of(self, rows: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows, each of which is written as it passes."""
        for table, batch in rows:
            with self._careful():
                if table in self._writers:
                    self._writers[table][1].write(batch)
            yield table, batch

    def finish(self, problems: Sequence[tuple[str, str]], cut: int) -> None:
        """All rows have passed."""
        with self._careful():
            if set(self._writers) != set(self._tables) or not self._is_current():
                return
            for stream, writer in self._writers.values():
                writer.close()
                stream.close()
            self._writers = {}
            self._entry.mkdir(mode=0o700, exist_ok=True)
            there: list[str] = []
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                there = list(json.loads((self._entry / _MADE).read_text())["tables"])
            for table in self._tables:
                (self._temporary / f"{table}.parquet").replace(self._entry / f"{table}.parquet")
            told = self._temporary / _MADE
            tables = sorted({*there, *self._tables})
            told.write_text(json.dumps({"tables": tables, "problems": list(problems), "cut": cut}))
            told.replace(self._entry / _MADE)
            self.whole = True

    def close(self) -> None:
        """Whatever was not finished goes."""
        self._close_files()
        shutil.rmtree(self._temporary, ignore_errors=True)

    @contextlib.contextmanager
    def _careful(self) -> Iterator[None]:
        """Give up keeping where the disk does not let it."""
        try:
            yield
        except (OSError, pa.ArrowException):
            self._close_files()

    def _close_files(self) -> None:
        for stream, writer in self._writers.values():
            with contextlib.suppress(OSError, ValueError, pa.ArrowException):
                writer.close()
            with contextlib.suppress(OSError):
                stream.close()
        self._writers = {}


def _folder() -> Path:
    """Where rows are kept; made for this user alone. Raises OSError."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "brokerscope"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _key(folder: Path, captures: Sequence[str], options: Options) -> str:
    """What the rows depend on, as a name. Raises OSError."""
    secrets = "" if options.keylog is None else hashlib.sha256(Path(options.keylog).read_bytes()).hexdigest()
    asked = options._replace(tables=(), jobs=ALL_CORES, keylog=None, coded=False)  # what rows say depends on none
    parts = [code_state("dissectors"), repr(asked), secrets]
    digests = _digests(folder, captures)
    parts += [part for path in captures for part in (path, _whole_name(path), digests[path])]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _digests(folder: Path, captures: Sequence[str]) -> dict[str, str]:
    """The digest of the content of each file; of one that has not changed since, as it was noted. Raises OSError."""
    noted: dict[str, list[Any]] = {}
    with contextlib.suppress(OSError, ValueError):
        noted = json.loads((folder / _DIGESTS).read_text())
    found, new = {}, False
    for path in captures:
        state, name = _state(path), _whole_name(path)
        known = noted.get(name)
        if isinstance(known, list) and known[:3] == state and len(known) == 4:
            found[path] = str(known[3])
            continue
        found[path] = _digest(path)
        noted[name] = [*state, found[path]]
        new = True
    if new:
        while len(noted) > _MOST_DIGESTS:
            noted.pop(next(iter(noted)))
        with contextlib.suppress(OSError):
            temporary = folder / f"{_DIGESTS}.{os.getpid()}"
            temporary.write_text(json.dumps(noted))
            temporary.replace(folder / _DIGESTS)
    return found


def _state(path: str) -> list[int]:
    """What changes when a file does: size, time of change, and which file it is. Raises OSError."""
    about = Path(path).stat()
    return [about.st_size, about.st_mtime_ns, about.st_ino]


def _whole_name(path: str) -> str:
    return str(Path(path).absolute())


def _digest(path: str) -> str:
    digest = xxhash.xxh3_128()
    with Path(path).open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _shrink(folder: Path, most: int) -> None:
    """Remove what was used longest ago, until no more than so many bytes are left."""
    with contextlib.suppress(OSError):
        entries = sorted((each for each in folder.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime)
        for entry in entries:
            if "." in entry.name and entry.stat().st_mtime < time.time() - _LEFT_OVER:
                shutil.rmtree(entry, ignore_errors=True)  # of a run that was killed
        entries = [entry for entry in entries if "." not in entry.name]
        sizes = {entry: sum(file.stat().st_size for file in entry.iterdir()) for entry in entries}
        total = sum(sizes.values())
        for entry in entries[:-1]:
            if total <= most:
                return
            shutil.rmtree(entry, ignore_errors=True)
            total -= sizes[entry]
