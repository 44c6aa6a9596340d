"""The page as a person uses it, in a real browser: any error on its console fails a test."""

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
from pipelines.tables.registry import TABLES
from tests.chromium import Tab
from tests.pipelines import fabricate, synthetic
from tests.pipelines.pages import data, requests
from tests.pipelines.test_report import HOSTILE


def texts_of(tab: Tab, place: str) -> Any:
    """The texts in the picture at a selector, in order."""
    return tab.run(f"[...document.querySelectorAll('{place} svg text')].map((t) => t.textContent)")


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


def choose(tab: Tab, dimension: str, text: str, *, alt: bool = False) -> None:
    """Filter by a name, as a person types it."""
    tab.click("#find")
    tab.type(f"{dimension}:{text}")
    tab.press("Enter", alt=alt)
    tab.run("document.activeElement.blur()")


def everything(tab: Tab) -> None:
    """Take all of the selection back."""
    tab.press("Escape")
    tab.press("Escape")


def figure(tab: Tab, name: str) -> str:
    """The number on a tile."""
    text: str = tab.run(f"document.querySelector('[data-figure=\"{name}\"] b').textContent")
    return text


def hash_of(tab: Tab) -> str:
    text: str = tab.run("location.hash")
    return text


def test_it_loads_nothing_but_itself(tab: Tab, page: Path) -> None:
    assert tab.requests == [page.resolve().as_uri()]


def test_every_view_of_the_page_draws_something(tab: Tab) -> None:
    empty = tab.run(
        "[...document.querySelectorAll('[data-view]')].filter((v) => v.checkVisibility() && !v.textContent.trim()"
        " && !v.querySelector('svg, button')).map((v) => v.dataset.view)"
    )
    assert empty == []
    pictures = "[...document.querySelectorAll('#plot, .view')].filter((v) => v.querySelector('svg[aria-label]'))"
    assert tab.run(f"{pictures}.length") >= 4


# --- one selection ---------------------------------------------------------------------------------------------------


def test_a_filter_acts_on_every_number(tab: Tab, page: Path) -> None:
    rows = [row for row in requests(data(page)) if row["client"] == "10.0.0.7 client-7"]
    assert figure(tab, "Requests") == "3,000"
    choose(tab, "client", "10.0.0.7 client-7")
    assert figure(tab, "Requests") == str(len(rows)) == tab.run("document.querySelector('#count b').textContent")
    assert sum(numbers(tab, "cost", 3)) == len(rows)
    assert tab.run("document.querySelector('[data-figure=Requests] em').textContent") == "of all: 3,000"
    choose(tab, "topic", "topic-0007")
    assert figure(tab, "Requests") == str(sum(1 for row in rows if row["topics"] == ["topic-0007"]))
    findings = tab.run("document.querySelector('[data-name=\"findings\"]').textContent")
    assert "Whole capture: not told apart by client and topic" in findings
    everything(tab)
    assert (figure(tab, "Requests"), hash_of(tab)) == ("3,000", "")


def test_a_filter_can_be_turned_and_removed(tab: Tab) -> None:
    choose(tab, "api", "fetch", alt=True)
    assert hash_of(tab) == "#q=-api:Fetch"
    without = int(figure(tab, "Requests").replace(",", ""))
    tab.click(".chip .dim")
    assert hash_of(tab) == "#q=api:Fetch"
    assert without + int(figure(tab, "Requests").replace(",", "")) == 3_000
    tab.click("#find")
    tab.press("Backspace")
    assert hash_of(tab) == ""
    choose(tab, "outcome", "error")
    tab.click(".chip .x")
    assert hash_of(tab) == ""


def test_dragging_on_the_band_selects_a_time(tab: Tab, page: Path) -> None:
    tab.drag("#plot", 0.4, 0.6)
    begin, end = (float(part) for part in hash_of(tab).removeprefix("#t=").split(".."))
    rows = requests(data(page))
    inside = [row for row in rows if begin * 1e6 <= row["time"] <= end * 1e6]
    assert 0 < len(inside) < len(rows)
    assert figure(tab, "Requests") == str(len(inside))
    assert "for" in tab.run("document.querySelector('.chip.range').textContent")
    tab.press("z")
    assert "&z=" in hash_of(tab)
    tab.press("z")
    tab.back()
    assert "&z=" in hash_of(tab)
    tab.run("document.getElementById('plot').dispatchEvent(new MouseEvent('dblclick'))")
    assert hash_of(tab) == ""


