"""What requests and answers of Kafka say that no column holds: rows of `events`."""

import struct
from typing import Any

import pytest

from dissectors.kafka import PROTOCOL, schema
from dissectors.kafka.changes import READERS, changes
from dissectors.kafka.decode import CHANGING, EVENTFUL, HEARTBEATS, SASL_HANDSHAKE, SHARE_ACKNOWLEDGE, SHARE_FETCH
from dissectors.kafka.events import _ANSWERS, _REQUESTS, SASL_AUTHENTICATE
from dissectors.kafka.full import full
from tests.feeding import CLIENT, SERVER, feed_every_way
from tests.kafka.wire import any_body, request, response

ORDERS = struct.pack(">h", 6) + b"orders"


def events(*script: tuple[int, bytes]) -> list[dict[str, Any]]:
    """What the events of a conversation say, without where and when."""
    shown = ("kind", "thing", "topic", "partition", "group", "subject", "number", "text")
    return [
        {name: getattr(row, name) for name in shown if getattr(row, name) is not None}
        for row in feed_every_way(PROTOCOL, script).events
    ]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_every_eventful_api_has_a_reader_and_no_other() -> None:
    assert READERS.keys() == CHANGING
    by_hand = {SHARE_FETCH, SHARE_ACKNOWLEDGE, SASL_HANDSHAKE, SASL_AUTHENTICATE}
    assert set(_ANSWERS) | READERS.keys() | HEARTBEATS | by_hand == EVENTFUL
    assert _REQUESTS <= EVENTFUL


def test_who_deletes_a_topic_is_told_with_the_result() -> None:
    asked = struct.pack(">i", 1) + ORDERS + struct.pack(">i", 1000)
    for code in (0, 29):
        answer = struct.pack(">ii", 0, 1) + ORDERS + struct.pack(">h", code)
        assert events((CLIENT, request(20, 1, 1, asked)), (SERVER, response(20, 1, 1, answer))) == [
            {"kind": "deleted", "thing": "topic", "topic": "orders", "number": code}
        ]


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [("retention.ms", "1000", "retention.ms=1000"), ("sasl.jaas.config", "hush", "sasl.jaas.config=<redacted>")],
)
def test_a_configuration_is_told_but_never_a_secret(key: str, value: str, shown: str) -> None:
    config = struct.pack(">i", 1) + text(key) + text(value)
    asked = struct.pack(">i", 1) + b"\2" + ORDERS + config + b"\0"
    answer = struct.pack(">ii", 0, 1) + struct.pack(">hh", 0, -1) + b"\2" + ORDERS
    assert events((CLIENT, request(33, 0, 1, asked)), (SERVER, response(33, 0, 1, answer))) == [
        {"kind": "altered", "thing": "topic", "topic": "orders", "number": 0, "text": shown}
    ]


def test_a_topic_that_is_made_compacted_is_told_so() -> None:
    policy = struct.pack(">i", 1) + text("cleanup.policy") + text("compact")
    asked = struct.pack(">i", 1) + ORDERS + struct.pack(">ihi", 3, 1, 0) + policy + struct.pack(">i", 1000)
    answer = struct.pack(">i", 1) + ORDERS + struct.pack(">h", 0)
    assert events((CLIENT, request(19, 0, 1, asked)), (SERVER, response(19, 0, 1, answer))) == [
        {
            "kind": "created",
            "thing": "topic",
            "topic": "orders",
            "number": 0,
            "text": "partitions=3, replicas=1, cleanup.policy=compact",
        },
        {"kind": "compacted", "topic": "orders", "text": "compact"},
    ]


