"""The commands that answer: what they say is what the records say."""

import base64
import inspect
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import scapy.utils
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.dataset import Dataset
from scapy.layers.inet import IP, TCP
from scapy.utils import rdpcap, wrpcap

import dissectors
from dissectors.records import TABLES, schema
from pipelines.answers import aggregates, connection, diff, groups, records, summary, top
from pipelines.answers.aggregates import COLUMNS
from pipelines.answers.records import query
from pipelines.cli import summary as cli
from pipelines.cli.dissect import sorted_by
from pipelines.cli.reading import Reading, saw_the_same
from pipelines.cli.sql import sql as sql_command
from pipelines.formats.plain import width
from pipelines.report.requests import KINDS, OF_UNHEARD
from pipelines.sql import conditions, database
from pipelines.tables.registry import TABLES as AGGREGATES
from pipelines.tables.table import RECORDS
from tests import wires
from tests.captures import CAPTURES, needs_captures
from tests.commands import SAMPLES, attempt, objects, run
from tests.iggy.test_snaplen import cut
from tests.pipelines import pages, synthetic
from tests.pulsar import wire as pulsar

MADE = synthetic.make(exchanges=400)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
REFUSED = str(SAMPLES / "kafka-refused.pcap")
ONE_OF_EACH = [REFUSED, *(str(SAMPLES / f"{name}.pcap") for name in ("pulsar-subscriptions", "iggy-messages"))]


