"""Outputs that appear whole or not at all.

An output is written under a temporary name beside its place and renamed when it is whole. A run that fails, is killed
or is interrupted leaves what stood there. Temporary names are random; a run holds a lock on its own, so the next run
into the same folder knows the leftovers of killed runs from the work of live ones, and removes them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dissectors.errors import BrokerscopeError, UsageError
from pipelines.storage import leftovers

_INFIX = ".brokerscope-"
_TEMPORARY = re.compile(rf"\.(.*){re.escape(_INFIX)}[0-9a-f]{{16}}(\.old)?")
_STEM = 100  # characters of an output's name in its temporary name: names hold 255 bytes
_PATIENCE = 2.0  # seconds to wait for another run that lists the same folder
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
UNWRITABLE = FULL | {errno.EIO, errno.EROFS}


class OutputError(BrokerscopeError):
    """An output cannot be written."""


class OutputIsInputError(UsageError):
    """Writing the output would destroy an input, or what another program made."""


@contextlib.contextmanager
def file(path: str | os.PathLike[str], inputs: Iterable[str] = ()) -> Iterator[BinaryIO]:
    """A stream whose bytes stand at `path` once the block ends well; until then, what stood there stays.

    Devices and pipes are written to directly. Raises OutputIsInputError where `path` is one of `inputs`, by any name or
    link, and OutputError where it cannot be written.
    """
    target = Path(os.path.realpath(path))  # a link stays, and what it points to is replaced
    refuse_inputs(path, inputs)
    with reported(path):
        if target.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder")
        if target.exists() and not target.is_file():
            with target.open("wb") as stream:
                yield stream
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(target, folder=False) as temporary:
            with temporary.open("wb") as stream:
                yield stream
            _take_mode(temporary, target)
            temporary.replace(target)


@contextlib.contextmanager
def folder(
    path: str | os.PathLike[str], *, marker: str, entries: Collection[str], inputs: Iterable[str] = ()
) -> Iterator[Path]:
    """An empty folder to write into, which stands at `path` once the block ends well and replaces what stood there.

    An existing folder is replaced only if it is empty, or holds `marker` and nothing but `entries` (what earlier runs
    wrote). Raises OutputIsInputError where it holds anything else or one of `inputs`, OutputError where it cannot be
    written, and BrokerscopeError where another run is writing it.
    """
    target = Path(os.path.realpath(path))
    refuse_inputs(path, inputs)
    with contextlib.ExitStack() as stack:
        with reported(path):
            if target.exists() and not target.is_dir():
                raise OutputError(f"cannot write {path}: it is a file, not a folder")
            _refuse_foreign(path, target, marker, entries)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(_temporary(target, folder=True))
        with reported(path, UNWRITABLE):
            yield temporary
        with reported(path):
            _refuse_foreign(path, target, marker, entries)
            _take_mode(temporary, target)
            swap(temporary, target)


@contextlib.contextmanager
def files(
    path: str | os.PathLike[str], *, ours: Callable[[str], object], inputs: Collection[str] = ()
) -> Iterator[Path]:
    """An empty folder to write files into, which stand in the folder at `path` together once the block ends well.

    What else is in the folder stays. Where it is not there yet, or holds nothing but files that runs write (`ours`
    knows their names), all appears in one step. A folder with anything else is its owner's: it is not replaced, and the
    files, once all are whole, are renamed into it one after the other. Raises OutputIsInputError where a file that runs
    write is one of `inputs`, OutputError where it cannot be written, and BrokerscopeError where
    another run is writing it.
    """
    target = Path(os.path.realpath(path))
    refuse_no_name(path)
    with contextlib.ExitStack() as stack:
        with reported(path):
            if target.exists() and not target.is_dir():
                raise OutputError(f"cannot write {path}: it is a file, not a folder")
            for name in filter(ours, _entries(target)):
                refuse_inputs(target / name, inputs)
            target.parent.mkdir(parents=True, exist_ok=True)
            place = target if _may_be_exchanged(target, ours) else target / target.name
            temporary = stack.enter_context(_temporary(place, folder=True))
        with reported(path, UNWRITABLE):
            yield temporary
        with reported(path):
            names = _entries(temporary)
            if not names:
                return
            if place == target and _may_be_exchanged(target, ours):
                for name in _entries(target) - names:
                    os.link(target / name, temporary / name)
                _take_mode(temporary, target)
                swap(temporary, target)
                return
            for name in names:
                _take_mode(temporary / name, target / name)
                (temporary / name).replace(target / name)


def _may_be_exchanged(target: Path, ours: Callable[[str], object]) -> bool:
    """Whether a folder may be put in the place of this one: it is not there, or only what runs wrote is in it."""
    if not target.exists():
        return True
    if target.is_mount() or os.path.realpath(".") == str(target) or not os.access(target.parent, os.W_OK):
        return False
    return all(ours(entry) and (target / entry).is_file() for entry in _entries(target))


def _entries(target: Path) -> set[str]:
    return {entry.name for entry in target.iterdir()} if target.is_dir() else set()


def refuse_no_name(path: str | os.PathLike[str]) -> None:
    """Raise UsageError where the path of an output is empty."""
    if not os.fspath(path):
        raise UsageError("the name of the output is empty")


def refuse_unqueryable(path: str | os.PathLike[str]) -> None:
    """Raise OutputError where DuckDB would not find what is written: it takes text, and a backslash for a slash."""
    target = os.path.realpath(path)
    if "\\" in target:
        raise OutputError(f"cannot write {os.fspath(path)}: there is a backslash in its path")
    if target.encode("utf-8", "replace").decode() != target:
        raise OutputError(f"cannot write {os.fspath(path)}: its path is not valid UTF-8")


def refuse_inputs(path: str | os.PathLike[str], inputs: Iterable[str]) -> None:
    """Raise OutputIsInputError where one of `inputs` is the file at `path`, or lies in the folder at `path`.

    UsageError where `path` is empty.
    """
    refuse_no_name(path)
    target = Path(os.path.realpath(path))
    for given in inputs:
        same = _is_same(given, target)
        if same or (target.is_dir() and target in Path(os.path.realpath(_local(given))).parents):
            what = "is" if same else "holds"
            raise OutputIsInputError(f"{os.fspath(path)!r} {what} the input {given!r}: name another output")


def refuse_within(path: str | os.PathLike[str], parts: Iterable[Path]) -> None:
    """Raise OutputIsInputError where `path` is one of these files, or lies in one of these folders."""
    target = Path(os.path.realpath(path))
    for part in parts:
        whole = Path(os.path.realpath(part))
        if target == whole or whole in target.parents:
            raise OutputIsInputError(f"{os.fspath(path)!r} is part of what `analyze` wrote; choose another output")


def _is_same(given: str, target: Path) -> bool:
    """Whether an input is the file at `target`, by whatever name."""
    with contextlib.suppress(OSError, ValueError):  # a remote URL, or not there
        stats = os.fstat(sys.stdin.fileno()) if given == "-" else Path(_local(given)).stat()
        return os.path.samestat(stats, target.stat())
    return False


def _local(given: str) -> str:
    """A local path, also where it was given as a URL."""
    return re.sub(r"^(file|local)://", "", given)


def _take_mode(new: Path, target: Path) -> None:
    """Give a new file the permissions of the one that it replaces."""
    if target.exists():
        new.chmod(stat.S_IMODE(target.stat().st_mode))


def _refuse_foreign(path: str | os.PathLike[str], target: Path, marker: str, entries: Collection[str]) -> None:
    if not target.is_dir():
        return
    found = _entries(target)
    foreign = sorted(found - {marker, *entries}) or sorted(found if marker not in found else ())
    if foreign:
        name = os.fspath(path)
        raise OutputIsInputError(
            f"{name!r} holds {foreign[0]!r}, which brokerscope did not write; choose another folder"
        )


# --- temporary names -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _temporary(target: Path, *, folder: bool) -> Iterator[Path]:
    """A new file or folder beside `target`, locked while the block runs and gone afterwards, if it is still there."""
    name = f".{target.name[:_STEM]}{_INFIX}"
    with _listing(target.parent):
        _sweep(target, alone=folder)
        temporary = target.parent / f"{name}{os.urandom(8).hex()}"
        if folder:
            temporary.mkdir()
            lock = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
        else:
            lock = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with contextlib.suppress(OSError):
            leftovers.lock(lock)
    try:
        yield temporary
    finally:
        leftovers.remove(temporary)
        os.close(lock)


def _sweep(target: Path, *, alone: bool) -> None:
    """Remove what killed runs left in the output's folder. `alone`: no other run may be writing the same output."""
    for entry in target.parent.iterdir():
        named = _TEMPORARY.fullmatch(entry.name)
        if named is None or entry.is_symlink() or not leftovers.is_mine(entry):
            continue
        ours = named[1] == target.name[:_STEM]
        if leftovers.in_use(entry):
            if alone and ours:
                raise BrokerscopeError(f"cannot write {target}: another run is writing it")
        elif named[2] and ours and not target.exists():
            entry.rename(target)  # the run was killed between two renames
        else:
            leftovers.remove(entry)


