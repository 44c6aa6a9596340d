"""One capture file: open it, find its format, give its TCP packets block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import IO, BinaryIO, NamedTuple

import numpy as np

from dissectors.capture import pcap, pcapng
from dissectors.capture.beginning import Beginning
from dissectors.capture.block import PacketBlock
from dissectors.capture.fragments import Fragments
from dissectors.capture.headers import LINK_TYPES, link_name, unread_link
from dissectors.capture.raw import Census, RawBlock, packets
from dissectors.capture.source import open_capture, read_fully
from dissectors.errors import InputError, TruncatedError
from dissectors.limits import KIB, Limits
from dissectors.redaction import public_path
from dissectors.wording import counted, were

_CONVERT, _UNPACK = "Wireshark's `editcap -F pcapng` converts it", "unpack it first"
_OTHERS = {
    b"snoop": ("a snoop capture", _CONVERT),
    b"GMBU": ("a Network Monitor capture", _CONVERT),
    b"XCP": ("a Sniffer capture", _CONVERT),
    b"PK\3\4": ("a zip archive", _UNPACK),
    b"7z\xbc": ("a 7z archive", _UNPACK),
}
_HEAD = pcap.FILE_HEADER
_GLANCE = 16 * KIB  # read of a file that may be no capture


class Part(NamedTuple):
    """A stretch of a capture file: whole packets only."""

    offset: int | None  # of its first packet header in an uncompressed pcap file; elsewhere packets are counted off
    size: int
    number: int  # of its first packet
    clock: int  # latest time before it, ns
    after: int = -1  # packets up to this time, ns, are left out


class Reached(NamedTuple):
    """How far a file has been read."""

    packets: int | None = 0  # so many; None where it is not known
    end: int | None = None  # of a plain pcap: where the next packet header lies, or will lie
    clock: int = 0  # latest time, ns


NOTHING = Reached()
_MARKS = 64  # of a reader, at most
_NAMED = 5  # captures that were joined, at most


class Reader:
    """The packets of one file, or of a part of it."""

    def __init__(
        self,
        path: str,
        file: int,
        limits: Limits,
        part: Part | None = None,
        fragments: Fragments | None = None,
        size: int | None = None,
    ) -> None:
        """file: the index that its packets carry; fragments: those of its site; size: bytes of the file that count.

        Raises InputError for no capture.
        """
        self.path = path
        self.file = file
        self.limits = limits
        self.census = Census()
        self.notes = pcapng.Notes()
        self.problem: str | None = None  # why it ended early
        self.links: Counter[int] = Counter()  # packets of each link type
        self.joined: list[int] = []  # numbers of the packets with which another capture begins in the same file
        self.beginning: Beginning | None = None  # where somebody wants to know the file again
        self.packets = 0  # number of the last packet that was read
        self.marks: list[Reached] = []  # places from which the rest can be read: nothing waits there for its fragments
        self._part = part
        self._position = 0
        self._stream: IO[bytes]
        self._raw: BinaryIO
        self._stream, self.compression, self._raw = open_capture(path, size=size)
        self._head, problem = read_fully(self._stream, _HEAD)
        self.format = _format(self._head)
        if self.format is None:
            self._raw.close()
            what = what_it_is(self._head) if self._head else "is empty"
            raise InputError(f"{path}: {f'cannot be decompressed: {problem}' if problem else what}")
        if self.format != "pcapng" and len(self._head) < _HEAD:
            self._raw.close()
            raise InputError(f"{path}: is cut off in the file header{f': {problem}' if problem else ''}")
        self.fragments = fragments or Fragments()
        self._end = part.offset if part is not None and part.offset is not None else _HEAD

    @property
    def paused(self) -> bool:
        """Whether the file is a pipe that gives no more for now."""
        return getattr(self._stream, "paused", False)

    @property
    def position(self) -> int:
        """Bytes of the file read so far, for a progress bar."""
        if not self._raw.closed:
            try:
                self._position = self._raw.tell()
            except OSError:  # a pipe has no position
                return 0
        return self._position

    @property
    def packet_header(self) -> int | None:
        """Bytes of a packet header, where a packet's place in the file is where it lies on disk: in a plain pcap."""
        format = pcap.MAGICS.get(self._head[:4])
        return format.header if format is not None and self.compression is None else None

    @property
    def end(self) -> int | None:
        """Where, in a plain pcap, the packet header after the last packet that was read lies, or will lie."""
        return None if self.packet_header is None or self.joined else self._end

    def raw_blocks(self) -> Iterator[RawBlock]:
        """All packets, headers unread. A damaged end is described in `problem`."""
        try:
            yield from filter(None, map(self._wanted, self._containers()))
        except TruncatedError as error:
            self.problem = f"{public_path(self.path)}: {error}"
        finally:
            self.close()

    def close(self) -> None:
        """Read no more."""
        _ = self.position  # as far as it came: kept behind the end
        self._raw.close()

    def blocks(self) -> Iterator[PacketBlock]:
        """The TCP packets."""
        return filter(None, map(self._packets, self.raw_blocks()))

    def _packets(self, raw: RawBlock) -> PacketBlock | None:
        """The TCP packets of a block."""
        counts = np.bincount(raw.link)
        self.links.update({link: int(counts[link]) for link in np.flatnonzero(counts).tolist()})
        block = packets(raw, self.file, self.census, self.fragments)
        if not self.fragments.wait_at(self.census.clock):
            self.marks.append(Reached(self.packets, self.end, self.census.clock))
            if len(self.marks) > _MARKS:
                del self.marks[::2]
        return block if block is None or self._part is None else block.cut_at(self._part.after)[1]

    def remarks(self) -> list[tuple[str, str]]:
        """(kind of finding, sentence): what else is to be reported of the file, once it has been read."""
        out: list[tuple[str, str]] = []
        name = public_path(self.path)
        if self.census.overlaps:
            text = f"{self.census.overlaps} IP fragments disagree with bytes that came before them"
            out.append(("fragment_overlap", f"{name}: {text}"))
        if self.notes.drops:
            out.append(("capture_drops", f"{name}: the capturer says that it lost {self.notes.drops} packets"))
        joined = sorted({*self.joined, *self.notes.sections} - {1})
        if joined:
            places = f"packet {', '.join(map(str, joined[:_NAMED]))}{' …' if len(joined) > _NAMED else ''}"
            out.append(("joined_files", f"{name}: {counted(len(joined), 'more capture')} in this file, from {places}"))
        if self.census.timeless:
            text = f"{were(self.census.timeless, 'packet')} written without a time"
            out.append(("no_time", f"{name}: {text}"))
        out += [("unread_link_type", f"{name}: {unread}, which is not read") for unread in self.unread_links]
        return out

    @property
    def link_names(self) -> list[str]:
        """Link types met, by name."""
        return [link_name(link) for link in sorted(self.links)]

    @property
    def unread_links(self) -> list[str]:
        """Link types met that are not read, with their packets: `30 packets of link type 147 (user0)`."""
        unread = sorted(link for link in self.links if link not in LINK_TYPES)
        return [f"{counted(self.links[link], 'packet')} of {unread_link(link)}" for link in unread]

    def _wanted(self, raw: RawBlock) -> RawBlock:
        """What of the packets belongs to the part."""
        self.packets = raw.number + len(raw) - 1
        self._end += int(raw.have.sum()) + len(raw) * (self.packet_header or 0)
        if self.beginning is not None and not self.beginning.is_whole:
            self.beginning.add(raw)
        return raw if self._part is None else raw.since(self._part.number)

    def _containers(self) -> Iterator[RawBlock]:
        part = self._part
        if part is not None:
            self.census.clock = part.clock
        head, number, size = self._head, 1, None
        if part is not None and part.offset is not None:
            self._stream.seek(part.offset)
            number, size = part.number, part.size
        while True:  # for each of the captures that were joined to this file
            try:
                if _format(head) == "pcapng":
                    yield from pcapng.blocks(self._stream, head, self.limits, self.notes, number)
                else:
                    yield from pcap.blocks(self._stream, head, self.limits, number=number, size=size)
                return
            except TruncatedError as error:
                head, size = error.rest, error.remaining
                if len(head) < _HEAD:
                    head += read_fully(self._stream, _HEAD - len(head))[0]
                if _format(head) is None or len(head) < _HEAD:
                    raise
                number = self.packets + 1
                self.joined.append(number)


def what_it_is(head: bytes) -> str:
    """What to say of a file with these first bytes, which is no capture that can be read."""
    for magic, (format, way) in _OTHERS.items():
        if head.startswith(magic):
            return f"is {format}, not a pcap or pcapng capture: {way}"
    return "is not a pcap or pcapng capture"


def _format(head: bytes) -> str | None:
    if head[:4] == pcapng.MAGIC:
        return "pcapng"
    found = pcap.MAGICS.get(head[:4])
    return found.name if found else None


def is_capture(path: str) -> bool:
    """Whether a file, once decompressed, begins like a capture; or may, but cannot be read so far as to be sure."""
    try:
        stream, _, raw = open_capture(path, ahead=_GLANCE)
    except InputError:
        return True
    with raw:
        head, problem = read_fully(stream, 4)
    return _format(head) is not None or (problem is not None and not head)
