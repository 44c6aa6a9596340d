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
    assert [row["outcome"] for row in found(truth.parent / told["capture"])] == want


def test_a_newer_producer_fences_the_open_transaction_and_one_without_end_stays_open() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)

    def exchange(second: int, api: str, request: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
        bodies = {"request": json.dumps(request), "response": json.dumps(response)}
        return {"protocol": "kafka", "api": api, "status": "ok", "time": began + timedelta(seconds=second), **bodies}

    init = {"transactionalId": "t"}
    adds = {"v3AndBelowTransactionalId": "t", "v3AndBelowProducerEpoch": 0, "v3AndBelowTopics": [{"name": "orders"}]}
    rows = [
        exchange(0, "InitProducerId", init, {"producerId": 7, "producerEpoch": 0}),
        exchange(1, "AddPartitionsToTxn", {**adds, "v3AndBelowProducerId": 7}, {}),
        exchange(5, "InitProducerId", init, {"producerId": 7, "producerEpoch": 1}),
        exchange(6, "AddPartitionsToTxn", {**adds, "v3AndBelowProducerId": 7}, {}),
    ]
    schema = records.schema("exchanges", full=True)
    tables = {
        "exchanges": pa.Table.from_pylist(rows, schema),
        "batches": records.schema("batches").empty_table(),
    }
    assert [(each.name, each.outcome, each.topics) for each in transactions(tables)] == [
        ("t", FENCED, {"orders"}), ("t", OPEN, {"orders"}),
    ]  # fmt: skip