@pytest.fixture(scope="module")
def exchanges() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = dissectors.dissect(REFUSED, tables="exchanges")["exchanges"].to_pylist()
    return rows


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `analyze` writes of that capture. Tests read it; who changes something takes a copy."""
    out = tmp_path_factory.mktemp("kept") / "out"
    run("analyze", REFUSED, "-o", out, "--engine", "local", "-q")
    return out


# --- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["summary", "top", "groups", "info", "dissect", "forensics"])
def test_text_fits_80_columns_and_holds_nothing_but_text(samples: list[str], command: str) -> None:
    for path in samples:
        arguments = [command, path, *(["--bytes"] if command == "forensics" else [])]
        done = attempt(*arguments, columns=80)
        assert done.exit_code in (0, 1)
        lines = done.stdout.splitlines()
        assert all(line.isprintable() for line in lines)
        assert max(map(width, lines)) <= 80


def test_captures_and_what_analyze_wrote_of_them_answer_alike(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("analyze", *ONE_OF_EACH, "-o", out, "--engine", "local", "-q")
    for command in (["top", "--by", "topic"], ["top", "--by", "server", "--sort", "p99"], ["summary"]):
        assert objects(command[0], out, *command[1:]) == objects(command[0], *ONE_OF_EACH, *command[1:])
    assert run("sql", out, "select count(*) as n from t_latency").splitlines()[-1].strip() != "0"
    same = objects("diff", out, out)[0]
    assert {row["verdict"] for row in same["apis"]} <= {"same", "too few to say"}


def test_commands_count_what_two_capture_points_saw_once(tmp_path: Path) -> None:
    for point in ("brokers", "clients"):
        (tmp_path / point).mkdir()
        for path in ONE_OF_EACH:
            shutil.copy(path, tmp_path / point)
    one, both = tmp_path / "brokers", [tmp_path / point for point in ("brokers", "clients")]
    run("analyze", *both, "-o", tmp_path / "out", "--engine", "local", "-q")
    for command in (["summary"], ["top", "--by", "group"], ["top", "--by", "topic"], ["groups"]):
        wanted = objects(command[0], one, *command[1:])
        assert objects(command[0], *both, *command[1:]) == wanted
        if command != ["groups"]:
            assert objects(command[0], tmp_path / "out", *command[1:]) == wanted
    said = attempt("top", *both).stderr
    assert f"{tmp_path / 'brokers'}, {tmp_path / 'clients'} saw the same" in " ".join(said.split())


def test_of_many_capture_points_that_saw_the_same_a_few_are_named() -> None:
    points = tuple(f"p{n}" for n in range(20_000))
    (said,) = saw_the_same({points: 5})
    assert said.startswith("20,000 capture points (p0, p1, p2 and 19,997 more) saw the same 5 connections: each counts")
    *named, rest = saw_the_same({(f"broker{n}", "client"): 1 for n in range(9)})
    assert [sentence.partition(",")[0] for sentence in named] == ["broker0", "broker1", "broker2"]
    assert rest == "6 more sets of capture points saw the same connections: each counts once"


def test_what_analyze_wrote_answers_like_its_captures_while_they_are_there(tmp_path: Path) -> None:
    capture, out = tmp_path / "captures" / "a.pcap", tmp_path / "out"
    capture.parent.mkdir()
    capture.write_bytes(Path(REFUSED).read_bytes())
    run("analyze", capture, "-o", out, "--engine", "local", "-q")
    row = objects("sql", out, "select connection, exchange_id from exchanges limit 1")[0]
    assert objects("follow", out, row["connection"]) == objects("follow", capture, row["connection"])
    assert objects("dissect", out) == objects("dissect", capture)
    commands = (["groups"], ["info"], ["dissect", "--full"], ["forensics"], ["show", row["exchange_id"]])
    for command in commands:
        assert run(*command, out, "-q") == run(*command, capture, "-q")
    capture.rename(tmp_path / "gone.pcap")
    for command in commands:
        done = attempt(*command, out)
        assert (done.exit_code, done.stdout) == (3, "")
        assert f"{out}: this command reads the captures, and they no longer exist: {capture}" in done.stderr


def test_who_needs_captures_says_so_of_what_analyze_wrote(kept: Path, tmp_path: Path) -> None:
    out = kept
    analyses = (["analyze", "-o", str(tmp_path / engine), "--engine", engine] for engine in ("local", "spark"))
    for arguments in (
        ["show", f"{out}:3"],
        ["summary", REFUSED, str(out)],
        *([*analysis, str(out)] for analysis in analyses),
    ):
        done = attempt(*arguments)
        assert (done.exit_code, done.stdout) == (3, "")
        assert f"{out}: a folder that `analyze` wrote: give it alone" in done.stderr
    done = attempt("show", f"{Path(REFUSED).parent}:3")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "a folder: name the file in it that holds the packet" in done.stderr


def test_records_in_temporary_files_answer_like_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [["top", "--by", "topic"], ["summary"], ["groups"]]
    in_memory = [objects(command[0], *ONE_OF_EACH, *command[1:]) for command in commands]
    capture = SAMPLES / "kafka-refused.pcap"
    run("annotate", capture, "-o", tmp_path / "one.pcapng")
    monkeypatch.setattr(records, "IN_MEMORY", 10_000)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert [objects(command[0], *ONE_OF_EACH, *command[1:]) for command in commands] == in_memory
    run("annotate", capture, "-o", tmp_path / "two.pcapng")
    assert (tmp_path / "one.pcapng").read_bytes() == (tmp_path / "two.pcapng").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.pcapng", "two.pcapng"], "nothing stays behind"


def test_answers_need_little_memory_however_many_records_there_are(kept: Path, tmp_path: Path) -> None:
    out = shutil.copytree(kept, tmp_path / "out", symlinks=True)
    (path,) = (out / "records" / "exchanges").rglob("*.parquet")
    table = pq.read_table(path)

    def peak() -> tuple[int, str]:
        """(KiB, the answer) of a process that asks."""
        asks = ["sql", str(out), "select count(*) as n, max(total_ns) as longest from exchanges", "-f", "json"]
        program = (
            "import resource, subprocess, sys\n"
            f"command = [sys.executable, '-m', 'brokerscope', *{asks!r}]\n"
            "done = subprocess.run(command, capture_output=True, check=True)\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.stdout.decode())"
        )
        size, answer = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split(" ", 1)
        return int(size), answer

    before, _ = peak()
    many = pa.concat_tables([table] * (600_000 // table.num_rows))
    pq.write_table(many, path, row_group_size=20_000)
    after, answer = peak()
    assert json.loads(answer)["n"] == many.num_rows
    assert (after - before) * 1024 < many.nbytes / 3


def test_sql_finds_messages_by_key() -> None:
    capture = SAMPLES / "kafka-codecs.pcap"
    ask = ["sql", capture, "select topic, \"offset\" from messages where key = 'key-4'"]
    found = objects(*ask, "--payloads")
    key = base64.b64encode(b"key-4").decode()
    want = [row for row in objects("dissect", capture, "-t", "messages", "--payloads") if row["key"] == key]
    assert want
    assert sorted((row["topic"], row["offset"]) for row in found) == sorted((r["topic"], r["offset"]) for r in want)
    run(*ask, code=2)  # without the option messages have no key


def test_a_folder_of_any_name_answers(kept: Path, tmp_path: Path) -> None:
    out = shutil.copytree(kept, tmp_path / "o'clock [1] *", symlinks=True)
    for command in ("summary", "top"):
        assert "kafka" in run(command, out)


@pytest.mark.parametrize("where", ["inside", "end"])
def test_records_that_are_damaged_end_with_3_and_one_message(kept: Path, tmp_path: Path, where: str) -> None:
    out = shutil.copytree(kept, tmp_path / "out", symlinks=True)
    for path in (out / "records" / "exchanges").rglob("*.parquet"):
        data = path.read_bytes()
        path.write_bytes(data[:4] + bytes(200) + data[204:] if where == "inside" else data[:-4])
    for command in (
        ["top", str(out), "--by", "api"],
        ["summary", str(out)],
        ["sql", str(out), "select * from exchanges"],
    ):
        (line,) = run(*command, code=3).splitlines()
        assert "cannot be read" in line


def test_a_pattern_that_means_nothing_is_wrong_usage_also_of_stored_records(kept: Path) -> None:
    assert "missing ]" in run("sql", kept, "select * from exchanges where regexp_matches(api, '[')", code=2)


# --- top -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", top.KEYS)
@pytest.mark.parametrize("sort", top.SORTS)
def test_top_counts_every_exchange_and_puts_the_largest_first(by: str, sort: str) -> None:
    rows = top.top(MADE, by, sort)
    values = [row[top.SORTS[sort]] or 0 for row in rows]
    assert values == sorted(values, reverse=True)
    have = MADE["exchanges"].to_pylist()
    if by == "topic":
        assert sum(row["count"] for row in rows) == sum(len(row["topics"] or ()) for row in have)
    elif by not in ("group", "partition"):
        assert sum(row["count"] for row in rows) == len(have)


def test_top_says_where_the_time_of_slow_requests_went() -> None:
    lost = SAMPLES / "kafka-loss.pcap"
    (row,) = objects("top", lost, "--by", "server", "--causes")
    assert (row["count"], row["largest"]) == (6, "broker")
    assert sum(share for name, share in row.items() if name.endswith("_share") and share) == pytest.approx(1)
    text = run("top", lost, "--by", "server", "--causes").splitlines()
    assert text[1].split() == ["broker", "slow", "max", "time", "broker", "queued"]  # nothing was lost
    assert "No request took 20 ms" in run("top", lost, "--causes", "--api", "Fetch")
    assert "time or count" in run("top", lost, "--causes", "--sort", "bytes", code=2)


def test_top_leaves_long_polls_out_of_times() -> None:
    exchanges = MADE["exchanges"]
    (row,) = [row for row in top.top(MADE, "api", "time") if row["key"] == "Fetch"]
    fetches = exchanges.filter(pc.equal(exchanges["api"], "Fetch"))
    quick = fetches.filter(pc.invert(pc.fill_null(fetches["long_poll"], False)))
    assert quick.num_rows < fetches.num_rows
    assert row["time_ns"] == pc.sum(quick["total_ns"]).as_py()


def test_top_leaves_expected_errors_out_of_errors() -> None:
    exchanges, errors = MADE["exchanges"], MADE["errors"]
    ids = pa.array([f"x{n}" for n in range(len(exchanges))])
    at = exchanges.schema.get_field_index("exchange_id")
    tables = MADE | {"exchanges": exchanges.set_column(at, "exchange_id", ids), "errors": errors.slice(0, 0)}
    failed = sum(row["errors"] for row in top.top(tables, "api", "time"))
    first = next(i for i, row in enumerate(exchanges.to_pylist()) if row["status"] == "error")
    excused = errors.slice(0, 1).to_pylist()[0] | {"exchange_id": f"x{first}", "expected": True, "site": "site"}
    tables["errors"] = pa.Table.from_pylist([excused], errors.schema)
    assert sum(row["errors"] for row in top.top(tables, "api", "time")) == failed - 1


# --- summary ---------------------------------------------------------------------------------------------------------


def test_summary_says_what_is_wrong(samples: list[str]) -> None:
    text = " ".join(run("summary", SAMPLES / "pulsar-corrupted.pcap").split())
    assert "critical: 1 of 13 checksums is wrong, in topic public/default/e2-e2." in text
    assert "ChecksumError" in text
    of_one_day = [path for path in samples if "kafka-schemas" not in path]  # another day takes lines of its own
    assert len(run("summary", *of_one_day, columns=80).splitlines()) <= 60


def test_summary_counts_what_the_records_count() -> None:
    made = summary.summary(MADE, rows=3)
    assert sum(row["exchanges"] for row in made.protocols) == MADE["exchanges"].num_rows
    slowest = pc.max(
        MADE["exchanges"].filter(pc.invert(pc.fill_null(MADE["exchanges"]["long_poll"], False)))["total_ns"]
    )
    assert made.slowest[0]["total_ns"] == slowest.as_py()
    assert len(made.slowest) == 3
    unexpected = sum(row["expected"] is not True for row in MADE["errors"].to_pylist())
    assert sum(row["count"] for row in summary.summary(MADE, rows=1000).errors) == unexpected > 0


def test_a_span_over_midnight_names_both_days_and_a_part_without_packets_is_no_statement_on_the_captures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = pa.scalar(datetime(2026, 11, 22, 0, 10, tzinfo=UTC), pa.timestamp("us", "UTC"))
    early = pa.scalar(datetime(2026, 11, 21, 23, 50, tzinfo=UTC), pa.timestamp("us", "UTC"))
    made = MADE["connections"]
    for name, time in (("start_time", early), ("end_time", late)):
        at = made.schema.get_field_index(name)
        made = made.set_column(at, made.schema.field(at), pa.chunked_array([pa.repeat(time, made.num_rows)]))
    cli.show(summary.summary({**MADE, "connections": made}), limit=5)
    assert capsys.readouterr().out.startswith("2026-11-21 23:50:00 to 2026-11-22 00:10:00 UTC, 20 min 00 s\n")
    assert "No Kafka, Pulsar or Iggy then." in run("summary", REFUSED, "--since", "2099-01-01")


def test_errors_without_an_api_name_no_none_and_kinds_that_are_not_shown_are_counted() -> None:
    errors = MADE["errors"]
    at = errors.schema.get_field_index("api")
    nameless = errors.set_column(at, errors.schema.field(at), pa.nulls(errors.num_rows, pa.string()))
    made = summary.summary({**MADE, "errors": nameless}, rows=1)
    assert made.verdicts
    assert not any("None" in verdict["sentence"] for verdict in made.verdicts)
    assert made.error_kinds == len({row["name"] for row in errors.to_pylist() if not row["expected"]})


def test_groups_are_chosen_by_several_names_and_wild_ones() -> None:
    path = SAMPLES / "pulsar-subscriptions.pcap"
    every = [row["group"] for row in objects("groups", path)]
    assert [row["group"] for row in objects("groups", path, "--group", f"{every[0][:-1]}?, nothing")][:1] == every[:1]
    assert [row["group"] for row in objects("groups", path, "--group", "*")] == every
    done = attempt("groups", path, "--group", "nothing")
    assert done.stdout == "No consumer group or subscription in what was asked for.\n"
    assert "no group 'nothing' in these captures" in done.stderr


def test_the_query_of_the_help_names_columns_that_are_there() -> None:
    named = re.search(r"from t_(\w+) order by (\w+)", inspect.getdoc(sql_command) or "")
    assert named
    assert named[2] in [column.name for column in AGGREGATES[named[1]].columns]


def test_answers_that_were_cut_short_are_not_called_right(tmp_path: Path) -> None:
    short = cut(Path("samples/kafka-codecs.pcap"), tmp_path / "cut.pcap", 96)
    made = objects("summary", short)[0]["judged"]
    assert made["unread"] > 0
    rows = objects("dissect", short, "-t", "exchanges")
    calls = [row for row in rows if row["kind"] == "call" and row["total_ns"] is not None]
    assert made["answered"] + made["unread"] == len(calls)
    assert made["answered"] == sum(row["status"] != "unknown" for row in calls)
    assert f"Not judged: {made['unread']} answers whose result could not be read." in run("summary", short)
    assert "Not judged" not in run("summary", "samples/kafka-codecs.pcap")


def test_summary_of_nothing_is_no_error() -> None:
    empty = {name: table.slice(0, 0) for name, table in MADE.items()}
    made = summary.summary(empty)
    assert (made.verdicts, made.blind, made.slowest, made.errors, made.protocols) == ([], [], [], [], [])


# --- show and follow -------------------------------------------------------------------------------------------------


def test_show_finds_an_exchange_by_either_packet_and_by_its_id(exchanges: list[dict[str, Any]]) -> None:
    row = next(row for row in exchanges if row["api"] == "CreateTopics" and row["status"] == "error")
    texts = [run("show", f"{REFUSED}:{row[side]}") for side in ("request_packet", "response_packet")]
    texts.append(run("show", row["exchange_id"], REFUSED))
    assert texts[0] == texts[1] == texts[2]
    assert row["api"] in texts[0]
    assert row["error_name"] in texts[0]
    assert "errorCode:" in texts[0]
    assert f"frame.number in {{{row['request_packet']}, {row['response_packet']}}}" in texts[0]
    assert row["client_ip"] in texts[0]


def test_show_says_that_bytes_of_an_exchange_were_sent_again() -> None:
    path = SAMPLES / "kafka-loss.pcap"
    rows = dissectors.dissect([path], ["exchanges"])["exchanges"].to_pylist()
    again = {row["retransmitted"]: row for row in rows}
    for marked, row in again.items():
        text = " ".join(run("show", row["exchange_id"], path).split())
        assert ("bytes of it were retransmitted" in text) is marked


def test_show_of_a_packet_without_a_frame_says_so() -> None:
    told = " ".join(run("show", f"{REFUSED}:1").split())
    assert "SYN: TCP's own, it carries no bytes of a request or response" in told
    assert "brokerscope follow" in told


def test_show_gives_bytes_only_where_they_are_asked_for_and_were_not_decoded(
    exchanges: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{REFUSED}:{next(row['request_packet'] for row in exchanges if row['api'] == 'CreateTopics')}"
    assert "of payload" not in run("show", place, "--bytes")
    monkeypatch.setattr(connection, "decoded", lambda *_, **__: connection.DecodedExchange(None, None, ()))
    assert "of payload" not in run("show", place)
    assert "credentials" in run("show", place, "--bytes")  # a topic's configuration may hold some
    last = f"{REFUSED}:{exchanges[-1]['request_packet']}"
    assert "  0000  00 00 " in run("show", last, "--bytes")


def test_a_file_whose_name_is_no_utf_8_is_shown_and_analysed_as_any_other(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.pcap")
    shutil.copy(REFUSED, path)
    assert "ApiVersions" in run("show", f"{path}:17")
    run("analyze", path, "-o", tmp_path / "out", "--engine", "local", "--quiet")
    (named,) = json.loads((tmp_path / "out/analysis.json").read_text())["files"]
    assert named == f"{tmp_path}/caf\\udce9.pcap"
    assert objects("sql", tmp_path / "out", "select distinct request_file as f from exchanges") == [{"f": named}]


@needs_captures
@pytest.mark.parametrize("name", ["kpy-sasl-plain", "kpy-sasl-scram256", "kpy-sasl-badpw"])
def test_show_never_gives_credentials(name: str) -> None:
    path = Path(f"{CAPTURES}/kafka/{name}.pcap")
    secrets = json.loads(path.with_suffix(".json").read_text())["secrets"]
    assert secrets
    rows = dissectors.dissect(path, tables="exchanges")["exchanges"].to_pylist()
    sealed = [row for row in rows if row["api"].startswith("Sasl")]
    for number in {row[side] for row in sealed[:6] for side in ("request_packet", "response_packet")} - {None}:
        text = run("show", f"{path}:{number}", "--bytes")
        assert not [secret for secret in secrets if secret in text or secret.encode().hex(" ") in text]


@pytest.mark.parametrize("wrong", ["kafka", "iggy"])
def test_show_gives_no_bytes_of_a_stream_that_it_cannot_read(wrong: str) -> None:
    """Nothing says then whether credentials lie in them: a CONNECT holds a token."""
    text = run("show", f"{SAMPLES / 'pulsar-corrupted.pcap'}:4", "--bytes", "--decode-as", f"6650={wrong}")
    assert "credentials may lie in it" in text
    assert "  0000  " not in text


def test_show_gives_no_bytes_of_a_packet_into_which_credentials_may_reach() -> None:
    made = [
        {"api": api, "topics": [], "connection": "a:1>b:2", "request_packet": packet, "request_file": "f",
         "response_packet": packet + 1, "response_file": "f"}
        for api, packet in (("CONNECT", 10), ("SEND", 20), ("SEND", 30))
    ]  # fmt: skip
    tables = {"exchanges": pa.Table.from_pylist(made)}
    found = connection.ConnectionPacket("f", 15, "a:1", "b:2", b"", "ACK")
    assert connection.secret_until(tables, found) == 21
    only = {"exchanges": tables["exchanges"].slice(0, 1)}
    assert connection.secret_until(only, found) == float("inf")
    assert connection.secret_until({"exchanges": tables["exchanges"].slice(1)}, found) == 0


@pytest.mark.parametrize("order", [1, -1])
def test_follow_shows_both_directions_in_time_order(exchanges: list[dict[str, Any]], order: int) -> None:
    connection = exchanges[0]["connection"]
    mine = [row for row in exchanges if row["connection"] == connection]
    events = objects("follow", *[REFUSED, connection][::order])
    assert [e["packet"] for e in events if e["side"] == "→"] == [row["request_packet"] for row in mine]
    answered = sorted(row["response_packet"] for row in mine if row["response_packet"])
    assert sorted(e["packet"] for e in events if e["side"] == "←") == answered
    times = [event["time"] for event in events]
    assert times == sorted(times)


def test_follow_shows_who_asked_and_how_many_permits_are_left(tmp_path: Path) -> None:
    talk = wires.Talk()
    script = [
        *((0, pulsar.connect()), (1, pulsar.connected()), (0, pulsar.subscribe()), (1, pulsar.success(2))),
        *((1, pulsar.simple(pulsar.PING)), (0, pulsar.simple(pulsar.PONG)), (0, pulsar.flow(500))),
        (1, pulsar.delivery(pulsar.entry(pulsar.metadata(), b"v"))),
    ]
    for side, data in script:
        talk.send(side, data)
    (tmp_path / "one.pcap").write_bytes(wires.pcap(talk.packets))
    events = [event for event in objects("follow", tmp_path / "one.pcap") if event["side"] != "!"]
    assert [event["side"] + event["api"] for event in events[4:]] == ["←PING", "→PING", "→FLOW", "←MESSAGE"]
    assert events[6]["text"].endswith("persistent://a/b/orders, 500 permits, 500 permits left")
    assert events[7]["text"].endswith("persistent://a/b/orders 1 record, 499 permits left")


# --- sql -------------------------------------------------------------------------------------------------------------


def test_sql_sees_every_table_and_nothing_else() -> None:
    for table in TABLES:
        (row,) = objects("sql", REFUSED, f"select count(*) as n from {table}")
        assert row["n"] == dissectors.dissect(REFUSED, tables=table)[table].num_rows
    assert [row["name"] for row in objects("sql", REFUSED, "show tables")] == sorted(TABLES)


def test_only_tables_that_a_query_names_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[tuple[str, ...]] = []
    read = Reading.records

    def noted(self: Reading, captures: list[str], tables: tuple[str, ...], **more: Any) -> Any:
        decoded.append(tables)
        return read(self, captures, tables, **more)

    monkeypatch.setattr(Reading, "records", noted)
    run("sql", REFUSED, 'select count(*) from "Errors" join connections using (connection)')
    run("sql", REFUSED, "show tables")
    assert decoded == [("errors", "connections"), tuple(TABLES)]


def test_captures_have_the_aggregate_tables_that_a_folder_of_analyze_has(tmp_path: Path) -> None:
    for site in ("client", "broker"):
        (tmp_path / "in" / site).mkdir(parents=True)
        shutil.copy(SAMPLES / "kafka-transactions.pcap", tmp_path / "in" / site)
    run("analyze", tmp_path / "in", "-o", tmp_path / "out", "--engine", "local", "-q")
    written = records.read_aggregates(str(tmp_path / "out"))
    made = aggregates.made(records.read_analysis(str(tmp_path / "out"), RECORDS), COLUMNS)
    for name, table in made.items():
        stored = written[name.removeprefix(aggregates.PREFIX)]
        rows = stored.to_table() if isinstance(stored, Dataset) else stored
        assert sorted(map(repr, table.to_pylist())) == sorted(map(repr, rows.to_pylist())), name
        assert table.schema.names == COLUMNS[name]
    assert made["t_hops"].num_rows > 0
    typed = "select count(*) as n from t_latency\nselect count(*) as n from T_Latency\n"
    done = attempt("sql", tmp_path / "in", given=typed)
    first, second = (line for line in done.stdout.splitlines() if line.strip().isdigit())
    assert first == second != "0"


def test_a_part_of_a_folder_of_analyze_has_tables_of_that_part(kept: Path) -> None:
    query = "select distinct api from t_latency"
    for source in (REFUSED, kept):
        assert objects("sql", source, query, "--api", "Produce") == [{"api": "Produce"}]
    assert len(objects("sql", kept, query)) > 1


def test_a_query_that_means_nothing_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reading, "records", None)
    said = run("sql", "no-such-capture.pcap", "select latency from exchanges", code=2)
    assert "latency" in said
    assert "Traceback" not in said


def test_an_interval_is_text_as_sql_writes_it_and_a_duration_where_a_format_has_them(tmp_path: Path) -> None:
    query = "select max(time) - min(time) + interval '2 days' as span, interval '14 months' as m from exchanges"
    (length,) = objects("sql", REFUSED, "select epoch_us(max(time) - min(time)) as us from exchanges")
    (row,) = objects("sql", REFUSED, query)
    (told,) = objects("sql", REFUSED, f"select span::varchar as span, m::varchar as m from ({query})")
    assert row == told
    assert list(told.values()) == run("sql", REFUSED, query, "-f", "csv").splitlines()[1].replace('"', "").split(",")
    assert run("sql", REFUSED, query).splitlines()[-1].split() == ["2", "d", "00", "h", "1", "year", "2", "months"]
    run("sql", REFUSED, query.partition(", interval")[0] + " from exchanges", "-o", tmp_path / "span.parquet")
    (span,) = pq.read_table(tmp_path / "span.parquet").column("span").to_pylist()
    assert span // timedelta(microseconds=1) == length["us"] + 2 * 86_400_000_000
    assert "cast it to varchar" in run("sql", REFUSED, query, "-o", tmp_path / "months.parquet", code=2)
    assert not (tmp_path / "months.parquet").exists()


def test_columns_of_one_name_are_told_apart_as_the_database_does(tmp_path: Path) -> None:
    query = "select 1 as a, 2 as a, 3 as A, c.site from exchanges e join connections c using (connection) limit 1"
    assert [list(row) for row in objects("sql", REFUSED, query)] == [["a", "a_1", "A_2", "site"]]
    assert run("sql", REFUSED, query).splitlines()[0].split() == ["a", "a_1", "A_2", "site"]
    run("sql", REFUSED, query, "-o", tmp_path / "rows.parquet")
    assert pq.read_schema(tmp_path / "rows.parquet").names == ["a", "a_1", "A_2", "site"]
    (both,) = objects("sql", REFUSED, "select * from exchanges e join connections c using (connection) limit 1")
    assert len(both) == len(schema("exchanges")) + len(schema("connections")) - 1


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("select 1; select 2", "one query at a time; these are 2"),
        ("/* no query */", "one query at a time; these are 0"),
        ("create table x (a int)", "only queries: CREATE is none"),
        ("drop view exchanges", "only queries: DROP is none"),
        ("set threads = 1", "only queries: SET is none"),
        ("select", "is no file, and a query has several"),
    ],
)
def test_what_is_not_one_query_is_refused(kept: Path, query: str, why: str) -> None:
    for source in (REFUSED, str(kept)):
        done = attempt("sql", source, query)
        assert done.exit_code == 2
        assert not done.stdout
        assert why in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "statement",
    ["copy (select 1) to '/tmp/rows'", "set enable_external_access = true", "install httpfs", "load httpfs"],
)
def test_the_database_that_answers_is_closed_to_whatever_is_not_in_it(statement: str) -> None:
    with pytest.raises(duckdb.Error):
        database.connect().execute(statement)


@pytest.mark.parametrize("query", ["from exchanges", "describe errors", "explain select 1", "pivot batches on role"])
def test_whatever_gives_rows_is_a_query(query: str) -> None:
    assert run("sql", REFUSED, query)


def test_sql_without_a_query_reads_them_from_stdin() -> None:
    said = run("sql", REFUSED, given="select 41 + 1 as n\nselect nonsense\nselect 7 as m\n")
    assert [line.strip() for line in said.splitlines() if line.strip().isdigit()] == ["42", "7"]
    assert "nonsense" in said


# --- dissect's choice of rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_rows_come_in_order_of_any_column(table: str) -> None:
    empty = schema(table, full=True, payloads=True).empty_table()
    some = pa.concat_tables([empty, MADE.get(table, empty)], promote_options="default").slice(0, 50)
    for column in some.column_names:
        assert sum(batch.num_rows for batch in sorted_by(iter(some.to_batches()), (column, "descending"), 5)) <= 5


@pytest.mark.parametrize("sign", ["", "-"])
def test_lists_of_topics_are_in_order_as_text_shows_them(samples: list[str], sign: str) -> None:
    rows = objects("dissect", *samples, f"--sort={sign}topics", "--columns", "topics")
    lists = [", ".join(row["topics"]) for row in rows if row["topics"] is not None]
    assert lists == sorted(lists, reverse=bool(sign))
    assert len(set(lists)) > 5


def test_rows_are_chosen_sorted_and_cut(exchanges: list[dict[str, Any]]) -> None:
    slow = objects("dissect", REFUSED, "--slower-than", "5ms", "--sort=-total_ns", "--columns", "total_ns,api")
    want = sorted((row["total_ns"] for row in exchanges if (row["total_ns"] or 0) > 5_000_000), reverse=True)
    assert [row["total_ns"] for row in slow] == want
    assert list(slow[0]) == ["total_ns", "api"]
    assert len(objects("dissect", REFUSED, "--head", "3")) == 3
    assert len(objects("dissect", REFUSED, "--limit-rows", "0")) == 0
    assert {row["api"] for row in objects("dissect", REFUSED, "--api", "metadata,create*")} == {
        row["api"] for row in exchanges if row["api"] == "Metadata" or row["api"].startswith("Create")
    }
    assert {row["status"] for row in objects("dissect", REFUSED, "--errors")} == {"error"}
    topic = next(row["topics"][0] for row in exchanges if row["topics"])
    assert all(topic in row["topics"] for row in objects("dissect", REFUSED, "--topic", topic))
    client = exchanges[0]["connection"].split(">")[0]
    assert len(objects("dissect", REFUSED, "--client", client)) == sum(
        row["connection"] == exchanges[0]["connection"] for row in exchanges
    )


def test_since_and_until_part_the_rows(exchanges: list[dict[str, Any]]) -> None:
    middle = exchanges[len(exchanges) // 2]["time"]
    for text in (f"{middle:%H:%M:%S.%f}", f"{middle:%Y-%m-%dT%H:%M:%S.%f}"):
        after, before = (objects("dissect", REFUSED, option, text) for option in ("--since", "--until"))
        assert len(after) + len(before) == len(exchanges)
        assert all(row["time"] < after[0]["time"] for row in before)


@given(st.text(max_size=20), st.sampled_from(["topic", "client", "api", "group"]))
def test_a_name_cannot_leave_its_quotes(name: str, option: str) -> None:
    condition = conditions.condition("exchanges", **{option: name})  # type: ignore[arg-type]
    assert condition is not None
    (row,) = query(MADE, f"SELECT count(*) AS n FROM exchanges WHERE {condition}")
    assert row["n"] <= MADE["exchanges"].num_rows


# --- diff ------------------------------------------------------------------------------------------------------------


def slowed(factor: float, seed: int = 3) -> dict[str, pa.Table]:
    return changed(f"total_ns * {factor} AS total_ns", seed)


def changed(values: str, seed: int = 3, where: str = "true", table: str = "exchanges") -> dict[str, pa.Table]:
    """Two thousand exchanges of the same system, but for these values in SQL, and without the rows that do not meet."""
    made = synthetic.make(seed=seed, exchanges=2000)
    with duckdb.connect() as connection:
        connection.register("t", made[table])
        rows = connection.sql(f"SELECT * REPLACE ({values}) FROM t WHERE {where}").to_arrow_table()
    return made | {table: rows.cast(made[table].schema)}


def said(after: dict[str, pa.Table], before: dict[str, pa.Table] | None = None) -> dict[tuple[str, str], list[str]]:
    """What `diff` says has changed, of APIs and, by their name, of parts of them."""
    made = diff.diff(before or synthetic.make(seed=1, exchanges=2000), after)
    return {
        (row["api"], row["name"]): [row["verdict"], *row["also"]]
        for row in made.apis + made.parts
        if row["verdict"] != "same"
    }


def test_diff_distinguishes_a_shift_from_chance() -> None:
    before = synthetic.make(seed=1, exchanges=2000)
    assert {row["verdict"] for row in diff.diff(before, slowed(1.0)).apis} == {"same"}
    assert {row["verdict"] for row in diff.diff(before, slowed(3.0)).apis} == {"slower"}
    assert {row["verdict"] for row in diff.diff(slowed(3.0), before).apis} == {"faster"}
    few = {name: table.slice(0, 10) for name, table in before.items()}
    assert {row["verdict"] for row in diff.diff(few, before).apis} <= {"too few to say", "new"}


def test_two_samples_of_one_system_are_the_same_whatever_their_lengths() -> None:
    samples = [synthetic.make(seed, 60 * seconds, seconds) for seed, seconds in enumerate((20, 30, 45, 60, 90), 11)]
    for before, after in itertools.permutations(samples, 2):
        assert not said(after, before)


def test_an_api_is_new_or_gone_only_where_it_was_called_all_along() -> None:
    without = changed("api AS api", where="api <> 'Fetch'")
    assert said(without)["Fetch", ""] == ["gone"]
    assert said(changed("api AS api"), without)["Fetch", ""] == ["new"]
    at_first = changed("CASE WHEN correlation_id < 100 AND api = 'Fetch' THEN 'JoinGroup' ELSE api END AS api")
    assert said(changed("api AS api"), at_first) == {("JoinGroup", ""): ["too few to say"]}


def test_a_longer_tail_is_told_where_the_median_stays() -> None:
    tail = changed("CASE WHEN correlation_id % 25 = 0 THEN 500000000 ELSE total_ns END AS total_ns")
    found = said(tail)
    assert found["SEND", ""] == found["Produce", ""] == ["slower outliers"]
    burst = changed("CASE WHEN correlation_id BETWEEN 500 AND 560 THEN 500000000 ELSE total_ns END AS total_ns")
    assert not said(burst), "one burst of slow calls is one event"


def test_a_topic_with_half_its_calls_is_named() -> None:
    found = said(changed("api AS api", where="topics[1] <> 'topic-1' OR correlation_id % 8 = 1"))
    assert {verdict for verdict, *_ in found.values()} == {"fewer calls"}
    assert {name for _, name in found if name} == {"topic-1"}


def test_a_topic_that_became_slower_is_named() -> None:
    slow = changed("CASE WHEN topics[1] = 'topic-2' THEN total_ns * 4 ELSE total_ns END AS total_ns")
    assert {name for _, name in said(slow) if name} == {"topic-2"}


def test_larger_requests_and_throttled_answers_are_changes() -> None:
    assert said(changed("CASE WHEN api = 'SEND' THEN 5000 ELSE request_bytes END AS request_bytes")) == {
        ("SEND", ""): ["larger"]
    }
    found = said(changed("CASE WHEN client_id = 'client-40001' THEN 100 END AS throttle_ms"))
    assert found["Produce", ""] == ["throttled"]
    assert {name for _, name in found if name.startswith("client")} == {"client-40001"}


def test_versions_that_clients_speak_are_compared_where_both_sides_tell_them() -> None:
    before = synthetic.make(seed=1, exchanges=2000)
    later = diff.diff(before, changed("CASE WHEN api = 'Produce' THEN 11 ELSE version END AS version"))
    assert later.new["API version"] == ["Produce v11"]
    assert later.gone["API version"] == ["Produce v9"]
    told = changed("'3.7.0' AS client_version", table="connections")
    upgraded = diff.diff(told, changed("'3.9.0' AS client_version", table="connections"))
    assert {name.split()[-1] for name in upgraded.new["client version"]} == {"3.9.0"}
    unsaid = changed("NULL AS client_software, NULL AS client_version", table="connections")
    assert not diff.diff(told, unsaid).gone["client version"]


def test_diff_names_what_is_new_and_what_is_gone() -> None:
    (made,) = objects("diff", SAMPLES / "kafka-codecs.pcap", SAMPLES / "kafka-refused.pcap")
    assert "err-e" in made["new"]["topic"]
    assert any(name.startswith("metrics-") for name in made["gone"]["topic"])
    calls = {row["api"]: row["after_count"] for row in made["apis"] if not row["before_count"]}
    assert calls["DeleteTopics"] == 1
    assert {row["verdict"] for row in made["apis"]} == {"too few to say"}, "one call is no change"


@given(st.lists(st.integers(0, 50), min_size=20, max_size=60), st.lists(st.integers(0, 50), min_size=20, max_size=60))
def test_rank_sums_agree_with_counting_pairs(before: list[int], after: list[int]) -> None:
    one, other = np.array(before), np.array(after)
    z = diff.rank_sum(one, other)
    wins = np.sign(other[:, None] - one[None, :]).sum()
    assert z is not None
    assert np.sign(round(z, 9)) == np.sign(wins)
    assert diff.rank_sum(other, one) == pytest.approx(-z)


# --- groups ----------------------------------------------------------------------------------------------------------


@needs_captures
def test_groups_show_who_joined_who_left_and_each_rebalance() -> None:
    (group,) = objects("groups", f"{CAPTURES}/kafka/java43-group-classic.pcap")
    assert (group["group"], group["kind"], group["members"]) == ("grpc-g", "classic", 2)
    assert (group["joined"], group["left"], group["generation"]) == (2, 2, 4)
    assert group["rebalances"] == 4
    assert group["longest_ns"] > 0
    (group,) = objects("groups", f"{CAPTURES}/kafka/nw-kip848.pcap")
    assert (group["kind"], group["members"], group["joined"], group["left"]) == ("consumer", 5, 5, 5)
    assert 900_000_000 < group["longest_ns"] < 1_100_000_000  # until the last member has the new epoch


def test_subscriptions_are_groups() -> None:
    made = objects("groups", SAMPLES / "pulsar-subscriptions.pcap")
    assert {group["kind"] for group in made} == {"subscription"}
    subscribed = dissectors.dissect(SAMPLES / "pulsar-subscriptions.pcap", tables="exchanges")["exchanges"]
    wanted = subscribed.filter(pc.equal(subscribed["api"], "SUBSCRIBE"))
    assert sum(group["joined"] for group in made) == pc.sum(pc.equal(wanted["status"], "ok")).as_py()
    assert sum(group["left"] for group in made) == sum(group["joined"] for group in made)  # two that the broker closed


def counted_of(name: str) -> list[tuple[Any, ...]]:
    found = objects("groups", f"{CAPTURES}/{name}", "-q")
    return sorted(tuple(one[key] for key in ("group", "topic", "members", "joined", "left")) for one in found)


@needs_captures
def test_subscriptions_of_one_name_are_told_apart_by_topic() -> None:
    topic = "persistent://public/default/p3g-g-{}".format
    assert [row for row in counted_of("pulsar/p30_go_subs.pcap") if row[0] == "gs"] == [
        ("gs", topic("exclusive"), 1, 1, 1),
        ("gs", topic("failover"), 2, 2, 2),
        ("gs", topic("keyshared"), 2, 2, 2),
        ("gs", topic("shared"), 2, 2, 2),
    ]


@needs_captures
def test_the_partitions_of_a_topic_share_its_subscription() -> None:
    for name, topic in (
        ("py_partitioned", "public/default/pp-parts"),
        ("redirect_py_partitioned", "public/red3/rdp-parts"),
    ):
        assert counted_of(f"pulsar/{name}.pcap") == [("psub", f"persistent://{topic}", 1, 1, 1)]


@needs_captures
def test_a_group_of_iggy_is_one_whether_requests_give_its_name_or_its_number() -> None:
    for name in ("a4-dev-messages", "b8-dev-messages", "c9-dev-messages"):
        assert counted_of(f"iggy/{name}.pcap") == [("dev-cg", "dev-msgs/dev-events", 1, 1, 1)]


def tables_of(**given: Sequence[dict[str, Any]]) -> dict[str, pa.Table]:
    """Record tables of some rows of a group, of which only what matters is given."""
    common = {"protocol": "kafka", "group": "g", "site": "s", "time": NOON, "file": "a.pcap", "packet": 1}
    call = {"kind": "call", "status": "ok", "total_ns": 0, "request_file": "a.pcap", "request_packet": 1}
    rows = {
        name: [common | (call if name == "exchanges" else {}) | row for row in some] for name, some in given.items()
    }
    return {
        name: pa.Table.from_pylist(
            [{key: value for key, value in row.items() if key in schema(name).names} for row in rows.get(name, [])],
            schema(name),
        )
        for name in RECORDS
    }


def groups_of(**given: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The groups of some rows, and what happened to them."""
    return groups.groups(tables_of(**given))


