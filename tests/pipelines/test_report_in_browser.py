"""The page as a person uses it, in a real browser: any error on its console fails a test."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines import report
from pipelines.formats import cells
from pipelines.report.page import ASSETS
from pipelines.tables import TABLES
from tests import chromium
from tests.chromium import Tab
from tests.pipelines import fabricate, synthetic
from tests.pipelines.test_report import HOSTILE

pytestmark = [
    pytest.mark.skipif(chromium.path() is None, reason="there is no Chromium here"),
    pytest.mark.xdist_group("browser"),
]


def texts_of(tab: Tab, view: str) -> Any:
    """The texts in a chart, in order."""
    return tab.run(f"[...document.querySelectorAll('[data-view={view}] svg text')].map((t) => t.textContent)")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 requests of 40 topics; tables of 60 rows; one card of forensics with its table of bytes."""
    out = tmp_path_factory.mktemp("page") / "out"
    records = {**synthetic.make(), "exchanges": fabricate.exchanges(3_000, 40, 60)}
    del records["messages"]
    fabricate.folder(out, records, {name: fabricate.rows(name, 60) for name in TABLES})
    case = {
        "protocol": "pulsar", "role": "produce", "topic": "t", "partition": 1, "position": None, "length": 9,
        "checksum_kind": "crc32c", "stored": "0x1", "computed": "0x2", "connection": "a>b", "time": "now",
        "packet": 3, "file": "x.pcap", "related": [],
        "diagnosis": {
            "pattern": "single_bit", "note": "",
            "locations": [{"packet": 3, "packet_offset": 7, "bit": 0, "field": "payload", "stream_offset": 1,
                           "was": 17, "should_be": 16}],
            "verified": True, "candidates": 1,
            "excerpt": None,
        },
        "attribution": {"where": "before_tcp", "certainty": "certain", "because": ["x"]},
    }  # fmt: skip
    (out / "forensics.jsonl").write_text(json.dumps(case) + "\n")
    (out / "analysis.json").write_text(json.dumps({"files": ["x.pcap"], "bucket_us": 1_000_000}))
    return report.write(out)


@pytest.fixture
def tab(browser: Tab, page: Path) -> Iterator[Tab]:
    """The page, freshly loaded. What its console says against it fails the test."""
    browser.window(1400, 900)
    browser.open(page)
    yield browser
    assert browser.complaints == []


def column(tab: Tab, name: str, head: str) -> list[str]:
    """The cells of a column, as they are shown."""
    script = f"""(() => {{
        const table = document.querySelector('[data-name="{name}"] table');
        const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === {json.dumps(head)});
        return [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
    }})()"""
    shown: list[str] = tab.run(script)
    return shown


def choose(tab: Tab, dimension: str, text: str) -> None:
    tab.run(f"""(() => {{
        const select = document.getElementById('select-{dimension}');
        select.value = [...select.options].find((option) => option.textContent === {json.dumps(text)}).value;
        select.dispatchEvent(new Event('change'));
    }})()""")
    tab.settle()


def test_it_loads_nothing_but_itself(tab: Tab, page: Path) -> None:
    assert tab.requests == [page.resolve().as_uri()]


def test_every_view_of_the_page_draws_something(tab: Tab) -> None:
    empty = tab.run(
        "[...document.querySelectorAll('[data-view]')].filter((v) => !v.hidden && !v.textContent.trim()"
        " && !v.querySelector('svg, button')).map((v) => v.dataset.view)"
    )
    assert empty == []
    assert tab.run("document.querySelectorAll('svg.chart').length") >= 10


@pytest.mark.parametrize("name", ["slowest", "errors", "health", "findings"])  # those after the bytes of forensics too
def test_a_click_on_a_heading_sorts_all_rows_and_a_second_one_turns_the_order(tab: Tab, name: str) -> None:
    press = f"""[data-name="{name}"] th.n button"""
    head = tab.run(f"document.querySelector({json.dumps(press)}).textContent")
    tab.click(press)
    largest = column(tab, name, head)
    tab.click(press)
    smallest = column(tab, name, head)
    assert tab.run(f"document.querySelector({json.dumps(press)}).parentElement.ariaSort") == "ascending"
    places = data_of(tab, name, head)
    assert largest == [text for _, text in sorted(places, key=lambda pair: -pair[0])[: len(largest)]]
    assert smallest == [text for _, text in sorted(places, key=lambda pair: pair[0])[: len(smallest)]]
    assert len(places) > len(largest)


