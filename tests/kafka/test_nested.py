"""Messages inside messages, and the records that Kafka writes for itself."""

import json
import struct
from typing import Any

from dissectors.kafka import PROTOCOL, schema
from dissectors.kafka.full import beside, full
from dissectors.kafka.internal import OFFSETS, TRANSACTIONS, decoded, topic_names
from dissectors.kafka.messages import KafkaRecord
from dissectors.kafka.nested import SHOWN, VERSIONED
from dissectors.kafka.secrets import CLUSTER_METADATA
from tests.feeding import CLIENT, SERVER, feed_every_way
from tests.kafka.encoder import uvarint
from tests.kafka.wire import any_body, batch, fetch, fetched, record, request, response, text


def entry(key: bytes | None, value: bytes | None) -> KafkaRecord:
    return KafkaRecord(0, 0, 0, key, value, (), 0)


def field(data: bytes, number: int = 1) -> bytes:
    """A length-delimited field of a protobuf message."""
    return uvarint(number << 3 | 2) + uvarint(len(data)) + data


def body_of(script: list[tuple[int, bytes]], column: str = "request", at: int = 0) -> Any:
    return json.loads(getattr(feed_every_way(PROTOCOL, script).exchanges[at], column))


def test_the_consumer_protocol_is_shown_beside_its_bytes() -> None:
    subscription = struct.pack(">h", 1) + struct.pack(">i", 1) + text("orders") + struct.pack(">ii", -1, 0)
    body = text("group") + struct.pack(">i", 1000) + text("") + text("consumer") + struct.pack(">i", 1)
    body += text("range") + struct.pack(">i", len(subscription)) + subscription
    (protocol,) = body_of([(CLIENT, request(11, 0, 1, body))])["protocols"]
    assert protocol["metadataDecoded"] == {"topics": ["orders"], "userData": None, "ownedPartitions": []}
    assert protocol["metadata"].startswith("AAE")


def test_bytes_of_another_group_protocol_stay_bytes() -> None:
    holder: dict[str, Any] = {}
    show = beside(VERSIONED["SyncGroupResponse", "assignment"])
    assert show(b"\0\1not the consumer's", holder, "assignment")
    assert holder == {}


def test_an_envelope_shows_the_request_and_the_response_inside_and_no_secret() -> None:
    inner = request(36, 2, 77, b"\x06hello\0", client="someone")[4:]
    answer = struct.pack(">i", 77) + b"\0" + struct.pack(">h", 58) + b"\0\1" + struct.pack(">q", 0) + b"\0"
    script = [
        (CLIENT, request(58, 0, 1, uvarint(len(inner) + 1) + inner + b"\0" + b"\5\x0a\0\0\1" + b"\0")),
        (SERVER, response(58, 0, 1, uvarint(len(answer) + 1) + answer + struct.pack(">h", 0) + b"\0")),
    ]
    inner = body_of(script)["requestData"]
    assert (inner["api"], inner["version"], inner["clientId"]) == ("SaslAuthenticate", 2, "someone")
    assert inner["body"] == {"authBytes": "<redacted>"}
    assert body_of(script, "response")["responseData"]["body"]["errorCode"] == 58


def test_an_envelope_whose_inside_is_unknown_is_reported_by_its_size() -> None:
    inner = b"\x7f\xff" + bytes(30)
    shown = body_of([(CLIENT, request(58, 0, 1, uvarint(len(inner) + 1) + inner + b"\0\0\0"))])["requestData"]
    assert "body" not in shown
    assert shown["sizeInBytes"] == 32


def test_an_envelope_in_an_envelope_stays_closed() -> None:
    inner = request(58, 0, 77, uvarint(31) + bytes(30) + b"\0\0\0", client="someone")[4:]
    shown = body_of([(CLIENT, request(58, 0, 1, uvarint(len(inner) + 1) + inner + b"\0\0\0"))])["requestData"]
    assert shown["body"]["requestData"] == {"sizeInBytes": 30}


