"""No byte sequence crashes the dissector, and no secret leaves it."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.iggy import PROTOCOL
from dissectors.records import TABLES
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, Script, conversation


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from([CLIENT, SERVER]), st.binary(max_size=300)), max_size=8), st.booleans())
def test_any_bytes_are_rows_and_findings(script: Script, midstream: bool) -> None:
    feed(PROTOCOL, script, midstream=midstream)


def test_an_answer_cut_before_its_id_is_not_held_back_where_a_hole_leaves_its_request_open() -> None:
    ping = w.vsr_request(2, code=1, id=7)
    script: Any = [
        *ERAS["iggy-vsr-0.9"],
        (CLIENT, ping + ping),  # in one packet: requests are pipelined
        (CLIENT, len(ping)),
        (CLIENT, ping),
        *[(SERVER, w.vsr_reply(2, id=7))] * 4,
    ]
    whole = len(script) - 4
    sink, _ = feed(PROTOCOL, script, keep=lambda step, size: size if step < whole else 40)
    assert [e.kind for e in sink.exchanges[-3:]].count("unanswered") >= 1


@pytest.mark.parametrize("kept", [20, 32, 40, 48, 64, 200, 255, 256])
def test_answers_of_which_half_a_header_was_captured_have_their_requests(kept: int) -> None:
    calls = [
        (w.vsr_request(128 + i, bytes(i), id=i), bytearray(w.vsr_reply(128 + i, bytes(i), id=i))) for i in range(4)
    ]
    for _, reply in calls[1::2]:
        reply[32:48] = b"of the cluster.."  # as in answers to what is replicated
    login = ERAS["iggy-vsr-0.9"]
    script = [*login, *conversation(*((sent, bytes(answer)) for sent, answer in calls))]
    sink, _ = feed(PROTOCOL, script, keep=lambda step, size: size if step < len(login) else min(size, kept))
    assert [(e.kind, e.wait_ns) for e in sink.exchanges[-4:]] == [("call", 1_000_000)] * 4


def test_a_frame_that_announces_more_than_it_may_is_no_frame() -> None:
    sink, _ = feed(PROTOCOL, [*ERAS["iggy-0.7"], (CLIENT, struct.pack("<II", 0x7FFFFFFF, 101) + bytes(50))])
    assert "malformed_frame" in [f.kind for f in sink.findings]


@pytest.mark.parametrize("count", [0xFFFFFFFF, 1 << 20])
def test_a_count_is_checked_against_the_bytes_that_are_there(count: int) -> None:
    head = w.STREAM + w.TOPIC + w.BALANCED + struct.pack("<I", count)
    send = w.request(101, struct.pack("<I", len(head)) + head + bytes(64))
    polled = w.answer(struct.pack("<IQI", 0, 0, count))
    sink, _ = feed(PROTOCOL, [*ERAS["iggy-0.7"], *conversation((send, w.OK), (w.request(100, w.poll_06()), polled))])
    assert [e.kind for e in sink.exchanges[-2:]] == ["call", "call"]


SECRETS = ["s3cret-pass", "n3w-s3cret", "t0ken-abcdef", "BBBBBBBBBBBBBBBB"]


def everything(sink: Sink) -> str:
    return repr([list(getattr(sink, table)) for table in TABLES])


@pytest.mark.parametrize("era", [e for e in ERAS if "vsr" not in e])
@pytest.mark.parametrize("cut", [0, 1])
def test_no_password_and_no_token_leaves_a_legacy_connection(era: str, cut: int) -> None:
    secret = [
        (33, w.str8("ann") + w.str8("s3cret-pass") + b"\1\0"),
        (37, w.name("ann") + w.str8("s3cret-pass") + w.str8("n3w-s3cret")),
        (44, w.str8("t0ken-abcdef")),
        (38, w.login(version="9")),
        (38, w.login()),
        (32, w.login()),
    ]
    requests = [(w.request(code, body[: len(body) - cut]), w.OK) for code, body in secret]
    made = (w.request(42, w.str8("ci") + bytes(8)), w.answer(w.str8("t0ken-abcdef")))
    sink, _ = feed(PROTOCOL, [*ERAS[era], *conversation(*requests, made)])
    assert not [secret for secret in SECRETS if secret in everything(sink)]
    assert "ann" in everything(sink)


@pytest.mark.parametrize("minor", [11, 12])
def test_no_password_and_no_token_leaves_a_vsr_connection(minor: int) -> None:
    era = f"iggy-vsr-0.{minor - 2}"
    pat = struct.pack("<I", minor << 10) + w.str8("go") + w.str8("1") + (b"B" * 32 if minor > 11 else b"")
    script = conversation(
        (
            w.vsr_request(1, pat + w.str8("t0ken-abcdef") + w.str32(""), id=0),
            w.vsr_reply(1, bytes(4) + w.registered(), id=0),
        ),
        (w.vsr_request(146, w.str8("ci") + bytes(8), id=9), w.vsr_reply(146, bytes(4) + w.str8("t0ken-abcdef"), id=9)),
        (w.vsr_request(141, w.str8("ann") + w.str8("s3cret-pass") + b"\1\0", id=10), w.vsr_reply(141, bytes(4), id=10)),
        (w.vsr_request(1, w.register(minor, "n3w-s3cret"), id=0), w.eviction(9)),
    )
    sink, _ = feed(PROTOCOL, [*ERAS[era], *script])
    assert not [secret for secret in SECRETS if secret in everything(sink)]
    assert [e.api for e in sink.exchanges[-4:]] == [
        *("LOGIN_WITH_PERSONAL_ACCESS_TOKEN", "CREATE_PERSONAL_ACCESS_TOKEN", "CREATE_USER", "LOGIN_USER")
    ]
