"""Runs of messages in sends and polls, and their checksums.

2023 to 0.4, send                       2023 to 0.4, poll
  at size field                           at size field
   0   16 id                               0    8 offset
  16    4 headers_length                   8    1 state
  20    h headers                          9    8 timestamp        microseconds
   .    4 payload_length                  17   16 id
   .    p payload                         33    4 checksum         CRC32 of the payload
                                          37    4 headers_length, headers, payload_length, payload

0.5 to 0.8, send: count x (u32 offset, u32 position = end of the message, u64 timestamp), then messages; poll: messages
   0    8 checksum          over the message from byte 8 to its end: CRC32 (0.5) or XXH3-64 (0.6 on); 0 in a send
   8   16 id
  24    8 offset
  32    8 timestamp
  40    8 origin_timestamp
  48    4 user_headers_length
  52    4 payload_length
  56    8 reserved          from 0.7 on
   .    p payload, h user headers

VSR, one batch in a send, any number in a poll
   0    8 partition_id      40    8 batch_checksum   XXH3-64 of bytes 0-40, message_count, the producer's fields
   8    8 base_offset                                where there is one, and the frames' checksums
  16    8 base_timestamp    48    4 message_count
  24    8 origin_timestamp  52    1 flags            bit 0: an idempotent producer wrote it (from 0.10 on)
  32    8 batch_length      56    8 producer_id      64    2 epoch      68    4 base_sequence
                            72  184 not checked
 frame
   0    8 checksum          XXH3-64 of the frame from byte 8 to its end
   8   16 id                24    4 offset_delta     28    4 timestamp_delta (from origin_timestamp)
  32    4 user_headers_length    36    4 payload_length   40    8 reserved
  48    p payload, h user headers

Source: facts measured on servers 0.0.4 to 0.9.0-edge.5; iggy_binary_protocol 0.11.1-edge.8, batch.rs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from dissectors.checksum import CRC32, NONE, XXH3, compute, shown
from dissectors.iggy.field_types import MalformedBodyError, need, plain_headers, typed_headers
from dissectors.iggy.loss.length_repair import MENDABLE, mended, moved
from dissectors.iggy.message import Msg

_U32 = Struct("<I")
_SEND_A = Struct("<QQI")
_POLL_A = Struct("<QBQQQII")
_HEADER = Struct("<QQQQQQII")
_INDEX = Struct("<IIQ")
_BATCH = Struct("<QQQQQQI")
_PRODUCER = Struct("<QH2xI")
_FRAME = Struct("<QQQIIIIQ")

_LENGTHS, _FRAME_LENGTHS = 48, 32  # where a message's two lengths lie

_FLAGS_AT, _IDEMPOTENT, _PRODUCER_AT = 52, 1, 56  # in a VSR batch

BATCH_HEADER = 256
FRAME_HEADER = 48
_INDEX_ENTRY = 16


class Producer(NamedTuple):
    """Who wrote a VSR batch, where it wants each batch to be stored once."""

    id: int
    epoch: int
    sequence: int  # of the first message


class Stored(NamedTuple):
    """A VSR batch: its header, as it lies at `start`."""

    start: int
    end: int
    partition: int
    base_offset: int
    base_timestamp: int
    origin_timestamp: int
    checksum: int
    total: int  # as announced
    producer: Producer | None
    messages: list[Msg]


class MessageRun(NamedTuple):
    """The messages of one frame."""

    format: str
    checksum_kind: str
    typed: bool  # headers with typed keys
    start: int
    end: int
    total: int  # as announced; as found where nothing announces it
    messages: list[Msg]
    batches: list[Stored]  # VSR only
    problem: str | None  # what does not fit although every message could be read


class ChecksumVerdict(NamedTuple):
    """What the checksums of a run or batch say."""

    verdict: str  # ok, bad, unverifiable or absent
    stored: str | None
    computed: str | None
    bad: int | None = None  # index of the first message whose checksum is wrong; None: the batch's own
    covered: tuple[int, int] | None = None  # what that checksum covers: index in the buffer, length
    wrong: int = 0  # messages with a wrong checksum


# --- reading ---------------------------------------------------------------------------------------------------------

Walk = Callable[[bytes, int, int, int], Msg]
"""(buf, pos, end, header size) -> the message there."""


def _send_a(buf: bytes, pos: int, end: int, header: int) -> Msg:
    at = need(pos, 20, end, "message header")
    low, high, size = _SEND_A.unpack_from(buf, pos)
    after = need(at, size, end, "message headers")
    payload = need(after, 4, end, "payload length")
    length = _U32.unpack_from(buf, after)[0]
    stop = need(payload, length, end, "payload")
    return Msg(pos, payload, stop, high << 64 | low, None, 0, 0, payload, length, at, size, 0)


_STATES = (1, 10, 20, 30)  # available, unavailable, poisoned, marked for deletion


def _poll_a(buf: bytes, pos: int, end: int, header: int) -> Msg:
    at = need(pos, 41, end, "message header")
    offset, state, timestamp, low, high, stored, size = _POLL_A.unpack_from(buf, pos)
    if state not in _STATES:
        raise MalformedBodyError(f"message state {state}", pos + 8)
    after = need(at, size, end, "message headers")
    payload = need(after, 4, end, "payload length")
    length = _U32.unpack_from(buf, after)[0]
    stop = need(payload, length, end, "payload")
    return Msg(pos, payload, stop, high << 64 | low, offset, timestamp, 0, payload, length, at, size, stored)


def _message_b(buf: bytes, pos: int, end: int, header: int) -> Msg:
    payload = need(pos, header, end, "message header")
    stored, low, high, offset, timestamp, origin, size, length = _HEADER.unpack_from(buf, pos)
    headers = need(payload, length, end, "payload")
    stop = need(headers, size, end, "user headers")
    return Msg(pos, pos + 8, stop, high << 64 | low, offset, timestamp, origin, payload, length, headers, size, stored)


class MessageFormat(NamedTuple):
    """A layout of a run of messages."""

    shown: str
    walk: Walk | None
    header: int
    kind: str
    indexed: bool = False
    typed: bool = False


FORMATS: dict[str, MessageFormat] = {
    "send_a": MessageFormat("legacy", _send_a, 0, NONE),
    "poll_a": MessageFormat("legacy", _poll_a, 0, CRC32),
    "send_56": MessageFormat("header-56", _message_b, 56, NONE, indexed=True),
    "send_64": MessageFormat("header-64", _message_b, 64, NONE, indexed=True, typed=True),
    "poll_56_crc32": MessageFormat("header-56", _message_b, 56, CRC32),
    "poll_56_xxh3": MessageFormat("header-56", _message_b, 56, XXH3),
    "poll_64": MessageFormat("header-64", _message_b, 64, XXH3, typed=True),
    "batch": MessageFormat("vsr-batch", None, FRAME_HEADER, XXH3, typed=True),
    "batches": MessageFormat("vsr-batch", None, FRAME_HEADER, XXH3, typed=True),
}


def read(
    name: str, buf: bytes, pos: int, end: int, limit: int, count: int | None, *, repair: bool = True
) -> MessageRun:
    """The run at buf[pos:end], of which buf[pos:limit] was captured; `count` as the frame announces it.

    repair: a length that broke is looked for (length_repair.py): not where the question is only whether this is a run.

    MalformedBodyError if the messages do not tile the run. Where bytes are missing, it holds the messages before them.
    """
    form = FORMATS[name]
    if form.walk is None:
        return _read_batches(form, buf, pos, end, limit, count, single=name == "batch", repair=repair)
    start, problem, positions = pos, None, None
    if form.indexed and count is not None:
        pos = need(pos, count * _INDEX_ENTRY, end, "index section")
        positions = (start, pos)
    messages: list[Msg] = []
    try:
        if not (form.indexed and limit < pos):
            body = pos
            while pos < end:
                message = form.walk(buf, pos, limit, form.header)
                messages.append(message)
                pos = message.end
            if positions:
                problem = _check_index(buf, positions[0], body, messages)
    except MalformedBodyError:
        if limit >= end:
            whole = _mended(form, buf, start, end) if repair else None
            if whole is None:
                raise
            messages = whole
    found = len(messages)
    if count is not None and limit >= end and found != count:
        raise MalformedBodyError(f"{found} messages where {count} are announced", start)
    kind = form.kind
    if messages and not form.indexed and form.header == 56 and kind != _kind_56(messages):
        raise MalformedBodyError(f"checksums that are not {kind}", start)
    return MessageRun(
        form.shown, kind, form.typed, start, end, found if count is None else count, messages, [], problem
    )


def _mended(form: MessageFormat, buf: bytes, pos: int, end: int) -> list[Msg] | None:
    walk = form.walk
    if walk is None or form.kind == NONE or not form.header:
        return None
    return mended(lambda b, at, stop: walk(b, at, stop, form.header), form.kind, buf, pos, end, _LENGTHS)


def _kind_56(messages: list[Msg]) -> str:
    """A CRC32 in eight bytes leaves the upper four zero; one message that has them broken does not make it another."""
    return CRC32 if 2 * sum(m.stored >> 32 == 0 for m in messages) > len(messages) else XXH3


def _check_index(buf: bytes, at: int, body: int, messages: list[Msg]) -> str | None:
    """The index section holds where each message ends, counted from the first one."""
    for i, message in enumerate(messages):
        if at + _INDEX_ENTRY > body:
            return None  # the count of messages is wrong: reported as such
        position = _INDEX.unpack_from(buf, at)[1]
        if position != message.end - body:
            return f"index entry {i} says that message ends at {position}, it ends at {message.end - body}"
        at += _INDEX_ENTRY
    return None


def _read_batches(
    form: MessageFormat, buf: bytes, pos: int, end: int, limit: int, count: int | None, *, single: bool, repair: bool
) -> MessageRun:
    start, problem = pos, None
    batches: list[Stored] = []
    messages: list[Msg] = []
    try:
        while pos < end:
            batch = _read_batch(buf, pos, end, limit, repair=repair)
            batches.append(batch)
            messages += batch.messages
            if batch.end > limit:
                break
            pos = batch.end
            if single and pos != end:
                raise MalformedBodyError("bytes after the batch", pos)
    except MalformedBodyError:
        if limit >= end:
            raise
    found = sum(batch.total for batch in batches)
    if count is not None and limit >= end and found != count:
        problem = f"{found} messages where {count} are announced"
    total = found if count is None or limit >= end else count
    return MessageRun(form.shown, form.kind, form.typed, start, end, total, messages, batches, problem)


def _read_batch(buf: bytes, pos: int, end: int, limit: int, *, repair: bool) -> Stored:
    try:
        return _batch_as_declared(buf, pos, end, limit)
    except MalformedBodyError:
        batch = _mended_batch(buf, pos, end) if repair and limit >= end else None
        if batch is None:
            raise
        return batch


def _mended_batch(buf: bytes, pos: int, end: int) -> Stored | None:
    """The batch with one bit of its length or count flipped, if its checksum holds so."""
    work = bytearray(buf[pos : min(end, pos + MENDABLE)])
    if len(work) < BATCH_HEADER:
        return None
    for at in (*range(32, 40), *range(48, 52)):
        for bit in range(8):
            work[at] ^= 1 << bit
            batch = _if_sound(work)
            if batch is not None:
                messages = [moved(message, pos) for message in batch.messages]
                return batch._replace(start=pos, end=batch.end + pos, messages=messages)
            work[at] ^= 1 << bit
    return None


def _if_sound(work: bytearray) -> Stored | None:
    length, count = int.from_bytes(work[32:40], "little"), int.from_bytes(work[48:52], "little")
    if not count * FRAME_HEADER <= length - BATCH_HEADER <= len(work) - BATCH_HEADER:
        return None
    data = bytes(work)
    try:
        batch = _batch_as_declared(data, 0, len(data), len(data))
    except MalformedBodyError:
        return None
    return batch if verify_batch(batch, data, len(data)).verdict == "ok" else None


def _batch_as_declared(buf: bytes, pos: int, end: int, limit: int) -> Stored:
    at = need(pos, BATCH_HEADER, min(end, limit), "batch header")
    partition, base, base_time, origin, length, checksum, count = _BATCH.unpack_from(buf, pos)
    if length < BATCH_HEADER:
        raise MalformedBodyError(f"batch of {length} bytes", pos + 32)
    stop = need(pos, length, end, "batch")
    if count * FRAME_HEADER > length - BATCH_HEADER:
        raise MalformedBodyError(f"{count} messages in a batch of {length} bytes", pos + 48)
    messages: list[Msg] = []
    have = min(stop, limit)
    first = at

    def walk(buf: bytes, at: int, have: int) -> Msg:
        payload = need(at, FRAME_HEADER, have, "message header")
        stored, low, high, delta, passed, size, plen, _ = _FRAME.unpack_from(buf, at)
        headers = need(payload, plen, have, "payload")
        after = need(headers, size, have, "user headers")
        return Msg(
            at, at + 8, after, high << 64 | low, base + delta, base_time, origin + passed,
            payload, plen, headers, size, stored,
        )  # fmt: skip

    try:
        while at < stop:
            messages.append(walk(buf, at, have))
            at = messages[-1].end
    except MalformedBodyError:
        if limit >= stop:
            whole = mended(walk, XXH3, buf, first, stop, _FRAME_LENGTHS)
            if whole is None:
                raise
            messages = whole
    if limit >= stop and len(messages) != count:
        raise MalformedBodyError(f"{len(messages)} messages in a batch of {count}", pos)
    wrote = Producer(*_PRODUCER.unpack_from(buf, pos + _PRODUCER_AT)) if buf[pos + _FLAGS_AT] & _IDEMPOTENT else None
    return Stored(pos, stop, partition, base, base_time, origin, checksum, count, wrote, messages)


def headers_of(run: MessageRun, message: Msg, buf: bytes) -> list[dict[str, Any]] | None:
    """A message's user headers, None where they are no such thing (they may be encrypted)."""
    if not message.headers_length:
        return []
    read_headers = typed_headers if run.typed else plain_headers
    try:
        return read_headers(buf, message.headers, message.headers + message.headers_length)
    except MalformedBodyError:
        return None


