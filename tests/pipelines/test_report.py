"""The page: self-contained, unbreakable, and sensible where there is nothing to show."""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dissectors.errors import InputError
from dissectors.session.protocols import protocols
from pipelines import report
from pipelines.report import page as page_module
from pipelines.report import requests as requests_module
from pipelines.report import wrong
from pipelines.report.elements import Html, shown, tag, text
from pipelines.report.packed import packed
from pipelines.report.page import ASSETS
from pipelines.report.payload import CARRIED, ENOUGH, Payload
from pipelines.report.records import opened
from pipelines.report.requests import FAILED, Requests
from pipelines.report.sections import SECTIONS
from pipelines.report.sections.forensics import card
from pipelines.tables.registry import TABLES
from pipelines.tables.table import TableColumn
from tests.pipelines import fabricate, synthetic
from tests.pipelines.conftest import Analysed
from tests.pipelines.pages import batches, data, requests, texts, unpacked
from tests.pipelines.test_tables import written as written_records

VOID = ("meta", "input", "br", "path")


class Outline(HTMLParser):
    """Elements by id, what stands in scripts and styles, and whatever would be fetched or run."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.fetched: list[str] = []
        self.inline: list[str] = []
        self.policy = ""
        self.blocks: dict[str, str] = {}
        self.stack: list[str] = []
        self._block = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        self.inline += [key for key in given if key == "style" or key.startswith("on")]
        for key in {"src", "href", "srcset", "action", "data"} & set(given):
            (self.links.add if given[key].startswith("#") else self.fetched.append)(given[key])
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        self._block = given.get("type", tag) if tag in ("script", "style") else ""
        if tag not in VOID:
            self.stack.append(tag)

    def handle_data(self, data: str) -> None:
        if self._block:
            self.blocks[self._block] = self.blocks.get(self._block, "") + data

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag
        self._block = ""


def outline(page: Path) -> Outline:
    seen = Outline()
    seen.feed(page.read_text(encoding="utf-8"))
    assert seen.stack == []
    return seen


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small fabricated OUT."""
    out = tmp_path_factory.mktemp("made") / "out"
    records = {name: rows for name, rows in synthetic.make().items() if name != "messages"}
    tables = {name: fabricate.rows(name, 30) for name in TABLES}
    return report.write(fabricate.folder(out, records, tables))


# --- what `analyze` leaves -------------------------------------------------------------------------------------------


@pytest.fixture
def out(analysed: Analysed) -> Path:
    return analysed.out


def test_the_page_of_the_samples_has_every_section(out: Path) -> None:
    seen = outline(out / report.PAGE)
    empty = {"hops", "corrupt", "against"}  # one capture point, no batch called corrupt, nothing to compare with
    assert {section.name for section in SECTIONS} - empty <= seen.ids
    assert {"verdicts", "band", "tiles", "slow"} <= seen.ids
    assert (out / report.PAGE).stat().st_size < 1_000_000


def test_a_bad_checksum_has_its_card_and_leads_what_is_wrong(out: Path) -> None:
    page = (out / report.PAGE).read_text(encoding="utf-8")
    plain = re.sub(r"<[^>]+>", "", page[page.index('<article class="case"') : page.index("</article>")])
    assert "One bit flipped" in plain
    assert "captured62corrected63" in plain
    assert "kelp" not in texts(out / report.PAGE)  # what is around the broken byte is payload
    assert "Certain: broke before TCP" in plain
    assert "The answer was ChecksumError" in plain
    assert sentences(out / report.PAGE)[0].startswith("critical1 of ")


def test_the_outcome_has_records_tables_and_the_page(out: Path) -> None:
    for name in TABLES:
        assert (out / "tables" / f"{name}.parquet").exists()
        head = (out / "tables" / f"{name}.csv").read_text().splitlines()[0]
        assert head.split(",") == pq.read_schema(out / "tables" / f"{name}.parquet").names
    assert {p.name for p in (out / "records").iterdir()} == {
        "exchanges",
        "batches",
        "errors",
        "connections",
        "findings",
        "positions",
        "stalls",
        "events",
    }
    assert json.loads((out / "analysis.json").read_text())["by"] == ["client"]


