"""The house: floors import downward only, and every fact has one home."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Floors from the ground up. A module imports from its own floor and from those below.
FLOORS = (
    ("dissectors.errors", "dissectors.limits"),
    ("dissectors.records",),
    ("dissectors.wire", "dissectors.options"),
    ("dissectors.sink",),
    ("dissectors.capture",),
    ("dissectors.tcp",),
    ("dissectors.tls",),
    ("dissectors.checksum",),
    ("dissectors.inbox",),
    ("dissectors.conversation",),
    ("dissectors.stretch",),
    ("dissectors.kafka", "dissectors.pulsar", "dissectors.iggy"),
    ("dissectors.protocols",),
    ("dissectors.session",),
    ("dissectors.engine",),
    ("dissectors.forensics",),
    ("dissectors",),
    ("pipelines", "pyspark_pcap"),
)
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}
PROTOCOLS = ("dissectors.kafka", "dissectors.pulsar", "dissectors.iggy")
ROOMS = ("recognise", "frames", "decode", "match", "emit", "errors", "batches", "conversation")


def floor(module: str) -> str:
    """The most specific floor that a module belongs to."""
    return max((name for name in HEIGHT if module == name or module.startswith(name + ".")), key=len)


def modules() -> list[tuple[str, Path]]:
    out = []
    for package in ("dissectors", "pipelines", "pyspark_pcap"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            out.append((name, path))
    return out


def imports(module: str, path: Path) -> set[str]:
    """Modules of this project that a module imports, wherever in its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{module}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] in ("dissectors", "pipelines", "pyspark_pcap")}


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda x: x if isinstance(x, str) else "")
def test_floors_import_downward_only(module: str, path: Path) -> None:
    here = floor(module)
    for imported in imports(module, path):
        there = floor(imported)
        assert HEIGHT[there] <= HEIGHT[here], f"{module} imports {imported}, a floor above it"
        if here in PROTOCOLS and there in PROTOCOLS:
            assert here == there, f"{module} imports another protocol: {imported}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_has_the_same_rooms(protocol: str) -> None:
    folder = ROOT.joinpath(*protocol.split("."))
    assert [room for room in ROOMS if not (folder / f"{room}.py").exists()] == []


def test_only_capture_knows_link_layers_and_only_tcp_knows_sequence_numbers() -> None:
    for module, path in modules():
        text = path.read_text()
        if not module.startswith("dissectors.capture"):
            assert not re.search(r"\b0x(8100|88a8|86dd)\b", text, re.I), f"{module} knows an Ethernet type"
        if not module.startswith(("dissectors.capture", "dissectors.tcp", "dissectors.forensics")):
            assert not re.search(r"\b(SYN|RST)\b *[|&)]", text), f"{module} knows TCP flags"


def test_what_is_written_speaks_of_the_product_only() -> None:
    banned = re.compile(r"/work/|/root/|\bsession'?s? work\b|anthropic|claude|copilot|chatgpt|\bLLM\b", re.I)
    for path in ROOT.rglob("*"):
        if path.suffix in (".py", ".md", ".toml", ".tsv") and not {".venv", "out", ".git"} & set(path.parts):
            if path == Path(__file__):
                continue
            found = banned.search(path.read_text(errors="replace"))
            assert not found, f"{path.relative_to(ROOT)}: {found and found[0]}"
