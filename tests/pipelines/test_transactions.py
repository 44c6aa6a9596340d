"""Transactions are those of which the clients know, with their records and how they ended."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dissectors import records
from dissectors.kafka.errors import error
from pipelines.answers.transactions import FENCED, OPEN, transactions
from pipelines.cli import app
from tests.captures import needs_captures, truths

SAMPLE = Path(__file__).parents[2] / "samples" / "kafka-transactions.pcap"


def found(capture: Path) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["transactions", str(capture), "-f", "json", "-q"])
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_sample_has_its_transactions_and_what_they_wrote() -> None:
    rows = found(SAMPLE)
    assert [(row["transaction"], row["outcome"], row["records"]) for row in rows] == [
        ("pay-txid", "committed", 15), ("pay-txid", "aborted", 15), ("pay-txid", "committed", 15),
        ("pay-txid", "aborted", 15), ("pay-txid", "committed", 1),
    ]  # fmt: skip
    assert rows[-1]["groups"] == ["pay-ctp"]
    assert all(row["open_ns"] > row["end_ns"] for row in rows)


def test_a_capture_without_transactions_says_so() -> None:
    result = CliRunner().invoke(app, ["transactions", str(SAMPLE.with_name("kafka-codecs.pcap"))])
    assert (result.exit_code, result.stdout) == (0, "No transaction in these captures.\n")


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
    assert {row["outcome"] for row in rows} == {
        "committed", "aborted", FENCED, "PRODUCER_FENCED", "INVALID_TXN_STATE",
    }  # fmt: skip


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def said_at(
    second: float, api: str, request: dict[str, Any], response: dict[str, Any], code: int = 0
) -> dict[str, Any]:
    """An exchange of Kafka."""
    status = {"status": "error", "error_code": code, "error_name": error(code).name} if code else {"status": "ok"}
    bodies = {"request": json.dumps(request), "response": json.dumps(response)}
    return {"protocol": "kafka", "api": api, "time": NOON + timedelta(seconds=second), **status, **bodies}


def tables_of(*rows: dict[str, Any]) -> dict[str, pa.Table]:
    """Record tables that hold these exchanges."""
    return {
        "exchanges": pa.Table.from_pylist(rows, records.schema("exchanges", full=True)),
        "batches": records.schema("batches").empty_table(),
    }


@pytest.mark.parametrize(("code", "outcomes"), [(51, ["committed"]), (48, ["INVALID_TXN_STATE", "committed"])])
def test_an_end_that_the_client_may_try_again_does_not_end_a_transaction(code: int, outcomes: list[str]) -> None:
    ends = {"transactionalId": "t", "producerId": 7, "producerEpoch": 0, "committed": True}
    found = transactions(tables_of(said_at(1, "EndTxn", ends, {}, code), said_at(2, "EndTxn", ends, {})))
    assert [each.row()["outcome"] for each in found] == outcomes


def test_a_transaction_whose_end_never_succeeded_has_the_error_as_its_outcome() -> None:
    ends = {"transactionalId": "t", "producerId": 7, "producerEpoch": 0, "committed": True}
    (one,) = transactions(tables_of(said_at(1, "EndTxn", ends, {}, 51)))
    assert one.row()["outcome"] == "CONCURRENT_TRANSACTIONS"


def test_a_newer_producer_fences_the_open_transaction_and_one_without_end_stays_open() -> None:
    init = {"transactionalId": "t"}
    adds = {"v3AndBelowTransactionalId": "t", "v3AndBelowProducerEpoch": 0, "v3AndBelowTopics": [{"name": "orders"}]}
    found = transactions(
        tables_of(
            said_at(0, "InitProducerId", init, {"producerId": 7, "producerEpoch": 0}),
            said_at(1, "AddPartitionsToTxn", {**adds, "v3AndBelowProducerId": 7}, {}),
            said_at(5, "InitProducerId", init, {"producerId": 7, "producerEpoch": 1}),
            said_at(6, "AddPartitionsToTxn", {**adds, "v3AndBelowProducerId": 7}, {}),
        )
    )
    assert [(each.name, each.outcome, each.topics) for each in found] == [
        ("t", FENCED, {"orders"}), ("t", OPEN, {"orders"}),
    ]  # fmt: skip
