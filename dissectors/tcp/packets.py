"""The packets of a block as the typed loop reads them: columns, and in which order they are taken."""

from __future__ import annotations

from dissectors.wire.arrays import Bytes, Numbers


class Packets:
    """n packets; every column is int64[n]. `index` lists them by connection, those of each in their order."""

    def __init__(self, buffer: Bytes, index: Numbers, columns: dict[str, Numbers]) -> None:
        self.buffer = buffer  # in which the payloads lie
        self.index = index
        self.direction = columns["direction"]  # 0: from the lower endpoint to the higher one
        self.seq = columns["seq"]
        self.ack = columns["ack"]
        self.flags = columns["flags"]
        self.window = columns["window"]
        self.at = columns["at"]  # of the payload in the buffer
        self.size = columns["size"]  # payload bytes on the wire
        self.have = columns["have"]  # payload bytes captured
        self.via = columns["via"]
        self.time = columns["time"]
        self.packet_ref = columns["packet_ref"]
        self.arrival = columns["arrival"]  # number among all that the tracker saw
        self.signature = columns["signature"]  # what two captures of one packet have in common
