"""The real captures in samples: what is wrong in them is found, what is not is left alone, and so are seeded errors."""

import random
from pathlib import Path
from typing import Any

import pytest

import dissectors
from dissectors.capture.reader import Reader
from dissectors.limits import Limits
from tests.wires import Packet, pcap

from .scene import broken, investigate_paths

SAMPLES = Path(__file__).parents[2] / "samples"
INTACT = ["kafka-codecs.pcap", "kafka-loss.pcap", "kafka-tls.pcapng", "pulsar-subscriptions.pcap", "iggy-messages.pcap"]


def read(path: Path) -> list[Packet]:
    return [
        Packet(time, raw.buffer[at : at + have], wire)
        for raw in Reader(str(path), 0, Limits()).raw_blocks()
        for time, at, have, wire in zip(raw.time.tolist(), raw.at.tolist(), raw.have.tolist(), raw.wire.tolist())
    ]


@pytest.mark.parametrize("name", INTACT)
def test_intact_captures_are_not_accused(name: str) -> None:
    assert investigate_paths([SAMPLES / name]) == []


def test_the_buffer_that_an_application_changed_is_found() -> None:
    """The client set a 'c' to 'b' after its library had computed the checksum; the broker answered ChecksumError."""
    (case,) = investigate_paths([SAMPLES / "pulsar-corrupted.pcap"])
    assert (case.diagnosis.pattern, case.diagnosis.verified) == ("single_bit", True)
    assert (case.locations[0].was, case.locations[0].should_be) == (ord("b"), ord("c"))
    assert (case.attribution.where, case.attribution.certainty) == ("before_tcp", "certain")
    assert [row["name"] for row in case.related] == ["ChecksumError"]
    assert any("ChecksumError" in reason for reason in case.attribution.because)


@pytest.mark.parametrize("name", ["kafka-codecs", "pulsar-subscriptions", "iggy-messages", "iggy-vsr"])
def test_bits_flipped_in_real_batches_are_located(tmp_path: Path, name: str) -> None:
    sample = SAMPLES / f"{name}.pcap"
    packets = read(sample)
    rows = dissectors.dissect([str(sample)], tables=["batches"])["batches"].to_pylist()
    rng = random.Random(name)
    verified = [row for row in rows if row["verdict"] == "ok"]
    for row in rng.sample(verified, min(4, len(verified))):
        index = row["packet"] - 1
        data = packets[index].data
        offset = len(data) - 1 - rng.randrange(8)  # a batch begins in this packet: its end is payload
        bit = rng.randrange(8)
        for repaired in (True, False):
            changed = list(packets)
            changed[index] = broken(packets[index], {offset: 1 << bit}, repaired=repaired)
            path = tmp_path / "bad.pcap"
            path.write_bytes(pcap(changed, nano=True))
            found = dissectors.dissect([str(path)], tables=["batches"])["batches"].to_pylist()
            if not any(r["verdict"] == "bad" for r in found):
                continue  # the byte lay outside of what a checksum covers
            (case,) = investigate_paths([path])
            assert (case.diagnosis.pattern, case.diagnosis.verified) == ("single_bit", True)
            (spot,) = case.locations
            assert (spot.packet, spot.packet_offset, spot.bit) == (index + 1, offset, bit)


def test_a_message_is_known_again_by_its_id_where_its_checksum_was_made_anew(tmp_path: Path) -> None:
    """Iggy's server stamps messages and computes their checksums: what a producer sent shows what a consumer missed."""
    sample = SAMPLES / "iggy-messages.pcap"
    packets = read(sample)
    rows = dissectors.dissect([str(sample)], tables=["messages"], payloads=True)["messages"].to_pylist()
    sent = {row["message_id"]: row["packet"] for row in rows if row["role"] == "produce"}
    own = [r for r in rows if len(set(_id(r))) > 3]  # an id that says more than a small number
    row = next(r for r in own if r["role"] == "consume" and r["value_bytes"] > 20 and _lies_in(packets, r))
    index = row["packet"] - 1
    begin = packets[index].data.find(row["value"], _id_at(packets[index], row)) + 3
    wrong = {begin + i: 0x55 for i in range(12)}
    for repaired, expected in ((True, "in the broker"), (False, "right when it was produced")):
        changed = list(packets)
        changed[index] = broken(packets[index], wrong, repaired=repaired)
        path = tmp_path / "bad.pcap"
        path.write_bytes(pcap(changed, nano=True))
        (case,) = investigate_paths([path])
        assert (case.diagnosis.pattern, case.diagnosis.verified) == ("overwritten", True)
        assert [(spot.packet, spot.packet_offset) for spot in case.locations] == [(index + 1, at) for at in wrong]
        (seen, *_) = [other for other in case.related if other["why"] == "same message id"]
        assert (seen["role"], seen["packet"], seen["verdict"]) == ("produce", sent[row["message_id"]], "ok")
        assert case.attribution.where == ("before_tcp" if repaired else "after_tcp")
        assert any(expected in reason for reason in case.attribution.because)


def _id(row: dict[str, Any]) -> bytes:
    return int(row["message_id"]).to_bytes(16, "little")


def _id_at(packet: Packet, row: dict[str, Any]) -> int:
    return packet.data.find(_id(row))


def _lies_in(packets: list[Packet], row: dict[str, Any]) -> bool:
    """Whether the packet in which a message's batch begins holds the whole message."""
    at = _id_at(packets[row["packet"] - 1], row)
    return at >= 0 and packets[row["packet"] - 1].data.find(row["value"], at) >= 0