def test_the_band_is_moved_by_keys(tab: Tab) -> None:
    tab.run("document.getElementById('plot').focus()")
    tab.press("+")
    narrow = [float(part) for part in hash_of(tab).removeprefix("#t=").split("..")]
    tab.press("ArrowRight")
    moved = [float(part) for part in hash_of(tab).removeprefix("#t=").split("..")]
    assert moved[0] > narrow[0]
    assert moved[1] - moved[0] == pytest.approx(narrow[1] - narrow[0], abs=1e-5)
    assert "requests" in tab.run("document.getElementById('live').textContent")


def test_back_goes_through_every_step(tab: Tab) -> None:
    choose(tab, "protocol", "kafka")
    kafka = figure(tab, "Requests")
    choose(tab, "api", "Produce")
    tab.back()
    assert (figure(tab, "Requests"), hash_of(tab)) == (kafka, "#q=protocol:kafka")
    tab.back()
    assert figure(tab, "Requests") == "3,000"


@pytest.mark.parametrize(
    "nonsense",
    ["#q=api:nothing~x:y~&t=9..1&v=none&row=9999999&s=-no&fold=..&polls=2", "#t=a..b&q=%E0%A4%A", "#=&&"],
)
def test_nonsense_in_the_address_is_ignored(tab: Tab, page: Path, nonsense: str) -> None:
    tab.run(f"location.hash = {json.dumps(nonsense)}")
    tab.settle()
    assert figure(tab, "Requests") == "3,000"


def test_an_address_opens_what_it_names(tab: Tab, page: Path) -> None:
    row = next(at for at, row in enumerate(requests(data(page))) if row["api"] == "Fetch" and row["total"])
    tab.run(f"location.hash = '#q=api:Fetch&s=time&row={row}'")
    tab.settle()
    assert tab.run("document.getElementById('panel').checkVisibility()")
    assert tab.run("document.querySelector('#panel-title').textContent").startswith("Fetch took")
    assert tab.run("document.querySelector('#columns [aria-sort]').textContent") == "time ↑"


def test_keys_search_move_open_and_close(tab: Tab) -> None:
    tab.press("/")
    assert tab.run(f"{FOCUS}.id") == "find"
    tab.press("Escape")
    tab.press("Escape")
    tab.run("document.getElementById('scroll').focus()")
    tab.press("j")
    tab.press("j")
    assert tab.run("document.querySelector('.tr.cursor').ariaRowIndex") == "3"
    tab.press("k")
    tab.press("Enter")
    assert tab.run("document.getElementById('panel').checkVisibility()")
    before = hash_of(tab)
    tab.press("j")
    assert hash_of(tab) != before
    tab.press("Escape")
    assert not tab.run("document.getElementById('panel').checkVisibility()")
    tab.press("?")
    assert tab.run("document.getElementById('help').open")
    tab.press("Escape")
    assert not tab.run("document.getElementById('help').open")


# --- requests --------------------------------------------------------------------------------------------------------


def test_only_rows_in_sight_exist_and_all_can_be_reached(tab: Tab) -> None:
    rows = int(tab.run("document.getElementById('scroll').getAttribute('aria-rowcount')"))
    assert rows > 2_500
    assert tab.run("document.querySelectorAll('.tr').length") < 30
    tab.run("document.getElementById('scroll').scrollTop = 1e9")
    tab.settle()
    assert int(tab.run("[...document.querySelectorAll('.tr')].at(-1).ariaRowIndex")) == rows


def test_a_request_says_where_its_time_went_and_what_was_around_it(tab: Tab) -> None:
    tab.click(".tr")
    stages = texts_of(tab, "#panel-body")
    assert {"client sending", "in line", "broker", "transfer"} <= set(stages)
    assert tab.run("document.querySelectorAll('.ladder .arrow').length") >= 2
    assert tab.run("document.querySelectorAll('.ladder .arrow.me').length") == 2


