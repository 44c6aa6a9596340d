"""Whole frames of many conversations at once: the common case, in which nothing is missing, by column.

`Conversation.advance` cuts the frames of one connection. Where a block brings bytes for thousands of them, a few numpy
operations over all their bytes are cheaper than thousands of calls: the bytes of all directions (lanes) are put one
after the other, one step measures the next frame of every lane, and the tables of their pieces say for all frames
together when and in which packet they came.

Only conversations that are `plain` take part: no byte of them is missing, and none fits no frame. The others are left
to `advance`, which keeps the order of frames also then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dissectors.conversation import INVALID, MORE, Conversation, Frame

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]
Talk = TypeVar("Talk", bound=Conversation)
Measure = Callable[[Bools, Octets, Ints, Ints], Ints]
"""(whether it is the client's, bytes, where a frame starts, where its lane ends) -> sizes, MORE or INVALID, as
Conversation.measure for each."""

PADDING = 64  # zero bytes behind the last lane: a field may be read where a frame is too short for it
_FEW = 12  # so many lanes are walked one by one
_new = tuple.__new__


def integers(octets: Octets, at: Ints, size: int) -> Ints:
    """The signed big-endian integers of `size` bytes, up to eight, at each index."""
    value = octets[at].astype(np.int8).astype(np.int64)
    for i in range(1, size):
        value = value << 8 | octets[at + i]
    return value


class _Lane(NamedTuple):
    """One direction of a conversation."""

    talk: int
    direction: int
    at: int  # index in the common buffer
    pos: int  # index of the same byte in the inbox
    offset: int  # its stream offset


class Frames(Generic[Talk]):
    """Whole frames, by conversation and within it in the order in which they were complete."""

    def __init__(self, talks: Sequence[Talk], buf: bytes, lanes: list[_Lane], columns: dict[str, Ints]) -> None:
        self.talks = talks
        self.buf = buf
        self.octets = np.frombuffer(buf, np.uint8)
        self.talk = columns["talk"]  # index in talks
        self.client = columns["direction"] == 0
        self.start = columns["start"]  # index in buf
        self.end = columns["end"]
        self.order = columns["order"]
        self.first_ns = columns["first_ns"]
        self.last_ns = columns["last_ns"]
        self.place = columns["place"]
        self.resent = columns["resent"] != 0
        self._lane = columns["lane"]
        self._lanes = lanes

    def __len__(self) -> int:
        return len(self.start)

    def each(self, which: Ints) -> Iterator[Frame]:
        """Some of them one by one, each over its connection's own bytes."""
        columns = (self._lane, self.start, self.end, self.order, self.first_ns, self.last_ns, self.place, self.resent)
        for n, start, end, order, first_ns, last_ns, place, resent in zip(
            *(column[which].tolist() for column in columns), strict=True
        ):
            talk, direction, at, pos, offset = self._lanes[n]
            buf, shift = self.talks[talk].inboxes[direction].buf, pos - at
            stop = end + shift
            values = (direction, buf, start + shift, stop, end - start, stop, start - at + offset, order, first_ns,
                      last_ns, place, resent)  # fmt: skip
            yield _new(Frame, values)


def cut(talks: Sequence[Talk], measure: Measure) -> tuple[Frames[Talk], list[Talk]]:
    """The whole frames at hand, taken out of their inboxes; and the conversations in which something fits no frame.

    Of those nothing is taken. After the frames are dealt with, each inbox must be trimmed.
    """
    bufs: list[bytes] = []
    lanes: list[_Lane] = []
    pieces: list[Sequence[list[int]]] = [([], [], [], [])]
    counts: list[int] = []
    repeated: list[int] = []  # lanes in which bytes were sent again
    at = 0
    for i, talk in enumerate(talks):
        for direction, inbox in enumerate(talk.inboxes):
            if inbox.queue:
                inbox.absorb()
            pos, mark = inbox.pos, inbox.mark
            size = len(inbox.buf) - pos
            if not size or inbox.parts:
                continue
            bufs.append(inbox.buf[pos:] if pos else inbox.buf)
            if inbox.resent:
                repeated.append(len(lanes))
            lanes.append(_new(_Lane, (i, direction, at, pos, inbox.base + pos)))
            kept = (inbox.starts, inbox.orders, inbox.places, inbox.times)
            pieces.append([values[mark:] for values in kept] if mark else kept)
            counts.append(len(inbox.starts) - mark)
            at += size
    buf = b"".join([*bufs, bytes(PADDING)])
    del bufs
    head = np.array(lanes, np.int64).reshape(-1, 5)
    lane, start, end = _walk(talks, head, buf, at, measure)
    invalid = np.zeros(len(talks), bool)
    invalid[head[lane[end == INVALID], 0]] = True
    keep = ~invalid[head[lane, 0]]
    lane, start, end = lane[keep], start[keep], end[keep]
    starts, orders, places, times = (
        np.fromiter(chain.from_iterable(column), np.int64) for column in zip(*pieces, strict=True)
    )
    many = np.array(counts, np.int64)
    starts += np.repeat(head[:, 2] - head[:, 4], many)
    first = np.cumsum(many) - many
    starts[first] = head[:, 2]  # a lane begins inside its first piece
    opening = np.searchsorted(starts, start, "right") - 1
    closing = np.searchsorted(starts, end - 1, "right") - 1
    columns = {
        "lane": lane,
        "talk": head[lane, 0],
        "direction": head[lane, 1],
        "start": start,
        "end": end,
        "order": orders[closing],
        "first_ns": times[opening],
        "last_ns": times[closing],
        "place": places[opening],
    }
    columns["resent"] = _resent(talks, lanes, repeated, columns)
    _take(talks, lanes, columns, opening, closing, first, starts)
    turn = np.lexsort((columns["order"], columns["talk"]))
    frames = Frames(talks, buf, lanes, {name: values[turn] for name, values in columns.items()})
    return frames, [talk for talk, out in zip(talks, invalid.tolist(), strict=True) if out]


def _walk(
    talks: Sequence[Conversation], head: Ints, buf: bytes, size: int, measure: Measure
) -> tuple[Ints, Ints, Ints]:
    """(lane, start, end) of each whole frame, by lane; the end is INVALID where something is no frame."""
    octets = np.frombuffer(buf, np.uint8)
    pos = head[:, 2].copy()
    stop = np.append(pos[1:], size)[: len(pos)]
    client = head[:, 1] == 0
    found: list[tuple[Ints, Ints, Ints]] = []
    active = np.arange(len(head))
    while len(active) >= _FEW:
        start = pos[active]
        sizes = measure(client[active], octets, start, stop[active])
        end = np.where(sizes == INVALID, INVALID, start + sizes)
        out = (sizes != MORE) & (end <= stop[active])
        active, end = active[out], end[out]
        found.append((active, start[out], end))
        pos[active] = end
        active = active[(end != INVALID) & (end < stop[active])]
    alone: list[tuple[int, int, int]] = []
    for one in active.tolist():
        talk, direction = talks[head[one, 0]], int(head[one, 1])
        at, last = int(pos[one]), int(stop[one])
        while at < last:
            length = talk.measure(direction, buf, at, last)
            if length == MORE or at + length > last:
                break
            alone.append((one, at, INVALID if length == INVALID else at + length))
            if length == INVALID:
                break
            at += length
    if alone:
        rest = np.array(alone, np.int64)
        found.append((rest[:, 0], rest[:, 1], rest[:, 2]))
    if not found:
        none = np.zeros(0, np.int64)
        return none, none, none
    lane, start, end = (np.concatenate(column) for column in zip(*found, strict=True))
    turn = np.argsort(start, kind="stable")
    return lane[turn], start[turn], end[turn]


def _resent(talks: Sequence[Conversation], lanes: list[_Lane], repeated: list[int], columns: dict[str, Ints]) -> Ints:
    """Whether a byte of each frame was sent more than once by the time the frame was whole."""
    resent = np.zeros(len(columns["lane"]), np.int64)
    for i in repeated:
        lane = lanes[i]
        inbox, shift = talks[lane.talk].inboxes[lane.direction], lane.offset - lane.at
        for k in np.flatnonzero(columns["lane"] == i).tolist():
            start, end = int(columns["start"][k]) + shift, int(columns["end"][k]) + shift
            resent[k] = inbox.was_resent(start, end, int(columns["order"][k]))
    return resent


def _take(
    talks: Sequence[Conversation],
    lanes: list[_Lane],
    columns: dict[str, Ints],
    opening: Ints,
    closing: Ints,
    first: Ints,
    starts: Ints,
) -> None:
    """Move the inboxes behind the frames, and count them."""
    lane, end = columns["lane"], columns["end"]
    last = np.flatnonzero(np.append(lane[1:] != lane[:-1], True)[: len(lane)])
    count = np.diff(last, prepend=-1)
    after = np.append(starts, np.iinfo(np.int64).max)[closing[last] + 1]
    mark = closing[last] - first[lane[last]] + (after == end[last])
    for i, n, stop, piece in zip(lane[last].tolist(), count.tolist(), end[last].tolist(), mark.tolist(), strict=True):
        at = lanes[i]
        talk = talks[at.talk]
        inbox = talk.inboxes[at.direction]
        talk.frames += n
        talk.framed_bytes += stop - at.at
        inbox.pos = at.pos + stop - at.at
        inbox.size = MORE
        inbox.mark = min(inbox.mark + piece, len(inbox.starts) - 1)
