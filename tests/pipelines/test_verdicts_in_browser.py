"""Verdicts on the page, in a real browser: what one counts is what one gets to see."""

import re
from pathlib import Path

import pytest

from tests.chromium import Tab
from tests.commands import run


@pytest.mark.parametrize("name", ["kafka-refused", "kafka-loss", "pulsar-corrupted"])
def test_a_verdict_opens_the_rows_that_it_counts(name: str, samples: list[str], browser: Tab, tmp_path: Path) -> None:
    (capture,) = (path for path in samples if name in path)
    out = tmp_path / "out"
    run("analyze", capture, "-o", out, "--engine", "local", "-q")
    browser.window(1400, 900)
    browser.open(out / "report.html")
    box = "document.querySelector('#verdicts')"
    assert "characters)" not in browser.run(f"{box}.textContent")  # nothing is cut
    browser.run(f"{box}.querySelectorAll('details').forEach((rest) => {{ rest.open = true; }})")
    heads: list[str] = browser.run(
        "[...document.querySelectorAll('.verdict .show button')].map((one) => one.textContent)"
    )
    assert len(heads) == browser.run("document.querySelectorAll('.verdict').length") > 0
    for nth, head in enumerate(heads):
        counted = re.match(r"([\d,]+) (exchange|batch|connection|finding)", head)
        assert counted is not None
        browser.click(".verdict .show button", nth)
        chosen = f"document.querySelectorAll('.verdict')[{nth}]"
        assert browser.run(f"{chosen}.getAttribute('aria-current')") == "true"
        if counted[2] == "exchange":
            rows = browser.run("Number(document.getElementById('scroll').getAttribute('aria-rowcount'))")
        else:
            browser.run(f"{chosen}.querySelectorAll('.buttons .all:last-of-type').forEach((all) => all.click())")
            rows = browser.run(f"{chosen}.querySelectorAll('.rows tbody tr').length")
            assert browser.run(f"{chosen}.querySelector('.to-packet').textContent")
        assert rows == int(counted[1].replace(",", ""))
        assert browser.run("location.hash").startswith("#v=")
        browser.click(".verdict .show button", nth)
        assert browser.run("location.hash") == ""
    assert browser.complaints == []
