"""What is said of errors: what to do about each, what became of batches, and what follows from them."""

import pytest

from tests.pipelines.test_verdicts import NOON, Row, Rows, call, connection, error, said


def refused(name: str) -> dict[str, Rows]:
    """A batch that is sent four times, and always answered with an error."""
    failed = [call(1 + n, status="error", error_name=name, exchange_id=f"abc-c{n}") for n in range(4)]
    batches: Rows = [
        {key: one[key] for key in ("site", "protocol", "connection", "incarnation", "client_ip", "client_port",
            "server_ip", "server_port", "time", "client_id", "exchange_id", "api")} | {
            "role": "produce", "verdict": "ok", "outcome": "error", "records": 3, "topic": "orders", "partition": 0,
            "format": "magic 2", "codec": "none", "producer": "5", "producer_epoch": 0, "base_sequence": 3 * n,
            "file": "a.pcap", "packet": one["request_packet"], "stream_offset": n, "stored_bytes": 100 + n,
            "checksum_stored": bytes([n]),
        }
        for n, one in enumerate(failed)
    ]  # fmt: skip
    return {"exchanges": failed, "batches": batches, "errors": [error(one, name) for one in failed]}


def told_of(name: str) -> Row:
    (row,) = [row for row in said(**refused(name), connections=[connection()]) if row["kind"] == "errors"]
    return row


@pytest.mark.parametrize(
    ("name", "became", "advice"),
    [
        ("KAFKA_STORAGE_ERROR", "were refused for good", "Look at the disks of that broker"),
        ("MESSAGE_TOO_LARGE", "were refused for good", "max.message.bytes"),
        ("RECORD_LIST_TOO_LARGE", "were refused for good", "segment.bytes"),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", "were refused for good", "before Kafka 2.5 must be closed"),
        ("UNSUPPORTED_COMPRESSION_TYPE", "were refused for good", "at both ends"),
        ("NOT_ENOUGH_REPLICAS", "were refused for good", "out of sync with the leader"),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "were never confirmed", "out of sync with the leader"),
        ("REQUEST_TIMED_OUT", "were never confirmed", "slow to follow"),
        ("SOMETHING_ELSE", "were refused for good", "Look at how the client handles this error"),
    ],
)
def test_what_became_of_batches_and_what_to_do_depends_on_the_error(name: str, became: str, advice: str) -> None:
    row = told_of(name)
    assert f"3 messages of payer on 10.0.0.2 for topic orders {became}: Produce failed 4 times" in row["sentence"]
    assert row["sentence"].endswith(" The leader may have stored them all the same.") == ("never" in became)
    assert advice in row["advice"]


def test_a_batch_that_the_broker_calls_a_duplicate_is_stored() -> None:
    given = {name: rows[:2] for name, rows in refused("REQUEST_TIMED_OUT").items()}
    given["batches"] = [row | {"base_sequence": 0, "first_timestamp": NOON} for row in given["batches"]]
    again = error(given["exchanges"][1], "DUPLICATE_SEQUENCE_NUMBER", partition=0)
    rows = said(**given | {"errors": [given["errors"][0], again]}, connections=[connection()])
    told = {row["kind"]: (row["severity"], row["sentence"]) for row in rows if "TIMED_OUT" in row["sentence"]}
    assert told == {
        "errors": (
            "note",
            "Produce of payer on 10.0.0.2 for topic orders failed once with REQUEST_TIMED_OUT; the same batches were "
            "stored after 1.00 s.",
        )
    }  # fmt: skip


def test_of_one_message_that_was_never_confirmed_it_is_said_as_of_one() -> None:
    given = {name: rows[:1] for name, rows in refused("REQUEST_TIMED_OUT").items()}
    rows = said(**given | {"batches": [given["batches"][0] | {"records": 1}]}, connections=[connection()])
    (sentence,) = [row["sentence"] for row in rows if row["kind"] == "errors"]
    assert sentence.endswith("no attempt to send it again was accepted. The leader may have stored it all the same.")


def test_a_topic_that_was_not_made_in_time_leads_to_the_controller() -> None:
    failed = call(1, api="CreateTopics", status="error")
    (row,) = said(exchanges=[failed], errors=[error(failed, "REQUEST_TIMED_OUT")], connections=[connection()])
    assert row["advice"].endswith("look at the controller.")


