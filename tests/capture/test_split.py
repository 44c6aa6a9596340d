"""Parts of files and Arrow segments hold what the whole file holds."""

import gzip
import random
from pathlib import Path

import pytest

from dissectors.capture import plan, read_split
from dissectors.capture.arrow import to_arrow
from dissectors.capture.block import concat
from dissectors.capture.reader import Part, Reader
from dissectors.capture.split import parts, splits
from dissectors.limits import Limits
from tests.pipelines.cutting import fragmented, read, write
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


@pytest.mark.parametrize("split_bytes", [100, 1000, 1 << 20])
@pytest.mark.parametrize("had", [0, 1, 77, 200])
@pytest.mark.parametrize("form", ["pcap", "gzip"])
def test_what_has_not_been_read_of_a_file_is_read_as_it_is_in_the_whole(
    tmp_path: Path, split_bytes: int, had: int, form: str
) -> None:
    path = tmp_path / "t.pcap"
    (whole,) = blocks(path, pcap(PACKETS))
    path.write_bytes(pcap(PACKETS[:had]))
    reader = Reader(str(path), 0, Limits())
    clock = max((int(block.clock[-1]) for block in reader.blocks()), default=0)
    assert reader.packets == had
    assert reader.end == path.stat().st_size, "there the next packet will lie"
    path.write_bytes(gzip.compress(pcap(PACKETS)) if form == "gzip" else pcap(PACKETS))
    offset = reader.end if form == "pcap" else None
    rest = Part(offset, path.stat().st_size - (offset or 0), had + 1, clock)
    found = [
        block
        for split in splits(str(path), "folder", parts(str(path), split_bytes, Limits(), since=rest), rest)
        for block in read_split(split, 0, Limits())[1]
    ]
    for name in ("number", "clock", "time", "size"):
        values = [value for block in found for value in getattr(block, name).tolist()]
        assert values == getattr(whole, name).tolist()[had:], name


def test_a_file_is_read_on_from_any_of_its_marks_with_packets_behind_a_time(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    limits = Limits(block_bytes=1000)
    (whole,) = blocks(path, pcap(PACKETS))
    reader = Reader(str(path), 0, limits)
    assert sum(map(len, reader.blocks())) == len(whole)
    assert len(reader.marks) > 3
    assert reader.marks[-1] == (200, path.stat().st_size, whole.clock[-1])
    for mark in reader.marks[:-1]:
        assert mark.packets is not None
        after = mark.clock + 3000
        rest = Part(mark.end, path.stat().st_size - (mark.end or 0), mark.packets + 1, mark.clock, after)
        for split_bytes in (500, 1 << 20):
            pieces = splits(str(path), "folder", parts(str(path), split_bytes, limits, since=rest), rest)
            found = [n for split in pieces for block in read_split(split, 0, limits)[1] for n in block.number.tolist()]
            assert found == whole.number[whole.clock > after].tolist()


def test_no_mark_lies_where_a_datagram_waits_for_its_fragments(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap([segment(CLIENT, SERVER, 100, 1, bytes(900), time=T0 + i * 1000) for i in range(20)]))
    head, packets = read(path)
    apart = fragmented(head, packets, 400, random.Random(1))
    write(path, head, apart)
    reader = Reader(str(path), 0, Limits(block_bytes=600))
    assert sum(map(len, reader.blocks())) == 20
    assert {mark.packets for mark in reader.marks} <= set(range(0, len(apart) + 1, len(apart) // 20))
    assert len(reader.marks) > 3
    write(path, head, apart[:-1])
    reader = Reader(str(path), 0, Limits())
    assert sum(map(len, reader.blocks())) == 19
    assert reader.marks == []


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
