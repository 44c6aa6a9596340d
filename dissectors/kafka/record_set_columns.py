"""The record sets that regular exchanges carry: verified, counted, diagnosed and reported by column."""

from __future__ import annotations

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.checksum import CRC32C
from dissectors.exchange import CONSUME, OK, PRODUCE, REPLICATE, UNKNOWN
from dissectors.frame_columns import integers
from dissectors.kafka import batch_columns, batches, decode
from dissectors.kafka.batch_columns import BatchColumns
from dissectors.kafka.body_summary import Topic
from dissectors.kafka.coded import last_alike, runs
from dissectors.kafka.decoded_frames import KafkaFrames
from dissectors.kafka.delivery import delivered_of_set
from dissectors.kafka.diagnostics import KafkaDiagnostics, ProducerKey
from dissectors.rows.blocks import hex_column
from dissectors.sink import Coded, Masked

ROLES = (PRODUCE, CONSUME, REPLICATE)
_OUTCOMES = (OK, UNKNOWN)
_LATEST = (1 << 63) // 1_000_000  # ms: later timestamps are no ns
_FARTHEST = 1 << 62  # larger offsets are damage


class RecordSetColumns:
    """The record sets of some frames, and the batches in them; of a frame that turns out not to be regular, none."""

    def __init__(self, decoded: KafkaFrames) -> None:
        self._decoded = decoded
        self._frames = frames = decoded.frames
        every = decoded.sets.by_frame()
        keep = decoded.regular[every[0]]
        self._frame, self._topic, self._partition, self._start, self._size = (column[keep] for column in every)
        self._produced = frames.client[self._frame]
        self._request = np.where(self._produced, self._frame, decoded.partner[self._frame])
        self._batches = batch_columns.find(frames.octets, self._start, self._size, ~self._produced)
        self._uncompressed = np.zeros(0, np.int64)
        self._base, self._answered = self._bases()
        if decoded.report.looks_into_batches:
            self._verify()
        else:
            self._select(self._batches.plain[self._batches.set])
        self._count()
        self.in_order = self._among_others()

    # --- which are regular ---

    def _verify(self) -> None:
        """Frames with anything that must be looked into leave, with all that they carry."""
        self._leave(~self._batches.plain | (self._base > _FARTHEST))
        self._leave_with(odd_numbers(self._batches))  # those that are left
        self._leave_with(batch_columns.broken(self._frames.buf, self._batches))
        self._uncompressed = batch_columns.uncompressed(self._frames.buf, self._batches, self._decoded.limit)
        self._leave_with(self._uncompressed < 0)

    def _leave(self, sets: Bools) -> None:
        if not sets.any():
            return
        self._decoded.leave(self._frame[sets])
        self._select(self._decoded.regular[self._frame[self._batches.set]])

    def _leave_with(self, batches: Bools) -> None:
        sets = np.zeros(len(self._frame), bool)
        sets[self._batches.set[batches]] = True
        self._leave(sets)

    def _select(self, which: Bools) -> None:
        self._batches = self._batches.at(which)
        if len(self._uncompressed):
            self._uncompressed = self._uncompressed[which]

    def _bases(self) -> tuple[Ints, Bools]:
        """By set: the offset of its first batch as the answer has it, and whether the answer speaks of the set."""
        decoded = self._decoded
        answer, topic, partition, offset = decoded.bases.by_frame()
        mine = np.flatnonzero(self._produced & ~decoded.silent[self._frame])
        wanted = (decoded.partner[self._frame[mine]], self._topic[mine], self._partition[mine])
        base, answered = np.full(len(self._frame), batches.NO_OFFSET), np.zeros(len(self._frame), bool)
        if np.array_equal(wanted[0], answer) and np.all(np.diff(answer) > 0):  # one set each: the common case
            answered[mine] = (wanted[1] == topic) & (wanted[2] == partition)
            base[mine] = np.where(answered[mine], offset, base[mine])
            return base, answered
        if len(answer):
            found, there = last_alike((answer, topic, partition), wanted)
            answered[mine] = there
            base[mine] = np.where(there, offset[found], base[mine])
        return base, answered

    # --- counts ---

    def _count(self) -> None:
        """Messages of each set, and what each exchange carries."""
        decoded, found = self._decoded, self._batches
        regular = decoded.regular[self._frame]
        for which in (decoded.regular & decoded.fetches.read, self._request[regular]):
            decoded.records[which] = decoded.payload[which] = 0
        np.add.at(decoded.payload, self._request[regular], self._size[regular])
        self._records = np.zeros(len(self._frame), np.int64)
        np.add.at(self._records, found.set, found.records)
        for i in np.flatnonzero(~found.plain & regular).tolist():
            start, size, end = int(self._start[i]), int(self._size[i]), int(self._frames.end[self._frame[i]])
            self._records[i] = batches.count(self._frames.buf, start, size, end, decoded.limit)
        produced = regular & self._produced
        np.add.at(decoded.records, self._request[produced], self._records[produced])

    @property
    def frame(self) -> Ints:
        """The frame of each set, ascending."""
        return self._frame

    def partitions(self) -> list[tuple[Topic | None, int]]:
        """Topic and partition of each set."""
        topics = map(self._decoded.texts.values.__getitem__, self._topic.tolist())
        return list(zip(topics, self._partition.tolist(), strict=True))

    def deliver(self, offset: Ints) -> None:
        """What of the sets in answers to fetches reaches the application: from an offset on, by set."""
        decoded, buf = self._decoded, self._frames.buf
        which = np.flatnonzero(decoded.regular[self._frame] & ~self._produced)
        first = integers(self._frames.octets, self._start[which], 8)
        given = self._records.copy()
        for i in which[(offset[which] > first) | ~self._batches.plain[which]].tolist():
            start, size, end = int(self._start[i]), int(self._size[i]), int(self._frames.end[self._frame[i]])
            given[i] = delivered_of_set(buf, start, size, end, decoded.limit, int(offset[i]), ())
        np.add.at(decoded.records, self._request[which], given[which])

    # --- diagnostics ---

    def _among_others(self) -> dict[int, list[tuple[ProducerKey, int]]]:
        """Requests whose sequence numbers count in order with those of requests that are not regular: the numbers."""
        decoded, frames, found = self._decoded, self._frames, self._batches
        in_order: dict[int, list[tuple[ProducerKey, int]]] = {}
        if not decoded.diagnosing:
            return in_order
        mixed = np.zeros(len(decoded.conversations), bool)
        mixed[frames.conversation[frames.client & (decoded.key == decode.PRODUCE) & ~decoded.regular]] = True
        numbered = np.flatnonzero(self._numbered() & mixed[frames.conversation[self._frame[found.set]]])
        found = found.at(numbered)
        frame, sequence = self._frame[found.set].tolist(), found.field("base_sequence").tolist()
        for i, key, number in zip(frame, self._keys(found), sequence, strict=True):
            in_order.setdefault(i, []).append((key, number))
        self._facts = frames.facts_of(np.array(list(in_order), np.int64))
        return in_order

    def _keys(self, found: BatchColumns) -> list[ProducerKey]:
        """Whose sequence numbers those of some batches are."""
        numbers = (found.field("producer_id"), found.field("producer_epoch"), self._topic[found.set])
        columns = (*numbers, self._partition[found.set])
        topics = self._decoded.texts.values
        return [(p, epoch, topics[t], n) for p, epoch, t, n in zip(*(c.tolist() for c in columns), strict=True)]

    def _numbered(self) -> Bools:
        """Batches with a sequence number."""
        found = self._batches
        sent: Bools = self._produced[found.set]
        return sent & (found.field("producer_id") >= 0) & (found.field("base_sequence") >= 0)

    def diagnose(self) -> None:
        """The diagnostics of the clients take note of the batches."""
        found, frames = self._batches, self._frames
        frame, produced = self._frame[found.set], self._produced[found.set]
        packed = np.flatnonzero((found.codec > 0) & (self._uncompressed > 0))
        stored = found.end - found.start - batches.HEADER.itemsize
        for run in self._by_conversation(packed):
            first = frames.fact(int(frame[run[0]]))
            self._diagnostics(run).packed(first, len(run), int(stored[run].sum()), int(self._uncompressed[run].sum()))
        single = found.records == 1
        awaited = produced & ~self._decoded.silent[frame]  # who sends without an answer does not send again
        for run in self._by_conversation(np.flatnonzero(produced)):
            self._diagnostics(run).sent(frames.fact(int(frame[run[0]])), len(run), int(np.count_nonzero(single[run])))
        for run in self._by_conversation(np.flatnonzero(awaited & (found.field("producer_id") < 0))):
            self._diagnostics(run).not_idempotent(frames.fact(int(frame[run[0]])), len(run))
        numbered = self._numbered()
        if self.in_order:
            numbered[np.isin(frame, list(self.in_order))] = False
        self._diagnose_sequences(found.at(numbered))

    def diagnose_request(self, request: int) -> None:
        """The same for the sequence numbers of the next of the requests `in_order`."""
        diagnostics, fact = self._decoded.diagnostics(request), next(self._facts)
        for key, number in self.in_order[request]:
            diagnostics.sequences(key, number, number, fact, (), fact.order)

    def _diagnose_sequences(self, found: BatchColumns) -> None:
        frame, keys, sequence = self._frame[found.set], self._keys(found), found.field("base_sequence")
        number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        for run in runs(self._frames.conversation[frame], np.array([number[key] for key in keys], np.int64)):
            first, last = int(run[0]), int(run[-1])
            again = run[1:][sequence[run[1:]] == sequence[run[:-1]]]
            self._decoded.diagnostics(int(frame[first])).sequences(
                keys[first],
                int(sequence[first]),
                int(sequence[last]),
                self._frames.fact(int(frame[first])),
                [self._frames.fact(i) for i in frame[again].tolist()],
                int(self._frames.order[frame[last]]),
            )

    def _by_conversation(self, which: Ints) -> list[Ints]:
        """Some batches, by their connections."""
        return [which[run] for run in runs(self._frames.conversation[self._frame[self._batches.set[which]]])]

    def _diagnostics(self, run: Ints) -> KafkaDiagnostics:
        return self._decoded.diagnostics(int(self._frame[self._batches.set[run[0]]]))

    # --- rows ---

    def report(self) -> None:
        """The rows of the batches."""
        decoded, found = self._decoded, self._batches
        if not decoded.report.wants_batches or not len(found.set):
            return
        batch_columns.notify(self._frames.buf, found, decoded.limit)
        time, packet_ref = self._frames.locate(found.start)
        turn = np.lexsort((found.start, packet_ref, time))  # as rows go out: none need be moved then
        first, last, unknown = self._offsets()
        first, last, unknown = first[turn], last[turn], unknown[turn]
        found, uncompressed, time, packet_ref = found.at(turn), self._uncompressed[turn], time[turn], packet_ref[turn]
        sets = found.set
        frame = self._frame[sets]
        decoded.sink.extend(
            "batches",
            len(sets),
            **header_columns(found, uncompressed),
            **decoded.request_columns(self._request[sets]),
            role=Coded(ROLES, decoded.role[frame]),
            topic=decoded.names_of(frame, self._topic[sets]),
            partition=self._partition[sets],
            base_offset=Masked(first, unknown),
            last_offset=Masked(last, unknown),
            position=Masked(first, unknown),
            outcome=Coded(_OUTCOMES, (self._produced & ~self._answered)[sets].astype(np.int64)),
            time=time,
            packet_ref=packet_ref,
            stream_offset=self._frames.offset_of(frame, found.start),
        )

    def _offsets(self) -> tuple[Ints, Ints, Bools]:
        """First and last offset of each batch, and whether they are not known: a producer's are in the answer."""
        found, sets = self._batches, self._batches.set
        span = np.maximum(found.field("last_offset_delta"), np.maximum(found.records, 1) - 1) + 1
        before = np.cumsum(span) - span
        before -= before[np.searchsorted(sets, sets)]
        produced = self._produced[sets]
        first = np.where(produced, self._base[sets] + before, found.field("base_offset"))
        last = first + np.where(produced, span - 1, found.field("last_offset_delta"))
        return first, last, produced & (self._base[sets] < 0)


