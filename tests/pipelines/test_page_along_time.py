"""The page along time: stretches without any event are breaks of the axis; lag as lines; capture points as a filter."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from pipelines import report
from tests.chromium import Tab
from tests.pipelines import fabricate
from tests.pipelines.test_page_draws_what_is_there import page_of, titles_of
from tests.pipelines.test_report import exchange
from tests.pipelines.test_report_in_browser import choose, figure

HOUR = 3600
BREAKS = "[...document.querySelectorAll('#plot .break title')].map((title) => title.textContent)"


def at(second: float, **more: Any) -> dict[str, Any]:
    return exchange(time=fabricate.START + timedelta(seconds=second), total_ns=1_000_000, **more)


def bursts(*begins: float) -> list[dict[str, Any]]:
    """Ten seconds of requests, ten each second, that begin so many seconds after the start."""
    return [at(begin + n / 10) for begin in begins for n in range(100)]


def test_hours_without_any_event_are_a_break_of_all_axes(browser: Tab, tmp_path: Path) -> None:
    browser.window(1400, 900)
    browser.open(page_of(tmp_path, bursts(0, 5 * HOUR)))
    (said,) = browser.run(BREAKS)
    assert said.endswith("nothing for 4 h 59 min")
    assert "4 h 59 min without any event" in browser.run("document.getElementById('caption').textContent")
    bars = browser.run("document.querySelector('#plot .c1').getAttribute('d').split('z').length - 1")
    assert bars > 50  # both bursts are drawn as widely as they would be alone
    labels = browser.run("[...document.querySelectorAll('#plot svg > text')].map((t) => t.textContent)")
    times = [label for label in labels if label.count(":") == 2]
    assert len(times) == len(set(times)) >= 4
    assert browser.complaints == []


def test_a_selection_beside_a_break_has_real_times(browser: Tab, tmp_path: Path) -> None:
    browser.window(1400, 900)
    browser.open(page_of(tmp_path, bursts(0, 5 * HOUR)))
    browser.drag("#plot", 0.6, 0.93)  # within the second burst, and beyond the end
    assert float(browser.run("location.hash").partition("t=")[2].partition("..")[0]) > 5 * HOUR
    assert 0 < int(figure(browser, "Requests")) < 100
    browser.back()
    assert figure(browser, "Requests") == "200"


def test_a_pause_that_is_no_longer_than_the_rest_is_drawn_as_it_is(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, bursts(0, 15)))
    assert browser.run(BREAKS) == []


def test_a_slow_rhythm_has_no_breaks(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, [at(60 * n) for n in range(9)]))
    assert browser.run(BREAKS) == []


def test_what_happens_in_a_pause_is_not_left_out(browser: Tab, tmp_path: Path) -> None:
    ended = {
        "site": "s", "connection": "10.0.0.9:1>10.0.0.1:9092", "incarnation": 0,
        "start_time": fabricate.START, "end_time": fabricate.START + timedelta(seconds=2 * HOUR), "closed": "reset",
    }  # fmt: skip
    calls = [
        {**row, **{name: ended[name] for name in ("site", "connection", "incarnation")}} for row in bursts(0, 5 * HOUR)
    ]
    browser.open(page_of(tmp_path, calls, connections=[ended]))
    assert len(browser.run(BREAKS)) == 2


def test_capture_points_are_a_filter_where_there_are_several(browser: Tab, tmp_path: Path) -> None:
    rows = [at(n, site="west" if n < 7 else "east") for n in range(10)]
    browser.open(page_of(tmp_path / "two", rows))
    choose(browser, "site", "east")
    assert figure(browser, "Requests") == "3"
    assert "site:east" in browser.run("location.hash")
    browser.open(page_of(tmp_path / "one", rows[:7]))
    assert not browser.run("document.getElementById('find').placeholder.includes('site')")


def test_lag_is_drawn_along_time_and_follows_the_selected_time(browser: Tab, tmp_path: Path) -> None:
    def behind(second: float, partition: int, messages: int) -> dict[str, Any]:
        return {
            "protocol": "kafka", "group": "billing", "topic": "orders", "partition": partition,
            "bucket": fabricate.START + timedelta(seconds=second), "messages": messages, "lag_ns": messages * 1_000_000,
        }  # fmt: skip

    lag = [*(behind(n, 0, 10 * n) for n in range(10)), *(behind(n, 1, 3) for n in range(4))]
    calls = fabricate.records("exchanges", [at(n) for n in range(10)])
    browser.window(1300, 900)
    browser.open(report.write(fabricate.folder(tmp_path, {"exchanges": calls}, {"lag": lag})))
    assert titles_of(browser, "[data-view=lag] .lag") == []
    lines = "[...document.querySelectorAll('[data-view=lag] .lag title')].map((title) => title.textContent)"
    assert browser.run(lines) == ["partition 0"] * 2  # messages and age; of partition 1 too little is known
    says = browser.run("document.querySelector('[data-view=lag] figcaption').textContent")
    assert says == "billing on orders: 1 partition; 90 messages behind at the end"
    browser.run("location.hash = '#t=0..3.5'")
    browser.run("new Promise((done) => setTimeout(() => done(1), 100))")
    assert not browser.run("document.querySelector('[data-view=lag]').checkVisibility()")
    assert browser.complaints == []
