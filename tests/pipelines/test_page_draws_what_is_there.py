"""The page draws what is there: nothing unknown as a number, nothing left out without a word, no label twice."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines import report
from pipelines.report import requests as requests_module
from pipelines.report.elements import Html
from pipelines.report.page import ASSETS
from pipelines.report.payload import LIST
from pipelines.report.sections.events import EVENTS
from pipelines.report.sections.forensics import card
from pipelines.tables.registry import TABLES
from tests.chromium import Tab
from tests.pipelines import fabricate, synthetic
from tests.pipelines.pages import data, requests
from tests.pipelines.test_report import exchange
from tests.pipelines.test_report_in_browser import choose, column, everything, figure, numbers

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


def titles_of(tab: Tab, place: str) -> list[str]:
    """What the marks of the picture at a selector say when one points at them."""
    titles: list[str] = tab.run(f"[...document.querySelectorAll('{place} svg title')].map((t) => t.textContent)")
    return titles


# --- what is not known -----------------------------------------------------------------------------------------------


def test_what_is_not_known_of_a_duration_is_carried_as_unknown(tmp_path: Path) -> None:
    silent = exchange(api="Fetch", kind="unanswered", total_ns=None, wait_ns=None)
    rows = requests(data(page_of(tmp_path, [*fetches(13, 13), silent])))
    assert [row["total"] for row in rows].count(None) == 14
    assert [row["total"] for row in rows].count(35 * MS) == 13
    assert {row["queued"] for row in rows} == {None}


def test_requests_without_a_duration_are_counted_and_not_drawn(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, fetches(13, 13)))
    assert (figure(browser, "Requests"), figure(browser, "Median")) == ("26", "35.0ms")
    assert any(title.startswith("Fetch of 10.0.0.1:9092: 13 requests") for title in titles_of(browser, "#durations"))
    for view in ("cost", "brokers"):
        head = browser.run(f"[...document.querySelectorAll('[data-view={view}] th')].map((th) => th.textContent)")
        row = browser.run(f"[...document.querySelectorAll('[data-view={view}] td')].map((td) => td.textContent)")
        shown = dict(zip(head, row, strict=True))
        assert shown["mean service"] == "30.0 ms"
        assert shown["without a duration"] == "13"


def test_a_request_that_was_held_back_shows_what_it_waited_for(browser: Tab, tmp_path: Path) -> None:
    known = {"incarnation": 0, "exchange_id": "x-c0", "request_ns": MS, "wait_ns": 298 * MS, "response_ns": MS}
    slow = exchange(**known, total_ns=300 * MS, retransmitted=True, throttle_ms=40)
    place = {column: slow[column] for column in ("site", "connection", "incarnation", "time")}
    lost = {**place, "kind": "resend_timeout", "direction": "client", "duration_ns": 204 * MS}
    browser.open(page_of(tmp_path, [slow], stalls=[lost]))
    browser.click(".tr")
    label = browser.run("document.querySelector('#panel-body svg').getAttribute('aria-label')")
    assert label == "lost, sent again 204 ms, broker 95.0 ms, transfer 1.00 ms, throttled 40.0 ms after it"


def test_the_panel_says_what_the_tls_handshake_of_a_connection_took(browser: Tab, tmp_path: Path) -> None:
    request = exchange(incarnation=0)
    tls = {column: request[column] for column in ("site", "connection", "incarnation")} | {"tls": True, "packet": 1}
    for took, resumed, said in ((12 * MS, False, "12.0 ms"), (3 * MS, True, "3.00 ms, session resumed")):
        facts = {**tls, "tls_handshake_ns": took, "tls_resumed": resumed}
        browser.open(page_of(tmp_path / said, [request], connections=[facts]))
        browser.click(".tr")
        assert f"TLS handshake{said}" in text_of(browser, "#panel dl")


def slow_requests(*counts: int) -> list[dict[str, Any]]:
    """Requests of 300 ms, all but 2 of them the broker's; of the clients c0, c1 … so many each."""
    took = {"total_ns": 300 * MS, "request_ns": MS, "wait_ns": 298 * MS, "response_ns": MS, "incarnation": 0}
    clients = [f"c{n}" for n, count in enumerate(counts) for _ in range(count)]
    return [
        exchange(**took, client_id=client, exchange_id=f"x-{n}", connection=f"10.0.0.9:{4000 + n}>10.0.0.1:9092")
        for n, client in enumerate(clients)
    ]


