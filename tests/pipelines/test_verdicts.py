"""What is wrong: of records that are made up, so that one thing is and no other."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dissectors
from dissectors import findings
from dissectors.records import schema
from pipelines.answers.records import Relations, database_of, empty
from pipelines.formats import who
from pipelines.tables.on_duckdb import LocalEngine
from pipelines.tables.table import RECORDS
from pipelines.tables.verdicts import SCHEMA, engine, verdict
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import Check, worth_asking
from pipelines.tables.verdicts.engine import judged
from pipelines.tables.verdicts.kinds import KINDS, SEVERITIES
from tests.captures import captures, needs_captures

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MS, SECOND = 1_000_000, 1_000_000_000
Row = dict[str, Any]
Rows = list[Row]


def made_of(given: dict[str, Rows]) -> dict[str, pa.Table]:
    """Record tables of rows; those that are not given are empty."""
    return {name: pa.Table.from_pylist(given.get(name, []), schema=schema(name)) for name in RECORDS}


def harmed(**given: Rows) -> Rows:
    """The impacts of records."""
    with database_of(made_of(given), only_ours=True) as duckdb:
        return judged(duckdb).impacts.to_pylist()  # type: ignore[no-any-return]


def said(**given: Rows) -> Rows:
    """The verdicts on records; tables that are not given are empty.

    Of every second number of rows they are asked for as `summary` does: it is said which tables are empty. Checks that
    would be left out are asked as well then, one in 24, which by how many rows there are: they tell nothing.
    """
    tables, count = made_of(given), sum(map(len, given.values()))

    def some(capture: Capture, checks: Sequence[Check]) -> list[Check]:
        worth = worth_asking(capture, checks)
        return [check for n, check in enumerate(checks, count // 2) if n % 24 == 0 or check in worth]

    with database_of(tables, only_ours=True) as duckdb:
        if count % 2:
            return judged(duckdb).verdicts.to_pylist()  # type: ignore[no-any-return]
        with patch.object(engine, "worth_asking", some):
            return judged(duckdb, empty(tables)).verdicts.to_pylist()  # type: ignore[no-any-return]


def kinds(**given: Rows) -> list[tuple[str, str]]:
    """(kind, severity) of the verdicts on records."""
    return [(row["kind"], row["severity"]) for row in said(**given)]


def place(at: float, port: int = 1, broker: int = 9092) -> Row:
    """Where and when something is, `at` seconds after noon."""
    return {
        "site": "here", "protocol": "kafka", "connection": f"10.0.0.2:{port}>10.0.0.1:{broker}", "incarnation": 0,
        "client_ip": "10.0.0.2", "client_port": port, "server_ip": "10.0.0.1", "server_port": broker,
        "time": NOON + timedelta(seconds=at),
    }  # fmt: skip


def call(at: float, **more: Any) -> Row:
    """An exchange that was answered within a millisecond."""
    api = more.get("api", "Produce")
    where = place(at, more.pop("port", 1), more.pop("broker", 9092))
    return {
        **where, "kind": "call", "api": api, "status": "ok", "client_id": "payer", "total_ns": MS, "wait_ns": MS,
        "exchange_id": f"{api}-{at}", "complete": True, "request_file": "a.pcap", "request_packet": int(at * 100) + 1,
        "topics": ["orders"],
    } | more  # fmt: skip


def error(of: Row, name: str, **more: Any) -> Row:
    """An error in the answer to a call."""
    shared = {key: value for key, value in of.items() if key in schema("errors").names}
    return {**shared, "name": name, "code": 1, "scope": "partition", "topic": "orders", "retriable": True, **more}


def connection(port: int = 1, start: float = 0, end: float = 100, **more: Any) -> Row:
    """A whole connection that the broker answered, from `start` to `end` seconds after noon."""
    where = place(start, port, more.pop("broker", 9092))
    where["start_time"], where["end_time"] = where.pop("time"), NOON + timedelta(seconds=end)
    return {
        **where, "handshake": "full", "closed": "reset", "client_packets": 20, "server_packets": 20,
        "client_bytes": 1000, "server_bytes": 1000, "client_seq": port, "server_seq": port + 1, "frames": 10,
        "framed_bytes": 2000, "skipped_bytes": 0, "pending_bytes": 0, "gaps": 0, "gap_bytes": 0, "retransmissions": 0,
        "zero_windows": 0, "file": "a.pcap", "packet": int(start * 100) + 1,
        "duration_ns": int((end - start) * SECOND),
    } | more  # fmt: skip


def refused(port: int, at: float, **more: Any) -> Row:
    """An attempt to connect that only a reset answered."""
    attempt = {
        "protocol": None, "handshake": "partial", "client_packets": 1, "server_packets": 1, "client_bytes": 0,
        "server_bytes": 0, "server_seq": None, "frames": 0, "framed_bytes": 0,
    }  # fmt: skip
    return connection(port, at, at, **(attempt | more))


def silent(port: int, at: float, **more: Any) -> Row:
    """One that nothing answered, though its SYN was repeated."""
    return refused(port, at, **({"closed": "open", "client_packets": 3, "server_packets": 0} | more))


def stall(at: float, ns: int, kind: str = "resend_timeout", direction: str = "client", **more: Any) -> Row:
    """A time in which a sender waited until it sent bytes again that were lost."""
    return place(at) | {"kind": kind, "direction": direction, "duration_ns": ns, "file": "a.pcap", "packet": 1} | more


AT_ONCE = {"request_ns": 0, "response_ns": 0}
"""Of an exchange whose request and answer are one packet each: all of its time is the wait between them."""


def answered(at: float, **more: Any) -> Row:
    """An exchange whose answer has the packet of what `finding` gives."""
    return call(at, response_file="a.pcap", response_packet=7, **more)


def event(kind: str, of: Row, **more: Any) -> Row:
    """An event that a frame of an exchange says."""
    shared = {key: value for key, value in of.items() if key in schema("events").names}
    return {**shared, "kind": kind, "file": "a.pcap", "packet": 7, "direction": "server"} | more


# --- the table itself ------------------------------------------------------------------------------------------------


def test_nothing_is_wrong_with_nothing_and_with_quick_answers() -> None:
    assert said() == []
    assert said(exchanges=[call(n) for n in range(5)], connections=[connection()]) == []


def test_what_has_no_rows_is_not_asked_for() -> None:
    """Of a healthy capture: how many exchanges it has, whether checks have anything to tell, and the views for that."""
    asked = queries({"exchanges": [call(n) for n in range(5)], "connections": [connection()]})
    assert not [query for query in asked if re.search(r"\b(errors|findings|positions|batches)\b", query)]
    count, needs = (query for query in asked if query.startswith("select"))
    assert count == "select count(*) from exchanges"
    assert needs.startswith("select * from (select count(*) filter")


def test_a_group_that_started_at_once_costs_no_table_of_rebalances() -> None:
    started = {"exchanges": rounds(1, took=0.3), "connections": [connection()]}
    assert not [query for query in queries(started) if "v_rebalances" in query]


def queries(given: dict[str, Rows]) -> list[str]:
    """What is asked of a database of these records for verdicts."""
    tables: Relations = {n: pa.Table.from_pylist(given.get(n, []), schema=schema(n)) for n in RECORDS}
    with database_of(tables) as duckdb:
        watched = Mock(wraps=duckdb)
        judged(watched, empty(tables))
    return [call.args[0] for call in watched.execute.call_args_list]


def test_a_verdict_counts_the_rows_that_it_names() -> None:
    held_back = [call(n, throttle_ms=400 + n) for n in range(3)]
    (row,) = said(exchanges=[*held_back, call(9)], connections=[connection()])
    assert list(row) == SCHEMA.names
    assert (row["rank"], row["kind"], row["severity"]) == (1, "throttled", "warning")
    assert row["sentence"] == "A quota of the broker throttled payer on 10.0.0.2: 3 times, for up to 402 ms."
    assert (row["count"], row["cost_ns"]) == (3, (400 + 401 + 402) * MS)
    assert [one["exchange_id"] for one in row["evidence"]] == [one["exchange_id"] for one in held_back]
    assert row["clients"] == ["10.0.0.2 payer"]
    assert (row["servers"], row["topics"], row["groups"]) == (["10.0.0.1:9092"], ["orders"], [])
    assert row["first_time"] == NOON


def test_a_fleet_is_counted_by_ids_and_by_hosts_also_beyond_the_names_that_a_row_lists() -> None:
    throttled = [
        call(n / 10, throttle_ms=200, client_id=f"producer-{n % 16}", client_ip=f"10.1.0.{n}") for n in range(132)
    ]
    (row,) = said(exchanges=throttled, connections=[connection()])
    assert "throttled 16 client ids on 132 hosts: 132 times" in row["sentence"]
    assert (row["client_ids"], row["client_hosts"]) == (16, 132)
    assert (len(row["clients"]), len(row["addresses"])) == (20, 20)
    assert row["addresses"][0] == "10.1.0.0"


@pytest.mark.parametrize(
    ("clients", "said_of"),
    [
        ([], ""),
        (["10.0.0.7 billing"], "billing on 10.0.0.7"),
        (["10.0.0.7 billing", "10.0.0.7"], "billing on 10.0.0.7"),
        (["10.0.0.7 a", "10.0.0.7 b"], "a and b on 10.0.0.7"),
        (["10.0.0.7 a", "10.0.0.8 b"], "a on 10.0.0.7 and b on 10.0.0.8"),
        (["10.0.0.7 a", "10.0.0.8 a"], "a on 2 hosts"),
        (["10.0.0.7 a", "10.0.0.8"], "a on 10.0.0.7 and 10.0.0.8"),
        (["10.0.0.7 a", "10.0.0.7 b", "10.0.0.7 c"], "3 client ids on 10.0.0.7"),
        (["10.0.0.7", "10.0.0.8"], "10.0.0.7 and 10.0.0.8"),
        (["10.0.0.7", "10.0.0.8", "10.0.0.9"], "3 client hosts"),
        (["10.0.0.7 3"], "client 3 on 10.0.0.7"),
    ],
)
def test_a_client_is_an_id_and_an_address(clients: list[str], said_of: str) -> None:
    assert who.clients(who.of(clients)) == said_of


def test_the_worst_come_first_and_what_costs_more_before_what_costs_less() -> None:
    slow = [call(1, total_ns=2 * SECOND, wait_ns=2 * SECOND), call(2, api="Metadata", total_ns=9 * SECOND, wait_ns=9)]
    batch = {**place(3), "role": "produce", "verdict": "bad", "file": "a.pcap", "packet": 9, "topic": "orders"}
    batch |= {"format": "magic 2", "stream_offset": 3}
    rows = said(exchanges=slow, connections=[connection()], batches=[batch])
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert [row["kind"] for row in rows] == ["bad_checksum", "slow_requests", "slow_requests", "not_idempotent"]
    assert "Metadata" in rows[1]["sentence"]


def test_severities_of_kinds_are_known_and_each_kind_says_what_to_do() -> None:
    for kind in KINDS.values():
        assert kind.severity in SEVERITIES
        assert kind.meaning.endswith(".")
        assert kind.advice.endswith(".")


UNANSWERED = {"kind": "unanswered", "status": "unknown", "total_ns": None, "wait_ns": None}

# --- answers ---------------------------------------------------------------------------------------------------------


def test_an_error_that_a_retry_healed_is_a_note_and_says_after_how_long() -> None:
    failed = call(1, status="error")
    (row,) = said(
        exchanges=[failed, call(1.25)], errors=[error(failed, "NOT_LEADER_OR_FOLLOWER")], connections=[connection()]
    )
    assert (row["kind"], row["severity"]) == ("errors", "note")
    assert "failed once with NOT_LEADER_OR_FOLLOWER; the same batches were stored after 251 ms" in row["sentence"]


def refused_at_500(name: str, read_from: int) -> Rows:
    """What is said of a reader whose position 500 was refused, and that read on elsewhere a second later."""
    failed, later = call(1, status="error", api="Fetch"), call(2, api="Fetch")
    stated = [
        place(at) | {"what": "fetch", "topic": "orders", "partition": 0, "value": offset, "client_id": "payer",
                     "exchange_id": of["exchange_id"]}
        for at, offset, of in ((1, 500, failed), (2, read_from, later))
    ]  # fmt: skip
    errors = [error(failed, name, partition=0, retriable=False)]
    return said(exchanges=[failed, later], errors=errors, positions=stated, connections=[connection()])


def test_a_reader_of_a_topic_that_was_made_anew_reads_on_at_any_offset() -> None:
    assert "a retry succeeded" in refused_at_500("UNKNOWN_TOPIC_ID", 0)[0]["sentence"]
    assert "no later attempt succeeded" in refused_at_500("KAFKA_STORAGE_ERROR", 0)[0]["sentence"]


@pytest.mark.parametrize(("read_from", "severity"), [(0, "warning"), (700, "note")])
def test_a_reader_whose_offset_is_behind_the_end_of_the_log_goes_back(read_from: int, severity: str) -> None:
    (row,) = refused_at_500("OFFSET_OUT_OF_RANGE", read_from)
    assert (row["kind"], row["severity"]) == ("errors", severity)
    assert ("it went back by 500 offsets and read on there" in row["sentence"]) == (read_from == 0)


def test_errors_that_healed_one_by_one_took_as_long_as_the_slowest_of_them() -> None:
    failed = [call(n, status="error", exchange_id=f"abc-c{n}") for n in (1, 5)]
    (row,) = said(
        exchanges=[*failed, call(1.25), call(5.5)],
        errors=[error(one, "NOT_LEADER_OR_FOLLOWER") for one in failed],
        connections=[connection()],
    )
    assert "failed twice with NOT_LEADER_OR_FOLLOWER; the same batches were stored after 501 ms" in row["sentence"]


def test_a_client_that_was_out_for_seconds_before_a_retry_succeeded_is_a_warning() -> None:
    failed = [call(1 + n, status="error", exchange_id=f"abc-c{n}") for n in range(4)]
    errors = [error(one, "NOT_LEADER_OR_FOLLOWER") for one in failed]
    (row,) = said(exchanges=[*failed, call(6)], errors=errors, connections=[connection()])
    assert (row["kind"], row["severity"]) == ("errors", "warning")
    assert (
        "failed 4 times with NOT_LEADER_OR_FOLLOWER, for 5.00 s, until the same batches were stored." in row["sentence"]
    )


def test_a_batch_waits_from_when_it_was_sent_first_not_from_the_error() -> None:
    failed = call(1, status="error", total_ns=30 * SECOND)
    timed_out = error(failed | {"time": NOON + timedelta(seconds=31)}, "REQUEST_TIMED_OUT")
    rows = said(exchanges=[failed, call(31.2)], errors=[timed_out], connections=[connection()])
    (row,) = [row for row in rows if row["kind"] == "errors"]
    assert "failed once with REQUEST_TIMED_OUT, for 30.2 s, until the same batches were stored." in row["sentence"]


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([], id="nothing came after"),
        pytest.param([call(2, topics=["other"])], id="another topic"),
        pytest.param([call(2, client_id="other")], id="another client"),
        pytest.param([call(0.5)], id="it worked before"),
    ],
)
def test_an_error_that_nothing_healed_is_a_warning(later: Rows) -> None:
    failed = call(1, status="error")
    errors = [error(failed, "NOT_LEADER_OR_FOLLOWER")]
    assert kinds(exchanges=[failed, *later], errors=errors, connections=[connection()]) == [("errors", "warning")]


def test_of_an_error_just_before_the_end_of_a_capture_it_is_not_said_that_nothing_healed_it() -> None:
    failed = call(1, status="error")
    ends = [connection(end=1.5)]
    (row,) = said(exchanges=[failed], errors=[error(failed, "NOT_LEADER_OR_FOLLOWER")], connections=ends)
    assert row["severity"] == "note"
    assert row["sentence"].endswith("NOT_LEADER_OR_FOLLOWER; the capture ends 500 ms later, perhaps before a retry.")
    for_good = error(failed, "MESSAGE_TOO_LARGE", retriable=False)
    assert kinds(exchanges=[failed], errors=[for_good], connections=ends) == [("errors", "warning")]


@pytest.mark.parametrize(("name", "messages"), [("MESSAGE_TOO_LARGE", 3), ("NOT_LEADER_OR_FOLLOWER", 1)])
def test_messages_alike_are_as_many_as_were_sent_where_no_client_sends_one_again(name: str, messages: int) -> None:
    """Of one millisecond and one size: what is refused for its size is another each time, a retry is the same."""
    failed = [call(at, status="error") for at in (1, 1.2, 1.4)]
    sent = [
        batch(at, outcome="error", records=1, exchange_id=f"Produce-{at}", first_timestamp=NOON, max_timestamp=NOON)
        for at in (1, 1.2, 1.4)
    ]
    errors = [error(each, name, retriable=name == "NOT_LEADER_OR_FOLLOWER", partition=0) for each in failed]
    (row,) = (
        row
        for row in said(exchanges=failed, errors=errors, batches=sent, connections=[connection()])
        if row["kind"] == "errors"
    )
    assert f"{messages} message" in row["sentence"], row["sentence"]


def test_where_bytes_are_missing_an_error_is_no_warning() -> None:
    failed = call(1, status="error")
    holed = connection(gaps=1, gap_bytes=1)
    found = kinds(exchanges=[failed], errors=[error(failed, "NOT_LEADER_OR_FOLLOWER")], connections=[holed])
    assert ("errors", "note") in found


@pytest.mark.parametrize(
    ("name", "kind", "severity"),
    [
        ("SASL_AUTHENTICATION_FAILED", "auth_refused", "warning"),
        ("TOPIC_AUTHORIZATION_FAILED", "not_authorized", "warning"),
        ("PRODUCER_FENCED", "producer_fenced", "warning"),
        ("CORRUPT_MESSAGE", "refused_as_corrupt", "critical"),
        ("TOPIC_ALREADY_EXISTS", "errors", "note"),
    ],
)
def test_errors_have_the_kind_of_what_they_say(name: str, kind: str, severity: str) -> None:
    failed = call(1, status="error")
    errors = [error(failed, name, retriable=False)]
    assert kinds(exchanges=[failed], errors=errors, connections=[connection()]) == [(kind, severity)]


def test_requests_of_which_nothing_is_known_have_verdicts_without_none() -> None:
    nothing = {"api": None, "client_id": None, "topics": None}
    failed = call(1, status="error", **nothing)
    slow = call(2, total_ns=3 * SECOND, wait_ns=3 * SECOND, **nothing)
    rows = said(
        exchanges=[failed, slow, call(3, **nothing, **UNANSWERED)],
        errors=[error(failed, "X", topic=None, api=None, retriable=None)],
        connections=[connection()],
    )
    assert sorted(row["kind"] for row in rows) == ["closed_unanswered", "errors", "slow_requests"]
    assert not any("None" in row["sentence"] for row in rows)


def test_an_error_that_is_part_of_normal_work_is_no_verdict() -> None:
    failed = call(1, status="error", api="JoinGroup")
    errors = [error(failed, "MEMBER_ID_REQUIRED", expected=True)]
    assert said(exchanges=[failed], errors=errors, connections=[connection()]) == []


def test_a_request_without_an_answer_is_told_where_the_capture_would_hold_one() -> None:
    lost = call(10, **UNANSWERED)
    assert kinds(exchanges=[lost], connections=[connection(closed="open")]) == [("unanswered", "warning")]
    assert kinds(exchanges=[lost], connections=[connection()]) == [("closed_unanswered", "warning")]
    assert ("unanswered", "warning") not in kinds(exchanges=[lost], connections=[connection(gaps=1, gap_bytes=9)])
    one_way = connection(server_packets=0, server_bytes=0)
    assert {kind for kind, _ in kinds(exchanges=[lost], connections=[one_way])} == {"one_direction"}


def test_a_client_that_closes_with_its_own_fetch_outstanding_is_normal() -> None:
    for api in ("Fetch", "Metadata", "ShareFetch"):
        assert said(exchanges=[call(99, api=api, **UNANSWERED)], connections=[connection(end=101)]) == []


def test_a_question_that_a_broker_left_open_for_as_long_as_a_client_waits_has_no_answer() -> None:
    asked = [call(60, api="ApiVersions", **UNANSWERED), call(1, port=2)]
    frozen = connection(1, 60, 90, closed="open", closed_by="client", server_bytes=0)  # its host acknowledges, no more
    (row,) = said(exchanges=asked, connections=[frozen, connection(2)])
    assert (
        row["sentence"]
        == "1 request has no answer: ApiVersions of payer on 10.0.0.2 for topic orders to 10.0.0.1:9092."
    )


@pytest.mark.parametrize(
    ("acks", "replicas", "waits"),
    [(-1, ["1", "2"], True), (-1, ["1"], False), (1, ["1", "2"], False), (None, ["1", "2"], False)],
)
def test_a_slow_produce_that_waits_for_replicas_leads_to_their_brokers_too(
    acks: int | None, replicas: list[str], waits: bool
) -> None:
    long = {"total_ns": 4 * SECOND, "wait_ns": 4 * SECOND, "acks": acks}
    led = {**place(0.5), "what": "leader", "topic": "orders", "partition": 0, "replicas": replicas}
    of_groups = led | {"topic": "__consumer_offsets", "replicas": ["1", "2", "3"]}
    (row,) = said(exchanges=[call(1, **long)], connections=[connection()], positions=[led, of_groups])
    assert ("acks=all" in row["advice"]) == waits


def test_a_wait_for_other_members_is_not_slow() -> None:
    long = {"total_ns": 4 * SECOND, "wait_ns": 4 * SECOND, "topics": None}
    assert kinds(exchanges=[call(1, **long)], connections=[connection()]) == [("slow_requests", "warning")]
    for more in ({"api": "JoinGroup"}, {"api": "Fetch", "long_poll": True}, {"throttle_ms": 4000}):
        found = kinds(exchanges=[call(1, **{**long, **more})], connections=[connection()])
        assert "slow_requests" not in [kind for kind, _ in found]


@pytest.mark.parametrize(
    ("times", "rhythm"),
    [
        ((10, 11, 40, 69, 100), "They came in 4 bursts, one every 30.0 s or so."),
        ((10, 20, 90, 100), ""),  # they come when they like
        ((10, 40, 70), ""),  # three may be chance
        ((10, 14, 18, 22, 26), ""),  # one after the other
    ],
)
def test_requests_that_are_slow_at_even_distances_show_a_rhythm(times: tuple[int, ...], rhythm: str) -> None:
    slow = [call(at, total_ns=2 * SECOND, wait_ns=2 * SECOND, **AT_ONCE) for at in times]
    (row,) = said(exchanges=slow, connections=[connection()])
    assert row["detail"] == f"100 % of their time went to the broker. {rhythm}".strip()
    assert "garbage collection" in row["advice"]


def test_a_slow_request_names_the_broker_or_what_else_took_most_of_its_time() -> None:
    def told(stalls: Rows, **durations: int) -> Any:
        slow = call(1, api="Fetch", total_ns=4 * SECOND, request_ns=0, **durations)
        return said(exchanges=[slow], connections=[connection()], stalls=stalls)[0]["sentence"]

    shut = [stall(1, 4 * SECOND, "zero_window", "server")]
    took = "1 Fetch request of payer on 10.0.0.2 took 4.00 s"
    where = "at 10.0.0.1:9092; most of that was the broker's own time."
    assert told([], wait_ns=4 * SECOND, response_ns=0) == f"{took} {where}"
    sent = "most of that went to the transfer of the answer."
    assert told([], wait_ns=MS, response_ns=4 * SECOND - MS) == f"{took}; {sent}"
    unread = "most of that went to a receiver that did not read (a window of zero)."
    assert told(shut, wait_ns=MS, response_ns=4 * SECOND - MS) == f"{took}; {unread}"


@pytest.mark.parametrize(
    ("rtt_ms", "pace"),
    [(80, "In a round trip of 80.0 ms, 64.0 KiB of an answer came."), (1, ""), (1001, "")],  # a SYN that was lost
)
def test_of_answers_that_come_from_afar_it_is_said_how_much_comes_in_a_round_trip(rtt_ms: int, pace: str) -> None:
    slow = call(1, api="Fetch", total_ns=4 * SECOND, request_ns=0, wait_ns=0, response_ns=4 * SECOND)
    slow["response_bytes"] = 50 * (64 << 10)
    rows = said(exchanges=[slow], connections=[connection(rtt_ns=rtt_ms * MS)])
    (row,) = [row for row in rows if row["kind"] == "slow_requests"]
    assert row["detail"] == f"100 % of its time went to the transfer of the answer. {pace}".strip()


def test_a_window_is_told_from_when_it_was_closed_until_it_was_open_again() -> None:
    shut = stall(20, 5 * SECOND, "zero_window", "server")
    (row,) = said(exchanges=[call(1)], connections=[connection(end=60, zero_windows=3)], stalls=[shut])
    assert row["sentence"].endswith("announced a TCP window of zero 3 times.")
    assert (row["kind"], row["detail"]) == ("zero_window", None)
    assert (row["first_time"], row["last_time"]) == (shut["time"], shut["time"] + timedelta(seconds=5))


def test_retransmissions_are_told_where_they_delayed_a_request() -> None:
    usual = [call(n) for n in range(20)]
    late = call(30, retransmitted=True, total_ns=230 * MS, wait_ns=230 * MS, **AT_ONCE)
    resent = stall(30, 200 * MS)
    waited = said(exchanges=[*usual, late], connections=[connection(retransmissions=1)], stalls=[resent])
    assert [row["kind"] for row in waited] == ["retransmissions"]
    assert waited[0]["cost_ns"] == 200 * MS
    quick = late | {"total_ns": 2 * MS, "wait_ns": 2 * MS}
    assert "retransmissions" not in dict(
        kinds(exchanges=[*usual, quick], connections=[connection(retransmissions=1)], stalls=[stall(30, 1 * MS)])
    )
    for needless in ([], [resent | {"spurious": True}], [resent | {"kind": "zero_window"}]):
        assert "retransmissions" not in dict(
            kinds(exchanges=[*usual, late], connections=[connection(retransmissions=1)], stalls=needless)
        )


@pytest.mark.parametrize("kind", ["resend_timeout", "fast_retransmit"])
def test_bytes_lost_behind_the_capture_point_delay_an_answer_that_seemed_to_be_over(kind: str) -> None:
    answers = [call(n, total_ns=5 * MS, wait_ns=5 * MS, **AT_ONCE) for n in range(3)]
    lost = stall(1.003, 160 * MS, kind, "server")
    (row,) = said(exchanges=answers, connections=[connection(retransmissions=1)], stalls=[lost])
    assert (row["kind"], row["count"], row["cost_ns"]) == ("retransmissions", 1, 158 * MS)
    assert "took 163 ms" in row["sentence"]


AWAY: Row = {"server_ip": "10.0.0.9", "connection": "10.0.0.2:9>10.0.0.9:9092"}
LONG = {"total_ns": 30 * MS, "wait_ns": 30 * MS, "request_bytes": 2_000, **AT_ONCE}


@pytest.mark.parametrize(
    ("rtt_ns", "more", "stalls", "told"),
    [
        pytest.param(MS, {}, [], True, id="the broker itself"),
        pytest.param(MS, {"request_bytes": 16_000}, [], True, id="batches that a slow broker lets grow"),
        pytest.param(29 * MS, {}, [], False, id="a broker that is far away"),
        pytest.param(1001 * MS, {}, [], True, id="whose first SYN was lost"),
        pytest.param(MS, {"request_bytes": 300_000}, [], False, id="requests that are much larger"),
        pytest.param(MS, {}, [stall(n, 29 * MS, **AWAY) for n in range(100)], False, id="lost packets"),
    ],
)
def test_a_broker_is_slower_than_others_by_its_own_time_only(rtt_ns: int, more: Row, stalls: Rows, told: bool) -> None:
    usual = [call(n, request_bytes=200) for n in range(100)]
    there = [call(n, port=9, **AWAY | LONG | more, exchange_id=f"far-{n}") for n in range(100)]
    wires = [connection(rtt_ns=MS // 10), connection(9, rtt_ns=rtt_ns, **AWAY)]
    rows = said(exchanges=[*usual, *there], connections=wires, stalls=stalls)
    assert [row["servers"] for row in rows if row["kind"] == "uneven_broker"] == [["10.0.0.9:9092"]] * told


@pytest.mark.parametrize(("quick_ms", "advice"), [(28, "network"), (1, "disks")])
def test_a_broker_of_which_nothing_is_quick_may_have_a_longer_path(quick_ms: int, advice: str) -> None:
    usual = [call(n) for n in range(100)]
    there = [call(n, port=9, **AWAY | LONG, exchange_id=f"far-{n}") for n in range(100)]
    quick = call(50, port=9, api="Heartbeat", **AWAY | LONG | {"total_ns": quick_ms * MS, "wait_ns": quick_ms * MS})
    rows = said(exchanges=[*usual, *there, quick], connections=[connection(), connection(9, **AWAY)])
    ((sentence, advised),) = [(row["sentence"], row["advice"]) for row in rows if row["kind"] == "uneven_broker"]
    assert sentence.endswith(", and even the fastest of any kind 28.0 ms since then.") == (quick_ms == 28)
    assert advice in advised


def test_a_client_that_mostly_waits_for_a_while_is_no_slow_tail() -> None:
    def told(**late: Any) -> list[tuple[str, str]]:
        usual = [call(n / 2) for n in range(200)]
        slow = [call(200 + n, **AT_ONCE | {"total_ns": 900 * MS, "wait_ns": 900 * MS} | late) for n in range(30)]
        rows = said(exchanges=[*usual, *slow], connections=[connection(end=230)])
        return [(row["severity"], row["sentence"]) for row in rows if row["kind"] == "slow_tail"]

    ((severity, sentence),) = told()
    assert severity == "warning"
    assert "From 12:03:20 to 12:03:49, 30 of 30 requests of payer on 10.0.0.2 took up to 900 ms at" in sentence
    assert "in place of 1.00 ms: Produce." in sentence
    assert [severity for severity, _ in told(total_ns=90 * MS, wait_ns=90 * MS)] == ["note"]  # it mostly does not wait


# --- brokers ---------------------------------------------------------------------------------------------------------

IN_USE = [connection(1, 0, 60), connection(2, 0, 60)]
KILLED = [connection(1, 0, 7.8), connection(2, 1, 7.9), connection(3, 2, 8.1), refused(4, 8.3), refused(5, 9.4)]
STOPPED = [connection(1, 0, 8), connection(2, 1, 9.5), refused(4, 11, broker=9093), refused(5, 12, broker=9093)]


def lost(connections: Rows, exchanges: Rows = []) -> Rows:  # noqa: B006
    return [row for row in said(connections=connections, exchanges=exchanges) if row["kind"] == "broker_lost"]


def test_connections_that_end_at_once_before_refused_attempts_are_a_lost_broker() -> None:
    (row,) = lost([*KILLED, connection(9, 0, 60, broker=9093)])
    assert row["sentence"] == "Broker 10.0.0.1:9092 was lost at 12:00:07 and did not come back in the capture."
    assert (row["severity"], row["protocol"], row["count"]) == ("critical", "kafka", 5)
    assert [link["text"] for link in row["chain"]] == [
        "3 connections to it end", "first of 2 attempts to connect to :9092, refused",
    ]  # fmt: skip


def test_a_broker_that_is_stopped_in_order_is_lost_also_where_another_port_is_refused() -> None:
    (row,) = lost(STOPPED)
    assert row["sentence"] == "Broker 10.0.0.1:9092 was stopped at 12:00:08 and did not come back in the capture."
    assert row["severity"] == "warning"


def test_a_lost_broker_says_for_how_long_its_clients_could_not_produce() -> None:
    calls = [call(n / 10) for n in range(1, 78)] + [call(16 + n / 10, broker=9093, port=9) for n in range(20)]
    (row,) = lost([*KILLED, connection(9, 15, 60, broker=9093)], calls)
    assert "payer on 10.0.0.2 could not produce for 8.30 s" in row["sentence"]
    assert row["cost_ns"] == 8_300 * MS
    assert row["chain"][-1]["text"] == "Produce of payer on 10.0.0.2 is answered again, after 8.30 s"


def test_a_broker_that_comes_back_and_goes_again_was_lost_twice() -> None:
    again = [connection(11, 26.6, 40), connection(12, 27, 40.2), refused(13, 40.5)]
    first, second = sorted(lost([*KILLED, *again]), key=lambda row: str(row["first_time"]))
    assert first["sentence"].endswith("and answered again after 18.8 s.")
    assert "at 12:00:40 and did not come back" in second["sentence"]


def test_a_host_that_falls_silent_is_a_lost_broker_since_its_last_answer() -> None:
    quiet = [connection(1, 0, 70, closed="open"), connection(2, 1, 65, closed="open"), silent(3, 40), silent(4, 50)]
    (row,) = lost(quiet, [call(5), call(37.5)])
    assert "fell silent at 12:00:37" in row["sentence"]


@pytest.mark.parametrize(
    ("connections", "exchanges"),
    [
        pytest.param([*(connection(n, 0, 10 * n) for n in (1, 2, 3)), refused(4, 30.5)], [], id="one by one"),
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
def test_these_are_no_lost_brokers(connections: Rows, exchanges: Rows) -> None:
    assert lost(connections, exchanges) == []


def test_what_a_lost_broker_explains_is_not_told_again() -> None:
    met = call(7.7, **UNANSWERED)
    reset = [connection(port, 0, 7.9, reset_by="server") for port in range(6, 12)]
    (row,) = said(connections=[*KILLED, *reset], exchanges=[met, call(1)])
    assert row["kind"] == "broker_lost"


VAIN: Row = {"kind": "undelivered", "segment_bytes": 1200, "delivered_segment_bytes": 700}


def test_what_was_sent_in_vain_to_a_host_that_fell_silent_is_no_matter_of_the_path() -> None:
    quiet = [connection(1, 0, 70, closed="open"), connection(2, 1, 65, closed="open"), silent(3, 40), silent(4, 50)]
    rows = said(connections=quiet, exchanges=[call(5), call(37.5)], stalls=[stall(38, 12 * SECOND, **VAIN)])
    assert [row["kind"] for row in rows] == ["broker_lost"]


def test_size_is_why_segments_are_lost_only_where_something_of_their_receiver_arrives_meanwhile() -> None:
    vain = {"connections": [connection(client_undelivered_bytes=1200)], "stalls": [stall(10, 20 * SECOND, **VAIN)]}
    (small,) = said(**vain, exchanges=[call(5), call(15)])
    assert "in segments of 1,200 bytes and more" in small["sentence"]
    (none,) = said(**vain, exchanges=[call(5)])
    assert none["sentence"].endswith("never acknowledged them; nothing else came from 10.0.0.1:9092 afterwards.")
    assert none["advice"].startswith("Look whether the receiver was up")


def test_connections_that_are_reset_at_the_first_request_after_a_long_silence_were_forgotten_on_their_way() -> None:
    def met(many: int) -> Row:
        used = [call(n / 10, port=n) for n in range(1, many + 1)]
        late = [call(62 + n / 10, port=n, **UNANSWERED) for n in range(1, many + 1)]
        reset = [connection(n, 0, 62.05 + n / 10, closed_by="server", reset_by="server") for n in range(1, many + 1)]
        return next(r for r in said(exchanges=[*used, *late, call(90, port=99)], connections=[*reset, connection(99)]))

    row = met(6)
    assert row["sentence"] == (
        "6 of 7 connections of payer on 10.0.0.2 to 10.0.0.1:9092 were reset within 500 ms, by the brokers, each after "
        "62.0 s of silence or more."
    )
    assert row["advice"].startswith("Look for a firewall")
    row = met(2)
    assert row["sentence"].startswith("10.0.0.1:9092 reset the connection after 62.0 s of silence instead of an answer")
    assert row["advice"].startswith("Look for a firewall")


def test_a_refused_connect_without_a_broker_that_went_is_told_as_such() -> None:
    assert kinds(connections=[refused(4, 1)]) == [("connect_refused", "warning")]
    assert kinds(connections=[silent(4, 1)]) == [("connect_silent", "warning")]


@needs_captures
@pytest.mark.parametrize(
    ("protocol", "name", "brokers"),
    [
        ("kafka", "nw-kill-veth.pcap", ["10.74.0.1:9102"]),  # killed by SIGKILL
        ("kafka", "cluster3-any-failover.pcap", ["10.71.0.1:9092", "10.71.0.1:9093"]),  # stopped by SIGTERM
        ("kafka", "cluster3-any-replication.pcap", None),
        ("kafka", "zk282-any-cluster.pcap", None),
        ("kafka", "rdk-group-two.pcap", None),
        ("pulsar", "unload_java.pcap", None),
        ("iggy", "c9-dev-cluster.pcap", None),
    ],
)
def test_of_real_captures_those_in_which_a_broker_went_away(
    protocol: str, name: str, brokers: list[str] | None
) -> None:
    path = captures(protocol) / name
    if not path.exists():
        pytest.skip("not among the captures")
    with database_of(dissectors.dissect([path], tables=RECORDS)) as duckdb:
        found = [row["servers"] for row in judged(duckdb).verdicts.to_pylist() if row["kind"] == "broker_lost"]
    assert found == ([brokers] if brokers else [])


# --- what findings tell ----------------------------------------------------------------------------------------------


def test_aborted_transactions_are_told_by_their_id_with_their_messages() -> None:
    ends = [call(1, api="EndTxn"), answered(2, api="EndTxn"), call(3, api="EndTxn")]
    batch = {**place(1.5), "role": "produce", "transactional": True, "producer": "7", "records": 12, "verdict": "ok"}
    aborted = event("transaction_aborted", ends[1], subject="tx", number=7)
    sent = batch | {"topic": "paid", "partition": 0, "base_sequence": 0}
    batches = [sent | {"outcome": outcome} for outcome in ("error", "unknown", "ok")]  # one batch, sent three times
    rows = said(exchanges=ends, batches=batches, events=[aborted], connections=[connection()])
    assert [row["sentence"] for row in rows if row["kind"] == "transactions_aborted"] == [
        "Producer payer on 10.0.0.2 (tx) aborted 1 of 3 transactions, with 12 messages."
    ]
    ends.append(call(1.5, complete=False))  # the capture lacks bytes of the Produce that the batch is of
    rows = said(exchanges=ends, batches=[batch], events=[aborted], connections=[connection()])
    assert (
        rows[0]["sentence"] == "Producer payer on 10.0.0.2 (tx) aborted 1 of 3 transactions, with at least 12 messages."
    )


def test_a_transaction_that_timed_out_is_told_with_its_id_and_time_out_and_not_as_a_fenced_producer() -> None:
    began = call(0, api="InitProducerId")
    joined = call(1, api="AddPartitionsToTxn")
    late = call(41, api="EndTxn", status="error", error_code=47, error_name="INVALID_PRODUCER_EPOCH")
    (row,) = said(
        exchanges=[began, joined, late],
        errors=[error(late, "INVALID_PRODUCER_EPOCH")],
        events=[
            event("transaction_began", began, subject="pay-1", number=20_000, text="7"),
            event("transaction_joined", joined, subject="pay-1", number=7, topic="orders"),
            event("transaction_ended", late, subject="pay-1", number=7, text="commit"),
        ],
        connections=[connection()],
    )
    assert (row["kind"], row["severity"], row["count"]) == ("transactions_aborted", "warning", 1)
    assert row["sentence"] == (
        "payer on 10.0.0.2 did not end transaction pay-1 in time: the coordinator aborted it after its time-out of "
        "20.0 s."
    )


def test_a_share_group_says_what_it_released_and_rejected() -> None:
    fetch = answered(1, api="ShareFetch", group="g", records=46)
    (row,) = said(
        exchanges=[fetch],
        events=[event("released", fetch, number=6), event("rejected", fetch, number=4)],
        connections=[connection()],
    )
    assert row["count"] == 1
    assert row["sentence"] == (
        "Share group g released 6 messages for another delivery and rejected 4 for good, of 46 delivered."
    )
    assert (row["severity"], row["groups"]) == ("warning", ["g"])


@pytest.mark.parametrize(
    ("released", "told"),
    [(6, "."), (2, "; 4 came again that nobody released: their lock ran out, or their member went.")],
)
def test_what_a_share_group_gets_again_was_released_or_its_lock_ran_out(released: int, told: str) -> None:
    fetch = answered(1, api="ShareFetch", group="g", records=46)
    given = [event("released", fetch, number=released), event("delivered_again", fetch, number=6)]
    (row,) = said(exchanges=[fetch], events=given, connections=[connection()])
    assert row["severity"] == "note"
    assert row["sentence"].endswith(f"rejected 0 for good, of 46 delivered{told}")


def pulsar(row: Row, **more: Any) -> Row:
    return {**row, "protocol": "pulsar", **more}


def test_a_topic_that_moves_is_told_with_its_way_and_the_time_that_a_client_was_out() -> None:
    opened = pulsar(call(5.1, api="PRODUCER", topics=["t"], total_ns=100 * MS), server_port=6652)
    close = pulsar(answered(5, api="CLOSE_PRODUCER", kind="push", topics=["t"]), server_port=6650)
    closed = event("closed_by_broker", close, topic="t", text="pulsar://10.0.0.1:6652")
    (row,) = said(exchanges=[close, opened], events=[closed], connections=[connection()])
    assert (row["count"], row["counted"], row["topics"]) == (1, "exchanges", ["t"])
    assert row["sentence"] == "Topic t moved once (:6650, :6652); payer on 10.0.0.2 was out 200 ms."
    assert row["severity"] == "note"  # brokers that unload a topic on purpose do so
    assert row["chain"][0]["text"] == "broker 10.0.0.1:6650 closes it; it names 10.0.0.1:6652"
    late = opened | {"time": NOON + timedelta(seconds=7)}
    assert kinds(exchanges=[close, late], events=[closed], connections=[connection()]) == [("topic_moved", "warning")]
    seek = pulsar(call(4.9, api="SEEK"), server_port=6650)
    assert said(exchanges=[close, opened, seek], events=[closed], connections=[connection()]) == []


@pytest.mark.parametrize(
    ("apart", "told"), [(0.1, ["Topics t and u moved once"]), (9, ["Topic t moved", "Topic u moved"])]
)
def test_topics_that_move_together_the_same_way_are_told_as_one(apart: float, told: list[str]) -> None:
    exchanges, events = [], []
    for n, topic in enumerate("tu"):
        at = 5 + n * apart
        close = pulsar(answered(at, api="CLOSE_PRODUCER", kind="push", topics=[topic]), server_port=6650)
        opened = pulsar(call(at + 2, api="PRODUCER", topics=[topic]), server_port=6652)
        exchanges += [close, opened]
        events.append(event("closed_by_broker", close, topic=topic))
    rows = said(exchanges=exchanges, events=events, connections=[connection()])
    assert [row["sentence"][: len(text)] for row, text in zip(rows, told, strict=True)] == told
    assert all("out up to 2.00 s" in row["sentence"] for row in rows if len(told) == 1)


def test_a_topic_that_brokers_refuse_to_open_again_says_in_their_words_why() -> None:
    close = pulsar(answered(5, api="CLOSE_PRODUCER", kind="push", topics=["t"]))
    tries = [pulsar(call(n, api="PRODUCER", topics=["t"], status="error")) for n in (6, 7, 8)]
    failed = [error(one, "ServiceNotReady", topic=None, message="the topic is fenced.") for one in tries]
    opened = pulsar(call(12, api="PRODUCER", topics=["t"]))
    closed = event("closed_by_broker", close, topic="t")
    rows = said(exchanges=[close, *tries, opened], errors=failed, events=[closed], connections=[connection()])
    moved = next(row for row in rows if row["kind"] == "topic_moved")
    assert moved["sentence"].endswith("out 7.00 s; brokers answered 3 times meanwhile: the topic is fenced.")
    assert moved["advice"].startswith("See the log of the broker")


@pytest.mark.parametrize(
    ("name", "message", "how", "advice"),
    [
        ("ConsumerBusy", "Subscription is of different type.", "", "Subscription is of different type."),
        ("Incompatible", "org.a.b.Schema$Error: Types: org.c.d.E: differ: \n{…}", "", "Types: differ."),
        ("KAFKA_STORAGE_ERROR", None, " at 10.0.0.1:9092", None),
    ],
)
def test_an_error_says_which_broker_failed_or_what_the_broker_says_of_it(
    name: str, message: str | None, how: str, advice: str | None
) -> None:
    one = call(5, status="error")
    errors = [error(one, name, message=message)]
    (row, *_) = said(exchanges=[one, call(9, api="Fetch")], errors=errors, connections=[connection()])
    assert f"failed once with {name}{how}; no later attempt succeeded." in row["sentence"]
    assert row["advice"].endswith(f"The broker said: {advice}") == (advice is not None)


def delivery(at: float, position: str, **more: Any) -> Row:
    row = place(at) | {"exchange_id": f"m-{at}", "file": "a.pcap", "packet": int(at * 100)}
    return (
        pulsar(row, role="consume", topic="t", partition=-1, position=position, group="s", records=2, verdict="ok")
        | more
    )


def test_messages_that_a_subscription_got_again_are_told_once_with_why() -> None:
    batches = [delivery(1, "1:0"), delivery(2, "1:1"), delivery(3, "1:0")]
    (row,) = said(batches=batches)
    text = "2 of 6 messages delivered to subscription s of topic t were redeliveries: the broker delivered them again."
    assert (row["sentence"], row["severity"]) == (text, "warning")
    asked = pulsar(call(2.5, api="REDELIVER_UNACKNOWLEDGED_MESSAGES", kind="oneway", group="s", topics=["t"]))
    (row,) = said(batches=batches, exchanges=[asked])
    assert (row["kind"], row["severity"]) == ("redelivered", "warning")
    assert row["sentence"].endswith("a consumer asked for them again.")
    assert "dead letter" in row["advice"]
    (row,) = said(batches=[*batches, delivery(4, "1:0")], exchanges=[asked, asked | {"time": place(3.5)["time"]}])
    assert "4 of 8 messages" in row["sentence"]
    assert "2 messages up to 3 times each: a consumer" in row["sentence"]
    seen_twice = [delivery(1, "1:0"), delivery(1.001, "1:0") | {"connection": "c9"}]
    relayed = event("proxied", pulsar(call(0.5, api="CONNECT")) | {"connection": "c9"}, subject="proxy")
    assert said(batches=seen_twice, events=[relayed]) == []


@pytest.mark.parametrize(
    ("between", "comes", "severity"),
    [
        ({"api": "SEEK"}, 2, "note"),  # somebody went back
        ({"api": "SUBSCRIBE"}, 2, "note"),  # of a consumer that went away
        ({"api": "SUBSCRIBE"}, 3, "warning"),  # again and again
    ],
)
def test_messages_that_come_again_as_they_should_are_no_warning(between: Row, comes: int, severity: str) -> None:
    batches = [delivery(n + 1, "1:0") for n in range(comes)]
    calls = [pulsar(call(n + 0.5, group="s", topics=["t"], **between)) for n in range(1, comes)]
    assert kinds(batches=batches, exchanges=calls) == [("redelivered", severity)]


def test_messages_that_were_given_up_after_they_came_again_are_told_by_their_dead_letter_topic() -> None:
    asked = pulsar(call(2.5, api="REDELIVER_UNACKNOWLEDGED_MESSAGES", kind="oneway", group="s", topics=["t"]))
    given_up = dead("persistent://public/default/t-s-DLQ")
    found = kinds(batches=[delivery(1, "1:0"), delivery(3, "1:0"), given_up], exchanges=[asked])
    assert found == [("dead_lettered", "warning"), ("redelivered", "note")]


# --- groups ----------------------------------------------------------------------------------------------------------


def rounds(*begins: float, took: float = 0.3, client: str = "m") -> Rows:
    """Rebalances of a group with one member."""
    return [
        call(
            at + after,
            api=api,
            group="g",
            client_id=client,
            topics=None,
            total_ns=int(took * SECOND),
            wait_ns=int(took * SECOND),
        )
        for at in begins
        for api, after in (("JoinGroup", 0), ("SyncGroup", took))
    ]


def test_a_group_that_rebalances_for_long_or_again_and_again_is_a_warning() -> None:
    for begins, took, severity in (((1,), 0.3, None), ((1, 5), 0.3, "note"), ((1,), 4, "warning")):
        found = kinds(exchanges=rounds(*begins, took=took), connections=[connection()])
        assert found == ([("rebalances", severity)] if severity else [])
    restless = said(exchanges=rounds(1, 2, 3, 4, 5, 6), connections=[connection()])
    assert restless[0]["sentence"] == "Group g rebalanced 6 times; the longest took 600 ms, 3.60 s in all."
    assert (restless[0]["severity"], restless[0]["count"], len(restless[0]["chain"])) == ("warning", 12, 6)
    assert "when they join again, though all are there" in restless[0]["advice"]


@pytest.mark.parametrize(("took", "severity"), [(0.1, "note"), (0.9, "warning")])
def test_members_that_come_and_go_in_order_are_a_warning_only_where_the_group_stops_for_long(
    took: float, severity: str
) -> None:
    came = [one for n in range(8) for one in rounds(5 * n, took=took, client=f"m{n}")]
    left = [call(5 * n + 4, api="LeaveGroup", group="g", client_id=f"m{n}", topics=None) for n in range(8)]
    assert kinds(exchanges=[*came, *left], connections=[connection()]) == [("rebalances", severity)]


def test_a_member_that_left_because_it_failed_is_named_with_its_reason() -> None:
    leave = call(10, api="LeaveGroup", group="g", client_id="m", topics=None)
    for reason, severity in (
        ("consumer poll timeout has expired.", "warning"),
        ("the consumer is being closed", "note"),
    ):
        (row,) = said(
            exchanges=[*rounds(1), leave, *rounds(16)],
            connections=[connection()],
            events=[event("left", leave, group="g", subject="m-1", text=reason)],
        )
        assert row["severity"] == severity
        why = "; m on 10.0.0.2 left (consumer poll timeout has expired); nobody read its partitions for 6.60 s."
        assert row["sentence"].endswith(why if severity == "warning" else " in all.")


def test_a_member_that_is_gone_without_a_word_is_named_with_how_long_nobody_read_its_partitions() -> None:
    both = [*rounds(1, client="m"), *rounds(1, client="n")]
    fetch = call(4, api="Fetch", client_id="n")
    (row,) = said(exchanges=[*both, fetch, *rounds(20, client="m")], connections=[connection()])
    assert row["severity"] == "warning"
    assert row["sentence"].endswith("n on 10.0.0.2 left without a word; nobody read its partitions for 16.6 s.")


def epoch(at: float, number: int, member: str = "m") -> Row:
    """A member of a group of the newer protocol that hears of an epoch."""
    return event("epoch", call(at, api="ConsumerGroupHeartbeat", group="g"), subject=member, number=number)


@pytest.mark.parametrize(("members", "why"), [(("m-1", "m-2"), "gone without a word"), (("m-1", "m-1"), "join again")])
def test_a_member_that_comes_back_under_another_id_had_gone_without_a_word(members: Any, why: str) -> None:
    calls = [*rounds(1), *rounds(20)]
    joins = [one for one in calls if one["api"] == "JoinGroup"]
    came = [
        event("joined", one, group="g", subject=member, number=n)
        for n, (one, member) in enumerate(zip(joins, members, strict=True))
    ]
    (row,) = said(exchanges=calls, events=came, connections=[connection()])
    assert why in row["chain"][1]["text"]


@pytest.mark.parametrize(("lost", "told"), [(True, ["rebalances"]), (False, [])])
def test_a_share_group_is_told_where_it_lost_a_member(lost: bool, told: list[str]) -> None:
    heard = [epoch(1, 4), epoch(1, 4, "n"), epoch(50, 5), *[epoch(50, 5, "n")] * (not lost)]
    beats = [call(at, api="ShareGroupHeartbeat", group="g") for at in (1, 1, 50)]
    assert [kind for kind, _ in kinds(exchanges=beats, events=heard, connections=[connection()])] == told


@pytest.mark.parametrize(("left", "why"), [(False, "a member is gone without a word"), (True, "a member leaves")])
def test_a_member_that_a_newer_group_lost_did_not_leave(left: bool, why: str) -> None:
    heard = [epoch(1, 4), epoch(1, 4, "n"), epoch(50, 5)]
    beats = [call(at, api="ConsumerGroupHeartbeat", group="g") for at in (1, 1, 50)]
    leaves = event("left", call(49, api="ConsumerGroupHeartbeat", group="g"), subject="n")
    (row,) = said(exchanges=beats, events=[*heard, *[leaves] * left], connections=[connection()])
    assert row["chain"][1]["text"] == f"{why}: 1 member"


@pytest.mark.parametrize(
    ("heard", "told"),
    [
        pytest.param([epoch(1, 4)], False, id="one member"),
        pytest.param([epoch(1, 4), epoch(1.5, 4, "n")], False, id="members that hear of it at once"),
        pytest.param([epoch(1, 4), epoch(2.5, 4, "n")], True, id="one that hears of it late"),
        pytest.param([epoch(1, 4), epoch(1.1, 5)], True, id="another epoch"),
    ],
)
def test_a_group_of_the_newer_protocol_rebalances_with_each_epoch(heard: Rows, told: bool) -> None:
    beats = [call(one["time"].timestamp() - NOON.timestamp(), api="ConsumerGroupHeartbeat", group="g") for one in heard]
    assert kinds(exchanges=beats, events=heard, connections=[connection()]) == [("rebalances", "note")] * told


@pytest.mark.parametrize(("late", "severity"), [(8, "note"), (40, "warning")])
def test_members_that_hear_of_epochs_read_on_until_all_know_the_new_one(late: float, severity: str) -> None:
    heard = [epoch(1, 4), epoch(2, 5), epoch(2 + late, 5, "n")]
    beats = [call(at, api="ConsumerGroupHeartbeat", group="g") for at in (1, 2, 2 + late)]
    assert kinds(exchanges=beats, events=heard, connections=[connection()]) == [("rebalances", severity)]


# --- offsets ---------------------------------------------------------------------------------------------------------


def commits(*offsets: int, api: str = "OffsetCommit", **more: Any) -> dict[str, Rows]:
    """Commits of one group, a second apart: the exchanges and what they state."""
    calls = [call(n, api=api, group="g", client_id="m") for n in range(len(offsets))]
    stated = [
        place(n) | {"what": "committed", "topic": "orders", "partition": 0, "value": offset, "group": "g", "api": api,
                    "exchange_id": calls[n]["exchange_id"], "client_id": "m"} | more
        for n, offset in enumerate(offsets)
    ]  # fmt: skip
    return {"exchanges": calls, "positions": stated, "connections": [connection()]}


def test_a_group_that_commits_a_smaller_offset_went_back() -> None:
    (row,) = said(**commits(10, 60, 7, 60, 50))
    assert row["sentence"] == (
        "Group g went back twice in 1 partition of topic orders, by up to 53 messages: m on 10.0.0.2 committed "
        "a smaller offset than before."
    )
    assert (row["kind"], row["severity"], row["counted"], row["count"]) == (
        "offsets_moved_back", "warning", "exchanges", 2,
    )  # fmt: skip
    assert (row["groups"], row["topics"]) == (["g"], ["orders"])
    assert [each["exchange_id"] for each in row["evidence"]] == ["OffsetCommit-2", "OffsetCommit-4"]


def test_offsets_that_only_grow_or_that_are_read_back_are_no_verdict() -> None:
    assert kinds(**commits(10, 10, 60)) == []
    assert kinds(**commits(60, 10, api="OffsetFetch")) == []


def test_where_the_clock_was_set_back_commits_are_in_the_order_of_their_packets() -> None:
    def stepping(*offsets: int) -> dict[str, Rows]:
        made = commits(*offsets)
        for n, (exchange, stated) in enumerate(zip(made["exchanges"], made["positions"], strict=True)):
            back = timedelta(seconds=2.5 if n > 2 else 0)
            exchange |= {"time": exchange["time"] - back, "request_packet": 10 + n}
            stated |= {"time": stated["time"] - back, "packet": 10 + n}
        return made

    assert "offsets_moved_back" not in dict(kinds(**stepping(10, 20, 30, 40, 50, 60, 70)))
    (row,) = (row for row in said(**stepping(10, 20, 30, 40, 35, 60, 70)) if row["kind"] == "offsets_moved_back")
    assert row["count"] == 1


@pytest.mark.parametrize(
    ("brokers", "offsets", "times"),
    [
        pytest.param([1, 2, 1, 2], [60, 10, 61, 11], 0, id="two clusters"),
        pytest.param([1, 2, 1, 2, 2], [60, 10, 61, 11, 5], 1, id="in one of two clusters"),
        pytest.param([1, 2, 2], [60, 10, 11], 1, id="another coordinator"),
        pytest.param([1, 2, 1], [60, 10, 11], 1, id="by another address of the coordinator"),
    ],
)
def test_a_group_of_the_same_name_in_another_cluster_did_not_go_back(
    brokers: list[int], offsets: list[int], times: int
) -> None:
    made = commits(*offsets)
    for n, broker in enumerate(brokers):
        made["exchanges"][n]["server_port"] = made["positions"][n]["server_port"] = broker
    assert [row["count"] for row in said(**made) if row["kind"] == "offsets_moved_back"] == [times] * bool(times)


def test_a_topic_that_was_made_anew_begins_at_the_first_offset_again() -> None:
    made = commits(60, 7)
    deleted = event("deleted", call(0.5, api="DeleteTopics"), thing="topic", topic="orders", number=0)
    assert kinds(**made, events=[deleted]) == []
    assert kinds(**made, events=[deleted | {"number": 41}]) == [("offsets_moved_back", "warning")]


# --- leaders, dead letters, habits, clocks ---------------------------------------------------------------------------


def batch(at: float, **more: Any) -> Row:
    """A batch of one message that was produced and taken."""
    where = place(at, more.pop("port", 1), more.pop("broker", 9092))
    return {
        **where, "role": "produce", "topic": "orders", "partition": 0, "records": 1, "format": "magic 2",
        "verdict": "ok", "outcome": "ok", "client_id": "payer", "file": "a.pcap", "packet": int(at * 100) + 1,
        "stream_offset": int(at * 1000), "exchange_id": f"Produce-{at}", "producer": "7",
    } | more  # fmt: skip


def moved_leader(served: float) -> tuple[Rows, Rows, Rows]:
    """Exchanges, errors and batches of a producer whose leader moves; the new one serves at that second."""
    failed = call(1, status="error")
    answers = [error(failed, "NOT_LEADER_OR_FOLLOWER", partition=0)]
    again = batch(served, port=2, broker=9093, exchange_id=f"Produce-{served}")
    return [failed, call(served, port=2, broker=9093)], answers, [batch(0.5), again]


@pytest.mark.parametrize(("served", "severity"), [(1.25, "note"), (3, "warning")])
def test_a_partition_that_another_broker_serves_after_an_error_has_moved(served: float, severity: str) -> None:
    exchanges, errors, batches = moved_leader(served)
    ports = [connection(1), connection(2, broker=9093)]
    (row,) = said(exchanges=exchanges, errors=errors, batches=batches, connections=ports)
    assert (row["kind"], row["severity"], row["count"], row["counted"]) == ("leader_moved", severity, 1, "exchanges")
    assert row["sentence"].startswith("1 partition of topic orders moved from broker 10.0.0.1:9092 to 10.0.0.1:9093")
    assert [link["text"] for link in row["chain"]] == ["orders [0] is served by 10.0.0.1:9093"]


def test_a_partition_that_the_old_broker_serves_again_has_not_moved() -> None:
    failed = call(1, status="error")
    errors = [error(failed, "NOT_LEADER_OR_FOLLOWER", partition=0)]
    found = kinds(exchanges=[failed, call(1.5)], errors=errors, batches=[batch(1.5)], connections=[connection()])
    assert found == [("errors", "note")]


def test_a_lost_broker_names_who_took_its_partitions_over() -> None:
    batches = [batch(7), batch(9, port=9, broker=9093)]
    (row,) = said(connections=[*KILLED, connection(9, 0, 60, broker=9093)], batches=batches)
    assert "1 partition is served by 10.0.0.1:9093 now: topic orders" in [link["text"] for link in row["chain"]]


def dead(topic: str, **more: Any) -> Row:
    return pulsar(batch(1, topic=topic, format="entry", producer=None, **more))


@pytest.mark.parametrize(
    ("letter", "severity"),
    [
        (dead("persistent://public/default/t-sub-DLQ"), "warning"),
        (dead("persistent://public/default/bin") | {"producer": "t-sub-consumer-x-DLQ"}, "warning"),
        (dead("persistent://public/default/t-sub-RETRY"), "note"),
        (batch(1, topic="orders.DLT"), "warning"),
        (batch(1, topic="orders-retry-0"), "note"),
        (batch(1, topic="orders.retry"), "note"),
        (batch(1, topic="retry"), None),
        (batch(1, topic="orders-retrying"), None),
        (dead("persistent://public/default/t-sub-DLQ", outcome="error"), None),
        (dead("persistent://public/default/DLQueue"), None),
        (dead("persistent://public/default/t-sub-DLQ", role="consume"), None),
    ],
)
def test_messages_that_went_to_a_dead_letter_topic_are_told(letter: Row, severity: str | None) -> None:
    found = kinds(batches=[letter])
    assert found == ([("dead_lettered", severity)] if severity else [])


def test_a_producer_that_asks_for_no_answer_is_told() -> None:
    silent_calls = [call(n, kind="oneway", status="unknown") for n in range(3)]
    (row,) = said(exchanges=silent_calls, connections=[connection()])
    assert (row["kind"], row["severity"], row["count"]) == ("acks_zero", "note", 3)
    assert row["sentence"].startswith("payer on 10.0.0.2 sent 3 requests for topic orders with acks=0")


def asks(every: float, times: int, **more: Any) -> Rows:
    return [call(n * every, api="Metadata", **more) for n in range(times)]


def test_a_client_that_asks_for_metadata_more_often_than_a_retry_does_is_told() -> None:
    (row,) = said(exchanges=asks(0.5, 80), connections=[connection()])
    assert (row["kind"], row["count"]) == ("metadata_storm", 80)
    assert row["sentence"] == (
        "payer on 10.0.0.2 sent Metadata for topic orders 80 times, 60 or more of them within a minute on "
        "one connection."
    )
    assert said(exchanges=asks(1.1, 80), connections=[connection()]) == []
    each_another = [row | {"topics": [str(n)]} for n, row in enumerate(asks(0.01, 80))]  # a client that starts
    assert said(exchanges=each_another, connections=[connection()]) == []
    many_clients = [row | place(n / 100, port=n + 1) for n, row in enumerate(asks(0.01, 80))]
    assert said(exchanges=many_clients, connections=[connection(n + 1) for n in range(80)]) == []


def test_a_client_that_connects_for_every_message_is_told() -> None:
    brief = [connection(n + 1, n / 2, n / 2 + 0.2, closed="fin") for n in range(70)]
    (row,) = said(connections=brief)
    assert (row["kind"], row["count"], row["counted"]) == ("connection_churn", 70, "connections")
    assert "opened 70 connections to 10.0.0.1:9092, each for 200 ms or so" in row["sentence"]
    assert said(connections=brief[:60]) == []
    assert said(connections=[connection(n + 1, n / 2, n / 2 + 60, closed="fin") for n in range(70)]) == []


def test_timestamps_from_the_future_are_a_matter_of_clocks() -> None:
    def stamped(ahead: float, times: int) -> Rows:
        return [batch(n, max_timestamp=NOON + timedelta(seconds=n + ahead)) for n in range(times)]

    (row,) = said(batches=stamped(3600, 9))
    assert (row["kind"], row["severity"], row["count"]) == ("clock", "note", 9)
    assert (
        row["sentence"] == "Timestamps of 9 batches of payer on 10.0.0.2 are 1 h 00 min ahead of the capture's clock."
    )
    for batches in (stamped(0.5, 9), stamped(-3600, 9), stamped(3600, 2), [*stamped(3600, 3), *stamped(0, 9)]):
        assert said(batches=batches) == []


def test_timestamps_of_long_ago_are_told_and_seconds_in_place_of_milliseconds_are_a_warning() -> None:
    def stamped(stamp: Callable[[datetime], datetime]) -> Rows:
        times = [NOON + timedelta(seconds=n) for n in range(3)]
        return [batch(n, max_timestamp=stamp(time)) for n, time in enumerate(times)]

    (row,) = said(batches=stamped(lambda time: datetime.fromtimestamp(time.timestamp() / 1000, UTC)))
    assert (row["kind"], row["severity"], row["count"]) == ("old_timestamps", "warning", 3)
    oldest = f"{datetime.fromtimestamp(NOON.timestamp() / 1000, UTC):%Y-%m-%d}"
    assert row["sentence"] == f"3 batches of payer on 10.0.0.2 for topic orders carry timestamps as old as {oldest}."
    assert row["detail"] == f"Their numbers, taken for seconds, are times of {NOON:%Y-%m-%d}."
    (row,) = said(batches=stamped(lambda time: time - timedelta(days=30)))
    assert (row["severity"], row["detail"]) == ("note", None)
    assert said(batches=stamped(lambda time: time - timedelta(days=6))) == []


# --- connections -----------------------------------------------------------------------------------------------------

HELLO = {"protocol": None, "tls": True, "client_bytes": 517, "server_bytes": 0, "frames": 0, "framed_bytes": 0}


def test_tls_that_a_plaintext_listener_ignores_is_a_mismatch() -> None:
    began = [connection(n, n, n + 1, closed="fin", **HELLO) for n in (1, 2)]
    (row,) = said(connections=[*began, connection(9)])
    assert (row["kind"], row["severity"], row["count"]) == ("tls_mismatch", "critical", 2)
    assert "10.0.0.2 tried TLS twice with 10.0.0.1:9092, which speaks plaintext to others" in row["sentence"]


@pytest.mark.parametrize("more", [{"closed": "open"}, {"server_bytes": 900}, {"gaps": 1, "gap_bytes": 9}])
def test_tls_that_was_answered_or_not_captured_whole_is_no_mismatch(more: Row) -> None:
    assert "tls_mismatch" not in dict(kinds(connections=[connection(1, 0, 1, **(HELLO | {"closed": "fin"} | more))]))


def test_a_plaintext_client_of_a_tls_listener_is_a_mismatch() -> None:
    alert = {"server_bytes": 7, "framed_bytes": 1000, "pending_bytes": 7, "frames": 1, "closed": "fin"}
    asked = call(0.1, api="ApiVersions", **UNANSWERED)
    (row,) = said(connections=[connection(1, 0, 1, **alert)], exchanges=[asked])
    assert (row["kind"], row["count"]) == ("tls_mismatch", 1)
    assert "its answer has the 7 bytes of a TLS alert" in row["sentence"]


def test_a_ping_that_nobody_answered_before_the_connection_was_closed_is_told() -> None:
    for asked, closer, sentence in (
        (
            "client",
            "client",
            "1 PING of payer on 10.0.0.2 had no answer from 10.0.0.1:9092; 1 connection was closed by the client",
        ),
        (
            "server",
            "server",
            "1 PING of 10.0.0.1:9092 had no answer from payer on 10.0.0.2; 1 connection was closed by the broker",
        ),
        ("server", None, "1 PING of 10.0.0.1:9092 had no answer from payer on 10.0.0.2; 1 connection was closed"),
    ):
        ping = pulsar(call(10, api="PING", topics=None, initiator=asked, **UNANSWERED))
        other = pulsar(call(10, api="SEND", port=2))
        ended = [pulsar(connection(end=40, closed="fin", closed_by=closer)), pulsar(connection(2))]
        (row,) = said(exchanges=[ping, other], connections=ended)
        assert (row["kind"], row["cost_ns"], row["count"]) == ("keepalive_timeout", 30 * SECOND, 1)
        assert row["sentence"] == f"{sentence} 30.0 s later."
    again = [ping, ping | {"exchange_id": "PING-9", "time": NOON + timedelta(seconds=20)}, call(9, port=1) | ping]
    again[2] |= {"api": "SEND", "exchange_id": "SEND-9"}  # has no answer either
    (row,) = said(exchanges=again, connections=ended)
    assert "had no answer from payer on 10.0.0.2, nor had 1 other request; 1 connection was closed" in row["sentence"]
    half = pulsar(connection(end=40, closed="open", closed_by="client"))  # the broker's host acknowledged it, no more
    assert kinds(exchanges=[ping, other], connections=[half, ended[1]]) == [("keepalive_timeout", "warning")]
    soon = pulsar(connection(end=13, closed="fin", closed_by="client"))  # it was still in flight
    assert said(exchanges=[ping], connections=[soon]) == []


def test_a_broken_rule_of_the_protocol_names_who_broke_it() -> None:
    sends = [pulsar(call(at, api="SEND")) for at in (1, 2)]
    text = "SEND names producer 9, which was not created on this connection"
    broken = [event("rule_broken", send, subject="unknown_producer", text=text, direction="client") for send in sends]
    (row,) = said(events=broken, exchanges=sends, connections=[connection()])
    assert (row["kind"], row["severity"], row["count"]) == ("protocol_violation", "warning", 2)
    assert row["sentence"] == f"payer on 10.0.0.2 broke a rule of the protocol twice: {text}."


def test_lookups_that_were_sent_on_name_their_topic_and_the_other_broker() -> None:
    asked = pulsar(answered(1, api="LOOKUP", topics=["persistent://a/b/c"]))
    told = event("redirected", asked, topic="persistent://a/b/c", text="pulsar://10.0.0.3:6650")
    (row,) = said(exchanges=[asked], events=[told], connections=[connection()])
    assert (
        row["sentence"]
        == "Broker 10.0.0.1:9092 sent 1 lookup of topic a/b/c, by payer on 10.0.0.2, on to 10.0.0.3:6650."
    )
    (link,) = row["chain"]
    assert (link["text"], link["packet"]) == ("lookup of topic a/b/c: ask 10.0.0.3:6650", asked["request_packet"])


def test_brokers_that_name_each_other_for_a_topic_that_none_of_them_owns_are_a_warning() -> None:
    asked = [pulsar(call(n, api="LOOKUP", topics=["t"], broker=6650 + n % 2)) for n in range(4)]
    sent_on = [
        event("redirected", one, topic="t", text=f"pulsar://10.0.0.1:{6651 - n % 2}") for n, one in enumerate(asked)
    ]
    worst, *_ = said(exchanges=asked, events=sent_on, connections=[connection()])
    assert (worst["kind"], worst["severity"], worst["count"]) == ("lookups_redirected", "warning", 4)
    assert worst["sentence"] == (
        "4 lookups of topic t, by payer on 10.0.0.2, went in a circle: 10.0.0.1:6650 and 10.0.0.1:6651 name each "
        "other, and none answers as the owner."
    )
    owned = pulsar(call(9, api="LOOKUP", topics=["t"], broker=6650))
    found = kinds(exchanges=[*asked, owned], events=sent_on, connections=[connection()])
    assert {severity for _, severity in found} == {"note"}


def test_answers_in_another_order_than_requests_are_told() -> None:
    late = call(1, total_ns=SECOND // 2, response_file="a.pcap", response_packet=900)
    next_one = call(1.5, response_file="a.pcap", response_packet=300)
    rows = {"exchanges": [late, next_one, call(3)], "connections": [connection()]}
    (row,) = said(**rows, events=[event("overtaken", late)])
    assert (row["kind"], row["count"], row["cost_ns"]) == ("out_of_order_answers", 1, SECOND // 2)
    assert kinds(**rows) == kinds(exchanges=[late], connections=[connection()])


def test_a_fetch_that_was_answered_later_than_it_allowed_is_overdue() -> None:
    def fetch(at: float, wait_ns: int) -> Row:
        return call(at, api="Fetch", total_ns=wait_ns, wait_ns=wait_ns, allowed_ns=500 * MS)

    slow = [fetch(at, 400 * MS) for at in (1, 2)]
    behind_another = fetch(4, 900 * MS) | {"queued_ns": 300 * MS}
    (row,) = said(exchanges=[*slow, fetch(3, 900 * MS), behind_another], connections=[connection()])
    assert (row["kind"], row["count"]) == ("fetch_overdue", 1)
    assert "900 ms" in row["sentence"]
    assert "500 ms" in row["sentence"]


def test_a_peer_that_answers_http_is_no_broker() -> None:
    strange = connection(foreign="http", frames=1, server_bytes=200)
    (row,) = said(exchanges=[call(1, **UNANSWERED)], connections=[strange])
    assert (row["kind"], row["severity"]) == ("foreign_peer", "critical")
    assert "HTTP" in row["sentence"]


def test_a_server_of_another_era_is_told_instead_of_the_errors_that_it_answers() -> None:
    login = call(1, api="LOGIN_USER", protocol="iggy", status="error", error_name="InvalidFormat", topics=None)
    told = event("other_version", login, subject="iggy-vsr-0.10 (protocol 0.12.0)", text="could not read the login")
    (row,) = said(
        exchanges=[login, call(2, api="GET_STREAMS", **UNANSWERED)],
        errors=[error(login, "InvalidFormat", topic=None)],
        events=[told],
        connections=[connection()],
    )
    assert (row["kind"], row["severity"], row["count"]) == ("wrong_protocol_version", "critical", 1)
    assert "could not read the login; payer on 10.0.0.2 speaks iggy-vsr-0.10 (protocol 0.12.0)" in row["sentence"]


def test_a_server_of_another_era_for_one_client_explains_nothing_of_others() -> None:
    told = event("other_version", call(1), subject="iggy-vsr-0.10", text="could not read the login")
    other = call(3, port=2, client_id="other", **UNANSWERED)
    connections = [connection(), connection(port=2)]
    found = kinds(exchanges=[call(1), other], events=[told], connections=connections)
    assert [kind for kind, _ in found] == ["wrong_protocol_version", "closed_unanswered"]


def test_a_login_that_a_broker_answers_by_closing_is_refused() -> None:
    token = call(1, api="SaslToken", client_id=None, topics=None, **UNANSWERED)
    assert kinds(exchanges=[token], connections=[connection(end=10)]) == [("auth_refused", "warning")]


# --- one cause, one verdict ------------------------------------------------------------------------------------------


def test_a_fetch_that_was_answered_seconds_too_late_is_overdue_and_not_slow_as_well() -> None:
    late = [call(at, api="Fetch", total_ns=30 * SECOND, wait_ns=30 * SECOND, allowed_ns=500 * MS) for at in (1, 40)]
    assert kinds(exchanges=late, connections=[connection()]) == [("fetch_overdue", "warning")]


def test_brokers_that_answer_fetches_too_late_are_one_verdict() -> None:
    late = [call(at, api="Fetch", broker=at, total_ns=SECOND, wait_ns=SECOND, allowed_ns=500 * MS) for at in (1, 2)]
    (row,) = said(exchanges=late, connections=[connection(broker=1), connection(broker=2)])
    assert (row["count"], row["servers"]) == (2, ["10.0.0.1:1", "10.0.0.1:2"])


def test_requests_that_waited_for_retransmissions_are_no_tail_as_well() -> None:
    usual = [call(n / 100) for n in range(150)]
    late = [call(2 + n, total_ns=400 * MS, wait_ns=400 * MS, retransmitted=True, **AT_ONCE) for n in range(3)]
    resent = [stall(2 + n, 350 * MS) for n in range(3)]
    assert kinds(exchanges=[*usual, *late], connections=[connection(retransmissions=3)], stalls=resent) == [
        ("retransmissions", "warning")
    ]


def test_a_fenced_producer_is_one_verdict_with_what_it_was_told_and_not_answered() -> None:
    failed = [call(at, status="error") for at in (1, 2)]
    told = [error(failed[0], "PRODUCER_FENCED"), error(failed[1], "INVALID_PRODUCER_EPOCH")]
    (row,) = said(
        exchanges=[*failed, call(3, **UNANSWERED)], errors=told, connections=[connection(end=10, closed="fin")]
    )
    assert (row["kind"], row["count"]) == ("producer_fenced", 2)
    assert "INVALID_PRODUCER_EPOCH and PRODUCER_FENCED" in row["sentence"]


def test_a_login_that_a_broker_refuses_in_mid_connection_is_a_refused_login_in_its_words() -> None:
    ended = pulsar(call(30, api="ERROR", kind="push", status="error", topics=None))
    again = pulsar(call(31, api="CONNECT", status="error", topics=None))
    told = [error(one, "AuthenticationError", topic=None, message="JWT expired") for one in (ended, again)]
    (row,) = said(exchanges=[ended, again], errors=told, connections=[connection()])
    assert (row["kind"], row["count"]) == ("auth_refused", 2)
    assert row["advice"].endswith("The broker said: JWT expired.")


def test_what_a_server_says_last_before_it_is_lost_is_no_error_as_well() -> None:
    last = call(7.8, api="DISCONNECTED", kind="push", status="error", topics=None, client_id=None)
    (row,) = said(exchanges=[last], errors=[error(last, "Disconnected", topic=None)], connections=KILLED)
    assert row["kind"] == "broker_lost"


def test_logins_that_were_refused_for_several_reasons_are_one_verdict() -> None:
    failed = [call(at, api="SaslAuthenticate", status="error", topics=None) for at in (1, 2, 3)]
    names = ("SASL_AUTHENTICATION_FAILED", "SASL_AUTHENTICATION_FAILED", "ILLEGAL_SASL_STATE")
    told = [error(one, name, topic=None) for one, name in zip(failed, names, strict=True)]
    (row,) = said(exchanges=failed, errors=told, connections=[connection()])
    assert row["sentence"] == (
        "The broker refused 3 logins of payer on 10.0.0.2: ILLEGAL_SASL_STATE and SASL_AUTHENTICATION_FAILED."
    )


def test_a_message_that_a_consumer_discarded_is_no_failed_acknowledgement_as_well() -> None:
    ack = pulsar(answered(1, api="ACK", status="error", topics=["t"]))
    failed = pulsar(error(ack, "ChecksumMismatch", topic="t", scope="message"))
    assert kinds(exchanges=[ack], errors=[failed], connections=[connection()]) == [("discarded", "critical")]


@pytest.mark.parametrize(("count", "severity"), [(5, "warning"), (2, "note")])
def test_tls_handshakes_that_take_seconds_are_told_with_what_others_took(count: int, severity: str) -> None:
    def shaken(n: int, ns: int, **more: Any) -> Row:
        return connection(n, n, n + 9, closed="open", tls=True, tls_handshake_ns=ns, retransmissions=0, **more)

    usual = [shaken(n, 12 * MS) for n in range(20, 40)]
    late = [shaken(n, (1100 + n) * MS) for n in range(count)]
    rows = said(exchanges=[call(1)], connections=[*usual, *late])
    assert [(row["kind"], row["severity"], row["count"]) for row in rows] == [("tls_late", severity, count)]
    assert rows[0]["sentence"] == (
        f"TLS handshakes of {count} connections of payer on 10.0.0.2 with 10.0.0.1:9092 took up to "
        f"{1.1 + (count - 1) / 1000:.2f} s; others took 12.0 ms."
    )
    assert said(exchanges=[call(1)], connections=[*usual, late[0]]) == []
    lossy = [row | {"retransmissions": 1} for row in late]
    assert said(exchanges=[call(1)], connections=[*usual, *lossy]) == []
    far = [row | {"rtt_ns": 400 * MS} for row in late]
    assert said(exchanges=[call(1)], connections=[*usual, *far]) == []
    elsewhere = [row | {"server_port": 443, "protocol": None} for row in late]
    assert "tls_late" not in dict(kinds(exchanges=[call(1)], connections=[*usual, *elsewhere]))


def test_a_server_that_accepts_connections_again_is_a_note() -> None:
    (row,) = said(connections=[refused(1, 5), refused(2, 6), connection(3, 9, 20)])
    assert (row["kind"], row["severity"], row["count"]) == ("connect_refused", "note", 2)
    assert row["sentence"] == (
        "Server 10.0.0.1:9092 refused 2 connection attempts of 10.0.0.2; it accepted one 3.00 s later."
    )


@pytest.mark.parametrize(("count", "severity"), [(5, "warning"), (4, "note")])
def test_servers_that_answer_only_the_second_syn_let_clients_wait(count: int, severity: str) -> None:
    late = [connection(n, n, n + 1, rtt_ns=1001 * MS) for n in range(count)]
    rows = said(exchanges=[call(1)], connections=[*late, connection(9, rtt_ns=600 * MS)])
    ((kind, said_so, sentence),) = [(row["kind"], row["severity"], row["sentence"]) for row in rows]
    assert (kind, said_so) == ("connect_late", severity)
    assert sentence.startswith(
        f"Server 10.0.0.1:9092 kept {count} connections of payer on 10.0.0.2 waiting, up to 1.00 s"
    )


@pytest.mark.parametrize(
    ("apart_ms", "more", "told"),
    [(10, {}, True), (100, {}, False), (10, {"records": 1}, False), (10, {"long_poll": True}, False)],
)
def test_polls_that_find_nothing_and_come_often_are_told(apart_ms: int, more: Row, told: bool) -> None:
    polls = [call(n * apart_ms / 1000, **{"api": "Fetch", "records": 0} | more) for n in range(600)]
    sentences = [row["sentence"] for row in said(exchanges=polls, connections=[connection()])]
    once = "for messages 100 times a second: 600 of 600 answers came at once and had none"
    assert sentences == [f"payer on 10.0.0.2 asked 10.0.0.1:9092 {once}, in topic orders."] * told


@pytest.mark.parametrize(("found", "told"), [(30.1, True), (50, False)])
def test_a_capture_that_stood_still_says_from_when_to_when(found: float, told: bool) -> None:
    gap = place(found) | {"kind": "gap", "severity": "info", "file": "a.pcap", "packet": 9}
    asked = [call(n) for n in (*range(10), *range(30, 60))]
    rows = said(exchanges=asked, connections=[connection(gap_bytes=500, gaps=1)], findings=[gap])
    (detail,) = [row["detail"] for row in rows if row["kind"] == "capture_loss"]
    assert detail.endswith("From 12:00:09 to 12:00:30 nothing was captured on any connection.") == told


@pytest.mark.parametrize(("half", "told"), [("unanswered", True), ("call", False)])
def test_a_capture_that_lost_one_direction_says_since_when(half: str, told: bool) -> None:
    asked = [*(call(n) for n in range(10)), *(call(10 + n / 10, kind=half) for n in range(100))]
    rows = said(exchanges=asked, connections=[connection(gap_bytes=500, gaps=1)])
    (detail,) = [row["detail"] for row in rows if row["kind"] == "capture_loss"]
    assert detail.endswith("After 12:00:09 only what clients sent was captured.") == told


def test_a_client_that_has_not_logged_in_is_told_apart_from_one_without_a_right() -> None:
    failed = call(1, api="GET_STREAMS", status="error", topics=None, protocol="iggy")
    told = error(failed, "Unauthenticated", topic=None) | {"protocol": "iggy"}
    (row,) = said(exchanges=[failed], errors=[told], connections=[connection(protocol="iggy")])
    assert row["kind"] == "not_authorized"
    assert "without being logged in" in row["sentence"]


def test_errors_in_answers_to_unknown_requests_are_told_as_such() -> None:
    answers = [call(at, api=None, kind="orphan", status="error", exchange_id=f"o{at}") for at in (1, 2)]
    told = [error(one, "InvalidCommand", api=None, topic=None, retriable=False) for one in answers]
    (row,) = said(exchanges=answers, errors=told, connections=[connection()])
    assert row["sentence"] == "payer on 10.0.0.2 got 2 answers with InvalidCommand to requests that are not known."


def test_a_producer_that_waits_for_an_exclusive_topic_has_an_answer() -> None:
    asked = pulsar(call(1, api="PRODUCER", kind="unanswered", status="unknown", correlation_id=1))
    told = pulsar(call(1.1, api="PRODUCER_SUCCESS", kind="push", correlation_id=1))
    (row,) = said(exchanges=[asked], connections=[pulsar(connection(closed="open"))])
    assert row["kind"] == "unanswered"
    assert said(exchanges=[asked, told], connections=[pulsar(connection(closed="open"))]) == []


def test_no_move_of_a_topic_explains_that_nothing_could_be_stored() -> None:
    close = pulsar(answered(5, api="CLOSE_PRODUCER", kind="push", topics=["t"]), server_port=6650)
    closed = event("closed_by_broker", close, topic="t")
    opened = pulsar(call(6.5, api="PRODUCER", topics=["t"]), server_port=6650)
    failed = pulsar(call(4.9, api="SEND", status="error", error_name="PersistenceError", topics=["t"]))
    told = pulsar(error(failed, "PersistenceError", topic="t"))
    given = {"exchanges": [close, opened, failed], "errors": [told], "events": [closed]}
    assert ("errors", "warning") in kinds(**given, connections=[pulsar(connection())])


def test_what_became_of_batches_of_which_only_the_size_is_known_is_told_by_what_came_later() -> None:
    """Releases of Iggy before 0.5 send neither times nor a checksum."""
    sent = {"protocol": "iggy", "api": "SEND_MESSAGES", "topics": ["orders"]}
    calls = [call(at, **sent, status=status) for at, status in ((1, "ok"), (2, "error"), (3, "ok"))]
    written = [
        batch(at, protocol="iggy", producer=None, exchange_id=call["exchange_id"], outcome=call["status"])
        for at, call in enumerate(calls, 1)
    ]
    told = error(calls[1], "CannotSaveMessagesToSegment") | {"protocol": "iggy"}
    given = {"errors": [told], "connections": [connection(protocol="iggy")]}
    assert ("errors", "note") in kinds(exchanges=calls, batches=written, **given)
    assert ("errors", "critical") in kinds(exchanges=calls[:2], batches=written[:2], **given)


def test_two_members_with_one_instance_id_are_one_verdict_whoever_joined_again() -> None:
    beats = [call(at, api="Heartbeat", status="error", group="g", topics=None, client_id=who, port=port)
             for at, who, port in ((1, "c-1", 1), (2, "c-2", 2))]  # fmt: skip
    joined = call(3, api="JoinGroup", group="g", topics=None, client_id="c-1")
    told = [error(one, "FENCED_INSTANCE_ID", topic=None) for one in beats]
    (row,) = said(exchanges=[*beats, joined], errors=told, connections=[connection(), connection(2)])
    assert (row["severity"], row["count"], row["client_ids"]) == ("warning", 2, 2)
    assert "were fenced twice: another member uses the same group.instance.id." in row["sentence"]


def test_a_member_that_its_group_removed_is_told_so_and_what_it_did_not_commit_is_read_again() -> None:
    asked = [
        call(at, api=api, status="error", group="g", topics=None) for at, api in ((1, "Heartbeat"), (2, "OffsetCommit"))
    ]
    told = [error(one, "UNKNOWN_MEMBER_ID", topic=None) for one in asked]
    joined = call(3, api="JoinGroup", group="g", topics=None)
    (row,) = said(exchanges=[*asked, joined], errors=told, connections=[connection()])
    assert (row["severity"], row["count"]) == ("warning", 2)
    assert "not, or no longer, in group g when it sent Heartbeat and OffsetCommit" in row["sentence"]
    assert "read again" in row["advice"]
    (row,) = said(exchanges=[*asked, joined], errors=told, connections=[connection()], events=[event("joined", joined)])
    assert row["sentence"].endswith("twice; it was a member again after 2.00 s.")  # when it joined, not when it worked
    (beat,) = said(exchanges=[asked[0], joined], errors=told[:1], connections=[connection()])
    assert (beat["severity"], "was a member again after" in beat["sentence"]) == ("note", True)


def test_a_late_acknowledgement_is_not_healed_by_the_next_one() -> None:
    late, next_one = (call(at, api="ShareAcknowledge", group="g", status=ok) for at, ok in ((1, "error"), (1.1, "ok")))
    told = [error(late, "INVALID_RECORD_STATE")]
    (row,) = said(exchanges=[late, next_one], errors=told, connections=[connection()])
    assert (row["severity"], "no longer, hold: INVALID_RECORD_STATE, once." in row["sentence"]) == ("warning", True)


def test_a_member_that_was_removed_had_left_or_been_silent() -> None:
    beats = [call(at, api="ConsumerGroupHeartbeat", group="g", topics=None) for at in (1, 60, 61)]
    beats[1]["status"] = "error"
    told = [error(beats[1], "FENCED_MEMBER_EPOCH", topic=None)]
    (row,) = said(exchanges=beats, errors=told, connections=[connection()])
    assert "FENCED_MEMBER_EPOCH, once; it had been silent for 59.0 s; it was a member again" in row["sentence"]
    assert (row["severity"], "read again" in row["advice"]) == ("warning", True)
    leave = call(20, api="LeaveGroup", group="g", topics=None)
    left = [event("left", leave, group="g", subject="m-1")]
    (row,) = said(exchanges=[*beats, leave], errors=told, connections=[connection()], events=left)
    assert "payer on 10.0.0.2 had left group g 40.0 s before it sent ConsumerGroupHeartbeat" in row["sentence"]
    assert "max.poll.interval.ms" in row["advice"]
    back = event("joined", call(30, api="JoinGroup", group="g"), group="g", subject="m-2")
    (row,) = said(exchanges=[*beats, leave], errors=told, connections=[connection()], events=[*left, back])
    assert "was not, or no longer, in group g" in row["sentence"]


def leaders(*told: tuple[float, int]) -> dict[str, Rows]:
    """What answers to Metadata say of partition 0 of `orders`: the leader's number, -1 for none."""
    asked = [call(at, api="Metadata", total_ns=MS) for at, _ in told]
    said = [
        place(at)
        | {"what": "leader", "topic": "orders", "partition": 0, "value": number, "exchange_id": one["exchange_id"]}
        | {"leader": None if number < 0 else str(number), "file": "a.pcap", "packet": int(at * 100)}
        for one, (at, number) in zip(asked, told, strict=True)
    ]
    return {"exchanges": asked, "positions": said, "connections": [connection()]}