def lag_of(*positions: dict[str, Any], last: int = 9, markers: Sequence[int] = ()) -> int | None:
    """The lag of a group that stood at these positions, a second apart, of topics `a` and `b`, which end at `last`.

    markers: offsets of `a` at which a transaction ended.
    """
    common = {"protocol": "kafka", "site": "s", "partition": 0, "topic": "a", "group": "g"}
    times = [{"time": datetime(2026, 11, 22, 12, 0, n, tzinfo=UTC)} for n in range(len(positions) + 1)]
    ends = [common | times[0] | {"topic": topic, "last_offset": last, "base_offset": 0} for topic in ("a", "b")]
    ends += [common | times[0] | {"base_offset": at, "last_offset": at, "control": True} for at in markers]
    stated = [common | time | position for time, position in zip(times[1:], positions, strict=True)]
    (group,), _ = groups_of(exchanges=[{"api": "OffsetCommit"}], batches=ends, positions=stated)
    lag: int | None = group["lag"]
    return lag


def committed(offset: int, topic: str = "a") -> dict[str, Any]:
    return {"what": "committed", "value": offset, "topic": topic}


def pending(offset: int, partition: int = 0) -> dict[str, Any]:
    return {"what": "pending", "value": offset, "transaction": "t", "partition": partition}


