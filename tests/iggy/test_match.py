"""Which answer belongs to which request: in order, unless the capture or a server breaks the order."""

import json
import struct

import pytest

from dissectors.iggy import PROTOCOL
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, PAYLOADS, conversation

LOGIN = conversation((w.request(38, w.login(version="0.8.0")), w.answer(b"\0\0\0\0")))
SEND = w.request(101, w.send_b(PAYLOADS, size=64))
POLL = w.request(100, w.poll_06())
POLLED = w.answer(w.polled(w.poll_b(PAYLOADS, size=64, kind="xxh3"), 3))
PING = w.request(1)
NOT_FOUND = w.answer(status=1009)


def story(sink: Sink) -> list[tuple[str | None, str | None, str | None]]:
    return [(e.kind, e.api, e.error_name) for e in sink.exchanges]


def test_pipelined_requests_are_answered_in_order() -> None:
    script = [*LOGIN, (CLIENT, SEND + PING + POLL + SEND), (SERVER, w.OK + w.OK + POLLED + NOT_FOUND)]
    sink = feed_every_way(PROTOCOL, script)
    assert story(sink)[1:] == [
        ("call", "SEND_MESSAGES", None),
        ("call", "PING", None),
        ("call", "POLL_MESSAGES", None),
        ("call", "SEND_MESSAGES", "StreamIdNotFound"),
    ]
    assert [b.outcome for b in sink.batches] == ["ok", "ok", "error"]


def test_a_request_without_an_answer_is_reported_when_the_connection_ends() -> None:
    sink = feed_every_way(PROTOCOL, [*LOGIN, (CLIENT, SEND)])
    assert story(sink)[-1] == ("unanswered", "SEND_MESSAGES", None)
    assert sink.batches[-1].outcome == "unknown"


def test_the_servers_last_word_is_no_answer() -> None:
    sink = feed_every_way(PROTOCOL, [*LOGIN, *conversation((PING, w.OK)), (SERVER, w.answer(status=8))])
    assert story(sink)[-1] == ("push", "DISCONNECTED", "Disconnected")
    assert not [f for f in sink.findings if f.kind == "pairing_lost"]


def test_a_server_that_answers_a_refused_body_as_frames_is_paired_again() -> None:
    """Server 0.8.0, not logged in: status 40, then `InvalidCommand` for each eight bytes of the body, then the ping."""
    stray = w.answer(status=3) * 9
    script = [
        (CLIENT, SEND),
        (SERVER, w.answer(status=40)),
        (CLIENT, PING),
        (SERVER, stray + w.OK),
        *conversation((POLL, POLLED)),
    ]
    sink = feed_every_way(PROTOCOL, script)
    calls = [row for row in story(sink) if row[0] == "call"]
    assert calls == [
        ("call", "SEND_MESSAGES", "Unauthenticated"),
        ("call", "PING", None),
        ("call", "POLL_MESSAGES", None),
    ]
    assert sum(e.kind == "orphan" for e in sink.exchanges) == 9
    (finding,) = [f for f in sink.findings if f.kind == "pairing_lost"]
    assert json.loads(finding.evidence or "") == {"answers": 9}


def test_a_malformed_request_after_a_refused_send_gets_its_own_refusal() -> None:
    script = conversation(
        (w.request(101, bytes(7)), w.answer(status=6)), (w.request(100, b"\xff" * 12), w.answer(status=3))
    )
    sink = feed_every_way(PROTOCOL, [*LOGIN, *script])
    assert story(sink)[1:] == [
        ("call", "SEND_MESSAGES", "InvalidIdentifier"),
        ("call", "POLL_MESSAGES", "InvalidCommand"),
    ]


def test_an_error_that_comes_with_a_text_answers_its_request() -> None:
    """Servers 0.2.2 to 0.4.86 say what went wrong."""
    login = conversation((w.request(38, w.login(version="0.4.0")), w.answer(struct.pack("<I", 1))))
    refused = (w.request(203, w.number(9)), w.refusal(1009, "Stream with ID: 9 was not found."))
    sink = feed_every_way(PROTOCOL, [*login, *conversation(refused, (PING, w.OK))])
    assert story(sink)[1:] == [("call", "DELETE_STREAM", "StreamIdNotFound"), ("call", "PING", None)]
    assert [e.message for e in sink.errors] == ["Stream with ID: 9 was not found."]
    assert json.loads(sink.exchanges[1].response or "")["message"] == "Stream with ID: 9 was not found."


