"""Fields of decoded bodies are found by any spelling of their names, and an unknown one is an error."""

import json
from pathlib import Path
from typing import Any

import pytest

import brokerscope
from dissectors.session.protocols import protocols
from pipelines.sql.bodies import UnknownFieldError, spelled
from tests.commands import SAMPLES, objects, run

REFUSED = str(SAMPLES / "kafka-refused.pcap")


@pytest.mark.parametrize("name", ["maxWaitMs", "max_wait_ms", "MAXWAITMS"])
def test_a_field_is_found_whatever_its_case_and_underscores(name: str) -> None:
    rows = objects("sql", "--full", REFUSED, f"select request.{name} as ms from exchanges where api = 'Fetch'")
    assert rows
    assert all(row["ms"] == "500" or row["ms"] == 500 for row in rows)


def test_names_within_arrays_and_behind_arrows_are_found_too() -> None:
    assert spelled("select e.request.Topics[0].partition_index") == "select e.request.topics[0].partitionIndex"
    assert spelled("request->'max_wait_ms'") == "request->'maxWaitMs'"
    assert spelled("where note = 'request.foo'") == "where note = 'request.foo'"


def test_a_name_that_protocols_spell_differently_is_looked_for_in_each_spelling() -> None:
    assert spelled("request.producer_id") == "coalesce(request.producerId, request.producer_id)"
    assert spelled("request.producerId", ["pulsar"]) == "request.producer_id"


def test_a_name_that_no_body_has_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UnknownFieldError, match="no body has a field 'max_wait_mss'; did you mean maxWaitMs"):
        spelled("request.max_wait_mss")
    for command in (["sql", "--full", REFUSED, "select request.ackss from exchanges"],
                    ["dissect", "--full", REFUSED, "--where", "request.ackss = 1"]):  # fmt: skip
        assert "did you mean acks?" in run(*command, code=2)


def test_a_condition_reads_bodies() -> None:
    rows = objects("dissect", "--full", REFUSED, "--where", "request.acks = -1")
    assert rows
    assert {row["api"] for row in rows} == {"Produce"}


def test_attributes_of_python_are_found_alike() -> None:
    row = next(iter(brokerscope.open(REFUSED, full=True).exchanges.where(api="Fetch")))
    assert row.request.max_wait_ms == row.request.maxWaitMs == 500
    with pytest.raises(AttributeError, match="did you mean maxWaitMs"):
        _ = row.request.max_wait_mss


def _fields(value: Any) -> set[str]:
    if isinstance(value, list):
        return {name for each in value for name in _fields(each)}
    if isinstance(value, dict):  # the wire names options, so they may be anything
        return {
            name for own, each in value.items() for name in (own, *(() if own.endswith("options") else _fields(each)))
        }
    return set()


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.pcap*")), ids=lambda path: path.stem)
def test_every_field_of_the_samples_is_known(sample: Path) -> None:
    known = {protocol.name: protocol.body_names() for protocol in protocols()}
    for row in brokerscope.open(sample, full=True).exchanges.arrow().to_pylist():
        for body in (row["request"], row["response"]):
            fields = _fields(json.loads(body)) if body else set()
            assert {name for name in fields if not name.isdecimal()} <= known[row["protocol"]]