def ended(committed: bool, transaction: str = "t") -> dict[str, Any]:
    return {"what": "transaction", "value": int(committed), "transaction": transaction, "topic": None, "group": None}


def test_the_lag_of_a_group_is_that_of_each_topic_that_it_commits_to() -> None:
    assert lag_of(committed(4), committed(7, "b")) == 6 + 3
    assert lag_of(committed(4), committed(8)) == 2
    assert lag_of(committed(8), committed(4)) == 6
    assert lag_of(committed(12)) == 0  # more than what the capture shows of the partition


def test_the_ends_of_transactions_are_no_messages_that_a_group_has_yet_to_read() -> None:
    assert lag_of(committed(10), last=9, markers=[10]) == 0
    assert lag_of(committed(10), last=9, markers=[10, 11, 12]) == 0
    assert lag_of(committed(10), last=9, markers=[10, 12]) == 3  # what lies between is not known
    assert lag_of(committed(9), last=9, markers=[10]) == 2


@pytest.mark.parametrize(("api", "known"), [("OffsetFetch", False), ("Heartbeat", True), ("OffsetCommit", True)])
def test_a_group_that_somebody_only_looked_at_has_not_stopped(api: str, known: bool) -> None:
    place = {"topic": "a", "partition": 0}
    end = place | {"time": NOON + timedelta(minutes=1), "base_offset": 0, "last_offset": 9}
    stands = place | {"what": "committed", "value": 4, "api": "OffsetFetch" if api == "Heartbeat" else api}
    (row,) = groups.lag(tables_of(exchanges=[{"api": api}], batches=[end], positions=[stands]))
    assert (row["messages"], row["status"]) == (6, "stopped" if known else None)


