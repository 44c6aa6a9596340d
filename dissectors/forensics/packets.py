"""The packets that carried suspect bytes, read again from the capture files.

One pass over each file, by column: a packet is looked at only if it belongs to one of the wanted directions and its
sequence numbers touch a wanted range. Every copy counts, so a retransmission with other bytes comes to light. What
witnesses carried (the same batch, seen elsewhere with a right checksum) is picked up on the way, and so is every other
packet that carries the id of a suspect message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Bools, Ints
from dissectors.capture.block import PacketBlock, address, address_halves
from dissectors.capture.files import site_of
from dissectors.capture.fragments import Fragments
from dissectors.capture.raw import Census, RawBlock, packets
from dissectors.capture.reader import Reader
from dissectors.errors import InputError
from dissectors.forensics.ids import MOST, Sighting
from dissectors.forensics.packet_checksums import UNKNOWN, HeaderLayout, Sums, judge, layout
from dissectors.forensics.related import Witness
from dissectors.forensics.units import identity
from dissectors.options import Options
from dissectors.records import PACKET_SHIFT
from dissectors.redaction import public_path
from dissectors.rows.sink import Suspect
from dissectors.tcp.chunk import CLIENT

COPIES = 4  # packets kept for one suspect, a piece of it: the packet itself and retransmissions
SPARE = 64  # and more, for pieces that were cut otherwise when sent again
SAMPLE = 64  # other packets of the direction whose sums are counted
AROUND = 32  # packets before a suspect, and after it, whose payloads are kept
AROUND_BYTES = 4096  # of each
LEAD = 65_536  # bytes of a witness' packet that may lie before the batch
NEAR_NS = 300_000_000_000  # a copy of a packet comes within this time; later the sequence numbers mean other bytes
_MASK, _SIGN = 0xFFFFFFFF, 0x80000000


class Segment(NamedTuple):
    """A packet that carried bytes of the unit."""

    packet_ref: int
    time: int  # ns
    start: int  # index in the unit of its first payload byte; negative where it begins before
    payload: bytes  # as captured
    packet: bytes  # the whole packet, as captured
    payload_at: int | None  # where the payload lies in the packet; None where fragments were joined
    where: HeaderLayout
    sums: Sums
    link: int

    @property
    def end(self) -> int:
        return self.start + len(self.payload)

    @property
    def missing(self) -> int:
        """Bytes of the payload that the capture cut off."""
        return max(0, self.where.size - len(self.payload))


@dataclass
class Carriers:
    """What carried a suspect."""

    segments: list[Segment] = field(default_factory=list)  # in order of time
    judged: list[str] = field(default_factory=list)  # TCP verdicts of other packets of this direction
    witnessed: list[bytes] = field(default_factory=list)  # the stream from each witness' packet on
    neighbours: list[tuple[int, bytes]] = field(default_factory=list)  # place and payload of packets around it
    seen: list[Sighting] = field(default_factory=list)  # other packets with the message's id

    @property
    def others(self) -> Counter[str]:
        """How many other packets of this direction had which verdict."""
        return Counter(self.judged)

    def delivered(self, suspect: Suspect, at: int) -> Segment | None:
        """The packet whose bytes were taken for index `at` of the unit."""
        packet_ref = None
        for offset, piece, _ in suspect.pieces:
            if offset <= suspect.offset + at:
                packet_ref = piece
        return next((s for s in self.segments if s.packet_ref == packet_ref and s.start <= at < s.end), None)


class Wanted(NamedTuple):
    """What to look for: the bytes of a suspect, and what its witnesses carried."""

    suspect: Suspect
    witnesses: Sequence[Witness] = ()


def gather(files: Sequence[str], wanted: Sequence[Wanted], options: Options) -> list[Carriers]:
    """Read the files again; one Carriers for each wanted. `files` in the order that places count them."""
    return joined([gather_file(number, path, wanted, options) for number, path in enumerate(files)], wanted)


def gather_file(number: int, path: str, wanted: Sequence[Wanted], options: Options) -> list[Carriers]:
    """What one file has of it."""
    found = [Carriers() for _ in wanted]
    site = site_of(path, options.site, options.joined)
    concerned = [
        (one, carriers)
        for one, carriers in zip(wanted, found, strict=True)
        if one.suspect.conn.site == site or any(witness.file == public_path(path) for witness in one.witnesses)
    ]
    if concerned and path != "-":
        with suppress(InputError):  # reported by the first pass
            _search(Reader(path, number, options.limits), path, site, number, concerned)
    return found


def joined(by_file: Sequence[Sequence[Carriers]], wanted: Sequence[Wanted]) -> list[Carriers]:
    """What the files have, put together; the files in their order."""
    out = []
    for index, one in enumerate(wanted):
        parts = [found[index] for found in by_file]
        segments = [segment for part in parts for segment in part.segments][: _most(one.suspect)]
        segments.sort(key=lambda s: (s.time, s.packet_ref))
        judged = [verdict for part in parts for verdict in part.judged][:SAMPLE]
        streams = [stream for part in parts for stream in part.witnessed]
        near = [packet for part in parts for packet in part.neighbours]
        seen = [one for part in parts for one in part.seen]
        out.append(Carriers(segments, judged, streams, near, seen))
    return out


def _most(suspect: Suspect) -> int:
    """Packets kept for a suspect."""
    return COPIES * len(suspect.pieces) + SPARE


Ends = tuple[str, int, str, int]  # address and port of sender and receiver


class _Follower:
    """Collects the stream of a direction from a known packet on."""

    def __init__(self, packet: int, size: int) -> None:
        self.packet = packet
        self.size = size
        self._seq: int | None = None
        self._pieces: dict[int, bytes] = {}

    def take(self, block: PacketBlock, rows: npt.NDArray[np.intp]) -> None:
        if self._seq is None:
            first = rows[block.number[rows] == self.packet]
            if not len(first):
                return
            self._seq = int(block.seq[first[0]])
        rows = rows[block.number[rows] >= self.packet]
        distance = (block.seq[rows] - self._seq) & _MASK
        near = distance < self.size
        buffer = memoryview(block.buffer)
        for row, at in zip(rows[near].tolist(), distance[near].tolist(), strict=True):
            start = int(block.at[row])
            self._pieces.setdefault(at, bytes(buffer[start : start + int(block.have[row])]))

    def stream(self) -> bytes:
        """The bytes up to the first that is missing."""
        stream = bytearray()
        for at, piece in sorted(self._pieces.items()):
            if at > len(stream):
                break
            stream += piece[len(stream) - at :]
        return bytes(stream[: self.size])


class _Ids:
    """Looks for the ids of suspect messages in whatever passes to or from their servers."""

    def __init__(self, concerned: Iterable[tuple[Wanted, Carriers]], site: str) -> None:
        self.ports: set[int] = set()
        self._owners: dict[bytes, list[tuple[Suspect, Carriers]]] = {}
        self._following: list[tuple[Ends, Carriers, Sighting, _Follower]] = []
        for (suspect, _), carriers in concerned:
            message = identity(suspect) if suspect.conn.site == site and suspect.base is not None else None
            if message is not None:
                self.ports.add(suspect.conn.server_port)
                self._owners.setdefault(message.id, []).append((suspect, carriers))
        self._pattern = re.compile(b"|".join(map(re.escape, self._owners))) if self._owners else None

    def take(self, block: PacketBlock) -> None:
        if self._pattern is None:
            return
        order = np.argsort(block.at, kind="stable")
        begins = block.at[order]
        for match in self._pattern.finditer(block.buffer):
            index = int(np.searchsorted(begins, match.start(), "right")) - 1
            row = int(order[index])
            if index >= 0 and match.end() <= int(block.at[row] + block.have[row]):
                self._found(block, row, match[0])
        for ends in dict.fromkeys(ends for ends, *_ in self._following):
            rows = np.flatnonzero(_of_direction(block, ends))
            for other, _, _, follower in self._following:
                if other == ends:
                    follower.take(block, rows)

    def _found(self, block: PacketBlock, row: int, id_: bytes) -> None:
        ends = _ends(block, row)
        number = int(block.number[row])
        packet_ref = int(block.file[row]) << PACKET_SHIFT | number
        for suspect, carriers in self._owners[id_]:
            known = sum(other is carriers for _, other, _, _ in self._following)
            if known < MOST and not (ends == _direction(suspect) and _touches(suspect, block, row)):
                seen = Sighting(packet_ref, int(block.time[row]), ends[:2], ends[2:], b"")
                self._following.append((ends, carriers, seen, _Follower(number, len(suspect.unit) + LEAD)))

    def finish(self) -> None:
        for _, carriers, seen, follower in self._following:
            carriers.seen.append(seen._replace(stream=follower.stream()))


def _search(reader: Reader, path: str, site: str, file: int, concerned: Sequence[tuple[Wanted, Carriers]]) -> None:
    cases: dict[Ends, list[tuple[Suspect, Carriers]]] = {}
    followers: dict[Ends, list[tuple[_Follower, Carriers]]] = {}
    ids = _Ids(concerned, site)
    for (suspect, witnesses), carriers in concerned:
        if suspect.conn.site == site:
            cases.setdefault(_direction(suspect), []).append((suspect, carriers))
        for witness in witnesses:
            if witness.file == public_path(path):
                ends = (*witness.source, *witness.target)
                follower = _Follower(witness.packet, len(suspect.unit) + LEAD)
                followers.setdefault(ends, []).append((follower, carriers))
    for raw, block in _blocks(reader, file, {key[1] << 16 | key[3] for key in (*cases, *followers)}, ids.ports):
        for ends in dict.fromkeys((*cases, *followers)):
            rows = np.flatnonzero(_of_direction(block, ends))
            for suspect, carriers in cases.get(ends, ()):
                _pick(raw, block, rows, suspect, carriers)
                _look_around(block, rows, suspect, carriers)
            for follower, _ in followers.get(ends, ()):
                follower.take(block, rows)
        ids.take(block)
    for following in followers.values():
        for follower, carriers in following:
            carriers.witnessed.append(follower.stream())
    ids.finish()


def _blocks(reader: Reader, file: int, pairs: set[int], ports: set[int]) -> Iterator[tuple[RawBlock, PacketBlock]]:
    """The packets with payload between these pairs of ports, or at these; and the raw packets that they lie in."""
    between, at = np.array(sorted(pairs)), np.array(sorted(ports))
    census, fragments = Census(), Fragments()
    for raw in reader.raw_blocks():
        block = packets(raw, file, census, fragments)
        if block is None:
            continue
        wanted = np.isin(block.sport << 16 | block.dport, between)
        wanted |= np.isin(block.sport, at) | np.isin(block.dport, at)
        near = np.flatnonzero(wanted & (block.have > 0))
        if len(near):
            yield raw, block.take(near)


def _direction(suspect: Suspect) -> Ends:
    conn = suspect.conn
    client, server = (conn.client_ip, conn.client_port), (conn.server_ip, conn.server_port)
    return (*client, *server) if suspect.direction == CLIENT else (*server, *client)


def _ends(block: PacketBlock, row: int) -> Ends:
    """Who sent a packet to whom."""
    source = address(int(block.src_hi[row]), int(block.src_lo[row]))
    return source, int(block.sport[row]), address(int(block.dst_hi[row]), int(block.dst_lo[row])), int(block.dport[row])


def _touches(suspect: Suspect, block: PacketBlock, row: int) -> bool:
    """Whether a packet of the suspect's direction carries some of its bytes: once more, or at another capture point."""
    return bool(_within(suspect, block, np.array([row]))[1][0])


