"""Every error is one line, and exit codes mean what the help says."""

import contextlib
import errno
import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
import typer
import zstandard
from typer.testing import CliRunner, Result

from dissectors.errors import BrokerscopeError, InputError, UsageError
from pipelines.cli import COMMANDS, exits
from pipelines.jobs.plan import checked
from pipelines.spark import session
from pipelines.storage import lake_files, outputs
from pipelines.storage.filesystem import StorageError
from tests.commands import SAMPLES, attempt

CAPTURE = str(SAMPLES / "kafka-refused.pcap")
COMMAND = [sys.executable, "-m", "brokerscope"]


def run(*arguments: str | Path) -> Result:
    return attempt(*arguments, columns=80)


# arguments (CAPTURE, MISSING and FILE stand for paths) -> exit code, a word of the one line that says why
TABLE: tuple[tuple[str, int, str], ...] = (
    ("dissect MISSING", exits.UNREADABLE, "no such file"),
    ("dissect FILE", exits.UNREADABLE, "not a pcap"),
    ("dissect FOLDER", exits.UNREADABLE, "no capture"),
    ("info MISSING", exits.UNREADABLE, "no such file"),
    ("summary MISSING", exits.UNREADABLE, "no such file"),
    ("top MISSING", exits.UNREADABLE, "no such file"),
    ("groups MISSING", exits.UNREADABLE, "no such file"),
    ("diff CAPTURE MISSING", exits.UNREADABLE, "no such file"),
    ("annotate MISSING -o OUT", exits.UNREADABLE, "no such file"),
    ("sql MISSING select\t1", exits.UNREADABLE, "no such file"),
    ("show MISSING:1", exits.UNREADABLE, "no such file"),
    ("show CAPTURE:999999", exits.UNREADABLE, "there is no TCP packet 999999"),
    ("show CAPTURE 00-c1", exits.UNREADABLE, "no exchange"),
    ("follow CAPTURE 1.2.3.4", exits.UNREADABLE, "no connection"),
    ("follow CAPTURE 10.7", exits.WRONG_USAGE, "fits"),
    ("report FOLDER", exits.UNREADABLE, "no tables"),
    ("report CAPTURE", exits.UNREADABLE, "a file, not a folder"),
    ("forensics MISSING", exits.UNREADABLE, "no such file"),
    ("analyze MISSING -o OUT --engine local", exits.UNREADABLE, "no such file"),
    ("analyze CAPTURE -o FILE --engine local", exits.UNREADABLE, "is a file"),
    ("analyze CAPTURE -o OUT --engine abacus", exits.WRONG_USAGE, "--engine"),
    ("analyze CAPTURE -o OUT --bucket soon", exits.WRONG_USAGE, "--bucket"),
    ("analyze CAPTURE -o OUT --bucket 0s", exits.WRONG_USAGE, "--bucket"),
    ("analyze CAPTURE -o OUT --by weather", exits.WRONG_USAGE, "--by"),
    ("analyze CAPTURE -o OUT --engine local --master local[2]", exits.WRONG_USAGE, "--master"),
    ("analyze CAPTURE -o OUT --conf spark.a", exits.WRONG_USAGE, "spark.a"),
    ("analyze CAPTURE -o OUT --namespace x.y", exits.WRONG_USAGE, "--namespace"),
    ("analyze CAPTURE -o OUT --table-format delta --engine local", exits.WRONG_USAGE, "--table-format"),
    ("analyze CAPTURE -o OUT --table-format iceberg --engine local", exits.WRONG_USAGE, "--table-format"),
    ("analyze CAPTURE -o OUT --records-only", exits.WRONG_USAGE, "--records-only"),
    ("analyze CAPTURE -o OUT --records-only --update --table-format iceberg", exits.WRONG_USAGE, "--records-only"),
    ("analyze - -o OUT", exits.WRONG_USAGE, "standard input"),
    ("diff - -", exits.WRONG_USAGE, "one capture"),
    ("show -- -:18", exits.WRONG_USAGE, "read twice"),
    ("analyze EMPTY -o OUT", exits.WRONG_USAGE, "name of a capture is empty"),
    ("top EMPTY", exits.WRONG_USAGE, "name of a capture is empty"),
    ("dissect CAPTURE -o EMPTY", exits.WRONG_USAGE, "name of the output is empty"),
    ("forensics CAPTURE --extract EMPTY", exits.WRONG_USAGE, "name of the output is empty"),
    ("report EMPTY", exits.WRONG_USAGE, "name of the folder is empty"),
    ("report FOLDER --since nonsense", exits.WRONG_USAGE, "for --since: 'nonsense'"),
    ("summary CAPTURE --until 25:00", exits.WRONG_USAGE, "for --until: '25:00'"),
    ("dissect CAPTURE --since 25:00", exits.WRONG_USAGE, "25:00"),
    ("dissect CAPTURE --since 2026-13-01", exits.WRONG_USAGE, "2026-13-01"),
    ("dissect CAPTURE --since 2026-11-21T01:00+25:00", exits.WRONG_USAGE, "2026-11-21T01:00+25:00"),
    ("dissect CAPTURE --until 25:00", exits.WRONG_USAGE, "for --until: '25:00'"),
    ("dissect CAPTURE --slower-than 5", exits.WRONG_USAGE, "for --slower-than: '5'"),
    ("dissect CAPTURE -o FILE/rows", exits.UNREADABLE, "cannot write"),
    ("dissect CAPTURE -o CAPTURE", exits.WRONG_USAGE, "input"),
    ("dissect HERE -o CAPTURE", exits.WRONG_USAGE, "input"),
    ("analyze HERE -o HERE", exits.WRONG_USAGE, "input"),
    ("annotate CAPTURE -o CAPTURE", exits.WRONG_USAGE, "input"),
    ("sql CAPTURE select\t1 -o CAPTURE", exits.WRONG_USAGE, "input"),
    ("dissect CAPTURE --keylog FILE -o FILE", exits.WRONG_USAGE, "input"),
    ("dissect CAPTURE --keylog MISSING", exits.UNREADABLE, "missing"),
    ("dissect", exits.WRONG_USAGE, "CAPTURE"),
    ("dissect CAPTURE --tabel errors", exits.WRONG_USAGE, "--tabel"),
    ("dissect CAPTURE --table nothing", exits.WRONG_USAGE, "nothing"),
    ("dissect CAPTURE --table errors --full", exits.WRONG_USAGE, "--full"),
    ("dissect CAPTURE --payloads", exits.WRONG_USAGE, "--payloads"),
    ("dissect CAPTURE --table findings --group g", exits.WRONG_USAGE, "cannot be used with the table findings"),
    ("dissect CAPTURE --slower-than soon", exits.WRONG_USAGE, "soon"),
    ("dissect CAPTURE --since yesterday", exits.WRONG_USAGE, "yesterday"),
    ("dissect CAPTURE --columns api,nothing", exits.WRONG_USAGE, "nothing"),
    ("dissect CAPTURE --sort nothing", exits.WRONG_USAGE, "nothing"),
    ("dissect CAPTURE --head many", exits.WRONG_USAGE, "many"),
    ("dissect CAPTURE --where topics\t=", exits.WRONG_USAGE, "rror"),
    ("dissect CAPTURE --where topics>'orders'", exits.WRONG_USAGE, "rror"),
    ("dissect CAPTURE --where no_such_column=1", exits.WRONG_USAGE, "no_such_column"),
    ("dissect CAPTURE --format xml", exits.WRONG_USAGE, "xml"),
    ("dissect CAPTURE --where total_ns>'soon'", exits.WRONG_USAGE, "soon"),
    ("dissect CAPTURE --decode-as 9092=mqtt", exits.WRONG_USAGE, "--decode-as"),
    *(
        (f"{command} CAPTURE {option}", exits.WRONG_USAGE, option.split()[0])
        for command in ("dissect", "info", "forensics")
        for option in ("--site (", "--limit frame_bytes=many", "--decode-as 0=kafka")
    ),
    ("sql CAPTURE select\tnothing", exits.WRONG_USAGE, "nothing"),
    ("sql CAPTURE select\t*\tfrom\tread_text('/etc/hostname')", exits.WRONG_USAGE, "ermission"),
    ("sql CAPTURE copy\texchanges\tto\t'/tmp/rows'", exits.WRONG_USAGE, "only queries"),
    ("sql CAPTURE set\tenable_external_access=true", exits.WRONG_USAGE, "only queries"),
    ("sql CAPTURE install\thttpfs", exits.WRONG_USAGE, "only queries"),
    ("show CAPTURE", exits.WRONG_USAGE, "FILE:PACKET"),
    ("annotate - -o OUT", exits.WRONG_USAGE, "file"),
    ("nothing", exits.WRONG_USAGE, "nothing"),
)


