"""Layers import downward only, the protocols have the same modules, and every fact has one home."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Layers from the ground up. A module imports from its own layer and from those below.
LAYERS = (
    (
        "dissectors.annotated",
        "dissectors.errors",
        "dissectors.limits",
        "dissectors.redaction",
        "dissectors.wording",
        "dissectors.arrow",
        "dissectors.compiling",
    ),
    ("dissectors.records",),
    ("dissectors.findings",),
    ("dissectors.wire", "dissectors.options"),
    ("dissectors.rows.late_names", "dissectors.rows"),
    ("dissectors.rows.sink",),
    ("dissectors.capture",),
    ("dissectors.tcp",),
    ("dissectors.tls",),
    ("dissectors.checksum",),
    ("dissectors.session.frame",),
    (
        "dissectors.session.closing",
        "dissectors.session.inbox",
        "dissectors.session.resends",
        "dissectors.session.search",
        "dissectors.session.spans",
        "dissectors.session.preambles",
        "dissectors.session.foreign",
    ),
    ("dissectors.session.reporter",),
    ("dissectors.session.framing",),
    ("dissectors.session.conversation",),
    ("dissectors.session.exchange",),
    ("dissectors.kafka", "dissectors.pulsar", "dissectors.iggy"),
    ("dissectors.session.protocols", "dissectors.session.recognition"),
    ("dissectors.session.deliveries",),
    ("dissectors.session.connection_rows",),
    ("dissectors.session.connection",),
    ("dissectors.engine",),
    ("dissectors.release",),
    ("dissectors.local_decoder",),
    ("dissectors.workers",),
    ("dissectors.run",),
    ("dissectors.forensics",),
    ("dissectors",),
    ("pipelines.process", "pipelines.pandas_guard", "pipelines.formats", "pipelines.payloads"),
    ("pipelines.storage",),
    ("pipelines.sql",),
    ("pipelines.tables",),
    ("pipelines.executors",),
    ("pipelines.jobs",),
    ("pipelines.answers", "pipelines.report", "pipelines.spark"),
    ("pipelines.lake",),
    ("pipelines",),  # the modules beside the folders, which join them
    ("pipelines.sources",),
    ("pipelines.cli", "pyspark_brokerscope", "pyspark_pcap"),
    ("brokerscope",),
)
PACKAGES = ("brokerscope", "dissectors", "pipelines", "pyspark_brokerscope", "pyspark_pcap")
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
PROTOCOLS = ("dissectors.kafka", "dissectors.pulsar", "dissectors.iggy")
# Packages of one layer that do not import each other.
APART = (PROTOCOLS, ("pipelines.answers", "pipelines.report", "pipelines.spark"))
JOINING = {"__init__", "analyze", "compare", "document", "pandas_guard", "process"}
MODULES = (
    *("recognise", "frames", "decode", "pending", "match", "batches", "rows", "errors", "names", "events", "forensics"),
    *("secrets", "spans", "conversation", "loss/resync", "loss/orphans"),
)


def layer(module: str) -> str:
    """The most specific layer that a module belongs to."""
    return max((name for name in HEIGHT if module == name or module.startswith(name + ".")), key=len)


def modules() -> list[tuple[str, Path]]:
    out = []
    for package in PACKAGES:
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
    return {
        name
        for name in found
        if name.split(".")[0] in ("brokerscope", "dissectors", "pipelines", "pyspark_brokerscope", "pyspark_pcap")
    }


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda x: x if isinstance(x, str) else "")
def test_layers_import_downward_only(module: str, path: Path) -> None:
    here = layer(module)
    for imported in imports(module, path):
        there = layer(imported)
        assert HEIGHT[there] <= HEIGHT[here], f"{module} imports {imported}, a layer above it"
        for packages in APART:
            if here in packages and there in packages:
                assert here == there, f"{module} imports {imported}, which stands beside it"


def test_every_module_of_pipelines_is_in_a_folder_unless_it_joins_several() -> None:
    assert {path.stem for path in (ROOT / "pipelines").glob("*.py")} == JOINING


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Imports for types and inside functions count too; what a package gives its own modules does not."""
    every = dict(modules())
    left = {
        module: {
            found
            for name in imports(module, path)
            for found in (name, name.rpartition(".")[0])
            if found in every and every[found].name != "__init__.py"
        }
        for module, path in every.items()
    }
    while free := {module for module, needed in left.items() if not needed & left.keys()}:
        for module in free:
            del left[module]
    assert {module: needed & left.keys() for module, needed in left.items()} == {}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_has_the_same_modules(protocol: str) -> None:
    folder = ROOT.joinpath(*protocol.split("."))
    assert [name for name in MODULES if not (folder / f"{name}.py").exists()] == []


def test_only_capture_knows_link_layers_and_only_tcp_knows_sequence_numbers() -> None:
    for module, path in modules():
        text = path.read_text()
        if not module.startswith("dissectors.capture"):
            assert not re.search(r"\b0x(8100|88a8|86dd)\b", text, re.I), f"{module} knows an Ethernet type"
        if not module.startswith(("dissectors.capture", "dissectors.tcp", "dissectors.forensics")):
            assert not re.search(r"\b(SYN|RST)\b *[|&)]", text), f"{module} knows TCP flags"


def test_public_packages_are_typed() -> None:
    for package in ("brokerscope", "dissectors", "pipelines"):
        assert (ROOT / package / "py.typed").exists()


def test_no_two_classes_share_a_name() -> None:
    names: dict[str, list[str]] = {}
    for module, path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names.setdefault(node.name, []).append(module)
    assert {name: where for name, where in names.items() if len(where) > 1} == {}


LAYOUTS = re.compile(r"\bimport struct\b|from struct import|unpack_from|\bwire\.(varint|reader|protobuf)\b")
"""What reads a field at its place. Readers may say that bytes are something else: ReadError."""


def test_only_the_protocols_know_where_a_field_of_a_frame_lies() -> None:
    """Compression (refit.py), pcapng and IP are no frames of a broker."""
    others = {"pcapng_blocks", "pcapng_comments", "refit"}
    for module, path in modules():
        if module.startswith("pipelines.answers") and path.stem not in others:
            text = path.read_text().replace("from dissectors.wire.reader import ReadError\n", "")
            assert not LAYOUTS.search(text), f"{module} reads bytes of frames"
            for protocol in PROTOCOLS:
                assert protocol not in text, f"{module} knows {protocol}"
