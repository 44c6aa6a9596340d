"""Bytes of a capture file, whatever it lies in: a path, a URL that fsspec opens, `-` for standard input; plain, gzip,
zstd, lz4, xz or bz2, known by content and never by name.
"""

from __future__ import annotations

import io
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO, cast

from dissectors.capture import stores
from dissectors.errors import InputError
from dissectors.limits import KIB, MIB, Limits

STDIN = "-"
_PEEK = 16
_FIRST_BYTES = 256 * KIB  # of a capture that are read at once: the first rows come soon
_REMOTE_BYTES = 4 * MIB  # fetched beyond what is asked for, from a file system that reads ahead
_PATIENCE = 0.25  # seconds for which more is waited for when a pipe has given some bytes


def _gzip(raw: IO[bytes]) -> IO[bytes]:
    import gzip

    return cast(IO[bytes], gzip.GzipFile(fileobj=raw))


def _bz2(raw: IO[bytes]) -> IO[bytes]:
    import bz2

    return bz2.BZ2File(raw)


def _xz(raw: IO[bytes]) -> IO[bytes]:
    import lzma

    return lzma.LZMAFile(raw)


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], _Zstd(raw))


def _lz4(raw: IO[bytes]) -> IO[bytes]:
    import lz4.frame

    return cast(IO[bytes], lz4.frame.LZ4FrameFile(raw))


