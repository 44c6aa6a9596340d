"""Folders in which a run works, below OUT, wherever that lies; and OUT on file systems that replace no folder at once.

    OUT/.brokerscope-<time>-<random>/lease     the time (s since the epoch) at which its run last said that it is alive

Object stores have no locks, so a run renews its lease as long as it works. A folder whose lease has not been renewed
for STALE_S is that of a run that was killed, and the next run removes it. How long a run takes does not matter.
"""

from __future__ import annotations

import os
import posixpath
import re
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.storage import filesystem, scratch
from pipelines.storage.filesystem import StorageError

RENEWED_S = 20.0
STALE_S = 300.0
_STAGING = filesystem.STAGING
_LEASE = "lease"


@contextmanager
def working_folder(root: str) -> Iterator[str]:
    """A name below root for a folder that this run and its tasks may use; gone at the end of the block.

    What runs left there that were killed goes too.
    """
    _sweep(root)
    folder = filesystem.join(root, f"{_STAGING}{int(time.time()):x}-{os.urandom(8).hex()}")
    try:
        with leased(folder):
            yield folder
    finally:
        filesystem.remove_folder(folder)


def run_of(folder: str) -> str:
    """What tells the run that works in a folder from all others."""
    return posixpath.basename(folder).removeprefix(_STAGING)


def live_runs(root: str) -> set[str]:
    """The runs that work below a root."""
    return {run_of(name) for name in filesystem.folders(root, _STAGING) if is_leased(filesystem.join(root, name))}


@contextmanager
def leased(folder: str) -> Iterator[None]:
    """Say, as long as the block runs, that a run works in this folder."""
    over = threading.Event()
    place = filesystem.join(folder, _LEASE)

    def renew() -> None:
        while not over.wait(RENEWED_S):
            with suppress(StorageError):  # next time, perhaps
                filesystem.write(place, _now())

    filesystem.write(place, _now())
    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def is_leased(folder: str) -> bool:
    """Whether a run works in a folder, or may."""
    said = filesystem.read(filesystem.join(folder, _LEASE))
    if said is None:  # not yet, or of a release that wrote none
        began = run_of(folder).partition("-")[0]
        said = str(int(began, 16)).encode() if re.fullmatch("[0-9a-f]{8}", began) else b""
    try:
        return time.time() - float(said) < STALE_S
    except ValueError:
        return False


def _now() -> bytes:
    return f"{time.time():.0f}".encode()


def _sweep(root: str) -> None:
    """Remove the folders of runs that were killed."""
    for name in filesystem.folders(root, _STAGING):
        folder = filesystem.join(root, name)
        if not is_leased(folder):
            filesystem.remove_folder(folder)


@contextmanager
def replaced(root: str, entries: Sequence[str], marker: str) -> Iterator[tuple[Path, str]]:
    """(a local folder, the working folder of the run): what lies in the local one stands at root once the block ends.

    Of what stands at root, `entries` are replaced, those that are not made again removed. The marker goes first and
    comes last, so where it is, all entries are of one run. A block that fails, or makes nothing, leaves what stood
    there. Nothing is moved: files are written where they stay.
    """
    with working_folder(root) as working, scratch.folder() as folder:
        yield folder, working
        made = [path for path in folder.rglob("*") if path.is_file()]
        if not made:
            return
        filesystem.remove(root, [marker])
        for entry in entries:
            filesystem.remove_folder(filesystem.join(root, entry))
        filesystem.upload(folder, root, [path for path in made if path.name != marker or path.parent != folder])
        filesystem.upload(folder, root, [path for path in made if path.name == marker and path.parent == folder])


def keep_only(root: str, folder: str, wanted: Collection[str] | None, run: str) -> None:
    """Remove the files of a folder below root that are not wanted; those of other runs that are alive stay.

    wanted: by their places in the folder; None: all but those of this run, whose names say so.
    """
    place = filesystem.join(root, folder)
    there = filesystem.find(place)
    if wanted is None:
        gone = [name for name in there if run in name]
    else:
        alive = live_runs(root) - {run}
        gone = [name for name in there if name not in wanted and not any(one in name for one in alive)]
    filesystem.remove(place, gone)