def _within(suspect: Suspect, block: PacketBlock, rows: npt.NDArray[np.intp]) -> tuple[Ints, Bools]:
    """(index in the unit at which each packet of its direction begins, whether the packet has bytes of the unit)."""
    assert suspect.base is not None
    start = (block.seq[rows] - (suspect.base + suspect.offset)) & _MASK
    start = np.where(start >= _SIGN, start - (_MASK + 1), start)
    return start, (start < len(suspect.unit)) & (start + block.have[rows] > 0)


def _of_direction(block: PacketBlock, key: Ends) -> Bools:
    source, sport, target, dport = key
    src, dst = address_halves(source), address_halves(target)
    same: Bools = (
        (block.sport == sport)
        & (block.dport == dport)
        & (block.src_hi == np.uint64(src[0]))
        & (block.src_lo == np.uint64(src[1]))
        & (block.dst_hi == np.uint64(dst[0]))
        & (block.dst_lo == np.uint64(dst[1]))
    )
    return same


def _pick(raw: RawBlock, block: PacketBlock, rows: npt.NDArray[np.intp], suspect: Suspect, carriers: Carriers) -> None:
    """Keep the packets that touch the suspect's bytes; count the sums of some that do not."""
    packet_ref = block.file[rows] << PACKET_SHIFT | block.number[rows]
    if suspect.base is None:  # under TLS sequence numbers say nothing about plaintext: only the known packets count
        hits = np.isin(packet_ref, [piece for _, piece, _ in suspect.pieces])
        start = np.zeros(len(rows), np.int64)
    else:
        start, hits = _within(suspect, block, rows)
        times = [time for _, _, time in suspect.pieces]
        hits &= (block.time[rows] > min(times) - NEAR_NS) & (block.time[rows] < max(times) + NEAR_NS)
    for row, at in zip(rows[hits].tolist(), start[hits].tolist(), strict=True):
        if len(carriers.segments) < _most(suspect):
            carriers.segments.append(_segment(raw, block, row, at))
    for row in rows[~hits][: SAMPLE - len(carriers.judged)].tolist():
        carriers.judged.append(_segment(raw, block, row, 0).sums.tcp)


