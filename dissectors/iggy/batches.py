"""Runs of messages in sends and polls: how they lie in a frame (their checksums: verify.py).

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

from functools import partial
from struct import Struct
from typing import Any, final

from dissectors.checksum import CRC32, NONE, XXH3
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy.field_types import FAILED, MalformedBodyError, Misfit, headers
from dissectors.iggy.loss.length_repair import MENDABLE, mended, moved
from dissectors.iggy.message import (
    COVERED,
    END,
    HEADERS,
    HEADERS_LENGTH,
    ID_AT,
    MASK64,
    OFFSET,
    ORIGIN,
    PAYLOAD,
    PAYLOAD_LENGTH,
    START,
    STATE,
    STORED,
    TIMESTAMP,
    IggyUnit,
    MessageRun,
    Msg,
    Producer,
    VsrBatch,
)
from dissectors.iggy.verify import verify
from dissectors.rows.layout import ABSENT
from dissectors.wire.reader import WireReader, reader

SEND_A, POLL_A, MESSAGE_B, FRAME = range(4)
FRAME_HEADER, INDEX_ENTRY = 48, 16
LARGEST = (1 << 63) - 1

STATES = {1: "available", 10: "unavailable", 20: "poisoned", 30: "marked_for_deletion"}
"""What a poll of 2023 to 0.4 says of each message."""
BATCH_HEADER = 256  # bytes
_PRODUCER = Struct("<QH2xI")
_FLAGS_AT, _IDEMPOTENT, _PRODUCER_AT = 52, 1, 56  # in a VSR batch


@final
@compiled
class MessageFormat:
    """A layout of a run of messages.

    shown: as `batches.format` has it
    layout: SEND_A, POLL_A, MESSAGE_B or FRAME
    header: bytes of a message before its payload, of MESSAGE_B and FRAME; there lengths: where its two lengths lie
    kind: of checksum
    """

    shown: str
    layout: cython.int
    header: cython.int
    lengths: cython.int
    kind: str
    indexed: cython.bint
    typed: cython.bint

    def __init__(
        self, shown: str, layout: int, header: int, kind: str, *, indexed: bool = False, typed: bool = False
    ) -> None:
        self.shown = shown
        self.layout = layout
        self.header = header
        self.lengths = 32 if layout == FRAME else 48
        self.kind = kind
        self.indexed = indexed
        self.typed = typed

    @compiled
    def read(self, r: WireReader, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, run: MessageRun) -> cython.Py_ssize_t:
        """Add the message that begins at `pos` of the reader's buffer; where the next one begins, or FAILED."""
        if self.header:
            return _with_header(self, r, pos, end, run)
        return _poll_a(r, pos, end, run) if self.layout == POLL_A else _send_a(r, pos, end, run)

    def alone(self, batch: MessageRun, buf: bytes, pos: int, end: int) -> Msg | None:
        """The message at buf[pos:end], of a batch that was begun; None where there is none."""
        run = MessageRun()
        run.base, run.base_time, run.origin = batch.base, batch.base_time, batch.origin
        r = reader()
        r.open(buf, pos, len(buf))
        return run.message(0) if self.read(r, pos, end, run) >= 0 else None


FORMATS: dict[str, MessageFormat] = {
    "send_a": MessageFormat("legacy", SEND_A, 0, NONE),
    "poll_a": MessageFormat("legacy", POLL_A, 0, CRC32),
    "send_56": MessageFormat("header-56", MESSAGE_B, 56, NONE, indexed=True),
    "send_64": MessageFormat("header-64", MESSAGE_B, 64, NONE, indexed=True, typed=True),
    "poll_56_crc32": MessageFormat("header-56", MESSAGE_B, 56, CRC32),
    "poll_56_xxh3": MessageFormat("header-56", MESSAGE_B, 56, XXH3),
    "poll_64": MessageFormat("header-64", MESSAGE_B, 64, XXH3, typed=True),
    "batch": MessageFormat("vsr-batch", FRAME, FRAME_HEADER, XXH3, typed=True),
    "batches": MessageFormat("vsr-batch", FRAME, FRAME_HEADER, XXH3, typed=True),
}


@compiled
def _send_a(r: WireReader, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, run: MessageRun) -> cython.Py_ssize_t:
    headers: cython.Py_ssize_t = run.misfit.room(pos, 20, end, "message header")
    if headers < 0:
        return FAILED
    r.pos = pos + 16
    size: cython.longlong = r.u32le()
    return _add_a(r, pos, pos, headers, size, end, run)


