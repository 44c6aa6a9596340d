"""Answers of connections of which no request was captured, by column: one finding each, and the batches in them.

The first answers of such a connection wait, one by one, for what is learned to its end (orphans.py). Those for which no
room is left there are only searched for batches: as one capture of one direction has many of them, their batches become
rows together.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from dissectors import search
from dissectors.arrow import Bools, Ints
from dissectors.findings import KINDS
from dissectors.frame_columns import distinct
from dissectors.kafka import batch_columns, lost_batches
from dissectors.kafka.batch_columns import BatchColumns
from dissectors.kafka.decode import RESPONSE_HEAD
from dissectors.kafka.decoded_frames import KafkaFrames
from dissectors.kafka.orphans import LOST_REQUEST
from dissectors.kafka.record_set_columns import header_columns, odd_numbers
from dissectors.rows.exchange import OK, ORPHAN
from dissectors.rows.sink import Coded, Masked, text_column
from dissectors.tcp.chunk import SERVER, SIDES


def only_answers(decoded: KafkaFrames) -> Bools:
    """By conversation: whether none of its frames at hand can be a request, or the answer to one."""
    conversations, frames = decoded.conversations, decoded.frames
    if decoded.report.wants_messages:
        return np.zeros(len(conversations), bool)
    alone = np.array([not (len(each.waiting) or each.tokens or each.held_behind_holes) for each in conversations])
    alone[frames.conversation[frames.client | (decoded.size < RESPONSE_HEAD.size)]] = False
    return alone


def report(decoded: KafkaFrames, answers: Ints) -> None:
    """The findings and batches of some answers, of connections with `only_answers`, that cannot wait."""
    frames = decoded.frames
    numbers, counts = np.unique(frames.conversation[answers], return_counts=True)
    for t, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        decoded.conversations[t].confirm()
        decoded.conversations[t].by_column += count
    if decoded.report.wants_findings:
        _report_each(decoded, answers)
    if not decoded.report.looks_into_batches:
        return
    answer, start = _find(decoded, answers)
    if len(answer):
        _report_batches(decoded, answer, start)


def _find(decoded: KafkaFrames, answers: Ints) -> tuple[Ints, Ints]:
    """The whole batches in some answers: (answer, index of the first byte).

    Those of a connection at once if every place that would be judged holds a whole batch or the beginning of one, and
    the budget of the search is not at stake; else one after the other.
    """
    frames, conversations = decoded.frames, decoded.conversations
    answer, at = _places(decoded, answers)
    found = batch_columns.single(frames.octets, at)
    conversation, end = frames.conversation[answer], found.end
    whole = (end <= frames.end[answer]) & (end - at <= decoded.held)
    within = at < np.append(0, np.maximum.accumulate(np.where(whole, end, 0)))[: len(at)]  # a batch before it
    rejected = np.bincount(conversation[~whole & ~within], minlength=len(conversations))
    odd = np.zeros(len(conversations), bool)
    for t in distinct(conversation).tolist():
        odd[t] = not conversations[t].recovery.search(SERVER).budget.allows_to_reject(int(rejected[t]))
    odd[conversation[whole & within]] = True
    likely = np.flatnonzero(whole & ~odd[conversation])
    odd[conversation[likely[batch_columns.broken(frames.buf, found.at(likely))]]] = True
    for t in np.flatnonzero(rejected.astype(bool) & ~odd).tolist():
        conversations[t].recovery.search(SERVER).budget.reject(int(rejected[t]))
    right = whole & ~odd[conversation]
    others = answers[odd[frames.conversation[answers]]].tolist()
    pairs = [(i, start) for i in others for start in _one_by_one(decoded, i)]
    more = np.array(pairs, np.int64).reshape(-1, 2)
    answer, at = np.append(answer[right], more[:, 0]), np.append(at[right], more[:, 1])
    order = np.argsort(at)
    return answer[order], at[order]


def _one_by_one(decoded: KafkaFrames, i: int) -> list[int]:
    """Where the whole batches in one answer begin."""
    frames = decoded.frames
    frame = frames.frame(i)
    found = decoded.conversations[frames.conversation[i]].recovery.places(frame, RESPONSE_HEAD.size)
    return [int(frames.start[i]) + at for at, _ in found]


def _places(decoded: KafkaFrames, answers: Ints) -> tuple[Ints, Ints]:
    """Where batches may begin in some answers: (answer, index)."""
    frames = decoded.frames
    start, end = frames.start[answers] + RESPONSE_HEAD.size, frames.end[answers]
    first = np.diff(frames.conversation[answers], prepend=-1) != 0
    ranges = zip(start[first].tolist(), end[np.append(first[1:], True)].tolist(), strict=True)
    some = [search.places(lost_batches.begins, lost_batches.HEAD, frames.buf, *each) for each in ranges]
    at = np.fromiter(chain.from_iterable(chain.from_iterable(some)), np.int64)
    which = np.searchsorted(start, at, "right") - 1
    inside = at + lost_batches.HEAD <= end[which]
    return answers[which[inside]], at[inside]


def _report_each(decoded: KafkaFrames, answers: Ints) -> None:
    """The findings."""
    facts, ids = decoded.frames.facts(answers), decoded.correlation_id[answers]
    same = np.zeros(len(answers), np.int64)
    decoded.sink.extend(
        "findings",
        len(answers),
        conn=decoded.conns(answers),
        kind=ORPHAN,
        severity=KINDS[ORPHAN].severity,
        direction=SIDES[SERVER],
        message=text_column(Coded([LOST_REQUEST[0]], same), ids, Coded([LOST_REQUEST[1]], same)),
        time=facts.first_ns,
        packet_ref=facts.packet_ref,
        stream_offset=facts.offset,
        length=facts.size,
        evidence=text_column(Coded(['{"correlation_id": '], same), ids, Coded(["}"], same)),
    )


def _report_batches(decoded: KafkaFrames, answer: Ints, start: Ints) -> None:
    """The batches that begin at `start`, in `answer`: whole ones, whose checksums hold."""
    frames, buf = decoded.frames, decoded.frames.buf
    batches = batch_columns.single(frames.octets, start)
    uncompressed = batch_columns.uncompressed(buf, batches, decoded.limit)
    odd = odd_numbers(batches) | (uncompressed < 0)
    for i, at, end in zip(*(column[odd].tolist() for column in (answer, start, batches.end)), strict=True):
        conversation = decoded.conversations[frames.conversation[i]]
        frame, shift = frames.frame(i), int(frames.start[i])
        seen = conversation.recovery.look(frame, at - shift, end - shift)
        lost = conversation.precedents.of(SERVER, frame.offset).lost_request(int(decoded.correlation_id[i]))
        conversation.carried.found(SERVER, seen, lost)
    if decoded.report.wants_batches:
        _write(decoded, answer[~odd], batches.at(~odd), uncompressed[~odd])


def _write(decoded: KafkaFrames, answer: Ints, batches: BatchColumns, uncompressed: Ints) -> None:
    frames = decoded.frames
    batch_columns.notify(frames.buf, batches, decoded.limit)
    conversation = frames.conversation[answer]
    numbers, earliest, code = np.unique(conversation, return_index=True, return_inverse=True)
    stream_offset = frames.offset_of(answer, batches.start)
    lost = [
        decoded.conversations[t].precedents.of(SERVER, offset)
        for t, offset in zip(numbers.tolist(), stream_offset[earliest].tolist(), strict=True)
    ]
    first = batches.field("base_offset")
    known = Masked(first, np.zeros(len(first), bool))
    time, packet_ref = frames.locate(batches.start)
    decoded.sink.extend(
        "batches",
        len(answer),
        **header_columns(batches, uncompressed),
        conn=decoded.conns(answer),
        api=Coded([precedent.lost_request().api for precedent in lost], code),
        client_id=Coded([precedent.client_id for precedent in lost], code),
        correlation_id=decoded.correlation_id[answer],
        role=Coded([precedent.role for precedent in lost], code),
        base_offset=known,
        last_offset=first + batches.field("last_offset_delta"),
        position=known,
        outcome=OK,
        time=time,
        packet_ref=packet_ref,
        stream_offset=stream_offset,
    )
