"""What a protocol is to the engine, and what the engine promises a protocol.

Sans-IO, as in h11: a Conversation is fed the bytes of both directions of one connection and appends rows to a sink. It
opens nothing and reads no clock. The base class owns what all protocols share: it keeps the bytes that are not framed
yet, cuts frames by the length that the protocol reads from their first bytes, hands them over **in the order in which
they were complete on the wire, both directions merged**, steps over holes, finds the way back after them, and counts
every byte once as framed, skipped or pending.

A protocol supplies four small functions:

    measure    how long is the frame that starts here?
    resync     where, from here on, does a frame start?
    on_frame   here is a frame
    on_close   nothing more will come
"""

from __future__ import annotations

import json
import typing
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, ClassVar, Literal, NamedTuple

from dissectors.inbox import INVALID, MORE, Inbox
from dissectors.options import Options
from dissectors.records import Conn, Finding
from dissectors.sink import Sink, Suspect
from dissectors.tcp.chunk import CLIENT, SERVER, SIDES, Chunk, Gap, Piece, Resent, Span, whole

_NEVER = 1 << 62
_new = tuple.__new__  # a NamedTuple without the detour over its keyword constructor


class Frame(NamedTuple):
    """One frame. `data[start:end]` holds it, prefix included, with zeros where bytes are missing."""

    direction: int
    data: bytes
    start: int
    end: int  # index after the last byte at hand: less than start + size only for a frame cut off by a hole or the end
    size: int  # as announced, prefix included
    known: int  # index up to which every byte was captured; == start + size for a complete frame
    offset: int  # stream offset of the first byte
    order: int  # delivery order of the last byte
    first_ns: int  # first arrival of the first byte
    last_ns: int  # first arrival of the last byte
    place: int  # packet of the first byte
    resent: bool  # a byte of it was sent more than once

    @property
    def complete(self) -> bool:
        return self.known == self.start + self.size


_ORDER = itemgetter(Frame._fields.index("order"))


class Summary(NamedTuple):
    """What the conversation adds to its connection's row."""

    dialect: str | None = None
    client_software: str | None = None
    client_version: str | None = None
    server_version: str | None = None
    frames: int = 0
    framed_bytes: int = 0
    skipped_bytes: int = 0
    pending_bytes: int = 0


