"""Exchanges of one connection, however the network cut them."""

import json
import struct

import pytest

from dissectors.kafka import PROTOCOL
from dissectors.kafka.full import full
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.rows.sink import Sink
from dissectors.tcp.chunk import Chunk, Gap, Resent
from tests.feeding import CLIENT, SERVER, conn, feed, feed_every_way
from tests.kafka.wire import any_body, batch, fetch, fetched, frame, produce, produced, record, request, response, text

ONE = batch([record(0, None, b"value")])
TWO = batch([record(0, b"k", b"v"), record(1, None, None)])


def test_a_call_is_a_request_with_the_answer_of_its_correlation_id() -> None:
    script = [(CLIENT, produce(7, {("orders", 3): TWO})), (SERVER, produced(7, [("orders", 3, 0, 41)], throttle=12))]
    sink = feed_every_way(PROTOCOL, script)
    (row,) = sink.exchanges
    assert (row.kind, row.api, row.api_code, row.version, row.correlation_id) == ("call", "Produce", 0, 7, 7)
    assert (row.client_id, row.status, row.error_count, row.throttle_ms) == ("tester", "ok", 0, 12)
    assert (row.topics, row.partitions, row.records, row.payload_bytes) == (["orders"], 1, 2, len(TWO))
    assert (row.request_ns, row.wait_ns, row.total_ns) == (0, 1_000_000, 1_000_000)
    assert row.complete
    (unit,) = sink.batches
    assert (unit.role, unit.topic, unit.partition, unit.base_offset, unit.last_offset) == (
        "produce",
        "orders",
        3,
        41,
        42,
    )
    assert (unit.records, unit.codec, unit.verdict, unit.outcome) == (2, "none", "ok", "ok")


def test_what_the_broker_says_of_each_partition_is_the_outcome_of_its_batches() -> None:
    script = [
        (CLIENT, produce(1, {("a", 0): ONE, ("b", 1): ONE})),
        (SERVER, produced(1, [("a", 0, 0, 5), ("b", 1, 6, -1)])),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(b.topic, b.outcome, b.base_offset) for b in sink.batches] == [("a", "ok", 5), ("b", "error", None)]
    (row,) = sink.exchanges
    assert (row.status, row.error_code, row.error_name, row.error_count) == ("error", 6, "NOT_LEADER_OR_FOLLOWER", 1)
    (error,) = sink.errors
    assert (error.scope, error.topic, error.partition, error.code, error.retriable) == ("partition", "b", 1, 6, True)


def test_a_produce_that_wants_no_answer_is_reported_at_once() -> None:
    script = [
        (CLIENT, produce(1, {("a", 0): ONE}, acks=0)),
        (CLIENT, produce(2, {("a", 0): ONE}, acks=1)),
        (SERVER, produced(2, [("a", 0, 0, 9)])),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(e.kind, e.correlation_id, e.status, e.acks) for e in sink.exchanges] == [
        ("oneway", 1, "unknown", 0),
        ("call", 2, "ok", 1),
    ]
    assert [b.outcome for b in sink.batches] == ["unknown", "ok"]


def test_answers_to_pipelined_requests_are_distinguished_and_ids_may_repeat() -> None:
    script = [
        (CLIENT, produce(-1, {("a", 0): ONE}) + produce(0, {("b", 0): ONE}) + produce(0, {("c", 0): ONE})),
        (SERVER, produced(-1, [("a", 0, 0, 1)])),
        (SERVER, produced(0, [("b", 0, 0, 2)]) + produced(0, [("c", 0, 0, 3)])),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(e.topics, e.correlation_id) for e in sink.exchanges] == [(["a"], -1), (["b"], 0), (["c"], 0)]
    assert [(b.topic, b.base_offset) for b in sink.batches] == [("a", 1), ("b", 2), ("c", 3)]


