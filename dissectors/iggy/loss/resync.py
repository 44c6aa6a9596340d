"""Where a frame begins after bytes were lost, or in a connection that began before its capture.

A start is believed where the body behind it is one of its command's layouts (legacy) or where the whole header fits
(VSR). In the answers' direction, where an empty OK is eight zero bytes, several frames must fit in a row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, count, takewhile
from struct import Struct
from typing import Any

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy import batches, headers, layouts, tables
from dissectors.iggy.decode import announced, metadata_fits
from dissectors.iggy.field_types import Misfit
from dissectors.iggy.frames import LEGACY, PAIR, PREFIX, SEND_MESSAGES, SIZE, VSR
from dissectors.iggy.headers import HEADER
from dissectors.iggy.layouts import BodyLayout
from dissectors.iggy.loss import places as frame_places
from dissectors.iggy.loss.places import SLACK, SMALL, TEXT_MOST, Clues
from dissectors.iggy.message import MessageRun
from dissectors.iggy.walk import Fields
from dissectors.rows.layout import ABSENT
from dissectors.session.search import Judgement, SearchBudget, first_start, places
from dissectors.tcp.chunk import CLIENT, SERVER
from dissectors.wire.per_thread import PerThread

_SAMPLE = 1 << 10  # from here on, a frame that is not whole is read again when twice as much of it is there
_SHORT = 12  # a length up to which a request proves little
_EMPTY, _FIELDS = 1, 2  # what a frame that fits is worth, without fields and with them
_PROOF = 3  # what a stranger asks for
_TEXT_AT = PREFIX + 4  # where an error's text begins
_READ = 256  # what trying a command's layouts costs, in bytes read (search.py)


Judge = Callable[[bytes, int, int, bool, Clues, SearchBudget], Judgement]
"""(buf, candidate, end of what is at hand, nothing more will come, clues, what it may cost)"""


def search(
    framing: str | None,
    direction: int,
    buf: bytes,
    pos: int,
    end: int,
    final: bool,
    clues: Clues,
    budget: SearchBudget,
    searched: dict[str, int],
) -> tuple[int, bool, str | None]:
    """The next frame start: (index, certain, framing); see Conversation.resync.

    searched: framing -> stream offset before which no frame of it starts, kept from one search to the next. While the
    framing is not known, the second one looks no further than where the first one waits, and judges no place again.
    """
    at, found, kind, needs = end, False, framing, 0
    for name in (VSR, LEGACY) if framing is None else (framing,):  # few places look like a header: it costs little
        test, judge, width = _SEARCH[name, direction]
        its = clues._replace(allowed=clues.allowed & tables.of_framing(name))  # others never speak so
        begin = max(pos, searched.get(name, 0) - budget.base)
        starts = _up_to(at, places(partial(test, its), width, buf, begin, end))
        verdict = partial(_judged, judge, buf, end, final, its, budget)
        first, sure = first_start(starts, verdict, budget, begin, end, width, final)
        searched[name] = budget.base + min(first, at + 1)
        if first < at or (sure and not found and first == at):
            at, found, kind, needs = first, sure, name, budget.needs
        if found and at == pos:
            break
    budget.needs = needs
    return at, found, kind if found else framing


def _up_to(last: int, found: Iterator[Sequence[int]]) -> Iterator[Sequence[int]]:
    """Those of the places that are not behind `last`."""
    for some in found:
        if some[len(some) - 1] > last:
            yield some[: bisect_right(some, last)]
            return
        yield some


def _judged(judge: Judge, buf: bytes, end: int, final: bool, clues: Clues, budget: SearchBudget, at: int) -> Judgement:
    return judge(buf, at, end, final, clues, budget)


def _judge_request(buf: bytes, pos: int, end: int, final: bool, clues: Clues, budget: SearchBudget) -> Judgement:
    """A body with fields, read to its end, is enough; of bodies without, two frames in a row must fit.

    To a stranger a body with fields is half of the proof: two of them in a row, or one at whose end all ends.
    """
    at, points = pos, 0
    while points < (_PROOF if clues.stranger else _FIELDS):
        if end - pos < PREFIX:
            least = _FIELDS if clues.stranger and at != clues.alone else _EMPTY
            ends = final and pos == end and points >= least
            return Judgement.YES if ends else Judgement.WAIT
        length, code = PAIR.unpack_from(buf, pos)
        send = code == SEND_MESSAGES
        if code not in tables.commands() or not 4 <= length < (clues.most if send else SMALL):
            return Judgement.NO
        have = end if send else _sample(pos, pos + 4 + length, end)
        verdict = reads(layouts.REQUEST, code, buf, pos + 8, pos + 4 + length, have, clues.allowed, budget, send)
        if verdict is Judgement.WAIT:
            return Judgement.WAIT if send else budget.wait_for(_read_again(pos, pos + 4 + length, have) - at)
        if verdict is Judgement.NO:
            return Judgement.NO
        points += _FIELDS if length > _SHORT else _EMPTY
        pos += 4 + length
        if pos > end and points < (_PROOF if clues.stranger else _FIELDS):
            return budget.wait_for(pos - at + PREFIX)
    return Judgement.YES


def _judge_answer(buf: bytes, pos: int, end: int, final: bool, clues: Clues, budget: SearchBudget) -> Judgement:
    """A payload that some command's answer has, or headers alone where only those can come.

    An empty OK is eight zero bytes, and payloads are full of those: such headers are believed only where no payload is
    on its way (every request in flight has an empty answer), or where they end the capture. To a stranger two answers
    with a payload, or one at whose end all ends, are proof; a payload of zeros alone is worth no more than none.
    """
    at, errors, points = pos, 0, 0
    late = pos >= clues.earliest
    for frames in count(1):
        suffice = final and frames > 1 and late
        if clues.stranger:
            suffice = suffice and points >= _FIELDS and pos == end
        if end - pos < PREFIX:  # the next one is not there, or cut off
            return Judgement.YES if suffice else Judgement.WAIT
        status, length = PAIR.unpack_from(buf, pos)
        if length >= clues.most or (status and not may_be_error(buf, pos, end)):
            return Judgement.NO
        if length:
            whole = pos + PREFIX + length
            have = _sample(pos, whole, end)
            verdict = _judge_filled(buf, pos, have, clues, budget)
            if verdict is Judgement.WAIT:
                return Judgement.YES if suffice else budget.wait_for(_read_again(pos, whole, have) - at)
            if verdict is not Judgement.YES or not clues.stranger:
                return verdict
            points += _FIELDS if any(buf[pos + PREFIX : whole]) else _EMPTY
            if points >= _PROOF:
                return verdict
        elif late and 0 < clues.waiting == clues.empties:
            return Judgement.YES
        errors += status > 0
        if errors > 1 or frames > clues.waiting + SLACK:
            budget.spend(PREFIX * frames)
            return Judgement.NO
        pos += PREFIX + length
    raise AssertionError


def _sample(pos: int, whole: int, end: int) -> int:
    """Up to where a frame is read of which buf[pos:end] is at hand: to its end, or as far as was not read before."""
    have = min(whole, end) - pos
    return end if whole <= end or have < _SAMPLE else pos + (1 << (have.bit_length() - 1))


def _read_again(pos: int, whole: int, have: int) -> int:
    """Up to where bytes must be there before more than `have` of a frame at `pos` is read: see _sample."""
    return have + 1 if have - pos < _SAMPLE else min(whole, 2 * have - pos)


def _judge_filled(buf: bytes, pos: int, end: int, clues: Clues, budget: SearchBudget) -> Judgement:
    """Whether an answer with a payload, or an error with a text, may begin at `pos`.

    Bytes that are there rule it out whether or not more will come, so that no cut of the stream decides.
    """
    status, length = PAIR.unpack_from(buf, pos)
    whole = pos + PREFIX + length
    if status:
        if end <= pos + _TEXT_AT:
            return Judgement.WAIT  # the text may show that this is no place: then nothing is paid for it
        if not layouts.error_texts(clues.allowed):
            return Judgement.NO
        return Judgement.YES if whole <= end else Judgement.WAIT
    return _judge_payload(buf, pos + 8, whole, end, clues, budget)


def starts_answer(buf: bytes, pos: int, end: int, final: bool, clues: Clues, budget: SearchBudget) -> Judgement:
    """Whether the answer to the newest request, which is expected just here, begins here.

    Where that answer has no payload, a header alone is enough. The budget says how many bytes a WAIT needs.
    """
    budget.needs = 0
    if clues.empties and end - pos >= PREFIX:
        status, length = PAIR.unpack_from(buf, pos)
        if not length and (not status or may_be_error(buf, pos, end)):
            return Judgement.YES
    return _judge_answer(buf, pos, end, final, clues, budget)


def may_be_error(buf: bytes, pos: int, end: int) -> bool:
    """Whether an error answer starts here: a known status, behind it nothing or what may be a text."""
    status, length = PAIR.unpack_from(buf, pos)
    if status not in tables.statuses() or not (length == 0 or 4 < length <= TEXT_MOST):
        return False
    text = buf[pos + _TEXT_AT : min(end, pos + PREFIX + length)]
    if not text:
        return True
    return SIZE.unpack_from(buf, pos + PREFIX)[0] == length - 4 and min(text) >= 0x20


def _judge_payload(buf: bytes, pos: int, stop: int, end: int, clues: Clues, budget: SearchBudget) -> Judgement:
    """Whether any command is answered with the payload buf[pos:stop]."""
    codes = clues.awaited | _ANSWERED if clues.awaited else _plausible(buf, pos, stop, end)
    if codes and not clues.awaited and end < min(stop, pos + _SEEN):
        return Judgement.WAIT  # which layouts are tried, and paid, must not depend on where a segment ends
    budget.spend(_READ * _LAYOUTS if not codes else 0)
    verdicts = {reads(layouts.RESPONSE, code, buf, pos, stop, end, clues.allowed, budget) for code in codes}
    return next((verdict for verdict in (Judgement.YES, Judgement.WAIT) if verdict in verdicts), Judgement.NO)


def _plausible(buf: bytes, pos: int, stop: int, end: int) -> frozenset[int]:
    """Those of the commands _ANSWERED that the first fixed bytes of a payload allow: most bytes that are none do not.

    polls              partition, offset, count of messages: see _believable; what the count says must have room
    streams, topics    a number and the time of creation; in VSR a count of topics may come before; further on a name
    """
    length = stop - pos
    if min(stop, end) - pos < _GLANCE:
        return _ANSWERED if end < stop or length == 4 else _NO_CODES  # bytes are wanting, or it is a count of none
    created = _LONG(buf, pos + 4)[0]
    if created in _BORN or _LONG(buf, pos + 8)[0] in _BORN:
        made = _MADE if any(_may_be_named(buf, pos, at, stop, end) for at in _names_at()) else _NO_CODES
    else:
        old = created in _BORN_SECONDS and _may_be_named(buf, pos, _STREAM_NAME, stop, end)
        made = _STREAMS if old else _NO_CODES
    return made | _POLLS if may_be_poll(buf, pos, length, end) else made


def _may_be_named(buf: bytes, pos: int, at: int, stop: int, end: int) -> bool:
    """Whether a name may stand at an index of a payload, its length in one byte before it: it is never empty."""
    return pos + at >= end or 0 < buf[pos + at] < stop - pos - at


@cache
def _names_at() -> frozenset[int]:
    """Where in a payload the first stream's or topic's name may stand: behind fields of fixed sizes."""
    found = set()
    for layout in chain.from_iterable(layouts.candidates(layouts.RESPONSE, code, 0) for code in _MADE):
        fields = list(chain.from_iterable(field.fields or (field,) for field in layout.fields))
        found.add(sum(field.fixed for field in takewhile(lambda field: field.name != "name", fields)))
    return frozenset(found)


def may_be_poll(buf: bytes, pos: int, length: int, end: int) -> bool:
    """Whether a payload of `length` bytes may be polled messages: partition, offset and count of them allow it."""
    if end - pos < _GLANCE:
        return True
    partition, offset, count = _POLLED(buf, pos)
    if partition >= _PARTITIONS or offset >= _OFFSETS:
        return False
    left = length - _GLANCE
    if left in (0, _CONTEXT) or 0 < count * _SMALLEST <= left:
        return True
    if left < batches.BATCH_HEADER:
        return False
    lengths = (_LONG(buf, pos + at)[0] for at in _BATCH_LENGTHS if pos + at + 8 <= end)
    wanting = end - pos < _SEEN
    return wanting or any(batches.BATCH_HEADER <= size <= left for size in lengths)


def judge_body(code: int, buf: bytes, pos: int, stop: int, end: int, allowed: int) -> Judgement:
    """Whether buf[pos:stop], of which buf[pos:end] is at hand, is a request's body."""
    return reads(layouts.REQUEST, code, buf, pos, stop, end, allowed, SearchBudget(), code == SEND_MESSAGES)


