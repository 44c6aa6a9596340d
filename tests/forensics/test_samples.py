"""The real captures in samples: what is wrong in them is found, what is not is left alone, and so are seeded errors."""

from __future__ import annotations

import random
from pathlib import Path

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
    """The client set a 'c' to 'b' after its library had computed the checksum; the broker said ChecksumError."""
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
