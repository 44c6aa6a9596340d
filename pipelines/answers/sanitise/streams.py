"""What stands for the bytes of each connection.

Captures are decoded once more by the decoders themselves, which tell a listener of every frame and of what is in no
frame. These bytes go to a temporary file, and when all rows are known, what stands for them goes to another: by then it
is known what an answer belongs to, and where batches lie behind a hole.
"""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any

from dissectors.capture.files import site_of
from dissectors.capture.fragments import Fragments
from dissectors.capture.merge import merge
from dissectors.capture.reader import Reader
from dissectors.engine import Engine, decode_all, end_all
from dissectors.options import Options
from dissectors.records import PACKET_MASK, PACKET_SHIFT, Conn
from dissectors.redaction import public_path
from dissectors.rows.sink import Sink
from dissectors.run import peek
from dissectors.session.conversation import Conversation, Protocol
from dissectors.session.frame import Frame
from dissectors.session.protocols import named, protocols
from dissectors.session.search import Recogniser
from dissectors.session.spans import FrameSpans
from dissectors.tcp.chunk import CLIENT, SERVER, Gap
from dissectors.wire.reader import ReadError
from pipelines.answers.sanitise.frame_copy import FrameCopy
from pipelines.answers.sanitise.pseudonyms import Pseudonyms

TABLES = ("exchanges", "batches", "connections")
_ALL = 1 << 40  # connections that are not packed: what a listener hears cannot be carried on elsewhere

Key = tuple[str, int]  # name of a connection, incarnation


class _Direction:
    """The pieces of one direction: where each lies in the stream, and in the file that holds its bytes."""

    def __init__(self) -> None:
        self.starts = array("q")  # stream offsets
        self.sizes = array("q")  # of what is at hand
        self.announced = array("q")  # of the frame, whose end may not be at hand
        self.places = array("q")  # in the file of bytes
        self.packets = array("q")  # packet of the first byte; -1 for bytes in no frame
        self.copies: list[tuple[int, int, int]] = []  # stream offset, place of what stands for it, number of the piece
        self.gaps: list[tuple[int, int]] = []  # stream offsets [start, end)
        self.base: int | None = None  # TCP sequence number of stream offset 0


class Stream:
    """One connection that was recognised."""

    def __init__(self, conn: Conn, names: Pseudonyms) -> None:
        self.conn = conn
        self.names = names
        self.segments: frozenset[str] = frozenset()  # its VLANs or VNIs, where others have the same addresses
        self.directions = (_Direction(), _Direction())


