"""What is packed for others: an sdist, and from it a wheel that runs without the repository."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from dissectors.compiling import build, installed

hook = pytest.importorskip("dissectors.compiling.hook", reason="hatchling is not installed")
ROOT = Path(__file__).parents[1]
PACKAGES = (*installed.WHOLE, *installed.MOVED)
UNCOMPILED = {"BROKERSCOPE_UNCOMPILED": "1"}


def packed(sources: Path, target: str, folder: Path) -> Path:
    """The archive that Hatchling makes of sources, without compiling."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=sources, check=True, capture_output=True, env={**os.environ, **UNCOMPILED})
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel of the sdist installs, in a folder of its own."""
    folder = tmp_path_factory.mktemp("packed")
    with tarfile.open(packed(ROOT, "sdist", folder / "sdist")) as sdist:
        sdist.extractall(folder / "sources", filter="data")
    (sources,) = (folder / "sources").iterdir()
    with ZipFile(packed(sources, "wheel", folder / "wheel")) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def files(folder: Path) -> set[str]:
    """The files below a folder that are no products."""
    every = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in every if path.suffix not in (".pyc", ".so") and path.name != "built.txt"}


def test_the_wheel_has_the_packages_whole_and_nothing_else(wheel: Path) -> None:
    assert {path.name for path in wheel.iterdir() if path.suffix != ".dist-info"} == set(installed.WHOLE)
    moved = {f"{package}/{name}" for package in installed.MOVED for name in files(ROOT / package)}
    wire = {f"dissectors/_proto/{name}" for name in files(ROOT / "proto")}
    assert files(wheel / installed.HOME) == files(ROOT / installed.HOME) | moved | wire
    for package in ("pyspark_brokerscope", "pyspark_pcap"):
        assert files(wheel / package) == files(ROOT / package)


def test_what_is_installed_runs_far_from_the_repository(wheel: Path, tmp_path: Path) -> None:
    sample = ROOT / "samples" / "pulsar-corrupted.pcap"
    command = [sys.executable, "-m", "brokerscope", "summary", str(sample)]
    paths = {**os.environ, **UNCOMPILED, "PYTHONPATH": str(wheel)}
    said = subprocess.run(command, cwd=tmp_path, env=paths, check=True, capture_output=True, text=True)
    assert "1 of 13 checksums is wrong" in said.stdout
    where = [sys.executable, "-c", "import brokerscope.dissectors as here; print(here.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=paths, check=True, capture_output=True, text=True)
    assert Path(found.stdout).is_relative_to(wheel)


@pytest.mark.parametrize(("compiler", "uncompiled", "wanted"), [("", "", True), ("cc", "", False), ("", "1", False)])
def test_a_compiler_is_asked_for_where_none_is_installed(
    compiler: str, uncompiled: str, wanted: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (build.VARIABLE, "SOURCE_DATE_EPOCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setenv("BROKERSCOPE_UNCOMPILED", uncompiled)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(build, "obstacle", lambda: "")
    asked = hook.CompilingHook(str(ROOT), {}, None, None, str(tmp_path), "wheel").dependencies()
    assert asked == (["ziglang"] if wanted else [])