def data_of(tab: Tab, name: str, head: str) -> list[tuple[float, str]]:
    """A column of numbers over all rows that the page carries, and how each is written."""
    units = (ASSETS / "units.js").read_text(encoding="utf-8")
    pairs: list[tuple[float, str]] = tab.run(f"""(() => {{ {units}
        const table = JSON.parse(document.getElementById('data').textContent).tables[{json.dumps(name)}];
        const at = table.columns.findIndex((column) => column.head === {json.dumps(head)});
        return table.rows.map((row) => [row[at], WRITE[table.columns[at].unit](row[at])]); }})()""")
    return pairs


def test_the_table_of_bytes_on_a_card_is_no_obstacle_to_the_tables_after_it(tab: Tab) -> None:
    assert tab.run("document.querySelector('.case table.bytes').tHead") is None
    after = tab.run(
        "[...document.querySelectorAll('[data-view=table]')].filter((v) => v.compareDocumentPosition("
        "document.querySelector('.case')) & Node.DOCUMENT_POSITION_PRECEDING).map((v) => v.dataset.name)"
    )
    assert {"delivery", "clients", "health", "findings"} <= set(after)
    assert all(tab.run(f"""document.querySelectorAll('[data-name="{name}"] th button').length""") for name in after)


def test_the_filter_finds_rows_that_are_not_shown_at_first(tab: Tab) -> None:
    assert len(column(tab, "findings", "kind")) == 12
    last = last_of(tab, "findings", "kind")
    assert last not in column(tab, "findings", "kind")
    tab.click('[data-name="findings"] .filter')
    tab.type(last.upper())
    assert last in column(tab, "findings", "kind")
    assert len(column(tab, "findings", "kind")) < 12
    tab.run("document.querySelector('[data-name=\"findings\"] .filter').value = ''")
    tab.click('[data-name="findings"] .filter')
    tab.type("nowhere")
    assert "No rows" in tab.run("document.querySelector('[data-name=\"findings\"] tbody').textContent")


def last_of(tab: Tab, name: str, head: str) -> str:
    """The text in the last row that the page carries."""
    last: str = tab.run(f"""(() => {{
        const data = JSON.parse(document.getElementById('data').textContent), table = data.tables[{json.dumps(name)}];
        const at = table.columns.findIndex((column) => column.head === {json.dumps(head)});
        return data.strings[table.rows[table.rows.length - 1][at]]; }})()""")
    return last


def test_all_rows_are_one_click_away(tab: Tab) -> None:
    tab.click('[data-name="findings"] .all')
    assert len(column(tab, "findings", "kind")) == 60


def test_a_long_list_is_three_names_and_how_many_more(tab: Tab) -> None:
    first = column(tab, "errors", "topics")[0]
    assert first == "name-59-0, name-59-1, name-59-2 … +2"
    tab.click('[data-name="errors"] .more')
    assert column(tab, "errors", "topics")[0].endswith("name-59-3, name-59-4")


def numbers(tab: Tab, view: str, at: int) -> list[float]:
    """A column of a view, by its place."""
    rows = tab.run(
        f"[...document.querySelectorAll('[data-view=\"{view}\"] tbody tr')].map((r) => r.cells[{at}].textContent)"
    )
    return [float(cell.replace(",", "")) for cell in rows]


