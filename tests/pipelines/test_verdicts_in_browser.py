"""Verdicts on the page, in a real browser: what one counts is what one gets to see."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from tests import chromium
from tests.chromium import Tab

pytestmark = [
    pytest.mark.skipif(chromium.path() is None, reason="there is no Chromium here"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module", params=["kafka-refused", "kafka-loss", "pulsar-corrupted"])
def opened(
    request: pytest.FixtureRequest, samples: list[str], browser: Tab, tmp_path_factory: pytest.TempPathFactory
) -> Tab:
    """The page of a sample."""
    (capture,) = (path for path in samples if request.param in path)
    out = tmp_path_factory.mktemp("verdicts") / "out"
    assert CliRunner().invoke(app, ["analyze", capture, "-o", str(out), "--engine", "local", "-q"]).exit_code == 0
    browser.window(1400, 900)
    browser.open(out / "report.html")
    return browser


@pytest.fixture
def page(opened: Tab) -> Tab:
    """It, with nothing selected."""
    opened.run("document.querySelector('.clear').click()")
    return opened


def heads(browser: Tab) -> list[tuple[int, str]]:
    """What each verdict says that it counts: how many of what."""
    texts = browser.run("[...document.querySelectorAll('#wrong .evidence > summary')].map((one) => one.textContent)")
    found = [re.match(r"([\d,]+) (exchange|batch|connection|finding)", text) for text in texts]
    return [(int(one[1].replace(",", "")), one[2]) for one in found if one is not None]


def number(browser: Tab, script: str) -> float:
    """A number in the text of an element."""
    return float(re.sub("[^0-9.]", "", browser.run(f"{script}.textContent")))


def test_a_verdict_opens_the_rows_that_it_counts(page: Tab) -> None:
    browser = page
    assert "characters)" not in browser.run("document.querySelector('#wrong').textContent")  # nothing is cut
    verdicts = browser.run("document.querySelectorAll('#wrong li[data-kind]').length")
    assert len(heads(browser)) == verdicts > 0
    browser.run("document.querySelectorAll('#wrong > details').forEach((rest) => { rest.open = true; })")
    for nth, (count, _) in enumerate(heads(browser)):
        browser.click("#wrong details.evidence > summary", nth)
        rest = (
            f"document.querySelectorAll('#wrong details.evidence')[{nth}].querySelector('.buttons .all:last-of-type')"
        )
        browser.run(f"{rest} && {rest}.click()")
        rows = browser.run(
            f"document.querySelectorAll('#wrong details.evidence')[{nth}].querySelectorAll('tbody tr').length"
        )
        assert rows == count
        place = browser.run(
            f"document.querySelectorAll('#wrong details.evidence')[{nth}].querySelector('.to-packet').textContent"
        )
        assert place
    assert browser.complaints == []


def test_a_verdict_selects_the_requests_that_it_counts_all_over_the_page(page: Tab) -> None:
    whole = page.run("document.querySelector('main').innerText")
    for nth, (count, noun) in enumerate(heads(page)):
        page.run("document.querySelectorAll('#wrong > details').forEach((rest) => { rest.open = true; })")
        page.click("#wrong .evidence > summary", nth)
        chosen = page.run("document.querySelector('#select-verdict').selectedOptions[0].textContent")
        assert re.match(rf"{nth + 1}\. \w+$", chosen)  # in sight, beside what else is selected
        requests = number(page, "document.querySelector('[data-figure=requests] b')")
        if "topic_moved" in chosen:
            assert requests == 0  # what brokers push is no request
        elif noun == "exchange":
            assert requests == count
            slowest = "document.querySelector('[data-name=slowest]')"
            page.run(f"{slowest}.querySelector('.buttons .all:last-of-type')?.click()")
            assert page.run(f"{slowest}.querySelectorAll('tbody tr').length") == count
        connections = number(page, "document.querySelector('[data-figure=connections] b')")
        assert connections == page.run("document.querySelectorAll('[data-name=health] tbody tr').length") >= 1
        assert page.run("document.querySelector('main').innerText") != whole
    page.click(".clear")
    assert page.run("document.querySelector('main').innerText") == whole
    assert page.run("document.querySelectorAll('#wrong .evidence[open]').length") == 0
    assert page.complaints == []


def test_a_verdict_that_is_selected_twice_is_selected_no_more(page: Tab) -> None:
    page.click("#wrong .evidence > summary")
    assert page.run("document.querySelector('#select-verdict').value") == "0"
    page.click("#wrong .evidence > summary")
    assert page.run("document.querySelector('#select-verdict').value") == ""
    assert page.run("document.querySelector('.clear').hidden")


def test_the_requests_of_a_verdict_are_those_of_its_clients(page: Tab) -> None:
    page.click("#wrong .evidence > summary")
    count = number(page, "document.querySelector('[data-figure=requests] b')")
    clients = page.run("document.querySelector('#select-client').options.length") - 1
    of_each = []
    for nth in range(clients):
        page.run(f"""
            document.querySelector('#select-client').value = {nth};
            document.querySelector('#select-client').dispatchEvent(new Event('change'))""")
        of_each.append(number(page, "document.querySelector('[data-figure=requests] b')"))
    assert sum(of_each) == count > 0