# --- verifying -------------------------------------------------------------------------------------------------------


def verify(run: MessageRun, buf: bytes, known: int) -> ChecksumVerdict:
    """All messages of a run with one checksum a message; bytes from `known` on are missing."""
    kind = run.checksum_kind
    if kind == NONE:
        return ChecksumVerdict("absent", None, None)
    return _verify_messages(kind, run.messages, buf, known, run.end <= known)


def _verify_messages(kind: str, messages: list[Msg], buf: bytes, known: int, whole: bool) -> ChecksumVerdict:
    view = memoryview(buf)
    first: ChecksumVerdict | None = None
    wrong = 0
    stored = computed = None
    for i, message in enumerate(messages):
        if message.end > known:
            whole = False
            continue
        stored = message.stored
        computed = compute(kind, view[message.covered : message.end])
        if computed != stored:
            wrong += 1
            if first is None:
                covered = (message.covered, message.end - message.covered)
                first = ChecksumVerdict("bad", shown(kind, stored), shown(kind, computed), i, covered)
    if first is not None:
        return first._replace(wrong=wrong)
    one = len(messages) == 1 and stored is not None and computed is not None
    values = (shown(kind, stored), shown(kind, computed)) if one else (None, None)  # type: ignore[arg-type]
    if not whole:
        return ChecksumVerdict("unverifiable", *values)
    return ChecksumVerdict("ok" if messages else "absent", *values)


