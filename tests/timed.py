"""One connection whose packets come when a test says, with faults of the network made on purpose."""

from __future__ import annotations

import struct
from pathlib import Path

from dissectors.capture.block import ACK, PSH, SYN
from tests.kafka import wire
from tests.wires import CLIENT, SERVER, T0, Packet, Side, pcap, segment

MS = 1_000_000
_START = {CLIENT: 1000, SERVER: 9000}
METADATA = 3


class Timed:
    """Packets of one connection, from its handshake on. Times are ms since the handshake, offsets those of streams."""

    def __init__(self, client: Side = CLIENT, server: Side = SERVER, *, to_client: float = 0.1) -> None:
        """to_client: the way from the capture point to the client and back, ms; the server is where the capture is."""
        self.packets: list[Packet] = []
        self.stamped = False  # whether packets from now on have timestamps, as ms, each with the peer's last one
        self._stamps = {CLIENT: 0, SERVER: 0}
        self.next = {CLIENT: 0, SERVER: 0}  # stream offset of each side's next byte
        self._ends = {CLIENT: client, SERVER: server}
        self._count = 0
        for source, flags in ((CLIENT, SYN), (SERVER, SYN | ACK)):
            self._add(0, source, -1, -1 if source is CLIENT else 0, b"", flags, 65535)
        self.ack(to_client, CLIENT)

    def send(self, ms: float, source: Side, payload: bytes, *, at: int | None = None, seen: bool = True) -> Timed:
        """Send bytes, or those at `at` once more, and acknowledge all of the peer's.

        seen: whether the capture has the packet.
        """
        offset = self.next[source] if at is None else at
        self.next[source] = max(self.next[source], offset + len(payload))
        if seen:
            self._add(ms, source, offset, self.next[_other(source)], payload, ACK | PSH, 65535)
        return self

    def ack(
        self,
        ms: float,
        source: Side,
        *,
        upto: int | None = None,
        window: int = 65535,
        twice: tuple[int, int] | None = None,
        echo: int | None = None,
    ) -> Timed:
        """Acknowledge the peer's bytes, all or up to a stream offset, without data.

        twice: the stretch of them that has come twice (D-SACK)
        echo: the timestamp that is echoed, by default the peer's last one, ms
        """
        upto = self.next[_other(source)] if upto is None else upto
        edges = [_START[_other(source)] + offset for offset in twice or ()]
        options = struct.pack(">BBBBII", 1, 1, 5, 10, *edges) if edges else b""
        self._add(ms, source, self.next[source], upto, b"", ACK, window, options, echo)
        return self

    def flag(self, ms: float, source: Side, flags: int) -> Timed:
        """Send a segment with these flags (a FIN, a RST) and no data; it acknowledges all of the peer's bytes."""
        self._add(ms, source, self.next[source], self.next[_other(source)], b"", flags, 65535)
        return self

    def _add(
        self,
        ms: float,
        source: Side,
        offset: int,
        upto: int,
        payload: bytes,
        flags: int,
        window: int,
        options: bytes = b"",
        echo: int | None = None,
    ) -> None:
        other = _other(source)
        self._count += 1
        if self.stamped:
            self._stamps[source] = round(ms)
            echo = self._stamps[other] if echo is None else echo
            options = struct.pack(">BBBBII", 1, 1, 8, 10, round(ms), echo) + options
        packet = segment(
            self._ends[source],
            self._ends[other],
            _START[source] + offset,
            _START[other] + upto,
            payload,
            flags,
            time=T0 + round(ms * MS),
            ip_id=self._count,
            window=window,
            options=options,
        )
        self.packets.append(packet)

    def write(self, path: Path) -> Path:
        """The capture file, in order of time."""
        path.write_bytes(pcap(sorted(self.packets, key=lambda packet: packet.time), nano=True))
        return path


def _other(side: Side) -> Side:
    return SERVER if side is CLIENT else CLIENT


def request(number: int, size: int = 100, topic: str = "orders", client: str = "shop") -> bytes:
    """A Kafka Metadata request of some `size` bytes, at least 60."""
    times = max(1, (size - 20 - len(client)) // (2 + len(topic)))
    body = struct.pack(">i", times) + times * wire.text(topic) + b"\0"
    return wire.request(METADATA, 4, number, body, client)


def answer(number: int, size: int = 100, throttle_ms: int = 0) -> bytes:
    """Its answer, of some `size` bytes, at least 60 and at most 32,000."""
    cluster = wire.text("c" * max(1, size - 30))
    body = struct.pack(">ii", throttle_ms, 0) + cluster + struct.pack(">ii", 1, 0)
    return wire.response(METADATA, 4, number, body)
