"""An archive of Spark's classes is made by a job, and the next Java starts with it."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.spark import class_archive, java

SAMPLE = Path(__file__).parents[2] / "samples" / "kafka-loss.pcap"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "archives"
    place.mkdir()
    monkeypatch.setattr(class_archive, "FOLDER", place)
    return place


def test_without_an_archive_java_gets_no_option(folder: Path) -> None:
    assert class_archive.options(java.find()) == ""


def test_every_java_that_spark_takes_can_write_an_archive(tmp_path: Path) -> None:
    for version in range(java.OLDEST, 40):
        assert str(tmp_path) in class_archive.writing(java.Java(tmp_path, version, tmp_path / "java"), tmp_path)


def test_archives_of_another_java_are_known(folder: Path) -> None:
    found = java.find()
    class_archive.path(found).touch()
    other = class_archive.path(found._replace(version=99))
    other.touch()
    assert class_archive.others(found) == [other]


@pytest.fixture
def trained() -> Iterator[Path]:
    """A folder with the archive that `make` left in this environment, or one that is made now."""
    if class_archive.path(java.find()).is_file():
        yield class_archive.FOLDER
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        said = _python(
            folder, f"from pipelines.spark import train_java; assert train_java.main([{str(SAMPLE)!r}]) == 0"
        )
        assert said.stderr == ""
        (archive,) = folder.iterdir()
        assert archive.name == class_archive.path(java.find()).name
        yield folder


@pytest.mark.xdist_group("spark")
def test_spark_starts_with_the_classes_that_a_job_has_left(trained: Path, tmp_path: Path) -> None:
    log = tmp_path / "classes"
    logging = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={log}"}
    started = _python(
        trained, f"from pipelines.spark import session; session.start('local[1]', light=True, conf={logging})"
    )
    assert started.stdout == ""
    loaded = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
    assert len(loaded) > 100
    assert sum("shared objects file" in line for line in loaded) > 0.5 * len(loaded)


def _python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, for which archives are in this folder."""
    place = f"from pipelines.spark import class_archive; class_archive.FOLDER = pathlib.Path({str(folder)!r})"
    whole = f"import os, pathlib\n{place}\n{code}\nos._exit(0)"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done
