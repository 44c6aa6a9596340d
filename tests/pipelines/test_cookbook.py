"""Every command of the cookbook runs as it stands and answers something."""

import re
import shlex
from pathlib import Path

import pytest

from tests.commands import attempt

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cookbook.md").read_text()
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.S) for line in block.splitlines()]
EXITS = {"forensics": 1, "upgrade": 1}  # a checksum of that sample is wrong; something breaks


def test_every_command_of_the_cookbook_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) > 30
    for command in COMMANDS:
        name, *arguments = shlex.split(command.removeprefix("brokerscope "))
        result = attempt(name, *arguments)
        assert result.exit_code == EXITS.get(name, 0), (command, result.stderr)
        written = "-o" in arguments
        lines = len(result.stdout.splitlines())
        if not written:
            assert lines > 1, (command, result.stdout, result.stderr)