def test_the_selector_acts_on_tables_and_charts(tab: Tab) -> None:
    charts = "[...document.querySelectorAll('[data-view=requests_time] rect')].length"
    all_requests, all_bars = sum(numbers(tab, "cost", 5)), tab.run(charts)
    choose(tab, "client", "10.0.0.7 client-7")
    assert set(column(tab, "slowest", "client")) == {"10.0.0.7 client-7"}
    of_client = sum(numbers(tab, "cost", 5))
    assert 0 < of_client < all_requests / 30
    assert tab.run(charts) < all_bars
    choose(tab, "topic", "topic-0007")
    assert set(column(tab, "slowest", "topics")) == {"topic-0007"}
    assert 0 < sum(numbers(tab, "cost", 5)) < of_client
    findings = tab.run("document.querySelector('[data-name=\"findings\"]').textContent")
    assert "Whole capture: not told apart by client and topic" in findings
    tab.click(".clear")
    assert sum(numbers(tab, "cost", 5)) == all_requests


def test_the_selector_stays_in_sight(tab: Tab) -> None:
    tab.run("document.getElementById('health').scrollIntoView()")
    tab.settle()
    box = "document.getElementById('selector').getBoundingClientRect()"
    assert 0 < tab.run(f"{box}.top") < 60
    assert tab.run(f"document.querySelector('#health h2').getBoundingClientRect().top - {box}.bottom") > 0


def test_a_selected_broker_keeps_its_rows_and_its_charts(tab: Tab) -> None:
    choose(tab, "broker", "[fd00::1]:9092")
    assert set(column(tab, "slowest", "broker")) == {"[fd00::1]:9092"}
    legend = tab.run("document.querySelector('[data-view=requests_time] .legend').textContent")
    assert legend == "iggy"


def test_a_click_on_a_name_selects_it(tab: Tab) -> None:
    tab.click('[data-view="brokers"] .pick')
    chosen = tab.run("document.getElementById('select-broker').selectedOptions[0].textContent")
    assert set(column(tab, "slowest", "broker")) == {chosen}


def test_a_card_of_forensics_has_the_commands_of_its_packet(tab: Tab) -> None:
    tab.click(".case .copy")
    assert tab.run("document.querySelector('.popover code').textContent") == "tshark -r x.pcap -Y 'frame.number==3'"


@pytest.mark.parametrize("nth", [0, 1])
def test_a_packet_gives_the_commands_that_show_it(tab: Tab, nth: int) -> None:
    tab.click('[data-name="slowest"] .copy')
    wanted = tab.run(f"document.querySelectorAll('.popover code')[{nth}].textContent")
    tab.click(".popover .copy-line", nth)
    assert tab.run("navigator.clipboard.readText()") == wanted
    place = column(tab, "slowest", "packet")[0].strip()
    packet = place.rpartition(":")[2]
    file = "captures/it's here.pcap"
    meant = (["tshark", "-r", file, "-Y", f"frame.number=={packet}"], ["brokerscope", "show", f"{file}:{packet}"])[nth]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {wanted}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert words == meant
    tab.press("Escape")
    assert tab.run("document.querySelector('.popover').hidden")


def test_every_packet_cell_has_its_button(tab: Tab) -> None:
    counts = tab.run(
        "[...document.querySelectorAll('td.to-packet')]"
        ".map((c) => c.textContent ? c.querySelectorAll('.copy').length : 1)"
    )
    assert len(counts) > 50
    assert set(counts) == {1}


def test_tiles_and_sentences_lead_to_their_evidence(tab: Tab) -> None:
    links = tab.run("[...document.querySelectorAll('.tile')].map((a) => a.getAttribute('href'))")
    assert len(links) == 8
    worst = "#wrong li.critical, #wrong li.warning"
    said = tab.run(f"[...document.querySelectorAll('{worst}')].map((li) => li.textContent)")
    assert said
    assert all(text.startswith(("critical", "warning")) for text in said)
    tab.click(".tile", 2)
    assert tab.run("location.hash") == "#errors"
    top = tab.run("document.getElementById('errors').getBoundingClientRect().top")
    assert 0 <= top < 300


def test_dark_follows_the_system_and_the_button(tab: Tab) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = tab.run(paper)
    tab.window(1400, 900, dark=True)
    dark = tab.run(paper)
    assert dark != light
    tab.click("#theme")
    assert tab.run(paper) == light
    tab.run("localStorage.clear()")


