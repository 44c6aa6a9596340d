"""Regular frames -> rows of `exchanges` and `batches`, by column. What emit.py and entries.py write, for many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dissectors import checksum
from dissectors.exchange import (
    CALL,
    CONSUME,
    OK,
    ONE_WAY,
    PRODUCE,
    PUSH,
    UNKNOWN,
    columns_from_frames,
    exchange_ids,
    queued,
)
from dissectors.frame_columns import Ints
from dissectors.pulsar.api import text
from dissectors.pulsar.batches import CODEC_NAMES
from dissectors.pulsar.command_columns import position
from dissectors.pulsar.commands import COMMANDS, SEND
from dissectors.pulsar.decoded_frames import NONE, DecodedFrames
from dissectors.pulsar.entries import FORMAT, MS
from dissectors.pulsar.entry_columns import NO_CHECKSUM
from dissectors.sink import Coded, Masked, hex_column, text_column

_NAMES = [COMMANDS[code].name if code in COMMANDS else None for code in range(max(COMMANDS) + 1)]


def report_exchanges(decoded: DecodedFrames) -> None:
    """The rows of regular exchanges."""
    sink = decoded.conversations[0].sink
    if "exchanges" not in sink.tables:
        return
    frames, paired = decoded.frames, decoded.partner >= 0
    counts = {name: _messages(decoded, name) for name in ("records", "payload_bytes")}
    alone = decoded.regular & ~paired
    for kind, which in (
        (CALL, np.flatnonzero(decoded.regular & paired & decoded.request)),
        (ONE_WAY, np.flatnonzero(alone & frames.client)),
        (PUSH, np.flatnonzero(alone & ~frames.client)),
    ):
        if not len(which):
            continue
        facts, answers = frames.facts(which), decoded.partner[which]
        columns = _shared(decoded, which) | decoded.subjects.columns(which)
        if kind == CALL:
            response = frames.facts(answers)
            columns["dialect"] = _dialects(decoded, answers)
            columns["partitions"] = _partitions(decoded, columns["partitions"], answers)
            columns["queued_ns"] = queued(facts, response, np.zeros(len(which), np.int64))
            columns |= columns_from_frames(facts, response)
        else:
            columns |= columns_from_frames(facts, None) if kind == ONE_WAY else columns_from_frames(None, facts)
        sink.extend(
            "exchanges",
            len(which),
            kind=kind,
            api_code=decoded.code[which],
            status=UNKNOWN if kind == ONE_WAY else OK,
            error_count=0,
            long_poll=None if kind == PUSH else False,
            **{name: _masked(column[which]) for name, column in counts.items()},
            **columns,
        )


def report_batches(decoded: DecodedFrames) -> None:
    """The rows of regular entries."""
    sink = decoded.conversations[0].sink
    if "batches" not in sink.tables:
        return
    rows = np.flatnonzero(decoded.regular[decoded.entries.which])
    if not len(rows):
        return
    which, entries = decoded.entries.which[rows], decoded.entries.columns
    at, stored, meta = entries.at[rows], entries.stored[rows], entries.meta
    times, packet_refs = decoded.frames.locate(at)
    published = meta.number("publish_time")[rows] * MS
    summed = stored != NO_CHECKSUM
    sums = pc.if_else(pa.array(summed), hex_column(stored), pa.scalar(None, pa.string()))
    in_transaction = meta.has("txnid_most_bits") | meta.has("txnid_least_bits")
    sink.extend(
        "batches",
        len(which),
        role=Coded([CONSUME, PRODUCE], (decoded.code[which] == SEND).astype(np.int64)),
        position=_positions(decoded, which),
        records=entries.records[rows],
        codec=Coded(list(CODEC_NAMES.values()), meta.number("compression")[rows]),
        stored_bytes=entries.end[rows] - at,
        uncompressed_bytes=entries.uncompressed_bytes[rows],
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


def _shared(decoded: DecodedFrames, which: Ints) -> dict[str, Any]:
    """What a row of any table says of its exchange, which begins with these frames."""
    conversations = decoded.frames.conversation[which]
    conns = Coded([conversation.conn for conversation in decoded.conversations], conversations)
    return {
        "conn": conns,
        "dialect": _dialects(decoded, which),
        "api": Coded(_NAMES, decoded.code[which]),
        "correlation_id": Masked(decoded.correlation_id[which], decoded.uncorrelated[which]),
        "exchange_id": exchange_ids(conns, decoded.frames.facts(which)),
    }


def _dialects(decoded: DecodedFrames, which: Ints) -> Coded:
    """What the connections speak at these frames: a connection learns it from the one frame that accepts its login."""
    t = decoded.frames.conversation[which]
    later = [conversation.state.dialect for conversation in decoded.conversations]
    return Coded([*decoded.dialects, *later], t + len(later) * (which >= decoded.connected[t]))


def _messages(decoded: DecodedFrames, name: str) -> Ints:
    """A count of the entries: a column over all frames, NONE where there is none."""
    column = np.full(len(decoded.code), NONE)
    column[decoded.entries.which] = getattr(decoded.entries.columns, name)
    return column


def _partitions(decoded: DecodedFrames, subject: Coded, answers: Ints) -> Masked:
    """Partitions of a call: what the answer to PARTITIONED_METADATA says, else those of the topic in the request."""
    own = np.array([NONE if value is None else value for value in subject.values], np.int64)[subject.codes]
    stated = np.full(len(decoded.code), NONE)
    if "PARTITIONED_METADATA_RESPONSE" in decoded.found:
        _, which, messages, _ = decoded.found["PARTITIONED_METADATA_RESPONSE"]
        there = messages.has("partitions")
        stated[which[there]] = messages.number("partitions")[there]
    return _masked(np.where(stated[answers] == NONE, own, stated[answers]))


def _positions(decoded: DecodedFrames, which: Ints) -> pa.Array:
    """`ledger:entry` of entries: a MESSAGE holds it, that of a SEND comes with its receipt."""
    there = np.zeros(len(decoded.code), bool)
    ids = np.zeros((2, len(decoded.code)), np.int64)
    for name in ("MESSAGE", "SEND_RECEIPT"):
        if name in decoded.found:
            _, where, messages, _ = decoded.found[name]
            there[where], ids[:, where] = messages.has("message_id"), position(messages)
    at = np.where(decoded.code[which] == SEND, decoded.partner[which], which)
    positions = text_column(ids[0, at], Coded([":"], np.zeros(len(at), np.int64)), ids[1, at])
    return pc.if_else(pa.array(there[at]), positions, pa.scalar(None, pa.string()))


def _names(values: list[bytes | None]) -> Coded:
    number: dict[bytes | None, int] = {}
    codes = np.array([number.setdefault(value, len(number)) for value in values], np.int64)
    return Coded([text(value or b"") for value in number], codes)


def _masked(column: Ints) -> Masked:
    return Masked(column, column == NONE)
