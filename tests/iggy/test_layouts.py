"""The wire tables hold together, and every command's body is read byte by byte as it was written."""

import json
import re
import struct

import pytest

from dissectors.iggy import PROTOCOL, layouts, tables
from dissectors.iggy.walk import Fields
from dissectors.wire.proto import proto
from tests.feeding import feed
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, Script, conversation

ALL = (1 << len(tables.releases())) - 1
NAMES = {command.name for meanings in tables.commands().values() for command in meanings}


def rows() -> list[list[str]]:
    lines = proto("iggy", "layouts.txt").read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def test_every_layout_is_of_a_known_command_and_compiles() -> None:
    for side, name, *_ in rows():
        if side != "type":
            assert name in NAMES or name == layouts.ERROR
            assert layouts.versions(side, name)


@pytest.mark.parametrize("side", [layouts.REQUEST, layouts.RESPONSE])
def test_the_versions_of_a_body_never_overlap(side: str) -> None:
    for name in NAMES:
        seen: dict[layouts.BodyField | None, int] = {}
        for layout in layouts.versions(side, name):
            discriminator = next((field for field in layout.fields if field.only is not None), None)
            assert not seen.get(discriminator, 0) & layout.releases, name
            seen[discriminator] = seen.get(discriminator, 0) | layout.releases


def test_every_command_of_the_compared_releases_has_a_request_layout() -> None:
    assert not {name for name in NAMES if not layouts.versions(layouts.REQUEST, name)}


def test_a_number_means_one_thing_in_one_release() -> None:
    for table in (tables.commands(), tables.statuses()):
        for code, meanings in table.items():
            seen = 0
            for meaning in meanings:
                assert not seen & meaning.releases, code
                seen |= meaning.releases


def test_operations_name_commands_that_exist() -> None:
    for operation in tables.operations().values():
        assert operation.code == 0 or operation.code in tables.commands()
        assert operation.request in tables.operations()