def odd_numbers(found: BatchColumns) -> Bools:
    """Whether a header holds numbers that no column holds."""
    odd: Bools = np.maximum(found.field("first_timestamp"), found.field("max_timestamp")) >= _LATEST
    odd |= np.abs(found.field("base_offset") >> 1) > _FARTHEST >> 1
    return odd


def header_columns(found: BatchColumns, uncompressed: Ints) -> dict[str, object]:
    """Those columns of `batches` that the headers of right batches give."""
    checksum = hex_column(found.field("crc"))
    horizon = found.field("attributes") & batches.HORIZON_BIT != 0
    return {
        "records": found.records,
        "codec": Coded(batches.CODECS, found.codec),
        "stored_bytes": found.end - found.start,
        "uncompressed_bytes": uncompressed,
        "format": "magic 2",
        "producer": _known(found.field("producer_id")),
        "producer_epoch": _known(found.field("producer_epoch")),
        "base_sequence": _known(found.field("base_sequence")),
        "transactional": found.field("attributes") & batches.TRANSACTIONAL_BIT != 0,
        "control": found.control,
        "first_timestamp": _times(np.where(horizon, batches.NO_TIMESTAMP, found.field("first_timestamp"))),
        "max_timestamp": _times(found.field("max_timestamp")),
        "checksum_kind": CRC32C,
        "checksum_stored": checksum,
        "checksum_computed": checksum,
        "verdict": "ok",
    }


def _known(column: Ints) -> Masked:
    return Masked(column, column < 0)


def _times(ms: Ints) -> Masked:
    """Timestamps in ns."""
    missing = ms <= batches.NO_TIMESTAMP
    return Masked(np.where(missing, 0, ms) * 1_000_000, missing)
