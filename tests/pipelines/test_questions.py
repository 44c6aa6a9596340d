"""Questions that have names: along time, by partition, with bodies or own files, of a pipe that is stopped."""

import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dissectors import records
from pipelines.answers import top
from tests import processes
from tests.commands import SAMPLES, attempt, objects, run

CODECS, REFUSED = str(SAMPLES / "kafka-codecs.pcap"), str(SAMPLES / "kafka-refused.pcap")


def test_partitions_have_the_batches_that_they_carried() -> None:
    rows = {row["key"]: row for row in objects("top", CODECS, "--by", "partition")}
    batches = objects("sql", CODECS, "select topic || '[' || partition || ']' as key, sum(stored_bytes) as n, "
                      "count(distinct exchange_id) as exchanges from batches group by 1")  # fmt: skip
    assert {row["key"]: (row["n"], row["exchanges"]) for row in batches} == {
        key: (row["bytes"], row["count"]) for key, row in rows.items()
    }


@pytest.mark.parametrize(("refused", "failed"), [([1], [0, 1]), ([0, 1], [1, 1]), ([None], [1, 1]), ([], [1, 1])])
def test_a_partition_has_the_errors_that_are_about_it(refused: list[int | None], failed: list[int]) -> None:
    one: dict[str, Any] = {"site": "s", "protocol": "kafka", "exchange_id": "x", "api": "Produce"}
    rows = {
        "exchanges": [one | {"kind": "call", "status": "error", "topics": ["t"]}],
        "batches": [one | {"topic": "t", "partition": number} for number in (0, 1)],
        "errors": [one | {"topic": "t", "partition": number, "code": 6} for number in refused],
    }
    made = {name: pa.Table.from_pylist(rows.get(name, []), records.schema(name)) for name in top.TABLES}
    found = {row["key"]: row["errors"] for row in top.top(made, "partition", "count")}
    assert found == {"t[0]": failed[0], "t[1]": failed[1]}


@pytest.mark.parametrize("by", ["api", "server", "topic"])
def test_spans_of_time_add_up_to_the_whole(by: str) -> None:
    spans = objects("top", CODECS, "--by", by, "--every", "500ms", "--limit-rows", 1000)
    times = [datetime.fromisoformat(row["time"]) for row in spans]
    assert times == sorted(times)
    for whole in objects("top", CODECS, "--by", by):
        mine = [row for row in spans if row["key"] == whole["key"]]
        assert sum(row["count"] for row in mine) == whole["count"]
        assert sum(row["messages"] or 0 for row in mine) == (whole["messages"] or 0)


def test_a_part_is_the_same_in_every_command() -> None:
    (row,) = objects("sql", CODECS, "select count(*) as n from exchanges where api = 'Produce'")
    assert [each["count"] for each in objects("top", CODECS, "--api", "Produce")] == [row["n"]]
    assert len(objects("dissect", CODECS, "--api", "Produce")) == row["n"]
    (summary,) = objects("summary", CODECS, "--api", "Produce")
    assert sum(protocol["exchanges"] for protocol in summary["protocols"]) == row["n"]
    connections = objects("sql", CODECS, "select count(distinct connection) as n from exchanges where api = 'Produce'")[
        0
    ]["n"]
    assert sum(protocol["connections"] for protocol in summary["protocols"]) == connections
    assert len(objects("follow", CODECS, "--api", "Produce")) == connections


def test_a_server_is_named_by_address_by_port_or_by_both() -> None:
    every = len(objects("dissect", CODECS))
    for server in ("10.71.0.1", "9092", "10.71.0.1:9092", "10.71.0.9,9092"):
        assert len(objects("dissect", CODECS, "--server", server)) == every
    assert objects("dissect", CODECS, "--server", "10.71.0.1:9093") == []


def test_a_query_reads_bodies_and_files_of_the_user(tmp_path: Path) -> None:
    teams = tmp_path / "teams.csv"
    teams.write_text("client_id,team\nerr-admin,payments\n")
    rows = objects("sql", REFUSED, "--full", "--attach", f"teams={teams}",
                   "select team, request.topics[0].name as topic from exchanges join teams using (client_id) "
                   "where api = 'CreateTopics' order by time limit 1")  # fmt: skip
    assert [row["team"] for row in rows] == ["payments"]
    assert rows[0]["topic"]
    assert "cannot be read" in run("sql", REFUSED, "select 1", "--attach", f"teams={tmp_path / 'none.csv'}", code=3)
    assert "NAME=FILE" in run("sql", REFUSED, "select 1", "--attach", "exchanges=x.csv", code=2)


def test_a_capture_alone_is_summarised() -> None:
    assert run(REFUSED) == run("summary", REFUSED)


def test_headings_are_names_of_columns_too() -> None:
    assert objects("dissect", REFUSED, "--sort=-total", "--head", 3) == objects(
        "dissect", REFUSED, "--sort=-total_ns", "--head", 3
    )


def test_a_time_that_holds_nothing_is_answered_with_the_span() -> None:
    result = attempt("top", REFUSED, "--since", "1999-01-01", "--until", "1999-01-02")
    assert "these captures are of 2026-11-21 01:11:16 to 2026-11-21 01:11:21 UTC" in " ".join(result.stderr.split())


def test_an_interrupt_ends_a_pipe_and_prints_what_was_seen() -> None:
    runs = []
    for command, *query in (["summary"], ["info"], ["top"], ["sql", "select api from exchanges"]):
        process = subprocess.Popen(
            [sys.executable, "-m", "brokerscope", command, "-", *query],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(Path(REFUSED).read_bytes())
        process.stdin.flush()
        runs.append((command, process))
    for command, process in runs:
        processes.wait_until_idle(process, 60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, (command, err)
        assert b"CreateTopics" in out or b"9 connections" in out, command