@pytest.mark.parametrize(
    ("told", "severity", "text"),
    [
        (((1, 2), (5, -1), (9, -1), (20, 3)), "warning", "had no leader for 15.0 s, until one was elected"),
        (((1, 2), (5, -1), (9, -1)), "critical", "had no leader for 4.00 s, until the end of the capture"),
        (((1, 2), (5, -1), (6, -1), (7, 3)), None, ""),
        (((1, 2), (5, -1), (6, 3), (20, -1), (21, -1)), None, ""),
    ],
    ids=["elected", "for good", "an election", "two elections"],
)
def test_a_partition_without_a_leader_for_longer_than_an_election_takes_has_stopped(
    told: Any, severity: str | None, text: str
) -> None:
    found = said(**leaders(*told))
    assert [(row["kind"], row["severity"]) for row in found] == ([("no_leader", severity)] if severity else [])
    assert all(row["sentence"].startswith(f"Partition 0 of topic orders {text}") for row in found)


def test_partitions_that_had_no_leader_are_told_together() -> None:
    told = leaders((1, 2), (5, -1), (9, -1), (20, 3))
    told["positions"] += [row | {"topic": "payments"} for row in told["positions"]]
    (row,) = said(**told)
    assert row["sentence"].startswith("2 partitions of topics orders and payments had no leader for up to 15.0 s, ")


