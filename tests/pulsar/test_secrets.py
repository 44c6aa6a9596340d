"""A secret planted in any field that may hold one reaches no row; an application's data does only when asked for."""

from typing import Any

import pytest

from dissectors.options import Options
from dissectors.pulsar import PROTOCOL
from dissectors.pulsar.secrets import PAYLOAD_FIELDS, SECRET_FIELDS, property_value
from dissectors.records import TABLES
from dissectors.redaction import without_tokens
from tests.feeding import CLIENT, SERVER, feed, rows
from tests.pulsar import wire

MARKER = "pl4nted-m4rker"
BASE64 = "cGw0bnRlZC1tNHJrZXI="
TOKEN = f"eyJhbGciOiJIUzI1NiJ9.{MARKER}.{MARKER}"
DATA: list[wire.Field] = [(1, "method"), (2, MARKER)]

Script = list[tuple[int, bytes | int]]
PLANTED: dict[str, Script] = {
    "CommandConnect.auth_data": [(CLIENT, wire.connect((5, "token"), (3, MARKER)))],
    "CommandConnect.original_auth_data": [(CLIENT, wire.connect((7, "alice"), (8, MARKER), (9, "token")))],
    "AuthData.auth_data": [
        (SERVER, wire.simple(wire.AUTH_CHALLENGE, (2, DATA))),
        (CLIENT, wire.simple(wire.AUTH_RESPONSE, (2, DATA))),
    ],
    "CommandLookupTopic.original_auth_data": [(CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 1), (5, MARKER)))],
    "CommandPartitionedTopicMetadata.original_auth_data": [
        (CLIENT, wire.simple(wire.PARTITIONED_METADATA, (1, "t"), (2, 1), (4, MARKER)))
    ],
    "EncryptionKeys.value": [
        (CLIENT, wire.send(1, wire.entry(wire.metadata(1, (13, [(1, "key"), (2, MARKER)])), b"sealed")))
    ],
    "MessageMetadata.encryption_param": [
        (SERVER, wire.delivery(wire.entry(wire.metadata(1, (15, MARKER)), b"sealed")))
    ],
}
QUOTED: dict[str, Script] = {
    "a property of a producer": [
        (CLIENT, wire.simple(wire.PRODUCER, (1, "t"), (2, 1), (3, 1), (6, [(1, "auth.token"), (2, MARKER)])))
    ],
    "a property of a consumer": [(CLIENT, wire.subscribe(1, "t", (10, [(1, "db-password"), (2, MARKER)])))],
    "a property of a message": [
        (CLIENT, wire.send(1, wire.entry(wire.metadata(1, (4, [(1, "apiKey"), (2, MARKER)])), b"")))
    ],
    "a token in a property of another name": [
        (SERVER, wire.delivery(wire.entry(wire.metadata(1, (4, [(1, "note"), (2, f"see {TOKEN}")])), b"")))
    ],
    "a token in the text of an error": [
        (CLIENT, wire.producer(1)),
        (SERVER, wire.error(1, 3, f"Bearer {MARKER} is refused: {TOKEN} token={MARKER} password={MARKER}")),
    ],
    "a password in the address of a broker": [
        (CLIENT, wire.connect((6, f"pulsar://alice:{MARKER}@broker:6650"))),
        (SERVER, wire.simple(wire.LOOKUP_RESPONSE, (1, f"pulsar://alice:{MARKER}@broker:6650"), (3, 1), (4, 1))),
        (SERVER, wire.simple(wire.CLOSE_PRODUCER, (1, 1), (2, wire.ALL_ONES), (3, f"pulsar://a:{MARKER}@b:6650"))),
    ],
}
CARRIED: dict[str, wire.Field] = {
    "partition_key": (6, MARKER),
    "ordering_key": (18, MARKER),
    "properties": (4, [(1, "colour"), (2, MARKER)]),
}


def everything(script: Script, *, payloads: bool) -> str:
    options = Options(tables=tuple(TABLES), full=True, payloads=payloads)
    sink, _ = feed(PROTOCOL, script, options=options)
    found = rows(sink)
    assert any(found.values())
    return repr(found)


def test_a_secret_is_planted_in_every_field_that_may_hold_one() -> None:
    assert set(PLANTED) == {f"{message}.{field}" for message, fields in SECRET_FIELDS.items() for field in fields}


@pytest.mark.parametrize("where", [*PLANTED, *QUOTED])
def test_a_secret_reaches_no_row(where: str) -> None:
    found = everything((PLANTED | QUOTED)[where], payloads=True)
    assert MARKER not in found
    assert BASE64 not in found
    assert "<redacted>" in found or where in ("EncryptionKeys.value", "a password in the address of a broker")


@pytest.mark.parametrize("field", sorted(PAYLOAD_FIELDS["MessageMetadata"]))
def test_what_a_message_carries_is_in_a_body_only_with_payloads(field: str) -> None:
    entry = wire.entry(wire.metadata(1, CARRIED[field]), MARKER.encode())
    script: Script = [(CLIENT, wire.send(1, entry)), (SERVER, wire.receipt(1)), (SERVER, wire.delivery(entry))]
    without = everything(script, payloads=False)
    assert MARKER not in without
    assert BASE64 not in without
    assert MARKER in everything(script, payloads=True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"pulsar://alice:{MARKER}@host:6650/x", "pulsar://<redacted>@host:6650/x"),
        ("persistent://public/default/orders@home", "persistent://public/default/orders@home"),
        (f"bearer {MARKER}", "bearer <redacted>"),
        ("the token is missing", "the token is missing"),
        (TOKEN, "<redacted>"),
    ],
)
def test_only_what_looks_like_a_secret_is_cut_out_of_a_text(text: str, shown: str) -> None:
    assert without_tokens(text) == shown


@pytest.mark.parametrize(("key", "kept"), [("colour", True), ("tokenizer", False), ("PASSWORD", False)])
def test_properties_are_shown_unless_their_name_speaks_of_a_secret(key: str, kept: bool) -> None:
    shown: Any = property_value(key, "blue")
    assert (shown == "blue") is kept
