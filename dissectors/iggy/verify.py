"""The checksums of a run of messages: whether each holds, and the bytes that each covers.

Before VSR each message has one, over the bytes that its layout names (batches.py). In VSR each message has one, and the
batch has its own over its header and the checksums of its messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.checksum import NONE, XXH3, function, shown
from dissectors.iggy.message import IggyUnit, MessageRun, VsrBatch

Span = tuple[int, int]  # [start, end) in the buffer


class ChecksumVerdict(NamedTuple):
    """Verdict on the checksums of a unit."""

    verdict: str  # ok, bad, unverifiable or absent
    stored: str | None
    computed: str | None
    bad: int | None = None  # index of the first message whose checksum is wrong; None: the batch's own
    covered: tuple[int, int] | None = None  # what that checksum covers: index in the buffer, length
    wrong: int = 0  # messages with a wrong checksum


_ABSENT = ChecksumVerdict("absent", None, None)


def verify(kind: str, unit: IggyUnit, buf: bytes, known: int) -> ChecksumVerdict:
    """Check every message of a unit, and the checksum of a VSR batch; bytes of `buf` from index `known` on are missing.

    kind: of checksum, as in MessageRun.
    """
    if kind == NONE:
        return _ABSENT
    verdict = _verify_messages(kind, unit, buf, known)
    if unit.batch is None:
        return verdict
    stored = shown(XXH3, unit.batch.checksum)
    if unit.end > known or verdict.verdict == "bad":
        return verdict._replace(stored=verdict.stored or stored)
    computed = _compute_batch(unit, unit.batch, buf)
    if computed == unit.batch.checksum:
        return ChecksumVerdict("ok", stored, stored)
    return ChecksumVerdict("bad", stored, shown(XXH3, computed), None, (unit.start, unit.end - unit.start), 1)


def _verify_messages(kind: str, unit: IggyUnit, buf: bytes, known: int) -> ChecksumVerdict:
    view, compute = memoryview(buf), function(kind)
    whole = unit.end <= known
    first: ChecksumVerdict | None = None
    wrong = stored = computed = 0
    for i, message in enumerate(unit.messages):
        if message.end > known:
            whole = False
            continue
        stored, computed = message.stored, compute(view[message.covered : message.end])
        if computed != stored:
            wrong += 1
            if first is None:
                covered = (message.covered, message.end - message.covered)
                first = ChecksumVerdict("bad", shown(kind, stored), shown(kind, computed), i, covered)
    if first is not None:
        return first._replace(wrong=wrong)
    verdict = "unverifiable" if not whole else "ok" if unit.messages else "absent"
    if len(unit.messages) == 1 and unit.messages[0].end <= known:
        return ChecksumVerdict(verdict, shown(kind, stored), shown(kind, computed))
    return ChecksumVerdict(verdict, None, None)


def suspects(run: MessageRun, unit: IggyUnit, buf: bytes) -> Iterator[tuple[str, int, int, Span, list[Span]]]:
    """Yield every wrong checksum of a unit that was captured whole.

    Each with its kind, stored and computed value, where it lies and what it covers.
    """
    view, compute = memoryview(buf), function(run.checksum_kind)
    for m in unit.messages:
        computed = compute(view[m.covered : m.end])
        if computed != m.stored:
            place = (m.start, m.covered) if m.covered == m.start + 8 else (m.start + 33, m.start + 37)
            yield run.checksum_kind, m.stored, computed, place, [(m.covered, m.end)]
    if unit.batch is not None and len(unit.messages) == unit.total:
        computed = _compute_batch(unit, unit.batch, buf)
        if computed != unit.batch.checksum:
            yield XXH3, unit.batch.checksum, computed, (unit.start + 40, unit.start + 48), _sealed(unit, unit.batch)


def _compute_batch(unit: IggyUnit, batch: VsrBatch, buf: bytes) -> int:
    view = memoryview(buf)
    return function(XXH3)(b"".join([view[a:b] for a, b in _sealed(unit, batch)]))


def _sealed(unit: IggyUnit, batch: VsrBatch) -> list[Span]:
    """The pieces of a batch that its own checksum covers, in order."""
    at = unit.start
    header = [(0, 40), (48, 52)]
    if batch.producer is not None:
        header += [(52, 53), (56, 66), (68, 72)]
    return [*((at + a, at + b) for a, b in header), *((m.start, m.start + 8) for m in unit.messages)]