def test_a_leader_without_the_listener_that_was_asked_is_there() -> None:
    told = leaders((1, 2), (5, -1), (9, -1), (20, 3))
    for asked in told["exchanges"][1:3]:
        asked |= {"status": "error", "error_name": "LISTENER_NOT_FOUND"}
    (row,) = said(**told)
    assert "had no leader for 15.0 s on the listener that was asked, until one was: nobody" in row["sentence"]
    assert "advertised.listeners" in row["advice"]


def test_questions_for_a_leader_that_there_is_not_are_no_storm() -> None:
    assert kinds(**leaders((0, 2), *((n / 2, -1) for n in range(1, 100)))) == [("no_leader", "critical")]


def replicas(*told: tuple[float, Sequence[str]]) -> dict[str, Rows]:
    """What answers to Metadata say of partition 0 of `orders`, which brokers 1 to 3 hold: those that are in sync."""
    made = leaders(*((at, 1) for at, _ in told))
    for row, (_, isr) in zip(made["positions"], told, strict=True):
        row |= {"isr": list(isr), "replicas": ["1", "2", "3"]}
    asked = {"file": "a.pcap", "packet": 1}
    advertised = [place(0) | asked | {"kind": "advertised", "number": 3, "subject": "10.0.0.3:9092"}]
    return made | {"events": advertised}