def test_a_partition_of_iggy_ends_where_the_latest_answer_says_so() -> None:
    polls = [
        {"protocol": "iggy", "topic": "s/t", "partition": 0, "what": what, "value": value}
        | {"time": NOON + timedelta(seconds=n)}
        for n, value in enumerate((90, 5)) for what in ("high_watermark", "committed")
    ]  # fmt: skip
    (*_, row) = groups.lag(tables_of(positions=polls))
    assert (row["end_offset"], row["messages"]) == (5, 0)  # its topic was purged in between


@pytest.mark.parametrize("how", [{"kind": "altered", "text": "purged"}, {"kind": "deleted"}])
@pytest.mark.parametrize(("purged", "lag_s"), [(None, 60), (30, None), (0, 60)])
def test_messages_from_before_a_purge_have_no_age_that_counts(
    purged: int | None, lag_s: int | None, how: dict[str, Any]
) -> None:
    """Of an offset that only a message of the purged topic is known to have had, or that is not purged yet."""
    place = {"protocol": "iggy", "topic": "s/t", "partition": 0}
    at = {n: {"time": NOON + timedelta(seconds=n)} for n in (0, 30, 60, 90)}
    batches = [place | at[0] | {"base_offset": 0, "last_offset": 9, "first_timestamp": NOON, "max_timestamp": NOON}]
    stated = [place | at[60] | {"what": what, "value": n} for what, n in (("high_watermark", 10), ("committed", 4))]
    purges = [{"thing": "topic", "topic": "s", **how, **at[purged]}] if purged is not None else []
    rows = groups.lag(tables_of(positions=stated, batches=batches, events=[place | row for row in purges]))
    assert rows[-1]["lag_ns"] == (lag_s and lag_s * 1_000_000_000)


