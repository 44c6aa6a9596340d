"""Regular exchanges -> rows of `exchanges`, `errors` and `batches`, by column. What emit.py writes, for many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dissectors import arrow, checksum
from dissectors.arrow import Bools, Ints
from dissectors.coded import CodedValues
from dissectors.exchange import (
    CALL,
    CONSUME,
    FAILED,
    OK,
    PRODUCE,
    columns_from_frames,
    exchange_ids,
    queued,
)
from dissectors.frame_columns import NONE, nullable
from dissectors.iggy import layouts
from dissectors.iggy.batches import FORMATS
from dissectors.iggy.body_columns import Variant
from dissectors.iggy.columnar import BodyColumns, Place, numbers
from dissectors.iggy.decoded_frames import IggyFrames
from dissectors.iggy.emit import ReservedRow
from dissectors.iggy.errors import error
from dissectors.iggy.field_types import CONSUMERS, identifier
from dissectors.iggy.frames import SEND_MESSAGES, VSR
from dissectors.iggy.names import Identifier
from dissectors.iggy.tables import commands
from dissectors.records import Batch, Exchange
from dissectors.sink import Coded, Masked

_US = 1000  # ns
_GROUPS = [kind for kind, name in CONSUMERS.items() if name != "consumer"]
_DELIVER = np.zeros(max(commands()) + 1, bool)
_DELIVER[[code for code in commands() if layouts.delivers(code)]] = True
_ROWS: dict[str, Any] = {"exchanges": Exchange, "batches": Batch}
_FORMS = list(FORMATS.values())


class _Units(NamedTuple):
    """Runs or batches of regular frames: what their messages say."""

    carriers: Ints  # the frames
    produced: Ints  # 1, or 0 where consumed
    form: Ints  # index in _FORMS
    sum: Ints  # index in the checksums shown
    start: Ints
    end: Ints
    held: Ints  # messages
    partition: Ints  # NONE where the frame says it
    base: Ints
    last: Ints
    first_timestamp: Ints  # microseconds, 0 where there is none
    max_timestamp: Ints


def report(decoded: IggyFrames) -> None:
    """The rows of regular exchanges."""
    if np.count_nonzero(decoded.regular):
        _Rows(decoded).report()


class _Rows:
    """What regular frames say. Every column has a value for each frame."""

    def __init__(self, decoded: IggyFrames) -> None:
        self.decoded = decoded
        self.frames = decoded.frames
        n = len(self.frames)
        self.groups = CodedValues(self.frames.buf, self.frames.octets, _identifier)
        self.group = np.full(n, NONE)
        self.pairs = CodedValues(self.frames.buf, self.frames.octets, _pair)
        self.topic = np.full(n, NONE)  # number of the pair of identifiers
        self.named: list[str] = []
        self.name = np.full(n, NONE)  # number of the topic in `named`, where it is described
        self.partition = np.full(n, NONE)
        self.partitions = np.full(n, NONE)
        self.records = np.full(n, NONE)
        self.payload_bytes = np.full(n, NONE)

    def report(self) -> None:
        decoded = self.decoded
        for (side, code), which, variant, rows in self.variants:
            if side == layouts.REQUEST:
                self._keep_request(which, variant, rows)
            else:
                self._keep_answer(code, which, variant, rows)
        self.topics = self._topics()
        self.errors = self._errors()
        if "errors" in decoded.sink.tables:
            self._report_errors()
        if "exchanges" in decoded.sink.tables:
            self._report_exchanges()
        if "batches" in decoded.sink.tables:
            self._report_batches()

    @cached_property
    def variants(self) -> list[tuple[tuple[str, int], Ints, Variant, Ints]]:
        """(command, frames, the bodies as it reads them, the rows of the frames there)."""
        decoded = self.decoded
        found = []
        for key, bodies in decoded.bodies.items():
            for number, variant in bodies.variants.items():
                which = bodies.which[variant.rows]
                rows = np.flatnonzero(decoded.regular[which] & (decoded.layout[which] == number))
                if len(rows):
                    found.append((key, which[rows], variant, rows))
        return found

    # --- what frames say ---

    def _keep_request(self, which: Ints, variant: Variant, rows: Ints) -> None:
        body = variant.body
        described = self.decoded.described
        if described and int(which[0]) in described:
            self._describe(which)
            return
        stream, topic = (_rows(body.places.get(name), rows) for name in ("stream_id", "topic_id"))
        if stream is not None and topic is not None:
            self.topic[which] = self.pairs.at(stream.at, topic.end - stream.at)
        if "consumer" in body.places:
            grouped = np.isin(body.numbers["consumer.kind"][rows], _GROUPS)
            self.group[which[grouped]] = self._groups(body, "consumer", rows[grouped], 1)
        elif "group_id" in body.places:
            self.group[which] = self._groups(body, "group_id", rows, 0)
        name = "partitioning" if "partitioning" in body.numbers else "partition_id"
        if name in body.numbers:
            there = body.present.get(name, body.ok)[rows]
            self.partition[which[there]] = body.numbers[name][rows[there]]
            self.partitions[which[there]] = 1
        if variant.runs is not None:
            self.records[which] = variant.runs.total[rows]
            self.payload_bytes[which] = variant.runs.payload_bytes[rows]

    def _describe(self, which: Ints) -> None:
        """Topics and groups that are described already."""
        known = [self.decoded.described[i] for i in which.tolist()]
        self.group[which] = [NONE if one.group is None else self.groups.code(one.group) for one in known]
        topics = {one.topic: None for one in known if one.topic is not None}
        first = len(self.named)
        self.named += topics
        number = {topic: first + i for i, topic in enumerate(topics)}
        self.name[which] = [NONE if one.topic is None else number[one.topic] for one in known]

    def _groups(self, body: BodyColumns, name: str, rows: Ints, skip: int) -> Ints:
        """The groups that an identifier names, so many bytes behind the start of a field."""
        if name in body.numbers:
            values, codes = np.unique(body.numbers[name][rows], return_inverse=True)
            return np.array([self.groups.code(str(value)) for value in values.tolist()], np.int64)[codes]
        at, end = body.places[name]
        return self.groups.at(at[rows] + skip, (end - at)[rows] - skip)

    def _keep_answer(self, code: int, which: Ints, variant: Variant, rows: Ints) -> None:
        if variant.runs is not None and layouts.delivers(code):
            self.records[which] = variant.runs.total[rows]
            self.payload_bytes[which] = variant.runs.payload_bytes[rows]
            self.partitions[which] = 1
            self.partition[which] = variant.body.numbers["partition_id"][rows]

    def _topics(self) -> Coded:
        """The topic of each request, as its connection shows it; its number is NONE where there is none."""
        which = np.flatnonzero(self.topic >= 0)
        codes = np.full(len(self.topic), NONE)
        keys, key = np.unique(self.frames.conversation[which] << 32 | self.topic[which], return_inverse=True)
        codes[which] = key
        codes[self.name >= 0] = self.name[self.name >= 0] + len(keys)
        names: list[str] = []
        for value in keys.tolist():
            of = self.decoded.conversations[value >> 32].calls.state.names
            names.append(of.topic(*self.pairs.values[value & 0xFFFFFFFF]))
        return Coded(names + self.named, codes)

    def _errors(self) -> Coded:
        """The error of each answer; its number is NONE where there is none."""
        decoded = self.decoded
        codes, known = np.full(len(self.topic), NONE), np.zeros((2, 0), np.int64)
        which = np.flatnonzero(decoded.failed & decoded.regular)
        if len(which):
            pairs = np.stack((decoded.status[which], decoded.error_releases[which]))
            known, number = np.unique(pairs, axis=1, return_inverse=True)
            codes[which] = number.ravel()
        return Coded([error(status, releases) for status, releases in known.T.tolist()], codes)

    # --- rows ---

    @cached_property
    def requests(self) -> Ints:
        """The regular requests."""
        return np.flatnonzero(self.decoded.regular & self.frames.client)

    @cached_property
    def exchange_ids(self) -> pa.Array:
        """Of each of them."""
        return exchange_ids(self._conns(self.requests), self.frames.facts(self.requests))

    def _conns(self, which: Ints) -> Coded:
        used, of = np.unique(self.frames.conversation[which], return_inverse=True)
        return Coded([self.decoded.conversations[t].conn for t in used.tolist()], of)

    def _shared(self, requests: Ints, answers: Ints) -> dict[str, Any]:
        """What a row of any table says of its exchange."""
        decoded = self.decoded
        codes, api = np.unique(decoded.code[requests], return_inverse=True)
        return {
            "conn": self._conns(requests),
            "api": Coded([commands()[code][0].name for code in codes.tolist()], api),
            "correlation_id": decoded.correlation_id[requests] if decoded.framing == VSR else None,
            "client_id": Coded(decoded.users, decoded.user[answers]),
            "group": _coded(self.groups.values, self.group[requests]),
            "exchange_id": arrow.take(self.exchange_ids, np.searchsorted(self.requests, requests)),
        }

    def _report_errors(self) -> None:
        answers = np.flatnonzero(self.errors.codes >= 0)
        if not len(answers):
            return
        requests, facts = self.decoded.partner[answers], self.frames.facts(answers)
        shared = self._shared(requests, answers)
        del shared["group"]
        self.decoded.sink.extend(
            "errors",
            len(answers),
            scope=self._of_errors("scope", answers),
            topic=_coded(self.topics.values, self.topics.codes[requests]),
            partition=nullable(self.partition[requests]),
            code=self.decoded.status[answers],
            name=self._of_errors("name", answers),
            retriable=self._of_errors("retriable", answers),
            time=facts.first_ns,
            packet_ref=facts.packet_ref,
            expected=False,
            **shared,
        )

    def _of_errors(self, field: str, answers: Ints) -> Coded:
        """A field of the errors of some answers."""
        return _coded([getattr(one, field) for one in self.errors.values], self.errors.codes[answers])

    def _report_exchanges(self) -> None:
        for some, sink in self._by_dialect("exchanges", self.requests, self.decoded.partner[self.requests]):
            sink(len(some[0]), self._exchange_columns(*some))

    def _exchange_columns(self, requests: Ints, answers: Ints) -> dict[str, Any]:
        decoded = self.decoded
        request, response = self.frames.facts(requests), self.frames.facts(answers)
        records = _either(self.records, answers, requests)
        failed = self.errors.codes[answers] >= 0
        records[_DELIVER[decoded.code[requests]] & (records == NONE) & ~failed] = 0  # an empty answer
        topic = self.topics.codes[requests]
        offsets = np.append(0, np.cumsum(topic >= 0)).astype(np.int32)
        names = arrow.take(pa.array(self.topics.values, pa.string()), topic[topic >= 0])
        return self._shared(requests, answers) | {
            "kind": CALL,
            "api_code": decoded.code[requests],
            "status": Coded([OK, FAILED], failed.astype(np.int64)),
            "error_code": Masked(decoded.status[answers], ~failed),
            "error_name": self._of_errors("name", answers),
            "error_count": failed.astype(np.int64),
            "topics": pa.ListArray.from_arrays(arrow.column(offsets), names),
            "queued_ns": queued(request, response, decoded.before[answers]),
            "partitions": nullable(_either(self.partitions, answers, requests)),
            "records": nullable(records),
            "payload_bytes": nullable(_either(self.payload_bytes, answers, requests)),
            "retransmitted": self.frames.retransmitted(requests, request, response),
            **columns_from_frames(request, response),
        }

    def _report_batches(self) -> None:
        sums: list[str | None] = []
        parts = [
            self._units(side, which, variant, rows, sums)
            for (side, _), which, variant, rows in self.variants
            if variant.runs is not None and variant.runs.has_units
        ]
        if not parts:
            return
        units = _Units(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        partners = self.decoded.partner[units.carriers]
        answers = np.where(units.produced, partners, units.carriers)
        for (_, _, some), sink in self._by_dialect("batches", units.carriers, answers, np.arange(len(answers))):
            sink(len(some), self._batch_columns(_Units(*(column[some] for column in units)), sums))

    def _units(self, side: str, which: Ints, variant: Variant, rows: Ints, sums: list[str | None]) -> _Units:
        """The units of some frames; adds their checksums to `sums`."""
        runs, values = variant.runs, variant.units
        assert runs is not None
        assert values is not None
        carrier = np.full(len(variant.rows), NONE)
        carrier[rows] = which
        units = np.flatnonzero(carrier[runs.units.row] >= 0)
        n, seen = len(units), len(sums)
        sums += [variant.sums[unit] for unit in units.tolist()]
        batched = runs.form.walk is None
        return _Units(
            carrier[runs.units.row[units]],
            np.full(n, int(side == layouts.REQUEST)),
            np.full(n, _FORMS.index(runs.form)),
            np.arange(seen, len(sums)),
            runs.units.start[units],
            runs.units.end[units],
            runs.units.held[units],
            values.partition[units] if batched and side == layouts.RESPONSE else np.full(n, NONE),
            values.base_offset[units],
            values.last_offset[units],
            values.first_timestamp[units],
            values.max_timestamp[units],
        )

    def _batch_columns(self, units: _Units, sums: list[str | None]) -> dict[str, Any]:
        carriers, produced, count = units.carriers, units.produced == 1, units.held
        partners = self.decoded.partner[carriers]
        requests, answers = np.where(produced, carriers, partners), np.where(produced, partners, carriers)
        partition = np.where(units.partition == NONE, self.partition[carriers], units.partition)
        base = np.where(produced, 0, units.base)
        unplaced = produced.copy()
        self._confirm(answers, partition, base, unplaced)
        last = np.where(produced, base + count - 1, units.last)
        shown = [sums[i] for i in units.sum.tolist()]
        stored = units.end - units.start
        kinds = [form.kind for form in _FORMS]
        time, packet_ref = self.frames.locate(units.start)
        return self._shared(requests, answers) | {
            "role": Coded([CONSUME, PRODUCE], units.produced),
            "topic": _coded(self.topics.values, self.topics.codes[requests]),
            "partition": nullable(partition),
            "base_offset": Masked(base, unplaced),
            "last_offset": Masked(last, unplaced),
            "position": arrow.decimals(arrow.column(base, missing=unplaced)),
            "records": count,
            "codec": "none",
            "stored_bytes": stored,
            "uncompressed_bytes": stored,
            "format": Coded([form.shown for form in _FORMS], units.form),
            "first_timestamp": Masked(units.first_timestamp * _US, units.first_timestamp == 0),
            "max_timestamp": Masked(units.max_timestamp * _US, units.max_timestamp == 0),
            "checksum_kind": Coded(kinds, units.form),
            "checksum_stored": shown,
            "checksum_computed": shown,
            "verdict": Coded(["absent" if kind == checksum.NONE else "ok" for kind in kinds], units.form),
            "outcome": OK,
            "time": time,
            "packet_ref": packet_ref,
            "stream_offset": self.frames.offset_of(carriers, units.start),
        }

    def _confirm(self, answers: Ints, partition: Ints, base: Ints, unplaced: Bools) -> None:
        """Set partition and first offset of what was sent, where the answer says them."""
        for (side, code), which, variant, rows in self.variants:
            if side == layouts.RESPONSE and code == SEND_MESSAGES and "confirmations" in variant.body.places:
                at = np.full(len(self.topic), NONE)
                some = variant.body.numbers["confirmations_count"][rows] > 0
                at[which[some]] = variant.body.places["confirmations"].at[rows[some]]
                found = np.flatnonzero(at[answers] >= 0)
                where = at[answers[found]]
                partition[found] = numbers(self.frames.octets, where + 8, 4)
                base[found] = numbers(self.frames.octets, where + 12, 8)
                unplaced[found] = False

    # --- the dialect ---

    def _by_dialect(
        self, table: str, carriers: Ints, answers: Ints, *more: Ints
    ) -> Iterator[tuple[tuple[Ints, ...], Callable[[int, dict[str, Any]], None]]]:
        """The rows whose dialect is known, and those that wait for it: which they are, and who takes them."""
        decoded = self.decoded
        dialects, codes = list(decoded.dialects), decoded.dialect[answers]
        waiting = decoded.reserved[table]
        held: dict[int, ReservedRow] = {}
        for i in np.flatnonzero(codes < 0).tolist():
            row = held[i] = waiting[int(carriers[i])]
            if row.dialect is not None:
                codes[i] = len(dialects)
                dialects.append(row.dialect)
        for known in (True, False):
            which = np.flatnonzero((codes >= 0) == known)
            if not len(which):
                continue
            rows = [held[i] for i in which.tolist()] if not known else []
            take = partial(self._extend, table, Coded(dialects, codes[which])) if known else partial(_fill, table, rows)
            yield (carriers[which], answers[which], *(column[which] for column in more)), take

    def _extend(self, table: str, dialect: Coded, rows: int, columns: dict[str, Any]) -> None:
        self.decoded.sink.extend(table, rows, dialect=dialect, **columns)


def _fill(table: str, held: list[ReservedRow], rows: int, columns: dict[str, Any]) -> None:
    """Make the rows that wait."""
    kind = _ROWS[table]
    values = zip(*(_values(columns.get(name), rows) for name in kind._fields), strict=True)
    for one, row in zip(held, values, strict=True):
        one.row = kind._make(row)


def _values(column: Any, rows: int) -> list[Any]:
    """A column, as Sink.extend takes it, as values."""
    if isinstance(column, Coded):
        return [column.values[code] for code in column.codes.tolist()]
    if isinstance(column, Masked):
        return [None if gone else value for value, gone in zip(column.values.tolist(), column.missing, strict=True)]
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    if isinstance(column, pa.Array):
        return list(column.to_pylist())
    return column if isinstance(column, list) else [column] * rows


def _rows(place: Place | None, rows: Ints) -> Place | None:
    return None if place is None else Place(place.at[rows], place.end[rows])


def _either(column: Ints, first: Ints, second: Ints) -> Ints:
    return np.where(column[first] != NONE, column[first], column[second])


def _identifier(raw: bytes) -> str:
    return str(identifier(raw, 0, len(raw))[0])


def _pair(raw: bytes) -> tuple[Identifier, Identifier]:
    """Two identifiers, one behind the other."""
    first, middle = identifier(raw, 0, len(raw))
    return first, identifier(raw, middle, len(raw))[0]


def _coded(values: Sequence[Any], codes: Ints) -> Coded:
    """A code of NONE is null."""
    return Coded([*values, None], np.where(codes < 0, len(values), codes))
