"""`report --since --until --site --topic`: a page of a part counts that part, and nothing else."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dissectors.options import Options
from pipelines.analyze import analyze
from pipelines.report.load import loaded
from pipelines.report.records import last_time_us
from pipelines.sql.selection import Selection
from pipelines.storage import filesystem
from pipelines.storage.record_files import place
from tests.commands import attempt, objects, run
from tests.pipelines.conftest import SAMPLES
from tests.pipelines.stored import read

Row = dict[str, Any]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two capture points and two protocols."""
    folder = tmp_path_factory.mktemp("out")
    captures = [str(SAMPLES / name) for name in ("iggy-messages.pcap", "pulsar-corrupted.pcap")]
    analyze(captures, folder, Options(site="file"), "local")
    return folder


def records(out: Path, table: str) -> list[Row]:
    rows: list[Row] = read(out / "records" / table).to_pylist()
    return rows


def calls(rows: list[Row]) -> int:
    return sum(row["kind"] == "call" for row in rows)


def counted(out: Path, selection: Selection) -> dict[str, int]:
    """What the tables of a part say."""
    with loaded(out, selection) as analysis:
        return {
            "calls": sum(row["count"] for row in analysis["latency"]),
            "connections": sum(row["connections"] for row in analysis["traffic"]),
            "cases": len(analysis.cases),
        }