class Streams:
    """The connections of captures, and what stands for their bytes. Use as a context: it holds temporary files."""

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self.streams: dict[Key, Stream] = {}
        self.lost = 0  # compressed batches that no longer decompress
        self._stack = ExitStack()
        self._source: IO[bytes] = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._out: IO[bytes] = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    # --- first: what the captures hold ---

    def read(self, paths: Sequence[str], options: Options) -> None:
        """Decode captures of one capture point, and write what stands for their bytes."""
        rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
        engine = _Listened(options, list(paths), self)
        site = site_of(paths[0], options.site, options.joined)
        for batches in (decode_all(engine, ((site, block) for block in _blocks(paths, options))), end_all(engine)):
            for table, batch in batches:
                rows[table] += batch.select(_COLUMNS[table]).to_pylist()
        self._rewrite(rows, [public_path(path) for path in paths])

    def piece(
        self, conversation: Conversation, direction: int, offset: int, data: bytes, size: int, packet_ref: int
    ) -> None:
        """Take bytes of a direction: a frame of so many bytes, or bytes in no frame (packet_ref -1)."""
        conn, bases = conversation.conn, conversation.bases
        if bases is None or bases[direction] is None or not data:
            return  # under TLS: the packets hold other bytes
        way = self._stream(conn).directions[direction]
        way.base = bases[direction]
        way.starts.append(offset)
        way.sizes.append(len(data))
        way.announced.append(size)
        way.places.append(self._source.tell())
        way.packets.append(packet_ref)
        self._source.write(data)

    def gap(self, conversation: Conversation, direction: int, gap: Gap) -> None:
        """Take note of bytes that were not captured."""
        self._stream(conversation.conn).directions[direction].gaps.append((gap.offset, gap.offset + gap.length))

    def _stream(self, conn: Conn) -> Stream:
        return self.streams.setdefault((conn.connection, conn.incarnation), Stream(conn, self.names))

    # --- then: what stands for it ---

    def _rewrite(self, rows: Mapping[str, Sequence[Mapping[str, Any]]], files: Sequence[str]) -> None:
        answers = _answers(rows["exchanges"], files)
        loose = _batches(rows["batches"])
        dialects = {_key(row): row["dialect"] for row in rows["connections"]}
        segments = {_key(row): row["segment"] for row in rows["connections"] if row["segment"]}
        networks = {segment: self.names.within(segment) for segment in segments.values()}
        for key, stream in self.streams.items():
            if key in segments:
                stream.names = networks[segments[key]]
                stream.segments = frozenset(segments[key].split("/"))
            protocol = named(stream.conn.protocol)
            spans = FrameSpans() if protocol is None else protocol.spans(dialects.get(key))
            for direction, at in _in_order(stream):
                way = stream.directions[direction]
                start, size = way.starts[at], way.sizes[at]
                self._source.seek(way.places[at])
                holes = [(a - start, b - start) for a, b in way.gaps if a < start + size and b > start]
                copy = FrameCopy(self._source.read(size), stream.names, holes, way.announced[at])
                if way.packets[at] >= 0:
                    answered = answers.get((key, way.packets[at]), _Answers()) if direction == SERVER else _Answers()
                    with suppress(ReadError):
                        spans.frame(copy, direction, answered.take)
                spans.batches(copy, _within(loose.get((key, direction), ()), start, size))
                self.lost += copy.lost
                way.copies.append((start, self._out.tell(), at))
                self._out.write(copy.made())
        for stream in self.streams.values():
            for way in stream.directions:
                way.copies.sort()

    # --- at last: the bytes of packets ---

    def bytes_at(self, stream: Stream, direction: int, offset: int, source: bytes) -> bytes:
        """What stands for `source`, the bytes of a direction from a stream offset on.

        Bytes that differ from those that the decoders took, in a packet that was sent again, differ in a bit from what
        stands for those.
        """
        way = stream.directions[direction]
        out = bytearray(b"\xff") * len(source)
        index = max(0, bisect_right(way.copies, (offset, 1 << 62, 0)) - 1)
        while index < len(way.copies) and way.copies[index][0] < offset + len(source):
            start, place, at = way.copies[index]
            first, last = max(offset, start), min(offset + len(source), start + way.sizes[at])
            if first < last:
                part = slice(first - offset, last - offset)
                out[part] = _read(self._out, place + first - start, last - first)
                taken = _read(self._source, way.places[at] + first - start, last - first)
                if taken != source[part]:
                    out[part] = bytes(
                        new ^ (old != seen) for new, old, seen in zip(out[part], taken, source[part], strict=True)
                    )
            index += 1
        return bytes(out)


def _read(file: IO[bytes], place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)


_COLUMNS = {
    "exchanges": ["connection", "incarnation", "api_code", "version", "correlation_id", "time", "response_file",
                  "response_packet", "response_bytes", "request_file", "request_packet", "kind"],
    "batches": ["connection", "incarnation", "role", "stream_offset", "stored_bytes", "format"],
    "connections": ["connection", "incarnation", "dialect", "segment"],
}  # fmt: skip


