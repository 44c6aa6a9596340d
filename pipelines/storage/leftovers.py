"""What killed runs leave behind: a run locks its temporary files and folders, so those without a lock are nobody's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path


def lock(handle: int) -> bool:
    """Take the lock of an open file; whether it was free. Raises OSError where the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def hold(folder: Path) -> int:
    """Take the lock of a temporary folder, where the file system has locks: the handle that keeps it until closed."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.suppress(OSError):
        lock(handle)
    return handle


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a temporary folder while the block runs, where the file system has locks."""
    handle = hold(folder)
    try:
        yield
    finally:
        os.close(handle)


def in_use(path: Path) -> bool:
    """Whether the run that made a temporary file or folder is alive, or may be."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return path.exists()
    try:
        return not lock(handle)
    except OSError:  # a file system without locks: nothing is known, so nothing is removed
        return True
    finally:
        os.close(handle)


def is_mine(path: Path) -> bool:
    """Whether it belongs to this user; False where it is gone, for its run has just finished."""
    with contextlib.suppress(OSError):
        return path.lstat().st_uid == os.geteuid()
    return False


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all that it holds, as far as that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def sweep(folders: Iterable[Path], young: float) -> None:
    """Remove those that runs of this user left when they were killed.

    young: seconds in which a folder may not have its lock yet.
    """
    for folder in folders:
        with contextlib.suppress(OSError):  # its run has just finished
            old = not folder.is_symlink() and time.time() - folder.stat().st_mtime > young
            if old and is_mine(folder) and not in_use(folder):
                remove(folder)
