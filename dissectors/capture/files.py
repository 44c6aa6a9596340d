"""Which files a user means, and which of them were captured at one place."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from dissectors.capture import stores
from dissectors.capture.dates import undated
from dissectors.capture.reader import is_capture
from dissectors.capture.source import STDIN, SUFFIXES, is_url
from dissectors.errors import InputError, UsageError
from dissectors.redaction import public_path

_MAGIC = re.compile(r"[*?\[]")
_FILE = "file://"  # such URLs are listed as the paths that they are
_NAME = re.compile(rf"\.(pcap|pcapng|cap)[\d._-]*(\.({'|'.join(SUFFIXES)}))?$", re.IGNORECASE)
"""How the name of a capture ends; numbers and dates are those of files that were rotated."""
_AT_ONCE = 16  # files that are looked into at the same time
PLACE, FOLDER, FILE = "place", "folder", "file"  # rules that name capture points, beside regular expressions


def expand(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The capture files that paths mean: files, folders (with all below them) and globs, local ones and fsspec's URLs.

    Files of a folder that look like captures neither by name nor by their first bytes are left out. Any other file
    stays, so that who opens it says what is wrong with it; so does a folder or a glob in which there is no file. Raises
    UsageError for an empty path, InputError where a file system cannot list.
    """
    out: dict[str, None] = {}
    for given in paths:
        path = os.fspath(given)
        if not path:
            raise UsageError("the name of a capture is empty")
        is_folder, found = (_in_store if is_url(path) and not path.startswith(_FILE) else _on_disk)(path)
        names = sorted(name for name in found if not name.rpartition("/")[2].startswith("."))
        out.update(dict.fromkeys((_captures(names) if is_folder else names) or [path]))
    return list(out)


def _captures(names: Sequence[str]) -> list[str]:
    """Those of a folder's files that are captures by name, else by their first bytes."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        wanted = pool.map(lambda name: _NAME.search(name) or is_capture(name), names)
        return [name for name, is_wanted in zip(names, wanted, strict=True) if is_wanted]


def _on_disk(path: str) -> tuple[bool, list[str]]:
    """(whether this is a folder, the files below it or those that a glob names): none of any other path.

    Folders that cannot be looked into count as files; pipes, devices and the like, which may never end, do not.
    """
    head, root = (_FILE, path.removeprefix(_FILE)) if path.startswith(_FILE) else ("", path)
    found: list[str] = []
    is_folder = os.path.isdir(root)  # noqa: PTH112 - which says no to names that are too long
    closed: list[str] = []
    if is_folder:
        for at, _, names in os.walk(root, onerror=lambda error: closed.append(error.filename)):
            found += (str(Path(at, name)) for name in names)
    elif root != STDIN and _MAGIC.search(root) and not Path(root).exists():
        found = glob.glob(root, recursive=True)
    files = [name for name in found if Path(name).is_file() or not Path(name).exists()]  # a broken link is reported
    return is_folder, [head + name for name in files + closed]


def _in_store(url: str) -> tuple[bool, list[str]]:
    """(whether this is a folder, the files below it or those that a glob names): none of any other URL."""
    is_glob = _MAGIC.search(url) is not None
    try:
        fs, inside = stores.file_system(url)
        fs.invalidate_cache()  # of listings: there may be more than last time
        if not is_glob and not fs.isdir(inside):
            return False, []
        found = (fs.glob if is_glob else fs.find)(inside, detail=True)
    except Exception as error:  # every file system has errors of its own
        raise InputError(f"{url}: cannot be listed: {error}") from error
    # scheme, user and host as they were given: not every file system has them in its names
    given, known = _heads(url.rstrip("/"), inside.rstrip("/"))
    names = [name for name, about in found.items() if about["type"] != "directory"]
    return not is_glob, [
        given + name[len(known) :] if name.startswith(known) else fs.unstrip_protocol(name) for name in names
    ]


def _heads(url: str, inside: str) -> tuple[str, str]:
    """How all URLs of a file system begin, and how its names do. inside: the name of what is behind `url`."""
    if url.endswith(f"/{inside}"):  # s3://bucket/file is bucket/file
        return url.removesuffix(inside), ""
    steps = inside.split("/")
    for n in range(len(steps)):
        same = "/" + "/".join(steps[n:])
        if url.endswith(same):  # abfs://box@account/file is box/file
            return url.removesuffix(same), inside.removesuffix(same)
    return url, inside


def site_of(path: str, rule: str, joined: Mapping[str, str] | None = None) -> str:
    """The capture point of a file.

    rule: `place`: its folder, less what of the path is a date or an hour; `folder`: its folder; `file`: itself; else a
    regular expression: what it finds in the path, of groups the first that takes part. joined: of `place`: sites that
    are one with another, as `sites.joined_sites` finds them.
    """
    path = public_path(path)
    if rule == FILE:
        return path
    folder = path.rpartition("/")[0] if is_url(path) else str(Path(path).parent)
    if rule == FOLDER:
        return folder
    if rule == PLACE:
        place = _undated(folder)
        return joined.get(place, place) if joined else place
    try:
        match = re.search(rule, path)
    except re.error as error:
        raise InputError(f"--site {rule}: {error}") from error
    if match is None:
        return folder
    named = (group for group in match.groups() if group is not None)  # of (a)|(b), one takes no part
    return next(named, match.group(0))


@lru_cache(maxsize=1 << 12)
def _undated(folder: str) -> str:
    """A folder without those above it, and itself, that are dates."""
    scheme, sign, path = folder.rpartition("://")
    first, *rest = path.split("/")  # a host, or nothing before the root
    parts = [first, *undated(rest)] if sign or not first else undated([first, *rest])
    return scheme + sign + "/".join(parts) or ("/" if folder.startswith("/") else ".")