def test_at_390_pixels_nothing_is_wider_than_the_window_and_charts_keep_their_letters(tab: Tab) -> None:
    wide = tab.run("document.querySelector('[data-view=requests_time] svg').getBoundingClientRect().width")
    tab.window(390, 844)
    tab.settle()
    assert tab.run("document.documentElement.scrollWidth") == 390
    narrow = tab.run(
        "[...document.querySelectorAll('svg.chart')]"
        ".map((s) => [s.getBoundingClientRect().width, s.viewBox.baseVal.width])"
    )
    assert all(300 < width <= 366 and abs(width - box) < 1.5 for width, box in narrow)
    assert wide > 1000
    assert tab.run("document.querySelectorAll('[data-view=requests_time] rect').length") > 20


@pytest.mark.parametrize("width", [1300, 1000, 700, 390])
def test_a_table_wider_than_its_place_says_so_and_leads_to_its_last_columns(tab: Tab, width: int) -> None:
    tab.window(width, 900)
    # of each table: whether it is cut at the right, whether it fades there, and what its button says
    states = """[...document.querySelectorAll('[data-view] .tools + .scroll')].map((s) => {
        const button = s.parentElement.querySelector('.sideways');
        const cut = s.scrollLeft + s.clientWidth < s.scrollWidth - 1;
        return [cut, s.matches('.goes-on'), button.hidden ? '' : button.textContent];
    })"""
    for cut, fades, says in tab.run(states):
        assert (fades, says) == (cut, "More columns →" if cut else "")
    assert tab.run("document.querySelectorAll('.goes-on').length") >= 2
    for _ in range(12):
        tab.run(
            "document.querySelectorAll('.goes-on').forEach((s) => s.parentElement.querySelector('.sideways').click())"
        )
        tab.settle()
    assert {(cut, fades) for cut, fades, _ in tab.run(states)} == {(False, False)}
    assert "← First columns" in {says for *_, says in tab.run(states)} <= {"", "← First columns"}
    covered = tab.run("""[...document.querySelectorAll('th.to-packet')].map((th) =>
        th.previousElementSibling.getBoundingClientRect().right - th.getBoundingClientRect().left)""")
    assert all(overlap < 1 for overlap in covered)


def test_at_1300_pixels_the_links_to_all_sections_are_there(tab: Tab) -> None:
    tab.window(1300, 900)
    assert tab.run("document.querySelector('nav div').scrollWidth <= document.querySelector('nav div').clientWidth")


# --- by keyboard alone -----------------------------------------------------------------------------------------------

FOCUS = "document.activeElement"


def test_a_name_is_selected_and_cleared_by_keyboard_and_the_focus_is_not_lost(tab: Tab) -> None:
    tab.run("document.querySelector('[data-view=brokers] .pick').focus()")
    tab.press("Enter")
    assert tab.run(f"{FOCUS}.id") == "select-broker"
    assert tab.run(f"{FOCUS}.value") != ""
    while not tab.run(f"{FOCUS}.matches('.clear')"):
        tab.press("Tab")
    tab.press(" ")
    assert tab.run(f"{FOCUS}.id") == "select-protocol"
    assert tab.run("[...document.querySelectorAll('select')].every((select) => select.value === '')")


def test_the_mouse_that_selects_a_name_leaves_the_arrows_to_the_page(tab: Tab) -> None:
    tab.click("[data-view=brokers] .pick")
    assert tab.run(f"{FOCUS}.tagName") != "SELECT"


def test_after_more_rows_or_names_the_next_tab_goes_on_with_them(tab: Tab) -> None:
    tab.run("document.querySelector('[data-name=findings] .all').focus()")
    tab.press("Enter")
    assert tab.run(f"{FOCUS} === document.querySelectorAll('[data-name=findings] tbody tr')[12]")
    tab.run("document.querySelector('[data-name=findings] .all').focus()")
    tab.press("Enter")
    assert tab.run(f"{FOCUS}.textContent") == "Show all 60 rows"
    row = tab.run("document.querySelector('[data-name=errors] .more').closest('tr').rowIndex")
    tab.run("document.querySelector('[data-name=errors] .more').focus()")
    tab.press(" ")
    assert tab.run(f"{FOCUS}.closest('tr').rowIndex") == row


