"""The packets of pcapng files are those that a slow reading of the format finds, whatever else a file holds."""

import io
import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.capture import pcapng
from dissectors.capture.raw import NO_TIME
from dissectors.errors import TruncatedError
from dissectors.limits import Limits
from tests.capture.test_files import Pcapng, option

U32 = (1 << 32) - 1
LIMITS = Limits(packet_bytes=1000)


class Read(NamedTuple):
    """One packet: its bytes, how many they were on the wire, time (ns) and link type."""

    data: bytes
    original: int
    time: int
    link: int


def read(data: bytes, block_bytes: int) -> tuple[list[Read], str]:
    """The packets, as the reader finds them; and why it stopped."""
    limits = Limits(packet_bytes=LIMITS.packet_bytes, block_bytes=block_bytes)
    found: list[Read] = []
    try:
        for raw in pcapng.blocks(io.BytesIO(data), b"", limits, pcapng.Notes()):
            ends = zip(raw.at.tolist(), (raw.at + raw.have).tolist(), strict=True)
            columns = (column.tolist() for column in (raw.wire, raw.time, raw.link))
            found += map(Read, [raw.buffer[start:end] for start, end in ends], *columns)
    except TruncatedError as error:
        return found, str(error)
    return found, ""


def expected(data: bytes) -> list[Read]:
    """The packets, by a plain reading of the format."""
    found: list[Read] = []
    interfaces: list[pcapng.Interface] = []
    order, at = "<", 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from(order + "II", data, at)
        if kind == pcapng.SECTION:
            if (magic := data[at + 8 : at + 12]) not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                break
            order, interfaces = "<" if magic[0] == 0x4D else ">", []
            (length,) = struct.unpack_from(order + "I", data, at + 4)
        if length < 12 or length % 4 or length > LIMITS.packet_bytes + 4096 or at + length > len(data):
            break
        body = data[at + 8 : at + length - 4]
        if kind == 1 and len(body) >= 8:
            interfaces.append(pcapng._interface(data, at + 8, at + length - 4, order))
        elif kind in (pcapng.ENHANCED, pcapng.PACKET) and len(body) >= 20:
            which = struct.unpack_from(order + ("I" if kind == pcapng.ENHANCED else "H"), body)[0]
            high, low, captured, original = struct.unpack_from(order + "IIII", body, 4)
            if which < len(interfaces) and 20 + captured <= len(body):
                time = interfaces[which].ns(high << 32 | low)
                shown = time if abs(time) < 1 << 62 else 0
                packet = body[20 : 20 + captured]
                found.append(Read(packet, max(captured, original), shown, interfaces[which].link))
        elif kind == pcapng.SIMPLE and len(body) >= 4 and interfaces:
            (original,) = struct.unpack_from(order + "I", body)
            captured = min(original, interfaces[0].snaplen or original, len(body) - 4)
            found.append(Read(body[4 : 4 + captured], max(captured, original), NO_TIME, interfaces[0].link))
        at += length
    return found


numbers = st.one_of(st.integers(0, 4), st.integers(0, U32), st.sampled_from([U32, 1 << 31, 40]))
ticks = st.one_of(st.integers(0, (1 << 64) - 1), st.integers(1_700_000_000_000_000, 1_700_000_000_001_000))
resolution = st.one_of(st.sampled_from([3, 6, 9, 12, 0x80 | 20]), st.integers(0, 255))


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file of a few sections, with packets of all types, right and wrong, and blocks of other types."""
    out = b""
    for _ in range(draw(st.integers(1, 2))):
        file = Pcapng(order := draw(st.sampled_from("<>")))
        for _ in range(draw(st.integers(0, 12))):
            kind = draw(st.sampled_from([1, 1, 2, 3, 5, 6, 6, 6, 10, 0x0BAD]))
            data = draw(st.binary(max_size=9))
            if kind == 1:
                options = option(order, 9, bytes([draw(resolution)])) if draw(st.booleans()) else b""
                if draw(st.booleans()):
                    options += option(order, 14, struct.pack(order + "q", draw(st.integers(-(1 << 63), (1 << 63) - 1))))
                file.interface(draw(st.sampled_from([1, 101, 113])), options, draw(st.integers(0, 8)))
            elif kind in (2, 6):
                time, which = draw(ticks), draw(st.integers(0, 3))
                first = struct.pack(order + ("I" if kind == 6 else "HH"), which, *([7] if kind == 2 else []))
                sizes = draw(st.sampled_from([len(data), len(data) + 4, U32])), draw(numbers)
                file.block(kind, first + struct.pack(order + "IIII", time >> 32, time & U32, *sizes) + data)
            elif kind == 3:
                file.block(kind, struct.pack(order + "I", draw(numbers)) + data)
            else:
                file.block(kind, data)
        out += file.out
    return out


@given(files(), st.sampled_from([64, 200, 1 << 20]))
def test_packets_are_those_of_a_plain_reading(data: bytes, block_bytes: int) -> None:
    assert read(data, block_bytes) == (expected(data), "")


@given(files(), st.data())
def test_a_damaged_file_gives_the_packets_before_the_damage(data: bytes, how: st.DataObject) -> None:
    at = how.draw(st.integers(28, len(data)))
    broken = data[:at] + how.draw(st.binary(max_size=3)) + data[at + how.draw(st.integers(0, 3)) :]
    assert read(broken, 1 << 20)[0] == expected(broken)


@pytest.mark.parametrize(("resolution", "ticks", "ns"), [
    (6, 1_700_000_000_000_001, 1_700_000_000_000_001_000), (9, 1_700_000_000_000_000_001, 1_700_000_000_000_000_001),
    (12, 1_700_000_000_000_000_001, 1_700_000_000_000_000), (0x80 | 10, 1025, 1_000_976_562),
    (0, 1_700_000_000, 1_700_000_000_000_000_000), (9, (1 << 64) - 1, 0), (0x80 | 127, (1 << 64) - 1, 0),
])  # fmt: skip
def test_a_clock_of_any_resolution_gives_nanoseconds(resolution: int, ticks: int, ns: int) -> None:
    file = Pcapng().interface(1, option("<", 9, bytes([resolution])))
    file.block(6, struct.pack("<IIIII", 0, ticks >> 32, ticks & U32, 0, 0))
    assert [packet.time for packet in read(file.out, 1 << 20)[0]] == [ns]
