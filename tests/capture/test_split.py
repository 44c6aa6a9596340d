"""Parts of files and Arrow segments hold what the whole file holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dissectors.capture import plan, read_split
from dissectors.capture.arrow import from_arrow, to_arrow
from dissectors.capture.block import COLUMNS, concat
from dissectors.limits import Limits
from tests.wires import CLIENT, SERVER, T0, blocks, pcap, segment

PACKETS = [segment(CLIENT, SERVER, 100 + i, 1, b"x" * (i % 7), time=T0 + (i * 37 % 50) * 1000) for i in range(200)]


@pytest.mark.parametrize("split_bytes", [1, 100, 1000, 5000])
def test_parts_of_a_file_give_every_packet_once_with_its_number_and_clock(tmp_path: Path, split_bytes: int) -> None:
    (whole,) = blocks(tmp_path / "t.pcap", pcap(PACKETS))
    splits = plan([str(tmp_path / "t.pcap")], split_bytes=split_bytes)
    found = concat([b for split in splits for b in read_split(split, 0, Limits())[1]])
    assert len(splits) > 1
    assert found.number.tolist() == whole.number.tolist()
    assert found.clock.tolist() == whole.clock.tolist()
    assert found.time.tolist() == whole.time.tolist()


def test_the_last_part_tells_that_the_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "t.pcap").write_bytes(pcap(PACKETS)[:-3])
    problems = []
    for split in plan([str(tmp_path / "t.pcap")], split_bytes=1000):
        reader, found = read_split(split, 0, Limits())
        list(found)
        problems.append(reader.problem is not None)
    assert problems == [False] * (len(problems) - 1) + [True]


def test_a_block_survives_arrow(tmp_path: Path) -> None:
    packets = [*PACKETS, segment(CLIENT._replace(ip="2001:db8::1"), SERVER._replace(ip="2001:db8::2"), 1, 2, b"six")]
    (block,) = blocks(tmp_path / "t.pcap", pcap(packets))
    files: list[str] = ["another"]
    batch = to_arrow(block, ["t.pcap"], ["here"])
    again = from_arrow(batch, files)
    assert files == ["another", "t.pcap"]
    for name in COLUMNS:
        if name not in ("at", "file"):
            assert np.array_equal(getattr(again, name), getattr(block, name)), name
    cut = from_arrow(batch.slice(5, 20), files)
    assert [bytes(cut.buffer[a : a + n]) for a, n in zip(cut.at.tolist(), cut.have.tolist(), strict=True)] == [
        bytes(block.buffer[a : a + n]) for a, n in zip(block.at[5:25].tolist(), block.have[5:25].tolist(), strict=True)
    ]
    assert len(set(batch.column("flow").to_pylist())) == 2
