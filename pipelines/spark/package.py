"""An archive of this package, for Spark's workers that have not got it."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from dissectors import STATE
from dissectors.compiling import record
from dissectors.errors import InputError
from dissectors.wire.proto import proto

FOLDER = "brokerscope"  # that Spark unpacks the archive into
PACKAGES = tuple(  # of the repository, or as they are installed, where `brokerscope` holds those that stand behind it
    dict.fromkeys(
        name.partition(".")[0]
        for name in ("brokerscope", "dissectors", "pipelines", "pyspark_brokerscope", "pyspark_pcap")
    )
)
_ON_DRIVER = frozenset({"rich", "typer"})  # that no worker uses
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def settings(path: str) -> dict[str, str]:
    """The settings by which Spark hands an archive to its workers."""
    return {"spark.archives": f"{path}#{FOLDER}", "spark.executorEnv.PYTHONPATH": f"./{FOLDER}"}


def write(stream: BinaryIO, *, dependencies: bool = False, others: Sequence[str] = ()) -> None:
    """Write the archive, a .tar.gz: sources, and what is compiled of them here. Workers of another platform run the
    sources.

    dependencies: with the packages that workers need beside PySpark, as they are installed here; workers then need
    nothing but the same version of Python on the same kind of machine. others: names of installed packages to add, with
    what they need. Raises InputError where one of them is not installed.
    """
    wanted = {*others, *(_required(_installed("brokerscope")) if dependencies else ())}
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=6) as archive:
        for name in PACKAGES:
            spec = find_spec(name)
            assert spec is not None
            assert spec.origin is not None
            archive.add(Path(spec.origin).parent, name, filter=_usable)
        if proto().name == "proto":  # a checkout keeps the wire tables beside the packages
            archive.add(proto(), "dissectors/_proto")
        for dist in _closure(wanted, frozenset() if not dependencies else _ON_DRIVER):
            for file in dist.files or ():
                source = Path(str(dist.locate_file(file)))
                if ".." not in file.parts and source.is_file():
                    archive.add(source, str(file))


def _usable(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """An entry of the archive; None for the compiled modules where they do not run here."""
    return None if entry.name.endswith(f"dissectors/{record.FOLDER}") and not STATE.is_compiled else entry


def _closure(names: Iterable[str], without: frozenset[str]) -> Iterator[Distribution]:
    """Installed packages and all that they need."""
    waiting, seen = sorted(names), {"brokerscope", "pyspark", *without}
    while waiting:
        name = waiting.pop()
        if _same(name) in seen:
            continue
        seen.add(_same(name))
        found = _installed(name)
        yield found
        waiting += _required(found)


def _required(dist: Distribution) -> list[str]:
    """What a package needs and is installed; extras are left out."""
    names = [_NAME.match(line) for line in dist.requires or () if "extra ==" not in line]
    return [name[0] for name in names if name is not None and _is_installed(name[0])]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise InputError(f"{name}: no package of this name is installed here") from None


def _same(name: str) -> str:
    """One spelling for all of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()
