"""Which files a user means, and which of them were captured at one place."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from dissectors.capture import stores
from dissectors.capture.reader import is_capture
from dissectors.capture.source import STDIN, is_url
from dissectors.errors import InputError, NoNameError
from dissectors.redaction import public_path

_MAGIC = re.compile(r"[*?\[]")


def expand(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Files, folders (every capture below them, other files passed over) and globs, local or fsspec URLs, as files.

    A file that is named stays, whatever it is; so does a folder or glob in which there is no capture: who opens it is
    given what is wrong, and the others are read.
    """
    out: dict[str, None] = {}
    for given in paths:
        path = os.fspath(given)
        if not path:
            raise NoNameError("the name of a capture is empty")
        if path == STDIN:
            found = [path]
        elif is_url(path):
            found = _expand_url(path)
        elif os.path.isdir(path):  # noqa: PTH112 - which says no to names that are too long
            found = _below(path)
        elif _MAGIC.search(path) and not Path(path).exists():
            found = sorted(p for p in glob.glob(path, recursive=True) if Path(p).is_file())
        else:
            found = [path]
        out.update(dict.fromkeys(found or [path]))
    return list(out)


def _below(folder: str) -> list[str]:
    """The captures in a folder and those below it, and what cannot be looked into: who opens it learns why."""
    found: list[str] = []
    for at, _, names in os.walk(folder, onerror=lambda error: found.append(str(error.filename))):
        for path in (str(Path(at, name)) for name in names if not name.startswith(".")):
            if Path(path).is_file() and (is_capture(path) or not os.access(path, os.R_OK)):
                found.append(path)
    return sorted(found)


def _expand_url(path: str) -> list[str]:
    try:
        fs, inside = stores.file_system(path)
        fs.invalidate_cache()  # of listings: there may be more than last time
        if _MAGIC.search(path):
            names = sorted(fs.glob(inside))
        elif fs.isdir(inside):
            names = sorted(fs.find(inside))
        else:
            return [path]
    except Exception as error:  # every file system has errors of its own
        raise InputError(f"{path}: cannot be listed: {error}") from error
    # scheme, user and host as they were given: not every file system has them in its names
    given, known = _heads(path.rstrip("/"), inside.rstrip("/"))
    return [given + name[len(known) :] if name.startswith(known) else fs.unstrip_protocol(name) for name in names]


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


def site_of(path: str, rule: str) -> str:
    """The capture point of a file: by `folder`, by `file`, or what a regular expression finds in its path.

    Of groups, that is the first that takes part.
    """
    path = public_path(path)
    if rule == "file":
        return path
    if rule == "folder":
        return path.rpartition("/")[0] if is_url(path) else str(Path(path).parent)
    try:
        match = re.search(rule, path)
    except re.error as error:
        raise InputError(f"--site {rule}: {error}") from error
    if match is None:
        return str(Path(path).parent)
    named = (group for group in match.groups() if group is not None)  # of (a)|(b), one takes no part
    return next(named, match.group(0))
