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
