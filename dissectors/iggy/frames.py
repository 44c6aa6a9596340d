"""Where frames begin and end, in both framings.

legacy, request               legacy, answer                VSR, every frame
   0  4 length = 4 + n           0  4 status                   0 16 checksum
   4  4 code                     4  4 length = n               16 16 checksum of the body
   8  n payload                  8  n payload                  32 16 cluster
                                                               48  4 size, this header included
                                                               60  1 command, 61 1 replica, 62-128 zero

A connection keeps one framing. The client's first bytes tell which: a length of at least 4 and a code, or VSR.
After a hole, a start is believed where the body behind it is one of its command's layouts (legacy) or where the whole
header fits (VSR). In the answers' direction, where an empty OK is eight zero bytes, several frames must fit in a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import cache
from itertools import count
from struct import Struct
from typing import Any, NamedTuple

from dissectors.iggy import batches, layouts, tables
from dissectors.iggy.kinds import MalformedError, ShortError
from dissectors.inbox import INVALID, MORE
from dissectors.tcp.chunk import CLIENT, SERVER

LEGACY, VSR = "legacy", "vsr"
HEADER = 256
COMMAND_AT = 60
REASON_AT = 255  # of an eviction
PREFIX = 8  # bytes of a legacy frame before its payload
_RESERVED_END = 128
ZEROS_TOLD = 16  # zero bytes at a frame's start that tell VSR where the rest of its header was not captured
_PAIR = Struct("<II")
_SIZE = Struct("<I")
_MAX_CODE = 0xFFFF
_SMALL = 1 << 16  # bodies of all requests but sends
SEND_MESSAGES = 101

REQUEST, REPLY, EVICTION = 5, 8, 13


def measure(framing: str, direction: int, buf: bytes, pos: int, end: int, most: int) -> int:
    """Size of the frame at `pos`, MORE or INVALID; `most` is the largest size believed."""
    if framing == VSR:
        return _measure_vsr(buf, pos, end, most)
    if end - pos < 8:
        return MORE
    first, second = _PAIR.unpack_from(buf, pos)
    if direction == CLIENT:
        return 4 + first if 4 <= first < most and second <= _MAX_CODE else INVALID
    if first and first not in tables.statuses() and (first > _MAX_CODE or second):
        return INVALID
    return 8 + second if second < most else INVALID


def _measure_vsr(buf: bytes, pos: int, end: int, most: int) -> int:
    if end - pos < 64:
        return MORE
    size = _SIZE.unpack_from(buf, pos + 48)[0]
    if not HEADER <= size <= most or buf[pos + COMMAND_AT] not in tables.planes():
        return INVALID
    return int(size)


def detect(direction: int, buf: bytes, pos: int, end: int, most: int) -> str | None:
    """The framing of a connection whose first frame starts at `pos`; None while it cannot be told."""
    have = end - pos
    if have < 8:
        return None
    length, code = _PAIR.unpack_from(buf, pos)
    if direction == CLIENT and 4 <= length < most and 0 < code <= _MAX_CODE:
        return LEGACY
    if have < _RESERVED_END:
        return None
    sealed = _measure_vsr(buf, pos, end, most) > 0 and not any(buf[pos + 62 : pos + _RESERVED_END])
    return VSR if sealed else LEGACY


# --- finding the way back --------------------------------------------------------------------------------------------


class Verdict(Enum):
    """Whether a frame starts at a candidate."""

    YES = 1
    NO = 2
    WAIT = 3  # more bytes must come first


class Clues(NamedTuple):
    """What the conversation knows when it searches."""

    allowed: int  # releases that may speak
    most: int  # largest frame believed
    awaited: frozenset[int] = frozenset()  # commands of the requests in flight
    waiting: int = 0  # how many there are
    empties: int = 0  # how many of them, the newest ones, have answers without payload; 0 where pipelined
    earliest: int = 0  # where the first of those answers can begin: bytes before were there before its request


Judge = Callable[[bytes, int, int, bool, Clues], Verdict]
"""(buf, candidate, end of what is at hand, nothing more will come, clues)"""


def resync(
    framing: str | None, direction: int, buf: bytes, pos: int, end: int, final: bool, clues: Clues
) -> tuple[int, bool, str | None]:
    """The next frame start: (index, certain, framing); see Conversation.resync."""
    at, found, kind = end, False, framing
    for name in (LEGACY, VSR) if framing is None else (framing,):
        pattern, judge, width = _SEARCH[name, direction]()
        first, sure = _search(pattern, judge, width, buf, pos, end, final, clues)
        if first < at or (sure and not found and first == at):
            at, found, kind = first, sure, name
    return at, found, kind if found else framing


def _search(
    pattern: re.Pattern[bytes], judge: Judge, width: int, buf: bytes, pos: int, end: int, final: bool, clues: Clues
) -> tuple[int, bool]:
    """The first candidate that is no NO; what is too short to be a candidate is kept for later."""
    for match in pattern.finditer(buf, pos, end):
        at = match.start()
        verdict = judge(buf, at, end, final, clues)
        if verdict is Verdict.YES:
            return at, True
        if verdict is Verdict.WAIT and not final:
            return at, False
    return (end if final else max(pos, end - width)), False


@cache
def _requests() -> tuple[re.Pattern[bytes], Judge, int]:
    """A plausible length and a known code."""
    codes = b"|".join(re.escape(_SIZE.pack(code)) for code in sorted(tables.commands()))
    return re.compile(rb"(?s)(?=...[\x00-\x0f](?:" + codes + b"))"), _judge_request, 7


@cache
def _answers() -> tuple[re.Pattern[bytes], Judge, int]:
    """A known status, and a plausible length: of errors, zero or that of a text."""
    codes = b"|".join(re.escape(_SIZE.pack(code)) for code in sorted(tables.statuses()))
    pattern = rb"(?s)(?=\x00\x00\x00\x00...[\x00-\x0f]|(?:" + codes + rb")(?:\x00\x00\x00\x00|.[\x00-\x10]\x00\x00))"
    return re.compile(pattern), _judge_answer, 7


@cache
def _headers() -> tuple[re.Pattern[bytes], Judge, int]:
    """A size, a command and 66 zero bytes."""
    commands = b"".join(re.escape(bytes([command])) for command in tables.planes())
    return re.compile(rb"(?s)(?=.{51}[\x00-\x0f].{8}[" + commands + rb"].\x00{66})"), _judge_vsr, 127


_SEARCH = {(LEGACY, CLIENT): _requests, (LEGACY, SERVER): _answers, (VSR, CLIENT): _headers, (VSR, SERVER): _headers}


def _judge_request(buf: bytes, pos: int, end: int, final: bool, clues: Clues) -> Verdict:
    """A body with fields, read to its end, is enough; of bodies without, two frames in a row must fit."""
    for _ in range(2):
        if end - pos < 8:
            return Verdict.WAIT
        length, code = _PAIR.unpack_from(buf, pos)
        send = code == SEND_MESSAGES
        if code not in tables.commands() or not 4 <= length < (clues.most if send else _SMALL):
            return Verdict.NO
        verdict = _reads(layouts.REQUEST, code, buf, pos + 8, pos + 4 + length, end, clues.allowed, head_only=send)
        if verdict is not Verdict.YES or length > 12:
            return verdict
        pos += 4 + length
        if final and pos == end:
            return Verdict.YES
    return Verdict.YES


def _judge_answer(buf: bytes, pos: int, end: int, final: bool, clues: Clues) -> Verdict:
    """A payload that some command's answer has; or headers alone, exactly as many as the newest requests wait for.

    An empty OK is eight zero bytes, and payloads are full of those: such headers are believed only where no payload is
    on its way (every request in flight has an empty answer), or where their number fits.
    """
    errors = 0
    late = pos >= clues.earliest
    for frames in count(1):
        if end - pos < 8:
            told = pos == end and frames > 1 and late and (final or frames - 1 == clues.empties)
            return Verdict.YES if told else Verdict.WAIT
        status, length = _PAIR.unpack_from(buf, pos)
        if length >= clues.most or (status and not may_be_error(buf, pos, end)):
            return Verdict.NO
        if status and length:
            if not layouts.error_texts(clues.allowed):
                return Verdict.NO
            return Verdict.YES if pos + PREFIX + length <= end else Verdict.WAIT
        if length:
            if final and pos + PREFIX + length > end:
                return Verdict.WAIT  # for ever: no layout need be tried
            return _judge_payload(buf, pos + 8, pos + 8 + length, end, clues)
        if late and 0 < clues.waiting == clues.empties:
            return Verdict.YES
        errors += status > 0
        if errors > 1 or frames > clues.waiting + _SLACK:
            return Verdict.NO
        pos += 8
    raise AssertionError


def starts_answer(buf: bytes, pos: int, end: int, final: bool, clues: Clues) -> bool:
    """Whether the answer that is expected just here begins here."""
    return _judge_answer(buf, pos, end, final, clues) is Verdict.YES


_TEXT_MOST = 1 << 12  # bytes of an error's text


def may_be_error(buf: bytes, pos: int, end: int) -> bool:
    """Whether an answer that tells an error starts here: a known status, behind it nothing or what may be a text."""
    status, length = _PAIR.unpack_from(buf, pos)
    if status not in tables.statuses() or not (length == 0 or 4 < length <= _TEXT_MOST):
        return False
    text = buf[pos + PREFIX + 4 : min(end, pos + PREFIX + length)]
    if not text:
        return True
    return _SIZE.unpack_from(buf, pos + PREFIX)[0] == length - 4 and min(text) >= 0x20


def _judge_payload(buf: bytes, pos: int, stop: int, end: int, clues: Clues) -> Verdict:
    """Whether any command is answered with the payload buf[pos:stop]."""
    codes = clues.awaited | _ANSWERED
    verdicts = {_reads(layouts.RESPONSE, code, buf, pos, stop, end, clues.allowed) for code in codes}
    return next((verdict for verdict in (Verdict.YES, Verdict.WAIT) if verdict in verdicts), Verdict.NO)


def judge_body(code: int, buf: bytes, pos: int, stop: int, end: int, allowed: int) -> Verdict:
    """Whether buf[pos:stop], of which buf[pos:end] is at hand, is a request's body."""
    return _reads(layouts.REQUEST, code, buf, pos, stop, end, allowed, head_only=code == SEND_MESSAGES)