def test_a_long_wait_makes_no_long_poll_of_a_request_that_may_not_wait() -> None:
    sink = feed_every_way(PROTOCOL, [*LOGIN, *conversation((POLL, w.answer(w.polled(b"", 0))))])
    assert sink.exchanges[-1].long_poll is None


# --- holes -----------------------------------------------------------------------------------------------------------


def test_in_lock_step_an_answer_after_a_hole_is_that_of_the_newest_request() -> None:
    script = [
        *LOGIN,
        (CLIENT, SEND),
        (SERVER, 8),
        (CLIENT, POLL),
        (SERVER, POLLED),
        *conversation((SEND, w.OK), (POLL, POLLED)),
    ]
    sink, _ = feed(PROTOCOL, script)
    assert story(sink)[1:] == [
        ("unanswered", "SEND_MESSAGES", None),
        ("call", "POLL_MESSAGES", None),
        ("call", "SEND_MESSAGES", None),
        ("call", "POLL_MESSAGES", None),
    ]


def test_the_answer_to_a_request_in_a_hole_goes_to_no_other() -> None:
    script = [*LOGIN, (CLIENT, len(SEND)), (SERVER, w.OK), *conversation((POLL, POLLED), (SEND, w.OK), (POLL, POLLED))]
    sink, _ = feed(PROTOCOL, script)
    assert [row for row in story(sink)[1:] if row[0] == "call"] == [
        ("call", "POLL_MESSAGES", None),
        ("call", "SEND_MESSAGES", None),
        ("call", "POLL_MESSAGES", None),
    ]
    assert [f.kind for f in sink.findings if f.kind == "orphan"] == ["orphan"]


def test_how_many_answers_of_a_pipeline_were_lost_follows_from_their_bytes() -> None:
    burst = [(CLIENT, SEND * 4), (SERVER, w.OK * 4)]
    script = [*LOGIN, *burst, (CLIENT, SEND + SEND + SEND + POLL + PING), (SERVER, 16), (SERVER, w.OK + POLLED + w.OK)]
    sink, _ = feed(PROTOCOL, script)
    assert [row[:2] for row in story(sink)[5:]] == [
        ("unanswered", "SEND_MESSAGES"),
        ("unanswered", "SEND_MESSAGES"),
        ("call", "SEND_MESSAGES"),
        ("call", "POLL_MESSAGES"),
        ("call", "PING"),
    ]


def test_after_a_hole_that_proves_nothing_no_answer_is_paired_wrongly() -> None:
    """Polls' answers have any size: which of five were lost is not known."""
    burst = [(CLIENT, POLL * 2), (SERVER, POLLED * 2)]
    lost = [(CLIENT, POLL * 5), (SERVER, 2 * len(POLLED)), (SERVER, POLLED * 3)]
    sink, _ = feed(PROTOCOL, [*LOGIN, *burst, *lost])
    assert [row[0] for row in story(sink)].count("call") == 3
    assert [row[0] for row in story(sink)].count("unanswered") == 5


def test_an_orphaned_poll_is_known_by_its_messages() -> None:
    script = [*LOGIN, *conversation((POLL, POLLED)), (CLIENT, len(POLL)), (SERVER, POLLED), *conversation((SEND, w.OK))]
    sink, _ = feed(PROTOCOL, script)
    (row,) = [e for e in sink.exchanges if e.kind == "orphan"]
    assert (row.api, row.records, row.response_bytes) == ("POLL_MESSAGES", 3, len(POLLED))
    assert [b.verdict for b in sink.batches if b.role == "consume"] == ["ok", "ok"]


# --- VSR -------------------------------------------------------------------------------------------------------------


def test_answers_out_of_order_are_matched_by_their_request_id() -> None:
    ask = [w.vsr_request(2, b"", id=i, code=code, routed=1) for i, code in ((7, 1), (8, 201), (9, 20))]
    replies = [w.vsr_reply(2, b"", id=i) for i in (9, 7, 8)]
    script = [*ERAS["iggy-vsr-0.10"][:2], (CLIENT, b"".join(ask)), (SERVER, b"".join(replies))]
    sink = feed_every_way(PROTOCOL, script)
    calls = [(e.api, e.correlation_id, e.kind) for e in sink.exchanges[1:]]
    assert calls == [("GET_ME", 9, "call"), ("PING", 7, "call"), ("GET_STREAMS", 8, "call")]


