"""One answer to one question, whoever is asked: the summary, the tables, the page and `groups`, on all samples."""

import html
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dissectors
from pipelines.answers.records import database_of
from pipelines.report.requests import BARRED, FAILED, KINDS, LONG_POLL
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts.engine import judged
from pipelines.tables.verdicts.evidence import SAME_ROW
from tests.commands import objects, run
from tests.pipelines.pages import data, requests, unpacked

Row = dict[str, Any]
SAMPLES = sorted(
    path for path in (Path(__file__).parents[2] / "samples").iterdir() if path.suffix in (".pcap", ".pcapng")
)


class Surfaces(NamedTuple):
    """What each surface says of the samples of a protocol."""

    captures: list[str]
    out: str
    page: str  # its markup
    data: Row  # what its script works on
    of_captures: Row  # the summary
    of_out: Row

    def sql(self, query: str) -> list[Row]:
        return objects("sql", self.out, query)

    def carried(self, table: str) -> list[Row]:
        """The rows of a table of the page, numbers as they are."""
        made = self.data["tables"].get(table, {"rows": [], "columns": []})
        names = [column["name"] for column in made["columns"]]
        return [dict(zip(names, row, strict=True)) for row in made["rows"]]

    def sums(self, dimension: str, value: Callable[[Row], int]) -> Counter[str]:
        """Sums over the requests of the page that have an answer, or lack one, by the names of a dimension."""
        total = Counter[str]()
        for row in requests(self.data):
            if KINDS[row["flags"] & 7] in ("call", "unanswered"):
                total[row[dimension]] += value(row) * row["weight"]
        return +total


def is_timed(row: Row) -> bool:
    """Whether a request of the page was answered, and neither a long poll nor a barrier stretched its duration."""
    return KINDS[row["flags"] & 7] == "call" and not row["flags"] & (LONG_POLL | BARRED) and row["total"] is not None


@pytest.fixture(scope="module", params=["kafka", "pulsar", "iggy"])
def surfaces(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Surfaces:
    captures = [str(path) for path in SAMPLES if path.name.startswith(request.param)]
    out = str(tmp_path_factory.mktemp("one") / "out")
    run("analyze", *captures, "-o", out, "--engine", "local", "-q")
    page = Path(out, "report.html")
    (of_captures,), (of_out,) = objects("summary", *captures), objects("summary", out)
    return Surfaces(captures, out, page.read_text(), data(page), of_captures, of_out)


def plain(page: str) -> str:
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", "", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def test_the_verdicts_are_the_same_everywhere(surfaces: Surfaces) -> None:
    verdicts = surfaces.of_captures["verdicts"]
    assert verdicts == surfaces.of_out["verdicts"]
    keys = ("kind", "severity", "sentence", "count", "counted", "evidence")
    table = surfaces.sql(f"select {', '.join(keys)} from t_verdicts order by rank")
    assert table == [{key: row[key] for key in keys} for row in verdicts]
    page = plain(surfaces.page)
    assert all(plain(row["sentence"]) in page for row in verdicts)


def test_the_rebalances_are_the_same_everywhere(surfaces: Surfaces) -> None:
    of_table = surfaces.sql('select "group", duration_ns from t_rebalances order by time')
    of_groups = [
        {"group": event["group"], "duration_ns": event["took_ns"]}
        for group in objects("groups", *surfaces.captures)
        for event in group["events"]
        if event["what"] == "rebalanced"
    ]
    assert sorted(of_table, key=lambda row: row["group"]) == of_groups
    assert [row["duration_ns"] for row in surfaces.carried("rebalances")] == [row["duration_ns"] for row in of_table]


def test_the_errors_are_as_many_everywhere(surfaces: Surfaces) -> None:
    """Answers with an error that is not part of normal work, by API; errors of a name and API, in summary and table."""
    of_top = Counter({row["key"]: row["errors"] for row in objects("top", *surfaces.captures, "--by", "api")})
    assert +of_top == surfaces.sums("api", lambda row: row["flags"] & FAILED > 0)
    query = "select name, api, sum(count)::bigint as n from t_errors where not expected group by name, api"
    of_table = {(row["name"], row["api"]): row["n"] for row in surfaces.sql(query)}
    of_summary = {(row["name"], row["api"]): row["count"] for row in surfaces.of_captures["errors"]}
    assert of_summary.items() <= of_table.items()
    assert surfaces.of_captures["error_kinds"] == len(of_table)


def test_the_slowest_request_and_the_service_time_are_the_same_everywhere(surfaces: Surfaces) -> None:
    slowest = [row["total_ns"] for row in surfaces.of_captures["slowest"]]
    assert slowest == [row["total_ns"] for row in surfaces.of_out["slowest"]]
    of_page_slowest = sorted((row["total"] for row in requests(surfaces.data) if is_timed(row)), reverse=True)
    assert slowest == of_page_slowest[: len(slowest)]
    barriers = ("JoinGroup", "SyncGroup")
    of_page = surfaces.sums(
        "api", lambda row: max(0, (row["wait"] or 0) - (row["queued"] or 0)) if is_timed(row) else 0
    )
    of_table = surfaces.sql("select api, service_sum_ns from t_latency where not long_poll and service_sum_ns > 0")
    assert of_page == Counter({row["api"]: row["service_sum_ns"] for row in of_table})
    assert not set(barriers) & set(of_page)


def test_the_servers_have_one_spelling(surfaces: Surfaces) -> None:
    of_page = set(surfaces.sums("broker", lambda row: KINDS[row["flags"] & 7] == "call"))
    assert of_page == {row["key"] for row in objects("top", *surfaces.captures, "--by", "server") if row["count"]}


def test_the_page_carries_the_rows_that_each_verdict_counts(surfaces: Surfaces) -> None:
    carried = Counter(unpacked(surfaces.data["evidence"])["rank"])
    for verdict in surfaces.of_captures["verdicts"]:
        rank = verdict["rank"]
        of_requests = verdict["counted"] == "exchanges"
        rows = carried[rank] if of_requests else len(surfaces.carried(f"evidence_{rank}"))
        assert rows == verdict["count"], verdict["sentence"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_evidence_is_the_very_rows_that_a_verdict_counts(path: Path) -> None:
    with database_of(dissectors.dissect([path], tables=RECORDS)) as duckdb:
        verdicts = judged(duckdb).verdicts
        duckdb.register("verdicts", verdicts)
        for row in verdicts.to_pylist():
            table = row["counted"]
            found = duckdb.execute(f"""
                select count(*) from {table} r semi join (
                    select unnest(evidence, recursive := true) from verdicts where rank = {row["rank"]}
                ) e on {SAME_ROW[table]}""").fetchall()
            assert found == [(row["count"],)], row["sentence"]
