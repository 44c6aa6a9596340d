"""Requests that are shorter or longer than they announce: said as that, and nothing is invented from what follows."""

import json
import struct
from typing import Any

import pytest

from dissectors.kafka import PROTOCOL
from dissectors.kafka.loss.resync import produces
from dissectors.options import Options
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.kafka.wire import any_body, batch, fetch, produce, produced, record, request

SMALL = batch([record(0, b"k", b"v" * 20)])
LARGE = batch([record(0, b"k", b"n" * 400)])
METADATA = request(3, 9, 2, any_body("MetadataRequest", 9, 2))


def opening() -> list[tuple[int, bytes]]:
    return [(CLIENT, produce(1, {("hot", 0): SMALL})), (SERVER, produced(1, [("hot", 0, 0, 7)]))]


def announcing(raw: bytes, more: int) -> bytes:
    """A request whose size field says `more` bytes than it has, or fewer."""
    return struct.pack(">i", len(raw) - 4 + more) + raw[4:]


def lost(sink: Sink) -> list[tuple[Any, ...]]:
    """What is told of lost framing: of which request, announced and real size."""
    told = [json.loads(found.evidence) for found in sink.findings if found.kind == "wrong_length"]
    return [(each["api"], each["correlation_id"], each["announced"], each["actual"]) for each in told]


def kinds(sink: Sink) -> set[str]:
    return {f.kind for f in sink.findings}


def requests(sink: Sink) -> list[tuple[str, int]]:
    return sorted((row.api, row.correlation_id) for row in sink.exchanges)


@pytest.mark.parametrize("missing", [1, 3, 4, 8, 12, 13, 14, 15, 19, 37, 130, 300])
def test_a_produce_whose_end_is_missing_leaves_the_next_request_whole(missing: int) -> None:
    whole = produce(2, {("hot", 0): LARGE})
    script = [*opening(), (CLIENT, whole[:-missing]), (CLIENT, produce(3, {("hot", 0): LARGE}))]
    sink = feed_every_way(PROTOCOL, [*script, (CLIENT, produce(4, {("hot", 0): LARGE}))])
    assert lost(sink) == [("Produce", 2, len(whole), len(whole) - missing)]
    assert kinds(sink) == {"wrong_length"}
    assert requests(sink) == [("Produce", 1), ("Produce", 2), ("Produce", 3), ("Produce", 4)]
    assert sorted(row.verdict for row in sink.batches) == ["ok", "ok", "ok", "unverifiable"]
    assert [row.correlation_id for row in sink.exchanges if not row.complete] == [2]


@pytest.mark.parametrize("missing", [1, 4, 10, 14, 25, 60])
@pytest.mark.parametrize("acks", [0, 1])
def test_the_last_request_before_the_end_may_be_the_one_that_follows(missing: int, acks: int) -> None:
    whole = produce(2, {("hot", 0): LARGE}, acks=acks)
    sink = feed_every_way(PROTOCOL, [*opening(), (CLIENT, whole[:-missing]), (CLIENT, METADATA)])
    assert requests(sink) == [("Metadata", 2), ("Produce", 1), ("Produce", 2)]
    assert kinds(sink) == {"wrong_length"}


@pytest.mark.parametrize("more", [4, 12, 37])
@pytest.mark.parametrize("name", ["fetch", "metadata", "api versions"])
def test_any_request_may_announce_more_than_it_has(name: str, more: int) -> None:
    raw = {
        "fetch": fetch(2, [("hot", [0])]),
        "metadata": request(3, 9, 2, any_body("MetadataRequest", 9, 2)),
        "api versions": request(18, 3, 2, any_body("ApiVersionsRequest", 3, 1)),
    }[name]
    script = [*opening(), (CLIENT, announcing(raw, more) + produce(3, {("hot", 0): LARGE}))]
    sink = feed_every_way(PROTOCOL, script)
    assert [size for *_, size in lost(sink)] == [len(raw)]
    assert kinds(sink) == {"wrong_length"}
    assert ("Produce", 3) in requests(sink)


