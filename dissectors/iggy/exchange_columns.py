"""Many frames of many connections at once: bodies, matching, messages and rows by column.

`IggyConversation` takes one frame after the other. Most exchanges need none of its care: request and answer are both at
hand, answers follow requests one by one, a layout reads each body, every checksum is right. Such exchanges are regular:
they are matched, read and reported here without an object each. Every other frame goes to its conversation, in its
place among them:

    sends that failed, errors with a text                  what follows may belong to nothing; rare
    commands with several meanings                         rare
    requests whose answer is not at hand, and such answers
    bodies that no layout reads, wrong checksums           findings
    frames between replicas

What a regular body shows of the release narrows the era as it does one by one, in the order of the frames; so does what
exchanges teach of users, names and releases (`lesson`), whose bodies are read one by one. A connection in which
anything is missing, or may overtake, goes one by one as a whole, or from where that begins until nothing is in flight.
Both ways give the same rows; a property test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import islice

import numpy as np

from dissectors import checksum
from dissectors.arrow import Bools, Ints, Octets
from dissectors.frame_columns import NONE, Frames, decode_together, distinct
from dissectors.iggy import command_facts, frames, layouts, tables
from dissectors.iggy.body_columns import Bodies
from dissectors.iggy.columnar import numbers
from dissectors.iggy.conversation import IggyConversation
from dissectors.iggy.decode import NON_REPLICATED
from dissectors.iggy.decoded_frames import IggyFrames
from dissectors.iggy.errors import TRANSIENT
from dissectors.iggy.frame_walk import FrameWalk
from dissectors.iggy.frames import HEADER, LEGACY, REPLY, REQUEST, SEND_MESSAGES, VSR
from dissectors.iggy.pending import DISCONNECTED, INVALID_COMMAND, IggyRequest
from dissectors.iggy.row_columns import report
from dissectors.tcp.chunk import CLIENT, SERVER

_WORTH = 4  # fewer bodies of one command are as quick one by one
_LARGEST_ID = 1 << 62
_OPERATIONS = 256
_WITH_CONSEQUENCES = [*TRANSIENT, INVALID_COMMAND, DISCONNECTED]  # errors that say more than that a request failed
_CHECKED = "iggy-vsr-0.9"  # the dialect of VSR in which answers come in order


def advance(conversations: Sequence[IggyConversation]) -> None:
    """As Conversation.advance, for many."""
    by_framing: dict[str | None, list[IggyConversation]] = {}
    for conversation in conversations:
        by_framing.setdefault(conversation.find_framing(), []).append(conversation)
    for framing, some in by_framing.items():
        if framing is None:
            for conversation in some:
                conversation.advance()
        else:
            measure = partial(frames.measure_columns, framing)
            decode_together(some, partial(_decode, framing), measure, requests=_requests)


def _requests(octets: Octets, start: Ints) -> Bools:
    """All that a client sends: nearly every command is answered."""
    return np.ones(len(start), bool)


def _decode(framing: str, frames: Frames[IggyConversation]) -> None:
    decoded = (VsrExchanges if framing == VSR else LegacyExchanges)(frames)
    decoded.decode()
    report(decoded)


class IggyExchanges(IggyFrames):
    """How the frames of a step become rows."""

    def __init__(self, frames: Frames[IggyConversation]) -> None:
        super().__init__(frames)
        self._event_ids: dict[tuple[str, int, int], int] = {}
        self.odd = np.array([not c.calls.in_order for c in self.conversations], bool)  # by conversation: all one by one
        self.several = np.zeros(len(self.conversations), bool)  # several requests were in flight …
        self.pipelined = np.zeros(len(self.conversations), bool)  # … and match.py takes note of it

    def decode(self) -> None:
        """Every frame: the regular exchanges here, the others by their conversations."""
        self._begin()
        self.allowed = np.array([c.era.allowed for c in self.conversations], np.int64)
        self.settled = np.array([c.era.settled for c in self.conversations], bool)
        self._read_headers()
        self._match()
        self._classify()
        self._read_bodies()
        self._exclude_odd()
        self.before = self._answered_before()
        self._in_order()

    # --- what depends on the framing ---

    def _begin(self) -> None:
        """What must be decoded before anything is known."""

    def _read_headers(self) -> None:
        """Set code, status, body, correlation_id, aside; mark odd conversations."""
        raise NotImplementedError

    def _pairs_fit(self, requests: Ints, answers: Ints) -> Bools:
        """Whether answers name their requests, where they name any."""
        raise NotImplementedError

    def _may_be_for(self, requests: Ints, answers: Ints) -> Bools:
        """Whether answers might, by what they name, be for other requests."""
        raise NotImplementedError

    # --- requests and answers ---

    def _match(self) -> None:
        """Pair requests and answers: the answers of a connection are those of its requests, one by one."""
        t, client, taking = self.frames.conversation, self.frames.client, ~self.aside
        requests, answers = np.flatnonzero(client & taking), np.flatnonzero(~client & taking)
        pending = np.array([len(c.calls.pairing.queue) for c in self.conversations], np.int64)
        counts = np.bincount(t[requests], minlength=len(pending))
        self.odd |= pending + counts > self.limits.pending
        of = t[answers]
        turn = np.arange(len(answers)) - np.searchsorted(of, of) - pending[of]  # below 0: for one that waited before
        at = np.cumsum(counts)[of] - counts[of] + turn  # index of its request among all
        asked = np.cumsum(client & taking)  # up to each frame, itself included
        in_flight = asked[answers] - at  # its own included
        self.odd[of[in_flight < 1]] = True
        self._note_pipelines(requests, answers, at, np.flatnonzero(in_flight > 1))
        early = turn < 0
        self._expect_of_waiting(answers[early], (turn + pending[of])[early])
        mine = ~early & (in_flight >= 1)
        answers, requests = answers[mine], requests[at[mine]]
        self.partner[answers], self.partner[requests] = requests, answers
        self.code[answers] = self.code[requests]
        self.odd[t[answers[~self._pairs_fit(requests, answers)]]] = True
        self._exclude_holes()

    def _note_pipelines(self, requests: Ints, answers: Ints, at: Ints, behind: Ints) -> None:
        """Several requests in flight. at: of each answer, its place in requests; behind: answers that had others."""
        t, order = self.frames.conversation, self.frames.order
        self.several[t[answers[behind]]] = True
        next_at = at[behind] + 1
        known = (next_at > 0) & (next_at < len(requests))
        self.pipelined[t[answers[behind[~known]]]] = True
        again = self._may_be_for(requests[next_at[known]], answers[behind[known]])
        self.pipelined[t[answers[behind[known]][again]]] = True
        together = (np.diff(order[requests]) == 0) & (np.diff(t[requests]) == 0)
        self.several[t[requests[1:][together]]] = self.pipelined[t[requests[1:][together]]] = True

    def _expect_of_waiting(self, answers: Ints, places: Ints) -> None:
        """Answers to requests that waited before this step, by their places in the queue."""
        of = self.frames.conversation[answers]
        for i, conversation, place in zip(answers.tolist(), of.tolist(), places.tolist(), strict=True):
            calls = self.conversations[conversation].calls
            known = calls.pairing.queue[place]
            self.expected[i] = isinstance(known, IggyRequest) and calls.has_payload(known)

    def _exclude_holes(self) -> None:
        """Both directions of a conversation go on where they ended, or all of it goes one by one."""
        fs = self.frames
        for direction, client in ((CLIENT, True), (SERVER, False)):
            which = np.flatnonzero((fs.client == client) & ~self.done)
            first = which[np.diff(fs.conversation[which], prepend=NONE) != 0]
            for of, offset in zip(fs.conversation[first].tolist(), fs.facts(first).offset.tolist(), strict=True):
                self.odd[of] |= not self.conversations[of].follows(direction, offset)

    def _classify(self) -> None:
        """Which exchanges may be regular, by their headers."""
        fs = self.frames
        regular = (
            command_facts.table(self.framing, "regular")[self.code] & (self.partner >= 0) & ~self.odd[fs.conversation]
        )
        regular &= ~self._shown()
        if "messages" in self.sink.tables:
            regular &= ~command_facts.table(self.framing, "carries")[self.code]
        answers = ~fs.client & ~self.aside
        filled = answers & (self.body < fs.end)
        self.failed = answers & (self.status != 0) & (self.partner >= 0) & ~filled & (self.code != SEND_MESSAGES)
        self.failed &= ~np.isin(self.status, _WITH_CONSEQUENCES)
        self.lesson = regular & command_facts.table(self.framing, "teaches")[self.code]
        in_question = (
            ~self.settled[fs.conversation] & ~command_facts.table(self.framing, "answered by column")[self.code]
        )
        self.lesson |= regular & filled & in_question
        self.expected |= command_facts.table(self.framing, "payload")[self.code]
        self._expect(np.flatnonzero(self.lesson & filled & ~self.expected))
        doubtful = (filled & ~self.expected) | (answers & (self.status != 0) & ~self.failed)
        self.regular = regular & ~doubtful
        self._agree()
        self.odd[fs.conversation[doubtful & self.several[fs.conversation]]] = True

    def _shown(self) -> Bools:
        """The commands whose exchanges are reported with their bodies, whatever release they are of."""
        every = tables.commands().items()
        return np.isin(self.code, [code for code, some in every if any(self.sink.wants_body(c.name) for c in some)])

    def _expect(self, which: Ints) -> None:
        """Payloads of answers that only some releases send: expected where one of these may speak."""
        conversation = self.frames.conversation[which]
        pairs, pair = np.unique(np.stack((self.code[which], self.allowed[conversation])), axis=1, return_inverse=True)
        can = np.array([layouts.has_payload(code, allowed) for code, allowed in pairs.T.tolist()], bool)
        self.expected[which] = can[pair.ravel()]

    def _agree(self) -> None:
        """A request and its answer are both regular, or neither is."""
        requests = np.flatnonzero(self.frames.client & (self.partner >= 0))
        answers = self.partner[requests]
        self.regular &= self.partner >= 0
        self.regular[requests] = self.regular[answers] = self.regular[requests] & self.regular[answers]

    # --- bodies ---

    def _read_bodies(self) -> None:
        fs = self.frames
        requests = np.flatnonzero(self.regular & fs.client)
        for code in distinct(self.code[requests]).tolist():
            which = requests[self.code[requests] == code]
            if len(which) < _WORTH:
                self.regular[which[~self.several[fs.conversation[which]]]] = False
                which = which[self.several[fs.conversation[which]]]
            self._read(layouts.REQUEST, code, which)
        self._agree()
        answers = np.flatnonzero(self.regular & ~fs.client & ~self.lesson & (self.body < fs.end))
        for code in distinct(self.code[answers]).tolist():
            which = answers[self.code[answers] == code]
            if not self.is_read(code):
                which = which[~self.settled[fs.conversation[which]]]
            self._read(layouts.RESPONSE, code, which)
        self._agree()

    def _read(self, side: str, code: int, which: Ints) -> None:
        if not len(which):
            return
        fs = self.frames
        bodies = self.bodies[side, code] = Bodies(side, code, which)
        bodies.read(fs, self.body[which], fs.end[which], self.allowed[fs.conversation[which]], verify=self.looks)
        usable = bodies.usable
        self.regular[which[~usable]] = False
        for bits in distinct(bodies.bits[usable]).tolist():
            self.event[which[usable & (bodies.bits == bits)]] = self._event_id((side, code, bits))
        for number, variant in bodies.variants.items():
            if variant.runs is not None:
                self.units[which[variant.rows[distinct(variant.runs.units.row)]]] |= 1 << number
            if side == layouts.REQUEST and code == SEND_MESSAGES and "partitioning" in variant.body.present:
                there = variant.body.ok & variant.body.present["partitioning"]
                self.partition[which[variant.rows[there]]] = variant.body.numbers["partitioning"][there]

    def _event_id(self, event: tuple[str, int, int]) -> int:
        if event not in self._event_ids:
            self._event_ids[event] = len(self.events)
            self.events.append(event)
        return self._event_ids[event]

    # --- order ---

    def _exclude_odd(self) -> None:
        fs = self.frames
        self.regular &= ~self.odd[fs.conversation]
        changing = self._may_change()
        changing[fs.conversation[~self.regular | self.lesson | self.failed]] = True
        self.mixed = changing | ~self.settled  # by conversation: to be gone through frame by frame

    def _may_change(self) -> Bools:
        """The conversations in which a regular body narrows the era; in the others each is read as now believed."""
        fs = self.frames
        changing = np.zeros(len(self.conversations), bool)
        which = np.flatnonzero(self.regular & (self.event >= 0))
        believed = self.allowed[fs.conversation[which]]
        for allowed in distinct(believed).tolist():
            self.read_as(which[believed == allowed], allowed)
        changing[fs.conversation[which[self.shows[which]]]] = True
        return changing

    def _answered_before(self) -> Ints:
        """When the answer before each frame of its connection had come, ns; 0 where there was none."""
        fs = self.frames
        n, t = len(fs), fs.conversation
        answers = ~fs.client & ~self.aside
        newest = np.maximum.accumulate(np.where(answers, np.arange(n), NONE))
        before = np.append(NONE, newest[:-1])
        earlier = np.array([c.calls.answered_ns or 0 for c in self.conversations], np.int64)
        return np.where((before >= 0) & (t[before] == t), fs.last_ns[before], earlier[t])

    def _in_order(self) -> None:
        """Conversations in which something changes are gone through frame by frame; the others are as they are."""
        fs = self.frames
        columns = (self.regular, self.event, fs.client, self.partner, self.partition, self.lesson, self.failed)
        self.plan = [column.tolist() for column in columns]
        self.rest = fs.each(np.flatnonzero(~self.regular & ~self.done))
        for lo, hi in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            of = int(fs.conversation[lo])
            conversation = self.conversations[of]
            begin = lo + int(np.count_nonzero(self.done[lo:hi]))
            if self.odd[of]:
                for frame in islice(self.rest, hi - begin):
                    conversation.on_frame(frame)
                continue
            self.set_user(conversation.calls.state.user, lo, hi)
            self.set_dialect(conversation, lo, hi)
            conversation.begin_columns(int(fs.first_ns[lo]))
            if self.mixed[of]:
                FrameWalk(self, conversation, begin, hi).run()
            elif conversation.era.settled:
                conversation.calls.emit.report.flush()
        self._note()

    def _note(self) -> None:
        """What the frames leave with their connections."""
        fs, regular = self.frames, self.regular
        counts = np.bincount(fs.conversation[regular], minlength=len(self.conversations))
        pairs = np.bincount(fs.conversation[regular & ~fs.client], minlength=len(self.conversations))
        newest = self._newest(np.ones(len(fs), bool))
        ends = []
        for client in (True, False):
            which = self._newest((fs.client == client) & ~self.done)
            facts = fs.facts(which)
            ends.append(np.where(which >= 0, facts.offset + facts.size, 0))
        request, answer = self._newest(regular & fs.client), self._newest(regular & ~fs.client)
        pair_ns = np.maximum(fs.last_ns[request], fs.first_ns[answer])
        is_last = self._newest(~fs.client & ~self.aside) == answer
        columns = (counts, pairs, *ends, fs.first_ns[newest], pair_ns, fs.order[answer], is_last, fs.last_ns[answer],
                   self.pipelined, self.odd | (newest < 0))  # fmt: skip
        for conversation, *each in zip(self.conversations, *(column.tolist() for column in columns), strict=True):
            count, paired, sent, received, latest_ns, paired_ns, order, last, answered_ns, pipelined, odd = each
            if odd:
                continue
            conversation.note_columns(count, (sent, received), latest_ns)
            if paired:
                conversation.calls.pairing.note_pairs(paired, paired_ns, order, several=pipelined)
                if last:
                    conversation.calls.answered_ns = answered_ns

    def _newest(self, which: Bools) -> Ints:
        """By conversation: the last of some frames, NONE where there is none."""
        found = np.full(len(self.conversations), NONE)
        frames = np.flatnonzero(which)
        found[self.frames.conversation[frames]] = frames
        return found


class LegacyExchanges(IggyExchanges):
    """Frames with a prefix of eight bytes."""

    framing = LEGACY

    def _read_headers(self) -> None:
        fs = self.frames
        self.body = fs.start + frames.PREFIX
        second = numbers(fs.octets, fs.start + 4, 4)
        self.code = np.where(fs.client, second, 0)
        self.status = np.where(fs.client, 0, numbers(fs.octets, fs.start, 4))
        silent = fs.client & command_facts.table(LEGACY, "silent")[self.code]
        self.odd[fs.conversation[silent]] = True

    def _pairs_fit(self, requests: Ints, answers: Ints) -> Bools:
        return np.ones(len(requests), bool)

    _may_be_for = _pairs_fit


class VsrExchanges(IggyExchanges):
    """Frames with a header of 256 bytes."""

    framing = VSR

    def _begin(self) -> None:
        """One of the dialects lets answers overtake: until it is known which is spoken, frames go one by one."""
        fs = self.frames
        for lo, hi in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            of = int(fs.conversation[lo])
            conversation = self.conversations[of]
            if not conversation.era.settled:
                for i, frame in enumerate(fs.each(np.arange(lo, hi)), lo):
                    conversation.on_frame(frame)
                    self.done[i] = self.aside[i] = True
                    if conversation.era.settled:
                        break
            self.odd[of] = not conversation.calls.in_order or conversation.era.dialect != _CHECKED

    def _read_headers(self) -> None:
        fs, octets, start = self.frames, self.frames.octets, self.frames.start
        command = octets[start + frames.COMMAND_AT]
        known = np.isin(command, (REQUEST, REPLY, frames.EVICTION))
        fits = command == np.where(fs.client, REQUEST, REPLY)
        self.odd[fs.conversation[known & ~fits & ~self.aside]] = True
        self.aside |= ~known
        codes, results, requested = _operations()
        operation = octets[start + np.where(fs.client, 176, 208)]
        direct = operation == NON_REPLICATED
        self.operation = np.where(fs.client, operation, requested[operation])
        code = np.where(direct, numbers(octets, start + 196, 4), codes[operation])
        self.code = np.where(fs.client & (code < command_facts.CODES), code, 0)
        self.correlation_id = numbers(octets, start + np.where(fs.client, 168, 200), 8)
        self.body = start + HEADER
        status = numbers(octets, start + 216, 4)
        sectioned = ~fs.client & results[operation] & (fs.end - self.body >= 4)
        status |= np.where(
            sectioned, numbers(octets, np.minimum(self.body, fs.end), 4), 0
        )  # entries, for any that failed
        self.status = np.where(fs.client, 0, status)
        self.body = np.where(sectioned, self.body + 4, self.body)
        later = octets[(start + np.where(fs.client, 208, 220))[:, None] + np.arange(24)].astype(bool)
        later[~fs.client, 12:] = False
        bad = later.any(axis=1) | (self.correlation_id < 0) | (self.correlation_id > _LARGEST_ID)
        self.plain = ~bad & ~(~fs.client & results[operation] & ~sectioned & (self.body < fs.end))
        self.plain &= ~fs.client | self._checked()

    def _checked(self) -> Bools:
        """Whether the checksum of each request's body is right, where there is one."""
        fs = self.frames
        low, high = (numbers(fs.octets, fs.start + at, 8) for at in (144, 152))
        right: Bools = high == 0
        compute, view = checksum.function(checksum.XXH3), memoryview(fs.buf)
        which = np.flatnonzero(fs.client & ~self.aside & (low != 0) & right)
        columns = (which, self.body[which], fs.end[which], low.view(np.uint64)[which])
        for i, start, end, stored in zip(*(column.tolist() for column in columns), strict=True):
            right[i] = compute(view[start:end]) == stored
        return right

    def _pairs_fit(self, requests: Ints, answers: Ints) -> Bools:
        same: Bools = self.operation[requests] == self.operation[answers]
        return same & self._may_be_for(requests, answers)

    def _may_be_for(self, requests: Ints, answers: Ints) -> Bools:
        same: Bools = self.correlation_id[requests] == self.correlation_id[answers]
        return same

    def _classify(self) -> None:
        super()._classify()
        self.regular &= self.plain
        self._agree()


@cache
def _operations() -> tuple[Ints, Bools, Ints]:
    """By operation of VSR: the command, whether its answer begins with a result section, the operation requested."""
    codes, results, requested = np.zeros(_OPERATIONS, np.int64), np.zeros(_OPERATIONS, bool), np.arange(_OPERATIONS)
    for number, operation in tables.operations().items():
        codes[number], results[number], requested[number] = operation.code, operation.result, operation.request
    return codes, results, requested