@compiled
def _poll_a(r: WireReader, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, run: MessageRun) -> cython.Py_ssize_t:
    headers: cython.Py_ssize_t = run.misfit.room(pos, 41, end, "message header")
    if headers < 0:
        return FAILED
    r.pos = pos
    offset: cython.longlong = r.i64le()
    state: cython.longlong = r.u8()
    timestamp: cython.longlong = r.i64le()
    r.pos += 16
    stored: cython.longlong = r.u32le()
    size: cython.longlong = r.u32le()
    if state not in STATES:
        return run.misfit.refuse(pos + 8, "message state {}", state)
    after: cython.Py_ssize_t = _add_a(r, pos, pos + 17, headers, size, end, run)
    if after >= 0:
        run.cells[run.count - 1, OFFSET] = offset
        run.cells[run.count - 1, TIMESTAMP] = timestamp
        run.cells[run.count - 1, STORED] = stored
        run.cells[run.count - 1, STATE] = state
    return after


@compiled
def _add_a(
    r: WireReader,
    pos: cython.Py_ssize_t,
    id_at: cython.Py_ssize_t,
    headers: cython.Py_ssize_t,
    size: cython.longlong,
    end: cython.Py_ssize_t,
    run: MessageRun,
) -> cython.Py_ssize_t:
    """Add a message of 2023: `size` bytes of user headers, a length and the payload. Its checksum covers the latter."""
    misfit: Misfit = run.misfit
    length_at: cython.Py_ssize_t = misfit.room(headers, size, end, "message headers")
    payload: cython.Py_ssize_t = FAILED if length_at < 0 else misfit.room(length_at, 4, end, "payload length")
    if payload < 0:
        return FAILED
    r.pos = length_at
    length: cython.longlong = r.u32le()
    stop: cython.Py_ssize_t = misfit.room(payload, length, end, "payload")
    if stop < 0:
        return FAILED
    i: cython.Py_ssize_t = run.add()
    run.cells[i, START] = pos
    run.cells[i, COVERED] = payload
    run.cells[i, END] = stop
    run.cells[i, ID_AT] = id_at
    run.cells[i, OFFSET] = ABSENT
    run.cells[i, TIMESTAMP] = run.cells[i, ORIGIN] = run.cells[i, STORED] = run.cells[i, STATE] = 0
    run.cells[i, PAYLOAD] = payload
    run.cells[i, PAYLOAD_LENGTH] = length
    run.cells[i, HEADERS] = headers
    run.cells[i, HEADERS_LENGTH] = size
    return stop


@compiled
def _with_header(
    form: MessageFormat, r: WireReader, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, run: MessageRun
) -> cython.Py_ssize_t:
    """Add a message that begins with a header of fixed size, which its payload and its user headers follow."""
    misfit: Misfit = run.misfit
    payload: cython.Py_ssize_t = misfit.room(pos, form.header, end, "message header")
    if payload < 0:
        return FAILED
    r.pos = pos + form.lengths
    size: cython.longlong = r.u32le()
    length: cython.longlong = r.u32le()
    headers: cython.Py_ssize_t = misfit.room(payload, length, end, "payload")
    stop: cython.Py_ssize_t = FAILED if headers < 0 else misfit.room(headers, size, end, "user headers")
    if stop < 0:
        return FAILED
    i: cython.Py_ssize_t = run.add()
    r.pos = pos
    run.cells[i, START] = pos
    run.cells[i, COVERED] = run.cells[i, ID_AT] = pos + 8
    run.cells[i, END] = stop
    run.cells[i, STORED] = r.i64le()
    run.cells[i, STATE] = 0
    run.cells[i, PAYLOAD] = payload
    run.cells[i, PAYLOAD_LENGTH] = length
    run.cells[i, HEADERS] = headers
    run.cells[i, HEADERS_LENGTH] = size
    r.pos += 16
    if form.layout == FRAME:
        run.cells[i, OFFSET] = _later(run.base, r.u32le())
        run.cells[i, TIMESTAMP] = run.base_time
        run.cells[i, ORIGIN] = _later(run.origin, r.u32le())
    else:
        run.cells[i, OFFSET] = r.i64le()
        run.cells[i, TIMESTAMP] = r.i64le()
        run.cells[i, ORIGIN] = r.i64le()
    return stop


