"""Which answer belongs to which request.

Legacy frames hold nothing that ties them: the server answers in the order of the requests. VSR answers name a request
id, unique per connection from 0.10 on, repeated by reads and sends before. What breaks the order is a hole in the
capture, and one server that answers bytes that were no requests (0.8.0). The rules:

    eligible    an answer belongs to a request that was complete before it (Frame.order)
    lock-step   until an answer proves the contrary, a client waits for each answer: after a hole the newest eligible
                request is the one that is answered, older ones lost their answers in the hole
    pipelined   after a hole, answers are held until only one assignment to the requests is left (align.py);
                where none or too many are, nothing is paired until the connection has been quiet
    surplus     after a refused SEND_MESSAGES, answers `InvalidCommand` to a well-formed request are not its answers:
                a server that did not read the body takes each eight bytes of it for a frame

A hole in the requests is an entry of the queue, too: requests unknown in number, whose answers are orphans.

What is known of a connection is one state for each of three questions; pairing_states.py lists them with all
transitions. An answer in legacy framing is judged by the method of the state that it finds (_IN_STATE).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.iggy.frames import SEND_MESSAGES
from dissectors.iggy.loss.align import Alignment
from dissectors.iggy.pairing_states import Certainty, Order, Origin, PairingEvent, following
from dissectors.iggy.pending import DISCONNECTED, INVALID_COMMAND, Answer, Entry, IggyRequest, RequestHole
from dissectors.limits import PAIRING_CREDIT, PAIRING_STEPS_PER_FRAME
from dissectors.rows.layout import ABSENT

# nothing in flight any more: longer than any server takes to answer what it has read
QUIET_NS = 100_000_000

_TO_NOTHING = frozenset({INVALID_COMMAND, DISCONNECTED})  # statuses that servers send without a request
PAIRED = "paired"
ORPHAN = "orphan"  # its request is in a hole
SURPLUS = "surplus"  # it answers nothing
UNSURE = "unsure"  # its request may be one of those given up
HELD = "held"  # later answers will decide

Judged = tuple[str, IggyRequest | None, Sequence[IggyRequest]]
"""How an answer is judged, its request, and the requests that will have none."""

_NONE: tuple[IggyRequest, ...] = ()

_PIPELINED, _MULTIPLEXED, _MULTIPLEXED_PIPELINED = Order.PIPELINED, Order.MULTIPLEXED, Order.MULTIPLEXED_PIPELINED
_ALIGNING = (Certainty.ALIGNING, Certainty.SILENT)
_DOUBTFUL = (Certainty.DOUBTFUL, Certainty.DOUBTFUL_BODY)
_CERTAIN, _BEFORE_CAPTURE = Certainty.CERTAIN, Origin.BEFORE_CAPTURE


@final
@carried
@compiled
class Pairing:
    """Requests in flight on one connection.

    `fits(request, answer)`: whether the answer can be that request's; `suits` looks into it, too.
    """

    queue: deque[Entry]
    fits: Callable[[IggyRequest, Answer], bool]
    suits: Callable[[IggyRequest, Answer], bool]
    limit: cython.longlong
    order: Order
    certainty: Certainty
    origin: Origin
    resolved: list[tuple[Answer, IggyRequest | None]]  # held answers that are held no longer, and their requests
    search_abandoned: cython.bint = False  # an answer would have taken more comparisons than there are to spend
    _alignment: Alignment | None = None  # in the states ALIGNING and SILENT
    _before_silence: cython.Py_ssize_t = 0  # entries of the queue, in the state SILENT
    _unread: cython.longlong = 0  # eight-byte pieces of a refused body, in the states REFUSED_BODY and DOUBTFUL_BODY
    _steps: cython.longlong  # comparisons that may still be made
    _last_ns: cython.longlong = 0
    _answered: cython.longlong = 0  # delivery order of the last answer

    def __init__(
        self,
        fits: Callable[[IggyRequest, Answer], bool],
        suits: Callable[[IggyRequest, Answer], bool],
        limit: cython.longlong,
        *,
        midstream: bool,
    ) -> None:
        self.queue = deque()
        self.fits = fits
        self.suits = suits
        self.limit = limit
        self.order = Order.LOCK_STEP
        self.certainty = Certainty.CERTAIN
        self.origin = Origin.BEFORE_CAPTURE if midstream else Origin.KNOWN
        self.resolved = []
        self._steps = PAIRING_CREDIT

    @compiled
    def pipelined(self) -> cython.bint:
        """Whether the client has had several requests in flight."""
        return self.order is _PIPELINED or self.order is _MULTIPLEXED_PIPELINED

    @compiled
    def multiplexed(self) -> cython.bint:
        """Whether answers come in any order (0.10)."""
        return self.order is _MULTIPLEXED or self.order is _MULTIPLEXED_PIPELINED

    @compiled
    def multiplex(self, multiplexes: cython.bint) -> None:
        """Whether the dialect is known to answer in any order."""
        if multiplexes != self.multiplexed():
            event = PairingEvent.DIALECT_MULTIPLEXES if multiplexes else PairingEvent.DIALECT_ORDERS
            self.order = following(self.order, event)

    @compiled
    def send(self, request: IggyRequest) -> Sequence[IggyRequest]:
        """A request was sent; returns those that are given up for unanswered."""
        if request.order < self._answered and self.queue and isinstance(self.queue[-1], RequestHole):
            return [request]  # found late: its answer may have been taken for one to the hole
        given_up: Sequence[IggyRequest] = _NONE
        self._steps += PAIRING_STEPS_PER_FRAME
        if request.frame.first_ns - self._last_ns > QUIET_NS:
            given_up = self._silence()
        if len(self.queue) >= self.limit:
            more = self._surrender(len(self.queue)) if self._aligns else self._requests([self.queue.popleft()])
            given_up = [*given_up, *more]
        last_ns: cython.longlong = request.frame.last_ns
        self._last_ns = request.frame.first_ns if last_ns == ABSENT else last_ns
        newest = self.queue[-1] if self.queue else None
        if isinstance(newest, IggyRequest) and newest.order == request.order:  # one segment
            self._several_in_flight()
        self.queue.append(request)
        return given_up

    def hole(self, order: int) -> None:
        """Requests were lost."""
        if not (self.queue and isinstance(self.queue[-1], RequestHole)):
            self.queue.append(RequestHole(order))

    def found(self, order: int, lost: int) -> None:
        """The next request was found, `lost` bytes after the one before."""
        tail = self.queue[-1] if self.queue else None
        if isinstance(tail, RequestHole) and order > self._answered and tail.bound(max(1, lost // 8)) <= 0:
            self.queue.pop()

    @compiled
    def answer(self, answer: Answer, lost: cython.longlong) -> Judged:
        """An answer, after `lost` bytes of answers: how it is judged, its request, requests without an answer."""
        if answer.first_ns > self._last_ns:
            self._last_ns = answer.first_ns
        self._answered = answer.order
        self._steps += PAIRING_STEPS_PER_FRAME
        head = self.queue[0] if self.queue else None
        certain = self.certainty is _CERTAIN
        if certain and isinstance(head, IggyRequest) and not lost and self._is_for(head, answer):
            return self._paired(head, answer)
        ready = self._ready(answer)
        legacy = answer.request_id == ABSENT
        self._steps -= 0 if self.certainty in _DOUBTFUL and legacy else ready
        if self._steps < 0:
            return UNSURE, None, self._give_up(ready, legacy)
        if not legacy:
            return self._by_id(answer, ready, lost)
        return _IN_STATE[self.certainty](self, answer, ready, lost)

    # --- transitions ---

    def _on(self, event: PairingEvent) -> None:
        self.certainty = following(self.certainty, event)

    def _several_in_flight(self) -> None:
        if not self.pipelined():
            self.order = following(self.order, PairingEvent.SEVERAL_IN_FLIGHT)

    def _matched(self) -> None:
        if self.origin is _BEFORE_CAPTURE:
            self.origin = following(self.origin, PairingEvent.FIRST_MATCH)

    def _silence(self) -> Sequence[IggyRequest]:
        given_up = self.close() if self.certainty in _DOUBTFUL else _NONE
        self._before_silence = len(self.queue)
        self._on(PairingEvent.SILENCE)
        return given_up

    @property
    def _aligns(self) -> bool:
        return self.certainty in _ALIGNING

    # --- an answer in legacy framing: one method for each state ---

    def _certain(self, answer: Answer, ready: int, lost: int) -> Judged:
        if not ready:  # where its request is missing, the hole may not have shown yet
            return (SURPLUS if self._is_last_word(answer, lost) else ORPHAN), None, []
        self._matched()
        eligible = list(islice(self.queue, ready))
        if lost or any(isinstance(entry, RequestHole) for entry in eligible):
            return self._after_hole(answer, eligible, lost)
        if ready > 1:
            self._several_in_flight()
        for at, entry in enumerate(eligible):
            if isinstance(entry, IggyRequest) and self.fits(entry, answer):
                return self._take(answer, eligible, at)
        return SURPLUS, None, []

    def _doubtful(self, answer: Answer, ready: int, lost: int) -> Judged:
        if ready:
            self._matched()
        elif self._is_last_word(answer, lost):
            return SURPLUS, None, []
        return UNSURE, None, []

    def _refused_body(self, answer: Answer, ready: int, lost: int) -> Judged:
        surplus = self._is_surplus(answer, ready)
        self._unread = self._unread - 1 if surplus else 0
        if not self._unread:
            self._on(PairingEvent.BODY_PASSED)
        return (SURPLUS, None, []) if surplus else _IN_STATE[self.certainty](self, answer, ready, lost)

    def _silent(self, answer: Answer, ready: int, lost: int) -> Judged:
        if lost:
            self._on(PairingEvent.ANSWERS_LOST)
            return self._align(answer, ready, lost)
        assert self._alignment is not None
        self._alignment.all_answered(self._before_silence)  # nothing is missing: what was in flight is answered
        given_up = self._surrender(self._before_silence)
        judged, request, more = self.answer(answer, 0)
        return judged, request, [*given_up, *more]

    def _align(self, answer: Answer, ready: int, lost: int) -> Judged:
        alignment = self._alignment
        assert alignment is not None
        if answer.cut_in_header:
            return UNSURE, None, []
        queue = list(self.queue)
        before = alignment.steps
        taken = alignment.take(queue, answer, lost, self._steps)
        self._steps -= alignment.steps - before
        if not taken:
            alignment.held.pop()
            alignment.assignments.clear()
            self.search_abandoned = self.search_abandoned or self._steps < 0
            given_up = self._surrender(ready)
            self._on(PairingEvent.CONTRADICTION)
            return UNSURE, None, given_up
        if len(alignment.assignments) > 1:
            return HELD, None, []
        (assignment,) = alignment.assignments
        alignment.held.pop()
        last = assignment.path[-1]
        given_up = self._settle(list(assignment.path), assignment.after)
        if last < 0:
            head = self.queue[0]
            assert isinstance(head, RequestHole)
            head.most, head.had = head.most - assignment.hole_answers, True
            if not head.most:
                self.queue.popleft()
            return ORPHAN, None, given_up
        request = queue[last]
        assert isinstance(request, IggyRequest)
        self._note_refusal(request, answer)
        return PAIRED, request, given_up

    # --- the steps of these ---

    def _after_hole(self, answer: Answer, eligible: list[Entry], lost: int) -> Judged:
        """An answer where answers or requests before it are missing."""
        if 0 < lost < 8 * (len(self._requests(eligible)) - 1):
            self._several_in_flight()  # too few bytes for an answer to each but the newest
        if self.pipelined() and len(eligible) > 1:
            if answer.cut_in_header:
                return UNSURE, None, []
            self._alignment = Alignment(self.suits)
            self._on(PairingEvent.HOLE_IN_PIPELINE)
            return self._align(answer, len(eligible), lost)
        at = self._in_lock_step(answer, eligible, lost)
        if at is None:
            self._on(PairingEvent.CONTRADICTION)
            self._drop(len(eligible))
            return UNSURE, None, self._requests(eligible)
        return self._take(answer, eligible, at)

    def _take(self, answer: Answer, eligible: list[Entry], at: int) -> Judged:
        """The answer is that to the entry at `at`; those before it had theirs in a hole, or never will."""
        entry = eligible[at]
        self._drop(at + 1)
        given_up = self._requests(eligible[:at])
        if isinstance(entry, RequestHole):
            entry.most -= 1
            if entry.most:
                self.queue.appendleft(entry)
            return ORPHAN, None, given_up
        self._note_refusal(entry, answer)
        return PAIRED, entry, given_up

    @staticmethod
    def _is_last_word(answer: Answer, lost: int) -> bool:
        """Whether a server may have sent it without a request."""
        return answer.status in _TO_NOTHING and not lost

    def _give_up(self, ready: int, legacy: bool) -> list[IggyRequest]:
        """Too much would have to be compared: nothing that waits is paired any more."""
        self.search_abandoned = True
        if self._aligns:
            given_up = self._surrender(ready)
        else:
            given_up = self._requests(islice(self.queue, ready))
            self._drop(ready)
        if legacy:
            self._on(PairingEvent.CONTRADICTION)
        return given_up

    def _ready(self, answer: Answer) -> int:
        """How many entries of the queue were complete before an answer: all but some of the newest."""
        later = 0
        for entry in reversed(self.queue):
            if entry.order < answer.order:
                break
            later += 1
        return len(self.queue) - later

    @compiled
    def _is_for(self, head: IggyRequest, answer: Answer) -> cython.bint:
        """Whether the oldest request is the one that is answered, where nothing is missing."""
        if answer.request_id != head.correlation_id or head.order >= answer.order:
            return False
        if self.multiplexed() and len(self.queue) > 1:
            return False  # the same id may stand in the queue again
        if not answer.length and not answer.status and answer.request_id == ABSENT:
            return True  # an empty OK may answer any
        return bool(self.fits(head, answer))

    @compiled
    def _paired(self, head: IggyRequest, answer: Answer) -> Judged:
        queue = self.queue
        queue.popleft()
        self._matched()
        second = queue[0] if queue else None
        if isinstance(second, IggyRequest) and second.order < answer.order:  # noqa: SIM102 (plainer so)
            if answer.request_id in (ABSENT, second.correlation_id):
                self._several_in_flight()
        self._note_refusal(head, answer)
        return PAIRED, head, _NONE

    @compiled
    def _note_refusal(self, request: IggyRequest, answer: Answer) -> None:
        if answer.status and request.api_code == SEND_MESSAGES and answer.request_id == ABSENT:
            self._unread = request.frame.size // 8
            if self._unread:
                self._on(PairingEvent.BODY_REFUSED)

    def oldest(self, order: int) -> IggyRequest | None:
        """Take the oldest request that was complete before `order`."""
        for i, entry in enumerate(self.queue):
            if isinstance(entry, IggyRequest) and entry.order < order:
                del self.queue[i]
                return entry
        return None

    def close(self) -> list[IggyRequest]:
        """Give up the requests that were never answered."""
        if self._aligns:
            return self._surrender(len(self.queue))
        left = self._requests(self.queue)
        self.queue.clear()
        return left

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self.queue.popleft()

    def _is_surplus(self, answer: Answer, ready: int) -> bool:
        if answer.status != INVALID_COMMAND or answer.length:
            return False
        first = self.queue[0] if ready else None
        return first is None or (isinstance(first, IggyRequest) and first.well_formed)

    def _in_lock_step(self, answer: Answer, eligible: list[Entry], lost: int) -> int | None:
        """Index of the entry that is answered after a hole, None where none is certain."""
        at = len(eligible) - 1
        if not lost:  # no answer is missing: what the hole in the requests held is not answered before this
            at = next((i for i, entry in enumerate(eligible) if isinstance(entry, IggyRequest)), at)
        entry = eligible[at]
        return at if isinstance(entry, RequestHole) or self.fits(entry, answer) else None

    def _surrender(self, count: int) -> list[IggyRequest]:
        """No more evidence is waited for: `count` entries of the queue have had the answers that they will have."""
        assert self._alignment is not None
        return self._settle(self._alignment.decided(), count)

    def _settle(self, path: list[int | None], count: int) -> list[IggyRequest]:
        """End an alignment; `path`: indexes of the requests of the answers held, and of the one that ended it."""
        assert self._alignment is not None
        queue = list(islice(self.queue, count))
        for answer, at in zip(self._alignment.held, path):
            request = queue[at] if at is not None and at >= 0 else None
            self.resolved.append((answer, request if isinstance(request, IggyRequest) else None))
        self._drop(count)
        self._alignment = None
        self._on(PairingEvent.ALIGNED)
        paired = set(path)
        return [entry for i, entry in enumerate(queue) if isinstance(entry, IggyRequest) and i not in paired]

    # --- an answer that names its request ---

    def _by_id(self, answer: Answer, ready: int, lost: int) -> Judged:
        if lost and self.order is Order.LOCK_STEP and ready and isinstance(self.queue[ready - 1], RequestHole):
            given_up = self._requests(islice(self.queue, ready))
            self._drop(ready)
            return ORPHAN, None, given_up
        matching = [
            i
            for i, entry in enumerate(islice(self.queue, ready))
            if isinstance(entry, IggyRequest) and entry.correlation_id == answer.request_id and self.fits(entry, answer)
        ]
        if not matching:
            holes = (
                self.origin is Origin.BEFORE_CAPTURE
                or lost
                or any(isinstance(entry, RequestHole) for entry in self.queue)
            )
            self.queue = deque(e for e in self.queue if not (isinstance(e, RequestHole) and e.order < answer.order))
            return (ORPHAN if holes else SURPLUS), None, []
        self._matched()
        holes = bool(lost) or any(isinstance(entry, RequestHole) for entry in islice(self.queue, ready))
        if len(matching) > 1 and not holes:
            self._several_in_flight()
        unique = self.multiplexed() and answer.request_id != 0  # the same id again is the same request sent again
        at = matching[-1] if unique or (holes and not self.pipelined()) else matching[0]
        request = self.queue[at]
        assert isinstance(request, IggyRequest)
        if self.multiplexed():
            older = [self.queue[i] for i in matching if i < at]
            for i in reversed(matching):
                if i <= at:
                    del self.queue[i]
            return PAIRED, request, self._requests(older)
        if at and not holes:  # nothing is missing: those before it are answered later
            self._several_in_flight()
        if self.pipelined():
            del self.queue[at]
            return PAIRED, request, []
        given_up = self._requests(islice(self.queue, at))
        self._drop(at + 1)
        return PAIRED, request, given_up

    @staticmethod
    def _requests(entries: Iterable[Entry]) -> list[IggyRequest]:
        return [entry for entry in entries if isinstance(entry, IggyRequest)]


_IN_STATE: dict[Certainty, Callable[[Pairing, Answer, int, int], Judged]] = {
    Certainty.CERTAIN: Pairing._certain,
    Certainty.REFUSED_BODY: Pairing._refused_body,
    Certainty.ALIGNING: Pairing._align,
    Certainty.SILENT: Pairing._silent,
    Certainty.DOUBTFUL: Pairing._doubtful,
    Certainty.DOUBTFUL_BODY: Pairing._refused_body,
}
"""State -> the method that judges an answer in legacy framing."""
