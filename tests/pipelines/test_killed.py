"""A run that is killed (-9), whenever that is, leaves what stood there or what it was to write; the next one works."""

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import SAMPLES, attempt

FIRST, SECOND = SAMPLES / "kafka-refused.pcap", SAMPLES / "kafka-codecs.pcap"
COMMAND = [sys.executable, "-m", "brokerscope"]
MOMENT = 0.7  # of the time that an undisturbed run takes
Arguments = Callable[[Path, Path], list[str | Path]]
WRITERS: dict[str, Arguments] = {
    "dissect": lambda capture, out: ["dissect", capture, "-f", "parquet", "-o", out / "rows.parquet"],
    "dissect, several tables": lambda capture, out: [
        "dissect", capture, "-t", "exchanges", "-t", "batches", "-f", "json", "-o", out / "rows"
    ],
    "annotate": lambda capture, out: ["annotate", capture, "-o", out / "notes.pcapng"],
    "forensics": lambda capture, out: ["forensics", capture, "--extract", out / "evidence"],
    "analyze": lambda capture, out: ["analyze", capture, "-o", out / "answers", "--engine", "local"],
}  # fmt: skip


def visible(folder: Path) -> dict[str, str]:
    """What files hold, but temporary ones; files of records without rows have names of their own in each run."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        re.sub("empty-(part-)?[0-9a-f]{16}", "empty", str(path.relative_to(folder))): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for path in files
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def run(arguments: list[str | Path], kill_after: float | None = None) -> None:
    """In a process of its own, which may be killed."""
    process = subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, printed = process.communicate(timeout=kill_after)
        assert process.returncode in (0, 1), printed
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", WRITERS)
def test_a_killed_run_leaves_what_stood_there_and_the_next_one_works(name: str, tmp_path: Path) -> None:
    arguments, out, clean = WRITERS[name], tmp_path / "out", tmp_path / "clean"
    out.mkdir()
    clean.mkdir()
    began = time.monotonic()
    run(arguments(SECOND, clean))
    took, new = time.monotonic() - began, visible(clean)
    assert attempt(*arguments(FIRST, out)).exit_code in (0, 1)
    old = visible(out)
    run(arguments(SECOND, out), kill_after=MOMENT * took)
    assert visible(out) in (old, new)
    assert attempt(*arguments(SECOND, out)).exit_code in (0, 1)
    assert visible(out) == new
    assert len(list(out.iterdir())) == len(list(clean.iterdir()))