@pytest.mark.parametrize(("error_name", "told"), [(None, []), ("UNKNOWN_TOPIC_OR_PARTITION", ["metadata_storm"])])
def test_a_client_whose_requests_fail_asks_for_metadata_and_is_no_storm(
    error_name: str | None, told: list[str]
) -> None:
    given = refused("KAFKA_STORAGE_ERROR")
    asked = [call(1 + n / 20, api="Metadata", error_name=error_name) for n in range(80)]
    rows = said(**given | {"exchanges": [*given["exchanges"], *asked]}, connections=[connection()])
    assert [row["kind"] for row in rows if row["kind"] == "metadata_storm"] == told


@pytest.mark.parametrize(
    ("until", "ends", "severity", "said_of"),
    [
        (3, 60, "note", "between brokers; a retry succeeded."),
        (30, 60, "warning", "between brokers, for 29.0 s; a retry succeeded."),
        (30, 30, "warning", "between brokers, for 28.0 s."),
        (2, 60, "note", "between brokers; a retry succeeded."),
    ],
    ids=["an election", "no controller for long", "no controller until the end", "once, and long before a retry"],
)
def test_what_brokers_refuse_each_other_is_usual_for_moments_only(
    until: int, ends: int, severity: str, said_of: str
) -> None:
    beats = [call(n, api="BrokerHeartbeat", status="error", topics=[]) for n in range(1, until)]
    works = [call(max(n, 20) if until == 2 else n, api="BrokerHeartbeat", topics=[]) for n in range(until, ends)]
    errors = [error(one, "NOT_CONTROLLER", topic=None) for one in beats]
    (row,) = said(exchanges=[*beats, *works], errors=errors, connections=[connection()])
    assert (row["kind"], row["severity"]) == ("errors", severity)
    assert row["sentence"].endswith(said_of)
    assert ("controllers" in row["advice"]) == (severity == "warning")


def test_what_brokers_refuse_each_other_seldom_is_usual_however_long_it_goes_on() -> None:
    """Brokers that restart one after the other: each time a few requests come too late, which nobody repeats."""
    late = [call(n * 60, api="AlterPartition", status="error", topics=[]) for n in range(6)]
    errors = [error(one, "INVALID_UPDATE_VERSION", topic=None) for one in late]
    rows = said(exchanges=late, errors=errors, connections=[connection(end=500)])
    assert [(row["kind"], row["severity"]) for row in rows] == [("errors", "note")]


@pytest.mark.parametrize(("every", "times"), [(2, 10), (20, 10), (2, 9)])
def test_controllers_that_ask_for_votes_again_and_again_have_no_leader(every: int, times: int) -> None:
    votes = [call(n * every, api="Vote", topics=["__cluster_metadata"]) for n in range(times)]
    told = every == 2 and times == 10
    rows = said(exchanges=votes, connections=[connection(end=500)])
    assert [(row["kind"], row["severity"], row["count"]) for row in rows] == [("no_leader", "warning", 10)] * told
    assert all("for votes 10 times within 18.0 s" in row["sentence"] for row in rows)


@pytest.mark.parametrize("led", [{"api": "BrokerHeartbeat"}, {"api": "Fetch", "topics": ["__cluster_metadata"]}])
def test_a_controller_that_asks_for_votes_while_another_leads_is_alone_in_that(led: Row) -> None:
    """It does not reach the one that leads; those that it asks do."""
    votes = [call(n * 2, api="Vote", topics=["__cluster_metadata"], client_id="raft-client-3") for n in range(20)]
    works = [call(n * 2 + 0.5, port=2, client_id="raft-client-2", **led) for n in range(20)]
    assert said(exchanges=[*votes, *works], connections=[connection(), connection(2)]) == []
    refused = [one | {"status": "error"} for one in works]
    assert "no_leader" in [row["kind"] for row in said(exchanges=[*votes, *refused], connections=[connection()])]


def test_metrics_that_a_broker_does_not_take_are_no_work_of_a_client() -> None:
    pushed = call(1, api="PushTelemetry", status="error", topics=[])
    refusal = error(pushed, "TELEMETRY_TOO_LARGE", topic=None, retriable=False)
    (row,) = said(exchanges=[pushed], errors=[refusal], connections=[connection()])
    assert row["severity"] == "note"
    assert row["sentence"].endswith("failed once with TELEMETRY_TOO_LARGE: metrics of the client, not its work.")
    assert "telemetry.max.bytes" in row["advice"]
