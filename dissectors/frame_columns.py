"""Whole frames of many conversations at once: the common case, in which nothing is missing, by column.

`Conversation.advance` cuts the frames of one connection. Where a block brings bytes for thousands of them, a few numpy
operations over all their bytes are cheaper than thousands of calls: the bytes of all directions (streams) are put one
after the other, one step measures the next frame of every stream, and the tables of their pieces say for all frames
together when and in which packet they came.

Only conversations that are `plain` take part: no byte of them is missing, and none fits no frame. The others are left
to `advance`, which keeps the order of frames also then.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Bools, Ints, Octets
from dissectors.conversation import Conversation
from dissectors.frame import Frame, FrameFacts
from dissectors.inbox import INVALID, MORE
from dissectors.limits import KIB
from dissectors.resends import among
from dissectors.rows.sink import Masked
from dissectors.tcp.chunk import CLIENT, SERVER

ConversationT = TypeVar("ConversationT", bound=Conversation)
Measure = Callable[[Bools, Octets, Ints, Ints], Ints]
"""(whether it is the client's, bytes, where a frame starts, where its stream ends) -> sizes, MORE or INVALID, as
Conversation.measure for each."""
Requests = Callable[[Octets, Ints], Bools]
"""(bytes, where a client's frame starts) -> whether it is a request, of a kind that is answered."""

NONE = -1  # in a column: no value
PADDING = 64  # zero bytes behind the last stream: a field may be read where a frame is too short for it
_FEW = 16  # so many streams are walked one by one
MANY, MUCH = 8, 64 * KIB  # fewer conversations, or bytes of them, are decoded one by one
_KEPT = ("direction", "offset", "order", "first_ns", "last_ns", "packet_ref")  # columns that frames have
_new = tuple.__new__


def integers(octets: Octets, at: Ints, size: int) -> Ints:
    """The signed big-endian integers of 1, 2, 4 or 8 bytes at each index."""
    every: npt.NDArray[Any] = np.ndarray((len(octets) - size + 1,), f">i{size}", octets, 0, (1,))
    return every[at].astype(np.int64)


def distinct(values: Ints) -> Ints:
    """The distinct values, in order; numpy.unique of these alone would load masked arrays first."""
    ordered = np.sort(values)
    return np.concatenate((ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]))


def nullable(column: Ints) -> Masked:
    """A column in which NONE is null."""
    return Masked(column, column == NONE)


def table(rows: Iterable[Sequence[int]], columns: int) -> Ints:
    """Rows of numbers as an array: numpy.array would look at each of them twice."""
    return np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, columns)


class _Stream(NamedTuple):
    """One direction of a conversation."""

    conversation: int
    direction: int
    at: int  # index in the common buffer
    offset: int  # the stream offset of the same byte


class _Kept(NamedTuple):
    """The bytes of kept frames, one after the other; each frame is taken for one segment."""

    buf: bytes
    octets: Octets
    starts: Ints
    times: Ints
    packet_refs: Ints
    each: Sequence[_Stream] = ()