Span = tuple[int, int]


def suspects(
    run: MessageRun, batch: Stored | None, messages: list[Msg], buf: bytes
) -> Iterator[tuple[str, int, int, Span, list[Span]]]:
    """Every wrong checksum of a run, or of a VSR batch, that was captured whole.

    Yields kind, stored, computed, where the checksum lies, what it covers.
    """
    view = memoryview(buf)
    for m in messages:
        computed = compute(run.checksum_kind, view[m.covered : m.end])
        if computed != m.stored:
            place = (m.start, m.covered) if m.covered == m.start + 8 else (m.start + 33, m.start + 37)
            yield run.checksum_kind, m.stored, computed, place, [(m.covered, m.end)]
    if batch is not None and len(messages) == batch.total:
        covered = sealed(batch)
        computed = compute(XXH3, b"".join(view[a:b] for a, b in covered))
        if computed != batch.checksum:
            yield XXH3, batch.checksum, computed, (batch.start + 40, batch.start + 48), covered


def sealed(batch: Stored) -> list[Span]:
    """What a batch's own checksum covers, piece by piece."""
    at = batch.start
    header = [(0, 40), (48, 52)]
    if batch.producer is not None:
        header += [(52, 53), (56, 66), (68, 72)]
    return [*((at + a, at + b) for a, b in header), *((m.start, m.start + 8) for m in batch.messages)]


def verify_batch(batch: Stored, buf: bytes, known: int) -> ChecksumVerdict:
    """A VSR batch: every message, then the batch's own checksum over header and message checksums."""
    verdict = _verify_messages(XXH3, batch.messages, buf, known, batch.end <= known)
    if batch.end > known or verdict.verdict == "bad":
        return verdict._replace(stored=verdict.stored or shown(XXH3, batch.checksum))
    view = memoryview(buf)
    computed = compute(XXH3, b"".join(view[a:b] for a, b in sealed(batch)))
    stored_text, computed_text = shown(XXH3, batch.checksum), shown(XXH3, computed)
    if computed == batch.checksum:
        return ChecksumVerdict("ok", stored_text, computed_text)
    return ChecksumVerdict("bad", stored_text, computed_text, None, (batch.start, batch.end - batch.start), 1)
