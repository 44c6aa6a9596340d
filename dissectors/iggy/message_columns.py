"""Runs of messages of many frames at once, and their checksums: what batches.py finds, by column.

Where a message ends is known only by its own lengths, so one short loop follows them from message to message; all else
is read by column. A run is `ok` where its format reads it to its last byte and no number in it is absurd. It is left to
the one-by-one way (`unsure`) where it is read, but something is wrong with it: a checksum, an index entry.

A run that its own format does not read is not mended here, as length_repair.py does: where another format reads it, the
mended reading would have to have right checksums by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

import numpy as np

from dissectors import checksum
from dissectors.checksum import CRC32, NONE, XXH3
from dissectors.frame_columns import Bools, Ints, Octets
from dissectors.iggy.batches import BATCH_HEADER, FORMATS, FRAME_HEADER, IDEMPOTENT, INDEX_ENTRY, STATES, MessageFormat
from dissectors.iggy.columnar import numbers

_PAIR = Struct("<II").unpack_from
_U32 = Struct("<I").unpack_from
_BATCH = Struct("<Q8xI").unpack_from  # from 32: length, count
_LATEST = 1 << 53  # microseconds (in 2255), and offsets: a larger number is looked at one by one
_NEVER = 1 << 62
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
    follow = _with_header if form.header else _FOLLOW[name]
    row, start, stop = _followed(follow, buf, body, end, ok, form.header)
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

Follow = Callable[[bytes, int, int, int, list[int]], int]
"""(buf, start of the first message, end of the run, header size, starts): adds the starts; where the last one ends."""


def _followed(follow: Follow, buf: bytes, at: Ints, end: Ints, ok: Bools, header: int) -> tuple[Ints, Ints, Ints]:
    """(row, start, end) of every message of the runs that are followed to their ends; the others are not `ok`."""
    starts: list[int] = []
    ends: list[int] = []
    counts = np.zeros(len(at), np.int64)
    rows = np.flatnonzero(ok & (at != end))
    for i, pos, stop in zip(rows.tolist(), at[rows].tolist(), end[rows].tolist(), strict=True):
        before = len(starts)
        if follow(buf, pos, stop, header, starts) != stop:
            del starts[before:]
            ok[i] = False
            continue
        ends += starts[before + 1 :]
        if len(starts) > before:
            ends.append(stop)
        counts[i] = len(starts) - before
    return np.repeat(np.arange(len(at)), counts), np.array(starts, np.int64), np.array(ends, np.int64)


def _with_header(buf: bytes, pos: int, end: int, header: int, starts: list[int], lengths_at: int = 48) -> int:
    """Headers with both lengths at one place."""
    last = end - header
    while pos <= last:
        starts.append(pos)
        headers, payload = _PAIR(buf, pos + lengths_at)
        pos += header + headers + payload
    return pos


def _lengths_apart(buf: bytes, pos: int, end: int, at: int, starts: list[int]) -> int:
    """The first eras: a length, headers, a length, the payload."""
    while end - pos >= at + 8:
        headers = pos + at + 4 + _U32(buf, pos + at)[0]
        if headers + 4 > end:
            return -1
        starts.append(pos)
        pos = headers + 4 + _U32(buf, headers)[0]
    return pos


_LENGTH_AT = {"send_a": 16, "poll_a": 37}
_FOLLOW: dict[str, Follow] = {
    "send_a": lambda buf, pos, end, _, starts: _lengths_apart(buf, pos, end, 16, starts),
    "poll_a": lambda buf, pos, end, _, starts: _lengths_apart(buf, pos, end, 37, starts),
}


def _read_batches(
    form: MessageFormat, buf: bytes, octets: Octets, at: Ints, end: Ints, count: Ints | None, *, single: bool
) -> RunColumns:
    ok = np.ones(len(at), bool)
    unsure = np.zeros(len(at), bool)
    starts: list[int] = []
    ends: list[int] = []
    rows: list[int] = []
    units: list[tuple[int, int, int, int, int]] = []
    for i, (begin, stop) in enumerate(zip(at.tolist(), end.tolist(), strict=True)):
        before, units_before, pos = len(starts), len(units), begin
        while pos < stop:
            batch_end = -1
            if stop - pos >= BATCH_HEADER:
                length, messages = _BATCH(buf, pos + 32)
                unsure[i] |= bool(buf[pos + 52] & IDEMPOTENT)
                if BATCH_HEADER <= length <= stop - pos and messages * FRAME_HEADER <= length - BATCH_HEADER:
                    first, batch_end = len(starts), pos + length
                    if (
                        _with_header(buf, pos + BATCH_HEADER, batch_end, FRAME_HEADER, starts, 32) != batch_end
                        or len(starts) - first != messages
                        or (single and batch_end != stop)
                    ):
                        batch_end = -1
            if batch_end < 0:
                ok[i] = False
                break
            ends += starts[first + 1 :]
            if len(starts) > first:
                ends.append(batch_end)
            units.append((i, pos, batch_end, first, messages))
            pos = batch_end
        if not ok[i]:
            del starts[before:], ends[before:], units[units_before:]
        rows += [i] * (len(starts) - before)
    row, start, stop = np.array(rows, np.int64), np.array(starts, np.int64), np.array(ends, np.int64)
    of_units = Units(*np.array(units, np.int64).reshape(-1, 5).T)
    payload_bytes = numbers(octets, start + 36, 4)
    found = np.bincount(row, minlength=len(at))
    if count is not None:
        unsure |= found != count
    messages_ = MessageColumns(row, start, stop, payload_bytes)
    return RunColumns(form, ok, unsure & ok, messages_, of_units, found, _sums(row, payload_bytes, len(at)))


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
    compute, view = checksum.function(kind), memoryview(buf)
    if runs.form.header:
        covered, stored_at = messages.start + 8, messages.start
    else:
        covered, stored_at = messages.end - messages.payload_bytes, messages.start + 33
    spans = zip(covered.tolist(), messages.end.tolist(), strict=True)
    computed = [compute(view[start:end]) for start, end in spans]
    wide = kind == XXH3 or runs.form.header == 56
    every = np.ndarray((len(octets) - 7,), "<u8" if wide else "<u4", octets, 0, (1,))[stored_at]
    stored = every.tolist()
    wrong = np.array(computed, np.uint64) != every.astype(np.uint64)
    runs.unsure[messages.row[wrong]] = True
    if runs.form.walk is not None:
        counts = zip(units.first.tolist(), units.held.tolist(), strict=True)
        return [checksum.shown(kind, stored[first]) if count == 1 else None for first, count in counts]
    shown: list[str | None] = []
    sums = every.tobytes()
    for row, at, first, count in zip(*(column.tolist() for column in (*units[:2], *units[3:])), strict=True):
        whole = buf[at : at + 40] + buf[at + 48 : at + 52] + sums[8 * first : 8 * (first + count)]
        (value,) = _U64(buf, at + 40)
        if compute(whole) != value:
            runs.unsure[row] = True
        shown.append(checksum.shown(kind, value))
    return shown


_U64 = Struct("<Q").unpack_from