def test_the_page_comes_again_from_the_folder(out: Path) -> None:
    first = (out / report.PAGE).read_bytes()
    (out / report.PAGE).unlink()
    assert report.write(out).read_bytes() == first


# --- what the browser may do -----------------------------------------------------------------------------------------


def test_the_page_fetches_nothing_and_links_only_into_itself(made: Path) -> None:
    seen = outline(made)
    assert seen.fetched == []
    assert {link[1:] for link in seen.links} <= seen.ids
    assert not re.search(r"url\(|@import", seen.blocks["style"])


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(made: Path) -> None:
    seen = outline(made)
    rules = dict(rule.strip().split(" ", 1) for rule in seen.policy.split(";"))
    assert rules["default-src"] == "'none'"
    for block, rule in (("script", "script-src"), ("style", "style-src")):
        digest = base64.b64encode(hashlib.sha256(seen.blocks[block].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert seen.inline == []


# --- what is wrong ---------------------------------------------------------------------------------------------------


def sentences(page: Path) -> list[str]:
    html = page.read_text(encoding="utf-8")
    box = html[html.index('id="verdicts"') : html.index('id="band"')]
    return [re.sub(r"<[^>]+>", "", one) for one in re.findall(r"<li.*?</li>", box)]


def written(out: Path, **tables: list[dict[str, Any]]) -> list[str]:
    """The box of an analysis with these tables."""
    return sentences(report.write(fabricate.folder(out, {}, tables)))


def quiet(table: str, /, **changed: Any) -> dict[str, Any]:
    """A row of a table in which every number is zero but those given."""
    row = fabricate.rows(table, 1)[0]
    zeros = {c.name: 0 for c in TABLES[table].columns if c.unit in fabricate.NUMBERS}
    lists: dict[str, list[Any]] = {c.name: [] for c in TABLES[table].columns if c.unit == "list"}
    return {**row, **zeros, **lists, **changed}


def verdict(rank: int, severity: str, sentence: str, **changed: Any) -> dict[str, Any]:
    """A row of the table of verdicts."""
    nothing: dict[str, Any] = {name: [] for name in ("clients", "servers", "topics", "groups", "evidence", "chain")}
    return {
        **dict.fromkeys(column.name for column in TABLES["verdicts"].columns), **nothing, "count": 1, "rank": rank,
        "severity": severity, "kind": "errors", "sentence": sentence, "advice": "Look.", **changed,
    }  # fmt: skip


def test_the_box_shows_the_first_five_verdicts_and_folds_the_others(tmp_path: Path) -> None:
    rows = [verdict(n, "warning", f"Sentence {n}.") for n in range(1, 8)]
    page = report.write(fabricate.folder(tmp_path, {}, {"verdicts": rows})).read_text()
    box = page[page.index("<main") :]
    assert "<h1>What is wrong</h1>" in box
    assert box.index("Sentence 5.") < box.index("<summary>2 more</summary>") < box.index("Sentence 6.")


def test_the_page_says_how_many_verdicts_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong, "VERDICTS", 6)
    rows = [verdict(n, "warning", f"Sentence {n}.") for n in range(1, 9)]
    page = report.write(fabricate.folder(tmp_path, {}, {"verdicts": rows})).read_text()
    assert "Sentence 6." in page
    assert "Sentence 7." not in page
    assert "2 verdicts of less weight: in tables/verdicts.parquet, not on this page." in page


def test_a_verdict_says_who_when_what_it_cost_and_how_it_went(tmp_path: Path) -> None:
    place = {"file": "a.pcap", "packet": 17, "exchange_id": None, "stream_offset": None}
    row = verdict(
        1, "critical", "Broker 10.0.0.1:9092 was lost.", clients=["10.0.0.2 payer"], cost_ns=8_300_000_000, count=3,
        counted="connections",
        first_time=fabricate.START, last_time=fabricate.START + timedelta(seconds=9), evidence=[place],
        chain=[{"time": fabricate.START, "text": "3 connections end", "file": "a.pcap", "packet": 17}],
    )  # fmt: skip
    (one, *_) = written(tmp_path, verdicts=[row])
    for said in (
        "critical",
        "payer",
        "for 9.00 s",
        "8.30 s in all",
        "3 connections from a.pcap:17",
        "Look.",
        "3 connections end",
    ):
        assert said in one


def test_notes_alone_are_nothing_wrong(tmp_path: Path) -> None:
    rows = [verdict(1, "note", "Compression saves nothing.")]
    page = report.write(fabricate.folder(tmp_path, {}, {"verdicts": rows})).read_text()
    assert "Nothing wrong was seen; worth knowing" in page


def test_a_folder_of_a_version_without_verdicts_gets_them_from_its_records(tmp_path: Path) -> None:
    slow = exchange(total_ns=4_000_000_000, wait_ns=3_900_000_000)
    out = fabricate.folder(tmp_path, {"exchanges": fabricate.records("exchanges", [slow])}, {})
    (out / "tables" / "verdicts.parquet").unlink()
    assert any("1 Produce request of c on 10.0.0.9 took 4.00 s" in one for one in sentences(report.write(out)))


def test_the_box_says_what_the_captures_cannot_show(tmp_path: Path) -> None:
    sealed = pa.table({"tls": [True], "server_port": pa.array([9093], pa.int32()), "connection": ["a>b"],
                       "client_bytes": [1], "server_bytes": [1]})  # fmt: skip
    records = {"exchanges": fabricate.exchanges(3, 1, 1), "connections": sealed}
    box = sentences(report.write(fabricate.folder(tmp_path, records, {})))
    assert any(one.startswith("1 of 1 connection TLS without keys") and "--keylog FILE" in one for one in box)


def test_where_all_is_well_the_box_says_what_was_looked_at(tmp_path: Path) -> None:
    tables = {
        "integrity": [quiet("integrity", ok=40)],
        "activity": [quiet("activity", count=100)],
        "health": [quiet("health", captured_bytes=2048, framed_bytes=2048, coverage=1.0)],
    }
    page = report.write(fabricate.folder(tmp_path, {}, tables)).read_text()
    assert "Nothing wrong was seen" in page
    assert "100 requests, 40 checksums verified, 2.00 KiB of streams, nothing missing." in page


def exchange(**changed: Any) -> dict[str, Any]:
    """A request that Kafka answered within a millisecond."""
    request = {
        "site": "s", "protocol": "kafka", "kind": "call", "api": "Produce", "client_ip": "10.0.0.9", "client_id": "c",
        "server_ip": "10.0.0.1", "server_port": 9092, "time": fabricate.START, "wait_ns": 1_000_000,
        "total_ns": 1_000_000, "queued_ns": None, "status": "ok", "long_poll": False, "throttle_ms": 0, "group": None,
        "connection": "10.0.0.9:4000>10.0.0.1:9092", "request_file": "x.pcap", "request_packet": 1,
    }  # fmt: skip
    return {**request, **changed}


def test_a_group_has_its_rebalances_as_the_table_has_them(tmp_path: Path) -> None:
    def joins(second: float, *clients: str) -> list[dict[str, Any]]:
        return [
            exchange(
                api=api, group="g", client_id=client, time=fabricate.START + timedelta(seconds=second + after),
                total_ns=500_000_000,
            )
            for client in clients
            for api, after in (("JoinGroup", 0), ("SyncGroup", 0.6))
        ]  # fmt: skip

    requests = fabricate.records("exchanges", [*joins(0, "a", "b"), *joins(0.2, "c"), *joins(60, "a", "c")])
    page = report.write(fabricate.folder(tmp_path, {"exchanges": requests}, {}))
    carried = data(page)["tables"]["rebalances"]
    names = [column["name"] for column in carried["columns"]]
    members = [row[names.index("members_after")] for row in carried["rows"]]
    took = [row[names.index("duration_ns")] for row in carried["rows"]]
    assert (members, took) == ([3, 2], [1_300_000_000, 1_100_000_000])


def test_an_error_that_is_part_of_normal_work_is_not_wrong(tmp_path: Path) -> None:
    error = quiet("errors", name="MEMBER_ID_REQUIRED", count=3, expected=True)
    tables = {"errors": [error], "activity": [quiet("activity", count=9, errors=3)]}
    page = report.write(fabricate.folder(tmp_path, {}, tables))
    assert not any("MEMBER_ID_REQUIRED" in one for one in sentences(page))
    carried = data(page)["tables"]["errors"]
    assert carried["grey"] is not None
    assert data(page)["strings"][carried["rows"][0][carried["grey"]]] == "yes"


def test_an_error_is_shown_with_what_it_says(tmp_path: Path) -> None:
    known = quiet("errors", protocol="iggy", code=1009, name="StreamIdNotFound", count=3)
    unknown = quiet("errors", protocol="kafka", code=9999, name="ERROR_9999", count=2)
    carried = data(report.write(fabricate.folder(tmp_path, {}, {"errors": [known, unknown]})))
    strings, table = carried["strings"], carried["tables"]["errors"]
    at = [column["name"] for column in table["columns"]].index("meaning")
    assert [row[at] and strings[row[at]] for row in table["rows"]] == ["there is no such stream", None]
    meanings = {strings[int(name)]: strings[meaning] for name, meaning in carried["meanings"].items()}
    assert meanings == {"StreamIdNotFound": "there is no such stream"}


def test_a_name_that_says_two_things_in_two_protocols_has_no_meaning_where_the_protocol_is_not_said(
    tmp_path: Path,
) -> None:
    shared = [
        quiet("errors", protocol="iggy", code=2014, name="InvalidTopicName", count=3),
        quiet("errors", protocol="pulsar", code=17, name="InvalidTopicName", count=3),
    ]
    assert data(report.write(fabricate.folder(tmp_path, {}, {"errors": shared})))["meanings"] == {}


# --- names that a capture holds --------------------------------------------------------------------------------------

HOSTILE = (
    "<script>window.broken = 1; alert(1)</script>",
    '"><img src=x onerror="window.broken = 1">',
    "</script><script>window.broken = 1</script>",
    "<!--<script>",
    "]]>\x00\x1b[31m\r\nnewline",
    "\u202egnp.exe\u2066\u2028\u2029",
    "javascript:window.broken=1",
    "=cmd|' /C calc'!A0",
    "'; window.broken = 1; '",
    "${window.broken = 1}`\\",
    "x" * 65_536,
)


def test_no_text_becomes_markup_and_no_text_ends_the_data() -> None:
    payload = Payload()
    column = TableColumn("name", "a name")
    payload.table("some", [column], [{"name": name} for name in HOSTILE])
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", payload.block())
    written = payload.json()
    carried = json.loads(written)
    assert not any(re.search(r"[\u2028\u2029\x00-\x1f\u202e\u2066]", text) for text in carried["strings"])
    assert len({row[0] for row in carried["tables"]["some"]["rows"]}) == len(HOSTILE)
    assert max(map(len, carried["strings"])) < 2_000
    for name in HOSTILE:
        assert "<script" not in tag("p", name, title=name)
        assert "<img" not in tag("p", name, title=name)
    assert tag("p", title='"><b>') == '<p title="&quot;&gt;&lt;b&gt;"></p>'
    assert text("a & b") == "a &amp; b"


def test_a_long_name_is_shown_with_its_length_and_both_ends() -> None:
    assert shown("a" * 70_000 + "end").startswith("aaa")
    assert shown("a" * 70_000 + "end").endswith("end (70,003 characters)")


def test_nothing_that_a_capture_holds_becomes_markup_on_a_card() -> None:
    evil = "<script>alert(1)</script>"
    spot = {"packet": 1, "packet_offset": 2, "bit": None, "field": evil, "stream_offset": 5, "was": 60, "should_be": 62}
    diagnosis = {
        "pattern": evil,
        "note": evil,
        "locations": [spot],
        "verified": False,
        "candidates": 0,
        "excerpt": None,
    }
    given = dict.fromkeys(
        ["protocol", "role", "topic", "position", "checksum_kind", "stored", "computed", "connection", "time", "file"],
        evil,
    )
    verdict = {"where": evil, "certainty": evil, "because": [evil]}
    related = [{"name": evil, "file": evil, "packet": 1, "why": evil}]
    case = {**given, "partition": 1, "length": 9, "packet": 3, "diagnosis": diagnosis, "attribution": verdict}
    assert "<script" not in card({**case, "related": related}, Html(""))


# --- what is carried -------------------------------------------------------------------------------------------------


def test_a_percentile_with_too_few_requests_behind_it_is_blank() -> None:
    payload = Payload()
    columns = [TableColumn(f"total_{name}_ns", "", "ns") for name in ENOUGH]
    for count in (1, *ENOUGH.values()):
        row = {"count": count, **{c.name: 7 for c in columns}}
        payload.table(str(count), columns, [row])
    for count, made in json.loads(payload.json())["tables"].items():
        assert made["rows"][0] == [7 if int(count) >= enough else None for enough in ENOUGH.values()]


def test_a_table_says_how_many_rows_there_are_beyond_those_that_the_page_carries() -> None:
    payload = Payload()
    payload.table("many", [TableColumn("n", "", "count")], [{"n": n} for n in range(CARRIED + 9)], total=20_000)
    carried = json.loads(payload.json())["tables"]["many"]
    assert len(carried["rows"]) == CARRIED
    assert carried["total"] == 20_000


def test_packed_columns_are_read_back() -> None:
    columns = {
        "nothing": [None, None, None], "some": [None, 0, 2**40], "down": [9, 2, 300], "thousands": [5_000, 0, 7_000],
        "big": [2**53 - 1, 0, 1],
    }  # fmt: skip
    table = {name: pa.chunked_array([pa.array(values, pa.int64())]) for name, values in columns.items()}
    assert unpacked(packed(table, frozenset({"down"}))) == columns
    empty = pa.chunked_array([], pa.int64())
    assert unpacked(packed({"a": empty})) == {"a": []}


def carried(out: Path, **records: list[dict[str, Any]]) -> dict[str, Any]:
    """The data block of the page of these records."""
    made = {table: fabricate.records(table, rows) for table, rows in records.items()}
    return data(report.write(fabricate.folder(out, made, {})))


def test_requests_beyond_those_that_are_carried_one_by_one_are_carried_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "ROWS", 200)
    monkeypatch.setattr(requests_module, "CELLS", 900)
    monkeypatch.setattr(requests_module, "NAMES", 7)
    exchanges = fabricate.exchanges(5_000, 40, 60)
    page = data(report.write(fabricate.folder(tmp_path, {"exchanges": exchanges}, {})))
    rows = requests(page)
    assert sum(row["weight"] for row in rows) == 5_000
    alone = [row for row in rows if row["alone"]]
    assert len(alone) == 200
    failed = exchanges["status"].to_pylist().count("error")
    assert sum(row["weight"] for row in rows if row["flags"] & FAILED) == failed
    assert sum(1 for row in alone if row["flags"] & FAILED) == failed  # what failed is carried one by one
    assert len(page["requests"]["names"]["client"]) == 1 + 7
    assert page["requests"]["names"]["client"][-1] is None  # all others