@pytest.mark.parametrize("era", ["iggy-vsr-0.9", "iggy-vsr-0.10"])
def test_an_answer_to_a_later_request_is_no_proof_that_earlier_ones_were_lost(era: str) -> None:
    """Each request in a segment of its own, answered in another order; one is never answered."""
    routed = int(era == "iggy-vsr-0.10")
    ask = [w.vsr_request(2, b"", id=i, code=code, routed=routed) for i, code in ((7, 1), (8, 201), (9, 20), (10, 1))]
    replies = [w.vsr_reply(2, b"", id=i) for i in (9, 7, 10)]
    script = [*ERAS[era][:2], *((CLIENT, data) for data in ask), *((SERVER, data) for data in replies)]
    sink = feed_every_way(PROTOCOL, script)
    calls = [(e.correlation_id, e.kind) for e in sink.exchanges[1:]]
    assert calls == [(9, "call"), (7, "call"), (10, "call"), (8, "unanswered")]


def test_a_long_poll_is_marked() -> None:
    body = w.poll_06() + struct.pack("<QIIQ", 500_000, 1, 1 << 20, 1_000_000)
    empty = w.polled(b"", 0, more=bytes(24))
    script = [
        *ERAS["iggy-vsr-0.10"][:2],
        *conversation((w.vsr_request(2, body, id=5, code=106), w.vsr_reply(2, empty, id=5))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert (sink.exchanges[-1].api, sink.exchanges[-1].long_poll) == ("POLL_MESSAGES_DEFERRED", True)
    assert sink.exchanges[0].long_poll is None


def test_cancelling_is_answered_by_nobody() -> None:
    script = [*ERAS["iggy-vsr-0.10"][:2], (CLIENT, w.vsr_request(2, b"", id=6, code=108))]
    sink = feed_every_way(PROTOCOL, script)
    assert (sink.exchanges[-1].kind, sink.exchanges[-1].api) == ("oneway", "CANCEL_DEFERRED_REQUEST")


def test_a_request_refused_for_now_may_be_sent_again() -> None:
    send = w.vsr_request(160, w.send_vsr(PAYLOADS), id=3)
    refused, accepted = w.vsr_reply(160, id=3, status=58), w.vsr_reply(160, id=3)
    sink = feed_every_way(
        PROTOCOL, [*ERAS["iggy-vsr-0.9"][:2], *conversation((send, refused), (send, refused), (send, accepted))]
    )
    assert [e.name for e in sink.errors] == ["TransientNotAccepted"] * 2
    assert all(e.retriable for e in sink.errors)
    assert [b.outcome for b in sink.batches] == ["error", "error", "ok"]


def test_the_internal_operation_of_an_answer_is_the_one_that_was_asked_for() -> None:
    body = w.STREAM + struct.pack("<I", 3) + w.str8("orders")
    script = conversation((w.vsr_request(132, body, id=4), w.vsr_reply(64, struct.pack("<I", 0), id=4)))
    sink = feed_every_way(PROTOCOL, [*ERAS["iggy-vsr-0.9"][:2], *script])
    assert (sink.exchanges[-1].kind, sink.exchanges[-1].api, sink.exchanges[-1].api_code) == (
        "call",
        "CREATE_TOPIC",
        302,
    )


def test_the_first_result_of_a_result_section_is_the_error() -> None:
    results = struct.pack("<IIIII", 2, 0, 1012, 1, 2013)
    script = conversation((w.vsr_request(128, w.str8("shop"), id=4), w.vsr_reply(128, results, id=4)))
    sink = feed_every_way(PROTOCOL, [*ERAS["iggy-vsr-0.9"][:2], *script])
    assert sink.exchanges[-1].error_name == "StreamNameAlreadyExists"


def test_an_eviction_answers_what_was_asked() -> None:
    sink = feed_every_way(PROTOCOL, conversation((w.vsr_request(1, w.register(), id=0), w.eviction(9))))
    assert story(sink) == [("call", "LOGIN_USER", "InvalidCredentials")]
    assert [(e.code, e.scope) for e in sink.errors] == [(42, "session")]


def test_an_eviction_that_nobody_asked_for_is_a_push() -> None:
    sink = feed_every_way(PROTOCOL, [*ERAS["iggy-vsr-0.9"], (SERVER, w.eviction(13))])
    assert story(sink)[-1] == ("push", "EVICTION", "StaleClient")
