"""Temporary folders: private, gone with their run, and swept by the next one where it was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pipelines.storage import scratch

HOLDS = """
import sys, time
from pathlib import Path
from pipelines.storage import scratch
with scratch.folder() as folder:
    (folder / "rows").write_bytes(b"1")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_is_private_and_gone_after_its_block(temporary: Path) -> None:
    with scratch.folder() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "inner").mkdir()
    assert not any(temporary.iterdir())


def test_the_folder_of_a_killed_run_is_removed_by_the_next_and_that_of_a_live_one_stays() -> None:
    runs = [subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        killed, alive = (Path(run.stdout.readline().strip()) for run in runs if run.stdout)
        runs[0].send_signal(signal.SIGKILL)
        runs[0].wait()
        for folder in (killed, alive):
            os.utime(folder, (0, 0))
        with scratch.folder():
            assert not killed.exists()
            assert (alive / "rows").exists()
    finally:
        for run in runs:
            run.kill()
            run.communicate()


def test_what_others_made_is_not_swept(temporary: Path) -> None:
    others = [temporary / "brokerscope-notes", temporary / "brokerscope-tmp-abcdefgh.txt"]
    target = temporary / "elsewhere"
    link = temporary / "brokerscope-tmp-abcdefgh"
    for folder in (*others, target):
        folder.mkdir()
        os.utime(folder, (0, 0))
    link.symlink_to(target)
    with scratch.folder():
        assert all(folder.exists() for folder in (*others, target, link))
