"""Parts of files and Arrow segments hold what the whole file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissectors.capture import plan, read_split
from dissectors.capture.arrow import to_arrow
from dissectors.capture.block import concat
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


def test_the_last_part_reports_that_the_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "t.pcap").write_bytes(pcap(PACKETS)[:-3])
    problems = []
    for split in plan([str(tmp_path / "t.pcap")], split_bytes=1000):
        reader, found = read_split(split, 0, Limits())
        list(found)
        problems.append(reader.problem is not None)
    assert problems == [False] * (len(problems) - 1) + [True]


def test_a_row_holds_what_its_packet_holds(tmp_path: Path) -> None:
    packets = [*PACKETS, segment(CLIENT._replace(ip="2001:db8::1"), SERVER._replace(ip="2001:db8::2"), 1, 2, b"six")]
    (block,) = blocks(tmp_path / "t.pcap", pcap(packets))
    batch = to_arrow(block, ["t.pcap"], ["here"])
    for column, name in (("packet", "number"), ("time_ns", "time"), ("order_ns", "clock"), ("src_port", "sport"),
                         ("seq", "seq"), ("payload_bytes", "size"), ("checksum", "check")):  # fmt: skip
        assert batch.column(column).to_pylist() == getattr(block, name).tolist(), column
    starts, ends = block.at.tolist(), (block.at + block.have).tolist()
    payloads = [bytes(block.buffer[a:b]) for a, b in zip(starts, ends, strict=True)]
    assert batch.column("payload").to_pylist() == payloads
    assert set(batch.column("file").to_pylist()) == {"t.pcap"}
    assert set(batch.column("site").to_pylist()) == {"here"}
    assert set(batch.column("src_ip").to_pylist()) == {CLIENT.ip, "2001:db8::1"}
    assert len(set(batch.column("flow").to_pylist())) == 2
