"""The packets of a block as the typed loop reads them: columns, and in which order they are taken."""

from __future__ import annotations

from typing import final

from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Bytes, Numbers, ReadOnlyNumbers


@final
@compiled
class Packets:
    """n packets; every column is int64[n]. `index` lists them by connection, those of each in their order."""

    buffer: bytes | memoryview[int]  # in which the payloads lie
    index: ReadOnlyNumbers
    direction: ReadOnlyNumbers  # 0: from the lower endpoint to the higher one
    seq: ReadOnlyNumbers
    ack: ReadOnlyNumbers
    flags: ReadOnlyNumbers
    window: ReadOnlyNumbers
    stamps: ReadOnlyNumbers  # TCP timestamps and D-SACK as PacketBlock has them
    duplicate: ReadOnlyNumbers
    at: ReadOnlyNumbers  # of the payload in the buffer
    size: ReadOnlyNumbers  # payload bytes on the wire
    have: ReadOnlyNumbers  # payload bytes captured
    via: ReadOnlyNumbers
    time: ReadOnlyNumbers
    packet_ref: ReadOnlyNumbers
    arrival: ReadOnlyNumbers  # number among all that the tracker saw
    signature: ReadOnlyNumbers  # what two captures of one packet have in common

    def __init__(self, buffer: Bytes, index: Numbers, columns: dict[str, Numbers]) -> None:
        self.buffer = buffer
        self.index = index
        self.direction = columns["direction"]
        self.seq = columns["seq"]
        self.ack = columns["ack"]
        self.flags = columns["flags"]
        self.window = columns["window"]
        self.stamps = columns["stamps"]
        self.duplicate = columns["duplicate"]
        self.at = columns["at"]
        self.size = columns["size"]
        self.have = columns["have"]
        self.via = columns["via"]
        self.time = columns["time"]
        self.packet_ref = columns["packet_ref"]
        self.arrival = columns["arrival"]
        self.signature = columns["signature"]