@contextlib.contextmanager
def _listing(parent: Path) -> Iterator[None]:
    """One run at a time looks at the temporary names of a folder and adds its own."""
    handle = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        end = time.monotonic() + _PATIENCE
        with contextlib.suppress(OSError):
            while not leftovers.lock(handle) and time.monotonic() < end:
                time.sleep(0.01)
        yield
    finally:
        os.close(handle)


# --- putting it in its place -----------------------------------------------------------------------------------------


def swap(new: Path, target: Path) -> None:
    """Put a file or folder in the place of another; `new` may hold the old one afterwards."""
    if not target.exists():
        new.rename(target)
    elif not _exchange(new, target):
        aside = new.with_name(new.name + ".old")
        target.rename(aside)
        try:
            new.rename(target)
        except BaseException:
            aside.rename(target)
            raise
        leftovers.remove(aside)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step, where the system can (Linux)."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    done: int = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return done == 0


@contextlib.contextmanager
def reported(path: str | os.PathLike[str], only: Collection[int] | None = None) -> Iterator[None]:
    """What the system says against writing, as one sentence; `only` these error numbers, where given."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or (only is not None and error.errno not in only):
            raise
        raise OutputError(f"cannot write {os.fspath(path)}: {reason(error)}") from error


def is_full(error: BaseException | None) -> bool:
    """Whether an error comes of a disk, or a share of one, that is full."""
    return error is not None and (getattr(error, "errno", None) in FULL or is_full(error.__cause__))


def reason(error: OSError) -> str:
    """Why the system refused, without the words that libraries put around it."""
    return os.strerror(error.errno) if error.errno else str(error)