def test_no_lag_is_claimed_of_a_partition_whose_end_is_not_known() -> None:
    assert lag_of(committed(4, "c")) is None


@pytest.mark.parametrize(("how", "lag"), [(ended(True), 2), (ended(False), 6), (ended(True, "other"), 6)])
def test_offsets_of_a_transaction_count_once_it_has_committed(how: dict[str, Any], lag: int) -> None:
    assert lag_of(committed(4), pending(8), how) == lag


def test_a_producer_that_begins_anew_has_aborted_what_it_left_open() -> None:
    assert lag_of(committed(4), pending(8), ended(False), ended(True)) == 6


def test_a_commit_does_not_say_of_which_kind_its_group_is() -> None:
    apis = ("OffsetCommit", "ConsumerGroupHeartbeat", "OffsetCommit")
    (group,), _ = groups_of(exchanges=[{"api": api} for api in apis])
    assert group["kind"] == "consumer"


@pytest.mark.parametrize(
    ("protocol", "kind"), [("kafka", "classic"), ("pulsar", "subscription"), ("iggy", "consumer group")]
)
def test_a_group_that_only_commits_is_of_the_kind_of_its_protocol(protocol: str, kind: str) -> None:
    (group,), _ = groups_of(positions=[{"protocol": protocol, "what": "committed", "topic": "t", "value": 1}])
    assert group["kind"] == kind