def test_where_the_time_of_slow_requests_went_is_drawn_and_follows_the_selection(browser: Tab, tmp_path: Path) -> None:
    slow, quick = slow_requests(5, 6), exchange(client_id="c2")
    place = {column: slow[0][column] for column in ("site", "connection", "incarnation", "time")}
    lost = {**place, "kind": "resend_timeout", "direction": "client", "duration_ns": 204 * MS}
    browser.open(page_of(tmp_path, [*slow, quick], stalls=[lost]))
    drawn = titles_of(browser, "#causes")
    assert "10.0.0.9 c0: lost, sent again 204 ms, 13.6 %" in drawn
    assert "10.0.0.1:9092: broker 3.08 s, 93.2 %" in drawn
    assert not any("c2" in title for title in drawn)
    choose(browser, "client", "10.0.0.9 c1")
    titles = titles_of(browser, "#causes")
    assert "10.0.0.1:9092: broker 1.79 s, 99.3 %" in titles
    assert not any("lost" in title for title in titles)
    everything(browser)
    assert titles_of(browser, "#causes") == drawn
    browser.run(
        "[...document.querySelectorAll('#causes svg title')].find((t) => t.textContent === '10.0.0.9 c0')"
        ".closest('g').dispatchEvent(new MouseEvent('click'))"
    )
    assert figure(browser, "Requests") == "5"
    assert browser.complaints == []


def test_fewer_than_five_slow_requests_are_no_picture_of_causes(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, [*slow_requests(4), *fetches(0, 9), *[exchange()] * 9]))
    assert not browser.run("document.getElementById('causes').checkVisibility()")


def test_sums_and_means_of_nothing_known_are_blank(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, fetches(0, 9)))
    assert numbers(browser, "cost", 2) == [9]  # the first column after protocol and API that is not blank
    assert "0 ns" not in text_of(browser, "[data-view=cost]")
    assert not browser.run("document.getElementById('durations').checkVisibility()")
    assert figure(browser, "Slowest") == "–"


def test_a_duration_of_zero_is_known_and_below_what_pictures_show(browser: Tab, tmp_path: Path) -> None:
    browser.open(page_of(tmp_path, [exchange(total_ns=0, wait_ns=0)] * 7))
    assert figure(browser, "Median") == "0ns"
    assert "7 requests" in titles_of(browser, "#durations")[-1]
    heights = browser.run("[...document.querySelectorAll('#plot circle')].map((c) => c.cy.baseVal.value)")
    assert len(set(heights)) == 1  # at the lower end of the lane


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


def test_the_band_shows_events_to_the_end_and_the_table_says_what_it_lacks(browser: Tab, many_events: Path) -> None:
    browser.window(1300, 900)
    browser.open(many_events)
    assert "gap" in " ".join(titles_of(browser, "#plot"))
    assert f"{EVENTS:,} of {EVENTS + 2_001:,} rows are on this page" in text_of(browser, "[data-name=events]")
    assert figure(browser, "Failed") == f"{EVENTS + 2_000:,}"


def test_a_selection_is_exact_also_of_requests_that_are_carried_together(
    browser: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "ROWS", 100)
    made = [
        exchange(client_id=f"c{n % 20}", server_ip=f"10.0.1.{n % 7}", total_ns=MS * (1 + n % 3)) for n in range(700)
    ]
    pushes, polls = [exchange(kind="push", api="MESSAGE")] * 50, [exchange(long_poll=True)] * 30
    browser.open(page_of(tmp_path, [*made, *pushes, *polls]))
    assert figure(browser, "Requests") == "730"
    without, more = "100 requests, without 30 long polls", "600 more are counted but not listed"
    assert text_of(browser, "#slow-note") == f"{without}, {more}"
    browser.click("#polls")
    assert text_of(browser, "#slow-note") == "100 requests, 630 more are counted but not listed"
    choose(browser, "client", "c1")  # of c1 and c10 to c19 the busiest that comes first in the alphabet
    assert (figure(browser, "Requests"), sum(numbers(browser, "brokers", 2))) == ("35", 35)