@compiled
def read(
    name: str,
    buf: bytes,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    expected: cython.longlong = -1,
    repair: cython.bint = True,
    run: MessageRun | None = None,
) -> MessageRun:
    """The run at buf[pos:end], of which buf[pos:limit] was captured.

    name: of FORMATS. expected: messages as announced; -1 where nothing announces them. repair: a length that broke is
    looked for (length_repair.py): not where the question is only whether this is a run. run: one to use again; None
    makes a new one. If the messages do not tile the run, its misfit says why. Where bytes are missing, it has those
    before them.
    """
    form: MessageFormat = FORMATS[name]
    if run is None:
        run = MessageRun()
    run.begin(form.shown, form.kind, form.typed, buf, limit)
    if form.layout == FRAME:
        _read_batches(run, pos, end, expected, name == "batch", repair)
    else:
        _read_messages(form, run, pos, end, expected, repair)
    return run


@compiled
def _read_messages(
    form: MessageFormat,
    run: MessageRun,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    expected: cython.longlong,
    repair: cython.bint,
) -> None:
    """Read messages that tile a frame. expected: how many are announced; -1 where nothing announces them."""
    start: cython.Py_ssize_t = pos
    r: WireReader = reader()
    indexed: cython.bint = form.indexed and expected >= 0
    if indexed:
        pos = run.misfit.room(pos, expected * INDEX_ENTRY, end, "index section")
        if pos < 0:
            return
    body: cython.Py_ssize_t = pos
    if not (form.indexed and run.limit < pos):
        r.open(run.buf, pos, len(run.buf))
        while 0 <= pos < end:
            pos = form.read(r, pos, run.limit, run)
        if pos >= 0:
            run.problem = _check_index(r, start, body, run) if indexed else None
        elif run.limit >= end and not (repair and _mend(form, run, 0, start, end, expected)):
            return
    run.misfit.found = False  # bytes are missing, or a length was mended
    if expected >= 0 and run.limit >= end and run.count != expected:
        run.misfit.refuse(start, "{} messages where {} are announced", run.count, expected)
    elif run.count and not form.indexed and form.header == 56 and form.kind != _kind_56(run):
        run.misfit.refuse(start, "checksums that are not " + form.kind)
    else:
        run.total = run.count if expected < 0 else expected
        if run.total:
            run.units.append(IggyUnit(start, end, run.total, 0, run.count))


def _replace(run: MessageRun, first: int, messages: list[Msg]) -> None:
    """Put messages in place of those that were read from the index `first` on."""
    run.cut(first)
    for message in messages:
        run.put(message)


def _mend(form: MessageFormat, run: MessageRun, first: int, pos: int, end: int, expected: int) -> bool:
    """Read the bytes [pos, end), one of whose lengths broke, into the run from the index `first` on, if that helps.

    expected: messages that it holds; -1 where nothing says that
    """
    if form.kind == NONE or not form.header or expected == 0 or expected * form.header > end - pos:
        return False
    messages = mended(partial(form.alone, run), form.kind, run.buf, pos, end, form.lengths)
    if messages is not None:
        _replace(run, first, messages)
    return messages is not None


@compiled
def _kind_56(run: MessageRun) -> str:
    """A CRC32 in eight bytes leaves the upper four zero; one message that has them broken does not make it another."""
    short: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(run.count):
        if run.cells[i, STORED] >> 32 == 0:
            short += 1
    return CRC32 if 2 * short > run.count else XXH3


@compiled
def _check_index(r: WireReader, at: cython.Py_ssize_t, body: cython.Py_ssize_t, run: MessageRun) -> str | None:
    """Check the index section: it holds where each message ends, counted from the first one."""
    i: cython.Py_ssize_t
    position: cython.longlong
    for i in range(run.count):
        if at + INDEX_ENTRY > body:
            return None  # the count of messages is wrong: reported as such
        r.pos = at + 4
        position = r.u32le()
        if position != run.cells[i, END] - body:
            return f"index entry {i} says that message ends at {position}, it ends at {run.cells[i, END] - body}"
        at += INDEX_ENTRY
    return None


@compiled
def _read_batches(
    run: MessageRun,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    expected: cython.longlong,
    single: cython.bint,
    repair: cython.bint,
) -> None:
    """Read VSR batches that tile a frame, in a send a single one."""
    start: cython.Py_ssize_t = pos
    found: cython.longlong = 0
    unit: IggyUnit | None
    while pos < end:
        unit = _read_batch(run, pos, end, repair)
        if unit is None:
            break
        run.units.append(unit)
        found += unit.total
        if unit.end > run.limit:
            break
        pos = unit.end
        if single and pos != end:
            run.misfit.refuse(pos, "bytes after the batch")
            break
    if run.misfit.found and run.limit >= end:
        return
    run.misfit.found = False
    if expected >= 0 and run.limit >= end and found != expected:
        run.problem = f"{found} messages where {expected} are announced"
    run.total = found if expected < 0 or run.limit >= end else expected
    if not run.units and run.total:
        run.units.append(IggyUnit(start, end, run.total, 0, 0))  # announced, but its header was not captured


