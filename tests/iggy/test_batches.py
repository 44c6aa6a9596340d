"""Checksums: a flipped byte makes exactly one bad batch, a missing one none."""

import json
import struct

import pytest

from dissectors.iggy import PROTOCOL, batches
from dissectors.iggy.verify import verify
from tests.feeding import CLIENT, SERVER, feed
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, PAYLOADS, Script, conversation

POLLED_AT = 5  # step of an era's script in which the server answers the poll
KIND = {"iggy-2023": "crc32", "iggy-0.4": "crc32", "iggy-0.5": "crc32"}


def flipped(script: Script, step: int, at: int, bit: int = 1) -> Script:
    direction, data = script[step]
    broken = bytearray(data)
    broken[at] ^= bit
    return [*script[:step], (direction, bytes(broken)), *script[step + 1 :]]


@pytest.mark.parametrize("era", ERAS)
def test_a_flipped_byte_of_a_payload_makes_one_bad_batch_and_the_finding_says_where(era: str) -> None:
    script = ERAS[era]
    at = script[POLLED_AT][1].index(b"second message") + 3
    sink, _ = feed(PROTOCOL, flipped(script, POLLED_AT, at))
    assert [b.verdict for b in sink.batches].count("bad") == 1
    (bad,) = [b for b in sink.batches if b.verdict == "bad"]
    assert bad.checksum_kind == KIND.get(era.split()[0], "xxh3-64")
    assert bad.checksum_stored != bad.checksum_computed
    (finding,) = [f for f in sink.findings if f.kind == "checksum_mismatch"]
    evidence = json.loads(finding.evidence or "")
    assert evidence["message_index"] == 1
    assert evidence["wrong"] == 1
    assert (evidence["stored"], evidence["computed"]) == (bad.checksum_stored, bad.checksum_computed)
    before = sum(len(data) for direction, data in script[:POLLED_AT] if direction == SERVER)
    assert finding.stream_offset is not None
    assert finding.length is not None
    assert finding.stream_offset <= before + at < finding.stream_offset + finding.length
    assert not [f for f in sink.findings if f.kind == "malformed_frame"]


@pytest.mark.parametrize("era", ERAS)
def test_an_intact_poll_has_a_good_checksum_and_a_send_says_what_it_carries(era: str) -> None:
    sink, _ = feed(PROTOCOL, ERAS[era])
    sent, polled = sink.batches
    assert polled.verdict == "ok"
    assert sent.verdict == ("ok" if "vsr" in era else "absent")
    assert (polled.base_offset, polled.last_offset) == ((40, 42) if "vsr" in era else (0, 2))
    assert polled.position == str(polled.base_offset)


def test_a_batch_is_in_the_packet_of_its_own_first_byte() -> None:
    polled = w.vsr_reply(2, w.polled(w.batch(PAYLOADS, base=40) + w.batch(PAYLOADS, base=43), 6), id=9)
    second = polled.index(w.batch(PAYLOADS, base=43))
    poll = w.vsr_request(2, w.poll_06(), id=9, code=100)
    script = [*ERAS["iggy-vsr-0.9"], (CLIENT, poll), (SERVER, polled[:second]), (SERVER, polled[second:])]
    sink, _ = feed(PROTOCOL, script)
    packets = [(b.packet_ref or 0, b.time or 0) for b in sink.batches[-2:]]
    assert packets[1] == (packets[0][0] + 1, packets[0][1] + 1_000_000)
    assert [(m.packet_ref, m.time) for m in sink.messages[-6:]] == [packet for packet in packets for _ in PAYLOADS]

    broken = flipped(script, len(script) - 1, -1)
    sink, _ = feed(PROTOCOL, broken)
    (finding,) = [f for f in sink.findings if f.kind == "checksum_mismatch"]
    assert (finding.packet_ref, finding.time) == packets[1]


@pytest.mark.parametrize("era", ERAS)
def test_a_checksum_over_missing_bytes_is_never_bad(era: str) -> None:
    script = ERAS[era]
    data = script[POLLED_AT][1]
    at = data.index(b"second message")
    pieces: list[tuple[int, bytes | int]] = [(SERVER, data[:at]), (SERVER, 4), (SERVER, data[at + 4 :])]
    sink, _ = feed(PROTOCOL, [*script[:POLLED_AT], *pieces, *script[POLLED_AT + 1 :]])
    (polled,) = [b for b in sink.batches if b.role == "consume"]
    assert polled.verdict == "unverifiable"
    assert polled.records == 3
    assert not [f for f in sink.findings if f.kind in ("checksum_mismatch", "malformed_frame")]
    (call,) = [e for e in sink.exchanges if e.api == "POLL_MESSAGES"]
    assert (call.kind, call.complete) == ("call", False)