def test_telemetry_is_reported_by_its_size_and_the_names_of_its_metrics() -> None:
    metrics = field(field(field(field(b"client.connections"), 2), 2), 1)
    show = SHOWN["PushTelemetryRequest", "metrics"]
    assert show(metrics, {"compressionType": 0}, "metrics") == {
        "sizeInBytes": len(metrics),
        "uncompressedBytes": len(metrics),
        "names": ["client.connections"],
    }
    assert "trouble" in show(b"\xff\xff\xff", {"compressionType": 1}, "metrics")
    assert show(b"\xff" * 50, {"compressionType": 0}, "metrics")["names"] == []


def test_committed_offsets_are_read_from_their_topic() -> None:
    key = struct.pack(">h", 1) + text("group") + text("orders") + struct.pack(">i", 3)
    value = struct.pack(">hqi", 3, 42, -1) + text("") + struct.pack(">q", 1000)
    (found,) = decoded(OFFSETS, False, [entry(key, value)])
    assert found["type"] == "OffsetCommit"
    assert found["key"] == {"group": "group", "topic": "orders", "partition": 3}
    assert (found["value"]["offset"], found["value"]["leaderEpoch"]) == (42, -1)
    assert decoded(OFFSETS, False, [entry(key, None)])[0]["value"] is None


def test_transaction_states_are_read_from_their_topic() -> None:
    body = any_body("TransactionLogValue", 0, 1)
    (found,) = decoded(TRANSACTIONS, False, [entry(struct.pack(">h", 0) + text("tx-1"), struct.pack(">h", 0) + body)])
    assert found["key"] == {"transactionalId": "tx-1"}
    assert set(found["value"]) >= {"producerId", "transactionStatus"}


def test_every_record_of_the_metadata_log_is_read() -> None:
    names = [n for n in schema.messages() if schema.message(n).kind == "metadata" and not n.startswith("Remote")]
    assert len(names) > 20
    for name in names:
        message = schema.message(name)
        for version in message.versions.each():
            value = b"\1" + uvarint(message.key or 0) + uvarint(version) + any_body(name, version, 4)
            (found,) = decoded(CLUSTER_METADATA, False, [entry(None, value)])
            assert found["type"] == name
            assert found["version"] == version


def test_a_topic_record_gives_a_name() -> None:
    id_ = bytes(range(16))
    value = b"\1\2\0" + b"\7orders" + id_ + b"\0"
    assert full("TopicRecord", 0, value, 3, len(value)).exact
    assert topic_names([entry(None, value)]) == [(id_, "orders")]


def test_control_records_say_what_they_are() -> None:
    marker = entry(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7))
    leader = entry(struct.pack(">hh", 0, 2), struct.pack(">hi", 0, 5) + b"\1\1\0")
    assert decoded("any", True, [marker, leader]) == [
        {"control": "commit", "value": {"coordinatorEpoch": 7}},
        {"control": "leaderChange", "value": {"version": 0, "leaderId": 5, "voters": [], "grantingVoters": []}},
    ]
    assert decoded("any", True, [entry(None, None), entry(b"\0\0\0\x09", b"")]) == [{}, {"control": "9"}]


def test_what_is_inside_a_fetch_is_shown_with_its_record_set() -> None:
    key = struct.pack(">h", 2) + text("group")
    records = batch([record(0, key, None)]) + batch(
        [record(1, struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 1))], 1, attributes=0x20
    )
    script = [
        (CLIENT, fetch(1, [(OFFSETS, [0])])),
        (SERVER, fetched(1, {(OFFSETS, 0): records, ("other", 0): records})),
    ]
    body = body_of(script, "response")
    own, other = (topic["partitions"][0]["records"] for topic in body["responses"])
    assert [r.get("type", r.get("control")) for r in own["decoded"]] == ["GroupMetadata", "abort"]
    assert [r.get("type", r.get("control")) for r in other["decoded"]] == ["abort"]
