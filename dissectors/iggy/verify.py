"""The checksums of a run of messages: whether each holds, and the bytes that each covers.

Before VSR each message has one, over the bytes that its layout names (batches.py). In VSR each message has one, and the
batch has its own over its header and the checksums of its messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.checksum import NONE, XXH3, function, shown
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy.message import COVERED, END, MASK64, START, STORED, IggyUnit, MessageRun, VsrBatch
from dissectors.wire.memory import part

Span = tuple[int, int]  # [start, end) in the buffer

CHECKSUM_AT = 40  # in a VSR batch


class ChecksumVerdict(NamedTuple):
    """Verdict on the checksums of a unit."""

    verdict: str  # ok, bad, unverifiable or absent
    stored: str | None
    computed: str | None
    bad: int | None = None  # index of the first message whose checksum is wrong; None: the batch's own
    covered: tuple[int, int] | None = None  # what that checksum covers: index in the buffer, length
    wrong: int = 0  # messages with a wrong checksum


_ABSENT = ChecksumVerdict("absent", None, None)


@compiled
def verify(run: MessageRun, unit: IggyUnit, buf: bytes, known: cython.Py_ssize_t) -> ChecksumVerdict:
    """Check every message of a unit, and the checksum of a VSR batch.

    known: bytes of `buf` from this index on are missing
    """
    if run.checksum_kind == NONE:
        return _ABSENT
    verdict = _verify_messages(run, unit, buf, known)
    if unit.batch is None:
        return verdict
    stored = shown(XXH3, unit.batch.checksum)
    if unit.end > known or verdict.verdict == "bad":
        return verdict._replace(stored=verdict.stored or stored)
    computed = _compute_batch(run, unit, unit.batch, buf)
    if computed == unit.batch.checksum:
        return ChecksumVerdict("ok", stored, stored)
    return ChecksumVerdict("bad", stored, shown(XXH3, computed), None, (unit.start, unit.end - unit.start), 1)


@compiled
def _verify_messages(run: MessageRun, unit: IggyUnit, buf: bytes, known: cython.Py_ssize_t) -> ChecksumVerdict:
    kind: str = run.checksum_kind
    compute = function(kind)
    whole: cython.bint = unit.end <= known
    first: ChecksumVerdict | None = None
    wrong: cython.longlong = 0
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    stored: cython.ulonglong = 0
    computed: cython.ulonglong = 0
    i: cython.Py_ssize_t
    for i in range(unit.first, unit.last):
        start, end = run.cells[i, COVERED], run.cells[i, END]
        if end > known:
            whole = False
            continue
        stored, computed = run.cells[i, STORED] & MASK64, compute(part(buf, start, end))
        if computed != stored:
            wrong += 1
            if first is None:
                at = i - unit.first
                first = ChecksumVerdict("bad", shown(kind, stored), shown(kind, computed), at, (start, end - start))
    if first is not None:
        return first._replace(wrong=wrong)
    verdict = "unverifiable" if not whole else "ok" if unit.last > unit.first else "absent"
    if unit.last - unit.first == 1 and run.cells[unit.first, END] <= known:
        return ChecksumVerdict(verdict, shown(kind, stored), shown(kind, computed))
    return ChecksumVerdict(verdict, None, None)


def suspects(run: MessageRun, unit: IggyUnit, buf: bytes) -> Iterator[tuple[str, int, int, Span, list[Span]]]:
    """Yield every wrong checksum of a unit that was captured whole.

    Each with its kind, stored and computed value, where it lies and what it covers.
    """
    view, compute, messages = memoryview(buf), function(run.checksum_kind), run.of(unit)
    for m in messages:
        computed = compute(view[m.covered : m.end])
        if computed != m.stored:
            yield run.checksum_kind, m.stored, computed, m.checksum, [(m.covered, m.end)]
    if unit.batch is not None and len(messages) == unit.total:
        computed = _compute_batch(run, unit, unit.batch, buf)
        if computed != unit.batch.checksum:
            place = (unit.start + CHECKSUM_AT, unit.start + CHECKSUM_AT + 8)
            yield XXH3, unit.batch.checksum, computed, place, covered(run, unit, unit.batch)


@compiled
def _compute_batch(run: MessageRun, unit: IggyUnit, batch: VsrBatch, buf: bytes) -> int:
    return function(XXH3)(b"".join([part(buf, a, b) for a, b in covered(run, unit, batch)]))


@compiled
def covered(run: MessageRun, unit: IggyUnit, batch: VsrBatch) -> list[Span]:
    """The pieces of a batch that its own checksum covers, in order."""
    at: cython.Py_ssize_t = unit.start
    start: cython.Py_ssize_t
    i: cython.Py_ssize_t
    pieces = [(at, at + 40), (at + 48, at + 52)]
    if batch.producer is not None:
        pieces += [(at + 52, at + 53), (at + 56, at + 66), (at + 68, at + 72)]
    for i in range(unit.first, unit.last):
        start = run.cells[i, START]
        pieces.append((start, start + 8))
    return pieces