def test_without_a_command_the_help_is_shown_line_by_line() -> None:
    bare, asked = run(), run("--help")
    assert bare.exit_code == exits.WRONG_USAGE
    assert bare.stderr == asked.stdout
    assert not bare.stdout
    assert len(bare.stderr.splitlines()) > len(COMMANDS)


@pytest.mark.parametrize(("line", "code", "word"), TABLE, ids=[row[0].replace("\t", " ") for row in TABLE])
def test_an_error_is_one_line_and_its_exit_code_says_whose(line: str, code: int, word: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.pcap"
    mine.write_bytes(Path(CAPTURE).read_bytes())
    (tmp_path / "file").write_text("no capture")
    (tmp_path / "folder").mkdir()
    names: dict[str, Path | str] = {"EMPTY": ""}
    names |= {"CAPTURE": mine, "MISSING": tmp_path / "missing", "FILE": tmp_path / "file", "OUT": tmp_path / "out"}
    names |= {"FOLDER": tmp_path / "folder", "HERE": tmp_path}
    given = []
    for part in line.split(" "):
        for name, path in names.items():
            part = part.replace(name, str(path))
        given.append(part.replace("\t", " "))
    done = run(*given)
    assert done.exit_code == code, done.stderr
    assert word in done.stderr
    printed = [row for row in done.stderr.splitlines() if "the local engine" not in row]
    assert len(printed) == 1, done.stderr
    assert done.stdout == ""
    assert mine.read_bytes() == Path(CAPTURE).read_bytes()
    assert (tmp_path / "file").read_text() == "no capture"
    assert not (tmp_path / "out").exists()
    assert [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


@pytest.mark.parametrize(
    "condition",
    ["time > '01:11:17.6'", "total_ns > '5ms'", "topics = 'err-e'", "request_bytes < '1KiB' and status = 'error'"],
)
def test_conditions_may_be_written_as_people_say_them(condition: str) -> None:
    done = run("dissect", CAPTURE, "--where", condition, "-f", "json")
    assert done.exit_code == exits.DONE, done.stderr
    everything = run("dissect", CAPTURE, "-f", "json").stdout.count("\n")
    assert 0 < done.stdout.count("\n") < everything


@pytest.mark.parametrize("name", [b"bad\xff.pcap", "naïve\u202e.pcap".encode(), b"a\nb\x1b[31m.pcap"])
@pytest.mark.parametrize("command", ["dissect", "info", "summary", "forensics"])
def test_a_file_may_have_any_name(tmp_path: Path, command: str, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(Path(CAPTURE).read_bytes())
    done = subprocess.run([*COMMAND, command, path], capture_output=True, timeout=60, check=False)
    assert done.returncode == exits.DONE, done.stderr
    text = (done.stdout + done.stderr).decode()
    assert all(c == "\n" or c.isprintable() for c in text)


def test_one_capture_that_can_be_read_is_enough() -> None:
    bad = [("unreadable_file", "b: is not a capture"), ("unreadable_file", "a: is not a capture")]
    cut_short = ("truncated_file", "c: ends inside a packet")
    assert checked([*bad, cut_short], 3) == [cut_short, *reversed(bad)]
    assert checked([], 0) == []
    with pytest.raises(InputError, match="a: is not a capture; b: is not a capture"):
        checked(bad, 2)


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize(
    "line",
    [
        "dissect STORE -o OUT", "summary STORE", "info STORE", "top STORE", "show ID STORE", "follow STORE CONNECTION",
        "groups STORE", "diff STORE CAPTURE", "sql STORE select\t1", "forensics STORE",
        "analyze STORE -o OUT --engine local -q", "annotate STORE/empty.pcap -o OUT",
    ],
)  # fmt: skip
def test_a_torn_and_an_empty_capture_in_a_folder_are_named(line: str, scheme: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "good.pcap").write_bytes(Path(CAPTURE).read_bytes())
    (store / "empty.pcap").touch()
    (store / "torn.pcap.gz").write_bytes(Path(CAPTURE).read_bytes()[9:4000])
    (store / "README.txt").write_text("captures of today")
    (row,) = map(json.loads, run("dissect", CAPTURE, "-f", "json", "--head", "1").stdout.splitlines())
    names = {"STORE": f"{scheme}{store}", "CAPTURE": CAPTURE, "OUT": str(tmp_path / "out"), "ID": row["exchange_id"]}
    names["CONNECTION"] = row["connection"]
    given = [re.sub("[A-Z]{2,}", lambda name: names[name[0]], part).replace("\t", " ") for part in line.split(" ")]
    done = run(*given)
    assert done.exit_code == exits.UNREADABLE, done.stderr
    assert "empty.pcap: is empty" in done.stderr
    assert "torn.pcap.gz: is not a pcap" in done.stderr or line.startswith("annotate")  # which takes one file
    assert "README" not in done.stderr


BAD: dict[str, bytes | int] = {
    "empty.pcap": b"", "short.pcap": b"\xd4\xc3\xb2\xa1", "text.pcap": b"no capture at all", "torn.pcap": 4000,
    "torn.pcap.gz": 300, "late.pcap.zst": 300, "foreign.pcapng": b"\x0a\x0d\x0d\x0a",
}  # fmt: skip
"""Captures that are not read whole: their content, or so many bytes of a good one, packed as their names say."""


@pytest.mark.parametrize("line", ["summary STORE -q", "dissect STORE -q", "analyze STORE -o OUT -q --engine local"])
def test_each_capture_that_is_not_read_whole_is_named_also_where_no_notes_are_wanted(line: str, tmp_path: Path) -> None:
    good = Path(CAPTURE).read_bytes()
    packed = {"gz": gzip.compress(good), "zst": zstandard.compress(good)}
    store = tmp_path / "store"
    store.mkdir()
    (store / "good.pcap").write_bytes(good)
    for name, content in BAD.items():
        whole = packed.get(name.rpartition(".")[2], good)
        data = content if isinstance(content, bytes) else whole[:content]
        (store / name).write_bytes(data)
    names = {"STORE": str(store), "OUT": str(tmp_path / "out")}
    done = run(*(re.sub("[A-Z]{2,}", lambda name: names[name[0]], part) for part in line.split(" ")))
    assert done.exit_code == exits.UNREADABLE, done.stderr
    assert {name for name in BAD if f"/{name}: " in done.stderr} == set(BAD)
    assert len(done.stderr.splitlines()) == len(BAD)
    for number in range(20):
        (store / f"{number:02}.pcap").touch()
    done = run(*(re.sub("[A-Z]{2,}", lambda name: names[name[0]], part) for part in line.split(" ")))
    assert done.stderr.splitlines()[10:] == [
        "brokerscope: and 17 more captures not read whole: the table findings has all"
    ]


def test_an_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.pcap").write_bytes(Path(CAPTURE).read_bytes())
    closed = tmp_path / "closed"
    closed.mkdir()
    list_folder: Callable[[str], object] = os.scandir

    def refuse(path: str = ".") -> object:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", refuse)
    done = run("dissect", tmp_path, "-f", "json")
    assert done.exit_code == exits.UNREADABLE
    assert str(closed) in done.stderr
    assert done.stdout


def test_a_lake_that_another_run_updates_is_left_as_it_is(tmp_path: Path) -> None:
    with lake_files.locked(str(tmp_path / "lake")):
        done = run("analyze", CAPTURE, "-o", tmp_path / "lake", "--update", "--quiet")
    assert (done.exit_code, done.stdout) == (exits.NOTHING_MADE, "")
    assert "another run is updating it" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("splitBytes=0", "splitBytes: '0' is less than 1"),
        ("splitBytes=-5", "'-5' is no size"),
        ("splitBytes=16q", "'16q' is no size"),
        ("splitBytes=", "'' is no size"),
        ("tableRows=-1", "'-1' is less than 0"),
        ("tableRows=many", "'many' is no whole number"),
        ("splitbites=1m", "splitbites: there is no such option; did you mean spark.brokerscope.splitBytes?"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--update"], ["--engine", "spark"]], ids=" ".join)
def test_a_wrong_option_of_spark_ends_the_command_before_anything_begins(
    tmp_path: Path, setting: str, word: str, more: list[str]
) -> None:
    done = run("analyze", CAPTURE, "-o", tmp_path / "out", "--conf", f"spark.brokerscope.{setting}", *more)
    assert (done.exit_code, done.stdout) == (exits.WRONG_USAGE, "")
    assert done.stderr.startswith("brokerscope: spark.brokerscope.split" if "split" in setting else "brokerscope: ")
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_defect_is_one_line_and_never_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    from dissectors.run import Run

    def fail(self: Run) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(Run, "records", fail)
    monkeypatch.delenv(exits.DEBUG, raising=False)
    done = run("dissect", CAPTURE)
    assert done.exit_code == exits.DEFECT
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["dissect", "info", "summary", "forensics"])
def test_a_closed_stdout_is_silent(command: str) -> None:
    line = f"{' '.join(COMMAND)} {command} {CAPTURE} -q >&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (exits.DONE, "")


@pytest.mark.parametrize("command", ["summary", "info", "top", "groups", "sql"])
def test_an_answer_goes_to_stdout_while_a_terminal_shows_how_far_reading_is(tmp_path: Path, command: str) -> None:
    at_once = "from pipelines.cli import main, progress; progress._PATIENCE = 0; progress._STEP = 0.01; main()"
    query = ["select count(*) from exchanges"] if command == "sql" else []
    line = [sys.executable, "-c", at_once, command, CAPTURE, *query]
    piped = subprocess.run(line, capture_output=True, timeout=60, check=True).stdout
    mine, its = pty.openpty()
    with (tmp_path / "answer").open("wb") as file:
        subprocess.run(line, stdout=file, stderr=its, timeout=60, check=True)
    os.close(its)
    with contextlib.suppress(OSError):  # Linux: where all has been read
        while os.read(mine, 1 << 16):
            pass
    os.close(mine)
    assert (tmp_path / "answer").read_bytes() == piped


@pytest.mark.parametrize("command", ["summary", "dissect"])
def test_streams_that_were_closed_from_the_start_are_no_defect(command: str) -> None:
    for arguments, code in ((f"{CAPTURE} >&- 2>&-", exits.DONE), ("- <&-", exits.UNREADABLE)):
        line = f"{' '.join(COMMAND)} {command} {arguments}"
        assert subprocess.run(["bash", "-c", line], capture_output=True, timeout=60, check=False).returncode == code


@pytest.mark.parametrize(
    ("text", "code"), [(b"", exits.DONE), (b"# nothing yet\n", exits.DONE), (b"root:x:0:0\n", exits.UNREADABLE)]
)
def test_a_key_log_that_is_something_else_is_refused_and_an_empty_one_is_not(
    tmp_path: Path, text: bytes, code: int
) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(text)
    done = run("summary", CAPTURE, "--keylog", str(keys))
    assert done.exit_code == code
    assert (f"{keys}: holds no TLS secrets" in done.stderr) == (code != exits.DONE)


def test_queries_cannot_come_from_where_the_capture_comes_from() -> None:
    line = f"{' '.join(COMMAND)} sql - < {CAPTURE}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (exits.WRONG_USAGE, 1)


def test_what_analyze_wrote_is_no_output_of_another_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("analyze", CAPTURE, "-o", str(out), "--engine", "local", "--quiet").exit_code == exits.DONE
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name in ("analysis.json", "records/x.parquet", "tables/latency.csv", "forensics.jsonl"):
        for command in (("sql", str(out), "select 1 as one", "-f", "csv"), ("report", str(out))):
            done = run(*command, "-o", str(out / name))
            assert (done.exit_code, done.stdout) == (exits.WRONG_USAGE, ""), name
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert run("sql", str(out), "select 1 as one", "-o", str(out / "one.csv")).exit_code == exits.DONE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "command", ["dissect", "info", "summary", "top", "forensics", "groups", "sql", "dissect -f parquet -o /dev/full"]
)
def test_a_full_disk_is_one_line(command: str) -> None:
    query = "'from exchanges'" if command == "sql" else ""
    line = f"{' '.join(COMMAND)} {command} {CAPTURE} {query} > /dev/full"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == exits.NOTHING_MADE
    where = " /dev/full" if "-o" in command else ""
    assert done.stderr == f"brokerscope: cannot write{where}: No space left on device\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, exits.INTERRUPTED), (signal.SIGTERM, exits.TERMINATED), (signal.SIGKILL, -9)]
)
def test_a_stopped_run_leaves_what_stood_there(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """A run that waits for more of a capture from a pipe is stopped in the middle of its output."""
    out = tmp_path / "rows.json"
    out.write_text("keep")
    command = [*COMMAND, "dissect", "-", "-f", "json", "-o", str(out)]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 30
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    assert len(list(tmp_path.iterdir())) == 2
    running.send_signal(number)
    _, printed = running.communicate(timeout=30)
    assert running.returncode == code, printed
    words = {signal.SIGINT: b"brokerscope: interrupted", signal.SIGTERM: b"brokerscope: terminated"}
    assert printed.startswith(words.get(number, b""))
    assert printed.count(b"\n") == (number != signal.SIGKILL)
    assert out.read_text() == "keep"
    if number != signal.SIGKILL:
        assert [entry.name for entry in tmp_path.iterdir()] == ["rows.json"]
    with outputs.file(out) as stream:
        stream.write(b"next")
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.json"]


def test_a_second_interrupt_ends_what_did_not_listen_to_the_first() -> None:
    deaf = """if True:
        import signal, time
        from pipelines.cli import exits
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with exits.termination():
            while True:
                try:
                    print("listening", flush=True)
                    time.sleep(60)
                except KeyboardInterrupt:
                    pass
    """
    running = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert running.stdout is not None
    for _ in range(2):
        assert running.stdout.readline() == b"listening\n"
        running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == -signal.SIGINT


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, exits.INTERRUPTED), (signal.SIGTERM, exits.TERMINATED)])
def test_a_library_that_makes_an_error_of_a_signal_does_not_make_it_ours(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "give_up", lambda: None)  # other tests of this process use its Java
    stopped = typer.Typer(cls=exits.CommandGroup, callback=lambda: None)

    @stopped.command("query")
    def _query() -> None:
        try:
            signal.raise_signal(number)
        except BaseException:  # as DuckDB's code in C++ does
            raise RuntimeError("Query interrupted") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a process of its own: Spark has another
    try:
        with exits.termination():
            done = CliRunner().invoke(stopped, ["query"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (code, "", 1)


def test_a_query_that_needs_more_memory_than_it_may_have_is_no_defect() -> None:
    starved = typer.Typer(cls=exits.CommandGroup, callback=lambda: None)

    @starved.command("query")
    def _query() -> None:
        with duckdb.connect(config={"memory_limit": "10MB", "temp_directory": ""}) as connection:
            connection.sql("select list(x) from (select repeat('x', 1000) || range as x from range(100000))").fetchall()

    done = CliRunner().invoke(starved, ["query"])
    assert done.exit_code == exits.NOTHING_MADE
    assert done.stderr.startswith("brokerscope: out of memory: ")
    assert len(done.stderr.splitlines()) == 1


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


ENDS: tuple[tuple[BaseException | None, int], ...] = (
    (None, exits.DONE),
    (BrokenPipeError(), exits.DONE),
    (typer.Exit(exits.BAD_CHECKSUMS), exits.BAD_CHECKSUMS),
    (typer.BadParameter("nonsense"), exits.WRONG_USAGE),
    (UsageError("the name of a capture is empty"), exits.WRONG_USAGE),
    (outputs.OutputIsInputError("out is the input"), exits.WRONG_USAGE),
    (InputError("a.pcap: is empty"), exits.UNREADABLE),
    (outputs.OutputError("cannot write out: Permission denied"), exits.UNREADABLE),
    (StorageError("s3://box/out: cannot be written"), exits.UNREADABLE),
    (OSError(errno.EROFS, "Read-only file system"), exits.UNREADABLE),
    (BrokerscopeError("Spark failed: Job aborted"), exits.NOTHING_MADE),
    (BrokerscopeError("out: another run is updating it"), exits.NOTHING_MADE),
    (full(), exits.NOTHING_MADE),
    (caused(outputs.OutputError("cannot write out"), full()), exits.NOTHING_MADE),
    (caused(StorageError("out: cannot be written"), caused(outputs.OutputError("part"), full())), exits.NOTHING_MADE),
    (MemoryError(), exits.NOTHING_MADE),
    (duckdb.OutOfMemoryException("could not allocate"), exits.NOTHING_MADE),
    (ZeroDivisionError("by zero"), exits.DEFECT),
    (KeyboardInterrupt(), exits.INTERRUPTED),
    (SystemExit(exits.TERMINATED), exits.TERMINATED),
)


@pytest.mark.parametrize(("end", "code"), ENDS, ids=[f"{end!r}" for end, _ in ENDS])
def test_the_exit_code_says_how_a_command_ended(
    end: BaseException | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = typer.Typer(cls=exits.CommandGroup, callback=lambda: None)

    @ended.command("command")
    def _command() -> None:
        if end is not None:
            raise end

    monkeypatch.delenv(exits.DEBUG, raising=False)
    assert CliRunner().invoke(ended, ["command"]).exit_code == code


def test_every_exit_code_has_an_end_that_gives_it_and_a_line_in_the_readme() -> None:
    assert {code for _, code in ENDS} == set(exits.MEANINGS)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for code, meaning in exits.MEANINGS.items():
        assert re.search(rf"^\| (?:\d+, )?{code}(?:, \d+)? \|.*{re.escape(meaning)}", readme, re.MULTILINE), code


def test_the_help_names_every_exit_code_and_every_command_has_an_example() -> None:
    helped = " ".join(run("--help").stdout.split())
    for code, meaning in exits.MEANINGS.items():
        assert f"{code} {meaning}" in helped
    for name in COMMANDS:
        assert f"brokerscope {name} " in run(name, "--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("dissect", "CAPTURE", "--where", "api = 'a\udcff'"),
        ("summary", "CAPTURE", "--topic", "a\udcff"),
        ("top", "CAPTURE", "--client", "a\udcff"),
        ("follow", "CAPTURE", ":\udcff"),
        ("extract", "CAPTURE", "--connection", "a\udcff", "-o", "out.pcapng"),
        ("sql", "CAPTURE", "select 'a\udcff'"),
        ("sql", "CAPTURE", "select count(*) from t_latency", "--api", "a\udcff"),
    ],
    ids=str,
)
def test_text_that_is_no_utf_8_is_wrong_usage(arguments: tuple[str, ...]) -> None:
    done = run(*(CAPTURE if argument == "CAPTURE" else argument for argument in arguments))
    assert done.exit_code == exits.WRONG_USAGE
    assert "UTF-8 text" in done.stderr


@pytest.mark.parametrize("command", ["dissect", "top", "transactions", "groups"])
def test_more_rows_than_a_machine_counts_are_all_of_them(command: str) -> None:
    assert run(command, CAPTURE, "--head", str(10**20)).stdout == run(command, CAPTURE).stdout


def test_an_interval_longer_than_a_clock_counts_is_wrong_usage() -> None:
    assert run("top", CAPTURE, "--every", f"{10**14}d").exit_code == exits.WRONG_USAGE
