"""After a hole in a pipelined connection: which of the requests in flight are answered?

Answers come in the order of the requests, so the answers seen since the hole lie over the requests in flight in one
piece, shifted by as many as the hole swallowed. A Reading is one way to lay them. Each answer ends the readings in
which its request cannot be answered so (a ping has no payload), and a hole those that its length does not fit. Where
one reading is left, it is the truth, and the answers held until then are paired. Silence helps: once nothing was in
flight any more and no later byte is missing, the last answer was that to the last request.

A hole in the requests is a Ghost: from one request to `most`, each of which has had its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dissectors.iggy.flight import ANY_LENGTH, Answer, Call, Entry, Ghost

LEAST = 8  # bytes of an answer
_READINGS = 256
_SKIPPED = 1024  # requests whose answers one hole may have swallowed
_HELD = 256  # answers
_HELD_BYTES = 1 << 20  # of answers

_PAYLOAD = Answer(0, 0, 0, ANY_LENGTH)


class Reading(NamedTuple):
    """One way to lay the answers over the requests."""

    after: int  # index in the queue of the entry that the next answer belongs to
    ghosts: int  # answers that the ghost at `after` has had
    path: tuple[int, ...]  # for each answer, the index of its request, or GHOST


GHOST = -1


class Alignment:
    """The readings that are left. `fits(call, answer)` says whether an answer can be that of a request."""

    def __init__(self, fits: Callable[[Call, Answer], bool]) -> None:
        self.readings = [Reading(0, 0, ())]
        self.held: list[Answer] = []
        self._fits = fits
        self._bytes = 0

    def take(self, queue: Sequence[Entry], answer: Answer, lost: int) -> bool:
        """One more answer, after `lost` bytes of answers; False where it fits no reading, or too many are left."""
        self.held.append(answer)
        self._bytes += answer.length
        if min(lost // LEAST, len(queue)) > _SKIPPED:
            return False
        found: dict[Reading, None] = {}
        for reading in self.readings:
            for start in self._skip(queue, reading, answer, lost):
                found.update(dict.fromkeys(self._step(queue, start, answer)))
                if len(found) > _READINGS:
                    return False
        self.readings = list(found)
        return bool(found) and len(self.held) <= _HELD and self._bytes <= _HELD_BYTES

    def all_answered(self, count: int) -> None:
        """The first `count` entries of the queue have had their answers, and the last of those was the last seen."""
        self.readings = [reading for reading in self.readings if reading.after == count]

    def decided(self) -> list[int | None]:
        """For each answer held, the index of its request, if one reading is left."""
        if len(self.readings) == 1:
            return list(self.readings[0].path)
        return [None] * len(self.held)

    def _skip(self, queue: Sequence[Entry], reading: Reading, answer: Answer, lost: int) -> Iterator[Reading]:
        """Where a reading may go on after a hole: the answers in it were as long as the hole."""
        if not lost:
            yield reading
            return
        least, open_ended = 0, False
        for i in range(reading.after, len(queue)):
            entry = queue[i]
            if entry.order >= answer.order:
                return
            if least == lost or (open_ended and least < lost):
                yield Reading(i, 0, reading.path) if i > reading.after else reading
            if isinstance(entry, Ghost) or self._fits(entry, _PAYLOAD):
                open_ended = True
            if isinstance(entry, Ghost):
                had = reading.ghosts if i == reading.after else 0
                if least + LEAST <= lost:
                    yield Reading(i, had + 1, reading.path)  # the hole swallowed some of its answers, not all
                least += 0 if had or entry.had else LEAST
            else:
                least += LEAST
            if least > lost:
                return

    def _step(self, queue: Sequence[Entry], reading: Reading, answer: Answer) -> Iterator[Reading]:
        """The readings that an answer makes of one."""
        i, ghosts = reading.after, reading.ghosts
        while i < len(queue):
            entry = queue[i]
            if entry.order >= answer.order:
                return
            if isinstance(entry, Call):
                if self._fits(entry, answer):
                    yield Reading(i + 1, 0, (*reading.path, i))
                return
            if ghosts < entry.most:
                yield Reading(i, ghosts + 1, (*reading.path, GHOST))
            if not ghosts and not entry.had:
                return  # a hole holds one request at least
            i, ghosts = i + 1, 0
