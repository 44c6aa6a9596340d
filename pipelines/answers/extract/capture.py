"""Packets as a pcapng capture: one interface for each link type, times in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from pipelines.answers import pcapng_blocks
from pipelines.answers.extract.packets import PacketFiles
from pipelines.answers.sanitise.packets import RAW, PacketRewriter

_ORDER = "<"
_NANOSECONDS = 9  # decimals of a second
_NO_LIMIT = 0  # of an interface's snaplen


class CaptureWriter:
    """Writes packets one after the other."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._interfaces: dict[int, int] = {}  # link type -> number
        self.packets = 0
        stream.write(pcapng_blocks.section(_ORDER))

    def secrets(self, keylogs: Iterator[bytes]) -> None:
        """Write TLS secrets, which hold for what follows."""
        for keylog in keylogs:
            self._stream.write(pcapng_blocks.secrets(_ORDER, keylog))

    def packet(self, link: int, time: int, wire: int, data: bytes, comments: Sequence[str] = ()) -> None:
        """Write a packet. time: ns since the epoch; wire: its original length."""
        number = self._interfaces.get(link)
        if number is None:
            number = self._interfaces[link] = len(self._interfaces)
            self._stream.write(pcapng_blocks.interface(_ORDER, link, _NO_LIMIT, decimals=_NANOSECONDS))
        self._stream.write(pcapng_blocks.packet(_ORDER, number, max(0, time), wire, data, comments))
        self.packets += 1


def write(files: PacketFiles, comments: Sequence[Mapping[int, Sequence[str]]], stream: BinaryIO) -> int:
    """Write the wanted packets as they were captured; how many they are.

    comments: of each file, packet number -> comments; empty for none. TLS secrets in the files go with the packets.
    """
    writer = CaptureWriter(stream)
    for packet in files.packets():
        writer.secrets(files.secrets())
        notes = comments[packet.file].get(packet.number, ()) if comments else ()
        writer.packet(packet.link, packet.time, packet.wire, packet.data, notes)
    writer.secrets(files.secrets())
    return writer.packets


def write_sanitised(files: PacketFiles, rewriter: PacketRewriter, stream: BinaryIO) -> int:
    """Write what stands for the wanted packets; how many they are. TLS secrets and comments stay behind."""
    writer = CaptureWriter(stream)
    for packet in files.packets():
        made = rewriter.packet(packet)
        if made is not None:
            writer.packet(RAW, made.time, made.wire, made.data)
    return writer.packets