def test_the_commands_of_a_packet_are_the_next_stop_and_lead_back_to_it(tab: Tab) -> None:
    tab.run("document.querySelector('[data-name=slowest] .copy').focus()")
    tab.press("Enter")
    assert tab.run(f"{FOCUS}.matches('.popover .copy-line')")
    tab.press("Tab")
    assert tab.run(f"{FOCUS} === document.querySelector('.popover p:last-child .copy-line')")
    tab.press("Tab")
    assert tab.run("document.querySelector('.popover').hidden")
    assert tab.run(f"{FOCUS}.closest('[data-name]').dataset.name") == "slowest"
    tab.press("Tab", shift=True)
    tab.press("Enter")
    tab.press("Tab", shift=True)
    assert tab.run("document.querySelector('.popover').hidden")
    assert tab.run(f"{FOCUS}.closest('[data-name]').dataset.name") == "slowest"


def test_a_heading_that_has_the_focus_is_not_hidden_by_the_column_of_packets(tab: Tab) -> None:
    tab.window(1000, 900)
    tab.run("document.querySelector('[data-name=health] th button').focus()")
    stays = "document.querySelector('[data-name=health] th.to-packet')"
    while not tab.run(f"{stays}.contains({FOCUS})"):
        assert tab.run(f"{FOCUS}.getBoundingClientRect().right < {stays}.getBoundingClientRect().left")
        tab.press("Tab")


def test_a_packet_that_has_the_focus_moves_no_column(tab: Tab) -> None:
    tab.window(1000, 900)
    tab.press("Tab")
    tab.run("document.querySelector('[data-name=health] td .copy').focus()")
    tab.settle()
    assert tab.run("document.querySelector('[data-name=health] .scroll').scrollLeft") == 0


# --- on paper --------------------------------------------------------------------------------------------------------

LETTER = 965  # pixels between the margins of the narrowest paper, turned


def test_on_paper_tables_and_charts_are_as_wide_as_the_paper_at_most(tab: Tab) -> None:
    tab.paper(LETTER)
    wide = "[...document.querySelectorAll('td, th, svg.chart, .tile')].map((e) => e.getBoundingClientRect().right)"
    assert tab.run(f"Math.max(...{wide})") <= LETTER
    assert tab.run("Math.max(...[...document.querySelectorAll('td .badge')].map((e) => e.offsetHeight))") < 25
    controls = "nav, .filter, .sideways, .copy, .buttons button, .clear, .check, select"
    assert tab.run(f"[...document.querySelectorAll('{controls}')].every((e) => e.checkVisibility() === false)")


def test_paper_is_light_whatever_the_page_is(tab: Tab) -> None:
    tab.window(1300, 900, dark=True)
    tab.paper(LETTER)
    colours = tab.run("(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))")
    assert colours == ["rgb(255, 255, 255)", "rgb(27, 36, 48)"]
    badge = "getComputedStyle(document.querySelector('td .badge'))"
    assert tab.run(f"{badge}.printColorAdjust") == "exact"
    assert tab.run(f"{badge}.color") == "rgb(255, 255, 255)"


def test_paper_says_what_was_selected_and_which_rows_are_missing(tab: Tab) -> None:
    said = "getComputedStyle(document.querySelector('[data-name=findings] .buttons'), '::after').content"
    tab.paper(LETTER)
    assert tab.run(said) == '"12 of 60 rows are shown."'
    choose(tab, "client", "10.0.0.7 client-7")
    seen = "[...document.querySelectorAll('#selector label')].filter((label) => label.checkVisibility())"
    assert tab.run(f"{seen}.map((label) => label.firstChild.textContent)") == ["client"]
    assert tab.run("document.querySelector('[data-name=slowest] .note').checkVisibility()")


