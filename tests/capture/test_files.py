"""Containers, compressions and damaged files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

import dissectors
from dissectors.capture import stores
from dissectors.capture.files import expand, site_of
from dissectors.capture.merge import merge
from dissectors.capture.raw import NO_TIME
from dissectors.capture.reader import Reader, is_capture
from dissectors.errors import InputError
from dissectors.limits import Limits
from tests.wires import CLIENT, SERVER, T0, Packet, blocks, payloads, pcap, segment

PACKETS = [segment(CLIENT, SERVER, 100 + 10 * i, 1, b"%010d" % i, time=T0 + 1000 * i) for i in range(50)]
WANT = [b"%010d" % i for i in range(50)]


def pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + pad(value)


class Pcapng:
    """Writes blocks."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.out = b""
        self.block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))

    def block(self, kind: int, body: bytes) -> Pcapng:
        size = len(pad(body)) + 12
        self.out += struct.pack(self.order + "II", kind, size) + pad(body) + struct.pack(self.order + "I", size)
        return self

    def interface(self, link: int = 1, options: bytes = b"", snaplen: int = 0) -> Pcapng:
        return self.block(1, struct.pack(self.order + "HHI", link, 0, snaplen) + options)

    def enhanced(self, packet: Packet, interface: int = 0, ns_per_tick: int = 1000) -> Pcapng:
        ticks = packet.time // ns_per_tick
        head = struct.pack(
            self.order + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), packet.wire
        )
        return self.block(6, head + packet.data)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_pcap_in_both_byte_orders_and_precisions(tmp_path: Path, order: str, nano: bool) -> None:
    found = blocks(tmp_path / "t.pcap", pcap(PACKETS, order=order, nano=nano))
    assert payloads(found) == WANT
    assert [t for b in found for t in b.time.tolist()] == [p.time for p in PACKETS]
    assert [n for b in found for n in b.number.tolist()] == list(range(1, 51))


@pytest.mark.parametrize("block_bytes", [30, 100, 1000, 1 << 20])
def test_blocks_of_any_size_hold_the_same_packets(tmp_path: Path, block_bytes: int) -> None:
    assert payloads(blocks(tmp_path / "t.pcap", pcap(PACKETS), block_bytes=block_bytes)) == WANT


COMPRESSED = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lz4": lz4.frame.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip in two members": lambda data: gzip.compress(data[:500]) + gzip.compress(data[500:]),
    "zstd in two frames": lambda data: b"".join(
        zstandard.ZstdCompressor().compress(part) for part in (data[:500], data[500:])
    ),
}


@pytest.mark.parametrize("how", COMPRESSED)
def test_compression_is_known_by_content_not_by_name(tmp_path: Path, how: str) -> None:
    assert payloads(blocks(tmp_path / "a-name-that-says-nothing", COMPRESSED[how](pcap(PACKETS)))) == WANT


@pytest.mark.parametrize("block_bytes", [100, 1000])
def test_a_plain_and_a_compressed_file_are_cut_into_the_same_blocks(tmp_path: Path, block_bytes: int) -> None:
    plain, packed = (
        [block.number.tolist() for block in blocks(tmp_path / name, data, block_bytes=block_bytes)]
        for name, data in (("plain", pcap(PACKETS)), ("packed", gzip.compress(pcap(PACKETS))))
    )
    assert plain == packed
    assert len(plain) > 1


