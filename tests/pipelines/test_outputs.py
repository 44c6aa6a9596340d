"""Outputs appear whole or not at all, and nothing that another made is destroyed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dissectors.errors import BrokerscopeError
from pipelines.storage import lake_files, outputs

ENTRIES = ("tables", "page.html")
MARKER = "made.json"


def write_folder(path: Path, text: str = "new", inputs: tuple[str, ...] = ()) -> None:
    with outputs.folder(path, marker=MARKER, entries=ENTRIES, inputs=inputs) as folder:
        (folder / MARKER).write_text(text)
        (folder / "page.html").write_text(text)


def hidden(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.name.startswith(".")]


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    with outputs.file(out) as stream:
        stream.write(b"half")
        assert not out.exists()
    assert out.read_bytes() == b"half"
    assert hidden(tmp_path) == []


def test_a_failed_run_leaves_what_stood_there(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    out.write_text("keep")
    with pytest.raises(KeyboardInterrupt), outputs.file(out) as stream:  # noqa: PT012
        stream.write(b"half")
        raise KeyboardInterrupt
    assert out.read_text() == "keep"
    assert hidden(tmp_path) == []


def symbolic(capture: Path) -> Path:
    link = capture.with_name("link")
    link.symlink_to(capture)
    return link


def hard(capture: Path) -> Path:
    link = capture.with_name("hard")
    link.hardlink_to(capture)
    return link


def relative(capture: Path) -> Path:
    return capture.parent / ".." / capture.parent.name / capture.name


@pytest.mark.parametrize("name", [symbolic, hard, relative, lambda capture: capture])
def test_an_output_that_is_an_input_is_refused_by_any_name(tmp_path: Path, name: Callable[[Path], Path]) -> None:
    capture = tmp_path / "mine.pcap"
    capture.write_text("packets")
    for given in (str(capture), capture.as_uri()):
        with pytest.raises(outputs.OutputIsInputError), outputs.file(name(capture), [given]):
            pytest.fail("nothing may be written")
        for link in ("link", "hard"):
            capture.with_name(link).unlink(missing_ok=True)
    assert capture.read_text() == "packets"


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    real = tmp_path / "real.csv"
    real.write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    with outputs.file(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_what_is_replaced_hands_its_permissions_on(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    out.write_text("old")
    out.chmod(0o600)
    with outputs.file(out) as stream:
        stream.write(b"new")
    assert out.stat().st_mode & 0o777 == 0o600


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with outputs.file(pipe) as stream:
        stream.write(b"rows")
    assert os.read(reader, 10) == b"rows"
    assert pipe.is_fifo()
    os.close(reader)


@pytest.mark.parametrize("path", ["file/rows.csv", "folder", "x" * 300])
def test_an_output_that_cannot_be_written_is_one_sentence(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(outputs.OutputError) as failure, outputs.file(tmp_path / path):
        pass
    assert "\n" not in str(failure.value)
    assert path in str(failure.value)


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_replaces_the_one_before_it_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    write_folder(out, "old")
    (out / "tables").mkdir()
    write_folder(out, "new")
    assert sorted(entry.name for entry in out.iterdir()) == [MARKER, "page.html"]
    assert (out / "page.html").read_text() == "new"
    assert hidden(out.parent) == []


def test_a_failed_run_leaves_the_folder_that_stood_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, "old")
    with pytest.raises(ValueError), outputs.folder(out, marker=MARKER, entries=ENTRIES) as folder:  # noqa: PT011, PT012
        (folder / "page.html").write_text("new")
        raise ValueError
    assert (out / "page.html").read_text() == "old"
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("holds", ["thesis.txt", "page.html"])
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, holds: str) -> None:
    (tmp_path / holds).write_text("mine")
    with pytest.raises(outputs.OutputIsInputError, match=holds):
        write_folder(tmp_path)
    assert (tmp_path / holds).read_text() == "mine"


def test_a_folder_that_holds_an_input_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out)
    (out / "tables").mkdir()
    capture = out / "tables" / "mine.pcap"
    capture.write_text("packets")
    with pytest.raises(outputs.OutputIsInputError, match=r"mine\.pcap"):
        write_folder(out, inputs=(str(capture),))
    assert capture.read_text() == "packets"


def test_without_an_exchange_of_names_the_folder_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "_exchange", lambda one, other: False)
    out = tmp_path / "out"
    write_folder(out, "old")
    write_folder(out, "new")
    assert (out / "page.html").read_text() == "new"
    assert hidden(tmp_path) == []


def test_a_run_killed_between_two_renames_is_put_right_by_the_next(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, "old")
    out.rename(tmp_path / ".out.brokerscope-0123456789abcdef.old")
    with pytest.raises(KeyboardInterrupt), outputs.folder(out, marker=MARKER, entries=ENTRIES):
        raise KeyboardInterrupt
    assert (out / "page.html").read_text() == "old"


def write_files(path: Path, content: str, *names: str, inputs: tuple[str, ...] = ()) -> None:
    with outputs.files(path, ours=lambda name: name.endswith(".csv"), inputs=inputs) as folder:
        for name in names:
            (folder / name).write_text(content)


def contents(path: Path) -> dict[str, str]:
    return {entry.name: entry.read_text() for entry in path.iterdir() if entry.is_file()}


def test_files_of_a_folder_appear_together_and_those_of_other_tables_stay(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    write_files(out, "old", "errors.csv", "batches.csv")
    with outputs.files(out, ours=lambda name: name.endswith(".csv")) as folder:
        (folder / "errors.csv").write_text("new")
        (folder / "exchanges.csv").write_text("new")
        before = out.stat().st_ino
        assert contents(out) == {"errors.csv": "old", "batches.csv": "old"}
    assert contents(out) == {"errors.csv": "new", "exchanges.csv": "new", "batches.csv": "old"}
    assert out.stat().st_ino != before  # the folder was put in the place of the old one: there was no step between
    assert hidden(out.parent) == []


def test_a_folder_with_something_of_its_owner_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "errors.csv").write_text("old")
    before = tmp_path.stat().st_ino
    write_files(tmp_path, "new", "errors.csv", "exchanges.csv")
    assert contents(tmp_path) == {"errors.csv": "new", "exchanges.csv": "new"}
    assert (tmp_path / "notes").is_dir()
    assert tmp_path.stat().st_ino == before
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("others", [(), ("notes.txt",)])
def test_a_failed_run_leaves_the_files_of_the_one_before(tmp_path: Path, others: tuple[str, ...]) -> None:
    out = tmp_path / "out"
    write_files(out, "old", "errors.csv", "exchanges.csv", *others)
    with pytest.raises(ValueError), outputs.files(out, ours=lambda name: name.endswith(".csv")) as folder:  # noqa: PT011, PT012
        (folder / "errors.csv").write_text("new")
        raise ValueError
    assert set(contents(out).values()) == {"old"}
    assert hidden(tmp_path) == hidden(out) == []


def test_a_file_that_is_an_input_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "errors.csv").write_text("input")
    with pytest.raises(outputs.OutputIsInputError):
        write_files(tmp_path, "new", "errors.csv", inputs=(str(tmp_path / "errors.csv"),))
    assert contents(tmp_path) == {"errors.csv": "input"}


# --- other runs ------------------------------------------------------------------------------------------------------

OTHER = """
import sys, time
from pathlib import Path
from pipelines.storage import lake_files as lake, outputs
kind, path = sys.argv[1:]
made = {
    "folder": lambda: outputs.folder(path, marker="made.json", entries=()),
    "file": lambda: outputs.file(path),
    "lake": lambda: lake.answers(Path(path), (), "made.json"),
}[kind]()
with made:
    print("writing", flush=True)
    time.sleep(60)
