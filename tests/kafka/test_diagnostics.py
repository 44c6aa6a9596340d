"""Findings that show an operator what a client could do better."""

from __future__ import annotations

import gzip
import json
import os
import struct

import pytest

from dissectors.kafka import PROTOCOL
from dissectors.kafka.conversation import KafkaConversation
from dissectors.options import Options
from dissectors.rows.sink import Sink
from dissectors.tcp.chunk import Chunk
from tests.feeding import CLIENT, SERVER, conn, feed_every_way
from tests.kafka.wire import batch, fetch, fetched, message, produce, produced, record, request, response, text

ONE = [record(0, None, b"value")]
TWO = [record(0, None, b"a"), record(1, None, b"b")]


def advice(script: list[tuple[int, bytes]]) -> dict[str, dict[str, object]]:
    """Kind of each finding -> its evidence."""
    return {str(f.kind): json.loads(f.evidence or "{}") for f in feed_every_way(PROTOCOL, script).findings}


def sent(batches: list[bytes]) -> list[tuple[int, bytes]]:
    script = []
    for i, data in enumerate(batches):
        script += [(CLIENT, produce(i, {("t", 0): data})), (SERVER, produced(i, [("t", 0, 0, i)]))]
    return script


def test_a_good_producer_gets_no_advice() -> None:
    assert advice(sent([batch(TWO, producer=(5, 0, i)) for i in range(30)])) == {}


def test_versions_that_kafka_4_removed_are_reported_with_their_user() -> None:
    script = [(CLIENT, request(3, 0, 1, struct.pack(">i", 0))), (CLIENT, request(8, 1, 2, text("group") + bytes(2)))]
    found = advice(script)["removed_in_4_0"]
    assert (found["api"], found["version"], found["count"], found["client_id"]) == ("OffsetCommit", 1, 1, "tester")


def test_old_message_formats_are_reported() -> None:
    script = [(CLIENT, fetch(1, [("t", [0])])), (SERVER, fetched(1, {("t", 0): message(0, b"v") * 3}))]
    found = advice(script)["old_message_format"]
    assert (found["role"], found["magic"], found["count"], found["messages"]) == ("consume", 1, 1, 3)
    script = [(CLIENT, produce(i, {("t", 0): message(0, b"v") * 3, ("t", 1): message(0, b"v")})) for i in range(2)]
    found = advice(script)["old_message_format"]
    assert (found["role"], found["count"], found["messages"]) == ("produce", 2, 8)


def test_messages_of_an_old_format_that_are_sent_together_are_batched() -> None:
    together, alone = message(0, b"v") * 5, message(0, b"v")
    assert "unbatched" not in advice(sent([together] * 30))
    found = advice(sent([alone] * 30))["unbatched"]
    assert (found["single"], found["count"]) == (30, 30)


def fetching(times: int, offset: int, records: bytes) -> list[tuple[int, bytes]]:
    return [
        step
        for i in range(times)
        for step in (
            (CLIENT, fetch(100 * offset + i, [("t", [0])], offset=offset)),
            (SERVER, fetched(100 * offset + i, {("t", 0): records})),
        )
    ]


def test_the_beginnings_of_batches_at_the_end_of_answers_are_counted() -> None:
    found = advice(fetching(2, 0, batch(TWO) + batch(TWO)[:30]))
    assert (found["partial_batches"]["count"], found["partial_batches"]["bytes"]) == (2, 60)
    assert "stuck_consumer" not in found


@pytest.mark.parametrize("whole", [batch(TWO), message(7, b"v" * 100)])
def test_a_consumer_that_gets_only_the_beginning_of_a_batch_again_and_again_is_stuck(whole: bytes) -> None:
    found = advice(fetching(3, 7, whole[:50]))["stuck_consumer"]
    assert (found["topic"], found["partition"], found["position"], found["count"]) == ("t", 0, 7, 3)
    assert "stuck_consumer" not in advice(fetching(2, 7, whole[:50]))
    assert "stuck_consumer" not in advice([*fetching(3, 7, whole[:50]), *fetching(1, 7, whole)])
    assert "stuck_consumer" not in advice([*fetching(2, 7, whole[:50]), *fetching(2, 8, whole[:50])])
    assert "stuck_consumer" in advice([*fetching(3, 7, whole[:50]), *fetching(1, 2, whole)])


def test_a_version_that_the_broker_does_not_serve_is_told_where_it_has_no_answer() -> None:
    served = [(18, 0, 4), (3, 0, 12), *((key, 0, 5) for key in range(30, 40))]
    listed = struct.pack(">hi", 0, len(served)) + b"".join(struct.pack(">hhh", *each) for each in served)
    asked = [(CLIENT, request(18, 0, 1, b"")), (SERVER, response(18, 0, 1, listed))]
    metadata = (CLIENT, request(3, 13, 2, b"\0\0\0\0"))
    found = advice([*asked, metadata])["unserved_version"]
    assert (found["api"], found["version"]) == ("Metadata", 13)
    assert "unserved_version" not in advice([*asked, (CLIENT, request(3, 1, 2, bytes(4)))])
    assert "unserved_version" not in advice([metadata])


