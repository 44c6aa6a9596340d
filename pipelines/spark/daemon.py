"""The Python process from which Spark forks its workers on this machine: `spark.python.daemon.module`.

Spark puts an archive of PySpark's sources first on the path of its workers. Python compiles those anew in each daemon,
which is half a second of CPU, where the installed package is compiled already.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import PurePath

from pipelines import process


def without_archives(path: list[str]) -> list[str]:
    """A module path less the archives of PySpark and py4j; the path itself where these are not installed."""
    rest = [entry for entry in path if not _is_archive(PurePath(entry).name)]
    installed = all(PathFinder.find_spec(name, rest) for name in ("pyspark", "py4j"))
    return rest if installed else path


def _is_archive(name: str) -> bool:
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)
    process.prepare()
    from pyspark.daemon import manager

    manager()