def test_a_time_axis_is_whole_unless_idle_time_is_left_out_by_choice(tab: Tab) -> None:
    columns = "document.querySelectorAll('[data-view=requests_time] g.bar').length"
    assert tab.run(columns) == 120
    assert tab.run("document.querySelector('.check').hidden")
    ticks = texts_of(tab, "requests_time")
    assert "2025-10-09 08:53:20" in ticks
    assert "08:54:50" in ticks


def test_captures_far_apart_leave_idle_time_out_and_say_how_much(browser: Tab, tmp_path: Path) -> None:
    rows = fabricate.exchanges(100, 3, 3)
    later = rows.set_column(rows.column_names.index("time"), "time", pa.array(
        [t + timedelta(days=2) for t in rows["time"].to_pylist()], pa.timestamp("us", "UTC")))  # fmt: skip
    out = fabricate.folder(tmp_path / "out", {"exchanges": pa.concat_tables([rows, later])}, {})
    browser.window(1400, 900)
    browser.open(report.write(out))
    assert "47 h 58 min" in browser.run("document.querySelector('[data-view=requests_time]').textContent")
    browser.click(".check input")
    assert "47 h" not in browser.run("document.querySelector('[data-view=requests_time]').textContent")
    assert browser.complaints == []


def test_of_one_request_and_one_capture_nothing_is_said_in_the_plural(browser: Tab, tmp_path: Path) -> None:
    out = fabricate.folder(tmp_path / "out", {"exchanges": fabricate.exchanges(1, 1, 1)}, {})
    (out / "analysis.json").write_text(json.dumps({"files": ["x.pcap"]}))
    browser.window(1300, 900)
    browser.open(report.write(out))
    assert not re.search(r"\b1 [a-z]+s\b", browser.run("document.body.textContent"))
    marks = texts_of(browser, "errors_time")
    assert marks == ["0", "1", "2025-10-09 08:53:20"]