@pytest.mark.parametrize("more", [1, 5, 20, 64])
def test_any_request_may_have_more_than_it_announces(more: int) -> None:
    for raw in (fetch(2, [("hot", [0])]), produce(2, {("hot", 0): LARGE})):
        behind = b"\xee" * more
        script = [*opening(), (CLIENT, raw + behind + produce(3, {("hot", 0): SMALL}))]
        sink = feed_every_way(PROTOCOL, script)
        assert [(announced, size) for _, _, announced, size in lost(sink)] == [(len(raw), len(raw) + more)]
        assert kinds(sink) == {"wrong_length"}
        assert requests(sink)[-1] == ("Produce", 3)


def test_a_request_that_announces_too_little_is_not_called_malformed() -> None:
    whole = produce(2, {("hot", 0): LARGE})
    script = [*opening(), (CLIENT, announcing(whole, -10)), (CLIENT, produce(3, {("hot", 0): SMALL}))]
    sink = feed_every_way(PROTOCOL, script)
    assert lost(sink) == [("Produce", 2, len(whole) - 10, len(whole))]
    assert kinds(sink) == {"wrong_length"}


def test_a_request_that_announces_far_more_than_ever_comes_has_not_swallowed_those_behind_it() -> None:
    whole = announcing(produce(2, {("hot", 0): LARGE}), 100_000)
    script = [
        *opening(),
        (CLIENT, whole),
        (CLIENT, produce(3, {("hot", 0): SMALL})),
        (CLIENT, fetch(4, [("hot", [0])])),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert lost(sink) == [("Produce", 2, len(whole) + 100_000, len(whole))]
    assert requests(sink) == [("Fetch", 4), ("Produce", 1), ("Produce", 2), ("Produce", 3)]


def test_a_wrong_checksum_in_a_request_of_the_right_length_is_told_whatever_follows() -> None:
    bad = bytearray(produce(2, {("hot", 0): LARGE}))
    bad[-3] ^= 1
    for more in (
        [],
        [(SERVER, produced(2, [("hot", 0, 2, -1)])), (CLIENT, produce(3, {("hot", 0): SMALL}))],
        [(CLIENT, 5)],
    ):
        for acks in (1, 0):
            sink = feed_every_way(PROTOCOL, [*opening(), (CLIENT, bytes(bad)), *more])
            assert "checksum_mismatch" in kinds(sink), (more, acks)
            assert "wrong_length" not in kinds(sink)
            assert "bad" in [row.verdict for row in sink.batches]


def test_what_is_no_request_is_told_where_none_follows_or_a_hole_comes_first() -> None:
    for more in ([], [(CLIENT, 50), (CLIENT, produce(3, {("hot", 0): SMALL}))]):
        sink = feed_every_way(PROTOCOL, [*opening(), (CLIENT, METADATA + b"\xee" * 300), *more])
        assert "malformed_frame" in kinds(sink)
        assert lost(sink) == []


def test_a_second_client_on_the_connection_is_none_that_lost_its_framing() -> None:
    other = [produce(70_000 + i, {("hot", 0): SMALL}, client="other") for i in range(3)]
    sink = feed_every_way(PROTOCOL, [*opening(), *((CLIENT, raw) for raw in other), (CLIENT, METADATA)])
    assert kinds(sink) == set()
    assert {row.client_id for row in sink.exchanges} == {"tester", "other"}


def test_the_tables_that_are_asked_for_do_not_change_which_requests_there_are() -> None:
    whole = produce(2, {("hot", 0): LARGE})
    script = [*opening(), (CLIENT, whole[:-37]), (CLIENT, produce(3, {("hot", 0): LARGE}))]
    everything, _ = feed(PROTOCOL, script)
    alone, _ = feed(PROTOCOL, script, options=Options(tables=("exchanges",)))
    told = ("api", "correlation_id", "request_bytes", "complete", "request_packet_ref", "total_ns", "records")
    assert [[getattr(row, name) for name in told] for row in alone.exchanges] == [
        [getattr(row, name) for name in told] for row in everything.exchanges
    ]


def test_a_produce_without_a_topic_is_no_sign_of_one() -> None:
    body = b"\xff\xff" + struct.pack(">hii", 1, 1000, 1)
    assert not produces(request(0, 3, 1, body + b"\xff\xff" + bytes(20)), 0)
    assert produces(request(0, 3, 1, body + b"\0\1t" + bytes(20)), 0)
