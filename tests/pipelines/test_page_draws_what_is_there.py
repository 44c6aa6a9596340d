"""The page draws what is there: nothing unknown as a number, nothing left out without a word, no label twice."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines import report
from pipelines.report import facts as facts_module
from pipelines.report.elements import Html
from pipelines.report.page import ASSETS
from pipelines.report.payload import LIST
from pipelines.report.sections.events import EVENTS
from pipelines.report.sections.forensics import card
from pipelines.tables import TABLES
from tests import chromium
from tests.chromium import Tab
from tests.pipelines import fabricate, synthetic
from tests.pipelines.test_report import data, exchange
from tests.pipelines.test_report_in_browser import choose, column, numbers, texts_of

pytestmark = [
    pytest.mark.skipif(chromium.path() is None, reason="there is no Chromium here"),
    pytest.mark.xdist_group("browser"),
]
MS = 1_000_000


def page_of(out: Path, requests: list[dict[str, Any]], **records: list[dict[str, Any]]) -> Path:
    """The page of these requests and other records, without tables."""
    given = {"exchanges": requests, **records}
    return report.write(fabricate.folder(out, {n: fabricate.records(n, rows) for n, rows in given.items()}, {}))


def fetches(known: int, unknown: int) -> list[dict[str, Any]]:
    """Fetches, one each millisecond: those of which 35 ms are known, and those of which the capture lacks bytes."""
    nothing = {"total_ns": None, "wait_ns": None, "status": "unknown"}
    made = [{"total_ns": 35 * MS, "wait_ns": 30 * MS}] * known + [nothing] * unknown
    return [
        exchange(api="Fetch", time=fabricate.START + timedelta(milliseconds=n), **row) for n, row in enumerate(made)
    ]


def text_of(tab: Tab, selector: str) -> str:
    text: str = tab.run(f"document.querySelector({json.dumps(selector)}).textContent")
    return text


def titles_of(tab: Tab, view: str) -> list[str]:
    """What the marks of a chart say when one points at them."""
    titles: list[str] = tab.run(
        f"[...document.querySelectorAll('[data-view={view}] svg title')].map((t) => t.textContent)"
    )
    return titles


# --- what is not known -----------------------------------------------------------------------------------------------


def test_requests_without_a_duration_are_in_no_histogram(tmp_path: Path) -> None:
    polls = [exchange(api="Fetch", long_poll=True, total_ns=None), exchange(api="Fetch", long_poll=True)]
    silent = exchange(api="Fetch", kind="unanswered", total_ns=None, wait_ns=None)
    facts = data(page_of(tmp_path, [*fetches(13, 13), *polls, silent]))["facts"]
    for name in ("api", "requests", "requests_time"):
        columns = facts[name]["columns"]
        assert sum(columns["n"]) == 26, name
        assert sum(columns["waits"]) == 13, name
        (pairs,) = [pairs for pairs in columns["histogram"] if pairs]
        assert pairs == [226, 13], name  # 10 ** (226 / 30) ns are 34.1 ms


def test_requests_without_a_duration_are_counted_and_not_drawn(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, fetches(13, 13)))
    caption = text_of(browser, "[data-view=spread] figcaption small")
    assert caption == "26 requests, 13 without a duration, median ≈ 35.0 ms"
    assert texts_of(browser, "spread") == ["10 ms", "100 ms", "p50"]
    assert "1 µs" not in texts_of(browser, "durations_time")
    assert "13 requests without a duration" in text_of(browser, "[data-view=durations_time]")
    assert (
        sum(int(title.rpartition(": ")[2]) for title in titles_of(browser, "durations_time") if " to " in title) == 13
    )
    for view in ("cost", "brokers"):
        head = browser.run(f"[...document.querySelectorAll('[data-view={view}] th')].map((th) => th.textContent)")
        row = browser.run(f"[...document.querySelectorAll('[data-view={view}] td')].map((td) => td.textContent)")
        shown = dict(zip(head, row, strict=True))
        assert shown["mean service"] == "30.0 ms"
        assert shown["without a duration"] == "13"


def test_sums_and_means_of_nothing_known_are_blank(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, fetches(0, 9)))
    assert numbers(browser, "cost", 2) == [9]  # the first column after protocol and API that is not blank
    assert "0 ns" not in text_of(browser, "[data-view=cost]")
    assert "Nothing of this selection" in text_of(browser, "[data-view=spread]")


def test_a_duration_of_zero_is_known_and_said_to_be_below_what_captures_show(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, [exchange(total_ns=0, wait_ns=0)] * 7))
    assert text_of(browser, "[data-view=spread] figcaption small") == "7 requests, median ≈ 0 ns"
    assert "up to 1.26 µs: 7" in titles_of(browser, "spread")
    dots = "[...document.querySelectorAll('[data-view=durations_time] circle')].map((c) => c.cy.baseVal.value)"
    assert 0 < max(browser.run(dots)) <= 188  # the lower end of the chart


def test_a_percentile_of_a_table_rests_on_the_known_durations(tmp_path: Path) -> None:
    rows = [{**row, "count": 26, "timed": timed} for row, timed in zip(fabricate.rows("latency", 2), (4, 13))]
    records = {"exchanges": fabricate.records("exchanges", fetches(1, 0))}
    carried = data(report.write(fabricate.folder(tmp_path, records, {"latency": rows})))["tables"]["latency"]
    heads = [one["name"] for one in carried["columns"]]
    medians = {row[heads.index("timed")]: row[heads.index("total_p50_ns")] for row in carried["rows"]}
    assert medians[4] is None
    assert medians[13] is not None


def test_a_join_without_an_answer_is_no_rebalance(tmp_path: Path) -> None:
    join = {"api": "JoinGroup", "kind": "unanswered", "total_ns": None, "wait_ns": None, "status": "unknown"}
    page = page_of(tmp_path, [exchange(**join, group="g")])
    assert "rebalances" not in data(page)["tables"]


# --- nothing is left out without a word ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More events than the table carries, one a client, over 100 s; two topics; a finding and a reset after the end."""
    count, start = EVENTS + 2_000, fabricate.START
    silent = {"kind": "unanswered", "total_ns": None, "wait_ns": None, "status": "unknown"}
    requests = [
        exchange(
            **silent, client_id=f"c{n}", topics=[f"t{n % 2}"], time=start + timedelta(seconds=100) * n / count,
            exchange_id=f"{n}",
        )
        for n in range(count)
    ]  # fmt: skip
    finding = {
        "site": "s", "protocol": "kafka", "kind": "gap", "severity": "warning", "client_ip": "10.0.0.9",
        "server_ip": "10.0.0.1", "server_port": 9092, "time": start + timedelta(seconds=110), "file": "x", "packet": 1,
    }  # fmt: skip
    out = tmp_path_factory.mktemp("events") / "out"
    return page_of(out, requests, findings=[finding])


