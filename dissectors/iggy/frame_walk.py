"""One conversation of those decoded by column, frame by frame: where the order of its frames decides what they mean.

Some frames of a regular conversation change what is believed of it: the release, its user, its names. Those are taken
in here, in their place; frames that are not regular go to the conversation; all others are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dissectors.frame import Frame
from dissectors.frame_columns import NONE
from dissectors.iggy import body_columns, layouts, tables
from dissectors.iggy.calls import group_of
from dissectors.iggy.command_facts import DESCRIBED
from dissectors.iggy.conversation import IggyConversation
from dissectors.iggy.decode import body, error_text, exact
from dissectors.iggy.decoded_frames import Description, IggyFrames
from dissectors.iggy.frames import LEGACY
from dissectors.iggy.pending import Answer, IggyRequest
from dissectors.iggy.state import Asked

_SOME = 64  # frames


class FrameWalk:
    """One conversation, frame by frame: what regular bodies show of the era, and the frames that are not regular."""

    def __init__(self, decoded: IggyFrames, conversation: IggyConversation, lo: int, hi: int) -> None:
        self.decoded = decoded
        self.conversation = conversation
        self.era = conversation.era
        self.calls = conversation.calls
        self.first = self.lo = lo
        self.hi = hi
        self.revised = self.era.revised
        self.waiting = len(self.calls.pairing.queue)  # requests that are decoded one by one
        self.user = self.calls.state.user
        self.dialect = self.era.dialect if self.era.settled else None
        self.in_order = True  # regular frames are passed over; else all go one by one
        self.each: Iterator[Frame] = iter(())  # regular frames that go one by one after all
        self.asked: dict[int, Asked] = {}  # requests whose answers teach something
        self.code, self.body = decoded.code[lo:hi].tolist(), decoded.body[lo:hi].tolist()
        self.end = decoded.frames.end[lo:hi].tolist()

    def run(self) -> None:
        """All frames of the conversation, in their order."""
        decoded, lo, hi, era, report = self.decoded, self.lo, self.hi, self.era, self.calls.emit.report
        say_more = decoded.say_more(lo, hi)
        frames = zip(range(lo, hi), *[column[lo:hi] for column in decoded.plan], say_more, strict=True)
        allowed, believed = era.allowed, era.allowed
        calm = era.settled and not report.holds  # no row waits, and bodies say what was expected of them
        for i, regular, event, client, partner, partition, lesson, failed, more in frames:
            if calm and regular and not more:
                continue
            if self.in_order and regular:
                if failed:
                    self._refuse(i, partner)
                elif (more or (event >= 0 and era.allowed != believed)) and not (
                    self._take_in(i, event, partner, client=client, lesson=lesson)
                ):
                    self._leave(i, int(decoded.before[i]))
            elif self.in_order and not client and era.allowed != allowed and not self._still_fits(i):
                self._leave(i, int(decoded.before[i]))
            if not self.in_order or not regular:
                self._one_by_one(i, regular, client)
            elif not client:
                self._reserve(i, partner)
                if lesson and (era.doubted or era.revised != self.revised):
                    self._leave(i + 1, int(decoded.frames.last_ns[i]))
            elif partition != NONE:
                self.calls.state.sent_to(partition)
            self._note_state(i)
            settled = self.in_order and self.dialect is not None
            if settled and era.allowed != believed:
                believed = era.allowed
                self._read_again(i + 1)
                say_more[i + 1 - lo :] = decoded.say_more(i + 1, hi)
            calm = settled and not report.holds

    def _note_state(self, i: int) -> None:
        """The user and the dialect of the rows from a frame on."""
        user, dialect = self.calls.state.user, self.era.dialect if self.era.settled else None
        if user != self.user:
            self.user = user
            self.decoded.set_user(user, i, self.hi)
        if dialect != self.dialect:
            self.dialect = dialect
            self.decoded.set_dialect(self.conversation, i, self.hi)

    def _read_again(self, at: int) -> None:
        """The regular frames from one on are read as the releases that are left have them."""
        decoded = self.decoded
        rest = np.flatnonzero(decoded.regular[at : self.hi] & (decoded.event[at : self.hi] >= 0)) + at
        decoded.read_as(rest, self.era.allowed)

    def _is_read(self, event: int) -> bool:
        if event < 0:
            return False
        side, code, _ = self.decoded.events[event]
        return side == layouts.REQUEST or self.decoded.is_read(code) or not self.era.settled

    def _read(self, i: int, event: int) -> bool:
        """What a body shows of the era; False where it is against what is believed."""
        found = body_columns.reading(*self.decoded.events[event], self.era.allowed)
        if not found.fits:
            return False
        self.decoded.layout[i] = found.layout
        if found.readers & self.era.allowed != self.era.allowed:
            self.era.narrow(found.readers, found.reason)
        return True

    def _take_in(self, i: int, event: int, partner: int, *, client: bool, lesson: bool) -> bool:
        """What a regular frame shows beyond its own exchange; False where it must go one by one after all."""
        if self._is_read(event) and not self._read(i, event):
            return False
        if not lesson:
            return True
        if client:
            self._ask(i)
            return True
        return self._learn(i, partner)

    def _ask(self, i: int) -> None:
        """A request whose answer teaches something."""
        decoded, at = self.decoded, i - self.first
        code = self.code[at]
        layout = layouts.candidates(layouts.REQUEST, code, 0)[decoded.layout[i]]
        values = exact(layout, decoded.frames.buf, self.body[at], self.end[at]).values
        asked = self.asked[i] = Asked(code, layout.name, values)
        self.calls.state.request(asked, None)
        if code in DESCRIBED:
            topics = self.calls.state.names.of(asked.api, values)
            decoded.described[i] = Description(topics[0] if topics else None, group_of(asked.api, values))

    def _learn(self, i: int, request: int) -> bool:
        """What an answer teaches; False where it is not one that the request can have, or no layout reads it."""
        decoded, state, at = self.decoded, self.calls.state, i - self.first
        code, start, end = self.code[at], self.body[at], self.end[at]
        asked = self.asked.pop(request, None) or Asked(code, tables.commands()[code][0].name, {})
        values: dict[str, Any] = {}
        if start < end:
            if not layouts.has_payload(code, self.era.allowed):
                return False
            if not state.matters(asked.api):
                return True
            read = body(layouts.RESPONSE, code, self.era, decoded.frames.buf, start, end, end)
            if not read.exact:
                return False
            values = read.values
        state.answered(asked, values, int(decoded.frames.first_ns[i]))
        return True

    def _refuse(self, i: int, request: int) -> None:
        """An answer that is an error."""
        decoded, user = self.decoded, self.calls.state.user
        end = self.end[i - self.first]
        error_text(self.era, decoded.frames.buf, end, end)
        decoded.error_releases[i] = self.era.allowed
        asked = self.asked.pop(request, None)
        if asked is not None and asked.user and not user:
            decoded.set_user(asked.user, i, i + 1)

    def _still_fits(self, i: int) -> bool:
        """Whether an answer can be that of the oldest request in the queue, by what is believed by now."""
        decoded, pairing = self.decoded, self.calls.pairing
        oldest = pairing.queue[0] if pairing.queue else None
        if decoded.aside[i] or decoded.framing != LEGACY or not isinstance(oldest, IggyRequest):
            return True
        frames = decoded.frames
        length = int(frames.end[i]) - int(decoded.body[i])
        answer = Answer(int(frames.order[i]), int(frames.first_ns[i]), int(decoded.status[i]), length)
        return pairing.fits(oldest, answer)

    def _leave(self, at: int, answered_ns: int = 0) -> None:
        """From a frame on they go one by one, as if all in flight had: answered_ns, where it is not known there."""
        self.in_order = False
        decoded, lo = self.decoded, self.lo
        before = np.arange(lo, at)
        hidden = before[decoded.regular[lo:at] & decoded.frames.client[lo:at] & (decoded.partner[lo:at] >= at)]
        decoded.regular[hidden] = False
        self.waiting += len(hidden)
        if answered_ns:
            self.calls.answered_ns = answered_ns
        for frame in decoded.frames.each(hidden):
            self.conversation.on_frame_between(frame)
        self.calls.pairing.sort()
        self.each = _regular_between(decoded, at, self.hi)

    def _one_by_one(self, i: int, regular: bool, client: bool) -> None:
        """A frame goes to its conversation; what follows it may go by column again, or no longer."""
        decoded = self.decoded
        if self.in_order and decoded.before[i]:
            self.calls.answered_ns = int(decoded.before[i])
        self.conversation.on_frame_between(next(self.each if regular else decoded.rest))
        decoded.regular[i] = False
        if not decoded.aside[i]:
            self.waiting += 1 if client else -1
        if not self.in_order:
            self._return(i + 1)
        elif not self._still_in_order():
            self._leave(i + 1)

    def _return(self, at: int) -> None:
        """Regular frames go by column again from a frame on, where nothing is in flight and nothing in doubt."""
        if self.waiting or not self._still_in_order():
            return
        if at < self.hi and (self.calls.answered_ns or 0) != self.decoded.before[at]:
            return
        self.lo, self.in_order = at, True

    def _still_in_order(self) -> bool:
        calls = self.calls
        return calls.in_order and len(calls.pairing.queue) == self.waiting and self.era.revised == self.revised

    def _reserve(self, answer: int, request: int) -> None:
        """The rows of a regular exchange come now: they may have to wait for the dialect."""
        decoded, report = self.decoded, self.calls.emit.report
        if self.era.settled:
            if report.holds:
                report.flush()
            return
        wanted = decoded.sink.tables
        for table, frame in (("batches", answer), ("exchanges", request), ("batches", request)):
            if table in wanted and (table == "exchanges" or decoded.has_units(frame)):
                decoded.reserved[table][frame] = report.reserve(table)


# no method: with a walk that it refers to, and that refers to it, all frames would stay until garbage is searched
def _regular_between(decoded: IggyFrames, lo: int, hi: int) -> Iterator[Frame]:
    """The regular frames in [lo, hi). Some at a time: it may be that few are wanted."""
    for first in range(lo, hi, _SOME):
        which = np.flatnonzero(decoded.regular[first : min(first + _SOME, hi)])
        yield from decoded.frames.each(which + first)