def test_requests_of_very_many_names_lose_names_and_not_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "ROWS", 100)
    monkeypatch.setattr(requests_module, "CELLS", 1_000)
    start, minutes, clients = fabricate.START, 40, 100
    made = [
        exchange(client_id=f"c{n}", time=start + timedelta(minutes=minute), total_ns=10**7 + n)
        for minute in range(minutes)
        for n in range(clients)
    ]
    rows = requests(carried(tmp_path, exchanges=made))
    counts = Counter[int]()
    for row in rows:
        counts[round(row["time"] / 60e6)] += row["weight"]
    assert min(counts) == 0
    assert sum(counts.values()) == minutes * clients
    assert len(counts) > minutes // 2
    assert max(counts.values()) <= 3 * clients


def test_a_page_that_would_be_too_large_carries_less_and_still_counts_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "ROWS", 5_000)
    out = fabricate.folder(tmp_path, {"exchanges": fabricate.exchanges(5_000, 40, 60)}, {})
    most = report.write(out).stat().st_size - 15_000
    monkeypatch.setattr(page_module, "BYTES", most)
    smaller = report.write(out)
    assert smaller.stat().st_size <= most
    assert sum(row["weight"] for row in requests(data(smaller))) == 5_000


def test_batches_that_have_too_many_names_are_carried_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [
        {
            "protocol": "kafka", "api": "Produce", "role": "produce", "time": fabricate.START, "topic": f"t{n}",
            "partition": 0, "client_id": f"c{n}", "records": 3, "stored_bytes": 50, "uncompressed_bytes": 50,
        }
        for n in range(40)
    ]  # fmt: skip
    monkeypatch.setattr(requests_module, "BATCHES", 10)
    (row,) = batches(carried(tmp_path, exchanges=[exchange()], batches=sent))
    assert (row["messages"], row["stored"]) == (120, 2_000)


