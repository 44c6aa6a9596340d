"""Temporary folders in the system's place for them: gone with their run, or, where it is killed, with the next one."""

from __future__ import annotations

import atexit
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pipelines.storage import leftovers

_PREFIX = "brokerscope-tmp-"
_NAME = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")
_YOUNG = 60.0  # seconds in which a folder may not have its lock yet


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder that nobody else may read; gone when the block ends."""
    path, handle = _made()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


@contextmanager
def file() -> Iterator[BinaryIO]:
    """A file without a name, gone when the block or the process ends; in a Spark task, where Spark keeps its own."""
    import tempfile

    folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    with tempfile.TemporaryFile(dir=folder if Path(folder).is_dir() and folder else None) as stream:
        yield stream


def until_exit() -> Path:
    """A new folder that nobody else may read; gone when this process ends."""
    path, _ = _made()  # the lock is held until then
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _made() -> tuple[Path, int]:
    import tempfile

    parent = Path(tempfile.gettempdir())
    leftovers.sweep((entry for entry in parent.iterdir() if _NAME.fullmatch(entry.name)), _YOUNG)
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    return path, leftovers.hold(path)
