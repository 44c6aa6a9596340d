"""fsspec's file systems for DuckDB, whose threads seek and read in one open file at once.

No file of fsspec's is made for that: one thread would read where another has sought. Here each has a place of its own.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from fsspec.core import has_magic
from fsspec.spec import AbstractFileSystem

_PASSED = ("exists", "find", "info", "isdir", "isfile", "ls", "modified", "size", "unstrip_protocol")


class ThreadedReads(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Another file system, read only."""

    cachable = False  # fsspec would give one instance for all

    def __init__(self, fs: Any) -> None:
        super().__init__()
        self.protocol = fs.protocol
        self._fs = fs
        for name in (*_PASSED, "_strip_protocol"):
            setattr(self, name, getattr(fs, name))

    def glob(self, path: str, **options: Any) -> list[str]:
        """The files that a pattern fits; a path without one is not looked for: opening it tells whether it is there."""
        found: list[str] = self._fs.glob(path, **options) if has_magic(path) else [self._fs._strip_protocol(path)]
        return found

    def open(self, path: str, mode: str = "rb", **options: Any) -> ThreadedFile:
        """A file to read from."""
        return ThreadedFile(self._fs.open(path, mode, **options))


class ThreadedFile:
    """An open file with a place for each thread."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._thread = threading.local()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, that of this thread."""
        if whence == os.SEEK_CUR:
            offset += self.tell()
        elif whence == os.SEEK_END:
            with self._lock:
                offset = self._file.seek(offset, os.SEEK_END)
        self._thread.place = offset
        return offset

    def tell(self) -> int:
        """The place of this thread."""
        place: int = getattr(self._thread, "place", 0)
        return place

    def read(self, size: int = -1) -> bytes:
        """The bytes that follow."""
        place = self.tell()
        with self._lock:
            self._file.seek(place)
            data: bytes = self._file.read(size)
        self._thread.place = place + len(data)
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Close the file, for all threads."""
        self._file.close()
