"""Captures as they arrive in a store that somebody writes to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dissectors.capture import expand
from dissectors.capture.source import file_size, is_url
from dissectors.errors import InputError
from pipelines import storage


def arrivals(
    captures: Sequence[str], every_s: float, wait: Callable[[float], None] = time.sleep
) -> Iterator[list[str]]:
    """The files of a store, each time that some are new or larger; never ends.

    captures: as `capture.expand` takes them; what is not there yet may come. every_s: seconds between two looks. A file
    counts once its size has been the same at two looks: one that is being written is left until it is whole.
    """
    before: dict[str, int] = {}
    given: dict[str, int] = {}
    while True:
        found = _sizes(captures)
        whole = {path: size for path, size in found.items() if before.get(path) == size}
        if any(given.get(path) != size for path, size in whole.items()):
            given |= whole
            yield list(whole)
        before = found
        wait(every_s)


def _sizes(captures: Sequence[str]) -> dict[str, int]:
    try:
        files = [path for path in expand(captures) if is_url(path) or Path(path).is_file()]  # no folder without any
    except InputError:
        return {}
    return dict(zip(files, storage.each(file_size, files), strict=True))