@pytest.mark.parametrize("how", COMPRESSED)
def test_a_compressed_file_that_is_cut_off_says_so(tmp_path: Path, how: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(COMPRESSED[how](pcap(PACKETS))[:-3])
    try:
        reader = Reader(str(path), 0, Limits())
        list(reader.blocks())
        problem = reader.problem or ""
    except InputError as error:  # it ended before the first byte could be had
        problem = str(error)
    assert "EOFError" in problem
    assert is_capture(str(path))


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_in_both_byte_orders(tmp_path: Path, order: str) -> None:
    file = Pcapng(order).interface()
    for packet in PACKETS:
        file.enhanced(packet)
    found = blocks(tmp_path / "t.pcapng", file.out)
    assert payloads(found) == WANT
    assert found[0].time.tolist() == [p.time for p in PACKETS]


def test_pcapng_interfaces_have_clocks_and_link_types_of_their_own(tmp_path: Path) -> None:
    raw_ip = Packet(T0 + 7, PACKETS[1].data[14:], PACKETS[1].wire - 14)
    file = Pcapng()
    file.interface(1, option("<", 9, b"\x06")).interface(101, option("<", 9, b"\x09"))
    file.enhanced(PACKETS[0], 0).enhanced(raw_ip, 1, ns_per_tick=1)
    (block,) = blocks(tmp_path / "t.pcapng", file.out)
    assert payloads([block]) == WANT[:2]
    assert block.time.tolist() == [T0, T0 + 7]


def test_a_second_section_begins_with_interfaces_of_its_own(tmp_path: Path) -> None:
    first = Pcapng("<").interface().enhanced(PACKETS[0])
    second = Pcapng(">").interface(1, option(">", 9, b"\x09")).enhanced(PACKETS[1], ns_per_tick=1)
    (block,) = blocks(tmp_path / "t.pcapng", first.out + second.out)
    assert payloads([block]) == WANT[:2]
    assert block.time.tolist() == [T0, T0 + 1000]


def test_unknown_blocks_are_stepped_over_and_drops_and_secrets_are_kept(tmp_path: Path) -> None:
    file = Pcapng().interface().block(0x0BAD, b"whatever").enhanced(PACKETS[0])
    file.block(10, struct.pack("<II", 0x544C534B, 5) + b"SECRE")
    file.block(5, struct.pack("<III", 0, 0, 0) + option("<", 5, struct.pack("<Q", 42)))
    path = tmp_path / "t.pcapng"
    path.write_bytes(file.out)
    reader = Reader(str(path), 0, Limits())
    assert payloads(list(reader.blocks())) == WANT[:1]
    assert reader.notes.drops == 42
    assert reader.remarks() == [("capture_drops", f"{path}: the capturer says that it lost 42 packets")]
    assert reader.notes.secrets == [b"SECRE"]


def test_simple_and_obsolete_packet_blocks(tmp_path: Path) -> None:
    file = Pcapng().interface()
    packet = PACKETS[0]
    ticks = T0 // 1000
    old = struct.pack("<HHIIII", 0, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), packet.wire)
    file.block(2, old + packet.data).block(3, struct.pack("<I", PACKETS[1].wire) + PACKETS[1].data)
    (block,) = blocks(tmp_path / "t.pcapng", file.out)
    assert payloads([block]) == WANT[:2]
    assert block.time.tolist() == [T0, NO_TIME]  # a simple packet block has none


def test_packets_without_a_time_give_rows_without_times_and_durations(tmp_path: Path) -> None:
    file = Pcapng().interface()
    for packet in PACKETS:
        file.block(3, struct.pack("<I", packet.wire) + packet.data)
    path = tmp_path / "t.pcapng"
    path.write_bytes(file.out)
    rows = dissectors.dissect([path], tables=["connections", "findings"])
    for row in rows["connections"].to_pylist():
        assert (row["start_time"], row["end_time"], row["duration_ns"]) == (None, None, None)
    (told,) = (row["message"] for row in rows["findings"].to_pylist() if row["kind"] == "no_time")
    assert told == f"{path}: {len(PACKETS)} packets were written without a time"


ENHANCED = Pcapng().interface().enhanced(PACKETS[0]).enhanced(PACKETS[1]).out
JOINED = {
    "pcap": pcap(PACKETS[2:4]),
    "other byte order": pcap(PACKETS[2:4], order=">"),
    "other precision": pcap(PACKETS[2:4], nano=True),
    "pcapng": Pcapng().interface().enhanced(PACKETS[2]).enhanced(PACKETS[3]).out,
}


@pytest.mark.parametrize("first", [pcap(PACKETS[:2]), pcap(PACKETS[:2], order=">"), ENHANCED])
@pytest.mark.parametrize("second", JOINED)
@pytest.mark.parametrize("block_bytes", [None, 100])
def test_captures_that_were_joined_with_cat_are_read_on_and_it_is_reported(
    tmp_path: Path, first: bytes, second: str, block_bytes: int | None
) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(first + JOINED[second])
    reader = Reader(str(path), 0, Limits() if block_bytes is None else Limits(block_bytes=block_bytes))
    found = list(reader.blocks())
    assert payloads(found) == WANT[:4]
    assert [n for block in found for n in block.number.tolist()] == [1, 2, 3, 4]
    assert (reader.problem, reader.end) == (None, None)
    assert reader.remarks() == [("joined_files", f"{path}: 1 more capture in this file, from packet 3")]


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_file_cut_in_a_packet_keeps_the_packets_before(tmp_path: Path, kind: str, cut: int) -> None:
    data = pcap(PACKETS)
    if kind == "pcapng":
        file = Pcapng().interface()
        for packet in PACKETS:
            file.enhanced(packet)
        data = file.out
    path = tmp_path / "t"
    path.write_bytes(data[:-cut])
    reader = Reader(str(path), 0, Limits())
    assert payloads(list(reader.blocks())) == WANT[:-1]
    assert reader.problem is not None
    assert "cut off" in reader.problem


