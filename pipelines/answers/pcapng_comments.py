"""A capture written again as pcapng, with comments on its packets; everything else of them unchanged."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, BinaryIO

from dissectors.capture import pcap, pcapng
from dissectors.capture.reader import what_it_is
from dissectors.capture.source import open_capture, read_fully
from dissectors.errors import InputError
from dissectors.limits import Limits
from pipelines.answers import pcapng_blocks

Comments = Mapping[int, Sequence[str]]  # packet number, from 1 -> its comments
_FCS_SHIFT, _HAS_FCS = 28, 1 << 26  # in the link type word of a pcap file


def write(path: str, comments: Comments, stream: BinaryIO, limits: Limits) -> int:
    """Write the capture at `path` with these comments; returns the packets written.

    A file that ends inside a packet is written up to there. Raises InputError where it cannot be read.
    """
    source, _, raw = open_capture(path)
    with raw:
        head, _ = read_fully(source, pcap.FILE_HEADER)
        if not _begins_capture(head):
            raise InputError(f"{path}: {what_it_is(head)}")
        number = 0
        while _begins_capture(head):  # for each of the captures that are joined in this file
            copy = _from_pcapng if head[:4] == pcapng.MAGIC else _from_pcap
            number, head = copy(source, head, comments, stream, limits, number)
            head += read_fully(source, max(0, pcap.FILE_HEADER - len(head)))[0]
    return number


def _begins_capture(head: bytes) -> bool:
    """Whether bytes are those of a capture's beginning."""
    return head[:4] == pcapng.MAGIC or (head[:4] in pcap.MAGICS and len(head) >= pcap.FILE_HEADER)


# --- from pcap -------------------------------------------------------------------------------------------------------


def _from_pcap(
    source: IO[bytes], head: bytes, comments: Comments, stream: BinaryIO, limits: Limits, number: int
) -> tuple[int, bytes]:
    """Write the packets behind `number`; (number of the last one, the bytes at hand behind it)."""
    format = pcap.MAGICS[head[:4]]
    order = format.order
    snaplen, link = struct.unpack_from(order + "II", head, 16)
    stream.write(pcapng_blocks.section(order))
    fcs = (link >> _FCS_SHIFT) * 2 if link & _HAS_FCS else None
    decimals = 9 if format.unit == 1 else 6
    stream.write(pcapng_blocks.interface(order, link & 0xFFFF, snaplen, decimals=decimals, fcs=fcs))
    per_second = 1_000_000_000 if format.unit == 1 else 1_000_000
    record = struct.Struct(order + "IIII").unpack_from
    left = head[pcap.FILE_HEADER :]
    while True:
        data, _ = read_fully(source, limits.block_bytes)
        buffer = left + data
        heads, stop, damage = pcap.walk(buffer, format, 0, limits)
        for at in heads.tolist():
            number += 1
            seconds, fraction, captured, original = record(buffer, at)
            time = seconds * per_second + fraction
            packet = buffer[at + format.header : at + format.header + captured]
            stream.write(pcapng_blocks.packet(order, 0, time, original, packet, comments.get(number, ())))
        left = buffer[stop:]
        if damage or not data:
            return number, left


# --- from pcapng -----------------------------------------------------------------------------------------------------


def _from_pcapng(
    source: IO[bytes], head: bytes, comments: Comments, stream: BinaryIO, limits: Limits, number: int
) -> tuple[int, bytes]:
    """Copy blocks as they are, but for packets with a comment; (number of the last packet, nothing: it reads on)."""
    interfaces = 0
    for order, kind, block in _blocks(source, head, limits):
        if kind == pcapng.SECTION:
            interfaces = 0
        elif kind == pcapng.INTERFACE:
            interfaces += 1
        elif _holds_packet(order, kind, block, interfaces):
            number += 1
            if number in comments and kind != pcapng.SIMPLE:  # which has no options
                block = _with_comments(order, kind, block, comments[number])
        stream.write(block)
    return number, b""


def _blocks(source: IO[bytes], head: bytes, limits: Limits) -> Iterator[tuple[str, int, bytes]]:
    """(byte order, type, the whole block), as far as they are whole."""
    order, left = "<", head
    while True:
        data, _ = read_fully(source, limits.block_bytes)
        buffer, at = left + data, 0
        while at + 12 <= len(buffer):
            if buffer[at : at + 4] == pcapng.MAGIC:
                order = "<" if buffer[at + 8 : at + 12] == struct.pack("<I", pcapng_blocks.ORDER_MAGIC) else ">"
            kind, length = struct.unpack_from(order + "II", buffer, at)
            if length < 12 or length % 4 or length > limits.packet_bytes + 4096:
                return
            if at + length > len(buffer):
                break
            yield order, kind, buffer[at : at + length]
            at += length
        left = buffer[at:]
        if not data:
            return


def _holds_packet(order: str, kind: int, block: bytes, interfaces: int) -> bool:
    """Whether the reader counts this block as a packet."""
    body = len(block) - 12
    if kind == pcapng.SIMPLE:
        return body >= 4 and interfaces > 0
    if kind not in (pcapng.ENHANCED, pcapng.PACKET) or body < 20:
        return False
    interface = struct.unpack_from(order + ("I" if kind == pcapng.ENHANCED else "H"), block, 8)[0]
    captured: int = struct.unpack_from(order + "I", block, 20)[0]
    return interface < interfaces and 20 + captured <= body


def _with_comments(order: str, kind: int, block: bytes, comments: Sequence[str]) -> bytes:
    captured = struct.unpack_from(order + "I", block, 20)[0]
    options_at = 28 + (captured + 3) // 4 * 4
    kept = block[options_at:-4]
    added = pcapng_blocks.commented(order, comments)
    if kept:  # they end themselves
        added = added[:-4]
    return pcapng_blocks.block(order, kind, block[8:options_at] + added + kept)
