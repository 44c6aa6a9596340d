"""Which folders are one capture point, as their packets say: where those of one end, those of the other go on.

A capturer that is started again, or a job that gathers captures, often begins a folder of another name. Two sites are
one where the first ends before the second begins, and connections that are open at that border go on behind it at the
sequence number at which they stood before it. What two real capture points see of a connection overlaps in time, so
these stay apart. The name is that of the first of them.

Only the beginnings and the ends of files are looked at, and only of sites that do not overlap in time. The end of a
plain pcap is found by its packet headers, from behind; other files are read for it, up to _READ_BYTES of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dissectors.capture.block import FIN, SYN, PacketBlock
from dissectors.capture.files import PLACE, site_of
from dissectors.capture.pcap import MAGICS
from dissectors.capture.reader import Part, Reader
from dissectors.capture.source import STDIN, file_size, open_raw
from dissectors.errors import InputError
from dissectors.limits import KIB, MIB, Limits

Span = tuple[int, int]  # earliest and latest time, ns
Way = tuple[int, int, int, int, int, int, int]  # one direction of a connection: from, to, VLAN or VNI
Files = dict[str, list[str]]  # by site

_HEAD_BYTES = 256 * KIB  # of a file, in which it is looked for connections that go on
_TAIL_BYTES = 1 * MIB  # the same of its end
_READ_BYTES = 64 * MIB  # of a file whose end can only be found by reading it
_CHAIN = 8  # packet headers that fit each other: there a packet begins
_RESENT = 1 * MIB  # how far behind the end of the one site the other may begin in a stream: resent bytes
_SEARCHED = 64  # files, by name, among which the first or the last of a site is looked for, of which it is known when
_SITES = 10_000  # of more, names alone decide
_AT_ONCE = 16  # files that are looked into at the same time
_NEVER = 1 << 63
_WRAP = 1 << 32  # of sequence numbers


def joined_sites(
    files: Iterable[str], rule: str, known: Mapping[str, str] | None = None, spans: Mapping[str, Span] | None = None
) -> dict[str, str]:
    """Site, as its folder names it -> the one that it goes on from, for all that go on from another.

    rule: what names capture points; packets are asked only where that is PLACE. known: what was found before, and
    stands. spans: when sites had packets of which files may be gone.
    """
    found = dict(known or {})
    by_site: Files = {}
    for path in files if rule == PLACE else ():
        if path != STDIN:
            by_site.setdefault(site_of(path, rule, found), []).append(path)
    if not 1 < len(by_site) <= _SITES:
        return found
    from concurrent.futures import ThreadPoolExecutor  # with logging: only where there are several sites

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        reaches = _in_question(by_site, spans or {}, pool.map)
    later = _links(sorted(reaches, key=lambda reach: (reach.first, reach.site)))
    return {site: later.get(name, name) for site, name in found.items()} | later


class _Reach:
    """When a site has packets, and where connections begin and end in its first and its last file."""

    def __init__(self, site: str, first: int = _NEVER, last: int = -1) -> None:
        self.site = site
        self.first = first
        self.last = last  # at least so late, as far as its beginnings say
        self.is_whole = False  # whether `last` is its end
        self.begins: dict[Way, int] = {}  # sequence number of the first byte; not of new connections
        self.ends: dict[Way, int] = {}  # sequence number behind the last byte

    def goes_on_from(self, before: _Reach) -> bool:
        """Whether connections go on here where they stood at the end of another site."""
        both = self.begins.keys() & before.ends.keys()
        steps = [(before.ends[way] - self.begins[way]) % _WRAP for way in both]
        fitting = sum(step <= _RESENT for step in steps)
        return 0 < fitting >= len(steps) - fitting


class _Look(NamedTuple):
    """A stretch of a capture."""

    first: int
    last: int
    blocks: Sequence[PacketBlock]


Map = Callable[..., Iterable[_Look | None]]


def _in_question(by_site: Files, spans: Mapping[str, Span], each: Map) -> list[_Reach]:
    """The sites that end before another one begins, or begin behind the end of one.

    each: calls a function for each of some files. Where the first and the last file of a site, by name, already show
    that it overlaps all others, no more of them are opened.
    """
    reaches = {site: _seen(site, [files[0], files[-1]], spans.get(site), each) for site, files in by_site.items()}
    apart = _apart(reaches.values())
    if all(site in spans for site in apart):
        return []  # these were compared when the later one came
    reaches = {site: _seen(site, by_site[site][: _known(site, spans)], spans.get(site), each) for site in apart}
    wanted = _apart(reaches.values())
    latest = max((reaches[site].first for site in wanted), default=0)
    for site in wanted:
        if reaches[site].last <= latest:
            _look_at_end(reaches[site], by_site[site][::-1][: _known(site, spans)], spans.get(site), each)
    return [reaches[site] for site in wanted]


def _known(site: str, spans: Mapping[str, Span]) -> int | None:
    """How many files it takes, by name, to find the first or the last of a site; all where its span is not known."""
    return _SEARCHED if site in spans else None


def _apart(reaches: Iterable[_Reach]) -> list[str]:
    """Sites that may lie wholly before or behind another one."""
    some = [reach for reach in reaches if reach.last >= 0]
    first_end = min((reach.last for reach in some), default=0)
    last_start = max((reach.first for reach in some), default=0)
    return [reach.site for reach in some if reach.last <= last_start or first_end <= reach.first]


def _links(reaches: Sequence[_Reach]) -> dict[str, str]:
    """Site -> the one that it goes on from. reaches: by the times at which they begin."""
    name: dict[str, str] = {}
    ended: list[_Reach] = []  # of each capture point, that of its sites which came last
    for reach in reaches:
        before = [one for one in ended if one.is_whole and one.last <= reach.first and reach.goes_on_from(one)]
        if before:
            last = max(before, key=lambda one: (one.last, one.site))
            name[reach.site] = name.get(last.site, last.site)
            ended.remove(last)
        ended.append(reach)
    return name


def _seen(site: str, files: Sequence[str], span: Span | None, each: Map) -> _Reach:
    """What the beginnings of files say of a site."""
    reach = _Reach(site, *(span or ()))
    looks = [look for look in each(_head, dict.fromkeys(files)) if look is not None]
    reach.last = max([reach.last, *(look.last for look in looks)])
    first = min(looks, key=lambda look: look.first, default=None)
    if first is not None and first.first <= reach.first:
        reach.first = first.first
        for block in reversed(first.blocks):
            reach.begins |= _begins(block)
    return reach


def _look_at_end(reach: _Reach, files: Sequence[str], span: Span | None, each: Map) -> None:
    """Note where a site ends, if its files can say it."""
    looks = [look for look in each(_tail, files) if look is not None]
    if not looks:
        return
    last = max(looks, key=lambda look: look.last)
    reach.is_whole = span is None or span[1] <= last.last
    reach.last = max(reach.last, last.last)
    for block in last.blocks:
        reach.ends |= _ends(block)


def _begins(block: PacketBlock) -> dict[Way, int]:
    """Where each direction of connections begins in a block, of those that had begun before."""
    ways = _ways(block)
    new = {way for way, flags in zip(ways, block.flags.tolist(), strict=True) if flags & SYN}
    firsts = zip(reversed(ways), block.seq[::-1].tolist(), strict=True)
    return {way: seq for way, seq in firsts if way not in new}


def _ends(block: PacketBlock) -> dict[Way, int]:
    """Where each direction of connections ends in a block."""
    ends: dict[Way, int] = {}
    counted = block.size + ((block.flags & SYN) != 0) + ((block.flags & FIN) != 0)
    for way, end in zip(_ways(block), ((block.seq + counted) % _WRAP).tolist(), strict=True):
        if (end - ends.get(way, end)) % _WRAP < _WRAP // 2:  # not what was sent again
            ends[way] = end
    return ends


def _ways(block: PacketBlock) -> list[Way]:
    names = ("src_hi", "src_lo", "sport", "dst_hi", "dst_lo", "dport", "segment")
    return list(zip(*(getattr(block, name).tolist() for name in names), strict=True))


# --- beginnings and ends of files ------------------------------------------------------------------------------------


def _head(path: str) -> _Look | None:
    """The beginning of a capture; None where it has no packets."""
    try:
        reader = Reader(path, 0, Limits(block_bytes=_HEAD_BYTES))
    except InputError:
        return None
    blocks: list[PacketBlock] = []
    for block in reader.blocks():
        blocks.append(block)
        if reader.position >= _HEAD_BYTES:
            reader.close()
            break
    return _looked_at(reader, blocks)


def _tail(path: str) -> _Look | None:
    """The end of a capture; None where it has no packets. One that is not known lies behind everything."""
    part = _last_part(path)
    if part is None and file_size(path) > _READ_BYTES:
        return _Look(_NEVER, _NEVER, [])
    try:
        reader = Reader(path, 0, Limits(), part)
    except InputError:
        return None
    blocks: list[PacketBlock] = []
    for block in reader.blocks():
        blocks = [*blocks[-1:], block]
    return _looked_at(reader, blocks)


def _looked_at(reader: Reader, blocks: Sequence[PacketBlock]) -> _Look | None:
    """What was read of a file; None where no packet was."""
    first = reader.census.first_ns
    return None if first is None else _Look(first, reader.census.clock, blocks)


def _last_part(path: str) -> Part | None:
    """Where the last packets of a large plain pcap begin; None of another file, and where that is not clear."""
    size = file_size(path)
    if size <= _TAIL_BYTES:
        return None
    try:
        with open_raw(path) as file:
            format = MAGICS.get(file.read(4))
            if format is None:
                return None
            file.seek(size - _TAIL_BYTES)
            data = file.read(_TAIL_BYTES)
    except (OSError, InputError):
        return None
    captured = struct.Struct(f"{format.order}II").unpack_from  # captured and original length, 8 bytes into a header
    for start in range(min(len(data) // 2, 256 * KIB)):
        at, chained = start, 0
        while chained < _CHAIN and at + format.header <= len(data):
            have, original = captured(data, at + 8)
            if not 0 < have <= 256 * KIB or have > original:
                break
            at, chained = at + format.header + have, chained + 1
        if chained == _CHAIN:
            at = size - len(data) + start
            return Part(at, size - at, 1, 0)
    return None