@pytest.mark.parametrize(
    ("told", "severity", "text"),
    [
        (
            ((1, "123"), (5, "12"), (9, "12")),
            "warning",
            "is out of sync for 1 partition in topic orders since 12:00:05:",
        ),
        (((1, "12"), (9, "12")), "note", "is out of sync for 1 partition in topic orders since 12:00:01 or before:"),
        (
            ((1, "123"), (5, "12"), (9, "123")),
            "note",
            "was out of sync for 1 partition in topic orders since 12:00:05, until 12:00:09",
        ),
        (((1, "123"), (5, "12"), (6, "123")), None, ""),
        (((1, "123"), (5, "123")), None, ""),
    ],
    ids=["to the end", "from before", "caught up", "started again", "in sync"],
)
def test_a_broker_that_holds_a_partition_and_is_not_in_sync_is_named(
    told: Any, severity: str | None, text: str
) -> None:
    found = said(**replicas(*told))
    assert [(row["kind"], row["severity"]) for row in found] == ([("out_of_sync", severity)] if severity else [])
    for row in found:
        assert row["sentence"].startswith(f"Broker 3 (10.0.0.3:9092) {text}"), row["sentence"]
        assert row["sentence"].endswith("at worst 2 of 3 replicas in sync.")


def test_each_broker_is_out_of_sync_for_its_own_time() -> None:
    found = said(**replicas((1, "123"), (5, "12"), (9, "1"), (20, "12"), (30, "12")))
    assert [(row["severity"], row["sentence"].split()[1]) for row in found] == [("warning", "3"), ("note", "2")]
    assert "since 12:00:09, until 12:00:20" in found[1]["sentence"]