def test_groups_of_one_name_are_one_in_kafka_and_one_a_topic_elsewhere(tmp_path: Path) -> None:
    made = [(protocol, topic) for protocol in ("kafka", "pulsar", "iggy") for topic in ("t", "u")]
    rows = [
        {"protocol": protocol, "group": "g", "kind": "call", "time": fabricate.START, "topics": [topic]}
        for protocol, topic in made
    ]
    out = fabricate.folder(tmp_path, {"exchanges": fabricate.records("exchanges", rows)}, {})
    page = data(report.write(out))
    table, strings = page["tables"]["groups"], page["strings"]
    at = {column["name"]: n for n, column in enumerate(table["columns"])}
    topics = [None if row[at["topic"]] is None else strings[row[at["topic"]]] for row in table["rows"]]
    found = [(strings[row[at["protocol"]]], topic) for row, topic in zip(table["rows"], topics, strict=True)]
    apart = [(protocol, topic) for protocol in ("iggy", "pulsar") for topic in ("t", "u")]
    assert sorted(found, key=str) == sorted([("kafka", None), *apart], key=str)


def test_a_request_names_each_topic_once(tmp_path: Path) -> None:
    rows = requests(carried(tmp_path, exchanges=[exchange(topics=["a", "b", "a", "c"]), exchange(topics=[])]))
    assert sorted(sorted(row["topics"]) for row in rows) == [[], ["a", "b", "c"]]