def _look_around(block: PacketBlock, rows: npt.NDArray[np.intp], suspect: Suspect, carriers: Carriers) -> None:
    """Keep payloads of the direction that passed shortly before and after the suspect."""
    if suspect.base is None:
        return
    first, last = suspect.pieces[0][1], suspect.pieces[-1][1]
    packet_ref = block.file[rows] << PACKET_SHIFT | block.number[rows]
    before, after = rows[packet_ref < first][-AROUND:], rows[packet_ref > last][:AROUND]
    buffer = memoryview(block.buffer)
    for row in (*before.tolist(), *after.tolist()):
        if len(carriers.neighbours) < 2 * AROUND:
            start = int(block.at[row])
            payload = bytes(buffer[start : start + min(int(block.have[row]), AROUND_BYTES)])
            carriers.neighbours.append((int(block.file[row]) << PACKET_SHIFT | int(block.number[row]), payload))


def _segment(raw: RawBlock, block: PacketBlock, row: int, start: int) -> Segment:
    number, at, have = int(block.number[row]), int(block.at[row]), int(block.have[row])
    index = number - raw.number
    begin = int(raw.at[index])
    packet = bytes(raw.buffer[begin : begin + int(raw.have[index])])
    payload_at: int | None = at - begin
    if not 0 <= at - begin <= len(packet):  # it stands behind the file's bytes: joined from fragments
        payload_at = None
        where, sums = HeaderLayout(-1, -1, 0, 0), Sums(None, UNKNOWN)
    else:
        where = layout(packet, at - begin, int(block.size[row]), int(block.sport[row]), int(block.dport[row]))
        sums = judge(packet, where)
    payload = bytes(memoryview(block.buffer)[at : at + have])
    packet_ref = int(block.file[row]) << PACKET_SHIFT | number
    return Segment(
        packet_ref, int(block.time[row]), start, payload, packet, payload_at, where, sums, int(raw.link[index])
    )
