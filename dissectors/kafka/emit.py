"""What a conversation learnt -> rows of records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from dissectors.checksum import shown
from dissectors.conversation import Conversation, Frame
from dissectors.kafka import batches, internal, messages, secrets
from dissectors.kafka.batches import NO_TIMESTAMP, BatchError, Unit
from dissectors.kafka.errors import error
from dissectors.kafka.full import uuid_text
from dissectors.kafka.match import Call, Seen
from dissectors.kafka.messages import Entry, Header, RecordError
from dissectors.kafka.skim import Fault, RecordSet, Topic
from dissectors.records import Batch, Error, Exchange, Message
from dissectors.sink import unresolved
from dissectors.wire.codecs import CodecError

METADATA_TOPIC_ID = bytes(15) + b"\1"  # reserved for the log of the KRaft controllers (KIP-516)
PRODUCE, CONSUME, REPLICATE = "produce", "consume", "replicate"
_OF_OTHERS = (None,) * (len(Exchange._fields) - Exchange._fields.index("response") - 1)  # columns not for Kafka
_new = tuple.__new__  # a row in half the time that its own constructor takes


class Emitter:
    """Writes the rows of one connection."""

    __slots__ = (
        "_names",
        "_tokens",
        "conn",
        "limit",
        "looks",
        "sink",
        "talk",
        "wants_batches",
        "wants_errors",
        "wants_exchanges",
        "wants_messages",
    )

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self.conn = talk.conn
        self.sink = talk.sink
        self.limit = talk.options.limits.decompressed_bytes
        tables = talk.sink.tables
        self.wants_exchanges = "exchanges" in tables
        self.wants_errors = "errors" in tables
        self.wants_batches = "batches" in tables
        self.wants_messages = "messages" in tables
        self.looks = self.wants_batches or self.wants_messages or "findings" in tables
        self._names: dict[Topic, str] = {METADATA_TOPIC_ID: secrets.CLUSTER_METADATA}
        self._tokens: dict[Topic, str] = {}

    # --- names ---

    def learn(self, names: Iterable[tuple[bytes, str]], time: int) -> None:
        """Topic ids and what they are called."""
        for id_, name in names:
            if self._names.get(id_) != name:
                self._names[id_] = name
                self.sink.name(f"kafka/{uuid_text(id_)}", time, name)

    def topic(self, topic: Topic | None) -> str | None:
        """A topic's name, or what stands for it until the name is told."""
        return topic if topic is None or isinstance(topic, str) else self._named(topic)

    def _named(self, topic: bytes) -> str:
        name = self._names.get(topic) or self._tokens.get(topic)
        if name is None:
            text = uuid_text(topic)
            name = self._tokens[topic] = unresolved(f"kafka/{text}", text)
        return name

    def topics(self, asked: Sequence[Topic], answered: Sequence[Topic]) -> list[str]:
        """All topics of an exchange, each once, in order of appearance."""
        if answered and answered != asked:
            asked = [*asked, *answered]
        if len(asked) == 1:
            only = asked[0]
            return [only if isinstance(only, str) else self._named(only)]
        return list(dict.fromkeys([t if isinstance(t, str) else self._named(t) for t in asked]))

    # --- rows ---

    def exchange(
        self,
        kind: str,
        call: Call,
        frame: Frame | None = None,
        status: str = "unknown",
        faults: Sequence[Fault] = (),
        topics: Sequence[Topic] = (),
        partitions: int = 0,
        throttle_ms: int | None = None,
        records: int | None = None,
        payload_bytes: int | None = None,
        long_poll: bool = False,
        text: str | None = None,
        complete: bool | None = None,
    ) -> None:
        """A request with its answer, or one of the two. `frame` and what follows it is what is told of the answer."""
        if not self.wants_exchanges:
            return
        spoken, resent = call.spoken, call.resent
        wait = response = total = size = place = None
        if frame is not None:
            response = frame.last_ns - frame.first_ns
            size = frame.size
            place = frame.place
            resent = resent or frame.resent
            if call.seen:
                wait = frame.first_ns - call.last_ns
                total = frame.last_ns - call.first_ns
            if complete is None:
                complete = call.complete and frame.complete
        first = faults[0].code if faults else None
        row = (
            self.conn,
            None,
            kind,
            spoken.api if spoken else "SaslToken" if call.seen else None,
            spoken.key if spoken and call.seen else None,  # an answer does not carry it
            call.version,
            call.correlation_id,
            call.client_id,
            call.first_ns,
            call.last_ns - call.first_ns if call.seen else None,
            wait,
            response,
            total,
            call.size if call.seen else None,
            size,
            status,
            first,
            None if first is None else error(first).name,
            len(faults),
            self.topics(call.topics, topics),
            call.partitions or partitions,
            call.records if records is None else records,
            call.payload_bytes if payload_bytes is None else payload_bytes,
            long_poll,
            throttle_ms,
            resent,
            call.complete if complete is None else complete,
            call.place if call.seen else None,
            place,
            call.text,
            text,
            *_OF_OTHERS,
        )
        self.sink.exchanges.append(_new(Exchange, row))

    def errors(self, call: Call, frame: Frame, faults: Sequence[Fault]) -> None:
        """One row for each error code of an answer."""
        if not self.wants_errors or call.spoken is None:
            return
        for fault in faults:
            meaning = error(fault.code)
            self.sink.errors.append(
                Error(
                    self.conn,
                    call.spoken.api,
                    call.version,
                    fault.scope,
                    self.topic(fault.topic),
                    fault.partition,
                    fault.code,
                    meaning.name,
                    meaning.retriable,
                    fault.message,
                    call.client_id,
                    call.correlation_id,
                    frame.first_ns,
                    frame.place,
                )
            )

    # --- batches ---

    def look(self, frame: Frame, records: RecordSet, *, lenient: bool, old: int | None = None) -> list[Seen]:
        """The batches of a record set, with their checksums' verdicts; what is wrong becomes a finding.

        lenient, old: as `batches.units` has them.
        """
        seen = []
        data, known = frame.data, min(frame.known, frame.end)
        try:
            for unit in batches.units(data, records.start, records.size, known, self.limit, lenient=lenient, old=old):
                seen.append(self._seen(frame, records, unit))
        except BatchError as trouble:
            if frame.complete:
                self._malformed_records(frame, records, trouble.at, trouble)
        return seen

    def _malformed_records(self, frame: Frame, records: RecordSet, at: int, trouble: Exception) -> None:
        time, place = self.talk.locate(frame, at)
        self.talk.finding(
            "malformed_frame",
            "error",
            f"Records are not as they should be: {trouble}",
            direction=frame.direction,
            time=time,
            place=place,
            offset=frame.offset + at - frame.start,
            topic=self.topic(records.topic),
            partition=records.partition,
        )

    def describe(self, frame: Frame, sets: Sequence[RecordSet], body: dict[str, Any]) -> None:
        """Put beside the record sets in a decoded body what Kafka's own records in them say."""
        for records, holder in zip(sets, internal.holders(body), strict=False):
            topic = self.topic(records.topic)
            found: list[dict[str, Any]] = []
            try:
                for unit in batches.units(
                    frame.data, records.start, records.size, min(frame.known, frame.end), self.limit, lenient=True
                ):
                    if unit.whole and (unit.control or topic in internal.TOPICS):
                        raw = batches.records_of(frame.data, unit, self.limit)
                        found += internal.decoded(topic, unit.control, messages.entries(unit, raw))
            except (BatchError, RecordError, CodecError):
                pass  # told where the batches are
            if found:
                holder["decoded"] = found

    def learn_from_log(self, frame: Frame, records: RecordSet) -> None:
        """Topic ids and names in the log of the controllers."""
        try:
            for unit in batches.units(
                frame.data, records.start, records.size, min(frame.known, frame.end), self.limit, lenient=True
            ):
                if unit.whole and not unit.control:
                    raw = batches.records_of(frame.data, unit, self.limit)
                    self.learn(internal.topic_names(messages.entries(unit, raw)), frame.first_ns)
        except (BatchError, RecordError, CodecError):
            return

    def _seen(self, frame: Frame, records: RecordSet, unit: Unit) -> Seen:
        time, place = self.talk.locate(frame, unit.start)
        computed, verdict = None, "unverifiable"
        if unit.whole:
            computed = batches.checksum(frame.data, unit)
            verdict = "ok" if computed == unit.crc else "bad"
            if verdict == "bad":
                self._tell_bad(frame, records, unit, computed, time, place)
        uncompressed = None
        entries: list[Entry] = []
        if unit.codec == "none" and not self.wants_messages:
            uncompressed = unit.end - (unit.body if unit.magic == 2 else unit.start)
        elif unit.whole and (verdict == "ok" or unit.codec == "none"):
            try:
                raw = batches.records_of(frame.data, unit, self.limit)
                uncompressed = len(raw)
                if self.wants_messages and not unit.control:
                    entries += messages.entries(unit, raw)
            except RecordError as trouble:
                if verdict == "ok":
                    self._malformed_records(frame, records, unit.start, trouble)
            except CodecError as trouble:
                self.talk.finding(
                    "decompress_failed",
                    "error",
                    f"A batch does not decompress: {trouble}",
                    direction=frame.direction,
                    time=time,
                    place=place,
                    offset=frame.offset + unit.start - frame.start,
                    length=unit.size,
                    topic=self.topic(records.topic),
                    partition=records.partition,
                    codec=unit.codec,
                )
        return Seen(
            unit, entries, uncompressed, computed, verdict, time, place, frame.offset + unit.start - frame.start
        )

    def _tell_bad(self, frame: Frame, records: RecordSet, unit: Unit, computed: int, time: int, place: int) -> None:
        kind = batches.checksum_kind(unit)
        self.talk.finding(
            "bad_checksum",
            "error",
            f"The {kind} of a batch does not match its bytes",
            direction=frame.direction,
            time=time,
            place=place,
            offset=frame.offset + unit.start - frame.start,
            length=unit.size,
            topic=self.topic(records.topic),
            partition=records.partition,
            position=unit.base_offset,
            format=f"magic {unit.magic}",
            checksum=kind,
            stored=shown(kind, unit.crc),
            computed=shown(kind, computed),
        )
        crc = unit.start + (17 if unit.magic == 2 else 12)
        self.talk.suspect(
            frame,
            f"magic {unit.magic}",
            kind,
            unit.crc,
            computed,
            unit=(unit.start, unit.end),
            covered=[(crc + 4, unit.end)],
            checksum=(crc, crc + 4),
            byteorder="big",
        )

    def batches(
        self, role: str, call: Call, topic: Topic, partition: int, seen: Sequence[Seen], outcome: str, base: int | None
    ) -> None:
        """The rows of a partition's batches. `base`: the offset that the broker gave to the first one produced."""
        name = self.topic(topic)
        for batch in seen:
            unit = batch.unit
            first: int | None = unit.base_offset
            last: int | None = unit.last_offset
            if role == PRODUCE:
                first, last = base, None
                if base is not None:
                    last = base + max(unit.last_offset - unit.base_offset, (unit.records or 1) - 1)
                    base = last + 1
            if self.wants_messages:
                self._messages(role, call, name, partition, batch, first)
            if not self.wants_batches:
                continue
            kind = batches.checksum_kind(unit)
            self.sink.batches.append(
                Batch(
                    self.conn,
                    role,
                    name,
                    partition,
                    first,
                    last,
                    None if first is None else str(first),
                    unit.records,
                    unit.codec,
                    unit.size,
                    batch.uncompressed,
                    f"magic {unit.magic}",
                    None if unit.producer_id < 0 else str(unit.producer_id),
                    None if unit.producer_epoch < 0 else unit.producer_epoch,
                    None if unit.base_sequence < 0 else unit.base_sequence,
                    unit.transactional,
                    unit.control,
                    _ns(unit.first_timestamp),
                    _ns(unit.max_timestamp),
                    kind,
                    shown(kind, unit.crc),
                    None if batch.computed is None else shown(kind, batch.computed),
                    batch.verdict,
                    outcome,
                    None,
                    call.client_id,
                    call.correlation_id,
                    call.spoken.api if call.spoken else None,
                    batch.time,
                    batch.place,
                    batch.stream_offset,
                )
            )

    def _messages(
        self, role: str, call: Call, topic: str | None, partition: int, batch: Seen, base: int | None
    ) -> None:
        """One row for each message of a batch."""
        unit = batch.unit
        payloads = self.sink.payloads
        for entry in batch.entries:
            offset = None
            if base is not None:
                offset = base + (entry.number if role == PRODUCE else entry.delta)
            key, value = entry.key, entry.value
            self.sink.messages.append(
                Message(
                    self.conn,
                    role,
                    topic,
                    partition,
                    offset,
                    None if offset is None else str(offset),
                    _ns(entry.timestamp),
                    _ns(unit.max_timestamp) if unit.log_append else None,
                    unit.base_sequence + entry.number if unit.base_sequence >= 0 else None,
                    None if unit.producer_id < 0 else str(unit.producer_id),
                    None,
                    None if key is None else len(key),
                    None if value is None else len(value),
                    len(entry.headers),
                    entry.header_bytes,
                    key if payloads else None,
                    secrets.payload(topic, value) if payloads else None,
                    _headers(entry.headers) if payloads else None,
                    call.correlation_id,
                    call.spoken.api if call.spoken else None,
                    batch.time,
                    batch.place,
                    batch.stream_offset,
                )
            )


def to_json(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def _headers(headers: Sequence[Header]) -> str:
    """Headers as JSON: pairs of name and value, as text; bytes that are no text are escaped."""
    return to_json([[_text(name), None if value is None else _text(value)] for name, value in headers])


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _ns(ms: int) -> int | None:
    return None if ms <= NO_TIMESTAMP else ms * 1_000_000