@pytest.mark.parametrize("made", [synthetic.resent, synthetic.aborted])
def test_topics_hold_the_messages_and_bytes_of_the_throughput_table(
    made: Callable[[], dict[str, pa.Table]], tmp_path: Path
) -> None:
    with opened(str(written_records(made(), tmp_path / "records"))) as records:
        assert records is not None
        payload = Payload()
        payload.requests(Requests(records, []).carried())
        records.compute(tmp_path, [])
    throughput = pq.read_table(tmp_path / "throughput.parquet")
    names = {
        "messages": "messages",
        "refused": "refused",
        "stored_bytes": "stored",
        "uncompressed_bytes": "uncompressed",
    }
    table = throughput.group_by(["topic", "role"]).aggregate([(name, "sum") for name in names]).to_pylist()
    page: dict[tuple[str, str], list[int]] = {}
    for row in batches(json.loads(payload.json())):
        sums = page.setdefault((row["topic"], requests_module.ROLES[row["role"]]), [0] * len(names))
        for at, name in enumerate(names.values()):
            sums[at] += row[name] or 0
    assert page == {(row["topic"], row["role"]): [row[f"{name}_sum"] or 0 for name in names] for row in table}


def test_errors_that_are_part_of_normal_work_are_not_counted_and_others_are(tmp_path: Path) -> None:
    failed = [exchange(status="error", exchange_id=name) for name in ("once", "both", "other", None)]
    errors = [
        {"site": "s", "exchange_id": name, "expected": expected, "protocol": "kafka", "api": "Produce",
         "time": fabricate.START}
        for name, expected in (("once", True), ("both", True), ("both", False))
    ]  # fmt: skip
    rows = requests(carried(tmp_path, exchanges=[*failed, exchange()], errors=errors))
    assert sum(1 for row in rows if row["flags"] & FAILED) == 3