@compiled
def reads(
    side: str,
    code: cython.longlong,
    buf: bytes,
    pos: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    allowed: cython.longlong,
    budget: SearchBudget,
    head_only: cython.bint = False,
) -> Judgement:
    """Whether one of the command's layouts reads buf[pos:stop], of which buf[pos:end] is at hand."""
    have: cython.Py_ssize_t = min(stop, end)
    after: cython.Py_ssize_t
    start: cython.Py_ssize_t
    whole: cython.Py_ssize_t
    notes: tuple[Fields, MessageRun] = _notes.get()
    fields: Fields = notes[0]
    run: MessageRun = notes[1]
    layout: BodyLayout
    waits: cython.bint = False
    for layout in layouts.candidates(side, code, allowed):
        if not layout.releases & allowed:
            continue
        budget.spend(_READ)
        after = fields.read(layout.plan, buf, pos, have)
        misfit: Misfit = fields.misfit
        if after >= 0:
            budget.spend(after - pos)
            if layout.run:
                if not metadata_fits(layout, fields, pos, after):
                    continue
                if head_only and after < have:
                    return Judgement.YES
                batches.read(layout.run, buf, after, stop, have, announced(layout, fields), False, run)
                misfit = run.misfit
                if not misfit.found:
                    budget.spend(have - after)
            elif after != stop:
                waits = waits or after == have < stop
                continue
        if misfit.found:
            start = max(after, pos)
            whole = have - after if after > pos else 0  # a run of messages is refused for what all of them show
            budget.spend(misfit.at - start if misfit.at > start else whole)
            waits = waits or (misfit.short and have < stop)
        elif have < stop:
            waits = True
        elif _believable(layout, fields):
            return Judgement.YES
    return Judgement.WAIT if waits else Judgement.NO