def test_a_batch_whose_own_checksum_is_wrong_is_bad_though_its_messages_are_not() -> None:
    script = ERAS["iggy-vsr-0.9"]
    at = script[3 - 1][1].index(b"first") - 48 - 256 + 24  # origin_timestamp in the sent batch's header
    sink, _ = feed(PROTOCOL, flipped(script, 2, at))
    assert [(b.role, b.verdict) for b in sink.batches] == [("produce", "bad"), ("consume", "ok")]
    (finding,) = [f for f in sink.findings if f.kind == "checksum_mismatch"]
    assert json.loads(finding.evidence or "")["message_index"] is None


def test_an_index_section_that_does_not_fit_its_messages_is_reported() -> None:
    script = ERAS["iggy-0.7"]
    data = script[2][1]
    index = data.index(struct.pack("<IIQ", 0, 64 + len(PAYLOADS[0]), 0)) + 4
    sink, _ = feed(PROTOCOL, flipped(script, 2, index))
    (finding,) = [f for f in sink.findings if f.kind == "batch_mismatch"]
    assert "index entry 0" in (finding.message or "")
    assert sink.exchanges[1].records == 3


@pytest.mark.parametrize("size", [56, 64])
@pytest.mark.parametrize("kind", ["crc32", "xxh3"])
def test_messages_are_read_byte_by_byte_as_they_were_written(size: int, kind: str) -> None:
    headers = w.header_plain("k", 2, b"v") if size == 56 else w.header_typed("k", 2, b"v")
    run = b"".join(
        w.message_b(p, size=size, kind=kind, offset=i, time=w.T0 + i, headers=headers) for i, p in enumerate(PAYLOADS)
    )
    name = "poll_64" if size == 64 else f"poll_56_{kind}"
    read = batches.read(name, run, 0, len(run), len(run), 3)
    assert [run[m.payload : m.payload + m.payload_length] for m in read.messages] == PAYLOADS
    assert [m.offset for m in read.messages] == [0, 1, 2]
    assert [batches.headers_of(read, m, run) for m in read.messages] == [
        [{"key": "k", "kind": "string", "value": "v"}]
    ] * 3
    if size == 56 or kind == "xxh3":
        assert verify(read, read.units[0], run, len(run)).verdict == "ok"


KINDS = {
    1: (b"\1\2\xfe", "AQL+"),
    2: ("é".encode(), "é"),
    3: (b"\1", True),
    4: (struct.pack("<b", -8), -8),
    5: (struct.pack("<h", -1600), -1600),
    6: (struct.pack("<i", -320_000), -320_000),
    7: (struct.pack("<q", -64_000_000_000), -64_000_000_000),
    8: ((-128_000_000_000).to_bytes(16, "little", signed=True), "-128000000000"),
    9: (b"\xc8", 200),
    10: (struct.pack("<H", 60_000), 60_000),
    11: (struct.pack("<I", 4_000_000_000), 4_000_000_000),
    12: (struct.pack("<Q", 9_000_000_000_000_000_000), 9_000_000_000_000_000_000),
    13: ((77).to_bytes(16, "little"), "77"),
    14: (struct.pack("<f", 3.5), 3.5),
    15: (struct.pack("<d", -2.25), -2.25),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("era", ["iggy-0.4", "iggy-0.6", "iggy-0.7", "iggy-vsr-0.9"])
def test_user_headers_of_every_kind_are_read(era: str, kind: int) -> None:
    raw, value = KINDS[kind]
    header = w.header_plain("key", kind, raw) if era in ("iggy-0.4", "iggy-0.6") else w.header_typed("key", kind, raw)
    send = {
        "iggy-0.4": lambda: w.STREAM + w.TOPIC + w.partition(1) + w.send_a([b"x"], header),
        "iggy-0.6": lambda: w.send_b([b"x"], size=56, headers=header),
        "iggy-0.7": lambda: w.send_b([b"x"], size=64, headers=header),
    }
    if era in send:
        ask, reply = w.request(101, send[era]()), w.OK
    else:
        head = w.STREAM + w.TOPIC + w.BALANCED + struct.pack("<I", 1)
        body = struct.pack("<I", len(head)) + head + w.batch([b"x"], headers=header)
        ask, reply = w.vsr_request(160, body, id=9), w.vsr_reply(160, id=9)
    sink, _ = feed(PROTOCOL, [*ERAS[era], *conversation((ask, reply))])
    (entry,) = json.loads(sink.messages[-1].headers or "")
    assert (entry["key"], entry["value"]) == ("key", value)
    assert (sink.messages[-1].header_count, sink.messages[-1].header_bytes) == (1, len(header))
