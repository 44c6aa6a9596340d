"""Files of a run's output, wherever it lies: local paths, and URLs of any file system that fsspec knows.

A local folder is replaced in one step (`outputs`). Elsewhere `working_folders` comes as near to that as object stores
allow.
"""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast
from urllib.parse import unquote, urlsplit

from dissectors.capture import stores
from dissectors.capture.source import is_url
from dissectors.errors import UsageError
from pipelines.storage import leftovers, outputs
from pipelines.storage.outputs import OutputError

Item = TypeVar("Item")
Result = TypeVar("Result")
_AT_ONCE = 16  # files moved or removed at the same time
_COPIED = 1 << 20  # bytes that are copied at a time
_SHARE = 100  # files that one thread takes at a time, at most
STAGING = ".brokerscope-"  # how the names of folders begin in which runs work


class StorageError(OutputError):
    """An output that cannot be written or read."""


@contextmanager
def _failing(path: str, done: str, *others: type[Exception]) -> Iterator[None]:
    """What a file system says against something, as a StorageError: each has errors of its own.

    done: what could not be done with a path: "read". others: errors that are left as they are.
    """
    passed: tuple[type[Exception], ...] = (StorageError, *others)
    try:
        yield
    except passed:
        raise
    except Exception as error:
        raise StorageError(f"{path}: cannot be {done}: {error}") from error


def local_path(root: str) -> Path | None:
    """The local path that a path or a file: URL means; None for another file system."""
    if root.startswith("file:"):
        return Path(unquote(urlsplit(root).path))
    return None if is_url(root) else Path(root)


def absolute(root: str) -> str:
    """A path, from the root of its file system: the same in every process. A URL as it is."""
    local = local_path(root)
    return root if local is None else str(local.absolute())


def join(root: str, *parts: str) -> str:
    """A path below a root."""
    return posixpath.join(root, *parts)


def create(path: str) -> BinaryIO:
    """A new file, with the folders that it lies in. Raises StorageError."""
    local = local_path(path)
    with _failing(path, "written"):
        if local is not None:
            local.parent.mkdir(parents=True, exist_ok=True)
            return local.open("wb")
        fs, inside = _file_system(path)
        fs.makedirs(posixpath.dirname(inside), exist_ok=True)
        return cast(BinaryIO, fs.open(inside, "wb"))


def open_file(path: str) -> BinaryIO:
    """A file to read from. Raises StorageError."""
    local = local_path(path)
    with _failing(path, "read"):
        if local is not None:
            return local.open("rb")
        fs, inside = _file_system(path)
        return cast(BinaryIO, fs.open(inside, "rb"))


def read(path: str) -> bytes | None:
    """A whole file; None where there is none. Raises StorageError."""
    local = local_path(path)
    with suppress(FileNotFoundError), _failing(path, "read", FileNotFoundError):
        if local is not None:
            return local.read_bytes()
        fs, inside = _file_system(path)
        return cast(bytes, fs.cat_file(inside))
    return None


def ranges(root: str, wanted: Sequence[tuple[str, int, int]]) -> list[bytes]:
    """Ranges of files below a root: (name, first byte, number of bytes) each. Raises StorageError.

    A local file is read, not mapped: where the disk or the network fails, that is an error and no killed process.
    """
    local = local_path(root)
    with _failing(root, "read"):
        if local is None:
            fs, inside = _file_system(root)
            names = [posixpath.join(inside, name) for name, _, _ in wanted]
            starts, ends = [at for _, at, _ in wanted], [at + size for _, at, size in wanted]
            found: list[bytes] = fs.cat_ranges(names, starts, ends, on_error="raise")
        else:
            found = []
            for name, some in groupby(wanted, key=itemgetter(0)):
                with (local / name).open("rb") as file:
                    for _, at, size in some:
                        file.seek(at)
                        found.append(file.read(size))
    for (name, _, size), data in zip(wanted, found, strict=True):
        if len(data) != size:
            raise StorageError(f"{join(root, name)}: cannot be read: it is shorter than it was")
    return found


def write(path: str, data: bytes) -> None:
    """A whole file, there at once or not at all. Raises StorageError."""
    local = local_path(path)
    if local is None:
        with _failing(path, "written"), create(path) as stream:  # an object appears when it is closed
            stream.write(data)
        return
    beside = local.with_name(f".{local.name}.new")
    with create(str(beside)) as stream:
        stream.write(data)
    beside.replace(local)


def move(root: str, moves: Sequence[tuple[str, str]]) -> None:
    """Rename files below a root: (from, to). One that is not there any more has been moved already."""

    def one(names: tuple[str, str]) -> None:
        before, after = (join(root, name) for name in names)
        local, there = local_path(before), local_path(after)
        if local is not None and there is not None:
            if local.exists() or not there.exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                local.replace(there)
            return
        fs, inside = _file_system(before)
        target = _file_system(after)[1]
        if fs.exists(inside) or not fs.exists(target):
            fs.makedirs(posixpath.dirname(target), exist_ok=True)
            fs.mv(inside, target)

    _each(one, moves, root)