_notes: PerThread = PerThread(lambda: (Fields(), MessageRun()))
_POLLED = Struct("<IQI").unpack_from
_LONG = Struct("<Q").unpack_from
_GLANCE = 16  # bytes of a payload that are looked at first
_CONTEXT = 24  # bytes of a poll's answer that 0.10 adds
_SMALLEST = 45  # bytes of a message in a poll
_BATCH_LENGTHS = (48, 72)  # where the length of a first batch stands, in 0.9 and 0.10
_SEEN = _BATCH_LENGTHS[1] + 8  # bytes of a payload that show which commands it may answer
_POLLS, _STREAMS = frozenset({100}), frozenset({200, 201})
_MADE = _STREAMS | {300, 301}
_STREAM_NAME = 32  # where a stream's name stands
_ANSWERED = _POLLS | _MADE  # answers with enough structure to be known without their request
_NO_CODES: frozenset[int] = frozenset()
_LAYOUTS = 16  # some of them are tried where none is ruled out: what is ruled out is paid as if they were
_BORN = range(1_500_000_000_000_000, 4_200_000_000_000_000)  # microseconds: 2017, before the first server, to 2103
_BORN_SECONDS = range(_BORN.start // 10**6, _BORN.stop // 10**6)  # of a stream, in 0.2
_PARTITIONS, _OFFSETS = 1 << 20, 1 << 48


def _believable(layout: BodyLayout, fields: Fields) -> bool:
    """Whether times of creation, partitions and offsets can be such: text and counters read as numbers are not."""
    offset, partition = fields.number(layout.at_current_offset), fields.number(layout.at_partition_id)
    if (offset != ABSENT and not 0 <= offset < _OFFSETS) or partition >= _PARTITIONS:
        return False
    if not layout.has_times:
        return True
    values = fields.values()
    lists = (value for value in values.values() if isinstance(value, list))
    inner = (item for value in lists for item in value if isinstance(item, dict))
    return all(_is_made(entry) for entry in (values, *inner) if "created_at" in entry)


def _is_made(entry: dict[str, Any]) -> bool:
    """Whether fields are those of a stream or topic: one has a name; only a stream's time may be in seconds."""
    time, stream = entry["created_at"], "topics_count" in entry
    return entry.get("name") != "" and (time in _BORN or (stream and time in _BORN_SECONDS))


def _judge_vsr(buf: bytes, pos: int, end: int, final: bool, clues: Clues, budget: SearchBudget) -> Judgement:
    """The 256 bytes are a header, field by field; to a stranger the end of all or another header must follow."""
    if end - pos < HEADER:
        return budget.wait_for(HEADER)
    if not _is_header(buf, pos, clues.most):
        return Judgement.NO
    if not clues.stranger:
        return Judgement.YES
    size = SIZE.unpack_from(buf, pos + headers.SIZE_AT)[0]
    after = pos + size
    if end - after < HEADER:
        return Judgement.YES if final and after == end else budget.wait_for(size + HEADER)
    reserved = buf[after + headers.RESERVED_AT : after + headers.RESERVED_END]
    return _verdict(not any(reserved) and _is_header(buf, after, clues.most))


def _is_header(buf: bytes, pos: int, most: int) -> bool:
    size = SIZE.unpack_from(buf, pos + headers.SIZE_AT)[0]
    command = buf[pos + headers.COMMAND_AT]
    if not HEADER <= size <= most:
        return False
    if command == headers.EVICTION:
        return size == HEADER and not any(buf[pos + headers.EVICTION_ZERO_AT : pos + headers.REASON_AT])
    if command in _OPERATION_AT:
        at = pos + _OPERATION_AT[command]
        return buf[at] in tables.operations() and not any(buf[at + 1 : at + 8])
    return any(buf[pos + headers.CLUSTER_AT : pos + headers.SIZE_AT])  # between replicas the cluster is always given


def _verdict(fits: bool) -> Judgement:
    return Judgement.YES if fits else Judgement.NO


_OPERATION_AT = {headers.REQUEST: headers.REQUEST_OPERATION_AT, headers.REPLY: headers.OPERATION_AT}

_SEARCH: dict[tuple[str, int], tuple[Callable[[Clues, bytes, int, int, int], list[int]], Judge, int]] = {
    (LEGACY, CLIENT): (frame_places.request_places, _judge_request, PREFIX),
    (LEGACY, SERVER): (frame_places.answer_places, _judge_answer, PREFIX),
    (VSR, CLIENT): (frame_places.header_places, _judge_vsr, headers.RESERVED_END),
    (VSR, SERVER): (frame_places.header_places, _judge_vsr, headers.RESERVED_END),
}
"""(framing, direction) -> where a frame may start, who judges it, and bytes of its header that must be there"""
