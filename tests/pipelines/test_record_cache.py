"""What was decoded once answers the next command: the same rows, until the captures, the options or the code change."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dissectors.options import Options
from dissectors.run import Run
from pipelines.answers import summary
from pipelines.cli import reading
from pipelines.storage import record_cache
from tests.commands import SAMPLES, attempt


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where rows are kept; of captures of any size."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(reading, "CACHED_BYTES", 0)
    return tmp_path / "cache" / "brokerscope"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "captures" / "a.pcap"
    path.parent.mkdir()
    path.write_bytes((SAMPLES / "kafka-loss.pcap").read_bytes())
    return path


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables of each run that decoded."""
    runs: list[str] = []
    records = Run.records

    def noting(self: Run) -> Any:
        runs.append(" ".join(self.options.tables))
        return records(self)

    monkeypatch.setattr(Run, "records", noting)
    return runs


def run(*arguments: object, code: int = 0) -> str:
    result = attempt(*arguments)
    assert result.exit_code == code, result.stderr
    return result.stdout + result.stderr


def test_a_second_command_decodes_nothing_and_answers_the_same(capture: Path, decoded: list[str]) -> None:
    query = "select * from exchanges order by all"
    commands = (["summary", capture], ["top", capture, "--by", "topic"], ["follow", capture], ["dissect", capture],
                ["sql", capture, query], ["dissect", capture, "-t", "findings"])  # fmt: skip
    anew = [run(*command, "--no-cache") for command in commands]
    decoded.clear()
    assert [run(*command) for command in commands] == anew
    assert len(decoded) == 1
    assert [run(*command) for command in commands] == anew
    assert len(decoded) == 1


def test_a_part_is_chosen_of_kept_rows(capture: Path, decoded: list[str]) -> None:
    part = ["top", capture, "--api", "Produce"]
    anew = run(*part, "--no-cache")
    run("summary", capture)
    decoded.clear()
    assert run(*part) == anew
    assert not decoded


def test_bodies_are_kept_apart_from_rows_without_them(capture: Path, decoded: list[str]) -> None:
    query = ["sql", capture, "select count(*) as n from exchanges where request.acks is not null", "--full"]
    run("summary", capture)
    first = run(*query)
    assert run(*query) == first
    assert len(decoded) == 2


@pytest.mark.parametrize("change", ["content", "option", "code", "name"])
def test_whatever_rows_depend_on_makes_them_anew(
    change: str, capture: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("top", capture)
    decoded.clear()
    arguments: list[object] = ["top", capture]
    if change == "content":
        capture.write_bytes((SAMPLES / "kafka-codecs.pcap").read_bytes())
    elif change == "option":
        arguments.append("--limit=pending=7")
    elif change == "code":
        monkeypatch.setattr(record_cache, "code_state", lambda package: "another")
    else:
        arguments = ["top", capture.rename(capture.with_name("b.pcap"))]
    assert run(*arguments) == run(*arguments, "--no-cache")
    assert len(decoded) == 2


def test_kept_rows_that_are_damaged_are_not_missed(capture: Path, folder: Path) -> None:
    first = run("top", capture)
    (entry,) = (each for each in folder.iterdir() if each.is_dir())
    (entry / "made.json").write_text("{")
    assert run("top", capture) == first
    for file in entry.glob("*.parquet"):
        file.unlink()
    assert run("top", capture) == first


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The summaries that were computed."""
    made: list[Any] = []
    compute = summary.summary

    def noting(*arguments: Any, **options: Any) -> Any:
        made.append(compute(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(summary, "summary", noting)
    return made


def test_a_second_summary_computes_nothing_and_says_the_same(capture: Path, judged: list[Any]) -> None:
    commands = (["summary", capture], ["summary", capture, "--all"], ["summary", capture, "-f", "json"])
    anew = [run(*command, "--no-cache") for command in commands]
    judged.clear()
    assert [run(*command) for command in commands] == anew
    assert len(judged) == 1
    run("summary", capture, "--api", "Produce")
    assert len(judged) == 2


@pytest.mark.parametrize("text", ["", "{}", "[1", '{"blind": []}'])
def test_a_kept_summary_that_is_damaged_is_computed_anew(capture: Path, folder: Path, text: str) -> None:
    first = run("summary", capture)
    (kept,) = folder.glob("*/summary-*.json")
    kept.write_text(text)
    assert run("summary", capture) == first


def test_what_a_summary_says_of_a_damaged_capture_is_said_again(capture: Path) -> None:
    capture.write_bytes(capture.read_bytes()[:-7])
    first = run("summary", capture)
    assert "cut off in packet" in first
    assert run("summary", capture) == first


def test_kept_rows_are_for_their_user_alone(capture: Path, folder: Path) -> None:
    run("top", capture)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(entry.stat().st_mode & 0o077 == 0 for entry in folder.iterdir() if entry.is_dir())


def test_what_could_not_be_read_is_said_again(capture: Path, decoded: list[str]) -> None:
    capture.write_bytes(capture.read_bytes()[:-7])
    first = run("top", capture)
    assert "cut off in packet" in first
    assert run("top", capture) == first
    assert len(decoded) == 1


def test_a_folder_that_cannot_be_written_is_done_without(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = run("top", capture, "--no-cache")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/no")
    assert run("top", capture) == wanted


def test_standard_input_is_never_kept(capture: Path, folder: Path) -> None:
    with capture.open("rb") as stream:
        subprocess.run(
            [sys.executable, "-m", "brokerscope", "top", "-"], stdin=stream, check=True, capture_output=True,
            env={**os.environ, "XDG_CACHE_HOME": str(folder.parent)},
        )  # fmt: skip
    assert not folder.exists()


def test_what_was_used_longest_ago_goes_first(capture: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("top", capture)
    (first,) = (each for each in folder.iterdir() if each.is_dir())
    os.utime(first, (1, 1))
    monkeypatch.setattr(record_cache, "MOST_BYTES", 1)
    run("top", capture, "--limit=pending=9")
    kept = [each for each in folder.iterdir() if each.is_dir()]
    assert len(kept) == 1
    assert kept[0] != first


def test_rows_of_a_capture_that_changes_meanwhile_are_not_kept(capture: Path, folder: Path) -> None:
    cache = record_cache.RecordCache.of([str(capture)], Options(("exchanges",)))
    assert cache is not None
    with cache.keeping() as keeper:
        capture.write_bytes(capture.read_bytes() + b"more")
        keeper.finish([], 0)
    assert cache.find(["exchanges"]) is None
    assert json.loads((folder / "digests.json").read_text())
