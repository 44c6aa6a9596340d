"""Verdicts on the page, in a real browser: what one counts is what one gets to see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from tests import chromium
from tests.chromium import Tab

pytestmark = [
    pytest.mark.skipif(chromium.path() is None, reason="there is no Chromium here"),
    pytest.mark.xdist_group("browser"),
]


@pytest.mark.parametrize("name", ["kafka-refused", "kafka-loss", "pulsar-corrupted"])
def test_a_verdict_opens_the_rows_that_it_counts(name: str, samples: list[str], browser: Tab, tmp_path: Path) -> None:
    (capture,) = (path for path in samples if name in path)
    out = tmp_path / "out"
    assert CliRunner().invoke(app, ["analyze", capture, "-o", str(out), "--engine", "local", "-q"]).exit_code == 0
    browser.window(1400, 900)
    browser.open(out / "report.html")
    heads: list[str] = browser.run(
        "[...document.querySelectorAll('#wrong details.evidence > summary')].map((one) => one.textContent)"
    )
    assert "characters)" not in browser.run("document.querySelector('#wrong').textContent")  # nothing is cut
    verdicts = browser.run("document.querySelectorAll('#wrong li[data-kind]').length")
    assert len(heads) == verdicts > 0
    browser.run("document.querySelectorAll('#wrong > details').forEach((rest) => { rest.open = true; })")
    for nth, head in enumerate(heads):
        counted = re.match(r"([\d,]+) (exchange|batch|connection|finding)", head)
        assert counted is not None
        browser.click("#wrong details.evidence > summary", nth)
        rest = (
            f"document.querySelectorAll('#wrong details.evidence')[{nth}].querySelector('.buttons .all:last-of-type')"
        )
        browser.run(f"{rest} && {rest}.click()")
        rows = browser.run(
            f"document.querySelectorAll('#wrong details.evidence')[{nth}].querySelectorAll('tbody tr').length"
        )
        assert rows == int(counted[1].replace(",", ""))
        place = browser.run(
            f"document.querySelectorAll('#wrong details.evidence')[{nth}].querySelector('.to-packet').textContent"
        )
        assert place
    assert browser.complaints == []