def test_a_subscription_without_an_answer_was_not_refused() -> None:
    for status, what in (("ok", []), ("error", ["refused"]), ("unknown", [])):
        subscribe = {"protocol": "pulsar", "api": "SUBSCRIBE", "status": status, "client_ip": "a"}
        _, events = groups_of(exchanges=[subscribe])
        assert [event["what"] for event in events] == what


def happening(second: int, kind: str, consumer: str | None = "c", **more: Any) -> dict[str, Any]:
    """What happens at that second to a consumer of a subscription of topic `t`."""
    where = {"protocol": "pulsar", "topic": "t", "client_ip": "a", "client_port": 7, "client_id": "c"}
    return where | {"time": NOON + timedelta(seconds=second), "kind": kind, "subject": consumer} | more


SUBSCRIBED = [{"protocol": "pulsar", "api": "SUBSCRIBE", "topics": ["t"], "client_ip": "a"}]


def test_a_consumer_that_subscribes_to_each_partition_is_one_member() -> None:
    came = [happening(0, "joined", partition=0), happening(0, "joined", partition=1, packet=2)]
    (group,), _ = groups_of(exchanges=SUBSCRIBED, events=came)
    assert (group["joined"], group["left"], group["members"]) == (1, 0, 1)
    gone = [happening(5, "left", partition=0), happening(5, "left", partition=1, packet=2)]
    (group,), events = groups_of(exchanges=SUBSCRIBED, events=[*came, *gone])
    assert (group["joined"], group["left"], group["members"]) == (1, 1, 1)
    assert [event["what"] for event in events] == ["joined", "left"]


def test_members_count_while_they_are_in() -> None:
    came = [happening(0, "joined", "c"), happening(1, "joined", "d"), happening(2, "left", "c")]
    (group,), _ = groups_of(
        exchanges=SUBSCRIBED, events=[*came, happening(3, "joined", "e"), happening(4, "joined", "f")]
    )
    assert (group["members"], group["joined"], group["left"]) == (3, 4, 1)