def test_each_setting_of_an_incremental_change_is_told_with_what_it_does() -> None:
    def config(name: str, operation: int, value: str | None) -> bytes:
        return text(name) + bytes([operation]) + (b"\xff\xff" if value is None else text(value))

    configs = struct.pack(">i", 4) + config("retention.ms", 0, "1000") + config("segment.ms", 1, None)
    configs += config("cleanup.policy", 2, "compact") + config("cleanup.policy", 3, "delete")
    asked = struct.pack(">i", 1) + b"\2" + ORDERS + configs
    answer = struct.pack(">ii", 0, 1) + struct.pack(">hh", 0, -1) + b"\2" + ORDERS
    for validate_only, told in ((b"\0", True), (b"\1", False)):
        script = (CLIENT, request(44, 0, 1, asked + validate_only)), (SERVER, response(44, 0, 1, answer))
        altered = [row["text"] for row in events(*script) if row["kind"] == "altered"]
        assert altered == told * [
            "retention.ms=1000",
            "segment.ms=<default>",
            "cleanup.policy+=compact",
            "cleanup.policy-=delete",
        ]


def test_an_offset_that_nobody_in_the_group_commits_is_told_and_a_members_is_not() -> None:
    def commit(generation: int, member: str) -> list[dict[str, Any]]:
        asked = text("g") + struct.pack(">i", generation) + text(member) + struct.pack(">q", -1)
        asked += struct.pack(">i", 1) + ORDERS + struct.pack(">iiq", 1, 3, 42) + b"\xff\xff"
        answer = struct.pack(">i", 1) + ORDERS + struct.pack(">iih", 1, 3, 0)
        return events((CLIENT, request(8, 2, 1, asked)), (SERVER, response(8, 2, 1, answer)))

    reset = {"kind": "altered", "thing": "offsets", "topic": "orders", "partition": 3, "group": "g", "number": 0}
    assert commit(-1, "") == [reset | {"text": "offset=42"}]
    assert commit(7, "m-1") == []


def test_an_acl_is_told_with_whom_it_is_for_and_what_it_allows() -> None:
    creation = b"\2" + ORDERS + text("User:alice") + text("*") + bytes([3, 3])
    script = (
        (CLIENT, request(30, 0, 1, struct.pack(">i", 1) + creation)),
        (SERVER, response(30, 0, 1, struct.pack(">iihh", 0, 1, 0, -1))),
    )
    acl = {"kind": "created", "thing": "acl", "topic": "orders", "subject": "User:alice", "number": 0}
    assert events(*script) == [acl | {"text": "allow READ on topic orders from *"}]


def test_a_user_that_is_given_a_password_is_told_without_it() -> None:
    compact = b"\x06alice" + b"\1" + struct.pack(">i", 4096) + b"\x05salt" + b"\x07hushhh" + b"\0"
    script = (
        (CLIENT, request(51, 0, 1, b"\1\2" + compact + b"\0")),
        (SERVER, response(51, 0, 1, struct.pack(">i", 0) + b"\2\x06alice\0\0\0\0" + b"\0")),
    )
    (told,) = events(*script)
    assert told == {
        "kind": "altered",
        "thing": "user",
        "subject": "alice",
        "number": 0,
        "text": "credential for SCRAM-SHA-256, iterations=4096",
    }


def test_transactions_that_a_coordinator_ends_are_no_change_and_those_that_a_tool_ends_are() -> None:
    asked = struct.pack(">iqhBi", 1, 7, 0, 0, 1) + ORDERS + struct.pack(">iii", 1, 3, 0)
    answer = struct.pack(">iqi", 1, 7, 1) + ORDERS + struct.pack(">iih", 1, 3, 0)
    for client, texts in (("broker-2-txn-marker-sender", []), ("admin", ["aborted"])):
        script = (CLIENT, request(27, 0, 1, asked, client)), (SERVER, response(27, 0, 1, answer))
        assert [row["text"] for row in events(*script)] == texts


def login(mechanism: str, *rounds: tuple[bytes, int]) -> list[dict[str, Any]]:
    """The events of a login: SASL bytes of the client, and error code of the answer, for each exchange."""
    script = [(CLIENT, request(17, 1, 1, text(mechanism))), (SERVER, response(17, 1, 1, struct.pack(">hi", 0, 0)))]
    for id_, (raw, code) in enumerate(rounds, 2):
        script.append((CLIENT, request(36, 0, id_, struct.pack(">i", len(raw)) + raw)))
        script.append((SERVER, response(36, 0, id_, struct.pack(">hhi", code, -1, 0))))
    return events(*script)


