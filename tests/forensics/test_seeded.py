"""Errors of every kind, put into real captures: found, never placed wrongly, and blamed on the right side of TCP."""

import random
from functools import cache
from pathlib import Path

import pytest

from tests.captures import captures
from tests.wires import Packet, pcap

from .scene import investigate_paths
from .seeds import CHANGES, Capture, apply, load, sealed

SAMPLES = Path(__file__).parents[2] / "samples"
CAPTURES = captures("")
EACH = 3  # errors of one kind in one capture


@cache
def capture(path: Path) -> Capture:
    return load(path)


def sources() -> list[Path]:
    names = ("kafka/rdk-codecs", "kafka/old-java0102-magic1", "kafka/cond-loss3pct", "pulsar/em_java_codecs")
    more = [CAPTURES / f"{name}.pcap" for name in (*names, "pulsar/java_schema")]
    return [SAMPLES / "kafka-codecs.pcap", SAMPLES / "kafka-loss.pcap", SAMPLES / "pulsar-subscriptions.pcap", *more]


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
@pytest.mark.parametrize("what", CHANGES)
def test_what_broke_is_found_and_never_placed_wrongly(tmp_path: Path, path: Path, what: str) -> None:
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    whole = capture(path)
    rng = random.Random(f"{path.stem} {what}")
    for unit in rng.choices([u for u in whole.units if len(u.data) > 60], k=EACH):
        first = unit.stored[1] + (unit.row["format"] in ("magic 0", "magic 1"))  # a broken magic hides the format
        data = unit.data[:first] + CHANGES[what](rng, unit.data[first:])
        if data == unit.data:
            continue
        repaired = rng.random() < 0.5
        packets, changed = apply(whole, unit, data, repaired=repaired)
        bad = tmp_path / "bad.pcap"
        bad.write_bytes(pcap(packets, nano=True))
        (case,) = investigate_paths([bad])
        located = {(spot.packet, spot.packet_offset) for spot in case.locations}
        if case.corrected is not None:
            assert case.corrected == unit.data, (
                case.diagnosis.pattern,
                case.diagnosis.note,
                case.diagnosis.chance,
                len(unit.data),
            )
            assert located <= changed
        if what in ("one bit", "8 bits"):
            assert (case.corrected, case.diagnosis.verified, case.diagnosis.candidates) == (unit.data, True, 1)
        if all(right(whole.packets[at - 1]) for at, _ in changed) and not unseen(apply(whole, unit, data)):
            assert case.attribution.where == ("before_tcp" if repaired else "after_tcp"), case.attribution


def right(packet: Packet) -> bool:
    """Whether its TCP checksum was computed; hosts leave that to their network cards."""
    return sealed(packet.data) == packet.data


def unseen(broken: tuple[list[Packet], set[tuple[int, int]]]) -> bool:
    """Whether the TCP checksums are the same with the error: a sum does not see its terms swapped."""
    packets, changed = broken
    return all(right(packets[at - 1]) for at, _ in changed)