def events_drawn(tab: Tab) -> int:
    """How many events the dots of the timeline stand for."""
    lines = [line for title in titles_of(tab, "events") for line in title.split("\n")[1:]]
    return sum(int(line.split(" × ")[0].replace(",", "")) for line in lines)


def test_the_timeline_counts_every_event_to_the_end(browser: Tab, many_events: Path) -> None:
    browser.window(1300, 900)
    browser.open(many_events)
    assert events_drawn(browser) == EVENTS + 2_001
    assert f"{EVENTS:,} of {EVENTS + 2_001:,} rows are on this page" in text_of(browser, "[data-name=events]")
    titles = titles_of(browser, "events")
    assert max(title for title in titles if "Produce" in title or "others" in title).startswith("2025-10-09 08:54:5")
    assert [title.split("\n")[0] for title in titles if "gap" in title] == ["2025-10-09 08:55:10"]


def test_a_selection_says_how_many_events_it_cannot_tell_apart(browser: Tab, many_events: Path) -> None:
    browser.open(many_events)
    choose(browser, "topic", "t1")
    shown = text_of(browser, "[data-view=events]")
    left = int(re.search(r"Up to ([\d,]+) events? more", shown)[1].replace(",", ""))  # type: ignore[index]
    assert left > 1_000
    assert events_drawn(browser) + left >= (EVENTS + 2_000) / 2