@pytest.mark.parametrize("nth", [0, 2])
def test_a_request_gives_the_commands_that_show_it(tab: Tab, nth: int) -> None:
    tab.click(".tr")
    wanted = tab.run(f"document.querySelectorAll('#panel .cmd code')[{nth}].textContent")
    tab.click("#panel .copy-line", nth)
    assert tab.run("navigator.clipboard.readText()") == wanted
    packet = tab.run("document.querySelector('.tr.open .mono').textContent")
    file = "captures/it's here.pcap"
    meant = {
        0: ["brokerscope", "show", f"{file}:{packet}"],
        2: ["tshark", "-r", file, "-V", "-Y", f"frame.number=={packet}"],
    }[nth]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {wanted}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert words == meant


def test_fewer_than_five_requests_draw_no_picture(browser: Tab, tmp_path: Path) -> None:
    out = fabricate.folder(tmp_path / "out", {"exchanges": fabricate.exchanges(4, 1, 1)}, {})
    browser.window(1400, 900)
    browser.open(report.write(out))
    pictures = "#topology, #durations, #causes, #members, #partitions"
    assert browser.run(f"[...document.querySelectorAll('{pictures}')].every((one) => !one.checkVisibility())")
    assert figure(browser, "Median") == "–"
    assert browser.complaints == []


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["errors", "health", "findings"])  # those after the bytes of forensics too
def test_a_click_on_a_heading_sorts_all_rows_and_a_second_one_turns_the_order(tab: Tab, page: Path, name: str) -> None:
    press = f"""[data-name="{name}"] th.n button"""
    head = tab.run(f"document.querySelector({json.dumps(press)}).textContent")
    tab.click(press)
    largest = column(tab, name, head)
    tab.click(press)
    smallest = column(tab, name, head)
    assert tab.run(f"document.querySelector({json.dumps(press)}).parentElement.ariaSort") == "ascending"
    places = data_of(tab, page, name, head)
    assert largest == [text for _, text in sorted(places, key=lambda pair: -pair[0])[: len(largest)]]
    assert smallest == [text for _, text in sorted(places, key=lambda pair: pair[0])[: len(smallest)]]
    assert len(places) > len(largest)


def data_of(tab: Tab, page: Path, name: str, head: str) -> list[tuple[float, str]]:
    """A column of numbers over all rows that the page carries, and how each is written."""
    units = (ASSETS / "units.js").read_text(encoding="utf-8")
    table = data(page)["tables"][name]
    at = next(at for at, column in enumerate(table["columns"]) if column["head"] == head)
    values, unit = [row[at] for row in table["rows"]], table["columns"][at]["unit"]
    write = f"(value) => [value, WRITE[{json.dumps(unit)}](value)]"
    pairs: list[tuple[float, str]] = tab.run(f"(() => {{ {units} return {json.dumps(values)}.map({write}); }})()")
    return pairs


def test_the_table_of_bytes_on_a_card_is_no_obstacle_to_the_tables_after_it(tab: Tab) -> None:
    assert tab.run("document.querySelector('.case table.bytes').tHead") is None
    after = tab.run(
        "[...document.querySelectorAll('[data-view=table]')].filter((v) => v.compareDocumentPosition("
        "document.querySelector('.case')) & Node.DOCUMENT_POSITION_PRECEDING).map((v) => v.dataset.name)"
    )
    assert {"delivery", "clients", "health", "findings"} <= set(after)
    assert all(tab.run(f"""document.querySelectorAll('[data-name="{name}"] th button').length""") for name in after)


def test_the_filter_finds_rows_that_are_not_shown_at_first(tab: Tab, page: Path) -> None:
    assert len(column(tab, "findings", "kind")) == 12
    last = last_of(page, "findings", "kind")
    assert last not in column(tab, "findings", "kind")
    tab.click('[data-name="findings"] .filter')
    tab.type(last.upper())
    assert last in column(tab, "findings", "kind")
    assert len(column(tab, "findings", "kind")) < 12
    tab.run("document.querySelector('[data-name=\"findings\"] .filter').value = ''")
    tab.click('[data-name="findings"] .filter')
    tab.type("nowhere")
    assert "No rows" in tab.run("document.querySelector('[data-name=\"findings\"] tbody').textContent")


def last_of(page: Path, name: str, head: str) -> str:
    """The text in the last row that the page carries."""
    carried = data(page)
    table = carried["tables"][name]
    at = next(at for at, column in enumerate(table["columns"]) if column["head"] == head)
    return str(carried["strings"][table["rows"][-1][at]])


