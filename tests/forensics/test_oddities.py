"""Batches that contradict each other, though each checksum is right."""

from pathlib import Path

import pytest

from dissectors.forensics import Investigation
from dissectors.options import Options
from tests.kafka import wire
from tests.wires import pcap

from .scene import Scene


def lines(folder: Path, scene: Scene) -> list[str]:
    path = folder / "a.pcap"
    path.write_bytes(pcap(scene.packets))
    found = Investigation([str(path)], Options())
    found.run()
    assert not found.bad
    return list(found.oddities())


def sent(scene: Scene, number: int, value: bytes, offset: int, producer: tuple[int, int, int]) -> None:
    data = wire.batch([wire.record(0, None, value)], producer=producer)
    scene.say(0, wire.produce(number, {("t", 0): data})).say(1, wire.produced(number, [("t", 0, 0, offset)]))


def handed_out(scene: Scene, number: int, value: bytes, offset: int) -> None:
    data = wire.batch([wire.record(0, None, value)], base=offset)
    scene.say(0, wire.fetch(number, [("t", [0])])).say(1, wire.fetched(number, {("t", 0): data}))


@pytest.mark.parametrize(("second", "odd"), [(b"one", False), (b"two", True)])
def test_a_sequence_is_sent_with_one_content(tmp_path: Path, second: bytes, odd: bool) -> None:
    scene = Scene()
    sent(scene, 1, b"one", 10, (7, 0, 3))
    sent(scene, 2, second, 10, (7, 0, 3))
    kinds = [line.split(":")[0] for line in lines(tmp_path, scene)]
    assert kinds.count("sequence_conflict") == odd  # that it was sent twice is reported in any case


@pytest.mark.parametrize(("second", "odd"), [(b"one", False), (b"two", True)])
def test_a_position_holds_one_content(tmp_path: Path, second: bytes, odd: bool) -> None:
    scene = Scene()
    handed_out(scene, 1, b"one", 10)
    handed_out(scene, 2, second, 10)
    assert [line.split(":")[0] for line in lines(tmp_path, scene)] == ["rewritten_position"] * odd


@pytest.mark.parametrize(
    ("offsets", "producer", "odd"),
    [((10, 11, 12), (-1, -1, -1), 0), ((10, 9, 12), (-1, -1, -1), 1), ((10, 9, 12), (7, 0, 3), 0)],
)
def test_assigned_offsets_ascend(
    tmp_path: Path, offsets: tuple[int, ...], producer: tuple[int, int, int], odd: int
) -> None:
    scene = Scene()
    for number, offset in enumerate(offsets):
        sequence = (*producer[:2], producer[2] + number) if producer[0] >= 0 else producer
        sent(scene, number, b"value", offset, sequence)
    assert [line.split(":")[0] for line in lines(tmp_path, scene)] == ["offset_steps_back"] * odd
