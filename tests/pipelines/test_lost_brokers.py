"""A broker that went away is a finding: connections that end at once, and attempts that it refuses or leaves alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dissectors
from dissectors import records as record_tables
from pipelines.answers.summary import TABLES as SUMMARY_TABLES
from pipelines.answers.summary import summary
from pipelines.tables.compute import TableEngine, bound, relations
from tests.captures import captures, needs_captures
from tests.pipelines.test_tables import built, local_engine, spark_engine, written

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
Rows = list[dict[str, Any]]


def connection(port: int, start: float, end: float, **more: Any) -> dict[str, Any]:
    """A connection that the broker answered, from `start` to `end` seconds after noon."""
    broker = more.pop("broker", 9092)
    return {
        "site": "here",
        "protocol": "kafka",
        "connection": f"10.0.0.2:{port}>10.0.0.1:{broker}",
        "incarnation": 0,
        "client_ip": "10.0.0.2",
        "client_port": port,
        "server_ip": "10.0.0.1",
        "server_port": broker,
        "start_time": NOON + timedelta(seconds=start),
        "end_time": NOON + timedelta(seconds=end),
        "handshake": "full",
        "closed": "reset",
        "client_packets": 20,
        "server_packets": 20,
        "client_bytes": 1000,
        "server_bytes": 1000,
        "client_seq": port,
        "server_seq": port + 1,
        "frames": 10,
        "retransmissions": 0,
        "file": "a.pcap",
        "packet": int(start * 100) + 1,
    } | more


def refused(port: int, at: float, **more: Any) -> dict[str, Any]:
    """An attempt to connect that only a reset answered."""
    attempt = {
        "protocol": None, "handshake": "partial", "client_packets": 1, "server_packets": 1, "client_bytes": 0,
        "server_bytes": 0, "server_seq": None, "frames": 0,
    }  # fmt: skip
    return connection(port, at, at, **(attempt | more))


def silent(port: int, at: float, **more: Any) -> dict[str, Any]:
    """One that nothing answered, though its SYN was sent again."""
    return refused(port, at, **({"closed": "open", "client_packets": 3, "server_packets": 0} | more))


def call(at: float) -> dict[str, Any]:
    """An exchange with an answer."""
    return {
        "site": "here", "protocol": "kafka", "kind": "call", "server_ip": "10.0.0.1", "server_port": 9092,
        "connection": "10.0.0.2:1>10.0.0.1:9092", "incarnation": 0, "time": NOON + timedelta(seconds=at),
    }  # fmt: skip


def recorded(connections: Rows, exchanges: Rows = []) -> dict[str, pa.Table]:  # noqa: B006
    given = {"connections": connections, "exchanges": exchanges}
    schemas = {name: record_tables.schema(name) for name in record_tables.DEFAULT_TABLES}
    return {name: pa.Table.from_pylist(given.get(name, []), schema=schemas[name]) for name in schemas}


def lost(engine: TableEngine) -> Rows:
    known, _ = relations(engine)
    query = bound(engine.dialect, "select * from findings where kind = 'broker_lost'", known)
    rows: Rows = engine.fetch(f"{query} order by time, message").to_pylist()
    return rows


def of(connections: Rows, exchanges: Rows, folder: Path) -> Rows:
    with local_engine(written(recorded(connections, exchanges), folder)) as engine:
        return lost(engine)


IN_USE = [connection(1, 0, 60), connection(2, 0, 60)]
KILLED = [connection(1, 0, 7.8), connection(2, 1, 7.9), connection(3, 2, 8.1), refused(4, 8.3), refused(5, 9.4)]


def test_connections_that_end_at_once_before_refused_attempts_are_a_lost_broker(tmp_path: Path) -> None:
    (row,) = of([*KILLED, connection(9, 0, 60, broker=9093)], [], tmp_path)
    assert row["message"] == (
        "Broker 10.0.0.1:9092 was lost at 12:00:08 UTC: 3 connections ended at once, "
        "and 2 attempts to connect were refused"
    )
    assert row["time"] == NOON + timedelta(seconds=8.1)
    assert (row["severity"], row["protocol"], row["server_ip"], row["server_port"]) == (
        "error", "kafka", "10.0.0.1", 9092,
    )  # fmt: skip
    assert (row["connection"], row["file"], row["packet"]) == ("10.0.0.2:4>10.0.0.1:9092", "a.pcap", 831)
    assert json.loads(row["evidence"]) == {
        "server": "10.0.0.1:9092", "connections": 3, "attempts": 2, "refused": 2, "back_after_s": None,
    }  # fmt: skip


def test_a_broker_that_comes_back_and_goes_again_was_lost_twice(tmp_path: Path) -> None:
    again = [connection(11, 16.6, 30), connection(12, 17, 30.2), refused(13, 30.5)]
    first, second = of([*KILLED, *again], [], tmp_path)
    assert first["message"].endswith("2 attempts to connect were refused, until it answered again after 8.5 s")
    assert json.loads(first["evidence"])["back_after_s"] == 8.5
    assert second["message"].endswith("2 connections ended at once, and 1 attempt to connect was refused")


def test_a_host_that_falls_silent_is_a_lost_broker_since_its_last_answer(tmp_path: Path) -> None:
    quiet = [connection(1, 0, 70, closed="open"), connection(2, 1, 65, closed="open"), silent(3, 40), silent(4, 50)]
    (row,) = of(quiet, [call(5), call(37.5)], tmp_path)
    assert row["message"].endswith("2 connections were in use, and 2 attempts to connect got no answer")
    assert row["time"] == NOON + timedelta(seconds=37.5)


@pytest.mark.parametrize(
    ("connections", "exchanges"),
    [
        pytest.param([*(connection(n, 0, 3 * n) for n in (1, 2, 3)), refused(4, 9.5)], [], id="one by one"),
        pytest.param(KILLED[:3], [], id="nobody comes back"),
        pytest.param([*KILLED, connection(6, 0, 30)], [], id="a connection lives on"),
        pytest.param([*KILLED[:3], refused(4, 60)], [], id="much later"),
        pytest.param([*KILLED[:3], refused(4, 8.3, client_packets=2, server_seq=77)], [], id="it did answer"),
        pytest.param([{**row, "protocol": None} for row in KILLED], [], id="none of our protocols"),
        pytest.param([refused(4, 1), refused(5, 2), *[connection(n, 5, 9) for n in (1, 2)]], [], id="not up yet"),
        pytest.param([KILLED[0], refused(4, 8.3)], [], id="one client"),
        pytest.param([*IN_USE, silent(3, 20), silent(4, 40)], [call(30)], id="others are served"),
        pytest.param([*IN_USE, silent(3, 20)], [], id="one SYN was lost"),
    ],
)
def test_these_are_no_lost_brokers(connections: Rows, exchanges: Rows, tmp_path: Path) -> None:
    assert of(connections, exchanges, tmp_path) == []


def test_the_table_of_findings_and_the_summary_report_it_once(tmp_path: Path) -> None:
    tables = recorded(KILLED)
    with local_engine(written(tables, tmp_path)) as engine:
        (row,) = [row for row in built("findings", engine).to_pylist() if row["kind"] == "broker_lost"]
    assert (row["severity"], row["count"], row["packet"]) == ("error", 1, 831)
    assert [text for text in summary({name: tables[name] for name in SUMMARY_TABLES}).wrong if "lost" in text] == [
        row["message"]
    ]


def test_two_capture_points_lose_a_broker_once(tmp_path: Path) -> None:
    there = [{**row, "site": "there"} for row in KILLED]
    assert len(of([*KILLED, *there], [], tmp_path)) == 1


def test_both_engines_report_the_same(spark: Any, tmp_path: Path) -> None:
    again = [connection(11, 16.6, 30), connection(12, 17, 30.2), refused(13, 30.5)]
    quiet = [connection(1, 0, 70, broker=9), connection(2, 1, 65, broker=9)]
    quiet += [silent(3, 40, broker=9), silent(4, 50, broker=9)]
    folder = written(recorded([*KILLED, *again, *quiet], [call(5)]), tmp_path)
    with local_engine(folder) as one, spark_engine(spark, folder) as other:
        found = lost(one)
        assert len(found) == 3
        assert found == lost(other)


@needs_captures
@pytest.mark.parametrize(
    ("protocol", "name", "broker"),
    [
        ("kafka", "nw-kill-veth.pcap", "10.74.0.1:9102"),  # killed by SIGKILL
        ("kafka", "nw-kill-lo.pcap", "10.74.0.1:9102"),
        ("kafka", "cluster3-any-failover.pcap", "10.71.0.1:9093"),  # the active controller, stopped
        ("kafka", "cluster3-any-replication.pcap", None),
        ("kafka", "zk282-any-cluster.pcap", None),
        ("kafka", "rdk-group-two.pcap", None),
        ("pulsar", "unload_java.pcap", None),
        ("iggy", "c9-dev-cluster.pcap", None),
    ],
)
def test_of_real_captures_those_in_which_a_broker_went_away(
    protocol: str, name: str, broker: str | None, tmp_path: Path
) -> None:
    path = captures(protocol) / name
    if not path.exists():
        pytest.skip("not among the captures")
    tables = dissectors.dissect([path], tables=record_tables.DEFAULT_TABLES)
    with local_engine(written(tables, tmp_path)) as engine:
        found = lost(engine)
    assert [json.loads(row["evidence"])["server"] for row in found] == ([broker] if broker else [])