SUFFIXES = ("gz", "zst", "lz4", "xz", "bz2")  # by which names of compressed files end
# first bytes -> name, reader
COMPRESSIONS: tuple[tuple[bytes, str, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (b"\x1f\x8b", "gzip", _gzip),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
    (b"\x04\x22\x4d\x18", "lz4", _lz4),
    (b"\xfd7zXZ\x00", "xz", _xz),
    (b"BZh", "bz2", _bz2),
)


class _Zstd:
    """Zstandard frames, one after another. The library's own reader takes a cut-off file for a whole one."""

    _STEP = 2048  # compressed bytes at a time: at most 128 KiB come of 4 of them, so 64 MiB

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        self._raw = raw
        self._frames = zstandard.ZstdDecompressor()
        self._frame: Any = None  # the one that is being read
        self._out = memoryview(b"")  # decompressed, not yet given away

    def read(self, size: int) -> bytes:
        """At least one byte and at most `size`; none at the end. Raises EOFError inside a frame."""
        while not self._out:
            data = self._raw.read(self._STEP)
            if not data:
                if self._frame is not None:
                    raise EOFError("the file ends inside a zstd frame")
                return b""
            self._out = memoryview(b"".join(self._decompressed(data)))
        data, self._out = bytes(self._out[:size]), self._out[size:]
        return data

    def _decompressed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._frame is None:
                self._frame = self._frames.decompressobj()
            yield self._frame.decompress(data)
            if not self._frame.eof:
                return
            data, self._frame = self._frame.unused_data, None


class _Prefixed(io.RawIOBase):
    """A stream that cannot seek, with the bytes already read from it put back in front. It may still be written to."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest
        self.paused = False  # what was read last is less than was asked for: more is to come, but was not there yet

    def wait(self, seconds: float) -> bool:
        """Whether there is something to read within that time."""
        try:
            return self._head != b"" or bool(select.select([self._rest], [], [], max(0.0, seconds))[0])
        except (OSError, ValueError):  # not a file of the system: it does not wait
            return True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._head:
            if size < 0:
                out, self._head = self._head + self._rest.read(), b""
                return out
            out, self._head = self._head[:size], self._head[size:]
            return out
        return self._rest.read(size)

    def read1(self, size: int = -1) -> bytes:
        """At least one byte, as soon as it is there; none at the end."""
        if self._head:
            return self.read(size)
        data: bytes = getattr(self._rest, "read1", self._rest.read)(size)
        return data

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


def is_url(path: str) -> bool:
    """Whether fsspec, not the local file system, opens this."""
    return "://" in path


def exists(path: str) -> bool:
    """Whether there is such a file or folder; True where it cannot be asked for: whoever opens it learns why."""
    try:
        if is_url(path):
            fs, inside = stores.file_system(path)
            return bool(fs.exists(inside))
        return stores.local(path).exists()
    except Exception:  # every file system has errors of its own
        return True


def file_size(path: str) -> int:
    """Bytes of a file; 0 where it cannot be asked for: whoever opens it learns why."""
    try:
        if is_url(path):
            fs, inside = stores.file_system(path)
            return int(fs.size(inside) or 0)
        return stores.local(path).stat().st_size
    except Exception:  # every file system has errors of its own
        return 0


def open_raw(path: str, ahead: int = _REMOTE_BYTES) -> BinaryIO:
    """The bytes of a file, compressed as they are. ahead: bytes fetched beyond what is asked for. Raises InputError."""
    try:
        if path == STDIN:
            if sys.stdin is None:  # closed from the start
                raise InputError(f"{path}: is closed")
            return sys.stdin.buffer
        if is_url(path):
            return _open_url(path, ahead)
        return stores.local(path).open("rb")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: no capture in this folder") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be opened: {error}") from error


def _open_url(path: str, ahead: int) -> BinaryIO:
    try:
        fs, inside = stores.file_system(path)
        block = {"block_size": ahead} if fs.async_impl else {}  # object stores; 50 MiB else
        file = fs.open(inside, "rb", **block)
    except (FileNotFoundError, IsADirectoryError):
        raise
    except Exception as error:  # every file system has errors of its own
        raise InputError(f"{path}: cannot be opened: {error}") from error
    return cast(BinaryIO, io.BufferedReader(_Raw(file), ahead) if isinstance(file, io.RawIOBase) else file)


class _Raw(io.RawIOBase):
    """A file that reads from afar whatever it is asked for, as one that can be buffered."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._file.read(len(view)) or b""
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Beginning(io.RawIOBase):
    """The first bytes of a file to which more may be written, as if it ended there."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(self._size + offset if whence == io.SEEK_END else offset, whence % 2)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._file.read(min(len(view), max(0, self._size - self._file.tell())))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def open_capture(
    path: str, ahead: int = _REMOTE_BYTES, size: int | None = None
) -> tuple[IO[bytes], str | None, BinaryIO]:
    """(stream of decompressed bytes, compression or None, the raw file, whose position shows the progress).

    size: bytes of the file that count, from its beginning; all where it is None.
    """
    raw = open_raw(path, ahead)
    if size is not None:
        raw = cast(BinaryIO, io.BufferedReader(_Beginning(raw, size), _FIRST_BYTES))
    try:
        head = raw.read(_PEEK)
    except OSError as error:
        raw.close()
        raise InputError(f"{path}: cannot be read: {error}") from error
    stream: IO[bytes] = raw
    if path != STDIN and raw.seekable():
        raw.seek(0)
    else:
        stream = cast(IO[bytes], _Prefixed(head, raw))
    for magic, name, reader in COMPRESSIONS:
        if head.startswith(magic):
            return reader(stream), name, raw
    return stream, None, raw


def block_sizes(limits: Limits) -> Iterator[int]:
    """How much of a capture to read at once, time after time: little at first, then as much as a block holds."""
    size = min(_FIRST_BYTES, limits.block_bytes)
    while True:
        yield size
        size = min(2 * size, limits.block_bytes)


def step_back(stream: IO[bytes], size: int) -> bool:
    """Let a plain file give its last bytes again: that costs less than to put them in front of the next ones.

    False where the stream cannot, or not cheaply.
    """
    if not isinstance(stream, io.BufferedReader):
        return False
    stream.seek(-size, io.SEEK_CUR)
    return True


def read_fully(stream: IO[bytes], size: int, *, pauses: bool = False) -> tuple[bytes, str | None]:
    """Up to `size` bytes; and why the stream broke off, if it did (damaged compression).

    Fewer only at the end or, with `pauses`, where a pipe gives no more for now; none only at the end.
    """
    parts: list[bytes] = []
    have = 0
    pipe = stream if pauses and isinstance(stream, _Prefixed) else None
    until: float | None = None
    if pipe is not None:
        pipe.paused = False
    read = getattr(stream, "read1", stream.read)  # one step at a time: what was decompressed before damage is kept
    while have < size:
        try:
            data = read(size - have)
        except Exception as error:  # each codec library raises its own; all mean the same here
            return b"".join(parts), f"{type(error).__name__}: {error}"
        if not data:
            break
        parts.append(data)
        have += len(data)
        if pipe is not None and have < size:
            now = time.monotonic()
            until = now + _PATIENCE if until is None else until
            if not pipe.wait(until - now) or now > until:
                pipe.paused = True
                break
    return (parts[0] if len(parts) == 1 else b"".join(parts)), None