@pytest.mark.parametrize("number", [b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\0\0\x80\xff", b"\0\0\0\x3f"])
def test_a_float_is_shown_as_json_can_hold_it(number: bytes) -> None:
    for layout in layouts.versions(layouts.RESPONSE, "GET_STATS"):
        fields = Fields()
        fields.read(layout.plan, bytes(4) + number + bytes(400), 0, 408)
        values = fields.values()
        assert values["cpu_usage"] in ("nan", "inf", "-inf", 0.5)
        json.dumps(values, allow_nan=False)


def test_every_dialect_can_be_asked_for_by_its_name() -> None:
    for release in tables.releases():
        assert tables.asked_for(release.dialect)
        assert tables.asked_for(release.name.removeprefix("vsr-"))
    assert not tables.asked_for("iggy-9.9")


def test_types_in_capitals_are_defined() -> None:
    defined = {name for side, name, *_ in rows() if side == "type"}
    used = {m for row in rows() for field in row[3:] for m in re.findall(r"[:*]\??([A-Z]\w+)", field)}
    assert used <= defined


# --- bodies ----------------------------------------------------------------------------------------------------------

U32 = struct.Struct("<I").pack
U64 = struct.Struct("<Q").pack
PERMISSIONS = bytes([1, 0] * 5) + b"\1" + U32(7) + bytes([1] * 6) + b"\1" + U32(9) + b"\1\0\1\0" + b"\0" + b"\0"
SHOWN = {
    "global": {
        "manage_servers": True,
        "read_servers": False,
        "manage_users": True,
        "read_users": False,
        "manage_streams": True,
        "read_streams": False,
        "manage_topics": True,
        "read_topics": False,
        "poll_messages": True,
        "send_messages": False,
    },
    "streams": {
        "7": {
            "manage_stream": True,
            "read_stream": True,
            "manage_topics": True,
            "read_topics": True,
            "poll_messages": True,
            "send_messages": True,
            "topics": {"9": {"manage_topic": True, "read_topic": False, "poll_messages": True, "send_messages": False}},
        }
    },
}
IDS = w.STREAM + w.TOPIC
TWO = {"stream_id": "shop", "topic_id": "orders"}
CONSUMER = {"consumer": {"kind": "consumer_group", "id": "readers"}}
READERS = b"\2" + w.name("readers")

REQUESTS: dict[str, tuple[str, int, bytes, dict[str, object]]] = {
    "old consumer": (
        *("iggy-2023", 121, b"\2" + U32(4) + IDS + U32(1) + U64(9)),
        {"consumer": {"kind": "consumer_group", "id": 4}, **TWO, "partition_id": 1, "offset": 9},
    ),
    "consumer by name": (
        "iggy-0.4",
        121,
        READERS + IDS + U32(1) + U64(9),
        {**CONSUMER, **TWO, "partition_id": 1, "offset": 9},
    ),
    "no partition": ("iggy-0.7", 120, READERS + IDS + bytes(5), {**CONSUMER, **TWO, "partition_id": None}),
    "old group": ("iggy-2023", 604, IDS + U32(5), {**TWO, "group_id": 5}),
    "named group": ("iggy-0.4", 602, IDS + U32(5) + w.str8("g"), {**TWO, "group_id": 5, "name": "g"}),
    "group of today": ("iggy-0.7", 602, IDS + w.str8("g"), {**TWO, "name": "g"}),
    "permissions": (
        *("iggy-0.7", 36, w.number(3) + b"\1" + U32(len(PERMISSIONS)) + PERMISSIONS),
        {"user_id": 3, "permissions": SHOWN},
    ),
    "no permissions": ("iggy-0.7", 36, w.name("ann") + b"\0", {"user_id": "ann", "permissions": None}),
    "half an update": ("iggy-0.7", 35, w.name("ann") + b"\0\1\2", {"user_id": "ann", "username": None, "status": 2}),
    "token": ("iggy-0.7", 42, w.str8("ci") + U64(60), {"name": "ci", "expiry": 60}),
    "old token": ("iggy-0.2", 42, w.str8("ci") + U32(60), {"name": "ci", "expiry": 60}),
    "snapshot": (*("iggy-0.7", 11, b"\2\3\1\2\3"), {"compression": 2, "types_count": 3, "snapshot_types": [1, 2, 3]}),
    "segments": ("iggy-0.7", 503, IDS + U32(1) + U32(2), {**TWO, "partition_id": 1, "segments_count": 2}),
    "flush": ("iggy-0.7", 102, IDS + U32(1) + b"\1", {**TWO, "partition_id": 1, "fsync": True}),
    "topic of 0.1": (
        *("iggy-0.1", 302, w.STREAM + U32(5) + U32(3) + U32(60) + w.str8("orders")),
        {"stream_id": "shop", "topic_id": 5, "partitions_count": 3, "message_expiry": 60, "name": "orders"},
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_is_read_as_it_was_written(case: str) -> None:
    era, code, body, values = REQUESTS[case]
    login: Script = ERAS[era][:2] if era in ERAS else []
    sink, _ = feed(PROTOCOL, [*login, *conversation((w.request(code, body), w.OK))])
    assert json.loads(sink.exchanges[-1].request or "") == values
    assert not [f for f in sink.findings if f.kind in ("malformed_frame", "trailing_bytes")]


STREAM_SHOWN = {"id": 3, "created_at": 5, "topics_count": 0, "size_bytes": 8, "messages_count": 9, "name": "shop"}
STREAM_BODY = struct.pack("<IQIQQ", 3, 5, 0, 8, 9) + w.str8("shop")
GROUP_BODY = struct.pack("<III", 5, 4, 1) + w.str8("g") + struct.pack("<II", 77, 2) + U32(1) + U32(3)

RESPONSES: dict[str, tuple[int, bytes, bytes, dict[str, object]]] = {
    "streams": (201, b"", STREAM_BODY * 2, {"streams": [STREAM_SHOWN] * 2}),
    "group": (
        *(600, IDS + w.number(5), GROUP_BODY),
        {
            "id": 5,
            "partitions_count": 4,
            "members_count": 1,
            "name": "g",
            "members": [{"id": 77, "partitions_count": 2, "partitions": [1, 3]}],
        },
    ),
    "cluster": (
        *(12, b"", w.str32("single") + U32(1) + w.NODE),
        {"name": "single", "nodes_count": 1, "nodes": [w.NODE_SHOWN]},
    ),
    "user": (
        *(31, w.name("ann"), struct.pack("<IQB", 2, 5, 1) + w.str8("ann") + bytes(4)),
        {"id": 2, "created_at": 5, "status": 1, "username": "ann", "permissions": None},
    ),
    "me": (
        *(20, b"", struct.pack("<IIB", 1, 0, 1) + w.str32("[::1]:5") + U32(1) + struct.pack("<III", 3, 5, 7)),
        {
            "client_id": 1,
            "user_id": 0,
            "transport": 1,
            "address": "[::1]:5",
            "consumer_groups_count": 1,
            "consumer_groups": [{"stream_id": 3, "topic_id": 5, "group_id": 7}],
        },
    ),
    "offset": (
        *(120, READERS + IDS + bytes(5), struct.pack("<IQQ", 1, 50, 3)),
        {"partition_id": 1, "current_offset": 50, "stored_offset": 3},
    ),
    "snapshot": (11, b"\2\0", b"PK" + bytes(500), {"snapshot_bytes": 502}),
    "nothing found": (200, w.name("none"), b"", {}),
}


@pytest.mark.parametrize("case", RESPONSES)
def test_an_answer_is_read_as_it_was_written(case: str) -> None:
    code, ask, body, values = RESPONSES[case]
    sink, _ = feed(PROTOCOL, [*ERAS["iggy-0.7"], *conversation((w.request(code, ask), w.answer(body)))])
    assert json.loads(sink.exchanges[-1].response or "") == {"status": 0, **values}


def test_options_are_typed_entries() -> None:
    options = w.header_typed("compression_algorithm", 2, b"gzip") + w.header_typed("message_expiry", 12, U64(600))
    body = w.STREAM + U32(3) + w.str8("orders") + options
    script = conversation((w.vsr_request(132, body, id=4), w.vsr_reply(64, bytes(4), id=4)))
    sink, _ = feed(PROTOCOL, [*ERAS["iggy-vsr-0.9"][:2], *script])
    shown = json.loads(sink.exchanges[-1].request or "")
    assert shown["options"] == {"compression_algorithm": "gzip", "message_expiry": 600}


def test_an_unknown_command_is_framed_and_reported_once() -> None:
    sink, _ = feed(PROTOCOL, [*ERAS["iggy-0.7"], *conversation(*[(w.request(9999, b"?"), w.answer(status=3))] * 2)])
    assert [(e.api, e.api_code) for e in sink.exchanges[-2:]] == [("COMMAND_9999", 9999)] * 2
    assert [f.kind for f in sink.findings].count("unknown_api") == 1


def test_a_body_that_no_layout_reads_is_reported_and_its_exchange_stays() -> None:
    sink, _ = feed(PROTOCOL, [*ERAS["iggy-0.7"], *conversation((w.request(302, b"\1\4\1\0"), w.answer(status=3)))])
    (finding,) = [f for f in sink.findings if f.kind == "malformed_frame"]
    assert json.loads(finding.evidence or "")["position"] == 10
    assert (sink.exchanges[-1].api, sink.exchanges[-1].error_name) == ("CREATE_TOPIC", "InvalidCommand")