def test_all_rows_are_one_click_away(tab: Tab) -> None:
    tab.click('[data-name="findings"] .all')
    assert len(column(tab, "findings", "kind")) == 60


def test_a_long_list_is_three_names_and_how_many_more(tab: Tab) -> None:
    first = column(tab, "errors", "topics")[0]
    assert first == "name-59-0, name-59-1, name-59-2 … +2"
    tab.click('[data-name="errors"] .more-names')
    assert column(tab, "errors", "topics")[0].endswith("name-59-3, name-59-4")


def numbers(tab: Tab, view: str, at: int) -> list[float]:
    """A column of a view, by its place."""
    rows = tab.run(
        f"[...document.querySelectorAll('[data-view=\"{view}\"] tbody tr')].map((r) => r.cells[{at}].textContent)"
    )
    return [float(cell.replace(",", "")) for cell in rows]


def test_a_click_on_a_name_selects_it(tab: Tab) -> None:
    name = tab.run("document.querySelector('[data-view=\"brokers\"] .pick').textContent")
    tab.click('[data-view="brokers"] .pick')
    assert tab.run("document.querySelector('.chip .value').textContent") == name
    assert len(numbers(tab, "brokers", 2)) == 1


def test_a_card_of_forensics_has_the_commands_of_its_packet(tab: Tab) -> None:
    tab.click(".case .copy")
    assert tab.run("document.querySelector('.popover code').textContent") == "tshark -r x.pcap -Y 'frame.number==3'"


def test_a_packet_gives_the_commands_that_show_it(tab: Tab) -> None:
    tab.click('[data-name="health"] .copy')
    wanted = tab.run("document.querySelectorAll('.popover code')[1].textContent")
    tab.click(".popover .copy-line", 1)
    assert tab.run("navigator.clipboard.readText()") == wanted
    tab.press("Escape")
    assert tab.run("document.querySelector('.popover').hidden")


def test_every_packet_cell_has_its_button(tab: Tab) -> None:
    counts = tab.run(
        "[...document.querySelectorAll('td.to-packet')]"
        ".map((c) => c.textContent ? c.querySelectorAll('.copy').length : 1)"
    )
    assert len(counts) > 50
    assert set(counts) == {1}


def test_the_tile_of_failures_selects_them(tab: Tab, page: Path) -> None:
    failed = int(figure(tab, "Failed"))
    tab.click('[data-figure="Failed"]')
    assert hash_of(tab) == "#q=outcome:error~outcome:no%20answer"
    assert int(figure(tab, "Requests")) == failed > 0


def test_dark_follows_the_system_and_the_button(tab: Tab) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = tab.run(paper)
    tab.window(1400, 900, dark=True)
    dark = tab.run(paper)
    assert dark != light
    tab.click("#theme")
    assert tab.run(paper) == light
    tab.run("localStorage.clear()")


def test_at_390_pixels_nothing_is_wider_than_the_window_and_pictures_keep_their_letters(tab: Tab) -> None:
    tab.window(390, 844)
    tab.settle()
    assert tab.run("document.documentElement.scrollWidth") == 390
    narrow = tab.run(
        "[...document.querySelectorAll('main svg[viewBox][aria-label]')].filter((s) => s.checkVisibility())"
        ".map((s) => [s.getBoundingClientRect().width, s.viewBox.baseVal.width])"
    )
    assert len(narrow) >= 3
    assert all(300 < width <= 390 and abs(width - box) < 1.5 for width, box in narrow)
    tab.click(".tr")
    assert tab.run("document.getElementById('panel').getBoundingClientRect().width") == 390
    assert tab.run("document.documentElement.scrollWidth") == 390


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


# --- by keyboard alone -----------------------------------------------------------------------------------------------

FOCUS = "document.activeElement"


