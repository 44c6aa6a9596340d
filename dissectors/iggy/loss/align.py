"""After a hole in a pipelined connection: which of the requests in flight are answered?

Answers come in the order of the requests, so the answers seen since the hole belong to consecutive requests in flight,
after as many as the hole swallowed. An Assignment is one such choice. Each answer rules out the assignments in which
its request cannot have it (a ping has no payload), and a hole those that its length does not fit. Where one assignment
is left, it is the truth, and the answers held until then are paired. Silence helps: once nothing was in
flight any more and no later byte is missing, the last answer was that to the last request.

A hole in the requests is a RequestHole: from one request to `most`, whose answers are still to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dissectors.iggy.pending import ANY_LENGTH, Answer, Entry, IggyRequest, RequestHole

LEAST = 8  # bytes of an answer
_ASSIGNMENTS = 256
_SKIPPED = 1024  # requests whose answers one hole may have swallowed
_HELD = 256  # answers
_HELD_BYTES = 1 << 20  # of answers

_PAYLOAD = Answer(0, 0, 0, ANY_LENGTH)


class Assignment(NamedTuple):
    """One way to assign the answers to the requests."""

    after: int  # index in the queue of the entry that the next answer belongs to
    hole_answers: int  # answers that the hole at `after` has had
    path: tuple[int, ...]  # for each answer, the index of its request, or IN_HOLE


IN_HOLE = -1


class Alignment:
    """The assignments that are left. `fits(call, answer)`: whether an answer can be that of a request."""

    def __init__(self, fits: Callable[[IggyRequest, Answer], bool]) -> None:
        self.assignments = [Assignment(0, 0, ())]
        self.held: list[Answer] = []
        self.steps = 0  # comparisons made so far
        self._fits = fits
        self._bytes = 0

    def take(self, queue: Sequence[Entry], answer: Answer, lost: int, most: int) -> bool:
        """One more answer, after `lost` bytes of answers; False where it fits no assignment, or too many are left.

        most: comparisons that it may take; beyond them it is given up.
        """
        stop = self.steps + most
        self.held.append(answer)
        self._bytes += answer.length
        if min(lost // LEAST, len(queue)) > _SKIPPED:
            return False
        found: dict[Assignment, None] = {}
        for assignment in self.assignments:
            for start in self._skip(queue, assignment, answer, lost):
                found.update(dict.fromkeys(self._step(queue, start, answer)))
                if len(found) > _ASSIGNMENTS or self.steps > stop:
                    return False
        self.assignments = list(found)
        return bool(found) and len(self.held) <= _HELD and self._bytes <= _HELD_BYTES

    def all_answered(self, count: int) -> None:
        """The first `count` entries of the queue have had their answers, and the last of those was the last seen."""
        self.assignments = [assignment for assignment in self.assignments if assignment.after == count]

    def decided(self) -> list[int | None]:
        """For each answer held, the index of its request, if one assignment is left."""
        if len(self.assignments) == 1:
            return list(self.assignments[0].path)
        return [None] * len(self.held)

    def _skip(self, queue: Sequence[Entry], assignment: Assignment, answer: Answer, lost: int) -> Iterator[Assignment]:
        """Where an assignment may go on after a hole: the answers in it were as long as the hole."""
        if not lost:
            yield assignment
            return
        least, open_ended = 0, False
        for i in range(assignment.after, len(queue)):
            self.steps += 1
            entry = queue[i]
            if entry.order >= answer.order:
                return
            if least == lost or (open_ended and least < lost):
                yield Assignment(i, 0, assignment.path) if i > assignment.after else assignment
            if isinstance(entry, RequestHole) or self._fits(entry, _PAYLOAD):
                open_ended = True
            if isinstance(entry, RequestHole):
                had = assignment.hole_answers if i == assignment.after else 0
                if least + LEAST <= lost:
                    yield Assignment(i, had + 1, assignment.path)  # the hole swallowed some of its answers, not all
                least += 0 if had or entry.had else LEAST
            else:
                least += LEAST
            if least > lost:
                return

    def _step(self, queue: Sequence[Entry], assignment: Assignment, answer: Answer) -> Iterator[Assignment]:
        """The assignments that an answer makes of one."""
        i, hole_answers = assignment.after, assignment.hole_answers
        while i < len(queue):
            self.steps += 1
            entry = queue[i]
            if entry.order >= answer.order:
                return
            if isinstance(entry, IggyRequest):
                if self._fits(entry, answer):
                    yield Assignment(i + 1, 0, (*assignment.path, i))
                return
            if hole_answers < entry.most:
                yield Assignment(i, hole_answers + 1, (*assignment.path, IN_HOLE))
            if not hole_answers and not entry.had:
                return  # a hole holds one request at least
            i, hole_answers = i + 1, 0