"""


def other_run(kind: str, path: Path) -> subprocess.Popen[str]:
    """A process that is writing this output."""
    run = subprocess.Popen([sys.executable, "-c", OTHER, kind, str(path)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "writing\n"
    return run


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_leftovers_of_a_killed_run_are_swept_by_the_next(tmp_path: Path, kind: str) -> None:
    run = other_run(kind, tmp_path / "out")
    names = hidden(tmp_path)
    assert len(names) == 1
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert hidden(tmp_path) == names
    with outputs.file(tmp_path / "another"):
        pass
    assert hidden(tmp_path) == []


def test_what_a_killed_update_left_in_its_lake_is_swept_by_the_next_and_that_of_a_live_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_files, "_YOUNG", 0.0)
    killed, alive = (other_run("lake", tmp_path) for _ in range(2))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert len(hidden(tmp_path)) == 2
    for text in ("old", "new"):
        with lake_files.answers(tmp_path, ["page.html", "tables"], "page.html") as folder:
            (folder / "page.html").write_text(text)
            (folder / "tables").mkdir()
            (folder / "tables" / text).touch()
        assert (tmp_path / "page.html").read_text() == text
        assert [entry.name for entry in (tmp_path / "tables").iterdir()] == [text]
        assert len(hidden(tmp_path)) == 1
    alive.kill()
    alive.communicate()


def test_two_runs_into_one_folder_at_once_do_not_mix(tmp_path: Path) -> None:
    run = other_run("folder", tmp_path / "out")
    try:
        with pytest.raises(BrokerscopeError, match="another run"):
            write_folder(tmp_path / "out")
        write_folder(tmp_path / "other")
        assert len(hidden(tmp_path)) == 1
    finally:
        run.kill()
        run.communicate()
    write_folder(tmp_path / "out")
    assert hidden(tmp_path) == []


def test_temporary_names_cannot_be_foreseen(tmp_path: Path) -> None:
    names = set()
    for _ in range(3):
        with outputs.file(tmp_path / "out"):
            names |= set(hidden(tmp_path))
    assert len(names) == 3
