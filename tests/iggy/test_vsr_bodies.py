"""Bodies that only VSR servers know: 0.9.0 and the three protocols of 0.10, written by hand."""

import json
import struct

import pytest

from dissectors.iggy import PROTOCOL
from tests.feeding import CLIENT, feed
from tests.iggy import wire as w
from tests.iggy.eras import RESULT, Script, conversation

U32, U64 = struct.Struct("<I").pack, struct.Struct("<Q").pack
IDS = w.STREAM + w.TOPIC
TWO = {"stream_id": "shop", "topic_id": "orders"}
READERS = b"\2" + w.name("readers")
GROUP = {"consumer": {"kind": "consumer_group", "id": "readers"}}
ANY = bytes(5)
SESSION = struct.pack("<QQQQ", 7, 1, 34, 40)
SESSION_SHOWN = {"client_id": str((1 << 64) + 7), "session": 34, "metadata_watermark": 40}
CONTEXT, CONTEXT_SHOWN = (
    struct.pack("<QQQ", 3, 2, 40),
    {"partition_incarnation": 3, "owner_generation": 2, "metadata_op": 40},
)
NEXT = {"kind": "next", "value": 0}
STRATEGY = b"\5" + U64(0)

PROTOCOLS = {"0.9": (11, 0), "0.10": (12, 0), "0.10.1": (12, 1), "0.10.2": (12, 2)}


def login(release: str) -> Script:
    minor, patch = PROTOCOLS[release]
    ask = w.vsr_request(1, w.register(minor, patch=patch), id=0)
    return conversation((ask, w.vsr_reply(1, RESULT + w.registered(minor, patch), id=0)))


