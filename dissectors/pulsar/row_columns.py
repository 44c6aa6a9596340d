"""Regular frames -> rows of `exchanges`, `errors` and `batches`, by column: what emit.py and entries.py write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dissectors import arrow, checksum
from dissectors.arrow import Ints
from dissectors.exchange import (
    CALL,
    CONSUME,
    FAILED,
    OK,
    ONE_WAY,
    PRODUCE,
    PUSH,
    REPLICATE,
    UNKNOWN,
    ErrorCode,
    columns_from_frames,
    columns_of_some,
    queued,
)
from dissectors.frame_columns import NONE, nullable
from dissectors.pulsar import entry_columns
from dissectors.pulsar.api import text
from dissectors.pulsar.batches import CODEC_NAMES, MS
from dissectors.pulsar.command_columns import position
from dissectors.pulsar.commands import COMMANDS, SEND
from dissectors.pulsar.decoded_frames import PulsarFrames
from dissectors.pulsar.entries import FORMAT
from dissectors.pulsar.entry_columns import NO_CHECKSUM
from dissectors.rows.blocks import hex_column
from dissectors.sink import Coded, Masked, text_column

_NAMES = [COMMANDS[code].name if code in COMMANDS else None for code in range(max(COMMANDS) + 1)]


def report_errors(decoded: PulsarFrames) -> None:
    """The rows of errors in regular answers."""
    sink, answers = decoded.conversations[0].sink, np.flatnonzero(decoded.error & decoded.regular)
    if "errors" not in sink.tables or not len(answers):
        return
    facts, requests = decoded.frames.facts(answers), decoded.partner[answers]
    shared = _shared(decoded, requests)
    del shared["dialect"]
    sink.extend(
        "errors",
        len(answers),
        client_id=decoded.subjects.clients(requests),
        time=facts.first_ns,
        packet_ref=facts.packet_ref,
        **{name: _of_errors(decoded, name, answers) for name in ErrorCode._fields},
        **shared,
    )


def report_exchanges(decoded: PulsarFrames) -> None:
    """The rows of regular exchanges."""
    sink, which = decoded.conversations[0].sink, decoded.beginnings
    if "exchanges" not in sink.tables or not len(which):
        return
    alone = decoded.partner[which] < 0
    one_way, push = alone & decoded.frames.client[which], alone & ~decoded.frames.client[which]
    last = np.where(alone, which, decoded.partner[which])
    first_facts, last_facts = decoded.frames.facts(which), decoded.frames.facts(last)
    columns = columns_from_frames(first_facts, last_facts)
    columns["queued_ns"] = queued(first_facts, last_facts, np.zeros(len(which), np.int64))
    columns = columns_of_some(columns, push, one_way)
    columns |= _shared(decoded, which) | decoded.subjects.columns(which)
    columns["dialect"] = _dialects(decoded, last)
    columns["partitions"] = _partitions(decoded, columns["partitions"], last)
    sink.extend(
        "exchanges",
        len(which),
        kind=Coded([CALL, ONE_WAY, PUSH], one_way + 2 * push),
        api_code=decoded.code[which],
        status=Coded([OK, UNKNOWN, FAILED], one_way + 2 * decoded.error[last]),
        error_code=_of_errors(decoded, "code", last),
        error_name=_of_errors(decoded, "name", last),
        error_count=decoded.error[last].astype(np.int64),
        retransmitted=decoded.frames.retransmitted(which, first_facts, last_facts),
        long_poll=Coded([False, None], push.astype(np.int64)),
        records=nullable(_of_entries(decoded, "records")[which]),
        payload_bytes=nullable(_of_entries(decoded, "payload_bytes")[which]),
        **columns,
    )


def report_batches(decoded: PulsarFrames) -> None:
    """The rows of regular entries."""
    sink = decoded.conversations[0].sink
    if "batches" not in sink.tables:
        return
    regular = decoded.regular[decoded.entries.which]
    rows = np.flatnonzero(regular)
    if not len(rows):
        return
    entry_columns.notify(decoded.frames.buf, decoded.entries.columns, regular)
    which, entries = decoded.entries.which[rows], decoded.entries.columns
    at, stored, meta = entries.at[rows], entries.stored[rows], entries.meta
    times, packet_refs = decoded.frames.locate(at)
    published = meta.number("publish_time")[rows] * MS
    summed = stored != NO_CHECKSUM
    sums = arrow.where(summed, hex_column(stored))
    in_transaction = meta.has("txnid_most_bits") | meta.has("txnid_least_bits")
    sink.extend(
        "batches",
        len(which),
        role=Coded([CONSUME, PRODUCE, REPLICATE], (decoded.code[which] == SEND) * (1 + entries.replicated[rows])),
        position=_positions(decoded, which),
        records=entries.records[rows],
        codec=Coded(list(CODEC_NAMES.values()), meta.number("compression")[rows]),
        stored_bytes=entries.end[rows] - at,
        uncompressed_bytes=Masked(entries.uncompressed_bytes[rows], entries.encrypted[rows]),
        format=FORMAT,
        producer=_names(meta.texts("producer_name", decoded.frames.buf, rows)),
        base_sequence=meta.number("sequence_id")[rows],
        transactional=in_transaction[rows],
        control=False,
        first_timestamp=published,
        max_timestamp=published,
        checksum_kind=Coded([checksum.NONE, checksum.CRC32C], summed.astype(np.int64)),
        checksum_stored=sums,
        checksum_computed=sums,
        verdict=Coded(["absent", "ok"], summed.astype(np.int64)),
        outcome=OK,
        time=times,
        packet_ref=packet_refs,
        stream_offset=decoded.frames.offset_of(which, at),
        **_shared(decoded, which),
        **decoded.subjects.batch_columns(which),
    )


def _shared(decoded: PulsarFrames, which: Ints) -> dict[str, Any]:
    """What a row of any table says of its exchange, which begins with these frames."""
    return {
        "conn": decoded.conns(which),
        "dialect": _dialects(decoded, which),
        "api": Coded(_NAMES, decoded.code[which]),
        "correlation_id": Masked(decoded.correlation_id[which], decoded.uncorrelated[which]),
        "exchange_id": arrow.take(decoded.exchange_ids, np.searchsorted(decoded.beginnings, which)),
    }


def _dialects(decoded: PulsarFrames, which: Ints) -> Coded:
    """What the connections speak at these frames: a connection learns it from the one frame that accepts its login."""
    t = decoded.frames.conversation[which]
    later = [conversation.state.dialect for conversation in decoded.conversations]
    return Coded([*decoded.dialects, *later], t + len(later) * (which >= decoded.connected[t]))


def _of_errors(decoded: PulsarFrames, field: str, answers: Ints) -> Coded:
    """A field of the errors in some answers."""
    values, codes = decoded.errors
    return Coded([None if error is None else getattr(error, field) for error in values], codes[answers])


def _of_entries(decoded: PulsarFrames, name: str) -> Ints:
    """A count of the entries: a column over all frames, NONE where there is none."""
    column = np.full(len(decoded.code), NONE)
    column[decoded.entries.which] = getattr(decoded.entries.columns, name)
    return column


def _partitions(decoded: PulsarFrames, subject: Coded, answers: Ints) -> Masked:
    """Partitions of exchanges: what the answer to PARTITIONED_METADATA says, else those of the topic in the request."""
    own = np.array([NONE if value is None else value for value in subject.values], np.int64)[subject.codes]
    stated = np.full(len(decoded.code), NONE)
    if "PARTITIONED_METADATA_RESPONSE" in decoded.found:
        _, which, messages, _ = decoded.found["PARTITIONED_METADATA_RESPONSE"]
        there = messages.has("partitions")
        stated[which[there]] = messages.number("partitions")[there]
    return nullable(np.where(stated[answers] == NONE, own, stated[answers]))


def _positions(decoded: PulsarFrames, which: Ints) -> pa.Array:
    """`ledger:entry` of entries: a MESSAGE holds it, that of a SEND comes with its receipt."""
    there = np.zeros(len(decoded.code), bool)
    ids = np.zeros((2, len(decoded.code)), np.int64)
    for name in ("MESSAGE", "SEND_RECEIPT"):
        if name in decoded.found:
            _, where, messages, _ = decoded.found[name]
            there[where], ids[:, where] = messages.has("message_id"), position(messages)
    at = np.where(decoded.code[which] == SEND, decoded.partner[which], which)
    positions = text_column(ids[0, at], Coded([":"], np.zeros(len(at), np.int64)), ids[1, at])
    return arrow.where(there[at], positions)


def _names(values: list[bytes | None]) -> Coded:
    number: dict[bytes | None, int] = {}
    codes = np.array([number.setdefault(value, len(number)) for value in values], np.int64)
    return Coded([text(value or b"") for value in number], codes)
