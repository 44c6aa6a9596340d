"""The page: self-contained, unbreakable, and sensible where there is nothing to show."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from dissectors.errors import InputError
from pipelines import report
from pipelines.report.cases import card
from pipelines.report.charts import Axis
from pipelines.report.elements import table, tag, text
from pipelines.tables import TABLES
from pipelines.tables.table import Column
from tests.pipelines import synthetic
from tests.pipelines.conftest import Analysed


class Outline(HTMLParser):
    """Elements by id, scripts, and whatever would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.scripts = 0
        self.fetched: list[str] = []
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.ids |= {told["id"] or ""} if "id" in told else set()
        self.scripts += tag == "script"
        self.fetched += [v or "" for k, v in attrs if k in ("src", "href", "srcset") and not (v or "").startswith("#")]
        if tag not in ("meta", "input", "br"):
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not [k for k, _ in attrs if k.startswith("on")]


@pytest.fixture
def out(analysed: Analysed) -> Path:
    return analysed.out


def outline(page: Path) -> Outline:
    seen = Outline()
    seen.feed(page.read_text(encoding="utf-8"))
    assert seen.stack == []
    return seen


def test_the_page_of_the_samples_has_every_section_and_fetches_nothing(out: Path) -> None:
    seen = outline(out / report.PAGE)
    wanted = {"cost", "latency", "time", "errors", "throughput", "integrity", "forensics", "health", "findings"}
    assert wanted <= seen.ids
    assert seen.fetched == []
    assert seen.scripts == 1
    assert not re.search(r"url\(|@import", (out / report.PAGE).read_text())
    assert (out / report.PAGE).stat().st_size < 1_000_000


def test_a_bad_checksum_has_its_card(out: Path) -> None:
    page = (out / report.PAGE).read_text(encoding="utf-8")
    card = page[page.index('<article class="case"') : page.index("</article>")]
    plain = re.sub(r"<[^>]+>", "", card)
    assert "One bit flipped" in plain
    assert "ne kelp bedar map" in plain
    assert "ne kelp cedar map" in plain
    assert "Certain: broke before TCP" in plain
    assert "The answer was ChecksumError" in plain


def test_nothing_that_a_capture_holds_becomes_markup_on_a_card() -> None:
    evil = "<script>alert(1)</script>"
    spot = {"packet": 1, "packet_offset": 2, "bit": None, "field": evil, "stream_offset": 5}
    excerpt = {"stream_offset": 5, "captured": evil.encode().hex(), "corrected": None}
    diagnosis = {
        "pattern": evil,
        "note": evil,
        "locations": [spot],
        "verified": False,
        "candidates": 0,
        "excerpt": excerpt,
    }
    told = dict.fromkeys(
        ["protocol", "role", "topic", "position", "checksum_kind", "stored", "computed", "connection", "time", "file"],
        evil,
    )
    verdict = {"where": evil, "certainty": evil, "because": [evil]}
    related = [{"name": evil, "file": evil, "packet": 1, "why": evil}]
    case = {**told, "partition": 1, "length": 9, "packet": 3, "diagnosis": diagnosis, "attribution": verdict}
    assert "<script" not in card({**case, "related": related})


def test_the_outcome_has_records_tables_and_the_page(out: Path) -> None:
    for name in TABLES:
        assert (out / "tables" / f"{name}.parquet").is_file()
        head = (out / "tables" / f"{name}.csv").read_text().splitlines()[0]
        assert "sketch" not in head
    assert {p.name for p in (out / "records").iterdir()} == {
        "exchanges",
        "batches",
        "errors",
        "connections",
        "findings",
    }
    assert json.loads((out / "analysis.json").read_text())["by"] == ["client"]


def test_the_page_comes_again_from_the_tables(out: Path) -> None:
    first = (out / report.PAGE).read_bytes()
    (out / report.PAGE).unlink()
    assert report.write(out).read_bytes() == first


def test_a_browser_draws_it(out: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium here")
    shot = tmp_path / "page.png"
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--screenshot={shot}",
        f"file://{out}/report.html",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert shot.stat().st_size > 20_000, done.stderr
    assert "Uncaught" not in done.stderr


def test_hostile_names_stay_text() -> None:
    column = Column("name", "a name")
    made = table([column], [{"name": synthetic.HOSTILE}, {"name": '"><img src=x onerror=alert(1)>'}])
    assert "<script" not in made
    assert "<img" not in made
    assert "\x1b" not in made
    assert tag("p", title='"><b>') == '<p title="&quot;&gt;&lt;b&gt;"></p>'
    assert text("a & b") == "a &amp; b"


def test_tables_without_rows_make_a_page_that_says_so(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "tables").mkdir()
    for name, told in TABLES.items():
        empty = pa.table({c.name: pa.array([], pa.int64()) for c in told.columns})
        pq.write_table(empty, tmp_path / "tables" / f"{name}.parquet")
    page = report.write(tmp_path).read_text()
    assert page.count("Nothing of this in these captures") == len(report_sections())


def report_sections() -> tuple[object, ...]:
    from pipelines.report.sections import SECTIONS

    return SECTIONS


def test_a_folder_without_tables_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tables here"):
        report.write(tmp_path)


def test_a_time_axis_leaves_idle_stretches_out_and_merges_what_is_too_fine() -> None:
    from datetime import UTC, datetime, timedelta

    start = datetime(2026, 1, 1, tzinfo=UTC)
    axis = Axis([start, start + timedelta(seconds=1), start + timedelta(days=2)], 1.0)
    assert [len(s) for s in axis.stretches] == [2, 1]
    assert axis.columns < 10
    many = Axis([start + timedelta(seconds=n) for n in range(1000)], 1.0)
    assert many.columns <= 180
    assert many.column(start + timedelta(seconds=999)) == many.columns - 1
