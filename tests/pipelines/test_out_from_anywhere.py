"""An OUT that was made with relative paths is read from any folder, also where it and its captures were moved."""

import json
import shutil
from pathlib import Path

import pytest

from pipelines.answers.records import captures_of
from tests.commands import SAMPLES, run

SAMPLE = SAMPLES / "kafka-refused.pcap"


def _captures(store: str) -> list[str]:
    there, gone = captures_of(store)
    assert not gone
    return there


def made(place: Path) -> Path:
    """A folder with `cap/a.pcap` and, made of it within `rep`, `rep/out`."""
    for name in ("cap", "rep", "elsewhere"):
        (place / name).mkdir()
    shutil.copy(SAMPLE, place / "cap" / "a.pcap")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place / "rep")
        run("analyze", "../cap/a.pcap", "-o", "out", "--engine", "local", "-q")
    return place


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that tests only read."""
    return made(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """One of the test's own."""
    return made(tmp_path)


@pytest.mark.parametrize("folder", [".", "rep", "cap", "elsewhere"])
def test_captures_are_found_from_any_folder(kept: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept / folder)
    out = str(kept / "rep" / "out")
    assert "crc32c" in run("forensics", out)
    row = json.loads(run("dissect", out, "--full", "--api", "Produce", "--head", "1", "-f", "json"))
    assert row["request"]["acks"] == -1
    assert "Produce" in run("show", row["exchange_id"], out)


def test_captures_are_found_where_they_were_moved_with_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = place / "moved"
    moved.mkdir()
    for name in ("rep", "cap"):
        (place / name).rename(moved / name)
    monkeypatch.chdir(place / "elsewhere")
    assert "crc32c" in run("forensics", str(moved / "rep" / "out"))


def test_a_store_is_read_that_was_updated_from_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = str(tmp_path / "store")
    for folder in ("cap", "elsewhere"):
        (tmp_path / folder).mkdir()
        shutil.copy(SAMPLE, tmp_path / folder / f"{folder}.pcap")
        monkeypatch.chdir(tmp_path / folder)
        run("analyze", f"{folder}.pcap", "-o", store, "--engine", "local", "--update", "--site", "file")
    monkeypatch.chdir(tmp_path)
    assert {Path(file).name for file in _captures(store)} == {"cap.pcap", "elsewhere.pcap"}
    about = json.loads((tmp_path / "store" / "analysis.json").read_text())
    assert [Path(folder["path"]).name for folder in about["folders"]] == ["elsewhere", "cap"]


def test_captures_that_are_gone_are_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "cap" / "a.pcap").unlink()
    monkeypatch.chdir(place)
    assert "no longer exist: ../cap/a.pcap" in run("forensics", "rep/out", code=3)
