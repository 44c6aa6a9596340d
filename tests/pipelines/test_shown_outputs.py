"""What the documents show of a command is what it prints; and links between documents lead somewhere."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.commands import attempt

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
EXITS = {"forensics": 1}  # a checksum of the sample is wrong
LEFT_OUT = "…"


class Shown(NamedTuple):
    """A command, and the lines that a document shows of its output."""

    command: str
    lines: list[str]


def shown(document: Path) -> list[Shown]:
    """The commands of a document that run on the samples, with what stands below them."""
    found: list[Shown] = []
    for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Shown(line.removeprefix("$ "), []))
            else:
                found[-1].lines.append(line)
    return [one for one in found if re.search(r"samples/|report\.pcapng|sql out ", one.command)]


def pieces(lines: list[str]) -> list[str]:
    """The texts between the lines that say that some are left out."""
    whole = "\n".join(lines)
    return [piece for piece in re.split(rf"^{LEFT_OUT}$\n?", whole, flags=re.M) if piece.strip()]


PAGES = {
    ROOT / "README.md": 4,
    ROOT / "docs" / "tutorial.md": 4,
    ROOT / "docs" / "causes.md": 3,
    ROOT / "docs" / "delivery.md": 4,
    ROOT / "docs" / "payloads.md": 6,
}
"""Documents that show outputs -> how many commands of theirs run on the samples, at least."""


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_what_a_document_shows_is_what_the_command_prints(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    commands = shown(document)
    assert len(commands) >= PAGES[document]
    for command, lines in commands:
        name, *arguments = shlex.split(command.removeprefix("brokerscope "))
        result = attempt(name, *arguments, columns=80)
        assert result.exit_code == EXITS.get(name, 0), (command, result.stderr)
        at = 0
        for piece in pieces(lines):
            at = result.stdout.find(piece.rstrip("\n"), at)
            assert at >= 0, (command, piece, result.stdout)


@pytest.mark.parametrize("document", DOCS, ids=lambda path: path.name)
def test_links_to_files_of_this_repository_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_the_index_leads_to_every_document() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    missing = [path.name for path in DOCS if path.name != "README.md" and f"]({path.name})" not in index]
    assert missing == []