class Frames(Generic[ConversationT]):
    """Whole frames, by conversation and within it in the order in which they were complete."""

    def __init__(
        self,
        conversations: Sequence[ConversationT],
        streams: _Streams | _Kept,
        columns: dict[str, Ints],
        taken: list[int],
    ) -> None:
        self.conversations = conversations
        self.buf = streams.buf
        self.octets = streams.octets
        self.conversation = columns["conversation"]  # index in conversations
        self.client = columns["direction"] == 0
        self.start = columns["start"]  # index in buf
        self.end = columns["end"]
        self.order = columns["order"]
        self.first_ns = columns["first_ns"]
        self.last_ns = columns["last_ns"]
        self.packet_ref = columns["packet_ref"]
        self._offset = columns["offset"]  # in the stream
        self._segments = streams.starts, streams.times, streams.packet_refs
        self._streams = streams.each
        self._taken = taken  # bytes, by stream

    @classmethod
    def kept(cls, conversations: Sequence[ConversationT], frames: Sequence[tuple[int, Frame]]) -> Frames[ConversationT]:
        """Whole frames that were kept, with the indices of their conversations; of each its first packet is known."""
        numbers, each = zip(*frames, strict=True)
        ends = list(accumulate(frame.size for frame in each))
        columns = {name: [getattr(frame, name) for frame in each] for name in _KEPT}
        columns |= {"conversation": list(numbers), "start": [0, *ends[:-1]], "end": ends}
        arrays = {name: np.array(column, np.int64) for name, column in columns.items()}
        buf = b"".join([*(frame.data[frame.start : frame.end] for frame in each), bytes(PADDING)])
        octets = np.frombuffer(buf, np.uint8)
        streams = _Kept(buf, octets, arrays["start"], arrays["first_ns"], arrays["packet_ref"])
        return cls(conversations, streams, arrays, [])

    def __len__(self) -> int:
        return len(self.start)

    def facts(self, which: Ints) -> FrameFacts:
        """The facts of some of them, as columns. Every byte of them was captured."""
        start, end = self.start[which], self.end[which]
        return FrameFacts(
            np.where(self.client[which], CLIENT, SERVER),
            self._offset[which],
            end - start,
            self.order[which],
            self.first_ns[which],
            self.last_ns[which],
            self.packet_ref[which],
            np.ones(len(which), bool),
        )

    def fact(self, i: int) -> FrameFacts:
        """The facts of one of them."""
        return FrameFacts(
            CLIENT if self.client[i] else SERVER,
            int(self._offset[i]),
            int(self.end[i] - self.start[i]),
            int(self.order[i]),
            int(self.first_ns[i]),
            int(self.last_ns[i]),
            int(self.packet_ref[i]),
            True,
        )

    def facts_of(self, which: Ints) -> Iterator[FrameFacts]:
        """The facts of some of them, one by one."""
        for values in zip(*(column.tolist() for column in self.facts(which)), strict=True):
            yield _new(FrameFacts, values)

    def locate(self, at: Ints) -> tuple[Ints, Ints]:
        """Time and packet of the bytes at some indices of the buffer."""
        starts, times, packet_refs = self._segments
        segment = np.searchsorted(starts, at, "right") - 1
        return times[segment], packet_refs[segment]

    def offset_of(self, which: Ints, at: Ints) -> Ints:
        """The stream offset of the byte at an index of the buffer, which lies in one of the frames."""
        return self._offset[which] + at - self.start[which]

    def each(self, which: Ints) -> Iterator[Frame]:
        """Some of them one by one, each over bytes of its own."""
        buf = self.buf
        columns = (self.client, self.start, self.end, self._offset, self.order, self.first_ns, self.last_ns,
                   self.packet_ref)  # fmt: skip
        for client, start, end, offset, order, first_ns, last_ns, packet_ref in zip(
            *(column[which].tolist() for column in columns), strict=True
        ):
            size = end - start
            values = (CLIENT if client else SERVER, buf[start:end], 0, size, size, size, offset, order, first_ns,
                      last_ns, packet_ref)  # fmt: skip
            yield _new(Frame, values)

    def retransmitted(self, which: Ints, *frames: FrameFacts) -> Bools:
        """Whether a byte of each exchange was sent more than once by the time its last frame was whole.

        which: a frame of each. frames: facts of its first frame and its last, or of the only one.
        """
        resends = [conversation.resends for conversation in self.conversations]
        return among(resends, self.conversation[which], frames[-1].order, *frames)

    def frame(self, i: int) -> Frame:
        """One of them, over bytes of its own."""
        return next(self.each(np.array([i])))

    def release(self) -> None:
        """The frames were dealt with: let go of their bytes."""
        for (conversation, direction, _, _), size in zip(self._streams, self._taken, strict=True):
            if size == INVALID:
                continue
            of = self.conversations[conversation]
            of.inboxes[direction].drop(size, of.measure)


