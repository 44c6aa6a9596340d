"""One answer to one question, whoever is asked: the summary, the tables, the page and `groups`, on every sample."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

import dissectors
from pipelines.answers.records import database_of
from pipelines.cli import app
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts.engine import judged
from pipelines.tables.verdicts.evidence import SAME_ROW

Row = dict[str, Any]
SAMPLES = sorted(
    path for path in (Path(__file__).parents[2] / "samples").iterdir() if path.suffix in (".pcap", ".pcapng")
)


def told(*arguments: str) -> list[Row]:
    """What a command prints as JSON lines."""
    done = CliRunner().invoke(app, [*arguments, "-f", "json", "-q"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


class Surfaces(NamedTuple):
    """What each surface says of one sample."""

    capture: str
    out: str
    page: str  # its markup
    data: Row  # what its script works on
    of_capture: Row  # the summary
    of_out: Row

    def sql(self, query: str) -> list[Row]:
        return told("sql", self.out, query)

    def carried(self, table: str) -> list[Row]:
        """The rows of a table of the page, numbers as they are."""
        made = self.data["tables"].get(table, {"rows": [], "columns": []})
        names = [column["name"] for column in made["columns"]]
        return [dict(zip(names, row, strict=True)) for row in made["rows"]]

    def sums(self, fact: str, measure: str) -> Counter[str]:
        """Sums of a measure of the page over the names of a dimension."""
        columns, total = self.data["facts"][fact]["columns"], Counter[str]()
        for place, value in zip(columns[fact], columns[measure], strict=True):
            total[self.data["strings"][self.data["names"][fact][place]]] += value or 0
        return +total


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.stem)
def surfaces(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Surfaces:
    capture, out = str(request.param), str(tmp_path_factory.mktemp("one") / "out")
    assert CliRunner().invoke(app, ["analyze", capture, "-o", out, "--engine", "local", "-q"]).exit_code == 0
    page = Path(out, "report.html").read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert data is not None
    (of_capture,), (of_out,) = told("summary", capture), told("summary", out)
    return Surfaces(capture, out, page, json.loads(data[1]), of_capture, of_out)


def plain(page: str) -> str:
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", "", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def test_the_verdicts_are_the_same_everywhere(surfaces: Surfaces) -> None:
    verdicts = surfaces.of_capture["verdicts"]
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
        for group in told("groups", surfaces.capture)
        for event in group["events"]
        if event["what"] == "rebalanced"
    ]
    assert of_table == of_groups
    assert [row["duration_ns"] for row in surfaces.carried("rebalances")] == [row["duration_ns"] for row in of_table]


def test_the_errors_are_as_many_everywhere(surfaces: Surfaces) -> None:
    """Answers with an error that is not part of normal work, by API; errors of one name, in summary and table."""
    of_top = Counter({row["key"]: row["errors"] for row in told("top", surfaces.capture, "--by", "api")})
    assert +of_top == surfaces.sums("api", "errors")
    of_summary = sum(row["count"] for row in surfaces.of_capture["errors"])
    if surfaces.of_capture["error_kinds"] == len(surfaces.of_capture["errors"]):
        (of_table,) = surfaces.sql("select coalesce(sum(count), 0)::bigint as n from t_errors where not expected")
        assert of_summary == of_table["n"]


def test_the_slowest_request_and_the_service_time_are_the_same_everywhere(surfaces: Surfaces) -> None:
    slowest = [row["total_ns"] for row in surfaces.of_capture["slowest"]]
    assert slowest == [row["total_ns"] for row in surfaces.of_out["slowest"]]
    assert slowest == [row["total_ns"] for row in surfaces.carried("slowest")][: len(slowest)]
    barriers = ("JoinGroup", "SyncGroup")
    of_page = surfaces.sums("api", "service_ns")
    of_table = surfaces.sql("select api, service_sum_ns from t_latency where not long_poll and service_sum_ns > 0")
    assert of_page == Counter({row["api"]: row["service_sum_ns"] for row in of_table})
    assert not set(barriers) & set(of_page)


def test_the_servers_have_one_spelling(surfaces: Surfaces) -> None:
    of_page = set(surfaces.sums("broker", "n"))
    assert of_page == {row["key"] for row in told("top", surfaces.capture, "--by", "server") if row["count"]}


def test_the_page_carries_the_rows_that_each_verdict_counts(surfaces: Surfaces) -> None:
    for verdict in surfaces.of_capture["verdicts"]:
        assert len(surfaces.carried(f"evidence_{verdict['rank']}")) == verdict["count"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_evidence_is_the_very_rows_that_a_verdict_counts(path: Path) -> None:
    with database_of(dissectors.dissect([path], tables=RECORDS)) as duckdb:
        verdicts = judged(duckdb)
        duckdb.register("verdicts", verdicts)
        for row in verdicts.to_pylist():
            table = row["counted"]
            found = duckdb.execute(f"""
                select count(*) from {table} r semi join (
                    select unnest(evidence, recursive := true) from verdicts where rank = {row["rank"]}
                ) e on {SAME_ROW[table]}""").fetchall()
            assert found == [(row["count"],)], row["sentence"]
