"""Transactions are those of which the clients know, with their records and how they ended."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dissectors import records
from dissectors.kafka.errors import error
from pipelines.answers.records import database_of
from pipelines.tables.transactions import ABORTED, FENCED, OPEN, TIMED_OUT, transactions
from tests.captures import needs_captures, truths
from tests.commands import SAMPLES, objects, run

SAMPLE = SAMPLES / "kafka-transactions.pcap"


def found(capture: Path) -> list[dict[str, Any]]:
    return objects("transactions", capture)


def test_a_sample_has_its_transactions_and_what_they_wrote() -> None:
    rows = found(SAMPLE)
    assert [(row["transaction"], row["outcome"], row["records"]) for row in rows] == [
        ("pay-txid", "committed", 15), ("pay-txid", "aborted", 15), ("pay-txid", "committed", 15),
        ("pay-txid", "aborted", 15), ("pay-txid", "committed", 1),
    ]  # fmt: skip
    assert rows[-1]["groups"] == ["pay-ctp"]
    assert all(row["open_ns"] > row["end_ns"] for row in rows)


def test_a_capture_without_transactions_says_so() -> None:
    assert run("transactions", SAMPLE.with_name("kafka-codecs.pcap")) == "No transaction in these captures.\n"


@needs_captures
@pytest.mark.parametrize(
    "truth", [path for path in truths("kafka") if "tx" in path.name or "trans" in path.name], ids=str
)
def test_clients_of_kafka_know_as_many_transactions_and_records(truth: Path) -> None:
    told = json.loads(truth.read_text())
    counted = told.get("transactions") or {}
    if "committed_txns" not in counted:
        pytest.skip("its client counted none")
    rows = found(truth.parent / told["capture"])
    for outcome in ("committed", "aborted"):
        mine = [row for row in rows if row["outcome"] == outcome]
        assert len(mine) == counted[f"{outcome}_txns"]
        assert sum(row["records"] for row in mine) == counted[f"{outcome}_records"]


@needs_captures
@pytest.mark.parametrize("truth", [path for path in truths("pulsar") if "txn" in path.name], ids=str)
def test_clients_of_pulsar_know_how_each_transaction_ended(truth: Path) -> None:
    told = json.loads(truth.read_text())
    want = ["committed" if each["committed"] else "aborted" for each in told["transactions"]]
    rows = found(truth.parent / told["capture"])
    assert [row["outcome"] for row in rows] == want
    sizes = [
        each["messages"] if "messages" in each else 2 * each["messages_per_topic"] for each in told["transactions"]
    ]
    assert [row["records"] for row in rows] == sizes


@needs_captures
def test_a_producer_and_its_consumers_know_how_many_records_were_committed_and_aborted() -> None:
    (truth,) = (path for path in truths("kafka") if path.name == "nw-txn.json")
    told = json.loads(truth.read_text())["txn"]
    rows = found(truth.with_suffix(".pcap"))
    for outcome in ("committed", "aborted"):
        assert (
            sum(row["records"] for row in rows if (row["outcome"], row["topics"]) == (outcome, ["nw-txn"]))
            == told[outcome]
        )
    # what the fenced producer sent afterwards was refused, and is no transaction
    assert {row["outcome"] for row in rows} == {"committed", "aborted", FENCED, TIMED_OUT}


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Rows = list[dict[str, Any]]


def said_at(second: float, api: str, kind: str, code: int = 0, **more: Any) -> dict[str, Rows]:
    """An exchange of Kafka about the transactional id `t` of producer 7, and the event that its answer is."""
    where = {
        "protocol": "kafka",
        "site": "s",
        "exchange_id": f"{api}-{second}",
        "time": NOON + timedelta(seconds=second),
    }
    status = {"status": "error", "error_code": code, "error_name": error(code).name} if code else {"status": "ok"}
    return {
        "exchanges": [where | status | {"api": api, "kind": "call"}],
        "events": [where | {"kind": kind, "subject": "t", "number": 7} | more],
    }


def ends(second: float, code: int = 0, how: str = "commit") -> dict[str, Rows]:
    return said_at(second, "EndTxn", "transaction_ended", code, text=how)


def begins(second: float, allowed_ms: int = 60_000) -> dict[str, Rows]:
    return said_at(second, "InitProducerId", "transaction_began", number=allowed_ms, text="7")


def adds(second: float, topic: str = "orders") -> dict[str, Rows]:
    return said_at(second, "AddPartitionsToTxn", "transaction_joined", topic=topic)


def batch(second: float, producer: str = "7", **more: Any) -> dict[str, Rows]:
    row = {"protocol": "kafka", "role": "produce", "transactional": True, "producer": producer, "records": 10}
    return {"batches": [row | {"producer_epoch": 0, "topic": "paid", "time": NOON + timedelta(seconds=second)} | more]}


def told(*steps: dict[str, Rows]) -> Rows:
    """The transactions of some steps, as rows of the table."""
    tables = {
        name: pa.Table.from_pylist([row for step in steps for row in step.get(name, [])], records.schema(name))
        for name in ("exchanges", "events", "batches")
    }
    with database_of(tables) as duckdb:
        rows: Rows = transactions(duckdb).to_pylist()
    return rows


@pytest.mark.parametrize(("code", "outcomes"), [(51, ["committed"]), (48, ["INVALID_TXN_STATE", "committed"])])
def test_an_end_that_the_client_may_try_again_does_not_end_a_transaction(code: int, outcomes: list[str]) -> None:
    assert [row["outcome"] for row in told(ends(1, code), ends(2))] == outcomes


def test_a_transaction_whose_end_never_succeeded_has_the_error_as_its_outcome() -> None:
    (one,) = told(ends(1, 51))
    assert one["outcome"] == "CONCURRENT_TRANSACTIONS"


def test_a_newer_producer_fences_the_open_transaction_and_one_without_end_stays_open() -> None:
    found = told(begins(0), adds(1), begins(5), adds(6))
    assert [(row["transaction"], row["outcome"], row["topics"]) for row in found] == [
        ("t", FENCED, ["orders"]), ("t", OPEN, ["orders"]),
    ]  # fmt: skip


def test_a_transaction_says_how_long_it_was_open_and_may_be() -> None:
    (one,) = told(begins(0, 30_000), adds(1), ends(5, how="abort"))
    assert (one["outcome"], one["open_ns"], one["allowed_ns"]) == (ABORTED, 4_000_000_000, 30_000_000_000)


@pytest.mark.parametrize("code", [47, 48, 90])
def test_a_transaction_that_the_coordinator_ended_after_its_time_has_timed_out_then(code: int) -> None:
    (one,) = told(begins(0, 20_000), adds(1), ends(41, code))
    assert (one["outcome"], one["open_ns"], one["end_ns"]) == (TIMED_OUT, 20_000_000_000, None)


def test_an_error_before_the_time_is_over_is_no_time_out() -> None:
    (one,) = told(begins(0, 20_000), adds(1), ends(5, 90))
    assert one["outcome"] == "PRODUCER_FENCED"


def test_a_producer_that_begins_anew_long_after_the_time_finds_its_transaction_timed_out() -> None:
    found = told(begins(0, 20_000), adds(1), begins(32, 20_000), adds(33), ends(34))
    assert [row["outcome"] for row in found] == [TIMED_OUT, "committed"]
    # the coordinator looks every 10 s, so until then the newer producer may have ended it
    assert [row["outcome"] for row in told(begins(0, 20_000), adds(1), begins(25))] == [FENCED]


def test_further_errors_about_a_transaction_that_timed_out_begin_no_other() -> None:
    assert [row["outcome"] for row in told(begins(0, 20_000), adds(1), ends(41, 47), ends(42, 47))] == [TIMED_OUT]


def test_batches_of_a_producer_belong_to_its_open_transaction() -> None:
    found = told(
        begins(0), adds(1), batch(2), batch(3, "8"), batch(3.5, control=True), batch(3.6, transactional=False), ends(4)
    )
    assert [(row["transaction"], row["producer"], row["records"], row["topics"]) for row in found] == [
        ("t", "7:0", 10, ["orders", "paid"]), ("producer 8", "8:0", 10, ["paid"]),
    ]  # fmt: skip


def test_a_batch_counts_once_however_often_it_was_sent_and_one_that_was_refused_does_not() -> None:
    first: dict[str, Any] = {"partition": 0, "base_sequence": 0}
    other = first | {"partition": 1}
    (one,) = told(
        begins(0),
        adds(1),
        batch(2, outcome="error", **first),
        batch(3, outcome="unknown", **first),
        batch(4, outcome="ok", **first),
        batch(5, outcome="ok", **other),
        batch(6, outcome="error", partition=2, base_sequence=0, topic="secret"),
        ends(7),
    )
    assert (one["records"], one["topics"]) == (20, ["orders", "paid"])


def test_what_was_refused_begins_no_transaction() -> None:
    refused = said_at(1, "AddPartitionsToTxn", "transaction_joined", 29, topic="secret")
    assert told(begins(0), refused, batch(2, outcome="error"), begins(5)) == []


@pytest.mark.parametrize("code", [47, 48, 90])
def test_a_producer_that_hears_of_what_ended_before_begins_no_transaction(code: int) -> None:
    found = told(begins(0), adds(1), begins(2), batch(2.5, outcome="error"), ends(3, code))
    assert [row["outcome"] for row in found] == [FENCED]


def test_the_refused_end_of_a_fenced_producer_leaves_the_transaction_of_its_successor_open() -> None:
    steps = [begins(0), adds(1), begins(2), adds(3), ends(4, 90), ends(5)]
    for step, client in zip(steps, "AABBAB", strict=True):
        step["events"][0]["client_ip"] = client
    assert [(row["client"], row["outcome"]) for row in told(*steps)] == [("A", FENCED), ("B", "committed")]


def test_a_transaction_of_pulsar_goes_by_its_id() -> None:
    def step(second: float, kind: str, id_: str, **more: Any) -> dict[str, Rows]:
        where = {"protocol": "pulsar", "kind": kind, "subject": id_, "time": NOON + timedelta(seconds=second)}
        return {"events": [where | more]}

    found = told(
        step(0, "transaction_began", "(0,1)", number=10_000),
        step(1, "transaction_joined", "(0,1)", topic="paid"),
        step(1, "transaction_joined", "(0,9)", topic="other"),  # began before the capture
        step(2, "transaction_ended", "(0,1)", text="abort"),
    )
    assert [(row["transaction"], row["outcome"], row["topics"], row["open_ns"]) for row in found] == [
        ("(0,1)", ABORTED, ["paid"], 2_000_000_000)
    ]


@pytest.mark.parametrize(
    ("at", "name", "outcome"),
    [
        (11, "TransactionNotFound", TIMED_OUT),
        (11, "InvalidTxnStatus", TIMED_OUT),
        (2, "InvalidTxnStatus", "InvalidTxnStatus"),
        (11, "TransactionCoordinatorNotFound", OPEN),  # it may end it later
    ],
)
def test_a_transaction_of_pulsar_that_is_not_there_any_more_after_its_time_has_timed_out(
    at: float, name: str, outcome: str
) -> None:
    def step(second: float, kind: str, **more: Any) -> dict[str, Any]:
        where = {"protocol": "pulsar", "time": NOON + timedelta(seconds=second), "site": "x", "exchange_id": kind}
        return where | {"kind": kind, "subject": "(0,1)"} | more

    failed = step(at, "call", exchange_id="transaction_ended", status="error", error_name=name)
    del failed["subject"]
    steps = [step(0, "transaction_began", number=10_000), step(at, "transaction_ended", text="commit")]
    (one,) = told({"events": steps, "exchanges": [failed]})
    assert one["outcome"] == outcome
