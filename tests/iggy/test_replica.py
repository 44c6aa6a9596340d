"""Frames between replicas: reported by command, their checksums verified."""

import json
import struct

import pytest
import xxhash

from dissectors.iggy import PROTOCOL
from dissectors.rows.late_names import Names
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.iggy import wire as w
from tests.iggy.eras import PAYLOADS

CLUSTER = {32: ("Q", 0x2248_0000), 40: ("Q", 1)}


def prepare(body: bytes, *, operation: int = 160, view: int = 3, op: int = 9) -> bytes:
    """Sealed without its view, the body sealed by itself."""
    seal = xxhash.xxh3_64_intdigest(body)
    fields = {**CLUSTER, 16: ("Q", seal), 52: ("I", view), 176: ("Q", op), 208: ("B", operation)}
    frame = bytearray(w.vsr(6, fields, body))
    covered = bytes(16) + bytes(frame[16:52]) + bytes(4) + bytes(frame[56:256])
    struct.pack_into("<Q", frame, 0, xxhash.xxh3_64_intdigest(covered))
    return bytes(frame)


COMMIT = w.vsr(9, CLUSTER, seal=True)
PREPARE = prepare(w.batch(PAYLOADS, part=2, base=70))
PREPARE_OK = w.vsr(7, {**CLUSTER, 160: ("Q", 9)}, seal=True)


def test_replica_frames_are_reported_by_command() -> None:
    sink = feed_every_way(PROTOCOL, [(CLIENT, COMMIT), (CLIENT, PREPARE), (SERVER, PREPARE_OK)])
    assert [(e.kind, e.api, e.correlation_id) for e in sink.exchanges] == [
        ("oneway", "COMMIT", None),
        ("oneway", "PREPARE", 9),
        ("push", "PREPARE_OK", 9),
    ]
    assert not [f for f in sink.findings if f.severity != "info"]


def test_a_replicated_batch_is_verified_under_its_role() -> None:
    sink, _ = feed(PROTOCOL, [(CLIENT, PREPARE)])
    (row,) = sink.batches
    assert (row.role, row.partition, row.records, row.base_offset, row.verdict) == ("replicate", 2, 3, 70, "ok")


@pytest.mark.parametrize(
    ("frame", "at", "field"),
    [(COMMIT, 200, "checksum"), (PREPARE, 178, "checksum"), (PREPARE, 260, "checksum_body")],
)
def test_a_flipped_byte_between_replicas_is_a_bad_checksum(frame: bytes, at: int, field: str) -> None:
    broken = bytearray(frame)
    broken[at] ^= 1
    sink, _ = feed(PROTOCOL, [(CLIENT, bytes(broken))])
    fields = [json.loads(f.evidence or "").get("field") for f in sink.findings if f.kind == "checksum_mismatch"]
    assert field in fields


def test_the_view_of_a_prepare_may_change_without_breaking_its_seal() -> None:
    resent = bytearray(PREPARE)
    struct.pack_into("<I", resent, 52, 4)
    sink, _ = feed(PROTOCOL, [(CLIENT, bytes(resent))])
    assert not [f for f in sink.findings if f.kind == "checksum_mismatch"]


def test_a_password_on_its_way_to_a_replica_stays_out() -> None:
    frame = prepare(w.str8("ann") + w.str8("hunter2-secret") + b"\1\0", operation=141)
    sink, _ = feed(PROTOCOL, [(CLIENT, frame)])
    assert "hunter2-secret" not in repr(sink.exchanges) + repr(sink.findings)
    assert json.loads(sink.exchanges[0].request or "")["operation"] == "CREATE_USER"


@pytest.mark.parametrize("stored", [0, 1, None])
def test_the_request_checksum_of_0_9_is_the_bodys_where_it_is_not_zero(stored: int | None) -> None:
    body = w.str8("shop")
    good = xxhash.xxh3_64_intdigest(body)
    fields = {128: ("Q2", 5), 144: ("Q", good if stored is None else stored), 176: ("B", 128), 168: ("Q", 4)}
    login = [(CLIENT, w.vsr_request(1, w.register(), id=0)), (SERVER, w.vsr_reply(1, bytes(4) + w.registered(), id=0))]
    sink, _ = feed(PROTOCOL, [*login, (CLIENT, w.vsr(5, fields, body))])
    assert [f.kind for f in sink.findings if f.kind == "checksum_mismatch"] == (
        ["checksum_mismatch"] if stored == 1 else []
    )


@pytest.mark.parametrize(("command", "name"), [(30, "CONSUMER_SESSION_HEARTBEAT"), (36, "PREPARE_PROGRESS")])
def test_the_commands_that_0_10_added_are_known_and_found_after_a_hole(command: int, name: str) -> None:
    frame = w.vsr(command, CLUSTER, seal=True)
    sink, conversation = feed(PROTOCOL, [(CLIENT, frame[100:]), (CLIENT, frame), (CLIENT, frame)], midstream=True)
    assert [e.api for e in sink.exchanges] == [name, name]
    assert conversation.skipped_bytes == 156


def of_group(command: int, namespace: int, *, view: int, replica: int) -> bytes:
    """A frame by which the primary of a group of replicas is known."""
    at = {6: 216, 9: 168, 12: 144}[command]
    return w.vsr(command, {**CLUSTER, 52: ("I", view), 61: ("B", replica), at: ("Q", namespace)}, seal=True)


def leaders(*frames: bytes) -> list[tuple[str | None, int | None, str | None, int | None]]:
    sink, _ = feed(PROTOCOL, [(CLIENT, frame) for frame in frames])
    return [(p.topic, p.partition, p.leader, p.leader_epoch) for p in sink.positions if p.what == "leader"]


def test_who_sends_commits_is_the_primary_of_the_cluster_in_its_view() -> None:
    assert leaders(of_group(9, 1 << 63, view=4, replica=1)) == [(None, None, "1", 4)]


def test_the_primary_of_a_partition_is_known_by_the_numbers_of_its_stream_and_topic() -> None:
    ((topic, *rest),) = leaders(of_group(12, 7 << 32 | 3 << 20 | 5, view=1, replica=2))
    assert Names().text(topic or "", 0) == "7/3"
    assert rest == [5, "2", 1]


def test_a_prepare_and_a_group_that_cannot_be_name_no_primary() -> None:
    assert leaders(of_group(6, 1 << 63, view=4, replica=1), of_group(9, 1 << 50, view=4, replica=1)) == []