def test_a_day_that_begins_on_a_time_axis_has_its_date(browser: Tab, tmp_path: Path) -> None:
    rows = fabricate.exchanges(240, 3, 3)
    night = pa.array([datetime(2025, 10, 9, 23, tzinfo=UTC) + timedelta(seconds=30 * n) for n in range(240)])
    rows = rows.set_column(rows.column_names.index("time"), "time", night.cast(pa.timestamp("us", "UTC")))
    browser.window(1300, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", {"exchanges": rows}, {})))
    ticks = texts_of(browser, "requests_time")
    assert ticks[ticks.index("23:50") + 1] == "2025-10-10 00:00"


def test_pieces_of_one_day_say_its_date_once(browser: Tab, tmp_path: Path) -> None:
    rows = fabricate.exchanges(60, 3, 3)
    begin = datetime(2025, 10, 9, 8, tzinfo=UTC)
    times = pa.array([begin + timedelta(seconds=n + 3600 * (n // 20)) for n in range(60)])  # hours without requests
    rows = rows.set_column(rows.column_names.index("time"), "time", times.cast(pa.timestamp("us", "UTC")))
    browser.window(1300, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", {"exchanges": rows}, {})))
    ticks = texts_of(browser, "requests_time")
    assert [tick for tick in ticks if "2025" in tick] == ["2025-10-09 08:00:00"]
    assert "09:00:20" in ticks
    assert "10:00:40" in ticks


def test_durations_of_hours_have_space_beside_their_chart(browser: Tab, tmp_path: Path) -> None:
    rows = fabricate.exchanges(60, 3, 3)
    for name in ("wait_ns", "total_ns"):
        long = pa.array([10 ** (9 + n % 6) for n in range(60)], pa.int64())
        rows = rows.set_column(rows.column_names.index(name), name, long)
    browser.window(1300, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", {"exchanges": rows}, {})))
    chart = "document.querySelector('[data-view=durations_time] svg')"
    texts = f"[...{chart}.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect().left])"
    left = browser.run(f"{chart}.getBoundingClientRect().left")
    assert "27 h 46 min" in dict(browser.run(texts))
    assert all(at >= left for _, at in browser.run(texts))


def test_the_status_of_a_request_tells_what_its_error_says(browser: Tab, tmp_path: Path) -> None:
    failed = {"protocol": "iggy", "name": "StreamIdNotFound", "error_name": "StreamIdNotFound", "status": "error"}
    requests = fabricate.exchanges(60, 3, 3)
    for name in ("status", "error_name"):
        column = pa.array([failed[name]] * len(requests))
        at = requests.column_names.index(name) if name in requests.column_names else -1
        requests = requests.append_column(name, column) if at < 0 else requests.set_column(at, name, column)
    errors = [{**fabricate.rows("errors", 1)[0], "protocol": "iggy", "name": "StreamIdNotFound", "code": 1009}]
    browser.window(1300, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", {"exchanges": requests}, {"errors": errors})))
    titles = browser.run("[...document.querySelectorAll('[data-name=slowest] td[title]')].map((cell) => cell.title)")
    assert set(titles) == {"there is no such stream"}
    assert "there is no such stream" in browser.run("document.getElementById('errors').textContent")


@pytest.mark.parametrize("width", [1300, 390])
def test_names_of_200_characters_leave_space_for_the_rest_of_the_row(browser: Tab, tmp_path: Path, width: int) -> None:
    tables = {name: fabricate.rows(name, 3, "n" * 200) for name in TABLES}
    browser.window(width, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", {"exchanges": fabricate.exchanges(9, 3, 3)}, tables)))
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("Math.max(...[...document.querySelectorAll('td')].map((cell) => cell.offsetWidth))") <= 400


def test_numbers_are_written_as_on_the_command_line(tab: Tab) -> None:
    units = (ASSETS / "units.js").read_text(encoding="utf-8")
    values = [0, 1, 7, 999, 1_000, 1_234, 12_345, 999_999, 1_234_567, 59_994_000_000, 119e9, 121e9, 7_322e9, 3e14,
              3e15, -7_322e9, -5]  # fmt: skip
    shares = [0, 0.00001, 0.0001, 0.0123, 0.1234, 0.5, 0.98765, 0.99999, 1]
    for unit in ("ns", "bytes", "bytes/s", "1/s", "count", "ratio", "share"):
        for value in shares if unit == "share" else values:
            script = f"(() => {{ {units} return WRITE[{json.dumps(unit)}]({json.dumps(value)}); }})()"
            assert tab.run(script) == cells.show(value, unit), (unit, value)


# --- names that a capture holds --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page in which every text that a capture can choose is an attack."""
    out = tmp_path_factory.mktemp("hostile") / "out"
    exchanges, n = fabricate.exchanges(800, 5, 5), len(HOSTILE)
    names = np.arange(800) % n
    for column_name in ("client_id", "error_name", "request_file"):
        attacks = [HOSTILE[i].replace("\x00", "\x01") if column_name == "request_file" else HOSTILE[i] for i in names]
        at = exchanges.column_names.index(column_name)
        exchanges = exchanges.set_column(at, column_name, pa.array(attacks))
    at = exchanges.column_names.index("topics")
    exchanges = exchanges.set_column(at, "topics", pa.array([[HOSTILE[i]] for i in names]))
    exchanges = exchanges.append_column("group", pa.array([HOSTILE[i] for i in names]))
    exchanges = exchanges.set_column(exchanges.column_names.index("api"), "api", pa.array(["JoinGroup"] * 800))
    records = {**synthetic.make(), "exchanges": exchanges}
    del records["messages"]
    tables = {name: [row for one in HOSTILE for row in fabricate.rows(name, 2, one)] for name in TABLES}
    fabricate.folder(out, records, tables)
    (out / "analysis.json").write_text(json.dumps({"files": list(HOSTILE), "problems": list(HOSTILE)}))
    return report.write(out)


def test_nothing_that_a_capture_names_runs_wherever_one_clicks(browser: Tab, hostile: Path) -> None:
    browser.window(1400, 900)
    browser.open(hostile)
    # everything that the page can unfold, in every state of the selector
    for _ in range(2):
        browser.run("document.querySelectorAll('.all, .more').forEach((b) => b.click())")
    for dimension in ("topic", "client", "group"):
        for at in range(1, len(HOSTILE) + 1):
            browser.run(f"""(() => {{ const s = document.getElementById('select-{dimension}');
                s.selectedIndex = {at}; s.dispatchEvent(new Event('change')); }})()""")
        browser.run("document.querySelector('.clear').click()")
    browser.click('[data-name="slowest"] .copy')
    browser.settle()
    assert browser.run("typeof window.broken") == "undefined"
    assert browser.run("document.querySelectorAll('img, iframe, object, embed, base, form').length") == 0
    assert browser.run("document.scripts.length") == 2
    assert browser.complaints == []
    assert browser.requests == [hostile.resolve().as_uri()]


def test_control_and_direction_characters_are_shown_as_escapes(browser: Tab, hostile: Path) -> None:
    browser.open(hostile)
    browser.run("document.querySelectorAll('.all, .more').forEach((b) => b.click())")
    assert not browser.run(r"/[\0-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)")
    assert r"\u202egnp.exe" in browser.run("document.body.innerText")
    longest = "Math.max(...[...document.querySelectorAll('td, option, li, code')].map((e) => e.textContent.length))"
    assert browser.run(longest) < 5_000  # a verdict has several texts, each of which is cut


def test_a_command_for_a_hostile_file_name_is_one_line_of_words(browser: Tab, hostile: Path) -> None:
    browser.open(hostile)
    commands = browser.run(
        "[...document.querySelectorAll('[data-name=\"slowest\"] .copy')].map((b) => { b.click();"
        " const text = document.querySelector('.popover code').textContent; b.click(); return text; })"
    )
    assert len(commands) == 20
    for command in commands:
        assert not re.search(r"[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069]", command)
        if "$'" not in command:
            assert shlex.split(command)[:2] == ["tshark", "-r"]


def test_the_policy_stops_what_would_be_put_in_by_hand(browser: Tab, hostile: Path) -> None:
    browser.open(hostile)
    browser.run("""(() => {
        const script = document.createElement('script');
        script.textContent = 'window.broken = 1';
        document.body.append(script);
        document.body.insertAdjacentHTML('beforeend', '<img src="x.png" onerror="window.broken = 2">');
        document.body.insertAdjacentHTML('beforeend', '<p id="p" style="color: rgb(1, 2, 3)">x</p>');
    })()""")
    browser.settle()
    assert browser.run("typeof window.broken") == "undefined"
    assert browser.run("getComputedStyle(document.getElementById('p')).color") != "rgb(1, 2, 3)"
    assert len(browser.complaints) >= 3  # each refused, and said so


# --- size ------------------------------------------------------------------------------------------------------------


def test_2000_topics_and_20000_connections_make_a_page_of_bounded_size_and_load_time(
    browser: Tab, tmp_path: Path
) -> None:
    tables = {name: fabricate.rows(name, 20_000 if name in ("health", "clients") else 2_000) for name in TABLES}
    out = fabricate.folder(tmp_path / "out", {"exchanges": fabricate.exchanges(60_000, 2_000, 20_000)}, tables)
    path = report.write(out)
    assert path.stat().st_size < 8_000_000
    browser.window(1400, 900)
    before = time.monotonic()
    browser.open(path)
    assert time.monotonic() - before < 30
    busy = {m["name"]: m["value"] for m in browser.call("Performance.getMetrics")["metrics"]}
    assert not busy or busy["Nodes"] < 60_000
    assert "1,000 of 20,000 rows" in browser.run("document.querySelector('[data-name=\"health\"]').textContent")
    assert "1,000 of 2,000 rows" in browser.run("document.querySelector('[data-view=\"topics\"]').textContent")
    browser.click('[data-name="health"] .filter')
    last = last_of(browser, "health", "connection")
    browser.type(last)
    assert column(browser, "health", "connection") == [last]
    assert browser.complaints == []