def test_a_selection_says_how_many_requests_lack_their_names(
    browser: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "ROWS", 100)
    monkeypatch.setattr(requests_module, "COMBINATIONS", 5)
    made = [exchange(client_id=f"c{n % 20}", total_ns=MS + n) for n in range(700)]
    browser.open(page_of(tmp_path, made))
    assert figure(browser, "Requests") == "700"
    assert "more may belong" not in text_of(browser, "#slow-note")
    choose(browser, "client", "c19")
    said = re.search(r"Up to (\d+) more may belong to this selection", text_of(browser, "#slow-note"))
    assert said is not None
    assert int(figure(browser, "Requests")) <= 35 <= int(figure(browser, "Requests")) + int(said[1])


def test_pictures_of_the_busiest_say_how_many_there_are(browser: Tab, tmp_path: Path) -> None:
    made = [exchange(api=f"Api{n}", client_id=f"c{m}") for n in range(12) for m in range(15)]
    browser.open(page_of(tmp_path, made))
    assert "Drawn: the 4 busiest APIs of 12." in text_of(browser, "#durations")
    assert "Drawn: the 12 busiest clients of 15." in text_of(browser, "#topology")


def test_a_list_that_is_cut_says_how_many_names_there_are(browser: Tab, tmp_path: Path) -> None:
    clients = LIST + 30
    browser.open(page_of(tmp_path, [exchange(group="g", client_id=f"c{n:02}") for n in range(clients)]))
    assert column(browser, "groups", "clients")[0].endswith(f"… +{clients - 3}")
    choose(browser, "client", f"c{clients - 1}")  # beyond what the list carries
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


def test_long_polls_and_silence_are_requests_too(browser: Tab, tmp_path: Path) -> None:
    silent = exchange(kind="unanswered", total_ns=None, wait_ns=None)
    browser.open(page_of(tmp_path, [*[exchange()] * 4, exchange(long_poll=True), silent, silent]))
    assert figure(browser, "Requests") == "7"
    assert figure(browser, "Failed") == "2"
    assert text_of(browser, "#slow-note") == "6 requests, without 1 long poll"
    browser.click("#polls")
    assert text_of(browser, "#slow-note") == "7 requests"


def test_members_of_a_group_are_drawn_from_their_requests(browser: Tab, tmp_path: Path) -> None:
    def at(second: float, **more: Any) -> dict[str, Any]:
        return exchange(group="g", time=fabricate.START + timedelta(seconds=second), total_ns=500 * MS, **more)

    story = [at(0, api="JoinGroup"), at(1, api="SyncGroup"), *(at(n, api="Heartbeat") for n in range(2, 9))]
    browser.window(1300, 900)
    browser.open(page_of(tmp_path, [*story, at(9, api="LeaveGroup")]))
    says = [title.partition(": ")[2] for title in titles_of(browser, "#members")]
    assert [said for said in says if said in ("joining", "a member", "left")][-2:] == ["a member", "left"]
    assert "joining" in says


@pytest.mark.parametrize("topic", ["t", None])  # a cluster's metadata is of no topic
def test_owners_are_drawn_where_one_changed(browser: Tab, tmp_path: Path, topic: str | None) -> None:
    start = fabricate.START
    known = {**fabricate.rows("leaders", 1)[0], "topic": topic, "partition": None if topic is None else 0}
    moved, end = start + timedelta(seconds=3), start + timedelta(seconds=8)
    rows = [
        {**known, "leader": leader, "since": since, "until": until}
        for leader, since, until in (("1", start, moved), ("2", moved, end))
    ]
    requests_of = fabricate.records("exchanges", [exchange(time=start + timedelta(seconds=n)) for n in range(9)])
    for count, drawn in ((1, False), (2, True)):
        out = fabricate.folder(tmp_path / f"{count}", {"exchanges": requests_of}, {"leaders": rows[:count]})
        browser.window(1300, 900)
        browser.open(report.write(out))
        assert browser.run("document.querySelector('[data-view=owners]').checkVisibility()") is drawn
        assert browser.run("document.querySelector('[data-name=leaders]').checkVisibility()")
    assert "1 partition changed hands" in text_of(browser, "[data-view=owners]")
    assert len(titles_of(browser, "[data-view=owners]")) == 3  # the topic, and who led it