def test_a_selection_says_how_many_requests_stand_under_names_that_the_page_lacks(
    browser: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_module, "COMBINATIONS", 5)
    monkeypatch.setattr(facts_module, "CELLS", 100)
    requests = [exchange(client_id=f"c{n % 20}", server_ip=f"10.0.1.{n % 7}") for n in range(700)]
    browser.open(page_of(tmp_path, requests))
    assert "more may belong" not in browser.run("document.body.innerText")
    choose(browser, "client", "10.0.0.9 c1")
    (few,) = numbers(browser, "cost", 5)
    said = re.search(r"Up to ([\d,]+) requests more may belong", text_of(browser, "[data-view=cost]"))
    assert said is not None
    assert few < 35 <= few + int(said[1].replace(",", ""))
    assert "whole capture" in text_of(browser, "[data-figure=requests]")


def test_pictures_of_the_costliest_apis_say_how_many_there_are(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, [exchange(api=f"Api{n}") for n in range(12)]))
    assert "The 9 APIs of 12 that cost most are drawn." in text_of(browser, "[data-view=spread]")


def test_a_list_that_is_cut_says_how_many_names_there_are(browser: Tab, tmp_path: Path) -> None:
    clients = LIST + 30
    browser.open(page_of(tmp_path, [exchange(group="g", client_id=f"c{n:02}") for n in range(clients)]))
    assert column(browser, "groups", "clients")[0].endswith(f"… +{clients - 3}")
    choose(browser, "client", f"10.0.0.9 c{clients - 1}")  # beyond what the list carries
    assert "Left out as unsure: 1 row with more names" in text_of(browser, "[data-name=groups]")


def test_groups_and_rebalances_beyond_what_the_page_carries_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [exchange(api="JoinGroup", group=f"g{n}") for n in range(1_010)]
    tables = data(page_of(tmp_path, requests))["tables"]
    for name in ("groups", "rebalances"):
        assert (len(tables[name]["rows"]), tables[name]["total"]) == (1_000, 1_010)


def test_a_card_counts_the_bytes_and_packets_that_it_does_not_show() -> None:
    spots = [
        {
            "packet": 1,
            "packet_offset": at,
            "bit": None,
            "field": f"f{at}",
            "stream_offset": at,
            "was": 1,
            "should_be": 2,
        }
        for at in (5, 1_000, 1_002, 1_003)
    ]
    related = [{"name": "x", "file": "f", "packet": n, "why": "w"} for n in range(6)]
    case = {
        "protocol": "kafka", "role": "produce", "topic": "t", "partition": 1, "position": None, "length": 9,
        "checksum_kind": "crc32c", "stored": "1", "computed": "2", "connection": "c", "time": "now", "packet": 3,
        "file": "x.pcap", "related": related,
        "diagnosis": {"pattern": "unknown", "note": "", "locations": spots, "verified": False, "candidates": 0},
        "attribution": {"where": "undecided", "certainty": "undecided", "because": []},
    }  # fmt: skip
    shown = card(case, Html(""))
    assert "994 bytes" in shown
    assert "(f5, f1000, f1002 and 1 more)" in shown
    assert "; and 2 more</p>" in shown


def test_requests_along_time_add_up_to_the_tile(browser: Tab, tmp_path: Path) -> None:
    silent = exchange(kind="unanswered", total_ns=None, wait_ns=None)
    activity = {**fabricate.rows("activity", 1)[0], "count": 5, "unanswered": 2, "errors": 0}
    records = {
        "exchanges": fabricate.records("exchanges", [*[exchange()] * 4, exchange(long_poll=True), silent, silent])
    }
    browser.open(report.write(fabricate.folder(tmp_path, records, {"activity": [activity]})))
    assert text_of(browser, "[data-figure=requests] b") == "7"
    assert [title.rpartition(": ")[2] for title in titles_of(browser, "requests_time")] == ["7/s"]


# --- labels ----------------------------------------------------------------------------------------------------------

AXIS = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in ("units", "axis"))