class _Streams:
    """What is at hand in all directions of some conversations, and where it came from."""

    def __init__(self, conversations: Sequence[Conversation]) -> None:
        self.each: list[_Stream] = []
        columns = starts, orders, packet_refs, times = array("q"), array("q"), array("q"), array("q")
        shifts: list[int] = []  # of each chunk: from stream offsets to indices in the common buffer
        counts: list[int] = []  # segments of each chunk
        bufs: list[bytes] = []
        at = 0
        for i, conversation in enumerate(conversations):
            for direction, inbox in enumerate(conversation.inboxes):
                runs = inbox.runs()
                if runs:
                    self.each.append(_new(_Stream, (i, direction, at, runs[0].offset)))
                for offset, data, *fresh in runs:
                    first = len(starts)
                    for column, values in zip(columns, fresh, strict=True):
                        column.extend(values)
                    starts[first] = offset  # it may begin inside its first segment
                    shifts.append(at - offset)
                    counts.append(len(starts) - first)
                    bufs.append(data)
                    at += len(data)
        self.size = at
        self.buf = b"".join([*bufs, bytes(PADDING)])
        self.octets = np.frombuffer(self.buf, np.uint8)
        self.head = table(self.each, len(_Stream._fields))
        self.starts = np.array(starts, np.int64) + np.repeat(np.array(shifts, np.int64), counts)  # in the buffer
        self.orders, self.packet_refs, self.times = (np.array(each, np.int64) for each in (orders, packet_refs, times))


def cut(
    conversations: Sequence[ConversationT],
    measure: Measure,
    announced: Measure | None = None,
    requests: Requests | None = None,
) -> tuple[Frames[ConversationT], list[ConversationT]]:
    """The whole frames at hand, and the conversations in which something fits no frame: of those nothing is taken.

    announced: measures by the length alone, which is cheaper to walk by; `measure` then checks all frames together.
    requests: those with which a conversation ends are left for the next time, once, when their answers may be at hand.
    After the frames are dealt with, they must be released.
    """
    streams = _Streams(conversations)
    head = streams.head
    stream, start, end = _walk(conversations, head, streams, measure, announced)
    invalid = np.zeros(len(conversations), bool)
    invalid[head[stream[end == INVALID], 0]] = True
    keep = ~invalid[head[stream, 0]]
    stream, start, end = stream[keep], start[keep], end[keep]
    opening = np.searchsorted(streams.starts, start, "right") - 1
    closing = np.searchsorted(streams.starts, end - 1, "right") - 1
    columns = {
        "stream": stream,
        "conversation": head[stream, 0],
        "direction": head[stream, 1],
        "start": start,
        "end": end,
        "offset": start + (head[:, 3] - head[:, 2])[stream],
        "order": streams.orders[closing],
        "first_ns": streams.times[opening],
        "last_ns": streams.times[closing],
        "packet_ref": streams.packet_refs[opening],
    }
    turn = np.lexsort((columns["order"], columns["conversation"]))
    if requests is not None and len(turn):
        ends = {name: values[turn] for name, values in columns.items()}
        turn = turn[~_wait(conversations, ends, requests(streams.octets, ends["start"]))]
    taken = _take(conversations, streams, invalid, *(column[np.sort(turn)] for column in (stream, end)))
    frames = Frames(conversations, streams, {name: values[turn] for name, values in columns.items()}, taken)
    return frames, [conversation for conversation, out in zip(conversations, invalid.tolist(), strict=True) if out]


def decode_together(
    conversations: Sequence[ConversationT],
    decode: Callable[[Frames[ConversationT]], None],
    measure: Callable[[int], Measure],
    announced: Callable[[int], Measure] | None = None,
    requests: Requests | None = None,
) -> None:
    """As Conversation.advance of each: whole frames of plain conversations by `decode`, all else one by one.

    measure, announced, requests: as for `cut`, the first two by the limit of a frame's bytes. Few conversations are as
    quick one by one. Bodies for `--full` are made one by one only: `decode` leaves exchanges out that have them.
    """
    careful = list(conversations)
    many = len(careful) >= MANY or sum(conversation.held for conversation in careful) >= MUCH
    if careful and many and not careful[0].sink.wants_all_bodies:
        plain: list[ConversationT] = []
        careful = []
        for conversation in conversations:
            (plain if conversation.plain or conversation.find_first() else careful).append(conversation)
        if plain:
            limit = plain[0].options.limits.frame_bytes
            frames, odd = cut(plain, measure(limit), None if announced is None else announced(limit), requests)
            if len(frames):
                decode(frames)
            frames.release()
            careful += odd
    for conversation in careful:
        conversation.advance()