def test_a_producer_without_idempotence_or_batching_is_reported() -> None:
    found = advice(sent([batch(ONE) for _ in range(20)]))
    assert found["not_idempotent"]["count"] == 20
    assert (found["unbatched"]["single"], found["unbatched"]["count"]) == (20, 20)
    assert "unbatched" not in advice(sent([batch(ONE) for _ in range(19)]))


def test_who_waits_for_no_answer_writes_nothing_twice() -> None:
    script = [(CLIENT, produce(i, {("t", 0): batch(TWO)}, acks=0)) for i in range(3)]
    assert advice(script) == {}


def test_compression_that_saves_nothing_is_reported() -> None:
    noise = [record(0, None, os.urandom(200)), record(1, None, b"")]
    packed = batch(noise, codec=1, stored=gzip.compress(b"".join(noise)), producer=(5, 0, 0))
    useful = [record(0, None, bytes(2000)), record(1, None, b"")]
    good = batch(useful, codec=1, stored=gzip.compress(b"".join(useful)), producer=(5, 0, 0))
    assert "useless_compression" in advice(sent([packed] * 20))
    assert "useless_compression" not in advice(sent([good] * 20))


def test_a_batch_that_is_sent_again_is_reported() -> None:
    found = advice(
        sent([batch(TWO, producer=(5, 0, 0)), batch(TWO, producer=(5, 0, 0)), batch(TWO, producer=(5, 0, 2))])
    )
    assert found["duplicate_sequence"]["count"] == 1


def test_a_refused_batch_may_be_sent_again() -> None:
    one = batch(TWO, producer=(5, 0, 0))
    script = [(CLIENT, produce(1, {("t", 0): one})), (SERVER, produced(1, [("t", 0, 3, -1)]))]
    assert "duplicate_sequence" not in advice([*script, *sent([one])])


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,), (4,), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize(
    ("order", "again"),
    [
        ("send send refuse accept", 1),  # sent again before the answer
        ("send refuse send accept", 0),
        ("send refuse send send accept accept", 1),  # of these, the second has no reason
        ("send send refuse refuse send accept", 1),
    ],
)
def test_a_refusal_allows_what_is_sent_behind_it_however_a_capture_is_cut(
    order: str, again: int, cuts: tuple[int, ...]
) -> None:
    sink = Sink(("findings",))
    sink.files = ["x.pcap"]
    conversation = PROTOCOL.conversation(conn("kafka"), sink, Options(tables=("findings",)), midstream=False)
    assert isinstance(conversation, KafkaConversation)
    sent = answered = 0
    at = [0, 0]
    for n, what in enumerate(order.split(), 1):
        if what == "send":
            direction, data = CLIENT, produce(sent := sent + 1, {("t", 0): batch(TWO, producer=(5, 0, 0))})
        else:
            code = 6 if what == "refuse" else 0
            direction, data = SERVER, produced(answered := answered + 1, [("t", 0, code, -1 if code else 5)])
        conversation.receive(direction, Chunk.of(at[direction], data, [at[direction]], [n], [n], [n]))
        at[direction] += len(data)
        if n in cuts:
            conversation.advance()
    conversation.advance()
    conversation.close(9)
    found = {row["kind"]: json.loads(row["evidence"]) for _, rows in sink.drain() for row in rows.to_pylist()}
    assert found.get("duplicate_sequence", {"count": 0})["count"] == again


def join(correlation_id: int, generation: int) -> list[tuple[int, bytes]]:
    body = text("group") + struct.pack(">i", 1000) + text("me") + text("consumer") + struct.pack(">i", 0)
    answer = struct.pack(">hi", 0, generation) + text("range") + text("me") + text("me") + struct.pack(">i", 0)
    return [(CLIENT, request(11, 0, correlation_id, body)), (SERVER, response(11, 0, correlation_id, answer))]


def test_a_group_that_joins_again_and_again_is_reported() -> None:
    found = advice([step for i in range(9) for step in join(i, 10 + i)])["rebalance_storm"]
    assert (found["group"], found["most"], found["first_generation"], found["last_generation"]) == ("group", 9, 10, 18)
    assert advice([step for i in range(6) for step in join(i, 10 + i)]) == {}


def test_commits_for_every_message_are_reported() -> None:
    body = text("group") + struct.pack(">i", 1) + text("me") + struct.pack(">q", -1) + struct.pack(">i", 0)
    script = [(CLIENT, request(8, 2, i, body)) for i in range(25)]
    found = advice(script)["frequent_commits"]
    assert (found["group"], found["count"]) == ("group", 25)