def _reads(
    side: str, code: int, buf: bytes, pos: int, stop: int, end: int, allowed: int, *, head_only: bool = False
) -> Verdict:
    """Whether one of the command's layouts reads buf[pos:stop], of which buf[pos:end] is at hand."""
    have = min(stop, end)
    waits = False
    for layout in layouts.candidates(side, code, allowed):
        if not layout.releases & allowed:
            continue
        values: dict[str, Any] = {}
        try:
            after = layout.read(buf, pos, have, values)
            if layout.run:
                if not layouts.metadata_fits(values, pos, after):
                    continue
                if head_only and after < have:
                    return Verdict.YES
                batches.read(layout.run, buf, after, stop, have, values.get("messages_count"))
            elif after != stop:
                waits = waits or after == have < stop
                continue
            if have == stop:
                if _believable(values):
                    return Verdict.YES
                continue
            waits = True
        except ShortError:
            waits = waits or have < stop
        except MalformedError:
            continue
    return Verdict.WAIT if waits else Verdict.NO


_ANSWERED = frozenset({100, 200, 201, 300, 301})  # answers with enough structure to be known without their request
_SLACK = 2  # requests in holes, whose answers may be among those in a row
_BORN = range(1_500_000_000_000_000, 4_200_000_000_000_000)  # microseconds: 2017, before the first server, to 2103
_BORN_SECONDS = range(_BORN.start // 10**6, _BORN.stop // 10**6)  # of a stream, in 0.2
_PARTITIONS, _OFFSETS = 1 << 20, 1 << 48


def _believable(values: dict[str, Any]) -> bool:
    """Whether times of creation, partitions and offsets can be such: text and counters read as numbers are not."""
    lists = (value for value in values.values() if isinstance(value, list))
    inner = (item for value in lists for item in value if isinstance(item, dict))
    if values.get("current_offset", 0) >= _OFFSETS or (values.get("partition_id") or 0) >= _PARTITIONS:
        return False
    times = (entry["created_at"] for entry in (values, *inner) if "created_at" in entry)
    return all(time in _BORN or time in _BORN_SECONDS for time in times)


def _judge_vsr(buf: bytes, pos: int, end: int, final: bool, clues: Clues) -> Verdict:
    """The 256 bytes are a header, field by field."""
    if end - pos < HEADER:
        return Verdict.WAIT
    size = _SIZE.unpack_from(buf, pos + 48)[0]
    command = buf[pos + COMMAND_AT]
    if not HEADER <= size <= clues.most:
        return Verdict.NO
    if command == EVICTION:
        return _verdict(size == HEADER and not any(buf[pos + 152 : pos + 255]))
    if command in _OPERATION_AT:
        at = pos + _OPERATION_AT[command]
        return _verdict(buf[at] in tables.operations() and not any(buf[at + 1 : at + 8]))
    return _verdict(any(buf[pos + 32 : pos + 48]))  # between replicas the cluster is always told


def _verdict(fits: bool) -> Verdict:
    return Verdict.YES if fits else Verdict.NO


_OPERATION_AT = {REQUEST: 176, REPLY: 208}
