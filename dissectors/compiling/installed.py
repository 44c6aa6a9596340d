"""Moves the packages `dissectors` and `pipelines` below `brokerscope` for a wheel: others may have those names, too.

In the repository they lie at the top, and are imported by these names; the sources in a wheel import them so:

    from dissectors.records import TABLES       from brokerscope.dissectors.records import TABLES
    import dissectors                           from brokerscope import dissectors
    "dissectors.kafka"                          "brokerscope.dissectors.kafka"

Written anew are import statements, and texts that begin with such a name and are no path.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

HOME = "brokerscope"
MOVED = ("dissectors", "pipelines")
WHOLE = (HOME, "pyspark_brokerscope", "pyspark_pcap")  # that stay where they are
_NAMES = "|".join(MOVED)
_STATEMENT = re.compile(rf"^(\s*(?:from (?:cython\.cimports\.)?|import ))({_NAMES})(\.[\w.]+)?( import |$)", re.M)
_TEXT = re.compile(rf"""(?<=["'])({_NAMES})(?=[."'])""")


def as_installed(source: str) -> str:
    """A source whose imports and texts name the packages where they are installed."""
    return _TEXT.sub(rf"{HOME}.\1", _STATEMENT.sub(_statement, source))


def _statement(found: re.Match[str]) -> str:
    begin, package, inner, end = found.groups()
    if begin.strip() == "import":
        if inner:
            raise ValueError(f"{found[0].strip()}: write `from … import` instead, which can be moved")
        return f"{begin.replace('import', 'from')}{HOME} import {package}"
    return f"{begin}{HOME}.{package}{inner or ''}{end}"


def write_tree(root: Path, tree: Path) -> Path:
    """Write the packages of a checkout in a folder as they are installed into another; returns that of `dissectors`."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "compiled")
    for name in (*WHOLE, *MOVED):
        shutil.copytree(root / name, tree / (f"{HOME}/{name}" if name in MOVED else name), ignore=ignored)
    for path in tree.rglob("*.py"):
        path.write_text(as_installed(path.read_text(encoding="utf-8")), encoding="utf-8")
    package = tree / HOME / MOVED[0]
    shutil.copytree(root / "proto", package / "_proto")
    return package
