"""Which answer belongs to which request.

Legacy frames hold nothing that ties them: the server answers in the order of the requests. VSR answers name a request
id, unique per connection from 0.10 on, repeated by reads and sends before. What breaks the order is a hole in the
capture, and one server that answers bytes that were no requests (0.8.0). The rules:

    eligible    an answer belongs to a request that was complete before it (Frame.order)
    lock-step   until an answer proves the contrary, a client waits for each answer: after a hole the newest eligible
                request is the one that is answered, older ones lost their answers in the hole
    pipelined   after a hole, answers are held until only one way to lay them over the requests is left (align.py);
                where none or too many are, nothing is paired until the connection has been quiet
    surplus     after a refused SEND_MESSAGES, answers `InvalidCommand` to a well-formed request are not its answers:
                a server that did not read the body takes each eight bytes of it for a frame

A hole in the requests is a Ghost in the queue: requests unknown in number, whose answers are orphans.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from dissectors.iggy.align import Alignment
from dissectors.iggy.flight import DISCONNECTED, INVALID_COMMAND, Answer, Call, Entry, Ghost

_TO_NOTHING = frozenset({INVALID_COMMAND, DISCONNECTED})  # statuses that servers send without a request
SEND_MESSAGES = 101
QUIET_NS = 100_000_000  # nothing in flight any more: longer than any server takes to answer what it has read


PAIRED = "paired"
ORPHAN = "orphan"  # its request is in a hole
SURPLUS = "surplus"  # it answers nothing
UNSURE = "unsure"  # its request may be one of those given up
HELD = "held"  # what comes after it will tell


class Pairing:
    """Requests in flight on one connection.

    `fits(call, answer)` says whether the answer can be that request's; `suits` looks into it, too.
    """

    def __init__(
        self,
        fits: Callable[[Call, Answer], bool],
        suits: Callable[[Call, Answer], bool],
        limit: int,
        *,
        midstream: bool,
    ) -> None:
        self.queue: deque[Entry] = deque()
        self.fits = fits
        self.suits = suits
        self.limit = limit
        self.pipelined = False
        self.multiplexed = False  # answers come in any order (0.10)
        self.doubtful = False
        self.alignment: Alignment | None = None  # while it is not known which requests are answered
        self.quiet = 0  # entries of the queue before the connection was quiet
        self.resolved: list[tuple[Answer, Call | None]] = []  # held answers that are held no longer, and their requests
        self.unread = 0  # eight-byte pieces of a refused body that may still be answered
        self.unseen = midstream  # answers may belong to requests before the capture
        self._last_ns = 0
        self._order = 0  # of the last answer

    def call(self, call: Call) -> list[Call]:
        """A request; returns those that are given up for unanswered."""
        if call.order < self._order and self.queue and isinstance(self.queue[-1], Ghost):
            return [call]  # found late: its answer may have been taken for one to the hole
        given_up: list[Call] = []
        if call.first_ns - self._last_ns > QUIET_NS:
            if self.doubtful:
                given_up, self.doubtful = self.close(), False
            elif self.alignment:
                self.quiet = len(self.queue)
        if len(self.queue) >= self.limit:
            given_up += self._surrender(len(self.queue)) if self.alignment else self._calls([self.queue.popleft()])
        self._last_ns = call.last_ns
        newest = self.queue[-1] if self.queue else None
        self.pipelined = self.pipelined or (isinstance(newest, Call) and newest.order == call.order)  # one segment
        self.queue.append(call)
        return given_up

    def hole(self, order: int) -> None:
        """Requests were lost."""
        if not (self.queue and isinstance(self.queue[-1], Ghost)):
            self.queue.append(Ghost(order))

    def found(self, order: int, lost: int) -> None:
        """The next request was found, `lost` bytes after the one before."""
        tail = self.queue[-1] if self.queue else None
        if isinstance(tail, Ghost) and order > self._order and tail.bound(max(1, lost // 8)) <= 0:
            self.queue.pop()

    def answer(self, answer: Answer, lost: int) -> tuple[str, Call | None, list[Call]]:
        """An answer, after `lost` bytes of answers: how it is judged, its request, requests without an answer."""
        self._last_ns = max(self._last_ns, answer.first_ns)
        self._order = answer.order
        head = self.queue[0] if self.queue else None
        unsettled = self.unread or self.doubtful or self.alignment
        if isinstance(head, Call) and not lost and not unsettled and self._is_for(head, answer):
            return self._paired(head, answer)
        ready = sum(entry.order < answer.order for entry in self.queue)
        if answer.request_id is not None:
            return self._by_id(answer, ready, lost)
        if self.alignment:
            return self._align(self.alignment, answer, lost)
        if self._is_surplus(answer, ready):
            self.unread -= 1
            return SURPLUS, None, []
        self.unread = 0
        if not ready:  # where its request is missing, the hole may not have shown yet
            unsure = UNSURE if self.doubtful else ORPHAN
            return (SURPLUS if answer.status in _TO_NOTHING and not lost else unsure), None, []
        self.unseen = False
        eligible = list(islice(self.queue, ready))
        holes = bool(lost) or any(isinstance(entry, Ghost) for entry in eligible)
        if self.doubtful:
            return UNSURE, None, []
        if holes:
            if 0 < lost < 8 * (len(self._calls(eligible)) - 1):
                self.pipelined = True  # too few bytes for an answer to each but the newest
            if self.pipelined and len(eligible) > 1:
                if answer.beheaded:
                    return UNSURE, None, []
                self.alignment = Alignment(self.suits)
                return self._align(self.alignment, answer, lost)
            at = self._in_lock_step(answer, eligible, lost)
            if at is None:
                self.doubtful = True
                self._drop(ready)
                return UNSURE, None, self._calls(eligible)
        else:
            self.pipelined = self.pipelined or ready > 1
            at = next(
                (i for i, entry in enumerate(eligible) if isinstance(entry, Call) and self.fits(entry, answer)), -1
            )
            if at < 0:
                return SURPLUS, None, []
        entry = eligible[at]
        self._drop(at + 1)
        given_up = self._calls(eligible[:at])
        if isinstance(entry, Ghost):
            entry.most -= 1
            if entry.most:
                self.queue.appendleft(entry)
            return ORPHAN, None, given_up
        self._note_refusal(entry, answer)
        return PAIRED, entry, given_up

    def _is_for(self, head: Call, answer: Answer) -> bool:
        """Whether the oldest request is the one that is answered, where nothing is missing."""
        if answer.request_id != head.request_id or head.order >= answer.order:
            return False
        if self.multiplexed and len(self.queue) > 1:
            return False  # the same id may stand in the queue again
        return self.fits(head, answer)

    def _paired(self, head: Call, answer: Answer) -> tuple[str, Call, list[Call]]:
        queue = self.queue
        queue.popleft()
        self.unseen = False
        if not self.pipelined and queue:
            second = queue[0]
            same = answer.request_id is None or (isinstance(second, Call) and second.request_id == answer.request_id)
            self.pipelined = isinstance(second, Call) and second.order < answer.order and same
        self._note_refusal(head, answer)
        return PAIRED, head, []

    def _note_refusal(self, call: Call, answer: Answer) -> None:
        if answer.status and call.code == SEND_MESSAGES and answer.request_id is None:
            self.unread = call.size // 8

    def oldest(self, order: int) -> Call | None:
        """Take the oldest request that was complete before `order`."""
        for i, entry in enumerate(self.queue):
            if isinstance(entry, Call) and entry.order < order:
                del self.queue[i]
                return entry
        return None

    def close(self) -> list[Call]:
        """What never was answered."""
        if self.alignment:
            return self._surrender(len(self.queue))
        left = self._calls(self.queue)
        self.queue.clear()
        return left

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self.queue.popleft()

    def _is_surplus(self, answer: Answer, ready: int) -> bool:
        if not self.unread or answer.status != INVALID_COMMAND or answer.length:
            return False
        first = self.queue[0] if ready else None
        return first is None or (isinstance(first, Call) and first.well_formed)

    def _in_lock_step(self, answer: Answer, eligible: list[Entry], lost: int) -> int | None:
        """Index of the entry that is answered after a hole, None where it cannot be told."""
        at = len(eligible) - 1
        if not lost:  # no answer is missing: what the hole in the requests held is not answered before this
            at = next((i for i, entry in enumerate(eligible) if isinstance(entry, Call)), at)
        entry = eligible[at]
        return at if isinstance(entry, Ghost) or self.fits(entry, answer) else None

    # --- after a hole in a pipeline ---

    def _align(self, alignment: Alignment, answer: Answer, lost: int) -> tuple[str, Call | None, list[Call]]:
        if self.quiet and not lost:  # nothing is missing: what was in flight before the silence has been answered
            alignment.all_answered(self.quiet)
            given_up = self._surrender(self.quiet)
            judged, call, more = self.answer(answer, 0)
            return judged, call, given_up + more
        self.quiet = 0
        queue = list(self.queue)
        if not alignment.take(queue, answer, lost):
            alignment.held.pop()
            alignment.readings.clear()
            self.doubtful = True
            return UNSURE, None, self._surrender(sum(entry.order < answer.order for entry in queue))
        if len(alignment.readings) > 1:
            return HELD, None, []
        (reading,) = alignment.readings
        alignment.held.pop()
        last = reading.path[-1]
        given_up = self._settle(alignment, list(reading.path), reading.after)
        if last < 0:
            head = self.queue[0]
            assert isinstance(head, Ghost)
            head.most, head.had = head.most - reading.ghosts, True
            if not head.most:
                self.queue.popleft()
            return ORPHAN, None, given_up
        asked = queue[last]
        assert isinstance(asked, Call)
        self._note_refusal(asked, answer)
        return PAIRED, asked, given_up

    def _surrender(self, count: int) -> list[Call]:
        """No more evidence is waited for: `count` entries of the queue have had the answers that they will have."""
        assert self.alignment is not None
        return self._settle(self.alignment, self.alignment.decided(), count)

    def _settle(self, alignment: Alignment, path: list[int | None], count: int) -> list[Call]:
        """End an alignment; `path`: indexes of the requests of the answers held, and of the one that ended it."""
        queue = list(islice(self.queue, count))
        for answer, at in zip(alignment.held, path):
            its = queue[at] if at is not None and at >= 0 else None
            self.resolved.append((answer, its if isinstance(its, Call) else None))
        self._drop(count)
        self.alignment, self.quiet = None, 0
        paired = set(path)
        return [entry for i, entry in enumerate(queue) if isinstance(entry, Call) and i not in paired]

    def _by_id(self, answer: Answer, ready: int, lost: int) -> tuple[str, Call | None, list[Call]]:
        lock_step = not self.pipelined and not self.multiplexed
        if lost and lock_step and ready and isinstance(self.queue[ready - 1], Ghost):
            given_up = self._calls(islice(self.queue, ready))
            self._drop(ready)
            return ORPHAN, None, given_up
        matching = [
            i
            for i, entry in enumerate(islice(self.queue, ready))
            if isinstance(entry, Call) and entry.request_id == answer.request_id and self.fits(entry, answer)
        ]
        if not matching:
            holes = self.unseen or lost or any(isinstance(entry, Ghost) for entry in self.queue)
            self.queue = deque(e for e in self.queue if not (isinstance(e, Ghost) and e.order < answer.order))
            return (ORPHAN if holes else SURPLUS), None, []
        self.unseen = False
        holes = bool(lost) or any(isinstance(entry, Ghost) for entry in islice(self.queue, ready))
        if len(matching) > 1 and not holes:
            self.pipelined = True
        unique = self.multiplexed and bool(answer.request_id)  # the same id again is the same request sent again
        at = matching[-1] if unique or (holes and not self.pipelined) else matching[0]
        call = self.queue[at]
        assert isinstance(call, Call)
        if self.multiplexed:
            older = [self.queue[i] for i in matching if i < at]
            self.queue = deque(entry for entry in self.queue if entry is not call and entry not in older)
            return PAIRED, call, self._calls(older)
        if self.pipelined:
            del self.queue[at]
            return PAIRED, call, []
        given_up = self._calls(islice(self.queue, at))
        self._drop(at + 1)
        return PAIRED, call, given_up

    @staticmethod
    def _calls(entries: Iterable[Entry]) -> list[Call]:
        return [entry for entry in entries if isinstance(entry, Call)]