def _walk(
    conversations: Sequence[Conversation], head: Ints, streams: _Streams, measure: Measure, announced: Measure | None
) -> tuple[Ints, Ints, Ints]:
    """(stream, start, end) of each whole frame, by stream; the end is INVALID where something is no frame."""
    buf, octets = streams.buf, streams.octets
    pos = head[:, 2].copy()
    stop = np.append(pos[1:], streams.size)[: len(pos)]
    client = head[:, 1] == 0
    found: list[tuple[Ints, Ints, Ints]] = []
    active = np.arange(len(head))
    while len(active) >= _FEW:
        start = pos[active]
        sizes = (announced or measure)(client[active], octets, start, stop[active])
        end = np.where(sizes == INVALID, INVALID, start + sizes)
        out = (sizes != MORE) & (end <= stop[active])
        active, end = active[out], end[out]
        found.append((active, start[out], end))
        pos[active] = end
        active = active[(end != INVALID) & (end < stop[active])]
    if announced is not None and found:
        found = _checked(found, measure, client, octets, pos, stop)
    alone: list[tuple[int, int, int]] = []
    for one in active.tolist():
        conversation, direction = conversations[head[one, 0]], int(head[one, 1])
        at, last = int(pos[one]), int(stop[one])
        while at < last:
            length = conversation.measure(direction, buf, at, last)
            if length == MORE or at + length > last:
                break
            alone.append((one, at, INVALID if length == INVALID else at + length))
            if length == INVALID:
                break
            at += length
    stream, start, end = table(alone, 3).T
    found.append((stream, start, end))
    stream, start, end = (np.concatenate(column) for column in zip(*found, strict=True))
    turn = np.argsort(start, kind="stable")
    return stream[turn], start[turn], end[turn]


def _checked(
    found: list[tuple[Ints, Ints, Ints]], measure: Measure, client: Bools, octets: Octets, pos: Ints, stop: Ints
) -> list[tuple[Ints, Ints, Ints]]:
    """Frames that were found by their lengths, now measured; and what stands behind them, at `pos`, if it is none."""
    stream, start, end = (np.concatenate(column) for column in zip(*found, strict=True))
    end[measure(client[stream], octets, start, stop[stream]) == INVALID] = INVALID
    rest = np.flatnonzero((pos != INVALID) & (pos < stop))
    rest = rest[measure(client[rest], octets, pos[rest], stop[rest]) == INVALID]
    return [(stream, start, end), (rest, pos[rest], np.full(len(rest), INVALID))]


def _wait(conversations: Sequence[Conversation], columns: dict[str, Ints], requests: Bools) -> Bools:
    """The client's requests with which conversations end, those that have waited already and long ones left out.

    columns: frames by conversation, and in it in their order.
    """
    conversation, index = columns["conversation"], np.arange(len(requests))
    requests = requests & (columns["direction"] == CLIENT)
    other = np.minimum.accumulate(np.where(requests, len(index), index)[::-1])[::-1]  # the next frame that is none
    last = np.searchsorted(conversation, conversation, "right")
    waits = requests & (other >= last)
    size = np.bincount(conversation, np.where(waits, columns["end"] - columns["start"], 0), len(conversations))
    waited = np.array([conversation.waited for conversation in conversations], np.int64)
    waits &= (columns["offset"] >= waited[conversation]) & (size <= MUCH)[conversation]
    newest = np.flatnonzero(waits & (index == last - 1))
    ends = columns["offset"][newest] + columns["end"][newest] - columns["start"][newest]
    for i, end in zip(conversation[newest].tolist(), ends.tolist(), strict=True):
        conversations[i].waited = end
    return waits


def _take(
    conversations: Sequence[Conversation], streams: _Streams, invalid: Bools, stream: Ints, end: Ints
) -> list[int]:
    """Count the frames; how many bytes they are of each stream, or INVALID where its frames were not cut."""
    last = np.flatnonzero(np.append(stream[1:] != stream[:-1], True)[: len(stream)])
    which = stream[last]
    size = np.zeros(len(streams.each), np.int64)
    size[which] = end[last] - streams.head[which, 2]
    columns = (streams.head[which, 0], np.diff(last, prepend=-1), size[which])
    for i, frames, bytes_ in zip(*(column.tolist() for column in columns), strict=True):
        conversation = conversations[i]
        conversation.frames += frames
        conversation.framed_bytes += bytes_
    taken: list[int] = np.where(invalid[streams.head[:, 0]], INVALID, size).tolist()
    return taken