def axis(tab: Tab, expression: str) -> Any:
    """An expression in which the functions of units.js and axis.js are known."""
    known = "const data = { tables: {} }, facts = {}, BUCKET = 1e6, placesIn = () => ({}), bucketAt = () => 0;"
    return tab.run(f"(() => {{ {known} {AXIS}; return {expression}; }})()")


def test_no_time_axis_says_a_label_twice(browser: Tab) -> None:
    """Buckets from 100 µs to a day, from one to thousands of them, at all widths, with and without gaps."""
    shown = axis(browser, """[100, 1e3, 1e4, 1e5, 5e5, 1e6, 1e7, 6e7, 36e8, 864e8].flatMap((bucket) =>
        [1, 2, 3, 7, 30, 100, 2000].flatMap((count) => [316, 700, 1256].flatMap((width) => [1, 9, 400].map((apart) => {
            const first = Math.floor(1792021199.7e6 / bucket), buckets = [];
            for (let n = 0; n < count; n++) buckets.push(first + n + Math.floor(n / 10) * apart);
            return new Axis(buckets, bucket, width, apart < 50).ticks().map((tick) => tick[1]);
        }))))""")  # fmt: skip
    assert len(shown) == 10 * 7 * 3 * 3
    for labels in shown:
        assert labels
        assert len(set(labels)) == len(labels)
        assert labels[0].startswith("20")  # the first has its date


def test_times_are_written_as_finely_as_they_are_apart(browser: Tab) -> None:
    def texts(begin: str, apart: timedelta) -> Any:
        first = datetime.fromisoformat(f"{begin}+00:00")
        times = [(first + n * apart - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) for n in range(4)]
        return axis(browser, f"timeTexts({times}, [true, true, true, true])")

    half = texts("2026-10-14 23:59:59.500", timedelta(milliseconds=500))
    assert half == ["2026-10-14 23:59:59.5", "2026-10-15 00:00:00.0", "00:00:00.5", "00:00:01.0"]
    noon = texts("2026-10-14 00:00", timedelta(hours=12))  # 12:00 of two days
    assert noon == ["2026-10-14 00:00", "2026-10-14 12:00", "2026-10-15 00:00", "2026-10-15 12:00"]
    assert texts("2026-10-14 00:00", timedelta(days=1))[3] == "2026-10-17"
    assert texts("2026-10-14 08:00", timedelta(minutes=1))[1:] == ["08:01", "08:02", "08:03"]


def test_axes_of_amounts_say_no_label_twice(browser: Tab) -> None:
    shown = axis(
        browser,
        """["count", "1/s", "bytes/s"].flatMap((unit) =>
            [1, 2, 3, 4, 6, 8, 10, 0.1, 0.004, 1000, 1e6]
                .map((top) => amountTicks(top, WRITE[unit]).map(([, text]) => text)))""",
    )
    for labels in shown:
        assert len(set(labels)) == len(labels)
    assert axis(browser, "amountTicks(1, units.count)") == [[0, "0"], [1, "1"]]
    assert axis(browser, "amountTicks(2, units.count)") == [[0, "0"], [0.5, "1"], [1, "2"]]
    decades = axis(browser, "decadeTicks(0, 17).map(([, text]) => text)")
    assert len(set(decades)) == len(decades) == 18


def test_columns_of_tenths_of_a_second_have_labels_of_tenths(browser: Tab, tmp_path: Path) -> None:
    requests = [exchange(time=fabricate.START + timedelta(milliseconds=100 * n)) for n in range(25)]
    out = fabricate.folder(tmp_path, {"exchanges": fabricate.records("exchanges", requests)}, {})
    (out / "analysis.json").write_text(json.dumps({"bucket_us": 100_000}))
    browser.window(1300, 900)
    browser.open(report.write(out))
    ticks = [text for text in texts_of(browser, "requests_time") if ":" in text]
    assert len(set(ticks)) == len(ticks) >= 4
    assert "08:53:21.5" in ticks


