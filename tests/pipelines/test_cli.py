"""The command: what it prints, how it ends, how fast it begins."""

from __future__ import annotations

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
from tests.wires import CLIENT, SERVER, T0, Side, pcap, segment

HEAVY = ("pyspark", "pandas", "duckdb", "rich", "fsspec", "dpkt", "pyarrow.compute")


def run(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "brokerscope", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="module")
def capture(samples: list[str]) -> str:
    return next(s for s in samples if s.endswith("kafka-refused.pcap"))


def test_dissect_gives_what_the_library_gives(capture: str, tmp_path: Path) -> None:
    want = dissectors.dissect([capture], tables=["exchanges"])["exchanges"]
    out = tmp_path / "rows.parquet"
    assert run("dissect", capture, "--format", "parquet", "-o", str(out)).returncode == 0
    assert pq.read_table(out).num_rows == want.num_rows
    rows = [json.loads(line) for line in run("dissect", capture, "--format", "json").stdout.splitlines()]
    assert [r["correlation_id"] for r in rows] == want["correlation_id"].to_pylist()
    assert "request" not in rows[0]


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "latin-1"}]
)
def test_a_locale_without_our_characters_gets_others(capture: str, locale: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "brokerscope", "follow", ":48388", capture],
        capture_output=True,
        check=False,
        env={**os.environ, **locale},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rb"  >  +ApiVersions v4", done.stdout)
    assert b"\\u2192" not in done.stdout


@pytest.mark.parametrize("moment", ["25:00", "2026-13-01", "2026-11-21T01:00+25:00"])
def test_a_moment_that_no_clock_shows_is_wrong_usage(capture: str, moment: str) -> None:
    done = run("dissect", capture, "--since", moment)
    assert done.returncode == 2
    assert moment in done.stderr


def test_a_day_in_another_zone_begins_where_it_does_there(capture: str) -> None:
    rows = [json.loads(line) for line in run("dissect", capture, "-f", "json").stdout.splitlines()]
    day = rows[0]["time"][:10]
    for zone, kept in (("+00:00", len(rows)), ("-14:00", sum(row["time"] >= f"{day}T14" for row in rows))):
        since = run("dissect", capture, "-f", "json", "--since", f"{day}{zone}").stdout.splitlines()
        assert len(since) == kept


def test_conditions_that_no_row_meets_are_said_to_be_so(capture: str) -> None:
    done = run("dissect", capture, "--slower-than", "1h")
    assert (done.returncode, done.stderr) == (0, "brokerscope: no row of exchanges meets these conditions\n")
    assert run("dissect", capture, "--slower-than", "1h", "--quiet").stderr == ""


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
def test_an_output_has_the_format_that_its_name_says(
    capture: str, tmp_path: Path, command: str, name: str, begins: bytes
) -> None:
    out = tmp_path / name
    asked = ["--columns", "api"] if command == "dissect" else ["select api from exchanges"]
    assert run(command, capture, *asked, "-o", str(out)).returncode == 0
    assert out.read_bytes().startswith(begins)
    assert run(command, capture, *asked, "-f", "json", "-o", str(out)).returncode == 0
    assert out.read_bytes().startswith(b'{"api"')


def test_full_adds_the_bodies_as_objects(capture: str) -> None:
    rows = [json.loads(line) for line in run("dissect", capture, "--full", "--format", "json").stdout.splitlines()]
    assert {type(r["request"]) for r in rows if r["kind"] == "call"} == {dict}


