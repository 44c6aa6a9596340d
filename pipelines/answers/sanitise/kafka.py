"""Frames of Kafka: what is kept follows from the schema of the message.

numbers, lengths, counts   kept
text                       a pseudonym; the name and version of the client's library are kept
uuid                       another, the same wherever it occurs
bytes                      filler, but for the subscriptions and assignments of consumers, which are messages
record sets                records.py
unknown tagged fields      filler
"""

from __future__ import annotations

from dissectors.kafka import nested, schema
from dissectors.kafka.decode import API_VERSIONS, SASL_HANDSHAKE, UNSUPPORTED_VERSION, ApiVersion, api_version
from dissectors.kafka.frames import plausible_request
from dissectors.kafka.schema import SIZES, MessageVersion, SchemaField
from pipelines.answers.sanitise.frame_copy import FrameCopy, NotUnderstoodError
from pipelines.answers.sanitise.records import RecordSets

KEPT_FIELDS = frozenset({"clientSoftwareName", "clientSoftwareVersion"})
_APPENDED = 8  # bytes that some clients write after a body
_LEFT_OPEN = ("bytes", "records")


class KafkaFrames:
    """Writes the frames of one connection anew, in their order."""

    def __init__(self, records: RecordSets) -> None:
        self._records = records
        self._raw_sasl = False
        self.bare_tokens = 0  # of the client, that wait for the broker's

    def request(self, copy: FrameCopy) -> None:
        """Write a request."""
        data, end = copy.source, len(copy.source)
        if self._raw_sasl:
            if not plausible_request(data, 0, end):
                self.bare_tokens += 1
                copy.head(4)
                return
            self._raw_sasl = False
        copy.head(12)
        api = api_version(_int(data, 4, 2), _int(data, 6, 2))
        self._raw_sasl = api.key == SASL_HANDSHAKE and api.version == 0
        at = 12
        if api.has_client_id:
            copy.keep(12, 14)
            size = _int(data, 12, 2)
            at = 14 + max(0, size)
            copy.name(14, at)
        if api.known:
            self._body(copy, f"{api.name}Request", api.version, at, tags=api.request_tags)

    def response(self, copy: FrameCopy, api: ApiVersion | None) -> None:
        """Write the response to a request of this API; None where it is not known."""
        if self.bare_tokens:
            self.bare_tokens -= 1
            copy.head(4)
            return
        copy.head(8)
        if api is None or not api.known:
            return
        version = api.version
        if api.key == API_VERSIONS and _int(copy.source, 8, 2) == UNSUPPORTED_VERSION:
            version = 0
        self._body(copy, f"{api.name}Response", version, 8, tags=api.response_tags)

    def _body(self, copy: FrameCopy, message: str, version: int, at: int, *, tags: bool) -> None:
        """Write a body, if its schema reads it to its end; else what was put of it is taken back."""
        self._records.begin()
        walk = _Walk(copy, message, version, at, self._records)
        try:
            if tags:
                walk.unknown_tags()
            walk.struct(walk.known.message.fields)
        except NotUnderstoodError:
            if copy.complete:
                copy.blank(at, len(copy.source))  # numbers may have been read where none are
            return
        if copy.size - walk.at > _APPENDED:
            copy.blank(at, len(copy.source))


class _Walk:
    """One walk over a message."""

    def __init__(self, copy: FrameCopy, message: str, version: int, at: int, records: RecordSets | None) -> None:
        self.known = MessageVersion(schema.message(message), version)
        self.at = at
        self._copy, self._records = copy, records
        self._name = message

    def struct(self, fields: tuple[SchemaField, ...]) -> None:
        """Write the fields of a struct. Raises NotUnderstoodError."""
        for field in self.known.plain(fields):
            self._field(field)
        if self.known.flexible:
            self._tags({field.tag: field for field in self.known.tagged(fields)})

    def unknown_tags(self) -> None:
        """Write tagged fields none of which is known."""
        self._tags({})

    def _field(self, field: SchemaField) -> None:
        if field.array:
            count = self._length(field, wide=True)
            if count > len(self._copy.source):
                raise NotUnderstoodError(f"{count} elements")
            for _ in range(count):
                self._field(field.element)
        elif field.type in SIZES:
            put = self._copy.uuid if field.type == "uuid" else self._copy.keep
            put(self.at, self.at + SIZES[field.type])
            self.at += SIZES[field.type]
        elif field.struct:
            if self.known.is_nullable(field):
                self._copy.keep(self.at, self.at + 1)
                self.at += 1
                if self._copy.source[self.at - 1] > 127:
                    return
            self.struct(field.fields)
        else:
            self._sized(field)

    def _sized(self, field: SchemaField) -> None:
        """Write text, bytes or a record set behind its length."""
        size = self._length(field, wide=field.type in _LEFT_OPEN)
        start, end = self.at, self.at + max(0, size)
        if field.type == "records":
            if end > self._copy.size:
                raise NotUnderstoodError("a record set beyond its frame")
            if self._records is not None:
                self._records.record_set(self._copy, start, min(end, len(self._copy.source)))
        elif field.type == "string":
            (self._copy.keep if field.name in KEPT_FIELDS else self._copy.name)(start, end)
        else:
            self._copy.need(start, end)
            self._bytes(field, start, end)
        self.at = end

    def _bytes(self, field: SchemaField, start: int, end: int) -> None:
        """Write bytes: those that are a message of their own by its schema, others as filler."""
        self._copy.payload(start, end)
        inner = nested.VERSIONED.get((self._name, field.name))
        version = _int(self._copy.source, start, 2) if end - start >= 2 else -1
        if inner is None or version not in schema.message(inner).versions:
            return
        part = FrameCopy(self._copy.source[start:end], self._copy.names)
        walk = _Walk(part, inner, version, 2, None)
        try:
            part.keep(0, 2)
            walk.struct(walk.known.message.fields)
        except NotUnderstoodError:
            return
        if walk.at == len(part.source):
            self._copy.put(start, bytes(part.out))

    def _tags(self, known: dict[int, SchemaField]) -> None:
        for _ in range(self._uvarint()):
            number, size = self._uvarint(), self._uvarint()
            start, stop = self.at, self.at + size
            self._copy.need(start, stop)
            if number in known:
                self._field(known[number])
                if self.at != stop:
                    raise NotUnderstoodError("a tagged field of another size")
            else:
                self._copy.payload(start, stop)
                self.at = stop

    def _length(self, field: SchemaField, *, wide: bool) -> int:
        """The length before a value, which is kept; below 0 for null."""
        if self.known.is_compact(field):
            return self._uvarint() - 1
        size = 4 if wide else 2
        self._copy.keep(self.at, self.at + size)
        self.at += size
        return _int(self._copy.source, self.at - size, size)

    def _uvarint(self) -> int:
        value = shift = 0
        while True:
            self._copy.keep(self.at, self.at + 1)
            byte = self._copy.source[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise NotUnderstoodError("a varint without an end")


def _int(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=True)
