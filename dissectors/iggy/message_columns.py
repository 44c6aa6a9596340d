"""Runs of messages of many frames at once, and their checksums: what batches.py finds, by column.

Where a message ends is known only by its own lengths: a step finds the next message of every run, and the last of the
long runs are followed one by one. All else is read by column. A run is `ok` where its format reads it to its last byte
and no number in it is absurd. It is left to the one-by-one way (`unsure`) where it is read, but something is wrong with
it: a checksum, an index entry.

A run that its own format does not read is not mended here, as length_repair.py does: where another format reads it, the
mended reading would have to have right checksums by chance.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

import numpy as np

from dissectors import checksum
from dissectors.arrow import Bools, Ints, Octets
from dissectors.checksum import CRC32, NONE, XXH3
from dissectors.frame_columns import table
from dissectors.iggy.batches import BATCH_HEADER, FORMATS, FRAME_HEADER, IDEMPOTENT, INDEX_ENTRY, STATES, MessageFormat
from dissectors.iggy.columnar import numbers

_LENGTHS = Struct("<II").unpack_from  # of headers and payload
_U32 = Struct("<I").unpack_from
_BATCH = Struct("<Q8xI").unpack_from  # from 32: length, count
_LATEST = 1 << 53  # microseconds (in 2255), and offsets: a larger number is looked at one by one
_NEVER = 1 << 62
_FEW = 40  # so many runs are followed one by one
_STATES = np.zeros(256, bool)
_STATES[list(STATES)] = True


class Units(NamedTuple):
    """Rows of `batches`: the runs, or the batches within them."""

    row: Ints  # of the run that it is in
    start: Ints
    end: Ints
    first: Ints  # index of its first message
    held: Ints  # messages


class MessageColumns(NamedTuple):
    """Messages, one after the other."""

    row: Ints  # of the run that it is in
    start: Ints
    end: Ints
    payload_bytes: Ints


class RunColumns(NamedTuple):
    """Runs of messages of one format."""

    form: MessageFormat
    ok: Bools
    unsure: Bools
    messages: MessageColumns
    units: Units
    total: Ints  # messages of each run
    payload_bytes: Ints  # of each run

    @property
    def has_units(self) -> bool:
        return bool(len(self.units.row))


def read(name: str, buf: bytes, octets: Octets, at: Ints, end: Ints, count: Ints | None) -> RunColumns:
    """The runs of a format of batches.FORMATS that begin at `at`, with as many messages as announced, if they are."""
    form = FORMATS[name]
    if form.walk is None:
        return _read_batches(form, buf, octets, at, end, count, single=name == "batch")
    body = at
    ok = np.ones(len(at), bool)
    if form.indexed and count is not None:
        ok = count * INDEX_ENTRY <= end - at
        body = np.where(ok, at + count * INDEX_ENTRY, end)
    way = _Headed(form.header, 48) if form.header else _Apart(_LENGTH_AT[name])
    row, start, stop = _followed(way, buf, octets, body, end, ok)
    if form.header:
        payload_bytes = numbers(octets, start + 52, 4)
    else:
        length_at = start + _LENGTH_AT[name]
        payload_at = length_at + 4 + numbers(octets, length_at, 4) + 4
        payload_bytes = stop - payload_at
    messages = MessageColumns(row, start, stop, payload_bytes)
    found = np.bincount(row, minlength=len(at))
    if count is not None:
        ok &= found == count
    unsure = np.zeros(len(at), bool)
    if name == "poll_a":
        ok[row[~_STATES[octets[start + 8]]]] = False
    if form.indexed and len(row):
        turn = np.arange(len(row)) - np.repeat(np.cumsum(found) - found, found)
        wrong = numbers(octets, np.minimum(at[row] + turn * INDEX_ENTRY + 4, end[row]), 4) != stop - body[row]
        unsure[row[wrong]] = True
    if form.header == 56 and not form.indexed and len(row):  # see batches._kind_56
        short = np.bincount(row, numbers(octets, start + 4, 4) == 0, minlength=len(at))
        ok &= (found == 0) | ((2 * short > found) == (form.kind == CRC32))
    some = np.flatnonzero(found > 0)
    first = (np.cumsum(found) - found)[some]
    units = Units(some, at[some], end[some], first, found[some])
    return RunColumns(form, ok, unsure & ok, messages, units, found, _sums(row, payload_bytes, len(at)))


def _sums(row: Ints, values: Ints, rows: int) -> Ints:
    return np.bincount(row, values, minlength=rows).astype(np.int64)


# --- where messages begin and end -------------------------------------------------------------------------------------


class _Headed(NamedTuple):
    """Messages with a header of fixed size, in which both lengths stand together."""

    header: int
    lengths_at: int

    def follow(self, buf: bytes, pos: int, end: int, starts: list[int]) -> int:
        """Add the starts of the messages of one run; where the last of them ends."""
        header, lengths_at = self
        last = end - header
        while pos <= last:
            starts.append(pos)
            headers, payload = _LENGTHS(buf, pos + lengths_at)
            pos += header + headers + payload
        return pos

    def after(self, octets: Octets, pos: Ints) -> Ints:
        """Where the messages at `pos` end, if there is room for them."""
        at = np.minimum(pos + self.lengths_at, len(octets) - 8)
        return pos + self.header + numbers(octets, at, 4) + numbers(octets, at + 4, 4)


class _Apart(NamedTuple):
    """The first eras: some fields, a length, headers, a length, the payload."""

    at: int

    def follow(self, buf: bytes, pos: int, end: int, starts: list[int]) -> int:
        """As _Headed.follow."""
        at = self.at
        fixed = at + 8
        last = end - fixed
        while pos <= last:
            headers, payload = _LENGTHS(buf, pos + at)
            if headers:
                if headers > last - pos:
                    return -1
                (payload,) = _U32(buf, pos + at + 4 + headers)
            starts.append(pos)
            pos += fixed + headers + payload
        return pos

    def after(self, octets: Octets, pos: Ints) -> Ints:
        """As _Headed.after."""
        last = len(octets) - 4
        headers = pos + self.at + 4 + numbers(octets, np.minimum(pos + self.at, last), 4)
        return headers + 4 + numbers(octets, np.minimum(headers, last), 4)


_LENGTH_AT = {"send_a": 16, "poll_a": 37}


def _followed(
    way: _Headed | _Apart, buf: bytes, octets: Octets, at: Ints, end: Ints, ok: Bools
) -> tuple[Ints, Ints, Ints]:
    """(row, start, end) of every message of the runs that are followed to their ends; the others are not `ok`."""
    rows: list[Ints] = []
    starts: list[Ints] = []
    row = np.flatnonzero(ok & (at != end))
    pos, stop = at[row], end[row]
    while len(row) >= _FEW:
        rows.append(row)
        starts.append(pos)
        after = way.after(octets, pos)
        ok[row[after > stop]] = False
        more = np.flatnonzero(after < stop)
        row, pos, stop = row[more], after[more], stop[more]
    found: list[int] = []
    counts: list[int] = []
    for i, begin, last in zip(row.tolist(), pos.tolist(), stop.tolist(), strict=True):
        before = len(found)
        ok[i] = way.follow(buf, begin, last, found) == last
        counts.append(len(found) - before)
    rows.append(np.repeat(row, counts))
    starts.append(np.fromiter(found, np.int64, len(found)))
    every, start = np.concatenate(rows), np.concatenate(starts)
    turn = np.argsort(every, kind="stable")
    turn = turn[ok[every[turn]]]
    every, start = every[turn], start[turn]
    return every, start, np.where(np.diff(every, append=-1) == 0, np.append(start[1:], 0), end[every])


def _read_batches(
    form: MessageFormat, buf: bytes, octets: Octets, at: Ints, end: Ints, count: Ints | None, *, single: bool
) -> RunColumns:
    ok = np.ones(len(at), bool)
    unsure = np.zeros(len(at), bool)
    batches: list[tuple[int, int, int, int]] = []
    for i, (pos, stop) in enumerate(zip(at.tolist(), end.tolist(), strict=True)):
        while pos < stop:
            length, messages = _BATCH(buf, pos + 32) if stop - pos >= BATCH_HEADER else (0, 0)
            fits = BATCH_HEADER <= length <= stop - pos and messages * FRAME_HEADER <= length - BATCH_HEADER
            if not fits or (single and pos + length != stop):
                ok[i] = False
                break
            unsure[i] |= bool(buf[pos + 52] & IDEMPOTENT)
            batches.append((i, pos, pos + length, messages))
            pos += length
    row, start, stop, held = table(batches, 4).T
    right = np.ones(len(row), bool)
    unit, *messages = _followed(_Headed(FRAME_HEADER, 32), buf, octets, start + BATCH_HEADER, stop, right)
    right &= np.bincount(unit, minlength=len(row)) == held
    ok[row[~right]] = False
    whole = ok[row]
    within = whole[unit]
    of, message_start, message_end = row[unit[within]], *(column[within] for column in messages)
    payload_bytes = numbers(octets, message_start + 36, 4)
    row, start, stop, held = (column[whole] for column in (row, start, stop, held))
    units = Units(row, start, stop, np.cumsum(held) - held, held)
    found = np.bincount(of, minlength=len(at))
    if count is not None:
        unsure |= found != count
    columns = MessageColumns(of, message_start, message_end, payload_bytes)
    return RunColumns(form, ok, unsure & ok, columns, units, found, _sums(of, payload_bytes, len(at)))


# --- what they say ----------------------------------------------------------------------------------------------------


class UnitValues(NamedTuple):
    """What the messages of each unit say of it, for its row."""

    base_offset: Ints
    last_offset: Ints
    first_timestamp: Ints  # microseconds, 0 where there is none
    max_timestamp: Ints
    partition: Ints


def values(runs: RunColumns, octets: Octets, *, produced: bool) -> UnitValues:
    """Offsets and times of units that have messages; absurd ones make their run `unsure`."""
    form, start, units = runs.form, runs.messages.start, runs.units
    none = np.zeros(len(start), np.int64)
    offset = stamped = origin = none
    partition = np.zeros(len(units.row), np.int64)
    if form.walk is None:
        per_message = np.repeat(np.arange(len(units.row)), units.held)
        base, since, born = (numbers(octets, units.start + at, 8)[per_message] for at in (8, 16, 24))
        offset = base + numbers(octets, start + 24, 4)
        stamped, origin = since, born + numbers(octets, start + 28, 4)
        partition = numbers(octets, units.start, 8)
    elif form.header:
        offset, stamped, origin = (numbers(octets, start + at, 8) for at in (24, 32, 40))
    elif form is FORMATS["poll_a"]:
        offset, stamped = numbers(octets, start, 8), numbers(octets, start + 9, 8)
    times = origin if produced else np.where(stamped != 0, stamped, origin)
    absurd = (times < 0) | (times > _LATEST) | (((offset < 0) | (offset > _LATEST)) & (not produced))
    runs.unsure[runs.messages.row[absurd]] = True
    runs.unsure[units.row[(partition < 0) | (partition > _LATEST) | (units.held == 0)]] = True
    some = units.held > 0
    first_timestamp, max_timestamp = np.zeros((2, len(units.row)), np.int64)
    base_offset, last_offset = np.zeros((2, len(units.row)), np.int64)
    if some.any():
        at = units.first[some]
        max_timestamp[some] = np.maximum.reduceat(times, at)
        earliest = np.minimum.reduceat(np.where(times != 0, np.arange(len(times)), _NEVER), at)
        first_timestamp[some] = np.where(earliest < _NEVER, times[np.minimum(earliest, len(times) - 1)], 0)
        base_offset[some], last_offset[some] = offset[at], offset[at + units.held[some] - 1]
    return UnitValues(base_offset, last_offset, first_timestamp, max_timestamp, partition)


def verify(runs: RunColumns, buf: bytes, octets: Octets) -> list[str | None]:
    """What each unit shows as its checksum; a wrong one makes its run `unsure`."""
    kind, units, messages = runs.form.kind, runs.units, runs.messages
    if kind == NONE:
        return [None] * len(units.row)
    compute = checksum.function(kind)
    if runs.form.header:
        covered, stored_at = messages.start + 8, messages.start
    else:
        covered, stored_at = messages.end - messages.payload_bytes, messages.start + 33
    spans = map(slice, covered.tolist(), messages.end.tolist())
    whole = map(buf.__getitem__, spans)  # a copy of a short message costs less than a view
    computed = np.fromiter(map(compute, whole), np.uint64, len(covered))
    wide = kind == XXH3 or runs.form.header == 56
    every = np.ndarray((len(octets) - 7,), "<u8" if wide else "<u4", octets, 0, (1,))[stored_at]
    stored = every.tolist()
    wrong = computed != every.astype(np.uint64)
    runs.unsure[messages.row[wrong]] = True
    if runs.form.walk is not None:
        counts = zip(units.first.tolist(), units.held.tolist(), strict=True)
        return [checksum.shown(kind, stored[first]) if count == 1 else None for first, count in counts]
    shown: list[str | None] = []
    sums = every.tobytes()
    for row, at, first, count in zip(*(column.tolist() for column in (*units[:2], *units[3:])), strict=True):
        covered_bytes = buf[at : at + 40] + buf[at + 48 : at + 52] + sums[8 * first : 8 * (first + count)]
        (value,) = _U64(buf, at + 40)
        if compute(covered_bytes) != value:
            runs.unsure[row] = True
        shown.append(checksum.shown(kind, value))
    return shown


_U64 = Struct("<Q").unpack_from