# --- a selection -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every section has content, of several protocols, brokers, topics, clients and groups; one bad checksum."""
    out = tmp_path_factory.mktemp("full") / "out"
    exchanges = fabricate.exchanges(3_000, 40, 60)
    exchanges = exchanges.append_column("group", pa.array([f"group-{n % 5}" for n in range(3_000)]))
    records = {**synthetic.make(), "exchanges": exchanges}
    del records["messages"]
    fabricate.folder(out, records, {name: fabricate.rows(name, 30) for name in TABLES})
    case = {
        "protocol": "pulsar", "role": "produce", "topic": "t", "partition": 1, "position": None, "length": 9,
        "checksum_kind": "crc32c", "stored": "0x1", "computed": "0x2", "connection": "10.9.9.9:1>10.9.9.8:2",
        "time": "now", "packet": 3, "file": "x.pcap", "related": [],
        "diagnosis": {"pattern": "unknown", "note": "", "locations": [], "verified": False, "candidates": 0},
        "attribution": {"where": "undecided", "certainty": "undecided", "because": []},
    }  # fmt: skip
    (out / "forensics.jsonl").write_text(json.dumps(case) + "\n")
    return report.write(out)


MARKED = re.compile("whole capture|Whole capture|not told apart here|with figures of all their")
SEEN = """[...document.querySelectorAll('[data-view], #wrong')].filter((v) => !v.dataset.at && v.checkVisibility()
    && v.dataset.view !== 'axis').map((v) => [v.dataset.figure || v.dataset.name || v.dataset.view || v.id,
    v.innerText + [...v.querySelectorAll('svg')].map((s) => s.innerHTML).join()])"""


@pytest.mark.parametrize(
    ("dimension", "name"),
    [("broker", "[fd00::1]:9092"), ("client", "10.0.0.7 client-7"), ("topic", "topic-0007"), ("protocol", "iggy")],
)
def test_a_selection_changes_every_part_of_the_page_or_the_part_says_that_it_does_not(
    browser: Tab, full: Path, dimension: str, name: str
) -> None:
    browser.window(1400, 900)
    browser.open(full)
    before = browser.run(SEEN)
    assert not any(MARKED.search(text) for _, text in before)
    choose(browser, dimension, name)
    after = browser.run(SEEN)
    assert {part for part, _ in after} >= {
        "wrong",
        "requests",
        "lost",
        "cost",
        "events",
        "groups",
        "verdicts",
        "health",
    }
    unsaid = [
        part for (part, now), (_, then) in zip(after, before, strict=True) if now == then and not MARKED.search(now)
    ]
    assert unsaid == []
    browser.click(".clear")
    assert browser.run(SEEN) == before


def test_figures_of_a_selection_are_those_of_its_requests(browser: Tab, full: Path) -> None:
    browser.open(full)
    choose(browser, "client", "10.0.0.7 client-7")
    tables = sum(numbers(browser, "cost", 5))
    polls = browser.run("document.querySelector('[data-figure=requests] b').textContent")
    assert tables <= float(polls) <= 3_000 / 60
    assert "in the whole capture" in text_of(browser, "[data-figure=requests]")


def test_a_kind_of_findings_is_not_taken_for_its_first_connection(browser: Tab, full: Path) -> None:
    browser.open(full)
    rows = len(column(browser, "findings", "kind"))
    choose(browser, "broker", "[fd00::1]:9092")
    assert len(column(browser, "findings", "kind")) == rows
    assert "Whole capture: not told apart by broker" in text_of(browser, "[data-name=findings]")


def test_cards_of_other_connections_are_hidden(browser: Tab, full: Path) -> None:
    browser.open(full)
    assert browser.run("document.querySelector('.case').checkVisibility()")
    choose(browser, "broker", "[fd00::1]:9092")
    assert not browser.run("document.querySelector('.case').checkVisibility()")
    assert "No bad checksum of this selection" in text_of(browser, "[data-view=cases]")


def test_events_that_tell_only_an_address_are_kept_with_a_word(browser: Tab, many_events: Path) -> None:
    browser.open(many_events)
    choose(browser, "client", "10.0.0.9 c0")
    assert set(column(browser, "events", "kind")) == {"finding", "no answer"}
    assert "Rows that tell only the client's address are kept" in text_of(browser, "[data-name=events]")