def in_kafka(second: int, generation: int, *members: str, port: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Members that join a group of Kafka at once, and what their joins say."""
    rows: dict[str, list[dict[str, Any]]] = {"exchanges": [], "events": []}
    for number, member in enumerate(members):
        at = {"time": NOON + timedelta(seconds=second), "client_ip": "a", "client_port": port + number}
        synced = at | {"time": NOON + timedelta(seconds=second, milliseconds=1)}
        of = {"exchange_id": f"{second} {member}"}
        rows["exchanges"] += [at | of | {"api": "JoinGroup"}, synced | {"api": "SyncGroup"}]
        rows["events"].append(at | of | {"kind": "joined", "subject": member, "number": generation})
    return rows


def group_of(*steps: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The one group of some steps."""
    (group,), _ = groups_of(**{name: [row for step in steps for row in step[name]] for name in ("exchanges", "events")})
    return group


def test_a_static_member_that_comes_back_does_not_make_its_group_rebalance() -> None:
    group = group_of(in_kafka(0, 1, "a-1", "b-1"), in_kafka(9, 1, "a-2", port=7), in_kafka(20, 2, "a-2", "b-1", "c"))
    assert (group["rebalances"], group["longest_ns"]) == (2, 1_000_000)
    assert group_of(in_kafka(0, 1, "a-1"), in_kafka(9, 2, "a-2", port=7))["rebalances"] == 2
    left = {"exchanges": [{"api": "LeaveGroup", "time": NOON + timedelta(seconds=5)}], "events": []}
    assert group_of(in_kafka(0, 1, "a-1"), left, in_kafka(9, 1, "a-2", port=7))["rebalances"] == 2  # made anew


def test_members_that_join_twice_until_their_generation_holds_are_members_of_it() -> None:
    first, again = in_kafka(0, 1, "a", "b"), in_kafka(1, 1, "b", port=2)
    first["exchanges"] = [row for row in first["exchanges"] if row["api"] == "JoinGroup"]
    group = group_of(first, again, in_kafka(9, 2, "a", "b", "c"))
    assert (group["rebalances"], group["members"], group["longest_ns"]) == (2, 3, 1_001_000_000)
    assert group_of(first, again)["members"] == 2


def test_members_of_kafka_that_no_longer_join_are_gone() -> None:
    assert group_of(in_kafka(0, 1, "a-1"), in_kafka(20, 2, "a-2", port=7), in_kafka(40, 3, "a-3"))["members"] == 1
    back = [in_kafka(0, 1, "a", "b"), in_kafka(20, 2, "a"), in_kafka(40, 3, "a", "c")]
    assert group_of(*back)["members"] == 2
    assert group_of(in_kafka(0, 1, "a-1", "b-1"), in_kafka(9, 1, "a-2", port=7))["members"] == 2


def test_a_group_that_was_there_before_the_capture_has_members_unknown() -> None:
    (group,), _ = groups_of(exchanges=[{"api": "Heartbeat"}, {"api": "OffsetCommit"}])
    assert group["members"] is None


def test_groups_to_which_nothing_happened_have_no_table_of_events() -> None:
    assert "took" not in run("groups", SAMPLES / "kafka-refused.pcap")


@pytest.mark.parametrize("protocol", ["pulsar", "iggy"])
def test_a_member_whose_connection_ended_has_left_unless_it_is_on_another(protocol: str) -> None:
    def on(connection: str, port: int) -> dict[str, Any]:
        return {"protocol": protocol, "connection": connection, "incarnation": 0, "client_port": port}

    def ended(connection: str, second: int, closed: str) -> dict[str, Any]:
        return on(connection, 0) | {"end_time": NOON + timedelta(seconds=second), "closed": closed}

    steps = [happening(0, "joined", "c") | on("one", 1), happening(6, "joined", "d") | on("two", 2)]
    connections = [ended("one", 5, "reset"), ended("two", 9, "open")]
    (group,), events = groups_of(
        exchanges=[one | on("one", 1) for one in SUBSCRIBED], events=steps, connections=connections
    )
    assert (group["members"], group["joined"], group["left"]) == (1, 2, 1)
    assert [event["text"] for event in events if event["what"] == "left"] == ["its connection was reset"]


def test_a_consumer_that_came_on_another_connection_stays_when_the_first_ends() -> None:
    steps = [happening(0, "joined", connection="one", incarnation=0, packet=1),
             happening(4, "joined", connection="two", incarnation=0, packet=2),
             happening(9, "left", connection="two", incarnation=0, packet=3)]  # fmt: skip
    end = {"protocol": "pulsar", "connection": "one", "incarnation": 0, "closed": "fin"}
    _, events = groups_of(
        exchanges=SUBSCRIBED, events=steps, connections=[end | {"end_time": NOON + timedelta(seconds=5)}]
    )
    assert [(event["what"], event["packet"]) for event in events] == [("joined", 1), ("left", 3)]


def test_a_consumer_that_its_broker_closes_or_that_deletes_its_subscription_has_left() -> None:
    unsubscribed = happening(5, "deleted", None, api="UNSUBSCRIBE", number=0)
    refused = unsubscribed | {"number": 4}
    _, events = groups_of(events=[happening(0, "joined"), happening(1, "closed_by_broker"), happening(2, "joined"),
                                  refused | {"time": NOON + timedelta(seconds=4)}, unsubscribed])  # fmt: skip
    assert [(event["what"], event["text"]) for event in events] == [
        ("joined", None), ("left", "closed by the broker"), ("joined", None), ("left", "deleted the subscription"),
    ]  # fmt: skip
    assert {event["member"] for event in events} == {"a c"}


def test_a_seek_is_an_event_of_its_subscription() -> None:
    seek = happening(5, "altered", None, text="seek", api="SEEK", number=0)
    (group,), events = groups_of(exchanges=SUBSCRIBED, events=[happening(0, "joined"), seek, seek | {"number": 4}])
    assert [(event["what"], event["member"], event["text"]) for event in events] == [
        ("joined", "a c", None), ("seeked", "a c", "seek"),
    ]  # fmt: skip
    assert (group["joined"], group["left"]) == (1, 0)


def test_who_of_a_subscription_is_active_and_that_its_topic_ended_are_events() -> None:
    ended = {"protocol": "pulsar", "api": "REACHED_END_OF_TOPIC", "kind": "push", "topics": ["t"], "client_ip": "a",
             "time": NOON + timedelta(seconds=3)}  # fmt: skip
    came = [happening(0, "joined"), happening(1, "active"), happening(2, "standby")]
    _, events = groups_of(events=came, exchanges=[ended])
    assert [event["what"] for event in events] == ["joined", "active", "standby", "ended"]


def test_groups_of_iggy_belong_to_a_topic_of_a_stream_and_have_the_name_of_their_number() -> None:
    def said(kind: str, topic: str, group: str, **more: Any) -> dict[str, Any]:
        return {"protocol": "iggy", "kind": kind, "topic": topic, "group": group, "client_ip": "a"} | more

    found, _ = groups_of(
        events=[said("named", "s/t", "workers", number=0), said("joined", "s/t", "0"), said("joined", "s/u", "0")],
        exchanges=[
            {"protocol": "iggy", "api": "JOIN_CONSUMER_GROUP", "group": "0", "topics": [topic]}
            for topic in ("s/t", "s/u")
        ],
    )
    assert [(group["group"], group["topic"], group["members"]) for group in found] == [
        ("0", "s/u", 1), ("workers", "s/t", 1),
    ]  # fmt: skip


# --- one direction ---------------------------------------------------------------------------------------------------


def test_nothing_is_said_of_answers_whose_direction_was_not_captured(tmp_path: Path) -> None:
    whole = [p for p in rdpcap("samples/kafka-refused.pcap") if TCP in p]
    client = next(p for p in whole if p[TCP].flags == "S")
    one_way = tmp_path / "one.pcap"
    wrpcap(str(one_way), [p for p in whole if p[IP].src == client[IP].src and p[TCP].dport == client[TCP].dport])
    counts = [row["unanswered"] for row in objects("top", one_way)]
    assert counts
    assert set(counts) == {0}
    out = tmp_path / "out"
    run("analyze", one_way, "-o", out, "--engine", "local", "-q")
    page = pages.data(out / "report.html")
    asked = [row for row in pages.requests(page) if KINDS[row["flags"] & 7] == "unanswered"]
    assert asked
    assert all(row["flags"] & OF_UNHEARD for row in asked)
    assert "no answer" not in page["strings"]  # among events
    (connection,) = dissectors.dissect([one_way], tables=["connections"])["connections"].slice(0, 1).to_pylist()
    assert connection["server_packets"] == 0
    assert "never answered" not in run("follow", f":{connection['client_port']}", one_way)


# --- annotate --------------------------------------------------------------------------------------------------------

FIELDS = ("frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "tcp.seq_raw", "tcp.checksum", "eth.src")


def tshark(path: str | Path, *more: str) -> str:
    fields = [part for field in FIELDS for part in ("-e", field)]
    command = ["tshark", "-r", str(path), "-T", "fields", *fields, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_an_annotated_capture_has_the_same_packets_and_comments_to_filter_by(
    samples: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.pcapng"
    for path in samples:
        run("annotate", path, "-o", out, "-q")
        *packets, comments = zip(*(line.split("\t") for line in tshark(out, "-e", "frame.comment").splitlines()))
        assert packets == [*zip(*(line.split("\t") for line in tshark(path).splitlines()))]
        assert any(comments)
    run("annotate", SAMPLES / "pulsar-corrupted.pcap", "-o", out, "-q")
    bad = tshark(out, "-Y", 'frame.comment contains "bad checksum"')
    assert [line.split("\t")[0] for line in bad.splitlines()] == ["39"]


def test_an_annotated_capture_gives_the_same_records(samples: list[str], tmp_path: Path) -> None:
    for path in samples:
        out = tmp_path / "again.pcapng"
        run("annotate", path, "-o", out, "-q")
        again, twice = tmp_path / "twice.pcapng", []
        run("annotate", out, "-o", again, "-q")
        for one in (path, out, again):
            rows = dissectors.dissect(one, tables="exchanges")["exchanges"].drop_columns(["site"]).to_pylist()
            twice.append([{k: v for k, v in row.items() if not k.endswith("_file")} for row in rows])
        assert twice[0] == twice[1] == twice[2]


def test_annotating_captures_that_were_joined_with_cat_keeps_all_their_packets(
    samples: list[str], tmp_path: Path
) -> None:
    joined, out = tmp_path / "joined.pcap", tmp_path / "out.pcapng"
    joined.write_bytes(b"".join(Path(path).read_bytes() for path in samples[:3]))
    run("annotate", joined, "-o", out, "-q")
    packets = [[(p.time, p.wirelen, bytes(p)) for p in scapy.utils.rdpcap(str(path))] for path in (*samples[:3], out)]
    assert packets[3] == packets[0] + packets[1] + packets[2]
