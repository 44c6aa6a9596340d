"""axe-core finds nothing against the page, in whatever state a person leaves it."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.chromium import Tab
from tests.commands import run
from tests.pipelines.conftest import SAMPLES

# Packages that carry axe-core; the first one's is newer.
CARRIERS = ("axe_playwright_python", "axe_core_python")
# Colours and the rest are asked for apart: colours take longest, and differ from one state to the next in no rule.
RULES = """axe.run(document, {{ resultTypes: ["violations"], {} }}).then((found) =>
    found.violations.map(({{ id, nodes }}) => `${{id}}: ${{nodes[0].html}} ${{nodes[0].failureSummary}}`))"""
COLOURS = RULES.format("runOnly: ['color-contrast']")
STRUCTURE = RULES.format("rules: { 'color-contrast': { enabled: false } }")


def _axe() -> Path | None:
    """The script of axe-core; None where no package carries it."""
    found = next(filter(None, map(find_spec, CARRIERS)), None)
    return Path(found.origin).with_name("axe.min.js") if found is not None and found.origin else None


pytestmark = pytest.mark.skipif(_axe() is None, reason="axe-core is not installed")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with verdicts, a checksum that is wrong, bytes of requests, and what changed since an earlier folder."""
    folder = tmp_path_factory.mktemp("accessible")
    captures = [str(SAMPLES / f"{name}.pcap") for name in ("pulsar-corrupted", "kafka-loss", "kafka-transactions")]
    out, before, page = str(folder / "out"), str(folder / "before"), folder / "page.html"
    for arguments in (
        ("analyze", *captures, "-o", out, "--engine", "local"),
        ("analyze", captures[0], "-o", before, "--engine", "local"),
        ("report", out, "--against", before, "--bytes", "-o", str(page)),
    ):
        run(*arguments)
    return page


@pytest.fixture(params=[(1400, False), (390, True)], ids=["wide and light", "narrow and dark"])
def tab(request: pytest.FixtureRequest, browser: Tab, page: Path) -> Iterator[Tab]:
    """The page, with axe beside it."""
    width, dark = request.param
    script = _axe()
    assert script is not None
    browser.window(width, 900, dark=dark)
    browser.open(page)
    browser.run(f"{script.read_text(encoding='utf-8')};0")
    yield browser
    assert browser.complaints == []


def test_axe_finds_nothing(tab: Tab) -> None:
    found = {"colours": tab.run(COLOURS)}
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tab.settle()
    found["with all details"] = tab.run(STRUCTURE)
    tab.click("#find")
    tab.type("a")
    found["with suggestions"] = tab.run(STRUCTURE)
    tab.press("Escape")
    tab.press("Escape")
    tab.click(".verdict .show")
    tab.click(".tr")
    assert not tab.run("document.getElementById('panel').hidden")
    found["with a request of a verdict"] = tab.run(STRUCTURE)
    tab.press("Escape")
    tab.press("?")
    found["with its help"] = tab.run(STRUCTURE)
    assert {state: rules for state, rules in found.items() if rules} == {}
