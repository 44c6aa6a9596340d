"""Captures as they arrive in a store that somebody writes to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dissectors.capture import expand
from dissectors.capture.source import file_size, is_url, open_capture
from dissectors.errors import InputError
from pipelines.storage import filesystem

LIVE = 3  # looks in a row at which a capture was larger than at the last: it is being written, and will be


def arrivals(
    captures: Sequence[str], every_s: float, wait: Callable[[float], None] = time.sleep
) -> Iterator[list[str]]:
    """The files of a store, each time that some are new or larger; never ends.

    captures: as `capture.expand` takes them; what is not there yet may come. every_s: seconds between two looks. A file
    counts once its size has been the same at two looks: one that is being written is left until it is whole. One that
    goes on growing for LIVE looks counts as it is, if it is not compressed.
    """
    before: dict[str, int] = {}
    given: dict[str, int] = {}
    grown: dict[str, int] = {}  # at so many looks in a row
    while True:
        found = _sizes(captures)
        grown = {path: grown.get(path, 0) + 1 for path, size in found.items() if size > before.get(path, size)}
        ready = {path: size for path, size in found.items() if before.get(path) == size or _is_live(path, grown)}
        if any(given.get(path) != size for path, size in ready.items()):
            given |= ready
            yield [path for path in found if path in ready]
        before = found
        wait(every_s)


def _is_live(path: str, grown: Mapping[str, int]) -> bool:
    """Whether this is a capture to which somebody writes."""
    return grown.get(path, 0) >= LIVE and _is_plain(path)


def _is_plain(path: str) -> bool:
    try:
        _, compression, raw = open_capture(path)
    except InputError:
        return False
    raw.close()
    return compression is None


def _sizes(captures: Sequence[str]) -> dict[str, int]:
    try:
        files = [path for path in expand(captures) if is_url(path) or Path(path).is_file()]  # no folder without any
    except InputError:
        return {}
    return dict(zip(files, filesystem.each(file_size, files), strict=True))