def test_a_verdict_is_chosen_by_keyboard(browser: Tab, tmp_path: Path) -> None:
    slow = fabricate.exchanges(400, 3, 3)
    for name in ("wait_ns", "total_ns"):
        late = pa.array([4_000_000_000 if n % 80 == 0 else 1_000_000 for n in range(400)], pa.int64())
        slow = slow.set_column(slow.column_names.index(name), name, late)
    ids = pa.array([str(n) for n in range(400)])
    slow = slow.append_column("exchange_id", ids).append_column("response_file", slow["request_file"])
    out = fabricate.folder(tmp_path / "out", {"exchanges": slow}, {})
    (out / "tables" / "verdicts.parquet").unlink()
    browser.window(1400, 900)
    browser.open(report.write(out))
    browser.press("j")
    assert browser.run(f"{FOCUS}.matches('.verdict')")
    browser.press("Enter")
    assert hash_of(browser).startswith("#v=")
    assert browser.run(f"{FOCUS}.getAttribute('aria-current')") == "true"
    browser.press("Escape")
    assert hash_of(browser) == ""
    assert browser.complaints == []


def test_after_more_rows_or_names_the_next_tab_goes_on_with_them(tab: Tab) -> None:
    tab.run("document.querySelector('[data-name=findings] .all').focus()")
    tab.press("Enter")
    assert tab.run(f"{FOCUS} === document.querySelectorAll('[data-name=findings] tbody tr')[12]")
    tab.run("document.querySelector('[data-name=findings] .all').focus()")
    tab.press("Enter")
    assert tab.run(f"{FOCUS}.textContent") == "Show all 60 rows"
    row = tab.run("document.querySelector('[data-name=errors] .more-names').closest('tr').rowIndex")
    tab.run("document.querySelector('[data-name=errors] .more-names').focus()")
    tab.press(" ")
    assert tab.run(f"{FOCUS}.closest('tr').rowIndex") == row


def test_the_commands_of_a_packet_are_the_next_stop_and_lead_back_to_it(tab: Tab) -> None:
    tab.run("document.querySelector('[data-name=health] .copy').focus()")
    tab.press("Enter")
    assert tab.run(f"{FOCUS}.matches('.popover .copy-line')")
    tab.press("Tab")
    assert tab.run(f"{FOCUS} === document.querySelector('.popover p:last-child .copy-line')")
    tab.press("Tab")
    assert tab.run("document.querySelector('.popover').hidden")
    assert tab.run(f"{FOCUS}.closest('[data-name]').dataset.name") == "health"
    tab.press("Tab", shift=True)
    tab.press("Enter")
    tab.press("Tab", shift=True)
    assert tab.run("document.querySelector('.popover').hidden")
    assert tab.run(f"{FOCUS}.closest('[data-name]').dataset.name") == "health"


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
    wide = "[...document.querySelectorAll('td, th, svg, .tile')].map((e) => e.getBoundingClientRect().right)"
    assert tab.run(f"Math.max(...{wide})") <= LETTER
    assert tab.run("Math.max(...[...document.querySelectorAll('td .badge')].map((e) => e.offsetHeight))") < 25
    controls = "#find, .filter, .sideways, .copy, .buttons button, .icon, .check, .btn, dialog"
    assert tab.run(f"[...document.querySelectorAll('{controls}')].every((e) => e.checkVisibility() === false)")


def test_paper_is_light_whatever_the_page_is(tab: Tab) -> None:
    tab.window(1300, 900, dark=True)
    tab.paper(LETTER)
    colours = tab.run("(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))")
    assert colours == ["rgb(255, 255, 255)", "rgb(20, 24, 31)"]
    badge = "getComputedStyle(document.querySelector('td .badge'))"
    assert tab.run(f"{badge}.printColorAdjust") == "exact"
    assert tab.run(f"{badge}.color") == "rgb(255, 255, 255)"


def test_paper_says_what_was_selected_and_which_rows_are_missing(tab: Tab) -> None:
    said = "getComputedStyle(document.querySelector('[data-name=findings] .buttons'), '::after').content"
    choose(tab, "client", "10.0.0.7 client-7")
    tab.paper(LETTER)
    assert tab.run(said) == '"12 of 60 rows are shown."'
    assert tab.run("document.querySelector('.chip .value').checkVisibility()")


def test_of_one_request_and_one_capture_nothing_is_said_in_the_plural(browser: Tab, tmp_path: Path) -> None:
    out = fabricate.folder(tmp_path / "out", {"exchanges": fabricate.exchanges(1, 1, 1)}, {})
    (out / "analysis.json").write_text(json.dumps({"files": ["x.pcap"]}))
    browser.window(1300, 900)
    browser.open(report.write(out))
    assert not re.search(r"\b1 [a-z]+s\b", browser.run("document.querySelector('main').textContent"))


