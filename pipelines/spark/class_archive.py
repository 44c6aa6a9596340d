"""Spark's Java classes, read and verified ahead: a Java that starts with them takes half the CPU time to its first job.

    make install ── python -m pipelines.spark.train_java ──> PREFIX/share/brokerscope/classes-KEY
                                                               │
    session.start ── options(java) ────────────────────────────┘

Java leaves an archive aside that was made by another Java or from other jar files. It is 160 to 180 MB; it lies in the
Python environment and goes with it.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

from pipelines.spark.java import Java

FOLDER = Path(sys.prefix).resolve() / "share" / "brokerscope"
_PREFIX = "classes-"
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"  # an archive that does not fit is no news for stdout


class _Way(NamedTuple):
    """What a Java takes to write an archive when it ends, and to start with it."""

    oldest: int  # feature release
    write: str
    read: str


_WAYS = (
    _Way(25, "-XX:AOTCacheOutput={}", "-XX:AOTCache={}"),  # JEP 514; needs no archive of the JDK's own classes
    _Way(17, "-XX:ArchiveClassesAtExit={}", "-Xshare:auto -XX:SharedArchiveFile={}"),  # JEP 350
)


def path(java: Java) -> Path:
    """Where the archive of this Java and this environment's Spark lies, or would."""
    import pyspark

    of = f"{java.binary} {java.version} {pyspark.__version__} {Path(pyspark.__file__).resolve()}"
    return FOLDER / f"{_PREFIX}{hashlib.sha256(of.encode()).hexdigest()[:16]}"


def options(java: Java) -> str:
    """Java's options to start with the archive; none where there is no archive."""
    archive = path(java)
    return f"{_way(java).read.format(archive)} {_QUIET}" if archive.is_file() else ""


def writing(java: Java, target: Path) -> str:
    """Java's option to write an archive of the classes that it has loaded, when it ends."""
    return f"{_way(java).write.format(target)} {_QUIET}"


def others(java: Java) -> list[Path]:
    """Archives in this environment that are not this Java's."""
    return [found for found in FOLDER.glob(f"{_PREFIX}*") if found != path(java)]


def _way(java: Java) -> _Way:
    return next(way for way in _WAYS if java.version >= way.oldest)
