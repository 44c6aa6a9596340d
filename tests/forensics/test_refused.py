"""A receiver says corrupt, and the bytes fit here: a case of its own."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from dissectors import records
from dissectors.forensics.refused import Refusal, refusals
from dissectors.forensics.related import SIGHTING

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
PLACE = {"site": "a", "protocol": "kafka", "connection": "c", "incarnation": 0, "time": NOON, "file": "a.pcap"}
SENT = {
    **PLACE, "role": "produce", "topic": "t", "partition": 0, "correlation_id": 7, "verdict": "ok",
    "checksum_stored": "0x00df90c5", "packet": 6, "stream_offset": 0,
}  # fmt: skip
SAID = {**PLACE, "name": "CORRUPT_MESSAGE", "topic": "t", "partition": 0, "correlation_id": 7, "packet": 7}
DELIVERED = {**SENT, "protocol": "pulsar", "role": "consume", "position": "5:1"}
THROWN = {**PLACE, "protocol": "pulsar", "packet": 9} | {
    "evidence": json.dumps({"error": "ChecksumMismatch", "topic": "t", "partition": 0, "positions": ["5:1"]})
}


def found(batches: list[dict[str, Any]], errors: list[Any] = [], discarded: list[Any] = []) -> list[Refusal]:  # noqa: B006
    table = pa.Table.from_pylist(batches, records.schema("batches")).select(list(SIGHTING))
    return list(refusals(table, errors, discarded))


@pytest.mark.parametrize("name", ["CORRUPT_MESSAGE", "ChecksumError"])
def test_a_broker_that_refuses_a_batch_whose_checksum_holds_here_is_told(name: str) -> None:
    (refusal,) = found([SENT, {**SENT, "correlation_id": 8}], [{**SAID, "name": name}])
    assert [batch["packet"] for batch in refusal.batches] == [6]
    assert refusal.sentence.startswith(
        f"kafka produce: {name} (a.pcap packet 7) of t, partition 0: the checksum 0x00df"
    )
    assert refusal.as_json()["case"] == "refused_as_corrupt"


def test_a_consumer_that_throws_a_sound_message_away_is_told() -> None:
    (refusal,) = found([DELIVERED, {**DELIVERED, "position": "5:2"}], discarded=[THROWN])
    assert (refusal.error, [batch["position"] for batch in refusal.batches]) == ("ChecksumMismatch", ["5:1"])


@pytest.mark.parametrize(
    "sent",
    [
        {**SENT, "verdict": "bad"},  # broken here too: a case of a bad checksum
        {**SENT, "verdict": "unverifiable"},
        {**SENT, "partition": 1},
        {**SENT, "correlation_id": 8},
        {**SENT, "site": "b"},
        {**SENT, "role": "consume"},
    ],
)
def test_what_is_not_known_to_be_sound_is_no_such_case(sent: dict[str, Any]) -> None:
    assert found([sent], [SAID]) == []