def test_an_error_is_expected_at_the_capture_point_that_says_so(tmp_path: Path) -> None:
    sites = {"east": True, "west": False, "north": None}
    page = carried(
        tmp_path,
        exchanges=[exchange(site=site, status="error", exchange_id="x", client_id=site) for site in sites],
        errors=[{"site": site, "exchange_id": "x", "expected": expected} for site, expected in sites.items()],
    )
    counts = {row["client"].split()[-1]: row["flags"] & FAILED > 0 for row in requests(page)}
    assert counts == {"east": False, "west": True, "north": True}


def test_records_of_an_older_version_are_read_with_nulls_for_what_they_lack(tmp_path: Path) -> None:
    out = fabricate.folder(tmp_path, {"exchanges": fabricate.exchanges(10, 2, 2)}, {})
    with opened(str(out / "records")) as records:
        assert records is not None
        row = records.one('select count(*) as n, count("group") as groups, count(queued_ns) as queued from exchanges')
    assert row == {"n": 10, "groups": 0, "queued": 0}
    assert len(requests(data(report.write(out)))) == 10


def test_tables_without_rows_make_a_page_that_says_what_is_not_there(tmp_path: Path) -> None:
    page = report.write(fabricate.folder(tmp_path, {}, {})).read_text()
    said = page[page.index("Nothing of this in these captures:") :]
    assert all(section.title in said for section in SECTIONS)