@compiled
def _read_batch(
    run: MessageRun, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, repair: cython.bint
) -> IggyUnit | None:
    before: cython.Py_ssize_t = run.count
    unit = _batch_as_declared(run, pos, end)
    if unit is None:
        run.cut(before)
        unit = _mended_batch(run, pos, end) if repair and run.limit >= end else None
        run.misfit.found = unit is None
    return unit


def _mended_batch(run: MessageRun, pos: int, end: int) -> IggyUnit | None:
    """The batch with one bit of its length or count flipped, if its checksum holds so."""
    work = bytearray(run.buf[pos : min(end, pos + MENDABLE)])
    if len(work) < BATCH_HEADER:
        return None
    for at in (*range(32, 40), *range(48, 52)):
        for bit in range(8):
            work[at] ^= 1 << bit
            sound = _if_sound(work)
            if sound is not None:
                first = run.count
                _replace(run, first, [moved(message, pos) for message in sound.messages])
                (unit,) = sound.units
                return IggyUnit(pos, unit.end + pos, unit.total, first, run.count, unit.batch)
            work[at] ^= 1 << bit
    return None


def _if_sound(work: bytearray) -> MessageRun | None:
    """The batch that the bytes begin with, alone in a run, if it can be read and its checksums hold."""
    length, count = int.from_bytes(work[32:40], "little"), int.from_bytes(work[48:52], "little")
    if not count * FRAME_HEADER <= length - BATCH_HEADER <= len(work) - BATCH_HEADER:
        return None
    data = bytes(work)
    run = MessageRun()
    run.begin("", XXH3, True, data, len(data))
    unit = _batch_as_declared(run, 0, len(data))
    if unit is None:
        return None
    run.units.append(unit)
    return run if verify(run, run.units[0], data, len(data)).verdict == "ok" else None


@compiled
def _batch_as_declared(run: MessageRun, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> IggyUnit | None:
    buf: bytes = run.buf
    limit: cython.Py_ssize_t = run.limit
    misfit: Misfit = run.misfit
    at: cython.Py_ssize_t = misfit.room(pos, BATCH_HEADER, min(end, limit), "batch header")
    if at < 0:
        return None
    form: MessageFormat = FORMATS["batch"]
    r: WireReader = reader()
    r.open(buf, pos, len(buf))
    partition: cython.longlong = r.i64le()
    run.base = r.i64le()
    run.base_time = r.i64le()
    run.origin = r.i64le()
    length: cython.longlong = r.i64le()
    checksum: cython.longlong = r.i64le()
    count: cython.longlong = r.u32le()
    if length < 0:
        length = LARGEST
    if length < BATCH_HEADER:
        misfit.refuse(pos + 32, "batch of {} bytes", length)
        return None
    stop: cython.Py_ssize_t = misfit.room(pos, length, end, "batch")
    if stop < 0:
        return None
    if count * FRAME_HEADER > length - BATCH_HEADER:
        misfit.refuse(pos + 48, "{} messages in a batch of {} bytes", count, length)
        return None
    have: cython.Py_ssize_t = min(stop, limit)
    first: cython.Py_ssize_t = run.count
    while 0 <= at < stop:
        at = form.read(r, at, have, run)
    if at < 0:
        if limit >= stop and not _mend(form, run, first, pos + BATCH_HEADER, stop, -1):
            return None
        misfit.found = False
    if limit >= stop and run.count - first != count:
        misfit.refuse(pos, "{} messages in a batch of {}", run.count - first, count)
        return None
    wrote = Producer(*_PRODUCER.unpack_from(buf, pos + _PRODUCER_AT)) if buf[pos + _FLAGS_AT] & _IDEMPOTENT else None
    batch = VsrBatch(partition & MASK64, checksum & MASK64, wrote)
    return IggyUnit(pos, stop, count, first, run.count, batch)


@compiled
def _later(start: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """start + delta; the largest unsigned number where it is beyond 63 bits."""
    return -1 if delta and (start < 0 or start > LARGEST - delta) else start + delta


def headers_of(run: MessageRun, message: Msg, buf: bytes) -> list[dict[str, Any]] | None:
    """A message's user headers, None where they are no such thing (they may be encrypted)."""
    if not message.headers_length:
        return []
    try:
        return headers(buf, message.headers, message.headers + message.headers_length, run.typed)
    except MalformedBodyError:
        return None
