"""Captures as a Python program has them: paths, open files, bytes; all as paths that a run reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from dissectors.errors import UsageError

CaptureInput: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO"
"""A path, glob, folder or URL; the bytes of a capture; a file that is open for reading in binary mode."""


@contextmanager
def as_paths(given: CaptureInput | Sequence[CaptureInput]) -> Iterator[list[str]]:
    """The paths of captures. Bytes and files without a path are written to a temporary folder, gone after the block.

    A file on disk that nothing was read of is read by its path. Raises UsageError for what is no capture at all.
    """
    every = list(given) if isinstance(given, Iterable) and not _is_one(given) else [given]
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="brokerscope-") as folder:
        yield [_path(one, Path(folder, f"capture-{number}.pcap")) for number, one in enumerate(every, 1)]


def _is_one(given: object) -> bool:
    return isinstance(given, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(given, "read")


def _path(one: Any, place: Path) -> str:
    """The path of one capture; `place` is where bytes without one are kept."""
    if isinstance(one, (str, os.PathLike)):
        return os.fspath(one)
    if isinstance(one, (bytes, bytearray, memoryview)):
        place.write_bytes(one)
        return str(place)
    if not hasattr(one, "read"):
        raise UsageError(f"a capture is a path, bytes or a file open in binary mode, not {type(one).__name__}")
    name = getattr(one, "name", None)
    if isinstance(name, str) and Path(name).is_file() and one.seekable() and one.tell() == 0:
        return name
    if not isinstance(one.read(0), bytes):
        raise UsageError("a file that is open as text is no capture: open it in binary mode, 'rb'")
    with place.open("wb") as copy:
        shutil.copyfileobj(one, copy)
    return str(place)