class Conversation:
    """One connection of one protocol. Subclasses supply measure, resync, on_frame and on_close."""

    steady: ClassVar[bool] = False
    """The size of a frame does not depend on the frames before it: many may be cut before the first is decoded."""

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        self.conn = conn
        self.sink = sink
        self.options = options
        self.inboxes = (Inbox(midstream), Inbox(midstream))
        self.frames = 0
        self.framed_bytes = 0
        self.skipped_bytes = 0
        self.pending_bytes = 0
        self.closed = False
        self.bases: tuple[int, int] | None = None  # TCP sequence numbers of stream offset 0; None under TLS

    # --- what the engine calls ---

    def receive(self, direction: int, event: Chunk | Span | Gap) -> None:
        """Take bytes or a hole of one direction. Nothing is decoded before `advance`."""
        inbox = self.inboxes[direction]
        if inbox.discard:
            rest = self._discard(inbox, whole(event))
            if rest is None:
                return
            event = rest
        inbox.queue.append(event)
        if isinstance(event, Gap):
            inbox.gaps += 1
        else:
            inbox.queued += len(event.data)

    def _discard(self, inbox: Inbox, event: Chunk | Gap) -> Chunk | Gap | None:
        """What is left of an event behind the rest of a frame that was given up."""
        if isinstance(event, Gap):
            gone = min(inbox.discard, event.length)
            inbox.discard -= gone
            left = event._replace(offset=event.offset + gone, length=event.length - gone)
            return left if left.length else None
        gone = min(inbox.discard, len(event.data))
        inbox.discard -= gone
        self.skipped_bytes += gone
        if gone == len(event.data):
            return None
        offset = event.offset + gone
        first = bisect_right(event.starts, offset) - 1
        return Chunk(
            offset,
            event.data[gone:],
            [offset, *event.starts[first + 1 :]],
            event.orders[first:],
            event.places[first:],
            event.times[first:],
        )

    def note_resent(self, direction: int, resent: Resent) -> None:
        """Bytes were sent again."""
        self.inboxes[direction].resent += (resent,)

    def advance(self, final: bool = False) -> None:
        """Decode every frame that is complete, in the order in which they became complete."""
        client, server = self.inboxes
        if self.steady and not client.lost:
            self._stretch()
        self._step_by_step(client, server, final)
        for inbox in (client, server):
            inbox.trim()
            inbox.detach()

    def drop(self, direction: int, size: int) -> None:
        """Frames were cut from outside, out of the first bytes at hand."""
        inbox = self.inboxes[direction]
        if size:
            inbox.size = MORE
            inbox.drop(size)
        if inbox.queue:
            inbox.absorb()
        if inbox.size == MORE and inbox.pos < len(inbox.buf):
            inbox.size = self.measure(direction, inbox.buf, inbox.pos, len(inbox.buf))
        if inbox.pos == len(inbox.buf):
            inbox.clear()
        elif inbox.pos:
            inbox.trim()

    def _step_by_step(self, client: Inbox, server: Inbox, final: bool) -> None:
        """The careful loop: one event at a time, whichever direction has the earlier one."""
        while True:
            first, second = self._head(CLIENT, client, final), self._head(SERVER, server, final)
            if first <= second or (client.lost and first != _NEVER):
                if first == _NEVER:
                    return
                self._take(CLIENT, client, final)
            elif client.lost and not final and server.queued < self.options.limits.held_bytes and self._waits(client):
                return  # what the server answered makes sense only once the client's frames are found again
            else:
                self._take(SERVER, server, final)

    def close(self) -> None:
        """The connection has ended, or the capture has."""
        if self.closed:
            return
        self.closed = True
        client, server = self.inboxes
        if client.buf or client.queue or server.buf or server.queue:
            self.advance(final=True)
            for direction, inbox in enumerate(self.inboxes):
                self._cut(direction, inbox)
        self.on_close()

    @property
    def held(self) -> int:
        """Bytes kept for frames that are not whole yet."""
        a, b = self.inboxes
        return len(a.buf) + a.parts_size + a.queued + len(b.buf) + b.parts_size + b.queued

    @property
    def plain(self) -> bool:
        """Whether nothing is missing in what is at hand, so that all its whole frames may be cut at once."""
        a, b = self.inboxes
        return not (a.lost or a.holes or a.gaps or b.lost or b.holes or b.gaps)

    def shed(self) -> None:
        """Give up frames that are not whole yet: too much memory is held. Their rest is skipped as it comes."""
        self.advance(final=True)
        for direction, inbox in enumerate(self.inboxes):
            inbox.join()
            left = len(inbox.buf) - inbox.pos
            if left <= 0:
                continue
            offset = inbox.base + inbox.pos
            piece = inbox.piece(offset)
            self.finding(
                "limit",
                "warning",
                f"A frame of {inbox.size} bytes was given up after {left}: too much memory was held"
                if inbox.size > 0
                else f"{left} bytes were given up: too much memory was held",
                direction=direction,
                time=inbox.times[piece],
                place=inbox.places[piece],
                offset=offset,
                length=left,
            )
            discard = max(0, inbox.size - left) if not inbox.lost else 0
            self._cut(direction, inbox)
            inbox.discard = discard
            inbox.trim()

    def summary(self) -> Summary:
        """For the connection's row."""
        return Summary(None, None, None, None, self.frames, self.framed_bytes, self.skipped_bytes, self.pending_bytes)

    # --- what a protocol supplies ---

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        """Whole size of the frame at buf[pos], of which buf[pos:end] is at hand: the size, MORE or INVALID."""
        raise NotImplementedError

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        """The first index in [pos, end) at which a frame starts.

        (index, True) where it is certain; (index, False) where nothing before index can be a start and more bytes are
        needed to judge index itself. With `final` no more bytes will come. The answer must depend on the bytes and on
        frames seen before only, not on how they were cut: judge candidates from left to right.
        """
        raise NotImplementedError

    def on_frame(self, frame: Frame) -> None:
        """A frame, complete or with bytes missing; in the order of `frame.order` over both directions."""
        raise NotImplementedError

    def on_gap(self, direction: int, gap: Gap) -> None:
        """Bytes are missing between frames or within one: answers or requests may have been in them."""

    def on_close(self) -> None:
        """Nothing more will come: tell what is still open."""

    # --- findings ---

    def finding(
        self,
        kind: str,
        severity: str,
        message: str,
        *,
        direction: int | None = None,
        time: int | None = None,
        place: int | None = None,
        offset: int | None = None,
        length: int | None = None,
        **evidence: Any,
    ) -> None:
        """Add a row to `findings`. Evidence must hold no payload and no secret."""
        if "findings" in self.sink.tables:
            side = None if direction is None else SIDES[direction]
            details = json.dumps(evidence, default=str) if evidence else None
            self.sink.findings.append(
                Finding(self.conn, kind, severity, side, message, time, place, offset, length, details)
            )

    def finding_at(self, frame: Frame, kind: str, severity: str, message: str, **evidence: Any) -> None:
        """A finding about a frame."""
        self.finding(
            kind,
            severity,
            message,
            direction=frame.direction,
            time=frame.first_ns,
            place=frame.place,
            offset=frame.offset,
            length=frame.size,
            **evidence,
        )

    def suspect(
        self,
        frame: Frame,
        format: str,
        kind: str,
        stored: int,
        computed: int,
        *,
        unit: tuple[int, int],
        covered: Sequence[tuple[int, int]],
        checksum: tuple[int, int],
        byteorder: Literal["big", "little"],
    ) -> None:
        """Keep what forensics needs of a unit with a wrong checksum, if anybody asks for it.

        unit, covered, checksum: [start, end) in frame.data; what is covered must lie in the unit.
        """
        suspects, limits = self.sink.suspects, self.options.limits
        if suspects is None or len(suspects) >= limits.suspects:
            return
        start, end = unit
        if end - start + sum(len(kept.unit) for kept in suspects) > limits.suspect_bytes:
            return
        offset = frame.offset + start - frame.start
        pieces = self.inboxes[frame.direction].pieces(offset, offset + end - start)
        if not pieces or pieces[0].start > offset:  # the frame was handed over long ago
            pieces = [Piece(frame.offset, frame.place, frame.first_ns)]
        suspects.append(
            Suspect(
                self.conn,
                frame.direction,
                offset,
                frame.data[start:end],
                format,
                kind,
                stored,
                computed,
                tuple((a - start, b - start) for a, b in covered),
                checksum[0] - start,
                checksum[1] - checksum[0],
                byteorder,
                None if self.bases is None else self.bases[frame.direction],
                tuple(pieces),
            )
        )

    def locate(self, frame: Frame, at: int) -> tuple[int, int]:
        """Time and packet of the byte at index `at` of a frame that is being handed over."""
        offset = frame.offset + at - frame.start
        pieces = self.inboxes[frame.direction].pieces(offset, offset + 1)
        if not pieces or offset < frame.offset:  # it was handed over long ago
            return frame.first_ns, frame.place
        return pieces[0].time, pieces[0].place

    # --- framing ---

    def _stretch(self) -> None:
        """Cut and hand over all whole frames at hand: the common case, in which nothing is missing, quickly.

        Where a byte is missing or fits no frame, nothing is done: the order of frames matters then, and the careful
        loop keeps it.
        """
        if not self.plain:
            return
        found: list[Frame] = []
        for direction, inbox in enumerate(self.inboxes):
            frames = self._split(direction, inbox)
            if frames is None:
                return
            found += frames
        for direction, inbox in enumerate(self.inboxes):
            last = next((f for f in reversed(found) if f.direction == direction), None)
            if last is not None:
                self.framed_bytes += last.end - inbox.pos
                inbox.pos, inbox.size = last.end, MORE
                inbox.mark = min(inbox.piece(inbox.base + last.end), len(inbox.starts) - 1)
        self.frames += len(found)
        found.sort(key=_ORDER)  # two ascending runs: merged, not sorted
        on_frame = self.on_frame
        for frame in found:
            on_frame(frame)

    def _split(self, direction: int, inbox: Inbox) -> list[Frame] | None:
        """The whole frames at the head of a direction; None where something else stands between them."""
        inbox.absorb()
        frames: list[Frame] = []
        measure, buf, pos, end, base = self.measure, inbox.buf, inbox.pos, len(inbox.buf), inbox.base
        starts, orders, times, places = inbox.starts, inbox.orders, inbox.times, inbox.places
        first, final = inbox.mark, len(starts) - 1
        resent = False
        while pos < end:
            size = measure(direction, buf, pos, end)
            if size == INVALID:
                return None
            after = pos + size
            if size == MORE or after > end:
                break
            stop = base + after
            last = first
            if last < final and starts[last + 1] < stop:
                last = bisect_right(starts, stop - 1, last + 1) - 1
            if inbox.resent:
                resent = inbox.was_resent(base + pos, stop, orders[last])
            values = (direction, buf, pos, after, size, after, base + pos, orders[last], times[first], times[last],
                      places[first], resent)  # fmt: skip
            frames.append(_new(Frame, values))
            pos = after
            first = last + 1 if last < final and starts[last + 1] == stop else last
        return frames

    def _head(self, direction: int, inbox: Inbox, final: bool) -> int:
        """Order of the next event of a direction (a frame, an invalid start, a cut at a hole), or _NEVER."""
        while True:
            have = len(inbox.buf)
            if inbox.lost and self._unsearched(inbox, final):
                return inbox.orders[inbox.piece(max(inbox.looked, inbox.base + inbox.pos))]
            if not inbox.lost and inbox.pos < have:
                if inbox.size == MORE:
                    inbox.size = self.measure(direction, inbox.buf, inbox.pos, have)
                if inbox.size > 0 and inbox.pos + inbox.size <= have:
                    return inbox.orders[inbox.piece(inbox.base + inbox.pos + inbox.size - 1)]
                if inbox.size == INVALID:
                    return inbox.orders[inbox.piece(inbox.base + inbox.pos)]
            if not inbox.queue:
                return _NEVER
            event = inbox.queue[0]
            if isinstance(event, Gap):
                return event.order
            inbox.queue.pop(0)
            inbox.queued -= len(event.data)
            inbox.put(whole(event))

    def _take(self, direction: int, inbox: Inbox, final: bool) -> None:
        """Consume what _head announced."""
        if inbox.lost and self._unsearched(inbox, final):
            self._search(direction, inbox, final)
            return
        if not inbox.lost and inbox.pos < len(inbox.buf):
            if inbox.size == INVALID:
                inbox.size = self.measure(direction, inbox.buf, inbox.pos, len(inbox.buf))  # with today's state
            if inbox.size > 0 and inbox.pos + inbox.size <= len(inbox.buf):
                self._frame(direction, inbox, inbox.pos + inbox.size)
                return
            if inbox.size == INVALID:
                offset = inbox.base + inbox.pos
                at = inbox.piece(offset)
                self.finding(
                    "malformed_frame",
                    "error",
                    "These bytes are no frame; looking for the next one",
                    direction=direction,
                    time=inbox.times[at],
                    place=inbox.places[at],
                    offset=offset,
                )
                self._lose(inbox)
                inbox.pos += 1  # whatever starts here is no frame
                inbox.searched = 1
                self.skipped_bytes += 1
                return
        gap = inbox.queue[0] if inbox.queue else None
        if not isinstance(gap, Gap):
            return
        inbox.queue.pop(0)
        inbox.gaps -= 1
        if not inbox.lost and 0 < gap.length <= inbox.size - inbox.have:
            self._tell_gap(direction, gap)
            inbox.put_zeros(gap)  # the hole lies inside a frame of known length: step over it
            return
        self._cut(direction, inbox)
        self._tell_gap(direction, gap)
        inbox.base, inbox.buf, inbox.pos, inbox.mark = gap.offset + gap.length, b"", 0, 0
        self._lose(inbox)

    def _frame(self, direction: int, inbox: Inbox, end: int) -> None:
        """Hand over buf[pos:end] and move on."""
        start, size, base = inbox.pos, inbox.size, inbox.base
        offset = base + start
        first = inbox.mark
        last = inbox.piece(base + end - 1)
        order = inbox.orders[last]
        stop = offset + size
        known = end
        if inbox.holes:
            for a, b in inbox.holes:
                if a < stop and b > offset:
                    known = max(start, a - base)
                    break
        resent = bool(inbox.resent) and inbox.was_resent(offset, stop, order)
        frame = Frame(
            direction,
            inbox.buf,
            start,
            end,
            size,
            known,
            offset,
            order,
            inbox.times[first],
            inbox.times[last],
            inbox.places[first],
            resent,
        )
        self.frames += 1
        self.framed_bytes += end - start - (inbox.missing(offset, base + end) if inbox.holes else 0)
        inbox.pos = end
        inbox.size = MORE
        inbox.mark = last
        if last + 1 < len(inbox.starts) and inbox.starts[last + 1] <= base + end:
            inbox.mark = last + 1
        self.on_frame(frame)

    def _cut(self, direction: int, inbox: Inbox) -> None:
        """What is left in buf will never be whole: a frame without its end, or bytes that fit nothing."""
        inbox.join()
        left = len(inbox.buf) - inbox.pos
        if left <= 0:
            return
        if inbox.lost or inbox.size <= 0:
            missing = inbox.missing(inbox.base + inbox.pos, inbox.base + len(inbox.buf))
            if inbox.lost:
                self.skipped_bytes += left - missing
                inbox.searched += left
            else:
                self.pending_bytes += left - missing
            inbox.pos = len(inbox.buf)
            inbox.size = MORE
            return
        before = self.framed_bytes
        self._frame(direction, inbox, len(inbox.buf))
        self.pending_bytes += self.framed_bytes - before  # bytes of a frame that never ended
        self.framed_bytes = before

    def _lose(self, inbox: Inbox) -> None:
        inbox.lost = True
        inbox.size = MORE
        inbox.searched = 0
        inbox.looked = 0

    def _unsearched(self, inbox: Inbox, final: bool) -> bool:
        """Whether a lost direction has bytes to look at: new ones, or, once no more will come, the rest again."""
        stop = inbox.base + len(inbox.buf)
        return inbox.pos < len(inbox.buf) and inbox.looked < stop + (final and not inbox.queue)

    def _search(self, direction: int, inbox: Inbox, final: bool) -> None:
        """Look for the next frame start in one more piece: what may start there depends on the frames before it."""
        piece = inbox.piece(max(inbox.looked, inbox.base + inbox.pos))
        last = piece + 1 == len(inbox.starts)
        end = len(inbox.buf) if last else inbox.starts[piece + 1] - inbox.base
        ended = final and last and not inbox.queue
        inbox.looked = inbox.base + end + ended
        at, found = self.resync(direction, inbox.buf, inbox.pos, end, ended)
        skipped = at - inbox.pos
        self.skipped_bytes += skipped - (inbox.missing(inbox.base + inbox.pos, inbox.base + at) if inbox.holes else 0)
        inbox.searched += skipped
        inbox.pos = at
        if at < len(inbox.buf):
            inbox.mark = inbox.piece(inbox.base + at)
        if found:
            inbox.lost = False
            offset = inbox.base + at
            if offset > 0 and (inbox.searched or offset != inbox.searched):
                piece = inbox.piece(offset)
                self.finding(
                    "resync",
                    "info",
                    f"Found a frame again after {inbox.searched} bytes",
                    direction=direction,
                    time=inbox.times[piece],
                    place=inbox.places[piece],
                    offset=offset,
                    length=inbox.searched,
                )

    def _waits(self, inbox: Inbox) -> bool:
        return inbox.pos < len(inbox.buf) or bool(inbox.queue)

    def _tell_gap(self, direction: int, gap: Gap) -> None:
        self.finding(
            "gap",
            "warning",
            f"{gap.length} bytes were not captured",
            direction=direction,
            time=gap.time,
            place=gap.place,
            offset=gap.offset,
            length=gap.length,
            reason=gap.reason,
        )
        self.on_gap(direction, gap)


class Protocol(typing.Protocol):
    """A protocol, as the engine sees it. Adding one is a folder and a line in `protocols.PROTOCOLS`."""

    name: str
    ports: tuple[int, ...]

    def recognise(self, client: bytes, server: bytes, midstream: bool) -> float:
        """How sure it is that these are the first bytes of one of its connections (either may be empty).

        0.0 certainly not; 0.9 and more certain: no other protocol is asked; between: more bytes would tell. With
        `midstream` the bytes may begin inside a frame. The answer must not fall from certain as bytes are added.
        """

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        """A new conversation for one connection."""

    def advance(self, talks: Sequence[Any]) -> None:
        """Decode every frame that is complete in these conversations: all of them its own, and of one sink."""


def one_by_one(talks: Sequence[Conversation]) -> None:
    """A protocol's `advance`, where many conversations at once are no quicker than one."""
    for talk in talks:
        talk.advance()
