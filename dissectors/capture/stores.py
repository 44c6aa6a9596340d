"""Where paths and URLs lead: the folder of relative paths, and fsspec's file systems with the options set for them.

A place is a scheme and a host: ("s3", bucket), ("abfs", account.dfs.core.windows.net); all of them where host is "".
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Options = dict[str, Any]
Place = tuple[str, str]

_ALIASES = {"s3": ("s3", "s3a"), "abfs": ("abfs", "abfss", "az"), "gs": ("gs", "gcs")}
_SCHEMES = {alias: scheme for scheme, aliases in _ALIASES.items() for alias in aliases}
_set: dict[Place, Options] = {}
_folder = Path()


def set_options(places: Mapping[Place, Options]) -> None:
    """Use these options for URLs of these places, and none that were set before."""
    _set.clear()
    _set.update(places)


def set_folder(folder: Path) -> None:
    """Let relative paths begin at this folder, whatever the current one of this process is."""
    global _folder
    _folder = folder


def local(path: str) -> Path:
    """The file of the local file system that a path means."""
    return _folder / path


def all_options() -> dict[Place, Options]:
    """What was set, by place."""
    return dict(_set)


def file_system(url: str) -> tuple[Any, str]:
    """(the file system of a URL, its path there). Raises what that file system raises."""
    import fsspec

    return fsspec.core.url_to_fs(url, **options(url))  # type: ignore[no-any-return]


def options(url: str) -> Options:
    """What was set for a URL: for its host, else for all of its scheme. fsspec's own settings win."""
    if not _set:
        return {}
    from fsspec.config import conf

    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    found = _set.get((scheme, parts.netloc.rpartition("@")[2]), _set.get((scheme, ""), {}))
    theirs = {name for alias in _ALIASES.get(scheme, ()) for name in conf.get(alias, {})}
    return {name: deepcopy(value) for name, value in found.items() if name not in theirs}