@pytest.fixture(scope="module")
def middle(out: Path) -> datetime:
    times = sorted(row["time"] for row in records(out, "exchanges"))
    return times[len(times) // 2]


def test_the_parts_before_and_after_a_moment_are_the_whole(out: Path, middle: datetime) -> None:
    moment = middle.strftime("%Y-%m-%dT%H:%M:%S.%f")
    before, after = counted(out, Selection(until=moment)), counted(out, Selection(since=moment))
    rows = records(out, "exchanges")
    assert before["calls"] == calls([row for row in rows if row["time"] < middle])
    assert after["calls"] == calls([row for row in rows if row["time"] >= middle])
    assert min(before["calls"], after["calls"]) > 0
    open_then = [row for row in records(out, "connections") if row["start_time"] < middle <= row["end_time"]]
    assert before["connections"] + after["connections"] == len(records(out, "connections")) + len(open_then)


def test_a_site_is_one_capture_point(out: Path) -> None:
    of = [row for row in records(out, "exchanges") if row["protocol"] == "iggy"]
    (site,) = {row["site"] for row in of}
    assert counted(out, Selection(site=site)) == {
        "calls": calls(of),
        "connections": len({(row["connection"], row["incarnation"]) for row in of}),
        "cases": 0,
    }


def test_a_topic_brings_its_connections_and_what_broke_there(out: Path) -> None:
    (bad,) = [row for row in records(out, "batches") if row["verdict"] == "bad"]
    naming = [row for row in records(out, "exchanges") if bad["topic"] in (row["topics"] or [])]
    found = counted(out, Selection(topic=bad["topic"]))
    assert (found["calls"], found["cases"]) == (calls(naming), 1)
    assert 0 < found["connections"] <= len({(row["connection"], row["incarnation"]) for row in naming})
    assert counted(out, Selection(topic="nobody-*")) == {"calls": 0, "connections": 0, "cases": 0}


@pytest.mark.parametrize(
    ("since", "until", "those"),
    [
        ("23:50", "00:10", ["before", "after"]),
        ("23:50", None, ["before"]),
        (None, "00:10", ["after"]),
        ("00:10", "23:50", ["noon"]),
        ("23:50", "2026-01-01T23:59", ["before"]),
    ],
)
def test_times_of_day_may_span_midnight(since: str | None, until: str | None, those: list[str]) -> None:
    found = chosen(
        Selection(since, until).condition("exchanges"),
        "('before', '2026-01-01 23:55Z'::timestamptz), ('after', '2026-01-02 00:05Z'), ('noon', '2026-01-01 12:00Z')",
        "time",
    )
    assert found == those


@pytest.mark.parametrize(
    ("since", "until", "those"),
    [
        ("23:50", None, ["evening", "night", "days"]),
        ("23:50", "00:10", ["evening", "night", "morning", "days"]),
        (None, "00:10", ["night", "morning", "days"]),
        ("12:00", "13:00", ["days"]),
        ("00:00:30", "2026-01-01T23:00", ["days"]),
        ("2026-01-02T00:01", "12:00", ["night", "morning", "days"]),
    ],
)
def test_a_connection_that_was_open_then_counts_whenever_it_ended(
    since: str | None, until: str | None, those: list[str]
) -> None:
    found = chosen(
        Selection(since, until).condition("connections"),
        """('evening', '2026-01-01 23:40Z'::timestamptz, '2026-01-01 23:55Z'::timestamptz),
        ('night', '2026-01-01 23:40Z', '2026-01-02 00:20Z'), ('morning', '2026-01-02 00:05Z', '2026-01-02 00:06Z'),
        ('days', '2026-01-01 10:00Z', '2026-01-03 10:00Z')""",
        "start_time, end_time",
    )
    assert found == those


def chosen(condition: str | None, rows: str, columns: str) -> list[str]:
    """The names of the rows that meet a condition."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        query = f"select name from (values {rows}) r(name, {columns}) where {condition}"
        return [name for (name,) in connection.execute(query).fetchall()]


def test_only_files_of_the_days_asked_for_are_read() -> None:
    asked = Selection(since="2026-01-02T00:00", until="2026-01-02T23:59:59")
    first, second, _, *undated = files = [
        *(place("exchanges", "a~2026-01-05", 20_454 + day, "part-0") for day in range(3)),
        place("exchanges", "a", None, "part-0"),
        "exchanges/part-0.parquet",
        "exchanges/site=b/date=2026-01-03/part-0.parquet",
    ]
    assert "2026-01-01" in first
    assert asked.files("exchanges", files) == [second, *undated]
    assert asked.files("connections", files) == [first, second, *undated]
    assert Selection(since="2026-01-02T00:00+05:00").files("exchanges", files) == files


def test_the_last_so_much_time_ends_with_the_last_request(out: Path, tmp_path: Path) -> None:
    rows = records(out, "exchanges")
    end = max(row["time"] for row in rows)
    since = end - timedelta(milliseconds=1500)
    pages = [tmp_path / "last.html", tmp_path / "since.html"]
    for page, part in zip(pages, (["--last", "1.5s"], ["--since", f"{since:%Y-%m-%dT%H:%M:%S.%f}"]), strict=True):
        run("report", out, *part, "-o", page, "--quiet")
    assert pages[0].read_text() == pages[1].read_text()
    assert 0 < calls([row for row in rows if row["time"] >= since]) < calls(rows)


def test_only_the_last_day_is_asked_for_the_last_request(tmp_path: Path) -> None:
    (tmp_path / "exchanges").mkdir()
    times = {20_483: 1_769_800_000_000_000, 20_484: 1_769_900_000_000_000}
    for day, time in times.items():
        rows = pa.table({"time": pa.array([time], pa.timestamp("us", "UTC"))})
        pq.write_table(rows, tmp_path / place("exchanges", "s", day, "a"))
    (tmp_path / place("exchanges", "s", 20_483, "b")).write_text("not read")
    assert last_time_us(str(tmp_path)) == times[20_484]
    assert last_time_us(str(tmp_path / "exchanges")) is None


@pytest.mark.parametrize("arguments", [["--last", "5"], ["--last", "24h", "--since", "10:00"]])
def test_a_last_time_that_means_nothing_is_wrong_usage(out: Path, arguments: list[str]) -> None:
    assert "--last" in run("report", out, *arguments, code=2)


def test_what_lies_at_a_url_gives_the_same_pages(out: Path, middle: datetime, tmp_path: Path) -> None:
    fs = fsspec.filesystem("memory")
    url, part = "memory://kept/out", ["--since", middle.isoformat(), "--site", "iggy*"]
    try:
        filesystem.upload(out, url, [path for path in out.rglob("*") if path.is_file()])
        for words, page in (([], "report.html"), (part, "selection.html")):
            here = attempt("report", out, *words, "-o", tmp_path / page)
            away = attempt("report", url, *words)
            assert here.exit_code == away.exit_code == 0, here.output + away.output
            assert away.output.split() == [f"{url}/{page}"]
            assert filesystem.read(f"{url}/{page}") == (tmp_path / page).read_bytes()
        missing = attempt("report", "memory://kept/none")
        assert "no tables here" in missing.output
        assert filesystem.find("memory://kept/none") == []
    finally:
        fs.store.clear()


def test_the_command_writes_a_page_of_the_part_beside_the_whole(out: Path, tmp_path: Path) -> None:
    whole = (out / "report.html").read_bytes()
    run("report", out, "--topic", "nobody", "-o", tmp_path / "part.html")
    assert "only topic nobody" in (tmp_path / "part.html").read_text()
    assert attempt("report", out, "--site", "*").stdout.strip() == str(out / "selection.html")
    assert (out / "report.html").read_bytes() == whole
    printed = attempt("report", out, "--topic", "nobody", "-o", "-")
    assert printed.stdout_bytes == (tmp_path / "part.html").read_bytes()
    run("report", out, "--since", "soon", code=2)


@pytest.mark.parametrize("analysed", [False, True])
def test_summary_and_top_of_a_part_count_that_part(out: Path, middle: datetime, analysed: bool) -> None:
    where = [out] if analysed else [SAMPLES / "iggy-messages.pcap", SAMPLES / "pulsar-corrupted.pcap", "--site", "file"]
    moment = middle.isoformat()
    rows = records(out, "exchanges")
    for option, mine in (
        ("--since", [row for row in rows if row["time"] >= middle]),
        ("--until", [row for row in rows if row["time"] < middle]),
    ):
        (verdict,) = objects("summary", *where, option, moment)
        assert sum(row["exchanges"] or 0 for row in verdict["protocols"]) == len(mine)
        open_then = [
            row
            for row in records(out, "connections")
            if (row["end_time"] >= middle if option == "--since" else row["start_time"] < middle)
        ]
        assert verdict["span"]["connections"] == len(open_then)
        top = objects("top", *where, option, moment)
        assert sum(row["count"] for row in top) == len(mine)
    run("summary", out, "--until", "soon", code=2)