def test_messages_that_were_refused_for_want_of_replicas_name_the_broker_that_is_out_of_sync() -> None:
    capture = replicas((1, "123"), (5, "12"), (9, "12"))
    refused = call(6, api="Produce", status="error")
    capture["exchanges"].append(refused)
    found = said(**capture, errors=[error(refused, "NOT_ENOUGH_REPLICAS")])
    (row,) = [row for row in found if row["kind"] == "errors"]
    assert "Broker 3 (10.0.0.3:9092) is out of sync" in row["detail"]


# --- groups behind ---------------------------------------------------------------------------------------------------


def behind(commits: Sequence[tuple[float, int]], got: Sequence[tuple[float, int]]) -> dict[str, Rows]:
    """A message a second for a minute; when a group commits an offset, and when its member gets which message."""
    reader = {"client_id": "reader", "port": 2}
    asked = [call(at, api="OffsetCommit", group="g", **reader) for at, _ in commits]
    placed = [
        place(at, 2) | {"what": "committed", "group": "g", "topic": "orders", "partition": 0, "value": offset}
        | {"client_id": "reader", "exchange_id": one["exchange_id"], "file": "a.pcap", "packet": 1}
        for one, (at, offset) in zip(asked, commits, strict=True)
    ]  # fmt: skip
    produced = [
        batch(n, base_offset=n, last_offset=n, max_timestamp=NOON + timedelta(seconds=n), base_sequence=n)
        for n in range(60)
    ]
    read = [
        batch(at, role="consume", outcome=None, producer=None, base_offset=n, last_offset=n, **reader) for at, n in got
    ]
    joined = event("joined", call(0.5, group="g", **reader), subject="m")
    ends = [connection(end=60), connection(2, end=60)]
    return {
        "exchanges": asked,
        "positions": placed,
        "batches": produced + read,
        "events": [joined],
        "connections": ends,
    }