def test_a_node_that_leads_is_called_and_coloured_as_the_broker_that_took_its_messages(
    browser: Tab, tmp_path: Path
) -> None:
    def at(second: int, broker: int, number: int) -> dict[str, Any]:
        return exchange(
            time=fabricate.START + timedelta(seconds=second), server_port=broker, api="Produce", topics=["t"],
            exchange_id=f"{second}-{number}", request_packet=10 * second + number,
        )  # fmt: skip

    asked = [at(second, 9092 if second < 4 else 9093, number) for second in range(9) for number in (0, 1)]
    sent = [
        {**{name: row[name] for name in ("time", "server_port", "exchange_id", "api")}, "topic": "t", "role": "produce",
         "partition": number % 2, "records": 5, "server_ip": row.get("server_ip"), "verdict": "ok", "outcome": "ok"}
        for number, row in enumerate(asked)
    ]  # fmt: skip
    start = fabricate.START
    moved, end = start + timedelta(seconds=3.5), start + timedelta(seconds=8)
    known = fabricate.rows("leaders", 1)[0]
    leaders = [
        {**known, "topic": "t", "partition": partition, "leader": leader, "since": since, "until": until}
        for partition in (0, 1)
        for leader, since, until in (("7", start, moved), ("8", moved, end))
    ]
    records = {"exchanges": fabricate.records("exchanges", asked), "batches": fabricate.records("batches", sent)}
    browser.window(1300, 900)
    browser.open(report.write(fabricate.folder(tmp_path / "out", records, {"leaders": leaders})))
    said = text_of(browser, "[data-view=owners] .legend")
    assert re.search(r"node 7 \(.*:9092\)", said)
    assert re.search(r"node 8 \(.*:9093\)", said)
    drawn = "[...document.querySelectorAll('[data-view=owners] rect[class^=k]')].map((one) => one.className.baseVal)"
    assert len(set(browser.run(drawn))) == 2


# --- labels ----------------------------------------------------------------------------------------------------------

CLOCK = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in ("units", "dom", "clock"))


def ticks(tab: Tab, expression: str) -> Any:
    """An expression in which the functions of units.js, dom.js and clock.js are known; the capture begins at EPOCH."""
    return tab.run(f"(() => {{ let epoch = 0; {CLOCK}; return {expression}; }})()")


def test_no_time_axis_says_a_label_twice(browser: Tab) -> None:
    """Spans from 100 µs to two years, at all widths, across midnight and not."""
    shown = ticks(browser, """[100, 1e3, 1e4, 1e5, 1e6, 1e7, 6e7, 36e8, 864e8, 7 * 864e8, 730 * 864e8].flatMap((span) =>
        [1792021199.7e6, 1792000000e6].flatMap((begin) => [2, 3, 5, 9].map((most) => {
            epoch = begin; return timeTicks(0, span, most).map(([, text]) => text); })))""")  # fmt: skip
    assert len(shown) == 11 * 2 * 4
    for labels in shown:
        assert len(set(labels)) == len(labels) <= 9


def test_times_are_written_as_finely_as_they_are_apart(browser: Tab) -> None:
    assert ticks(browser, "timeTicks(0, 1e6, 4).map(([, text]) => text)") == ["00:00:00.0", "00:00:00.5", "00:00:01.0"]
    assert ticks(browser, "timeTicks(0, 4e9, 4).map(([, text]) => text)")[1] == "00:30:00"
    across = ticks(browser, "(() => { epoch = 86399e6; return timeTicks(0, 2e6, 4).map(([, text]) => text); })()")
    assert across[:3] == ["01-01 23:59:59.0", "23:59:59.5", "01-02 00:00:00.0"]


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


MARKED = re.compile("Whole capture|ot told apart here|with figures of all their")
SEEN = """[...document.querySelectorAll('[data-view], [data-figure], #plot, #slow')].filter((v) => !v.dataset.at)
    .map((v) => [v.dataset.figure || v.dataset.name || v.dataset.view || v.id,
    v.checkVisibility() && v.innerText + [...v.querySelectorAll('svg')].map((s) => s.innerHTML).join()])"""


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
    assert not any(MARKED.search(text or "") for _, text in before)
    choose(browser, dimension, name)
    after = browser.run(SEEN)
    assert {part for part, _ in after} >= {
        "Requests",
        "plot",
        "slow",
        "cost",
        "events",
        "groups",
        "checksums",
        "health",
    }
    unsaid = [
        part
        for (part, now), (_, then) in zip(after, before, strict=True)
        if now == then and now and not MARKED.search(now) and part not in ("Consumed", "Produced")
    ]
    assert unsaid == []
    everything(browser)
    assert browser.run(SEEN) == before


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