def test_answers_in_another_order_belong_to_their_requests_and_that_is_an_event() -> None:
    script = [
        (CLIENT, produce(1, {("a", 0): ONE}) + produce(2, {("b", 0): ONE}) + produce(3, {("c", 0): ONE})),
        (SERVER, produced(2, [("b", 0, 0, 2)]) + produced(1, [("a", 0, 0, 1)])),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert sorted((e.correlation_id, e.kind, e.complete) for e in sink.exchanges) == [
        (1, "call", True),
        (2, "call", True),
        (3, "unanswered", True),
    ]
    assert sorted((b.topic, b.base_offset) for b in sink.batches if b.base_offset is not None) == [("a", 1), ("b", 2)]
    assert [(e.kind, e.correlation_id) for e in sink.events] == [("overtaken", 1)]


def test_a_hole_in_the_answers_explains_requests_before_the_next_one_that_is_answered() -> None:
    lost = produced(1, [("a", 0, 0, 1)])
    script = [
        (CLIENT, produce(1, {("a", 0): ONE}) + produce(2, {("b", 0): ONE})),
        (SERVER, len(lost)),
        (SERVER, produced(2, [("b", 0, 0, 2)])),
        (CLIENT, produce(3, {("c", 0): ONE})),
    ]
    sink, _ = feed(PROTOCOL, script)
    assert [(e.correlation_id, e.kind, e.complete) for e in sink.exchanges] == [
        (1, "unanswered", False),
        (2, "call", True),
        (3, "unanswered", True),
    ]


def test_a_request_whose_answer_was_lost_was_sent_again_by_the_time_a_later_one_was_answered() -> None:
    sink = Sink(("exchanges",))
    sink.files = ["x.pcap"]
    conversation = PROTOCOL.conversation(conn("kafka"), sink, Options(tables=("exchanges",)), midstream=False)
    first, second, answer = produce(1, {("a", 0): ONE}), produce(2, {("b", 0): ONE}), produced(2, [("b", 0, 0, 2)])
    conversation.receive(CLIENT, Chunk.of(0, first + second, [0], [1], [1], [1]))
    conversation.advance()
    conversation.resends.add(CLIENT, Resent(0, len(first), 2))
    conversation.receive(SERVER, Gap(0, 40, "not captured", 3, 3, 3))
    conversation.receive(SERVER, Chunk.of(40, answer, [40], [3], [3], [3]))
    conversation.resends.add(CLIENT, Resent(len(first), len(first + second), 4))
    conversation.advance()
    assert [(e.kind, e.retransmitted) for e in sink.exchanges] == [("unanswered", True), ("call", False)]


def test_a_refused_api_versions_is_read_in_version_0() -> None:
    script = [
        (CLIENT, request(18, 3, 0, b"\x07librdk\x05test\0".replace(b"\x05test", b"\x04abc"))),
        (SERVER, response(18, 3, 0, struct.pack(">hi", 35, 0))),
        (CLIENT, request(18, 0, 1, b"")),
        (SERVER, response(18, 0, 1, struct.pack(">hi", 0, 0))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(e.version, e.status, e.error_name) for e in sink.exchanges] == [
        (3, "error", "UNSUPPORTED_VERSION"),
        (0, "ok", None),
    ]
    assert not [f for f in sink.findings if f.kind == "malformed_frame"]
    _, conversation = feed(PROTOCOL, script)
    assert (conversation.summary().client_software, conversation.summary().client_version) == ("librdk", "abc")


def test_an_unknown_api_is_framed_and_matched_and_reported_once() -> None:
    script = [
        (CLIENT, frame(struct.pack(">hhi", 300, 2, 5) + text("tester") + b"????")),
        (SERVER, frame(struct.pack(">i", 5) + b"!!")),
        (CLIENT, frame(struct.pack(">hhi", 300, 2, 6) + text("tester") + b"????")),
        (SERVER, frame(struct.pack(">i", 6) + b"!!")),
        (CLIENT, frame(struct.pack(">hhi", 3, 99, 7) + text("tester"))),
        (SERVER, frame(struct.pack(">i", 7))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(e.api, e.version, e.kind, e.status) for e in sink.exchanges] == [
        ("Api300", 2, "call", "unknown"),
        ("Api300", 2, "call", "unknown"),
        ("Metadata", 99, "call", "unknown"),
    ]
    assert [f.kind for f in sink.findings] == ["unknown_api", "unknown_api"]


def test_raw_sasl_after_the_old_handshake_breaks_no_framing_and_shows_nothing() -> None:
    secret = b"\0alice\0correct-horse-battery"
    script = [
        (CLIENT, request(17, 0, 0, text("PLAIN"))),
        (SERVER, response(17, 0, 0, struct.pack(">hi", 0, 1) + text("PLAIN"))),
        (CLIENT, frame(secret)),
        (SERVER, frame(b"")),
        (CLIENT, request(3, 0, 1, struct.pack(">i", 0))),
        (SERVER, response(3, 0, 1, struct.pack(">ii", 0, 0))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [e.api for e in sink.exchanges] == ["SaslHandshake", "SaslToken", "Metadata"]
    assert not sink.findings
    assert "horse" not in repr([getattr(sink, table) for table in TABLES])


KERBEROS = bytes.fromhex("60820203") + bytes.fromhex("06092a864886f712010202") + bytes(500)


def test_the_last_token_of_a_raw_login_has_no_answer_and_takes_none_of_the_request_behind_it() -> None:
    script = [
        (CLIENT, request(17, 0, 0, text("GSSAPI"))),
        (SERVER, response(17, 0, 0, struct.pack(">hi", 0, 1) + text("GSSAPI"))),
        (CLIENT, frame(KERBEROS)),
        (SERVER, frame(b"\x60 and what the broker says")),
        (CLIENT, frame(b"\5\4 the last word")),
        (CLIENT, request(3, 0, 1, struct.pack(">i", 0))),
        (SERVER, response(3, 0, 1, struct.pack(">ii", 0, 0))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert sorted((e.api, e.kind) for e in sink.exchanges) == [
        ("Metadata", "call"),
        ("SaslHandshake", "call"),
        ("SaslToken", "call"),
        ("SaslToken", "oneway"),
    ]
    assert not sink.findings


def test_a_conversation_may_begin_with_a_token_of_kerberos() -> None:
    script = [
        (CLIENT, frame(KERBEROS)),
        (SERVER, frame(b"\x60 and what the broker says")),
        (CLIENT, request(3, 0, 1, struct.pack(">i", 0))),
        (SERVER, response(3, 0, 1, struct.pack(">ii", 0, 0))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(e.api, e.kind) for e in sink.exchanges] == [("SaslToken", "call"), ("Metadata", "call")]
    assert not sink.findings
    first = frame(KERBEROS)
    assert [PROTOCOL.recognise(first[:n], b"") for n in (5, 10, 16, 18, 19, len(first))] == [0.2] * 4 + [0.95] * 2
    assert PROTOCOL.recognise(frame(b"\x60\x82\2\3 of something else"), b"") == 0


def test_an_answer_with_id_0_is_for_the_oldest_find_coordinator_of_kafka_0_8() -> None:
    script = [
        (CLIENT, request(10, 0, 7, text("group"))),
        (SERVER, response(10, 0, 0, struct.pack(">hi", 15, -1) + text("") + struct.pack(">i", -1))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(e.api, e.kind, e.error_code) for e in sink.exchanges] == [("FindCoordinator", "call", 15)]


def test_sasl_bytes_are_not_in_the_decoded_body() -> None:
    script = [
        (CLIENT, request(36, 1, 4, struct.pack(">i", 20) + b"\0alice\0correct-horse")),
        (SERVER, response(36, 1, 4, struct.pack(">hhiq", 0, -1, 0, 1))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    (row,) = sink.exchanges
    assert json.loads(row.request or "") == {"principal": "alice", "authBytes": "<redacted>"}


def test_a_name_is_taken_from_scram_and_never_from_a_token() -> None:
    def shown(raw: bytes) -> dict[str, str]:
        body = struct.pack(">i", len(raw)) + raw
        found = full("SaslAuthenticateRequest", 0, body, 0, len(body)).body
        assert found.pop("authBytes") == "<redacted>"
        return found

    assert shown(b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL") == {"principal": "alice"}
    assert shown(b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=") == {}
    assert shown(b"n,,\1auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.\1\1") == {}


def test_a_fetch_that_names_nothing_still_names_what_its_session_holds() -> None:
    script = [
        (CLIENT, fetch(1, [("a", [0, 1]), ("b", [0])], (0, 0))),
        (SERVER, fetched(1, {("a", 0): TWO}, session=77)),
        (CLIENT, fetch(2, [], (77, 1))),
        (SERVER, fetched(2, {}, session=77)),
        (CLIENT, fetch(3, [("c", [5])], (77, 2), forgotten=[("a", [0, 1])])),
        (SERVER, fetched(3, {}, session=77)),
        (CLIENT, fetch(4, [], (99, 4))),
        (SERVER, fetched(4, {}, code=70)),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(e.topics, e.partitions) for e in sink.exchanges] == [
        (["a", "b"], 3),
        (["a", "b"], 3),
        (["b", "c"], 2),
        ([], 0),
    ]
    (unit,) = sink.batches
    assert (unit.role, unit.topic, unit.partition, unit.outcome) == ("consume", "a", 0, "ok")


def test_a_fetch_that_was_cut_has_the_topics_that_its_answer_names() -> None:
    script = [
        (CLIENT, fetch(1, [("a", [0]), ("b", [0])], (0, 0))),
        (SERVER, fetched(1, {("b", 0): TWO}, session=77)),
        (CLIENT, fetch(2, [], (77, 1))),
        (SERVER, fetched(2, {}, session=77)),
    ]
    for kept, topics in ((50, ["b"]), (len(script[0][1]) - 40, ["a", "b"])):
        sink, _ = feed(PROTOCOL, script, keep=lambda step, size, k=kept: k if step == 0 else size)  # type: ignore[misc]
        assert [row.topics for row in sink.exchanges] == [topics, topics]


def test_a_follower_replicates() -> None:
    script = [(CLIENT, fetch(1, [("a", [0])], replica=2)), (SERVER, fetched(1, {("a", 0): ONE}))]
    assert [b.role for b in feed_every_way(PROTOCOL, script).batches] == ["replicate"]


HEARTBEAT = text("group") + struct.pack(">i", 1) + text("me")


def idle(milliseconds: int) -> list[tuple[int, bytes]]:
    """Requests without an answer: each step of a script is a millisecond."""
    return [(CLIENT, produce(900 + i, {("a", 0): ONE}, acks=0)) for i in range(milliseconds)]


def test_a_fetch_that_the_broker_held_is_a_long_poll_and_others_are_not() -> None:
    script = [
        (CLIENT, fetch(1, [("a", [0])], wait=500)),
        *idle(10),
        (SERVER, fetched(1, {})),
        (CLIENT, fetch(2, [("a", [0])], wait=500)),
        (SERVER, fetched(2, {("a", 0): ONE})),
        (CLIENT, fetch(3, [("a", [0])], wait=0)),
        *idle(10),
        (SERVER, fetched(3, {})),
    ]
    calls = [e for e in feed_every_way(PROTOCOL, script).exchanges if e.kind == "call"]
    assert [e.long_poll for e in calls] == [True, False, False]


@pytest.mark.parametrize(("readable", "held"), [(100, False), (1, True)], ids=["far behind", "at the end"])
def test_a_fetch_that_found_far_more_than_it_got_was_not_held(readable: int, held: bool) -> None:
    answer = fetched(1, {("a", 0): b"", ("a", 1): ONE}, stable=readable)
    script = [(CLIENT, fetch(1, [("a", [0, 1])], wait=500)), *idle(10), (SERVER, answer)]
    calls = [e for e in feed_every_way(PROTOCOL, script).exchanges if e.kind == "call"]
    assert [e.long_poll for e in calls] == [held]


def test_requests_that_wait_behind_a_held_fetch_are_queued() -> None:
    script: list[tuple[int, bytes]] = []
    for n in range(1, 12, 2):
        script += [(CLIENT, fetch(n, [("a", [0])], wait=500)), (CLIENT, request(12, 0, n + 1, HEARTBEAT))]
        script += [*idle(20), (SERVER, fetched(n, {})), (SERVER, response(12, 0, n + 1, b"\0\0"))]
    sink = feed_every_way(PROTOCOL, script)
    calls = [e for e in sink.exchanges if e.kind == "call"]
    assert [e.queued_ns for e in calls[:2]] == [0, 21_000_000]
    assert all((e.wait_ns or 0) - (e.queued_ns or 0) == 1_000_000 for e in calls if e.api == "Heartbeat")
    assert [e.group for e in calls[:2]] == [None, "group"]


def test_a_topic_id_gets_the_name_in_metadata() -> None:
    id_ = bytes(range(16))
    partition = struct.pack(">hi", 0, 0) + struct.pack(">ii", 1, 5) + b"\1\1\1\0"
    topic = struct.pack(">h", 0) + b"\7orders" + id_ + b"\0" + b"\2" + partition + struct.pack(">i", 0) + b"\0"
    metadata = struct.pack(">i", 0) + b"\1" + b"\0" + struct.pack(">i", 1) + b"\2" + topic + b"\0"
    body = b"\0" + struct.pack(">hi", 1, 1000) + b"\2" + id_ + b"\2" + struct.pack(">i", 4) + b"\0" + b"\0\0\0"
    script = [
        (CLIENT, request(0, 13, 1, body)),
        (SERVER, response(0, 13, 1, b"\1" + struct.pack(">i", 0) + b"\0")),
        (CLIENT, request(3, 12, 2, b"\0\0\0\0")),
        (SERVER, response(3, 12, 2, metadata)),
        (CLIENT, request(0, 13, 3, body)),
        (SERVER, response(0, 13, 3, b"\1" + struct.pack(">i", 0) + b"\0")),
    ]
    sink = feed_every_way(PROTOCOL, script)
    text_id = "AAECAwQFBgcICQoLDA0ODw"
    assert [e.topics for e in sink.exchanges] == [[f"\0kafka/{text_id}\0id:{text_id}\0"], ["orders"], ["orders"]]
    assert [(n.key, n.name) for n in sink.names] == [(f"kafka/{text_id}", "orders")]


def test_a_hole_in_the_records_leaves_what_the_headers_say() -> None:
    whole = produce(1, {("a", 0): batch([record(i, None, bytes(100)) for i in range(9)])})
    cut = 200
    script = [
        (CLIENT, whole[:cut]),
        (CLIENT, 300),
        (CLIENT, whole[cut + 300 :]),
        (SERVER, produced(1, [("a", 0, 0, 50)])),
    ]
    sink, _ = feed(PROTOCOL, script)
    (row,) = sink.exchanges
    assert (row.kind, row.complete, row.topics, row.records) == ("call", False, ["a"], 9)
    (unit,) = sink.batches
    assert (unit.verdict, unit.records, unit.base_offset, unit.outcome) == ("unverifiable", 9, 50, "ok")
    assert "checksum_mismatch" not in {f.kind for f in sink.findings}


def test_frames_after_a_lost_one_are_found_again_in_both_directions() -> None:
    calls = [(produce(i, {("a", 0): TWO}), produced(i, [("a", 0, 0, i)])) for i in range(1, 6)]
    script: list[tuple[int, bytes | int]] = []
    for i, (sent, answered) in enumerate(calls):
        script.append((CLIENT, len(sent)) if i == 1 else (CLIENT, sent))
        script.append((SERVER, len(answered)) if i == 3 else (SERVER, answered))
    sink = feed_every_way(PROTOCOL, script)
    kinds = {e.correlation_id: e.kind for e in sink.exchanges}
    assert {i: kinds[i] for i in (1, 3, 4, 5)} == {1: "call", 3: "call", 4: "unanswered", 5: "call"}


def test_a_capture_that_begins_within_a_frame_is_entered_at_the_next() -> None:
    sent = [produce(i, {("a", 0): TWO}) for i in (1, 2, 3)]
    answered = [produced(i, [("a", 0, 0, i)]) for i in (1, 2, 3)]
    script = [
        (CLIENT, sent[0][31:]),
        (SERVER, answered[0]),
        (CLIENT, sent[1]),
        (SERVER, answered[1]),
        (CLIENT, sent[2]),
        (SERVER, answered[2]),
    ]
    sink = feed_every_way(PROTOCOL, script, midstream=True)
    assert [e.correlation_id for e in sink.exchanges if e.kind == "call"] == [2, 3]


def test_an_answer_whose_request_is_lost_is_reported_by_what_it_can_only_be() -> None:
    metadata = response(3, 9, 5, any_body("MetadataResponse", 9, 3))
    script = [
        (CLIENT, request(18, 0, 4, b"")),
        (SERVER, response(18, 0, 4, struct.pack(">hi", 0, 0))),
        (CLIENT, 60),
        (SERVER, produced(5, [("orders", 1, 0, 77)])),
        (CLIENT, request(18, 0, 6, b"")),
        (SERVER, response(18, 0, 6, struct.pack(">hi", 0, 0))),
    ]
    assert metadata
    sink = feed_every_way(PROTOCOL, script)
    (orphan,) = [e for e in sink.exchanges if e.kind == "orphan"]
    assert (orphan.api, orphan.correlation_id, orphan.topics) == ("Produce", 5, ["orders"])
    assert orphan.request_bytes is None
    assert orphan.wait_ns is None


def test_answers_to_requests_from_before_the_capture_are_reported() -> None:
    beat = response(12, 0, 8, struct.pack(">h", 0))
    script = [(SERVER, beat), (CLIENT, produce(9, {("a", 0): TWO})), (SERVER, produced(9, [("a", 0, 0, 1)]))]
    sink = feed_every_way(PROTOCOL, script, midstream=True)
    assert [(e.kind, e.api, e.correlation_id) for e in sink.exchanges] == [("call", "Produce", 9), ("orphan", None, 8)]


def test_only_the_answers_of_a_connection_are_reported_as_orphans() -> None:
    script = [(SERVER, produced(i, [("orders", 1, 0, 77)])) for i in (1, 2, 3)]
    sink = feed_every_way(PROTOCOL, script)
    assert [(e.kind, e.correlation_id) for e in sink.exchanges] == [("orphan", 1), ("orphan", 2), ("orphan", 3)]


def test_only_the_requests_of_a_connection_are_reported_as_unanswered() -> None:
    script = [(CLIENT, produce(i, {("a", 0): ONE})) for i in (1, 2, 3)]
    assert {e.kind for e in feed_every_way(PROTOCOL, script).exchanges} == {"unanswered"}


def test_a_body_that_is_too_short_is_a_finding_and_still_an_exchange() -> None:
    script = [(CLIENT, request(3, 0, 1, struct.pack(">i", 5))), (SERVER, response(3, 0, 1, struct.pack(">i", 1 << 30)))]
    for bodies in (False, True):
        sink = feed_every_way(PROTOCOL, script, options=Options(tables=tuple(TABLES), full=bodies))
        assert [(e.kind, e.status) for e in sink.exchanges] == [("call", "unknown")]
        assert [f.kind for f in sink.findings] == ["malformed_frame", "malformed_frame"]


def test_bytes_after_a_body_are_ignored_as_brokers_do() -> None:
    script = [
        (CLIENT, request(3, 0, 1, struct.pack(">i", 0) + b"extra")),
        (SERVER, response(3, 0, 1, struct.pack(">ii", 0, 0))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [f.kind for f in sink.findings] == ["trailing_bytes"]
    assert json.loads(sink.exchanges[0].request or "") == {"topics": []}


def test_no_table_that_nobody_wants_is_filled() -> None:
    script = [(CLIENT, produce(1, {("a", 0): TWO})), (SERVER, produced(1, [("a", 0, 3, -1)]))]
    sink = feed_every_way(PROTOCOL, script, options=Options(tables=("exchanges",)))
    assert not any((sink.batches, sink.errors, sink.findings, sink.messages))
    assert sink.exchanges[0].records == 2


@pytest.mark.parametrize("junk", [b"\0", b"\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n" * 5, bytes(300), b"\xff" * 300])
def test_junk_is_counted_and_never_raises(junk: bytes) -> None:
    good = produce(1, {("a", 0): ONE})
    sink = feed_every_way(PROTOCOL, [(CLIENT, good), (CLIENT, junk), (SERVER, junk), (CLIENT, good)])
    assert sink.exchanges[0].correlation_id == 1


def test_a_text_of_which_the_end_is_missing_is_none() -> None:
    commit = text("group") + struct.pack(">i", 1) + text("me") + struct.pack(">q", -1) + struct.pack(">i", 0)
    create = struct.pack(">i", 1) + text("t") + struct.pack(">ihii", 1, 1, 0, 0) + struct.pack(">i", 1) + b"\0"
    refusal = struct.pack(">ii", 0, 1) + text("t") + struct.pack(">h", 36) + text("it exists")
    script = [
        (CLIENT, request(8, 2, 1, commit)),
        (CLIENT, request(19, 2, 2, create)),
        (SERVER, response(19, 2, 2, refusal)),
    ]
    for kept in range(60):
        sink, _ = feed(PROTOCOL, script, keep=lambda step, size, kept=kept: min(size, kept))  # type: ignore[misc]
        assert {e.client_id for e in sink.exchanges} <= {"tester", None}
        assert {e.group for e in sink.exchanges} <= {"group", None}
        assert {e.message for e in sink.errors} <= {"it exists", None}


def test_a_fetch_that_is_answered_later_than_it_allowed_is_no_long_poll() -> None:
    script = [(CLIENT, fetch(1, [("t", [0])], wait=100)), *[(CLIENT, b"")] * 400, (SERVER, fetched(1, {}))]
    sink, _ = feed(PROTOCOL, script)  # a step takes 1 ms
    assert [(e.long_poll, e.wait_ns) for e in sink.exchanges] == [(False, 401_000_000)]
    assert [e.allowed_ns for e in sink.exchanges] == [100_000_000]
    in_time = [(CLIENT, fetch(1, [("t", [0])], wait=100)), *[(CLIENT, b"")] * 110, (SERVER, fetched(1, {}))]
    sink, _ = feed(PROTOCOL, in_time)
    assert [e.long_poll for e in sink.exchanges] == [True]
    assert not sink.findings