def test_a_folder_without_tables_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tables here"):
        report.write(tmp_path)


def test_tables_of_an_older_version_that_lack_columns_make_a_page(tmp_path: Path) -> None:
    out = fabricate.folder(
        tmp_path, {"exchanges": fabricate.exchanges(50, 2, 2)}, {n: fabricate.rows(n, 2) for n in TABLES}
    )
    for name, lacking in (("errors", "expected"), ("latency", "service_sum_ns"), ("health", "coverage")):
        path = out / "tables" / f"{name}.parquet"
        pq.write_table(pq.read_table(path).drop_columns([lacking]), path)
    for name in ("traffic", "hops"):
        (out / "tables" / f"{name}.parquet").unlink()
    assert "latency" in data(report.write(out))["tables"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("records/exchanges/part-0.parquet", b"PAR1 nothing of the sort PAR1"),
        ("analysis.json", b"[1]"),
        ("forensics.jsonl", b"[1]"),
    ],
)
def test_a_file_that_is_damaged_or_says_nothing_is_a_clear_error(tmp_path: Path, name: str, content: bytes) -> None:
    out = fabricate.folder(tmp_path, {"exchanges": fabricate.exchanges(3, 1, 1)}, {})
    (out / name).write_bytes(content)
    with pytest.raises(InputError, match="cannot be read"):
        report.write(out)


def test_of_captures_without_requests_nothing_is_called_wrong(tmp_path: Path) -> None:
    page = report.write(fabricate.folder(tmp_path / "out", {}, {})).read_text()
    assert "Nothing to judge" in page
    assert "What is wrong" not in page


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(theme: str) -> None:
    """A ratio of 4.5 at least, as WCAG asks of small text; of marks 3."""
    light, dark = (
        dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root[^{]*{([^}]*)}", (ASSETS / "colours.css").read_text())[:2]
    )
    colours = light if theme == "light" else dark
    badges = [protocol.colours[theme == "dark"] for protocol in protocols()]
    texts = [*((text, ground) for text in ("ink", "soft") for ground in ("bg", "sunken", "raised", "hover"))]
    texts += [(name, f"{name}-soft") for name in ("accent", "critical", "warning", "note")]
    texts += [(name, "bg") for name in ("critical", "warning", "note", "accent", "good", "s1", "s2", "s3")]
    texts += [("soft", "accent-soft"), ("ink", "critical-soft"), ("ink", "warning-soft")]
    marks = [f"w-{name}" for name in ("send", "queue", "broker", "receive", "throttle", "again")]
    marks += ["mark-critical", "mark-warning", "mark-note", "edge", "s0", "b1", "b2", "b3", "b4"]
    seen = {f"{text} on {ground}": (contrast(colours[text], colours[ground]), 4.5) for text, ground in texts}
    seen |= {f"badge {colour}": (contrast(colours["bg"], colour), 4.5) for colour in badges}
    seen |= {f"mark {name}": (contrast(colours[name], colours["bg"]), 3) for name in marks}
    assert {what: ratio for what, (ratio, least) in seen.items() if ratio < least} == {}


def contrast(one: str, other: str) -> float:
    """Of two colours, #rrggbb, as WCAG defines it."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