def of_a_subscription(acked: Sequence[tuple[float, int]], got: Sequence[tuple[float, int]]) -> dict[str, Rows]:
    """What `behind` gives, of a subscription of Pulsar: with positions in one ledger in the place of offsets."""
    given = {name: [pulsar(row) for row in rows] for name, rows in behind(acked, got).items()}
    given["positions"] = [row | {"ledger": 1, "api": "ACK"} for row in given["positions"]]
    given["batches"] = [row | {"position": f"1:{row['base_offset']}"} for row in given["batches"]]
    return given


def consumer_behind(given: dict[str, Rows]) -> Rows:
    """What is told of groups that are behind."""
    return [row for row in said(**given) if row["kind"] == "consumer_behind"]


AS_IT_COMES = [(n + 0.1, n) for n in range(60)]


@pytest.mark.parametrize(
    ("commits", "got", "left", "severity", "why"),
    [
        ([(n, n // 3) for n in range(6, 60, 6)], AS_IT_COMES, False, "warning", "42 messages wait"),
        ([(10, 10), (30, 30)], AS_IT_COMES, False, "note", "its members have got them since they last committed."),
        ([(5, 5), (15, 15)], AS_IT_COMES[:15], False, "warning", "Group g stands at offset 15 of partition 0 of"),
        ([(10, 10), (30, 30)], AS_IT_COMES[:30], True, "note", "no members since 12:00:31, when the last one left"),
    ],
    ids=["slow", "commits seldom", "stopped", "done and gone"],
)
def test_a_group_is_behind_if_its_members_have_not_got_what_waits(
    commits: Any, got: Any, left: bool, severity: str, why: str
) -> None:
    given = behind(commits, got)
    if left:
        leaves = event("left", call(31, group="g", client_id="reader", port=2), subject="m")
        given["events"] = [*given["events"], leaves]
    (row,) = consumer_behind(given)
    assert (row["severity"], row["groups"]) == (severity, ["g"])
    assert why in row["sentence"]


@pytest.mark.parametrize(("tries", "severity"), [(1, "note"), (2, "warning")])
def test_members_that_begin_at_one_offset_and_come_no_further_are_told(tries: int, severity: str) -> None:
    given = behind([(5, 5), (15, 15)], AS_IT_COMES[:20])
    reader = {"group": "g", "client_id": "reader", "port": 2}
    for n in range(tries):
        joins, asks, leaves = (call(20 + 5 * n + at, api=api, **reader) for at, api in enumerate(
            ("JoinGroup", "OffsetFetch", "LeaveGroup")))  # fmt: skip
        given["exchanges"] += [joins, asks, leaves]
        given["events"] += [event("joined", joins, subject=f"m{n}"), event("left", leaves, subject=f"m{n}")]
        stands = given["positions"][-1] | {"api": "OffsetFetch", "time": asks["time"]}
        given["positions"] = [*given["positions"], stands | {"exchange_id": asks["exchange_id"]}]
    given["events"] += [event("left", call(40, **reader), subject="m")]
    (row,) = consumer_behind(given)
    assert row["severity"] == severity
    assert ("; its members began there twice and came no further." in row["sentence"]) == (tries > 1)


@pytest.mark.parametrize(("stable", "severity"), [(15, "note"), (20, "warning")])
def test_a_group_that_an_open_transaction_holds_is_no_second_warning(stable: int, severity: str) -> None:
    given = behind([(5, 5), (15, 15)], AS_IT_COMES[:15])
    for at in range(20, 60):
        told = given["positions"][0] | {"time": NOON + timedelta(seconds=at), "api": "Fetch", "exchange_id": f"f-{at}"}
        ends = {"last_stable": stable, "high_watermark": at}
        given["positions"] += [told | {"group": None, "what": what, "value": value} for what, value in ends.items()]
    found = {row["kind"]: row["severity"] for row in said(**given)}
    assert (found["transaction_held"], found["consumer_behind"]) == ("warning", severity)


def test_a_subscription_that_is_not_durable_is_not_behind_once_its_reader_has_gone() -> None:
    def told(*events: Row) -> list[str]:
        given = of_a_subscription([(10, 10)], AS_IT_COMES[:11])
        given["events"] = [pulsar(row) for row in (*given["events"], *events)]
        return [row["kind"] for row in said(**given) if row["kind"] == "consumer_behind"]

    one = call(0.5, group="g", client_id="reader", port=2)
    durable = event("subscribed", one, text="type=Exclusive, initial.position=Latest")
    left = event("left", one | {"time": NOON + timedelta(seconds=31)}, subject="m")
    assert told(durable, left) == ["consumer_behind"]
    assert told(left) == []


@pytest.mark.parametrize(
    ("acknowledges", "severity", "text"),
    [
        (lambda n: n % 2 == 0 or n < 20, "warning", "20 messages wait, the next of them 38.0 s old; w2"),
        (lambda n: False, "warning", "Group g stands still in partition 0 of topic orders: 60 messages wait"),
        (lambda n: n != 21, "note", "w2 on 10.0.0.2 got 1 of them and"),  # it may take that long
        (lambda n: True, None, ""),
    ],
    ids=["one consumer hangs", "all hang", "one message takes long", "all work"],
)
def test_of_consumers_that_share_a_subscription_the_one_that_holds_messages_is_named(
    acknowledges: Callable[[int], bool], severity: str | None, text: str
) -> None:
    given = of_a_subscription([(n + 0.5, n) for n in range(60) if acknowledges(n)], AS_IT_COMES)
    for row in given["batches"]:
        row["first_timestamp"] = row["max_timestamp"] = NOON + timedelta(seconds=row["base_offset"])
        if row["role"] == "consume":
            row |= {"group": "g", "client_id": f"w{row['base_offset'] % 2 + 1}"}
    delivered = [row for row in given["batches"] if row["role"] == "consume"]
    given["exchanges"] += [row | {"api": "MESSAGE", "kind": "push"} for row in delivered]
    given["events"] = [row | {"text": "Shared", "topic": "orders"} for row in given["events"]]
    found = consumer_behind(given)
    assert [row["severity"] for row in found] == ([severity] if severity else [])
    assert [row["sentence"] for row in found if text not in row["sentence"]] == []


@pytest.mark.parametrize(
    ("acked", "got", "severity", "text"),
    [
        ([], 60, "note", "60 messages wait; reader on 10.0.0.2 got 60 of them and acknowledged none"),
        (
            [(5.5, 5), (30.5, 30)],
            60,
            "note",
            "29 messages wait; reader on 10.0.0.2 got 29 of them and acknowledged none",
        ),
        ([(5.5, 5), (30.5, 30)], 58, "note", "29 messages wait; reader on 10.0.0.2 got 27 of them and"),
        ([(5.5, 5), (30.5, 30)], 40, "warning", "29 messages wait; reader on 10.0.0.2 got 9 of them and"),
    ],
    ids=["acknowledges nothing", "acknowledges seldom", "two are on their way", "gets nothing more"],
)
def test_a_consumer_that_has_a_subscription_to_itself_may_acknowledge_seldom(
    acked: Any, got: int, severity: str, text: str
) -> None:
    given = of_a_subscription(acked, AS_IT_COMES[:got])
    delivered = [row for row in given["batches"] if row["role"] == "consume"]
    for row in delivered:
        row |= {"group": "g", "last_offset": None}
    given["exchanges"] += [row | {"api": "MESSAGE", "kind": "push"} for row in delivered]
    one = call(0.5, group="g", client_id="reader", port=2)
    given["events"] = [pulsar(event("subscribed", one, text="type=Exclusive", topic="orders"))]
    (row,) = consumer_behind(given)
    assert (row["severity"], text in row["sentence"]) == (severity, True)


@pytest.mark.parametrize("ended", [False, True])
def test_an_open_transaction_of_pulsar_is_named_where_a_subscription_stands_still(ended: bool) -> None:
    given = of_a_subscription([(5.5, 5), (15.5, 15)], [])
    asked = [pulsar(answered(at, api=api)) for at, api in ((3, "NEW_TXN"), (4, "SEND"), (5, "END_TXN"))]
    kinds = ("transaction_began", "transaction_joined", "transaction_ended")
    said_of = [
        pulsar(event(kind, one, subject="(1,7)", topic="orders")) for kind, one in zip(kinds, asked, strict=True)
    ]
    given |= {"exchanges": given["exchanges"] + asked, "events": [*given["events"], *said_of[: 2 + ended]]}
    (row,) = consumer_behind(given)
    assert ("transaction (1,7) of payer is open since 12:00:03" in row["sentence"]) is not ended


@pytest.mark.parametrize(("delay", "text"), [(20, None), (5, "15 messages wait, the next of them 14.1 s old")])
def test_a_message_that_is_to_be_delivered_later_waits_from_then_on(delay: int, text: str | None) -> None:
    delivered = [(n + 20.1, n) for n in range(40)]
    given = of_a_subscription(delivered, delivered)
    for row in given["batches"]:
        made = NOON + timedelta(seconds=row["base_offset"])
        row |= {"first_timestamp": made, "max_timestamp": made, "deliver_at": made + timedelta(seconds=delay)}
    given["events"] = [row | {"text": "Shared", "topic": "orders"} for row in given["events"]]
    found = consumer_behind(given)
    assert [str(text) in row["sentence"] for row in found] == ([True] if text else [])


STOOD = [(10, 10), *((n, n) for n in range(50, 61))]
CAUGHT_UP = [*AS_IT_COMES[:10], *((49.5, n) for n in range(10, 50)), *AS_IT_COMES[50:]]


@pytest.mark.parametrize(
    ("commits", "got", "text"),
    [
        (STOOD, CAUGHT_UP, "Group g was 40 messages behind in partition 0 of topic orders at 12:00:49; it has caught "
            "up."),
        (STOOD, AS_IT_COMES, None),  # its member had got them
        ([(10, 10), (50, 5), *STOOD[2:]], CAUGHT_UP, None),  # it went back on purpose
    ],
    ids=["stood still", "committed late", "went back"],
)  # fmt: skip
def test_a_group_that_was_behind_and_caught_up_is_a_note(commits: Any, got: Any, text: str | None) -> None:
    found = consumer_behind(behind(commits, got))
    assert [(row["severity"], row["sentence"]) for row in found] == ([("note", text)] if text else [])


def test_a_group_was_as_late_as_the_message_that_waited_until_it_committed_again() -> None:
    given = behind([(10, 10), (50.9, 50), *((n, n) for n in range(51, 61))], CAUGHT_UP)
    for one in given["batches"]:
        one["first_timestamp"] = one["max_timestamp"] = NOON + timedelta(seconds=one["base_offset"])
    (row,) = consumer_behind(given)
    assert row["sentence"] == (
        "Group g was 41 messages behind in partition 0 of topic orders at 12:00:50, the next of them 40.9 s old; it "
        "has caught up."
    )


@pytest.mark.parametrize(
    ("commits", "severity", "text"),
    [
        ([(n, n // 3) for n in range(3, 68)], "warning", "Group g falls behind"),  # nothing more comes at the end
        ([(20, 20), *((n, n) for n in range(25, 60, 5))], None, ""),  # as clients commit by themselves
        ([(2, 2), *((n, 2 * n - 64) for n in range(33, 50, 4))], "note", "it catches up, and 19 messages still wait."),
    ],
    ids=["slower than its topic", "commits every five seconds", "reads twice as fast"],
)
def test_whether_a_group_catches_up_is_judged_over_half_a_minute(commits: Any, severity: str | None, text: str) -> None:
    last = max(at for at, _ in commits) + 4
    given = behind(commits, [(at, offset) for at, offset in commits if offset < 60])
    given["batches"] = [one for one in given["batches"] if one["time"] < NOON + timedelta(seconds=last)]
    for one in given["batches"]:
        one["first_timestamp"] = one["max_timestamp"] = NOON + timedelta(seconds=one["base_offset"])
    found = consumer_behind(given)
    assert [row["severity"] for row in found] == ([severity] if severity else [])
    assert all(text in row["sentence"] for row in found)


@pytest.mark.parametrize(
    ("found", "grows", "text"),
    [
        ([], 1, "30 polls of consumer 9 (reader on 10.0.0.2) for partition 0 of topic orders found nothing, though 29"),
        ([0, 1, 2], 1, "27 polls of consumer 9"),
        ([0, 15, 29], 1, None),
        ([0], 0, None),
    ],
    ids=["finds nothing", "finds no more", "finds some", "nothing came"],
)
def test_polls_of_iggy_that_find_nothing_though_messages_come_are_told(
    found: list[int], grows: int, text: str | None
) -> None:
    iggy = {"protocol": "iggy", "client_id": "reader"}
    polls = [call(n, api="POLL_MESSAGES", records=int(n in found)) | iggy for n in range(30)]
    ends = [
        place(n) | iggy | {"what": "high_watermark", "value": 10 + n * grows, "topic": "orders", "partition": 0}
        | {"consumer": "9", "api": "POLL_MESSAGES", "exchange_id": one["exchange_id"], "file": "a.pcap", "packet": 1}
        for n, one in enumerate(polls)
    ]  # fmt: skip
    rows = said(exchanges=polls, positions=ends, connections=[connection() | {"protocol": "iggy"}])
    assert [row["sentence"][: len(text or "")] for row in rows] == ([text] if text else [])


@pytest.mark.parametrize(
    ("read", "sent", "text"),
    [
        (
            [0],
            [0, 1, 2, 2],
            "3 messages were sent to partitions 1, 2 of topic orders, which nobody in the capture reads",
        ),
        ([0, 1], [0, 1], None),
        ([], [0, 1], None),
    ],
)
def test_partitions_that_nobody_reads_are_told_where_others_of_their_topic_are_read(
    read: list[int], sent: list[int], text: str | None
) -> None:
    flows = [
        pulsar(place(1)) | {"what": "permits", "topic": "orders", "partition": partition, "value": 100, "group": "g"}
        for partition in read
    ]
    written = [pulsar(batch(5 + n, partition=one, records=1)) for n, one in enumerate(sent)]
    rows = said(positions=flows, batches=written, connections=[connection()])
    found = [row for row in rows if row["kind"] == "consumer_behind"]
    assert [(row["severity"], row["sentence"][: len(text or "")]) for row in found] == (
        [("note", text)] if text else []
    )


# --- permits ---------------------------------------------------------------------------------------------------------


def dry(granted: float | None = None) -> Rows:
    """A consumer whose permits a message uses up 10 s after noon, and when it grants more, if it does."""
    consumer = {"group": "s", "client_id": "c-1", "topics": ["t"]}
    message = pulsar(answered(10, api="MESSAGE", kind="push", permits_left=0, **consumer))
    flows = [] if granted is None else [pulsar(call(granted, api="FLOW", kind="oneway", permits_left=100, **consumer))]
    return [message, *flows]


def test_a_consumer_that_acknowledges_nothing_stands_still_until_the_capture_ends() -> None:
    whose = {"group": "s", "client_id": "c-1", "topic": "t", "partition": None}
    got = pulsar(batch(10, role="consume", records=20, producer=None, outcome=None, **whose))
    granted = pulsar(place(5), what="permits", value=100, file="a.pcap", packet=1, **whose)
    came = [pulsar(batch(at, topic="t", partition=None, client_id="boss", port=2)) for at in (20, 30)]
    given = {"batches": [got, *came], "positions": [granted], "connections": [pulsar(connection(end=40))]}
    (row,) = said(**given)
    assert row["kind"] == "delivery_stopped"
    assert "for 30.0 s, until the end of the capture: it holds 20 messages" in row["sentence"]
    (impact,) = harmed(**given)
    assert (impact["what"], impact["client_id"], impact["group"]) == ("stopped", "c-1", "s")
    assert (impact["from"], impact["until"]) == (NOON + timedelta(seconds=10), NOON + timedelta(seconds=40))
    assert impact["time_ns"] == 30 * SECOND


@pytest.mark.parametrize(
    "more",
    [
        {"positions": [pulsar(place(11)) | {"what": "committed", "api": "ACK", "ledger": 7, "value": 0}]},
        {"positions": [pulsar(place(11)) | {"what": "committed", "api": "ACK", "ledger": 7, "value": 5}]},
        {"events": [pulsar(place(11)) | {"kind": "left", "subject": "c-1"}]},
        {"batches": [pulsar(place(31, port=3)) | {"role": "consume", "client_id": "c-2", "position": "7:1"}]},
        {"topics": {"partition": 1}},
    ],
    ids=["its batch", "all up to another", "it left", "another consumer got it", "messages of another partition"],
)
def test_a_consumer_that_holds_nothing_back_is_not_stopped(more: dict[str, Any]) -> None:
    whose = {"group": "s", "topic": "t", "partition": 0}
    stored = {"topic": "t", "client_id": "boss", "port": 2, **({"partition": 0} | more.pop("topics", {}))}
    given: dict[str, Rows] = {
        "batches": [
            pulsar(batch(10, role="consume", records=20, producer=None, outcome=None, position="7:0", client_id="c-1"))
            | whose,
            pulsar(batch(30, position="7:1", **stored)),
        ],
        "positions": [pulsar(place(5)) | whose | {"what": "permits", "value": 100, "client_id": "c-1"}],
        "connections": [pulsar(connection(end=40)), pulsar(connection(2, end=40)), pulsar(connection(3, end=40))],
    }
    warnings = [("delivery_stopped", "critical")] * (stored["partition"] == 0)
    assert [each for each in kinds(**given) if each[1] != "note"] == warnings
    for table, rows in more.items():
        given[table] = [*given.get(table, []), *(whose | row for row in rows)]
    assert [each for each in kinds(**given) if each[1] != "note"] == []


def test_a_consumer_that_left_the_broker_without_permits_for_a_while_is_slow() -> None:
    (row,) = said(exchanges=dry(granted=13), connections=[pulsar(connection())])
    assert (row["kind"], row["cost_ns"], row["groups"]) == ("slow_consumer", 3 * SECOND, ["s"])
    assert row["sentence"].startswith("Consumer c-1 of subscription s (")


@pytest.mark.parametrize(
    ("published", "severity", "waiting"),
    [
        ([], "note", ""),
        ([batch(5, topic="t", partition=None)], "note", ""),  # it came before the permits had run out
        ([batch(50, topic="t", partition=1)], "note", ""),
        ([batch(50, topic="t", partition=None, outcome="error")], "note", ""),
        (
            [batch(n, topic="t", partition=None, records=3) for n in (50, 60)],
            "warning",
            ", while 6 messages more came to it",
        ),
    ],
)
def test_a_consumer_that_grants_no_permits_any_more_has_stopped(published: Rows, severity: str, waiting: str) -> None:
    taken = [pulsar(row) for row in published]
    (row,) = said(batches=taken, exchanges=dry(), connections=[pulsar(connection())])
    assert (row["kind"], row["severity"], row["groups"]) == ("permits_exhausted", severity, ["s"])
    assert "Consumer c-1 of subscription s (" in row["sentence"]
    assert row["sentence"].endswith(f"after the last messages of topic t: nothing was delivered for 90.0 s{waiting}.")


def test_permits_that_are_granted_in_time_are_no_verdict() -> None:
    assert said(exchanges=dry(granted=10.5), connections=[pulsar(connection())]) == []


# --- kinds -----------------------------------------------------------------------------------------------------------


def test_no_kind_of_finding_is_a_kind_of_verdict() -> None:
    assert not findings.KINDS.keys() & KINDS.keys()


def single(connections: int) -> Rows:
    """400 batches of one message each, spread over some connections of one client."""
    return [
        batch(n / 100, port=n % connections + 1, client_id="payer", producer="7", base_sequence=n // connections)
        for n in range(400)
    ]


@pytest.mark.parametrize("count", [1, 40])
def test_a_habit_is_the_same_over_one_connection_and_over_many(count: int) -> None:
    (row,) = said(batches=single(count), connections=[connection(port) for port in range(1, count + 1)])
    assert (row["kind"], row["count"]) == ("unbatched", 400)
    assert row["sentence"].startswith("400 of 400 batches of payer on 10.0.0.2")


def test_a_group_that_its_broker_says_cannot_work_is_told_with_the_status() -> None:
    beat = call(1, api="StreamsGroupHeartbeat", group="g", topics=None)
    status = event("status", beat, group="g", text="MISSING_SOURCE_TOPICS: Source topics lines are missing.")
    (row,) = said(exchanges=[beat], events=[status], connections=[connection()])
    assert (row["kind"], row["severity"]) == ("group_not_ready", "warning")
    assert "MISSING_SOURCE_TOPICS: Source topics lines are missing" in row["sentence"]
    well = call(3, api="StreamsGroupHeartbeat", group="g", topics=None)
    (row,) = said(exchanges=[beat, well], events=[status, event("status", well, group="g")], connections=[connection()])
    assert (row["severity"], "for 2.00 s" in row["sentence"]) == ("note", True)


def test_messages_that_were_refused_are_told_apart_from_fetches_that_failed_alike() -> None:
    sent, fetched = call(1, status="error"), call(2, api="Fetch", client_id="reader", status="error")
    name = "UNKNOWN_TOPIC_OR_PARTITION"
    rows = said(
        exchanges=[sent, fetched],
        batches=[batch(1, outcome="error", exchange_id=sent["exchange_id"])],
        errors=[error(sent, name), error(fetched, name)],
        connections=[connection()],
    )
    assert [(row["severity"], row["count"], row["clients"]) for row in rows if row["kind"] == "errors"] == [
        ("critical", 1, ["10.0.0.2 payer"]),
        ("warning", 1, ["10.0.0.2 reader"]),
    ]


def test_errors_about_a_topic_name_who_deleted_it_before() -> None:
    deleting = call(1, api="DeleteTopics", client_id="cleaner")
    failed = call(2, status="error", error_name="UNKNOWN_TOPIC_OR_PARTITION")
    (row,) = said(
        exchanges=[deleting, failed],
        errors=[error(failed, "UNKNOWN_TOPIC_OR_PARTITION")],
        events=[event("deleted", deleting, thing="topic", topic="orders", number=0)],
        connections=[connection()],
    )
    assert row["kind"] == "errors"
    assert "cleaner on 10.0.0.2 deleted topic orders before" in row["detail"]


@pytest.mark.parametrize(
    ("name", "changed", "told"),
    [
        (
            "TOPIC_AUTHORIZATION_FAILED",
            {"kind": "deleted", "thing": "acl", "topic": "orders", "subject": "User:app", "text": "allow READ on all"},
            "deleted acl User:app (allow READ on all) before",
        ),
        (
            "MESSAGE_TOO_LARGE",
            {"kind": "altered", "thing": "topic", "topic": "orders", "text": "max.message.bytes=10"},
            "altered topic orders (max.message.bytes=10) before",
        ),
        (
            "UNKNOWN_TOPIC_OR_PARTITION",
            {"kind": "altered", "thing": "topic", "topic": "orders", "text": "max.message.bytes=10"},
            None,
        ),
        ("StreamIdNotFound", {"kind": "deleted", "thing": "stream", "topic": "shop"}, "deleted stream shop before"),
        ("StreamIdNotFound", {"kind": "deleted", "thing": "stream", "topic": "sho"}, None),
    ],
)
def test_an_error_names_the_change_that_may_have_caused_it_and_no_other(
    name: str, changed: dict[str, Any], told: str | None
) -> None:
    changing = call(1, api="CreateTopics", client_id="admin")
    topic = "shop/orders" if changed["thing"] == "stream" else "orders"
    failed = call(2, status="error", error_name=name, topics=[topic])
    more = {key: value for key, value in changed.items() if key != "kind"}
    rows = said(
        exchanges=[changing, failed],
        errors=[error(failed, name, topic=topic)],
        events=[event(changed["kind"], changing, number=0, **more)],
        connections=[connection()],
    )
    row = next(row for row in rows if row["kind"] in ("errors", "not_authorized"))
    assert (f"admin on 10.0.0.2 {told}" in (row["detail"] or "")) if told else ("admin" not in (row["detail"] or ""))


@pytest.mark.parametrize(("subject", "told"), [("payer", True), ("3", True), ("other", False)])
@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("Unauthenticated", {"kind": "deleted"}),
        ("Unauthorized", {"kind": "altered", "text": "permissions=none"}),
        ("InvalidCredentials", {"kind": "altered", "text": "password changed"}),
    ],
)
def test_a_client_of_iggy_that_is_refused_names_who_changed_its_user_and_no_other(
    name: str, changed: Row, subject: str, told: bool
) -> None:
    iggy: Row = {"protocol": "iggy"}
    changing, failed = call(1, api="CREATE_USER", client_id="admin") | iggy, call(2, status="error") | iggy
    made = event(changed["kind"], changing, number=0, thing="user", subject=subject) | iggy | changed
    refusal = error(failed, name) | iggy
    rows = said(exchanges=[changing, failed], errors=[refusal], events=[made], connections=[connection() | iggy])
    assert [f"admin on 10.0.0.2 {changed['kind']} user {subject}" in (row["detail"] or "") for row in rows] == [told]


def polled(found: Sequence[tuple[int, int]], end: int, **more: Any) -> dict[str, Rows]:
    """Polls of Iggy, two seconds apart: the first and the last offset that each found, and the end of the partition."""
    iggy = {"protocol": "iggy", "client_id": "reader", "api": "POLL_MESSAGES", "topic": "orders", "partition": 0} | more
    polls = [call(n, records=1) | iggy for n in range(0, 2 * len(found), 2)]
    shared = [iggy | {"exchange_id": one["exchange_id"], "file": "a.pcap", "packet": 1} for one in polls]
    return {
        "exchanges": [{key: one[key] for key in one if key in schema("exchanges").names} for one in polls],
        "positions": [place(2 * n) | of | {"what": "high_watermark", "value": end} for n, of in enumerate(shared)],
        "batches": [
            {key: row[key] for key in row if key in schema("batches").names}
            for n, (of, (first, last)) in enumerate(zip(shared, found, strict=True))
            for row in [batch(2 * n) | of | {"role": "consume", "base_offset": first, "last_offset": last}]
        ],
        "connections": [connection() | {"protocol": "iggy"}],
    }


@pytest.mark.parametrize(
    ("found", "end", "reader", "severities"),
    [
        ([(5, 8)] * 10, 40, {"group": "g"}, ["warning"]),
        ([(5, 8)] * 10, 9, {"group": "g"}, ["warning"]),
        ([(5, 8 + n) for n in range(10)], 18, {"group": "g"}, ["warning"]),
        ([(5, 8)] * 10, 40, {"consumer": "7"}, ["note"]),
        ([(5, 8)] * 10, 9, {"consumer": "7"}, []),
        ([(5, 8)] * 9, 40, {"group": "g"}, []),
        ([(5, 8), (9, 12)] * 10, 40, {"group": "g"}, []),
    ],
    ids=["a group", "of all there is", "of more and more", "no group", "one that looks", "seldom", "not in a row"],
)
def test_polls_that_begin_at_one_offset_again_and_again_are_told(
    found: list[tuple[int, int]], end: int, reader: Row, severities: list[str]
) -> None:
    rows = [row for row in said(**polled(found, end, **reader)) if "one after the other" in row["sentence"]]
    assert [(row["kind"], row["severity"]) for row in rows] == [("consumer_behind", one) for one in severities]
    named = "group g" if "group" in reader else "consumer 7"
    for row in rows:
        assert row["sentence"].startswith(f"10 polls of {named} (reader on 10.0.0.2) for partition 0 of topic orders")
        assert ("31 messages wait behind" in row["sentence"]) == (end == 40)


@pytest.mark.parametrize(("every", "value", "told"), [(2, 9, 0), (2, 8, 1), (0.5, 8, 0)])
def test_polls_that_begin_at_one_offset_may_choose_that_or_store_it_soon(every: float, value: int, told: int) -> None:
    """The last message again and again, with auto-commit; or, for some seconds, what came since it was stored last."""
    made = polled([(8, 8)] * 12, 9, group="g")
    for row in (row for name in ("exchanges", "positions", "batches") for row in made[name]):
        row["time"] = NOON + (row["time"] - NOON) * every / 2
    made["positions"] += [made["positions"][0] | place(3) | {"protocol": "iggy", "what": "committed", "value": value}]
    rows = [row for row in said(**made) if "one after the other" in row["sentence"]]
    assert [row["kind"] for row in rows] == ["consumer_behind"] * told


@pytest.mark.parametrize("member", [False, True])
def test_clients_that_commit_for_a_group_of_kafka_by_turns_are_told_unless_they_are_its_members(member: bool) -> None:
    made = commits(*range(12))
    for n in range(12):
        made["exchanges"][n]["client_id"] = made["positions"][n]["client_id"] = f"etl-{n % 2}"
    beats = [call(0.5, api="Heartbeat", group="g", client_id="etl-0")] if member else []
    rows = said(**made | {"exchanges": [*made["exchanges"], *beats]})
    assert [row["kind"] for row in rows] == ["shared_offset"] * (not member)
    for row in rows:
        assert "as group g, which has no members: they stored its offset by turns, 12 times" in row["sentence"]


@pytest.mark.parametrize(
    ("hosts", "reader", "told"),
    [
        ([2, 3] * 6, {"consumer": "7"}, True),
        ([2] * 6 + [3] * 6, {"consumer": "7"}, False),
        ([2, 3, 2, 3, 2, 3], {"consumer": "7"}, False),
        ([2, 3] * 6, {"group": "g"}, False),
        ([2] * 12, {"consumer": "7"}, False),
    ],
    ids=["by turns", "one after the other", "a few times", "members of a group", "one client"],
)
def test_clients_that_read_beside_each_other_as_one_consumer_are_told(
    hosts: list[int], reader: Row, told: bool
) -> None:
    iggy = {"protocol": "iggy", "api": "POLL_MESSAGES", "client_id": "reader"}
    polls = [call(n, **iggy, client_ip=f"10.0.0.{host}") for n, host in enumerate(hosts)]
    stored = [
        place(n) | iggy | reader | {"what": "committed", "topic": "orders", "partition": 0, "value": n}
        | {"exchange_id": one["exchange_id"], "client_ip": one["client_ip"], "packet": n}
        for n, one in enumerate(polls)
    ]  # fmt: skip
    rows = said(exchanges=polls, positions=stored, connections=[connection() | {"protocol": "iggy"}])
    assert [row["kind"] for row in rows if row["kind"] == "shared_offset"] == ["shared_offset"] * told
    if told:
        (row,) = (row for row in rows if row["kind"] == "shared_offset")
        assert "reader on 2 hosts read topic orders beside each other as consumer 7" in row["sentence"]


@pytest.mark.parametrize("by", ["turns, each on a new connection", "a NAT between two capture points", "a proxy"])
def test_clients_that_do_not_read_beside_each_other_share_no_offset(by: str) -> None:
    """Jobs that run now here, now there; and one client that is seen twice, with two addresses."""
    iggy = {"protocol": "iggy", "api": "POLL_MESSAGES", "client_id": "reader"}
    seen: dict[str, list[Row]] = {"turns, each on a new connection": [{}, {}], "a proxy": [{}, {"server_port": 9999}]}
    both = seen.get(by, [{}, {"site": "there"}])
    runs = range(24) if by.startswith("turns") else [1, 2] * 12
    polls = [
        call(n, port=port, **iggy) | {"client_ip": f"10.0.0.{2 + n % 2}"} | both[n % 2] for n, port in enumerate(runs)
    ]
    stored = [
        place(n) | iggy | {"what": "committed", "topic": "orders", "partition": 0, "value": n, "consumer": "7"}
        | {key: one[key] for key in ("exchange_id", "client_ip", "site")} | {"packet": n}
        for n, one in enumerate(polls)
    ]  # fmt: skip
    rows = said(exchanges=polls, positions=stored, connections=[connection() | {"protocol": "iggy"}])
    assert [row["kind"] for row in rows if row["kind"] == "shared_offset"] == []


@pytest.mark.parametrize(("every", "told"), [(0.5, True), (2, False)])
def test_a_client_that_joins_its_group_all_the_time_is_told(every: float, told: bool) -> None:
    iggy = {"protocol": "iggy", "api": "JOIN_CONSUMER_GROUP", "group": "g"}
    joins = [call(n * every, **iggy) for n in range(70)]
    rows = said(exchanges=joins, connections=[connection(end=200) | {"protocol": "iggy"}])
    assert [(row["kind"], row["count"]) for row in rows] == [("rebalances", 70)] * told


def test_many_clients_of_a_host_that_join_once_each_do_not_disturb_their_group() -> None:
    joins = [call(n / 4, port=n + 1, protocol="iggy", api="JOIN_CONSUMER_GROUP", group="g") for n in range(70)]
    rows = said(exchanges=joins, connections=[connection(n + 1) | {"protocol": "iggy"} for n in range(70)])
    assert [row["kind"] for row in rows if row["kind"] == "rebalances"] == []


@pytest.mark.parametrize(("every", "told"), [(0.01, True), (0.5, False)])
def test_a_client_that_asks_iggy_what_there_is_is_a_storm_only_where_it_never_stops(every: float, told: bool) -> None:
    asked = [call(n * every, protocol="iggy", api="GET_STATS", topics=None) for n in range(3100)]
    rows = said(exchanges=asked, connections=[connection(end=2000) | {"protocol": "iggy"}])
    assert [row["kind"] for row in rows] == ["metadata_storm"] * told
    assert all("less often" in row["advice"] for row in rows)


@pytest.mark.parametrize(("at", "told"), [(5, True), (20, False)])
def test_nothing_waits_in_a_topic_that_was_emptied(at: float, told: bool) -> None:
    """Unless messages came since."""
    made = polled([(n, n) for n in range(8)], 40, group="g")
    made["positions"] += [made["positions"][0] | place(0) | {"protocol": "iggy", "what": "committed", "value": 1}]
    purging = call(at, api="PURGE_TOPIC", port=2) | {"protocol": "iggy"}
    made["exchanges"] += [purging, call(60) | {"protocol": "iggy"}]
    purged = event("altered", purging, thing="topic", topic="orders", text="purged", number=0) | {"protocol": "iggy"}
    rows = [row for row in said(**made, events=[purged]) if "stands at offset 1 of" in row["sentence"]]
    assert [row["kind"] for row in rows] == ["consumer_behind"] * told


@pytest.mark.parametrize("protocol", ["pulsar", "iggy"])
def test_a_ping_that_had_no_answer_is_told_of_each_protocol_that_has_one(protocol: str) -> None:
    ping = call(1, api="PING", initiator="client", topics=None, **UNANSWERED) | {"protocol": protocol}
    closed = connection(end=30, closed="fin", closed_by="client") | {"protocol": protocol}
    (row,) = said(exchanges=[ping], connections=[closed])
    assert row["kind"] == "keepalive_timeout"
    assert row["sentence"] == (
        "1 PING of payer on 10.0.0.2 had no answer from 10.0.0.1:9092; 1 connection was closed by the client 29.0 s "
        "later."
    )


@pytest.mark.parametrize(
    ("side", "slow", "told"),
    [
        ("client", 30, "the client wrote them in pieces"),
        ("server", 30, "the broker wrote its answers in pieces"),
        ("client", 15, None),
        ("client", 19, None),
    ],
)
def test_requests_that_wait_for_delayed_acknowledgements_as_a_habit_are_told(
    side: str, slow: int, told: str | None
) -> None:
    """A habit: twenty requests and more, and half of all that the client sent."""
    took = {"total_ns": 42 * MS, "wait_ns": MS, "request_ns": 0, "response_ns": 0}
    took["request_ns" if side == "client" else "response_ns"] = 40 * MS
    calls = [call(n, **(took if n < slow else {})) for n in range(30)]
    begins = 0 if side == "client" else 0.001
    stalls = [stall(n + begins, 40 * MS, "delayed_ack", side) for n in range(slow)]
    rows = said(exchanges=calls, connections=[connection()], stalls=stalls)
    assert [told in row["sentence"] for row in rows if row["kind"] == "delayed_ack"] == [True] * bool(told)
    if told:
        assert (
            "30 of 30 requests of payer on 10.0.0.2 to 10.0.0.1:9092 (Produce) took 40.0 ms longer"
            in (rows[0]["sentence"])
        )


@pytest.mark.parametrize(
    ("side", "wait_ms", "told"), [("client", 1, True), ("client", 45, False), ("server", 1, False)]
)
def test_where_the_path_may_be_long_nobody_is_said_to_delay_acknowledgements(
    side: str, wait_ms: int, told: bool
) -> None:
    """On a connection whose handshake is missing, unless the broker answers sooner than it acknowledges."""
    took = {"total_ns": (41 + wait_ms) * MS, "wait_ns": wait_ms * MS, "request_ns": 0, "response_ns": 0}
    took["request_ns" if side == "client" else "response_ns"] = 40 * MS
    took["total_ns"] = min(took["total_ns"], 79 * MS)
    begins = 0 if side == "client" else 0.001
    stalls = [stall(n + begins, 40 * MS, "delayed_ack", side) for n in range(30)]
    rows = said(
        exchanges=[call(n, **took) for n in range(30)], connections=[connection(handshake="none")], stalls=stalls
    )
    assert [row["kind"] for row in rows if row["kind"] == "delayed_ack"] == ["delayed_ack"] * told


@pytest.mark.parametrize(
    ("why", "finds", "partitions", "told"),
    [
        ("one partition for three members", {1: range(40)}, [0], "2 of 3 members of group g"),
        ("a member found some", {1: range(40), 2: [5]}, [0], "1 of 3 members of group g"),
        ("an idle one reconnects", {1: range(80)}, [0], "2 of 3 members of group g"),
        ("partitions for all", {1: range(40)}, [0, 1, 2], None),
        ("nobody found anything", {}, [0], None),
        ("few messages came", {1: range(10)}, [0], None),
    ],
)
def test_members_of_iggy_that_get_nothing_while_others_do_are_told(
    why: str, finds: dict[int, Sequence[int]], partitions: list[int], told: str | None
) -> None:
    """Three members, each with a connection of its own, that poll once a second."""
    again = "reconnects" in why
    iggy = {"protocol": "iggy", "api": "POLL_MESSAGES", "group": "g", "client_id": "reader"}
    polls = [
        call(n + port / 10, port=port, records=int(n in finds.get(port, []))) | iggy
        for port in (1, 2, 3) for n in range(80 if again and port < 3 else 40)
    ]  # fmt: skip
    polls += [call(n + 0.3, port=4, records=0) | iggy for n in range(40, 80) if again]
    found = [
        batch(n, role="consume", partition=partition, base_offset=n, last_offset=n) | iggy
        for n, partition in enumerate(partitions)
    ]
    rows = said(exchanges=polls, batches=found, connections=[connection(port, protocol="iggy") for port in (1, 2, 3)])
    named = [row["sentence"] for row in rows if row["kind"] == "idle_members"]
    assert [(told or "") in sentence for sentence in named] == [True] * bool(told), why


@pytest.mark.parametrize("why", ["a member came back on a new connection", "bytes are missing"])
def test_members_of_iggy_are_counted_as_they_were_at_once_and_idle_only_where_their_answers_say_so(why: str) -> None:
    """Two members, a partition each: the second, after it came back, got nothing, as nothing was sent to its own."""
    iggy = {"protocol": "iggy", "api": "POLL_MESSAGES", "group": "g", "client_id": "reader"}
    again = why.startswith("a member")
    polls = [call(n + 0.1, port=1, records=1) | iggy for n in range(80)]
    polls += [
        call(n + 0.2, port=2 if n < 40 else 3, records=int(n < 40)) | iggy | ({} if again else {"records": None})
        for n in range(80)
    ]
    found = [batch(n, role="consume", partition=n, base_offset=n, last_offset=n) | iggy for n in range(1 + again)]
    rows = said(exchanges=polls, batches=found, connections=[connection(port, protocol="iggy") for port in (1, 2, 3)])
    assert [row["sentence"] for row in rows if row["kind"] == "idle_members"] == []


def test_very_many_rows_of_one_verdict_need_no_room_in_memory(tmp_path: Path) -> None:
    plain = made_of({"batches": [batch(1, producer=None)]})
    with LocalEngine(str(tmp_path), {}, tmp_path, memory="100MB") as made:
        for name, rows in plain.items():
            made.duckdb.register(f"given_{name}", rows)
            made.duckdb.execute(f"create view {name} as from given_{name}")
        made.duckdb.execute("""
            create or replace view batches as select b.* replace (packet + n as packet, 'id-' || n as exchange_id)
            from given_batches b, range(400000) r(n)""")
        (told,) = judged(made.duckdb).verdicts.filter(pc.field("kind") == "not_idempotent").to_pylist()
    assert told["count"] == 400_000
    assert [place["packet"] for place in told["evidence"]] == list(range(101, 10_101))


def test_verdicts_of_one_check_share_what_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "OF_A_CHECK", 12)
    failed = [call(n, status="error", error_name=f"ERROR_{n % 3}") for n in range(30)]
    rows = said(exchanges=failed, errors=[error(one, one["error_name"]) for one in failed], connections=[connection()])
    told = [(row["count"], len(row["evidence"])) for row in rows if row["kind"] == "errors"]
    assert told == [(10, 4)] * 3