def test_damaged_compression_keeps_what_came_before(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(pcap(PACKETS * 2000)))
    path = tmp_path / "t.gz"
    path.write_bytes(bytes(data[: len(data) // 2]))
    reader = Reader(str(path), 0, Limits())
    found = payloads(list(reader.blocks()))
    assert found[:50] == WANT
    assert 100 < len(found) < 100_000
    assert reader.problem is not None


def test_a_packet_that_announces_gigabytes_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(PACKETS[:3]) + struct.pack("<IIII", 1, 2, 0xFFFFFFF0, 0xFFFFFFF0) + b"x" * 100)
    reader = Reader(str(path), 0, Limits())
    assert payloads(list(reader.blocks())) == WANT[:3]
    assert "damaged after packet 3" in str(reader.problem)


@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_zeros_behind_the_packets_are_damage_not_packets_of_1970(tmp_path: Path, block_bytes: int) -> None:
    path = tmp_path / "t.pcap"
    empty = struct.pack("<IIII", 1, 2, 0, 60)  # of which nothing was captured
    path.write_bytes(pcap(PACKETS[:3]) + empty + bytes(100_000))
    reader = Reader(str(path), 0, Limits(block_bytes=block_bytes))
    assert payloads(list(reader.blocks())) == WANT[:3]
    assert str(reader.problem).endswith("damaged after packet 4: zeros where a packet was expected")


@pytest.mark.parametrize(
    "data", [b"", b"\xd4\xc3\xb2\xa1cut off", b"hello, I am a text\n" * 10, b"\x1f\x8b broken gzip", b"\x0a\x0d"]
)
def test_a_foreign_file_is_reported_as_such(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"notes\.txt"):
        Reader(str(path), 0, Limits())


def test_a_file_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        Reader(str(tmp_path / "absent.pcap"), 0, Limits())


def test_standard_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BufferedReader(io.BytesIO(gzip.compress(pcap(PACKETS))))  # type: ignore[arg-type]

    monkeypatch.setattr("sys.stdin", Stdin)
    assert payloads(list(Reader("-", 0, Limits()).blocks())) == WANT


def test_a_url_is_opened_with_fsspec() -> None:
    import fsspec

    with fsspec.open("memory://box/t.pcap", "wb") as file:
        file.write(pcap(PACKETS))
    assert payloads(list(Reader("memory://box/t.pcap", 0, Limits()).blocks())) == WANT
    assert [p.rpartition("/")[2] for p in expand(["memory://box/*.pcap"])] == ["t.pcap"]


def test_folders_give_their_captures_and_leave_out_the_rest(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.pcap").write_bytes(pcap(PACKETS))
    (tmp_path / "deep" / "a.gz").write_bytes(gzip.compress(pcap(PACKETS)))
    (tmp_path / "notes.json").write_text("{}")
    assert expand([str(tmp_path)]) == [str(tmp_path / "b.pcap"), str(tmp_path / "deep" / "a.gz")]
    assert expand([str(tmp_path / "*.pcap")]) == [str(tmp_path / "b.pcap")]


STORE = {
    "good.pcap": pcap(PACKETS),
    "deep/hour-17": gzip.compress(pcap(PACKETS)),  # a capture by its first bytes
    "empty.pcap": b"",
    "deep/torn.PCAPNG": b"\x1c\0\0\0torn off",
    "text.cap": b"no capture",
    "rotated.pcap3": b"",
    "dump.pcap.20260131-01.gz": b"",
    "dump.pcapng.zst": b"",
}
OTHERS = {
    "README.txt": b"captures of today",
    "deep/notes.json": b"{}",
    ".hidden.pcap": b"",
    "empty.txt": b"",
    "pcap": b"",
}


@pytest.mark.parametrize("scheme", ["", "file://", "memory:/"])
def test_of_a_folder_only_files_that_are_no_captures_by_name_or_content_are_left_out(
    tmp_path: Path, scheme: str
) -> None:
    import fsspec

    root = f"{scheme}{tmp_path}"
    for name, data in (STORE | OTHERS).items():
        with fsspec.open(f"{root}/{name}", "wb", auto_mkdir=True) as file:
            file.write(data)
    assert expand([root]) == sorted(f"{root}/{name}" for name in STORE)
    assert expand([f"{root}/"]) == expand([root])
    assert expand([f"{root}/*.pcap"]) == [f"{root}/empty.pcap", f"{root}/good.pcap"]
    assert f"{root}/deep/torn.PCAPNG" in expand([f"{root}/**"])


def test_relative_paths_lead_where_the_driver_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here.pcap").write_bytes(pcap(PACKETS))
    monkeypatch.setattr(stores, "_folder", Path())
    stores.set_folder(tmp_path)
    assert payloads(list(Reader("here.pcap", 0, Limits()).blocks())) == WANT


def test_a_broken_link_is_reported_and_a_pipe_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "today.pcap").symlink_to(tmp_path / "gone.pcap")
    os.mkfifo(tmp_path / "live.pcap")
    for given in (tmp_path, tmp_path / "*.pcap", f"file://{tmp_path}"):
        (found,) = expand([str(given)])
        assert found.endswith("/today.pcap")


def test_a_folder_or_glob_without_captures_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "t.pcap").write_bytes(pcap(PACKETS))
    given = [str(tmp_path / "empty"), str(tmp_path / "*.nothing"), str(tmp_path / "t.pcap")]
    assert expand(given) == given
    for path, problem in zip(given, ("no capture in this folder", "no such file"), strict=False):
        with pytest.raises(InputError, match=problem):
            Reader(path, 0, Limits())


def test_a_site_is_the_folder_the_file_or_what_an_expression_says() -> None:
    assert site_of("/a/b/c.pcap", "folder") == "/a/b"
    assert site_of("/a/b/c.pcap", "file") == "/a/b/c.pcap"
    assert site_of("/a/broker-3/c.pcap", r"/(broker-\d+)/") == "broker-3"


@pytest.mark.parametrize(
    ("rule", "site"),
    [("(alpha)|(beta)", "beta"), ("(alpha)|beta", "beta"), ("be(f)?t", "bet"), ("(x)?", ""), ("gamma", "/a/beta")],
)
def test_a_site_has_a_name_whichever_groups_of_an_expression_take_part(rule: str, site: str) -> None:
    assert site_of("/a/beta/c.pcap", rule) == site


def test_files_that_overlap_in_time_are_merged_in_time_order(tmp_path: Path) -> None:
    for name, part in (("a", PACKETS[::2]), ("b", PACKETS[1::2])):
        (tmp_path / name).write_bytes(pcap(part, nano=True))
    readers = [Reader(str(tmp_path / n), i, Limits(block_bytes=300)) for i, n in enumerate("ab")]
    merged = list(merge([(T0, readers[0].blocks), (T0 + 1000, readers[1].blocks)]))
    assert payloads(merged) == WANT
    assert [f for b in merged for f in b.file.tolist()] == [0, 1] * 25


def test_progress_does_not_go_back_when_a_file_has_been_read(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(PACKETS))
    reader = Reader(str(path), 0, Limits(block_bytes=500))
    seen = [reader.position for _ in reader.blocks()]
    assert seen == sorted(seen)
    assert reader.position == path.stat().st_size


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_of_a_file_that_is_written_to_only_the_bytes_that_count_are_read(
    packed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    whole = (Path(__file__).parents[2] / "samples" / "kafka-refused.pcap").read_bytes()
    path = tmp_path / "live.pcap"
    path.write_bytes(packed(whole))
    size = path.stat().st_size * 2 // 3
    read = []
    for content in (path.read_bytes(), path.read_bytes()[:size]):
        path.write_bytes(content)
        reader = Reader(str(path), 0, Limits(), size=size)
        read.append((sum(len(block) for block in reader.blocks()), reader.problem))
    assert read[0] == read[1]
    assert 0 < read[0][0] < sum(len(block) for block in Reader(_copy(whole, tmp_path), 0, Limits()).blocks())


def _copy(content: bytes, folder: Path) -> str:
    path = folder / "whole.pcap"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (
            b"snoop\0\0\0",
            "is a snoop capture, not a pcap or pcapng capture: Wireshark's `editcap -F pcapng` converts it",
        ),
        (b"PK\3\4", "is a zip archive, not a pcap or pcapng capture: unpack it first"),
        (b"captures of today", "is not a pcap or pcapng capture"),
    ],
)
def test_what_is_no_capture_is_named_where_it_is_known(tmp_path: Path, head: bytes, told: str) -> None:
    (tmp_path / "file").write_bytes(head + bytes(50))
    with pytest.raises(InputError, match=re.escape(f"file: {told}") + "$"):
        Reader(str(tmp_path / "file"), 0, Limits())
