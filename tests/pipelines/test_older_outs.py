"""What release 0.1.0 left is read, reported and brought up to date, or refused in one line: docs/compatibility.md."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import brokerscope
from dissectors import records
from pipelines.cli.schema_version import promised, schema_version
from pipelines.storage.layout import SCHEMA
from pipelines.tables.registry import TABLES
from tests.commands import SAMPLES, objects, run

LEFT = Path(__file__).parents[1] / "outs" / "0.1.0.tar.xz"  # captures, plain (analyze), store (analyze --update)


def rows(out: str, query: str) -> list[dict[str, Any]]:
    return objects("sql", out, query)


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(LEFT) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path / "0.1.0")
    return tmp_path / "0.1.0"


@pytest.mark.parametrize("out", ["plain", "store"])
def test_nothing_that_it_wrote_has_gone_or_has_another_type(left: Path, out: str) -> None:
    for name in records.TABLES:
        known = records.schema(name, full=True, payloads=True)
        for file in (left / out / "records" / name).glob("*.parquet"):
            for column in pq.read_schema(file):
                if column.name != "date":  # by which the files are told apart
                    assert known.field(column.name).type == column.type, (name, column)
    for file in (left / out / "tables").glob("*.parquet"):
        names = {column.name for column in TABLES[file.stem].columns}
        assert set(pq.read_schema(file).names) <= names, file.stem


@pytest.mark.parametrize("out", ["plain", "store"])
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("summary",), "refused"), (("info",), "refused.pcap"), (("top", "--by", "api"), "CreateTopics"),
        (("dissect", "--table", "errors"), "MESSAGE_TOO_LARGE"), (("groups",), "err-"), (("forensics",), "crc32c"),
        (("changes",), ""), (("audit",), ""), (("transactions",), ""), (("upgrade",), ""),
    ],
)  # fmt: skip
def test_each_command_reads_it(left: Path, out: str, command: tuple[str, ...], says: str) -> None:
    assert says in run(command[0], out, *command[1:])


@pytest.mark.parametrize("out", ["plain", "store"])
def test_columns_that_it_lacks_are_null_and_tables_are_made_of_what_is_there(left: Path, out: str) -> None:
    assert rows(out, "select count(*) as rows, count(answer) as told from exchanges") == [{"rows": 18, "told": 0}]
    assert rows(out, "select count(*) as rows from events") == [{"rows": 0}]
    assert rows(out, "select count(*) > 0 as some from t_impacts") == [{"some": True}]
    assert len(brokerscope.open(out).exchanges.arrow()) == 18


@pytest.mark.parametrize("out", ["plain", "store"])
def test_its_page_is_written_anew(left: Path, out: str) -> None:
    run("report", out)
    assert "<html" in (left / out / "report.html").read_text(encoding="utf-8")


def test_an_update_decodes_its_captures_again(left: Path) -> None:
    run("analyze", "captures", "-o", "store", "--update", "--engine", "local", "-q")
    query = "select count(*) as rows, count(answer) > 0 as told from exchanges"
    assert rows("store", query) == [{"rows": 18, "told": True}]


def test_of_captures_that_are_gone_an_update_keeps_the_rows(left: Path) -> None:
    shutil.copy(SAMPLES / "iggy-messages.pcap", left / "captures")
    (left / "captures" / "refused.pcap").unlink()
    run("analyze", "captures", "-o", "store", "--update", "--engine", "local", "-q")
    counts = rows("store", "select protocol, count(*) as rows, count(answer) > 0 as told from exchanges group by all")
    assert {"protocol": "kafka", "rows": 18, "told": False} in counts
    assert next(row for row in counts if row["protocol"] == "iggy")["told"]


def test_a_plain_out_is_no_store_and_one_line_says_so(left: Path) -> None:
    said = run("analyze", "captures", "-o", "plain", "--update", "--engine", "local", "-q", code=2)
    assert "use another OUT" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("command", [("summary",), ("sql", "select 1 from exchanges"), ("report",), ("top",)])
def test_an_out_of_a_later_release_is_refused_in_one_line(left: Path, command: tuple[str, ...]) -> None:
    about = json.loads((left / "plain" / "analysis.json").read_text())
    (left / "plain" / "analysis.json").write_text(json.dumps(about | {"version": "9.0.0", "schema": SCHEMA + 1}))
    said = run(command[0], "plain", *command[1:], code=3)
    assert "was written by brokerscope 9.0.0" in said
    assert len(said.splitlines()) == 1


def test_the_schema_version_is_a_number_and_a_digest_of_all_that_is_promised() -> None:
    number, digest = run("--schema-version").split()
    assert f"{number} {digest}" == schema_version()
    assert int(number) == SCHEMA
    assert {"record exchanges.wait_ns int64", "verdict bad_checksum", "exit code 3"} <= set(promised())