REQUESTS: dict[str, tuple[str, int, int, bytes, dict[str, object]]] = {
    "attach session": ("0.9", 2, 14, SESSION, SESSION_SHOWN),
    "poll routing": ("0.9", 2, 103, READERS + IDS + ANY, {**GROUP, **TWO, "partition_id": None}),
    "poll on primary": (
        *("0.9", 2, 104, READERS + IDS + ANY + STRATEGY + U32(10) + b"\1"),
        {**GROUP, **TWO, "partition_id": None, "strategy": NEXT, "count": 10, "auto_commit": True},
    ),
    "offset routing": ("0.9", 2, 123, READERS + IDS + ANY, {**GROUP, **TWO, "partition_id": None}),
    "bind session": (
        *("0.10", 2, 15, U32(12 << 10) + w.str8("rust") + w.str8("0.12.0") + SESSION + b"K" * 32),
        {
            "protocol_version": "0.12.0",
            "sdk_name": "rust",
            "sdk_version": "0.12.0",
            **SESSION_SHOWN,
            "bind_secret": "<redacted>",
        },
    ),
    "update of a topic": (
        *("0.10", 150, 16, b"\1" + IDS + b"\1" + w.str8("max_topic_size") + w.header_typed("name", 2, b"sales")),
        {"scope": 1, **TWO, "reset_count": 1, "reset": ["max_topic_size"], "options": {"name": "sales"}},
    ),
    "update of a stream": (
        *("0.10", 150, 16, b"\2" + w.STREAM + b"\0" + w.header_typed("name", 2, b"store")),
        {"scope": 2, "stream_id": "shop", "reset_count": 0, "reset": [], "options": {"name": "store"}},
    ),
    "update of a user": (
        *("0.10", 150, 16, b"\3" + w.name("ann") + b"\1" + w.str8("status")),
        {"scope": 3, "user_id": "ann", "reset_count": 1, "reset": ["status"], "options": {}},
    ),
    "metadata changes after a cursor": (
        *("0.10", 2, 17, b"\2" + struct.pack("<QQQQQI", 9, 0, 40, 5, 0, 1) + b"\0\1" + U64(99) + U32(100)),
        {
            "start": 2,
            "log_id": "9",
            "op": 40,
            "checksum": "5",
            "ordinal": 1,
            "since": None,
            "until": 99,
            "limit": 100,
            "groups_count": 2,
            "groups": [1, 2],
            "token_bytes": 3,
        },
    ),
    "partition route": ("0.10", 2, 105, IDS + U32(4), {**TWO, "partition_id": 4}),
    "wait": (
        *("0.10", 2, 107, READERS + IDS + U64(500) + U64(900) + U32(1) + U32(4) + STRATEGY),
        {
            **GROUP,
            **TWO,
            "wait_us": 500,
            "request_timeout_us": 900,
            "targets_count": 1,
            "targets": [{"partition_id": 4, "strategy": NEXT}],
        },
    ),
    "fetch": (
        "0.10.1",
        2,
        109,
        READERS
        + IDS
        + U64(500)
        + U64(900)
        + struct.pack("<III?I", 1, 10, 1 << 20, True, 1)
        + (U32(4) + STRATEGY + U32(4096) + U64(3) + U64(2)),
        {
            **GROUP,
            **TWO,
            "wait_us": 500,
            "request_timeout_us": 900,
            "min_count": 1,
            "count": 10,
            "max_bytes": 1 << 20,
            "auto_commit": True,
            "targets_count": 1,
            "targets": [
                {
                    "partition_id": 4,
                    "strategy": NEXT,
                    "max_bytes": 4096,
                    "partition_incarnation": 3,
                    "owner_generation": 2,
                }
            ],
        },
    ),
    "offset of an external group": (
        *("0.10", 2, 120, b"\3" + w.name("kafka") + IDS + ANY),
        {"consumer": {"kind": "external_group", "id": "kafka"}, **TWO, "partition_id": None},
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_of_vsr_is_read_as_it_was_written(case: str) -> None:
    release, operation, code, body, values = REQUESTS[case]
    if code == 17:
        body += b"\2\1\2" + struct.pack("<H", 3) + b"key"
    ask = w.vsr_request(operation, body, code=code if operation == 2 else 0, id=5)
    sink, _ = feed(PROTOCOL, [*login(release), (CLIENT, ask)])
    assert json.loads(sink.exchanges[-1].request or "") == values
    assert sink.exchanges[-1].api_code == code
    assert not [f for f in sink.findings if f.severity != "info"]


STREAM = struct.pack("<IQIQQ", 3, w.T0, 0, 8, 9) + w.str8("shop")
STREAM_SHOWN = {"id": 3, "created_at": w.T0, "topics_count": 0, "size_bytes": 8, "messages_count": 9, "name": "shop"}
OPTIONS = w.header_typed("message_expiry", 12, U64(600))
BLOCK, NO_BLOCK = U32(len(OPTIONS)) + OPTIONS, U32(0)
TOPIC = struct.pack("<IQIQQ", 5, w.T0, 1, 8, 9) + w.str8("orders") + BLOCK + NO_BLOCK
TOPIC_SHOWN = {
    "id": 5,
    "created_at": w.T0,
    "partitions_count": 1,
    "size_bytes": 8,
    "messages_count": 9,
    "name": "orders",
    "options": {"message_expiry": 600},
    "derived_options": {},
}
PARTITION = struct.pack("<IQIQQQ", 4, w.T0, 1, 50, 8, 9) + CONTEXT
PARTITION_SHOWN = {
    "id": 4,
    "created_at": w.T0,
    "segments_count": 1,
    "current_offset": 50,
    "size_bytes": 8,
    "messages_count": 9,
    **CONTEXT_SHOWN,
}
CHANGE = (
    struct.pack("<QIQQQ", 41, 0, 5, 0, w.T0)
    + b"\1"
    + U32(2)
    + b"\1\1"
    + (U32(7) + b"created")
)  # fmt: skip
RESPONSES: dict[str, tuple[str, int, bytes, bytes, dict[str, object]]] = {
    "poll routing": (
        *("0.9", 103, READERS + IDS + ANY, SESSION + w.NODE),
        {"consumer_session": SESSION_SHOWN, "primary": w.NODE_SHOWN},
    ),
    "partition route": (
        *("0.10", 105, IDS + U32(4), struct.pack("<QQIIB", 3, 40, 7, 2, 1)),
        {"partition_incarnation": 3, "metadata_op": 40, "view": 7, "partitions_count": 2, "primary_replica": 1},
    ),
    "wait that found something": (
        *("0.10", 107, READERS + IDS + U64(500) + U64(900) + U32(1) + U32(4) + STRATEGY, U32(1) + U32(4)),
        {"partitions_count": 1, "partitions": [4]},
    ),
    "stream": (
        *("0.10", 200, w.STREAM, STREAM + BLOCK + NO_BLOCK),
        {**STREAM_SHOWN, "options": {"message_expiry": 600}, "derived_options": {}, "topics": []},
    ),
    "topic": ("0.10.1", 300, IDS, TOPIC + PARTITION, {**TOPIC_SHOWN, "partitions": [PARTITION_SHOWN]}),
    "topic that names its nodes": (
        *("0.10.2", 300, IDS, TOPIC + PARTITION + b"\3\0\1\2\2\0\1"),
        {
            **TOPIC_SHOWN,
            "partitions": [
                {
                    **PARTITION_SHOWN,
                    "members_count": 3,
                    "members": [0, 1, 2],
                    "in_sync_count": 2,
                    "in_sync_members": [0, 1],
                }
            ],
        },
    ),
    "cluster": (
        *("0.10", 12, b"", w.str32("three") + U32(1) + b"\2" + w.NODE),
        {"name": "three", "nodes_count": 1, "nodes": [{"replica_id": 2, **w.NODE_SHOWN}]},
    ),
    "options": (
        *("0.10", 13, b"\2", U32(1) + w.str8("name") + b"\2\1" + U32(0) + w.str32("what it is called")),
        {
            "count": 1,
            "entries": [
                {"key": "name", "kind": 2, "flags": 1, "default_value": "", "description": "what it is called"}
            ],
        },
    ),
    "changes": (
        "0.10",
        17,
        b"\0" + bytes(44) + b"\0\0" + U32(10) + b"\0" + b"\0\0",
        b"\0\0\1" + struct.pack("<QQ", 9, 0) + struct.pack("<QQQ", 1, w.T0, 41) + b"\0\0" + U32(1) + CHANGE + bytes(6),
        {
            "change_status": 0,
            "phase": 0,
            "log_id": "9",
            "oldest_op": 1,
            "retained_since": w.T0,
            "head_op": 41,
            "next": None,
            "has_more": False,
            "records_count": 1,
            "items_count": 0,
            "items": [],
            "token_bytes": 0,
            "records": [
                {
                    "op": 41,
                    "ordinal": 0,
                    "checksum": "5",
                    "timestamp": w.T0,
                    "actor_user_id": 2,
                    "group": 1,
                    "kind": 1,
                    "body_bytes": 7,
                }
            ],
        },
    ),
}


@pytest.mark.parametrize("case", RESPONSES)
def test_an_answer_of_vsr_is_read_as_it_was_written(case: str) -> None:
    release, code, ask, body, values = RESPONSES[case]
    script = conversation((w.vsr_request(2, ask, code=code, id=5), w.vsr_reply(2, body, id=5)))
    sink, _ = feed(PROTOCOL, [*login(release), *script])
    assert json.loads(sink.exchanges[-1].response or "") == {"status": 0, **values}
    assert not [f for f in sink.findings if f.severity != "info"]


@pytest.mark.parametrize("release", PROTOCOLS)
def test_the_version_in_a_login_shows_the_release(release: str) -> None:
    sink, _ = feed(PROTOCOL, login(release))
    (finding,) = [f for f in sink.findings if f.kind == "dialect"]
    assert json.loads(finding.evidence or "")["releases"] == [f"vsr-{release}"]


def test_the_body_decides_where_an_unreleased_version_decides_nothing() -> None:
    ask = w.register(11, patch=1)
    reply = w.vsr_reply(1, RESULT + w.registered(11, 1), id=0)
    sink, _ = feed(PROTOCOL, conversation((w.vsr_request(1, ask, id=0), reply)))
    assert {e.dialect for e in sink.exchanges} == {"iggy-vsr-0.9"}


def test_a_fetch_of_many_partitions_is_one_exchange_with_its_batches_and_errors() -> None:
    batches = [w.batch([b"one", b"two"], part=4, base=40), w.batch([b"six"], part=6, base=8)]
    sections = b"".join(
        struct.pack("<IIQI", part, status, 50, count) + CONTEXT + struct.pack("<QI", 42, size)
        for part, status, count, size in ((4, 0, 2, len(batches[0])), (5, 3007, 0, 0), (6, 0, 1, len(batches[1])))
    )
    ask = REQUESTS["fetch"][3]
    body = U32(3) + sections + b"".join(batches)
    script = conversation((w.vsr_request(2, ask, code=109, id=5), w.vsr_reply(2, body, id=5)))
    sink, _ = feed(PROTOCOL, [*login("0.10.2"), *script])
    row = sink.exchanges[-1]
    assert (row.api, row.records, row.partitions, row.error_name, row.error_count) == (
        *("FETCH_MESSAGES", 3, 3, "PartitionNotFound", 1),
    )
    assert [(b.partition, b.base_offset, b.last_offset, b.verdict) for b in sink.batches] == [
        (4, 40, 41, "ok"),
        (6, 8, 8, "ok"),
    ]


def test_the_checksum_of_a_batch_covers_the_producer_that_wrote_it() -> None:
    head = w.STREAM + w.TOPIC + w.partition(0) + U32(1)
    whole = U32(len(head)) + head + w.batch([b"once"], producer=(77, 3, 1000))
    broken = bytearray(whole)
    broken[4 + len(head) + 64] ^= 1  # the epoch
    asks = [w.vsr_request(160, bytes(body), id=i) for i, body in enumerate((whole, broken), 5)]
    confirmed = struct.pack("<IIIIQ", 1, 0, 0, 0, 40)
    sink, _ = feed(
        PROTOCOL,
        [*login("0.10.2"), *conversation(*[(a, w.vsr_reply(160, confirmed, id=5 + i)) for i, a in enumerate(asks)])],
    )
    assert [(b.producer, b.producer_epoch, b.base_sequence, b.verdict) for b in sink.batches] == [
        ("77", 3, 1000, "ok"),
        ("77", 2, 1000, "bad"),
    ]


def test_the_key_of_an_encrypted_stream_is_never_shown() -> None:
    key = w.header_typed("encryption_key", 1, b"S3CRET-KEY" * 3) + w.header_typed("encryption_key_source", 2, b"client")
    ask = w.vsr_request(128, w.str8("vault") + key, id=5)
    sink, _ = feed(PROTOCOL, [*login("0.10.2"), (CLIENT, ask)])
    shown = json.loads(sink.exchanges[-1].request or "")
    assert shown["options"] == {"encryption_key": "<redacted>", "encryption_key_source": "client"}


def test_renaming_by_options_teaches_the_new_name() -> None:
    rename = b"\1" + w.number(3) + w.number(5) + b"\0" + w.header_typed("name", 2, b"sales")
    sink, _ = feed(
        PROTOCOL, [*login("0.10"), *conversation((w.vsr_request(150, rename, id=5), w.vsr_reply(73, RESULT, id=5)))]
    )
    assert (
        sink.exchanges[-1].kind,
        sink.exchanges[-1].api,
        sink.exchanges[-1].status,
    ) == ("call", "UPDATE_RESOURCE", "ok")
    assert "sales" in {name.name for name in sink.names}


def test_in_mid_connection_the_kind_of_request_identifier_shows_the_release() -> None:
    body = w.str8("shop")
    whole = w.vsr_request(128, body, id=5)
    stamped = bytearray(whole)
    struct.pack_into("<Q", stamped, 144, w.xxhash.xxh3_64_intdigest(body))
    random = bytearray(whole)
    struct.pack_into("<QQ", random, 144, 1, 1 << 60)
    for ask, dialect in ((stamped, "iggy-vsr-0.9"), (random, "iggy-vsr-0.10")):
        sink, talk_ = feed(PROTOCOL, [(CLIENT, bytes(ask))], midstream=True)
        assert talk_.summary().dialect == dialect
        assert not [f for f in sink.findings if f.kind == "checksum_mismatch"]
