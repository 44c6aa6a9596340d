"""Where captures lie that an OUT names: relative names are of the folder in which `analyze` ran, not of today's.

OUT/analysis.json keeps that folder, as a path of its own and as one from OUT, so the captures are found from anywhere,
and also where OUT and captures were moved together. A store that is updated from several folders keeps them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dissectors.capture.source import exists
from pipelines.storage import filesystem
from pipelines.storage.layout import read_about

FOLDERS = "folders"
"""The key in analysis.json: objects with `path` and, of a local OUT, `from_out`; the last run's first."""
_MOST = 100  # folders that are kept of a store


def folders_of_run(files: Iterable[str], out: Path, store: str | None) -> dict[str, list[dict[str, str]]]:
    """What analysis.json keeps of a run in the working folder, and of those before; nothing where no name needs it.

    out: OUT, or a folder beside it that becomes OUT; store: the path or URL of a store that is updated.
    """
    before = list(_kept(store)) if store is not None else []
    if not before and not any(_is_relative(file) for file in files):
        return {}
    here = {"path": str(Path.cwd())}
    local = out if store is None else filesystem.local_path(store)
    if local is not None:
        here["from_out"] = os.path.relpath(here["path"], local)
    return {FOLDERS: [here, *(folder for folder in before if folder != here)][:_MOST]}


def captures(out: str, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths of captures that records of OUT name, as far as they are there; and of those that are not."""
    folders = list(_folders(out)) if any(map(_is_relative, names)) else []
    there: list[str] = []
    gone: list[str] = []
    for name in names:
        found = name
        if _is_relative(name):
            found = next((path for folder in folders if exists(path := str(folder / name))), name)
            if found != name and exists(name) and Path(found).samefile(name):
                found = name  # as records name it
        (there if exists(found) else gone).append(found)
    return there, gone


def _is_relative(name: str) -> bool:
    return "://" not in name and not Path(name).is_absolute()


def _folders(out: str) -> Iterator[Path]:
    """Where relative names may be of: as OUT lies now, and as the folders lay then."""
    for folder in _kept(out):
        if "from_out" in folder:
            yield Path(out, folder["from_out"])
        yield Path(folder["path"])


def _kept(out: str) -> Iterator[dict[str, str]]:
    """The folders that analysis.json has, as far as they are what a run writes."""
    found = read_about(out).get(FOLDERS)
    for folder in found if isinstance(found, list) else ():
        if isinstance(folder, dict) and all(isinstance(value, str) for value in folder.values()) and "path" in folder:
            yield folder