def remove(root: str, names: Sequence[str]) -> None:
    """Remove files below a root; those that are not there are passed over."""

    def one(name: str) -> None:
        path = join(root, name)
        local = local_path(path)
        if local is not None:
            local.unlink(missing_ok=True)
            return
        fs, inside = _file_system(path)
        if fs.exists(inside):
            fs.rm_file(inside)

    _each(one, names, root)


def replace_folder(root: str, folder: str, staged: str, names: Sequence[str]) -> None:
    """Files below `staged` become all that is in `folder`; both lie below root.

    In one step on a local file system; elsewhere what was there goes before the new files come.
    """
    local = local_path(root)
    if local is None:
        remove_folder(join(root, folder))
        move(root, [(join(staged, name), join(folder, name)) for name in names])
        return
    whole = f"{staged}.whole"  # what failed tasks left in `staged` stays there
    with outputs.reported(local / folder):
        move(root, [(join(staged, name), join(whole, name)) for name in names])
        outputs.swap(local / whole, local / folder)
        leftovers.remove(local / whole)


def refuse_foreign(root: str, entries: Collection[str], marker: str) -> None:
    """Raise UsageError where a root, which is not local, holds anything but `entries` of an earlier run."""
    there = folders(root, "")
    found = {name for name in there if not name.startswith(".")}
    broken_off = any(name.startswith(STAGING) for name in there)  # a run that was killed may have taken the marker
    foreign = sorted(found - {marker, *entries}) or sorted(() if marker in found or broken_off else found)
    if foreign:
        raise UsageError(f"{root} holds {foreign[0]!r}, which brokerscope did not write; choose another folder")


def copy(source: str, target: str) -> None:
    """A file also under another name: a hard link where there are such. Raises StorageError."""
    here, there = local_path(source), local_path(target)
    if here is not None and there is not None:
        with outputs.reported(target):
            there.parent.mkdir(parents=True, exist_ok=True)
            try:
                there.hardlink_to(here)
            except OSError:
                shutil.copyfile(here, there)
        return
    with open_file(source) as stream, create(target) as copied, _failing(target, "written"):
        shutil.copyfileobj(stream, copied, _COPIED)


def upload(folder: Path, root: str, files: Sequence[Path]) -> None:
    """Copy files of a local folder to the same places below a root."""

    def one(path: Path) -> None:
        with path.open("rb") as source, create(join(root, path.relative_to(folder).as_posix())) as target:
            shutil.copyfileobj(source, target)

    _each(one, files, root)


def download(path: str, target: Path) -> None:
    """Copy a file to a local path, some kilobytes at a time. Raises StorageError."""
    with open_file(path) as source, target.open("wb") as copy, _failing(path, "read"):
        shutil.copyfileobj(source, copy)


def folders(root: str, prefix: str) -> list[str]:
    """Names of what lies in a root and begins so: folders, and on file systems other than the local one files too."""
    local = local_path(root)
    if local is not None:
        return sorted(path.name for path in local.glob(f"{prefix}*")) if local.is_dir() else []
    with suppress(FileNotFoundError), _failing(root, "listed", FileNotFoundError):
        fs, inside = _file_system(root)
        names = map(posixpath.basename, fs.ls(inside, detail=False))
        return sorted(name for name in names if name.startswith(prefix))
    return []


def find(root: str) -> list[str]:
    """All files below a root, by their places there; none where there is no such folder. Raises StorageError."""
    local = local_path(root)
    if local is not None:
        return sorted(path.relative_to(local).as_posix() for path in local.rglob("*") if path.is_file())
    with suppress(FileNotFoundError), _failing(root, "listed", FileNotFoundError):
        fs, inside = _file_system(root)
        return sorted(posixpath.relpath(name, inside) for name in fs.find(inside))
    return []


def remove_folder(path: str) -> None:
    """Remove a folder and all that is in it, if it is there. Raises StorageError."""
    local = local_path(path)
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
        return
    with _failing(path, "removed"):
        fs, inside = _file_system(path)
        if fs.exists(inside):
            fs.rm(inside, recursive=True)


def each(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What a function says of each item; several at a time, for file systems may be far away."""
    from concurrent.futures import ThreadPoolExecutor

    share = max(1, min(_SHARE, len(items) // (4 * _AT_ONCE)))  # a future for each of 100,000 files takes 150 MB
    shares = [items[n : n + share] for n in range(0, len(items), share)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        done = pool.map(lambda some: [function(item) for item in some], shares)
        return [result for results in done for result in results]


def _each(function: Callable[[Any], None], items: Sequence[Any], root: str) -> None:
    with _failing(root, "written"):
        each(function, items)


def file_system(url: str) -> Any:
    """The file system behind a URL, for threads that read one open file at once."""
    from pipelines.storage.threaded_reads import ThreadedReads

    return ThreadedReads(_file_system(url)[0])


def _file_system(path: str) -> tuple[Any, str]:
    fs, inside = stores.file_system(path)
    fs.invalidate_cache()  # of listings: other processes write here too
    return fs, inside
