"""What the checksums inside compressed data add to a verdict."""

import gzip
from pathlib import Path

import pytest

from dissectors.forensics import Case, Investigation, report
from dissectors.options import Options
from tests.kafka import wire
from tests.wires import pcap

from .scene import Scene, broken, find, investigate

LIST = [wire.record(i, None, b"The value of message %d, told at some length" % i) for i in range(9)]
RECORDS = b"".join(LIST)
GZIP = 1
BODY = 61  # where the compressed records begin in a batch


def produced(records: bytes) -> tuple[Scene, bytes]:
    """A produce request, unanswered, with these compressed records."""
    batch = wire.batch(LIST, codec=GZIP, stored=records)
    return Scene().say(0, wire.produce(1, {("orders", 3): batch})), batch


def with_change(folder: Path, at: int) -> Case:
    scene, batch = produced(gzip.compress(RECORDS))
    index, offset = find(scene.packets, batch)
    scene.packets[index] = broken(scene.packets[index], {offset + at: 0x10}, repaired=True)
    (case,) = investigate(folder, scene.packets)
    return case


def test_a_flip_in_the_header_leaves_what_is_inside_right(tmp_path: Path) -> None:
    case = with_change(tmp_path, 30)
    assert [(one["checksum"], one["verdict"]) for one in report.as_json(case)["inner"]] == [
        ("gzip crc32", "ok"),
        ("gzip size", "ok"),
    ]
    assert any("compressed data are intact" in reason for reason in case.attribution.because)


def test_a_flip_in_the_codecs_own_checksum_is_seen_by_both(tmp_path: Path) -> None:
    size = len(gzip.compress(RECORDS))
    case = with_change(tmp_path, BODY + size - 8)
    inner = report.as_json(case)["inner"][0]
    assert (inner["checksum"], inner["verdict"]) == ("gzip crc32", "bad")
    assert any("wrong as well: gzip crc32" in reason for reason in case.attribution.because)


def test_the_packets_are_reported_with_their_own_sums(tmp_path: Path) -> None:
    (packet,) = report.as_json(with_change(tmp_path, 30))["packets"]
    assert (packet["ipv4"], packet["tcp"], packet["taken"]) == ("right", "right", True)


@pytest.mark.parametrize("back", [5, 30])
def test_what_broke_before_the_producers_checksum_does_not_decompress(tmp_path: Path, back: int) -> None:
    data = bytearray(gzip.compress(RECORDS))
    data[-back] ^= 4
    scene, _ = produced(bytes(data))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(scene.packets, nano=True))
    found = Investigation([str(path)], Options())
    found.run()
    assert not found.bad
    (line,) = found.oddities()
    assert line.startswith("decompress_failed")
    assert "broken before the producer computed that" in line