def test_a_day_that_begins_on_a_time_axis_has_its_date(browser: Tab, tmp_path: Path) -> None:
    rows = fabricate.exchanges(240, 3, 3)
    night = pa.array([datetime(2025, 10, 9, 23, tzinfo=UTC) + timedelta(seconds=30 * n) for n in range(240)])
    rows = rows.set_column(rows.column_names.index("time"), "time", night.cast(pa.timestamp("us", "UTC")))
    browser.window(1300, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", {"exchanges": rows}, {})))
    ticks = [text for text in texts_of(browser, "#plot") if re.search(r"\d:\d\d", text)]
    assert "10-10 00:00:00" in ticks
    assert len(set(ticks)) == len(ticks)


def test_the_status_of_a_request_tells_what_its_error_says(browser: Tab, tmp_path: Path) -> None:
    failed = {"protocol": "iggy", "name": "StreamIdNotFound", "error_name": "StreamIdNotFound", "status": "error"}
    rows = fabricate.exchanges(60, 3, 3)
    for name in ("status", "error_name"):
        rows = rows.set_column(rows.column_names.index(name), name, pa.array([failed[name]] * len(rows)))
    errors = [{**fabricate.rows("errors", 1)[0], "protocol": "iggy", "name": "StreamIdNotFound", "code": 1009}]
    browser.window(1300, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", {"exchanges": rows}, {"errors": errors})))
    titles = browser.run("[...document.querySelectorAll('.tr .c-out')].map((cell) => cell.title)")
    assert set(titles) == {"there is no such stream"}
    assert "there is no such stream" in browser.run("document.getElementById('errors').textContent")


@pytest.mark.parametrize("width", [1300, 390])
def test_names_of_200_characters_leave_space_for_the_rest_of_the_row(browser: Tab, tmp_path: Path, width: int) -> None:
    tables = {name: fabricate.rows(name, 3, "n" * 200) for name in TABLES}
    browser.window(width, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", {"exchanges": fabricate.exchanges(9, 3, 3)}, tables)))
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("Math.max(...[...document.querySelectorAll('td.long')].map((cell) => cell.offsetWidth))") <= 440


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
    # everything that the page can unfold, in every state of the selection
    for _ in range(2):
        browser.run("document.querySelectorAll('.all, .more-names').forEach((b) => b.click())")
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.click("#find")
    for dimension in ("topic", "client", "group", "error"):
        for _ in range(len(HOSTILE)):
            browser.type(f"{dimension}:")
            browser.press("ArrowDown")
            browser.press("Enter")
        for _ in range(len(HOSTILE)):
            browser.press("Backspace")
    browser.run("document.activeElement.blur()")
    browser.run("document.querySelectorAll('.chip .x').forEach((b) => b.click())")
    browser.click(".tr")
    browser.settle()
    assert browser.run("typeof window.broken") == "undefined"
    assert browser.run("document.querySelectorAll('img, iframe, object, embed, base, form').length") == 0
    assert browser.run("document.scripts.length") == 2
    assert browser.complaints == []
    assert browser.requests == [hostile.resolve().as_uri()]


def test_control_and_direction_characters_are_shown_as_escapes(browser: Tab, hostile: Path) -> None:
    browser.open(hostile)
    browser.run("document.querySelectorAll('.all, .more-names').forEach((b) => b.click())")
    assert not browser.run(r"/[\0-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)")
    assert r"\u202egnp.exe" in browser.run("document.body.innerText")
    longest = "Math.max(...[...document.querySelectorAll('td, li, code, .tr, .chip')].map((e) => e.textContent.length))"
    assert browser.run(longest) < 5_000  # a verdict has several texts, each of which is cut


def test_a_command_for_a_hostile_file_name_is_one_line_of_words(browser: Tab, hostile: Path) -> None:
    browser.open(hostile)
    commands = browser.run(
        "[...document.querySelectorAll('.tr')].map((row) => { row.click();"
        " return document.querySelectorAll('#panel .cmd code')[2].textContent; })"
    )
    assert len(commands) > 10
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
    assert figure(browser, "Requests") == "60,000"
    browser.click('[data-name="health"] .filter')
    last = last_of(path, "health", "connection")
    browser.type(last)
    assert column(browser, "health", "connection") == [last]
    assert browser.complaints == []