class _Answers:
    """The exchanges whose answers begin in one packet."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []

    def take(self, correlation_id: int | None) -> tuple[int, int | None] | None:
        """(API code, version) of the next one, with this correlation id where one is given; None for none."""
        for at, row in enumerate(self.rows):
            if correlation_id is None or row["correlation_id"] == correlation_id:
                del self.rows[at]
                return None if row["api_code"] is None else (row["api_code"], row["version"])
        return None


def _answers(rows: Sequence[Mapping[str, Any]], files: Sequence[str]) -> dict[tuple[Key, int], _Answers]:
    """The exchanges by connection and packet of the answer, in the order of their requests."""
    numbers = {file: number for number, file in enumerate(files)}
    found: dict[tuple[Key, int], _Answers] = {}
    for row in sorted(rows, key=lambda row: (row["time"] is None, row["time"], row["request_packet"] or 0)):
        if row["response_packet"] is not None:
            place = numbers[row["response_file"]] << PACKET_SHIFT | row["response_packet"] & PACKET_MASK
            found.setdefault((_key(row), place), _Answers()).rows.append(row)
    return found


def _batches(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Key, int], list[tuple[int, int]]]:
    """Stream offset and bytes of each batch, by connection and direction, in order."""
    found: dict[tuple[Key, int], list[tuple[int, int]]] = {}
    for row in rows:
        if row["stream_offset"] is not None and row["stored_bytes"]:
            direction = CLIENT if row["role"] == "produce" else SERVER
            found.setdefault((_key(row), direction), []).append((row["stream_offset"], row["stored_bytes"]))
    for each in found.values():
        each.sort()
    return found


def _within(batches: Sequence[tuple[int, int]], start: int, size: int) -> list[tuple[int, int]]:
    """Index and bytes of the batches that begin in a piece of a stream of so many bytes."""
    first, last = bisect_left(batches, (start,)), bisect_left(batches, (start + size,))
    return [(offset - start, length) for offset, length in batches[first:last]]


def _key(row: Mapping[str, Any]) -> Key:
    return row["connection"], row["incarnation"]


def _in_order(stream: Stream) -> Iterator[tuple[int, int]]:
    """(direction, number of a piece): as the decoders met them, by where they lie in the file of bytes."""
    every = [(place, d, at) for d in (CLIENT, SERVER) for at, place in enumerate(stream.directions[d].places)]
    for _, direction, at in sorted(every):
        yield direction, at


def _blocks(paths: Sequence[str], options: Options) -> Iterator[Any]:
    """The TCP packets of files of one capture point, in time order."""
    fragments = Fragments()
    openers = []
    for number, path in enumerate(paths):
        reader = Reader(path, number, options.limits, fragments=fragments)
        openers.append((peek(path, options.limits)[0], reader.blocks))
    yield from merge(openers, fragments.up_to)


# --- listening to decoders -------------------------------------------------------------------------------------------


class _Listened(Engine):
    """An engine whose conversations tell of their frames."""

    def __init__(self, options: Options, files: list[str], streams: Streams) -> None:
        limits = options.limits._replace(unpacked=_ALL)
        super().__init__(options._replace(tables=TABLES, jobs=1, limits=limits), files)
        self._protocols = tuple(_ListenedProtocol(protocol, streams) for protocol in protocols())


class _ListenedProtocol(Protocol):
    """A protocol whose conversations tell of their frames."""

    def __init__(self, protocol: Protocol, streams: Streams) -> None:
        self.name, self.ports = protocol.name, protocol.ports
        self._protocol, self._streams = protocol, streams
        self._kinds: dict[Any, Any] = {}

    def recognise(self, client: bytes, server: bytes) -> float:
        return self._protocol.recognise(client, server)

    def recogniser(self) -> Recogniser:
        return self._protocol.recogniser()

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        made = self._protocol.conversation(conn, sink, options, midstream=midstream)
        kind: Any = type(made)
        if kind not in self._kinds:
            self._kinds[kind] = _listening(kind, self._streams)
        made.__class__ = self._kinds[kind]
        return made


def _listening(kind: Any, streams: Streams) -> Any:
    """A kind of conversation that tells of its frames, of holes, and of bytes in no frame."""

    class Listening(kind):  # type: ignore[misc]
        __slots__ = ()

        def on_frame(self, frame: Frame) -> None:
            """Tell of a frame."""
            data = frame.data[frame.start : frame.end]
            streams.piece(self, frame.direction, frame.offset, data, frame.size, frame.packet_ref)
            super().on_frame(frame)

        def receive(self, direction: int, event: Any) -> None:
            """Tell of a hole."""
            if isinstance(event, Gap):
                streams.gap(self, direction, event)
            super().receive(direction, event)

        def on_skipped(self, direction: int, start: int, end: int) -> None:
            """Tell of bytes in no frame."""
            inbox = self.inboxes[direction]
            data = inbox.buf[inbox.pos : inbox.pos + end - start]
            streams.piece(self, direction, start, data, end - start, -1)
            super().on_skipped(direction, start, end)

    return Listening