def test_where_keeps_the_rows_that_hold(capture: str) -> None:
    done = run("dissect", capture, "--where", "status = 'error' AND total_ns > 0", "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows
    assert {r["status"] for r in rows} == {"error"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--where", "no_such_column = 1"),
        ("--where", "status = "),
        ("--where", "topics > 'orders'"),
        ("--table", "nothing"),
        ("--format", "xml"),
        ("--decode-as", "9092=mqtt"),
        ("--limit", "frame_bytes=many"),
        ("--site", "("),
    ],
)
def test_wrong_usage_ends_with_2_and_one_message(capture: str, arguments: tuple[str, ...]) -> None:
    done = run("dissect", capture, *arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_output_that_cannot_be_written_ends_with_3(capture: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("dissect", capture, "-o", str(tmp_path / "file" / "rows"))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)


def test_a_folder_that_an_output_goes_into_is_made(capture: str, tmp_path: Path) -> None:
    rows, evidence = tmp_path / "a" / "b" / "rows.csv", tmp_path / "c" / "d"
    assert run("dissect", capture, "-o", str(rows)).returncode == 0
    assert rows.stat().st_size
    assert run("dissect", capture, "-t", "errors", "-t", "exchanges", "-f", "csv", "-o", str(evidence)).returncode == 0
    assert len(list(evidence.iterdir())) == 2


def test_an_output_that_is_an_input_is_refused(capture: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.pcap"
    mine.write_bytes(Path(capture).read_bytes())
    for command in (["dissect", str(tmp_path), "-o", str(mine)], ["analyze", str(tmp_path), "-o", str(tmp_path)]):
        done = run(*command)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert mine.read_bytes() == Path(capture).read_bytes()


@pytest.mark.parametrize("command", ["info", "forensics"])
@pytest.mark.parametrize("arguments", [("--site", "("), ("--limit", "frame_bytes=many"), ("--decode-as", "0=kafka")])
def test_every_command_reads_the_common_options_alike(capture: str, command: str, arguments: tuple[str, ...]) -> None:
    done = run(command, capture, *arguments)
    assert done.returncode == 2, done.stderr
    assert arguments[0] in done.stderr


def test_a_file_that_cannot_be_read_ends_with_3_and_the_others_go_on(capture: str, tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("not a capture")
    done = run("dissect", str(foreign), capture, "--table", "connections", "--format", "json")
    assert done.returncode == 3
    assert done.stdout
    assert str(foreign) in done.stderr
    alone = run("dissect", str(tmp_path / "nothing.pcap"))
    assert alone.returncode == 3
    assert alone.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error(capture: str) -> None:
    command = f"{sys.executable} -m brokerscope dissect {capture} --format json --full | head -c 100"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert len(done.stdout) == 100
    assert done.stderr == ""


def test_info_gives_format_span_and_protocols(capture: str) -> None:
    info = json.loads(run("info", capture, "--format", "json").stdout)
    (file,) = info["files"]
    assert (file["format"], file["link_types"], file["problem"]) == ("pcap", ["ethernet"], None)
    assert file["packets"] > 0
    assert list(info["protocols"]) == ["kafka"]
    assert "kafka" in run("info", capture).stdout


def test_info_lists_some_of_many_files_and_sums_up_the_others(capture: str, tmp_path: Path) -> None:
    for number in range(25):
        (tmp_path / f"{number:02}.pcap").write_bytes(Path(capture).read_bytes())
    (each, *_) = json.loads(run("info", capture, "--format", "json").stdout)["files"]
    text = " ".join(run("info", str(tmp_path)).stdout.split())
    assert "19.pcap format" in text
    assert "20.pcap" not in text
    assert f"and 5 more files: {5 * each['packets']} packets" in text.replace(",", "")


def test_info_and_follow_say_what_tls_handshakes_took(samples: list[str]) -> None:
    sample = next(s for s in samples if s.endswith("kafka-tls.pcapng"))
    info = json.loads(run("info", sample, "--format", "json").stdout)
    tls = info["tls"]
    assert (tls["connections"], tls["resumed"], tls["versions"]) == (9, 0, ["TLS 1.3"])
    assert tls["handshake_ns"] > info["tcp"]["rtt_ns"]
    assert "9 connections, TLS 1.3, 112 ms handshake (median)" in run("info", sample).stdout
    assert "TLS 1.3 handshake 143 ms" in run("follow", sample, "57092", "--format", "json").stdout


def test_info_counts_connects_that_were_refused_or_never_answered(tmp_path: Path) -> None:
    packets = []
    for port in (40001, 40002):  # refused
        client = Side("10.0.0.2", port)
        packets += [segment(client, SERVER, 1000, 0, flags=SYN), segment(SERVER, client, 0, 1001, flags=RST | ACK)]
    silent = Side("10.0.0.9", 9092)
    packets += [segment(CLIENT, silent, 1000, 0, flags=SYN, time=T0 + n * 10**9, ip_id=n) for n in range(1, 4)]
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(sorted(packets, key=lambda p: p.time)))
    info = json.loads(run("info", str(path), "--format", "json").stdout)
    assert info["failed_connects"] == {"refused": 2, "without an answer": 1}
    assert "3 connections, 0 B, 2 refused, 1 without an answer" in run("info", str(path)).stdout
    verdicts = json.loads(run("summary", str(path), "--format", "json").stdout)["verdicts"]
    assert {verdict["kind"]: verdict["count"] for verdict in verdicts} == {"connect_refused": 2, "connect_silent": 1}


def test_forensics_ends_with_1_only_where_a_checksum_is_bad(samples: list[str], capture: str) -> None:
    corrupted = next(s for s in samples if "corrupted" in s)
    bad = run("forensics", corrupted, "--format", "json")
    assert bad.returncode == 1
    assert len(bad.stdout.splitlines()) == 1
    good = run("forensics", capture, "--format", "json")
    assert (good.returncode, good.stdout) == (0, "")


@pytest.mark.parametrize("arguments", [["--help"], ["dissect", "CAPTURE", "--format", "parquet", "-o", os.devnull]])
def test_nothing_heavy_is_imported_before_it_is_needed(arguments: list[str], capture: str) -> None:
    given = [capture if a == "CAPTURE" else a for a in arguments]
    code = (
        "import sys\nfrom pipelines.cli import app\nsys.argv[1:] = " + repr(given) + "\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    allowed = {"rich", "pyarrow.compute"} if "--help" in arguments else set()  # it loads every command
    assert set(json.loads(done.stderr.strip().splitlines()[-1].replace("'", '"'))) <= allowed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["dissect"], ["info"], ["dissect", "--format", "parquet", "-o", "/dev/full"]])
def test_a_full_disk_is_reported_in_one_line(arguments: list[str], capture: str) -> None:
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", *arguments, capture]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 4
    assert re.fullmatch(r"brokerscope: cannot write( /dev/full)?: No space left on device\n", done.stderr)


def test_several_tables_go_into_a_folder_each_as_it_is_alone(capture: str, tmp_path: Path) -> None:
    many = tmp_path / "many"
    tables = ("exchanges", "batches", "findings")
    given = [word for table in tables for word in ("--table", table)]
    done = run("dissect", capture, *given, "--format", "json", "-o", str(many))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in many.iterdir()) == sorted(f"{table}.jsonl" for table in tables)
    for table in tables:
        alone = run("dissect", capture, "--table", table, "--format", "json")
        assert (many / f"{table}.jsonl").read_text() == alone.stdout


def test_several_tables_have_no_one_stream_and_no_one_order(capture: str, tmp_path: Path) -> None:
    two = ("dissect", capture, "-t", "exchanges", "-t", "errors")
    for wrong, named in (((), "-o"), (("-o", str(tmp_path / "x"), "--sort", "time"), "one table")):
        done = run(*two, *wrong)
        assert done.returncode == 2
        assert named in done.stderr
