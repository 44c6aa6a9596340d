"""The capture files that the options of a data source name."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from dissectors.capture import expand, stores
from dissectors.capture.source import exists, is_url
from dissectors.errors import InputError, UsageError
from pipelines.spark import options as spark_options
from pipelines.spark.options import Option
from pipelines.storage import filesystem

_OF_TABLES = {"provider", "owner"}  # Spark adds these where a table is made


def values(name: str, given: Mapping[str, str], options: Sequence[Option]) -> dict[str, Any]:
    """The values of a data source's options. name: of the source. given: what Spark hands over.

    Raises UsageError for an option that is not there or means nothing, and where no captures are named.
    """
    if not given.keys() or given.keys() >= _OF_TABLES:
        raise UsageError(
            f"name the captures: spark.read.format('{name}').load(path), or create temporary view … using {name} "
            "options (path '…'): a table does not keep its options"
        )
    return spark_options.of_source(given, options)


def paths_of(given: Mapping[str, Any]) -> list[str]:
    """The paths that options name; relative ones begin at the folder of this process."""
    named = [*given["paths"], *filter(None, [given["path"]])]
    return [path if is_url(path) else os.path.abspath(path) for path in named]  # noqa: PTH100


def files_of(given: Mapping[str, Any]) -> list[str]:
    """The files that options name, in order. Raises InputError for a path that does not exist."""
    paths = paths_of(given)
    files = expand(paths)
    lacking = {path for path in files if path in paths and not exists(path)}
    if lacking and not given["ignoreMissingFiles"]:
        raise InputError(f"[PATH_NOT_FOUND] Path does not exist: {min(lacking)}")
    return list(_wanted([file for file in files if file not in lacking], paths, given))


def _wanted(files: Sequence[str], paths: Sequence[str], given: Mapping[str, Any]) -> Iterator[str]:
    """Those of the files that Spark's options for files do not leave out."""
    pattern, after, before = (given[name] for name in ("pathGlobFilter", "modifiedAfter", "modifiedBefore"))
    folders = {path.rstrip("/") for path in paths}
    timed = after is not None or before is not None
    times = filesystem.each(modified, files) if timed else [0.0] * len(files)
    for file, time in zip(files, times, strict=True):
        folder, _, name = file.rpartition("/")
        if pattern is not None and not fnmatchcase(name, pattern):
            continue
        if not given["recursiveFileLookup"] and folder not in folders and _below(folder, folders):
            continue
        if (after is None or time > after) and (before is None or time < before):
            yield file


def _below(folder: str, roots: set[str]) -> bool:
    """Whether a folder lies below one of the roots."""
    above = posixpath.dirname(folder)
    while above not in roots and above != posixpath.dirname(above):
        above = posixpath.dirname(above)
    return above in roots


def modified(path: str) -> float:
    """When a file was modified, s since the epoch; 0 where it cannot be asked for."""
    try:
        if is_url(path):
            fs, inside = stores.file_system(path)
            return float(fs.modified(inside).timestamp())
        return stores.local(path).stat().st_mtime
    except Exception:  # every file system has errors of its own
        return 0.0
