"""Answers of connections of which no request was captured, by column: one finding each, and the batches in them.

The first answers of such a connection wait, one by one, for what is learned to its end (orphans.py). Those for which no
room is left there are only searched for batches: as one capture of one direction has many of them, their batches become
rows together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissectors.exchange import OK, ORPHAN
from dissectors.findings import KINDS
from dissectors.frame_columns import Bools, Ints, distinct
from dissectors.kafka import batch_columns
from dissectors.kafka.batch_columns import BatchColumns
from dissectors.kafka.decode import RESPONSE_HEAD
from dissectors.kafka.lost_batches import CapturedRanges
from dissectors.kafka.orphans import LOST_REQUEST
from dissectors.kafka.record_set_columns import header_columns, odd_numbers
from dissectors.sink import Coded, Masked, text_column
from dissectors.tcp.chunk import SERVER, SIDES

if TYPE_CHECKING:
    from dissectors.kafka.exchange_columns import ExchangeColumns


def only_answers(exchanges: ExchangeColumns) -> Bools:
    """By conversation: whether none of its frames at hand can be a request, or the answer to one."""
    conversations, frames = exchanges.conversations, exchanges.frames
    if exchanges.report.wants_messages or exchanges.sink.suspects is not None:
        return np.zeros(len(conversations), bool)
    alone = np.array([not (len(each.waiting) or each.tokens or each.recovery.held) for each in conversations])
    alone[frames.conversation[frames.client | (exchanges.size < RESPONSE_HEAD.size)]] = False
    return alone


def report(exchanges: ExchangeColumns, answers: Ints) -> None:
    """The findings and batches of some answers, of connections with `only_answers`, that cannot wait."""
    frames, buf = exchanges.frames, exchanges.frames.buf
    numbers, counts = np.unique(frames.conversation[answers], return_counts=True)
    for t, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        exchanges.conversations[t].confirm()
        exchanges.conversations[t].by_column += count
    if exchanges.report.wants_findings:
        _report_each(exchanges, answers)
    if not exchanges.report.looks_into_batches:
        return
    found: list[tuple[int, int]] = []
    every = (answers, frames.conversation[answers], frames.start[answers])
    columns = (column.tolist() for column in every)
    for i, t, start, facts in zip(*columns, frames.facts_of(answers), strict=True):
        recovery, end = exchanges.conversations[t].recovery, start + facts.size
        captured = CapturedRanges((), end, facts.offset - start)
        found += [(i, at) for at, _ in recovery.places(SERVER, buf, captured, start + RESPONSE_HEAD.size)]
        recovery.report_passed_over(SERVER, facts.first_ns, facts.packet_ref)
    if found:
        _report_batches(exchanges, *np.array(found, np.int64).T)


def _report_each(exchanges: ExchangeColumns, answers: Ints) -> None:
    """The findings."""
    facts, ids = exchanges.frames.facts(answers), exchanges.correlation_id[answers]
    same = np.zeros(len(answers), np.int64)
    exchanges.sink.extend(
        "findings",
        len(answers),
        conn=exchanges.conns(answers),
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


def _report_batches(exchanges: ExchangeColumns, answer: Ints, start: Ints) -> None:
    """The batches that begin at `start`, in `answer`: whole ones, whose checksums hold."""
    frames, buf = exchanges.frames, exchanges.frames.buf
    batches = batch_columns.single(frames.octets, start)
    uncompressed = batch_columns.uncompressed(buf, batches, exchanges.limit)
    odd = odd_numbers(batches) | (uncompressed < 0)
    for i, at, end in zip(*(column[odd].tolist() for column in (answer, start, batches.end)), strict=True):
        conversation = exchanges.conversations[frames.conversation[i]]
        shift = int(frames.start[i])
        seen = conversation.recovery.look(frames.frame(i), at - shift, end - shift)
        conversation.report_found(SERVER, seen, conversation.lost_request(SERVER, int(exchanges.correlation_id[i])))
    if exchanges.report.wants_batches:
        _write(exchanges, answer[~odd], batches.at(~odd), uncompressed[~odd])


def _write(exchanges: ExchangeColumns, answer: Ints, batches: BatchColumns, uncompressed: Ints) -> None:
    frames = exchanges.frames
    conversation = frames.conversation[answer]
    lost = {t: exchanges.conversations[t].lost_request(SERVER) for t in distinct(conversation).tolist()}
    code = np.searchsorted(list(lost), conversation)
    first = batches.field("base_offset")
    known = Masked(first, np.zeros(len(first), bool))
    time, packet_ref = frames.locate(batches.start)
    exchanges.sink.extend(
        "batches",
        len(answer),
        **header_columns(batches, uncompressed),
        conn=exchanges.conns(answer),
        api=Coded([request.api for request in lost.values()], code),
        client_id=Coded([request.client_id for request in lost.values()], code),
        correlation_id=exchanges.correlation_id[answer],
        role=Coded([exchanges.conversations[t].fetching for t in lost], code),
        base_offset=known,
        last_offset=first + batches.field("last_offset_delta"),
        position=known,
        outcome=OK,
        time=time,
        packet_ref=packet_ref,
        stream_offset=frames.offset_of(answer, batches.start),
    )
