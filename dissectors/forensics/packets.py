"""The packets that carried suspect bytes, read again from the capture files.

One pass over the files of a site, by column: a packet is looked at only if it belongs to one of the wanted directions
and its sequence numbers touch a wanted range. Every copy counts, so a retransmission with other bytes comes to light.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dissectors.capture.block import PacketBlock, address_halves
from dissectors.capture.files import site_of
from dissectors.capture.fragments import Fragments
from dissectors.capture.raw import Census, RawBlock, packets
from dissectors.capture.reader import Reader
from dissectors.errors import InputError
from dissectors.forensics.sums import UNKNOWN, Layout, Sums, judge, layout
from dissectors.options import Options
from dissectors.records import PLACE_SHIFT
from dissectors.sink import Suspect
from dissectors.tcp.chunk import CLIENT

COPIES = 4  # packets kept for one suspect, a piece of it: the packet itself and retransmissions
SPARE = 64  # and more, for pieces that were cut otherwise when sent again
SAMPLE = 64  # other packets of the direction whose sums are counted
NEAR_NS = 300_000_000_000  # a copy of a packet comes within this time; later the sequence numbers mean other bytes
_MASK, _SIGN = 0xFFFFFFFF, 0x80000000


class Segment(NamedTuple):
    """A packet that carried bytes of the unit."""

    place: int
    time: int  # ns
    start: int  # index in the unit of its first payload byte; negative where it begins before
    payload: bytes  # as captured
    packet: bytes  # the whole packet, as captured
    payload_at: int | None  # where the payload lies in the packet; None where fragments were joined
    where: Layout
    sums: Sums
    link: int

    @property
    def end(self) -> int:
        return self.start + len(self.payload)


@dataclass
class Carriers:
    """What carried a suspect."""

    segments: list[Segment] = field(default_factory=list)  # in order of time
    others: Counter[str] = field(default_factory=Counter)  # TCP verdicts of other packets of this direction

    def delivered(self, suspect: Suspect, at: int) -> Segment | None:
        """The packet whose bytes were taken for index `at` of the unit."""
        place = None
        for offset, piece, _ in suspect.pieces:
            if offset <= suspect.offset + at:
                place = piece
        return next((s for s in self.segments if s.place == place and s.start <= at < s.end), None)


def gather(files: Sequence[str], suspects: Sequence[Suspect], options: Options) -> list[Carriers]:
    """Read the files again; one Carriers a suspect. `files` in the order that places count them."""
    found = [Carriers() for _ in suspects]
    by_site: dict[str, list[int]] = {}
    for index, suspect in enumerate(suspects):
        by_site.setdefault(suspect.conn.site, []).append(index)
    for number, path in enumerate(files):
        wanted = by_site.get(site_of(path, options.site), [])
        if not wanted or path == "-":
            continue
        try:
            reader = Reader(path, number, options.limits)
            _search(reader, number, [(suspects[i], found[i]) for i in wanted])
        except InputError:
            continue  # told by the first pass
    for carriers in found:
        carriers.segments.sort(key=lambda s: (s.time, s.place))
    return found


def _search(reader: Reader, file: int, wanted: Iterable[tuple[Suspect, Carriers]]) -> None:
    by_direction: dict[tuple[str, int, str, int], list[tuple[Suspect, Carriers]]] = {}
    for suspect, carriers in wanted:
        by_direction.setdefault(_direction(suspect), []).append((suspect, carriers))
    ports = np.array([key[1] << 16 | key[3] for key in by_direction])
    census, fragments = Census(), Fragments()
    for raw in reader.raw_blocks():
        block = packets(raw, file, census, fragments)
        if block is None:
            continue
        near = np.flatnonzero(np.isin(block.sport << 16 | block.dport, ports) & (block.have > 0))
        if not len(near):
            continue
        block = block.take(near)
        for key, cases in by_direction.items():
            rows = np.flatnonzero(_of_direction(block, key))
            for suspect, carriers in cases:
                _pick(raw, block, rows, suspect, carriers)


def _direction(suspect: Suspect) -> tuple[str, int, str, int]:
    conn = suspect.conn
    client, server = (conn.client_ip, conn.client_port), (conn.server_ip, conn.server_port)
    return (*client, *server) if suspect.direction == CLIENT else (*server, *client)


def _of_direction(block: PacketBlock, key: tuple[str, int, str, int]) -> npt.NDArray[np.bool_]:
    source, sport, target, dport = key
    src, dst = address_halves(source), address_halves(target)
    same: npt.NDArray[np.bool_] = (
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
    place = block.file[rows] << PLACE_SHIFT | block.number[rows]
    if suspect.base is None:  # under TLS sequence numbers say nothing about plaintext: only the known packets count
        hits = np.isin(place, [piece for _, piece, _ in suspect.pieces])
        start = np.zeros(len(rows), np.int64)
    else:
        start = (block.seq[rows] - (suspect.base + suspect.offset)) & _MASK
        start = np.where(start >= _SIGN, start - (_MASK + 1), start)
        hits = (start < len(suspect.unit)) & (start + block.have[rows] > 0)
        times = [time for _, _, time in suspect.pieces]
        hits &= (block.time[rows] > min(times) - NEAR_NS) & (block.time[rows] < max(times) + NEAR_NS)
    for row, at in zip(rows[hits].tolist(), start[hits].tolist(), strict=True):
        if len(carriers.segments) < COPIES * len(suspect.pieces) + SPARE:
            carriers.segments.append(_segment(raw, block, row, at))
    left = SAMPLE - carriers.others.total()
    for row in rows[~hits][: max(0, left)].tolist():
        carriers.others[_segment(raw, block, row, 0).sums.tcp] += 1


def _segment(raw: RawBlock, block: PacketBlock, row: int, start: int) -> Segment:
    number, at, have = int(block.number[row]), int(block.at[row]), int(block.have[row])
    index = number - raw.number
    begin = int(raw.at[index])
    packet = bytes(raw.buffer[begin : begin + int(raw.have[index])])
    payload_at: int | None = at - begin
    if not 0 <= at - begin <= len(packet):  # it stands behind the file's bytes: joined from fragments
        payload_at = None
        where, sums = Layout(-1, -1, 0, 0), Sums(None, UNKNOWN)
    else:
        where = layout(packet, at - begin, int(block.size[row]), int(block.sport[row]), int(block.dport[row]))
        sums = judge(packet, where)
    payload = bytes(memoryview(block.buffer)[at : at + have])
    place = int(block.file[row]) << PLACE_SHIFT | number
    return Segment(place, int(block.time[row]), start, payload, packet, payload_at, where, sums, int(raw.link[index]))
