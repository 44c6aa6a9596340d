"""What pages for contributors name is there: files, modules, functions, targets of make."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("architecture", "promises", "packaging", "compatibility", "roadmap")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
PLACES = ("", "dissectors/", "pipelines/", "dissectors/session/", "dissectors/kafka/", "dissectors/pulsar/", "docs/")
MADE = re.compile(r"OUT|LAKE|NAME|TABLE|FILE|^dissectors/(compiled|_proto)|^out/|^~|[*…:=$]|@|^https?:|\d{4}|^\./")
ELSEWHERE = {"kafka_messages.json", "kafka_errors.tsv", "kafka_apis.tsv", "pulsar_messages.tsv"}  # in a folder of facts


def quoted(page: Path) -> set[str]:
    """What stands between single backquotes."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return {" ".join(found.split()) for found in re.findall(r"`([^`]+)`", text)} - ELSEWHERE


def is_there(path: str) -> bool:
    """Whether a file or folder of the repository is meant."""
    if any((ROOT / f"{place}{path}").exists() for place in PLACES):
        return True
    return "/" not in path.rstrip("/") and any(
        found
        for package in ("dissectors", "pipelines", "brokerscope", "proto")
        for found in (ROOT / package).rglob(path)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    paths = {
        name
        for name in quoted(page)
        if re.fullmatch(
            r"[\w./-]+(\.(py|pxd|md|toml|txt|proto|tsv)|/)|(tests|docs|samples|proto|pipelines|dissectors)/[\w./-]+",
            name,
        )
        and not MADE.search(name)
    }
    assert not sorted(name for name in paths if not is_there(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_modules_functions_and_classes_that_a_page_gives_exist(page: Path) -> None:
    for name in quoted(page):
        if re.fullmatch(r"(brokerscope|dissectors|pipelines)(\.\w+)+", name):
            assert found_by_import(name), name
    text = " ".join(page.read_text(encoding="utf-8").split())
    for inside, path in re.findall(r"`([\w.]+)`\)? (?:of|in) `([\w/]+\.py)`", text):
        files = [*ROOT.glob(f"dissectors/**/{path}"), *ROOT.glob(f"pipelines/**/{path}"), *ROOT.glob(path)]
        known = [file.read_text(encoding="utf-8") for file in files]
        for part in () if inside.endswith(".py") else inside.split("."):
            assert any(re.search(rf"\b{part}\b", source) for source in known), (inside, path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_a_page_gives_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.M)) <= targets
    for module in re.findall(r"python -m ([\w.]+\w)(?![\w.…])", text):
        if module.split(".")[0] in ("dissectors", "pipelines", "tests", "docs"):
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / "docs").glob("*.md"), ROOT / "README.md"], ids=lambda page: page.name
)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"https?:|mailto:|#", target):
            assert (page.parent / target.partition("#")[0]).exists(), target


def found_by_import(name: str) -> bool:
    """Whether a dotted name is a module, or what one holds; also by its name where it is installed."""
    name = re.sub(r"^brokerscope\.(?=dissectors|pipelines)", "", name)
    first, *others = name.split(".")
    found = import_module(first)
    for part in others:
        if not hasattr(found, part):
            try:
                found = import_module(f"{found.__name__}.{part}")
                continue
            except (ImportError, AttributeError):
                return False
        found = getattr(found, part)
    return True
