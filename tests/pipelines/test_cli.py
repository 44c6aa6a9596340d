"""The command: what it prints, how it ends, how fast it begins."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dissectors
from dissectors.capture.block import ACK, RST, SYN
from tests.commands import SAMPLES, attempt, objects, run
from tests.wires import CLIENT, SERVER, T0, Side, pcap, segment

CAPTURE = str(SAMPLES / "kafka-refused.pcap")
HEAVY = ("pyspark", "pandas", "duckdb", "rich", "fsspec", "dpkt", "pyarrow.compute")


def test_dissect_gives_what_the_library_gives(tmp_path: Path) -> None:
    want = dissectors.dissect([CAPTURE], tables=["exchanges"])["exchanges"]
    out = tmp_path / "rows.parquet"
    run("dissect", CAPTURE, "--format", "parquet", "-o", out)
    assert pq.read_table(out).num_rows == want.num_rows
    rows = objects("dissect", CAPTURE)
    assert [r["correlation_id"] for r in rows] == want["correlation_id"].to_pylist()
    assert "request" not in rows[0]


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "latin-1"}]
)
def test_a_locale_without_our_characters_gets_others(locale: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "brokerscope", "follow", ":48388", CAPTURE],
        capture_output=True,
        check=False,
        env={**os.environ, **locale},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rb"  >  +ApiVersions v4", done.stdout)
    assert b"\\u2192" not in done.stdout


def test_a_day_in_another_zone_begins_where_it_does_there() -> None:
    rows = objects("dissect", CAPTURE)
    day = rows[0]["time"][:10]
    for zone, kept in (("+00:00", len(rows)), ("-14:00", sum(row["time"] >= f"{day}T14" for row in rows))):
        assert len(objects("dissect", CAPTURE, "--since", f"{day}{zone}")) == kept


def test_conditions_that_no_row_meets_are_said_to_be_so() -> None:
    done = attempt("dissect", CAPTURE, "--slower-than", "1h")
    assert (done.exit_code, done.stderr) == (0, "brokerscope: no row of exchanges meets these conditions\n")
    assert attempt("dissect", CAPTURE, "--slower-than", "1h", "--quiet").stderr == ""


@pytest.mark.parametrize("command", ["dissect", "sql"])
@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("rows.csv", b"api\n"),
        ("rows.JSONL", b'{"api"'),
        ("rows.parquet", b"PAR1"),
        ("rows.txt", b"api"),
        ("csv", b"api"),
    ],
)
def test_an_output_has_the_format_that_its_name_says(tmp_path: Path, command: str, name: str, begins: bytes) -> None:
    out = tmp_path / name
    asked = ["--columns", "api"] if command == "dissect" else ["select api from exchanges"]
    run(command, CAPTURE, *asked, "-o", out)
    assert out.read_bytes().startswith(begins)
    run(command, CAPTURE, *asked, "-f", "json", "-o", out)
    assert out.read_bytes().startswith(b'{"api"')


def test_full_adds_the_bodies_as_objects() -> None:
    rows = objects("dissect", CAPTURE, "--full")
    assert {type(r["request"]) for r in rows if r["kind"] == "call"} == {dict}


def test_where_keeps_the_rows_that_hold() -> None:
    rows = objects("dissect", CAPTURE, "--where", "status = 'error' AND total_ns > 0")
    assert rows
    assert {r["status"] for r in rows} == {"error"}


def test_a_folder_that_an_output_goes_into_is_made(tmp_path: Path) -> None:
    rows, evidence = tmp_path / "a" / "b" / "rows.csv", tmp_path / "c" / "d"
    run("dissect", CAPTURE, "-o", rows)
    assert rows.stat().st_size
    run("dissect", CAPTURE, "-t", "errors", "-t", "exchanges", "-f", "csv", "-o", evidence)
    assert len(list(evidence.iterdir())) == 2


def test_a_file_that_cannot_be_read_ends_with_3_and_the_others_go_on(tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("not a capture")
    done = attempt("dissect", foreign, CAPTURE, "--table", "connections", "--format", "json")
    assert done.exit_code == 3
    assert done.stdout
    assert str(foreign) in done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m brokerscope dissect {CAPTURE} --format json --full | head -c 100"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert len(done.stdout) == 100
    assert done.stderr == ""


def test_info_gives_format_span_and_protocols() -> None:
    (info,) = objects("info", CAPTURE)
    (file,) = info["files"]
    assert (file["format"], file["link_types"], file["problem"]) == ("pcap", ["ethernet"], None)
    assert file["packets"] > 0
    assert list(info["protocols"]) == ["kafka"]
    assert "kafka" in run("info", CAPTURE)


def test_info_lists_some_of_many_files_and_sums_up_the_others(tmp_path: Path) -> None:
    for number in range(25):
        (tmp_path / f"{number:02}.pcap").write_bytes(Path(CAPTURE).read_bytes())
    (each, *_) = objects("info", CAPTURE)[0]["files"]
    text = " ".join(run("info", tmp_path).split())
    assert "19.pcap format" in text
    assert "20.pcap" not in text
    assert f"and 5 more files: {5 * each['packets']} packets" in text.replace(",", "")


def test_info_and_follow_say_what_tls_handshakes_took() -> None:
    sample = SAMPLES / "kafka-tls.pcapng"
    (info,) = objects("info", sample)
    tls = info["tls"]
    assert (tls["connections"], tls["resumed"], tls["versions"]) == (9, 0, ["TLS 1.3"])
    assert tls["handshake_ns"] > info["tcp"]["rtt_ns"]
    assert "9 connections, TLS 1.3, 112 ms handshake (median)" in run("info", sample)
    assert "TLS 1.3 handshake 143 ms" in run("follow", sample, "57092", "--format", "json")


def test_info_counts_connects_that_were_refused_or_never_answered(tmp_path: Path) -> None:
    packets = []
    for port in (40001, 40002):  # refused
        client = Side("10.0.0.2", port)
        packets += [segment(client, SERVER, 1000, 0, flags=SYN), segment(SERVER, client, 0, 1001, flags=RST | ACK)]
    silent = Side("10.0.0.9", 9092)
    packets += [segment(CLIENT, silent, 1000, 0, flags=SYN, time=T0 + n * 10**9, ip_id=n) for n in range(1, 4)]
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(sorted(packets, key=lambda p: p.time)))
    (info,) = objects("info", path)
    assert info["failed_connects"] == {"refused": 2, "without an answer": 1}
    assert "3 connections, 0 B, 2 refused, 1 without an answer" in run("info", path)
    verdicts = objects("summary", path)[0]["verdicts"]
    assert {verdict["kind"]: verdict["count"] for verdict in verdicts} == {"connect_refused": 2, "connect_silent": 1}


def test_forensics_ends_with_1_only_where_a_checksum_is_bad() -> None:
    bad = attempt("forensics", SAMPLES / "pulsar-corrupted.pcap", "--format", "json")
    assert (bad.exit_code, len(bad.stdout.splitlines())) == (1, 1)
    assert run("forensics", CAPTURE, "--format", "json") == ""


@pytest.mark.parametrize("arguments", [["--help"], ["dissect", "CAPTURE", "--format", "parquet", "-o", os.devnull]])
def test_nothing_heavy_is_imported_before_it_is_needed(arguments: list[str]) -> None:
    given = [CAPTURE if a == "CAPTURE" else a for a in arguments]
    code = (
        "import sys\nfrom pipelines.cli import app\nsys.argv[1:] = " + repr(given) + "\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    allowed = {"rich", "pyarrow.compute"} if "--help" in arguments else set()  # it loads every command
    assert set(json.loads(done.stderr.strip().splitlines()[-1].replace("'", '"'))) <= allowed


def test_several_tables_go_into_a_folder_each_as_it_is_alone(tmp_path: Path) -> None:
    many = tmp_path / "many"
    tables = ("exchanges", "batches", "findings")
    given = [word for table in tables for word in ("--table", table)]
    run("dissect", CAPTURE, *given, "--format", "json", "-o", many)
    assert sorted(path.name for path in many.iterdir()) == sorted(f"{table}.jsonl" for table in tables)
    for table in tables:
        assert (many / f"{table}.jsonl").read_text() == run("dissect", CAPTURE, "--table", table, "--format", "json")


def test_several_tables_have_no_one_stream_and_no_one_order(tmp_path: Path) -> None:
    two = ("dissect", CAPTURE, "-t", "exchanges", "-t", "errors")
    for wrong, named in (((), "-o"), (("-o", str(tmp_path / "x"), "--sort", "time"), "one table")):
        assert named in run(*two, *wrong, code=2)