def test_who_logs_in_is_told_by_name_and_mechanism_when_the_broker_takes_it() -> None:
    plain = (b"\0alice\0hush", 0)
    alice = {"kind": "authenticated", "subject": "alice", "number": 0}
    assert login("PLAIN", plain) == [alice | {"text": "PLAIN"}]
    assert login("PLAIN", (plain[0], 58)) == [alice | {"number": 58, "text": "PLAIN"}]
    first = (b"n,,n=alice,r=abc", 0)
    assert login("SCRAM-SHA-512", first) == []
    assert login("SCRAM-SHA-512", first, (b"c=biws,r=abcdef,p=hush", 0)) == [alice | {"text": "SCRAM-SHA-512"}]
    assert login("OAUTHBEARER", (b"n,,\1auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.\1\1", 0)) == [
        {"kind": "authenticated", "number": 0, "text": "OAUTHBEARER"}
    ]


@pytest.mark.parametrize("key", sorted(READERS))
def test_bodies_of_changes_that_end_anywhere_give_events_and_no_error(key: int) -> None:
    api = schema.apis()[key]
    for version in (api.versions.first, api.versions.last):
        asked = any_body(f"{api.name}Request", version, seed=key)
        answer = any_body(f"{api.name}Response", version, seed=key)
        for kept in (1.0, 0.7, 0.3):
            script = (
                (CLIENT, request(key, version, 1, asked[: int(len(asked) * kept)])),
                (SERVER, response(key, version, 1, answer[: int(len(answer) * kept)])),
            )
            feed_every_way(PROTOCOL, script)
            for told in (None, {}, full(f"{api.name}Request", version, asked, 0, int(len(asked) * kept)).body):
                list(changes(key, told, full(f"{api.name}Response", version, answer, 0, len(answer)).body))


def test_an_address_that_a_broker_advertises_is_told_once_a_connection() -> None:
    answer = struct.pack(">i", 1) + struct.pack(">i", 1) + text("localhost") + struct.pack(">i", 9092)
    answer += struct.pack(">i", 0)
    script = []
    for id_ in (1, 2):
        script += [(CLIENT, request(3, 0, id_, struct.pack(">i", 0))), (SERVER, response(3, 0, id_, answer))]
    assert events(*script) == [{"kind": "advertised", "subject": "localhost:9092", "number": 1}]


def test_a_member_that_leaves_is_told() -> None:
    asked = text("g") + text("m-1")
    assert events((CLIENT, request(13, 0, 1, asked)), (SERVER, response(13, 0, 1, b"\0\0"))) == [
        {"kind": "left", "group": "g", "subject": "m-1"}
    ]
    assert events((CLIENT, request(13, 0, 1, asked)), (SERVER, response(13, 0, 1, b"\0\x19"))) == []


def test_a_transaction_is_told_with_its_time_out_and_that_it_was_given_up() -> None:
    begin = text("tx") + struct.pack(">i", 60_000)
    began = struct.pack(">ihqh", 0, 0, 7, 0)
    end = text("tx") + struct.pack(">qhb", 7, 0, 0)
    assert events(
        (CLIENT, request(22, 0, 1, begin)),
        (SERVER, response(22, 0, 1, began)),
        (CLIENT, request(26, 0, 2, end)),
        (SERVER, response(26, 0, 2, struct.pack(">ih", 0, 0))),
    ) == [
        {"kind": "transaction_began", "subject": "tx", "number": 60_000, "text": "7"},
        {"kind": "transaction_ended", "subject": "tx", "number": 7, "text": "abort"},
        {"kind": "transaction_aborted", "subject": "tx", "number": 7},
    ]
