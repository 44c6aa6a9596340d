"""A whole message, value by value: as a dict under the schema's own names, or told to a visitor with their places.

    full     for `--full`, for rare messages, and as the oracle of the walk over a plan (walk.py), which notes little,
             and has nothing in common with this one but the reader
    visit    for who makes a message anew (spans.py)

In a dict values are as Kafka's own request log has them: numbers, text, uuid and bytes as base64, tagged fields under
their names where they are on the wire. Beyond it: tagged fields that the schema does not know are kept under
`_unknownTags`, of record sets the size is shown, and secrets are never read: `<redacted>` stands for them.
"""

from __future__ import annotations

import math
import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.kafka import nested, schema, secrets
from dissectors.kafka.schema import SIZES, MessageVersion, SchemaField
from dissectors.redaction import REDACTED, without_tokens
from dissectors.wire.memory import part
from dissectors.wire.reader import ReadError, WireReader

UNKNOWN_TAGS = "_unknownTags"
ENDS_EARLY = "it ends early"
UNKNOWN = "unknown"
_PLAIN, _WIDE, _COMPACT = range(3)  # kinds of lengths, as wire/reader.py has them


class Full(NamedTuple):
    """A body as a dict, as far as it could be read."""

    body: dict[str, Any]
    left: int  # bytes after it, which brokers ignore
    trouble: str | None  # why it could not be read whole

    @property
    def exact(self) -> bool:
        return self.trouble is None and not self.left


def full(name: str, version: int, data: bytes, start: int, end: int, *, last: str | None = None) -> Full:
    """Decode a message that ends at `end`; of one that ends too early everything before its end is there.

    last: the field of the message behind which nothing is read; None for all.
    """
    body: dict[str, Any] = {}
    reading = _Reading(name, data, start, end)
    try:
        if last is None:
            reading.struct(_struct(name, version), body)
        else:
            reading.up_to(last, _struct(name, version), body)
    except ReadError as trouble:
        return Full(body, 0, str(trouble))
    left = end - reading.reader.pos
    return Full(body, left, None) if left >= 0 else Full(body, 0, ENDS_EARLY)


Visit = Callable[[str, str, int, int], None]
"""Takes name, type, start and end of each value, in wire order. Without a name, lengths, counts and what says whether
something follows have the type "", tagged fields that the schema does not know UNKNOWN. Not all bytes of a value behind
a length need be there. May raise ReadError, which ends the visit."""


def visit(name: str, version: int, data: bytes, start: int, end: int, told: Visit, *, tags: bool = False) -> int:
    """Tell of each value of a message that ends at `end`; the index after the last one. Raises ReadError.

    tags: tagged fields of a header, of which none is known, stand before the message.
    """
    reading = _Reading(name, data, start, end, told)
    if tags:
        reading.tags({}, {})
    reading.struct(_struct(name, version), {})
    return int(reading.reader.pos)


def versioned(name: str, raw: bytes) -> dict[str, Any] | None:
    """A message that begins with its version, as int16; None where the bytes are something else."""
    if len(raw) < 2:
        return None
    version = int.from_bytes(raw[:2], "big", signed=True)
    if version not in schema.message(name).versions:
        return None
    found = full(name, version, raw, 2, len(raw))
    return found.body if found.exact else None


@cache
def beside(name: str) -> nested.Show:
    """Shows bytes that may be the message `name`: decoded, beside the bytes."""

    def show(raw: bytes, holder: dict[str, Any], field: str) -> str:
        decoded = versioned(name, raw)
        if decoded is not None:
            holder[field + nested.DECODED] = decoded
        return nested.base64_text(raw)

    return show


def uuid_text(raw: bytes) -> str:
    """16 bytes as Kafka writes them: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(raw)[:22].decode()


def _number(r: WireReader) -> float | str:
    """A float64 as JSON can hold it."""
    value: float
    (value,) = struct.unpack_from(">d", r.source, r.take(8))
    return value if math.isfinite(value) else str(value)


def _uuid(r: WireReader) -> str:
    at = r.take(16)
    return uuid_text(r.source[at : at + 16])


def _bool(r: WireReader) -> bool:
    return r.u8() != 0


_FIXED: Mapping[str, Callable[[WireReader], Any]] = {
    "bool": _bool,
    "int8": WireReader.i8,
    "int16": WireReader.i16,
    "uint16": WireReader.u16,
    "int32": WireReader.i32,
    "uint32": WireReader.u32,
    "int64": WireReader.i64,
    "float64": _number,
    "uuid": _uuid,
}
"""Type -> how a value of it is read."""


@final
@compiled
class _Struct:
    """The fields of a struct in wire order, and its tagged fields by number where it can have such."""

    fields: tuple[_Field, ...]
    tagged: dict[int, _Field] | None

    def __init__(self, fields: tuple[_Field, ...], tagged: dict[int, _Field] | None) -> None:
        self.fields = fields
        self.tagged = tagged


@final
@compiled
class _Field:
    """One field of a version, with everything that is known before it is read."""

    name: str
    type: str
    kind: cython.int  # of its length
    element: _Field | None  # of an array
    fixed: Callable[[WireReader], Any] | None  # reads a value of fixed size
    struct: _Struct | None
    nullable: cython.bint  # a byte before the struct says whether it is there
    least: cython.longlong  # bytes of a value
    show: Callable[[bytes, dict[str, Any], str], Any]  # (text or bytes, struct that holds it, name) -> value

    def __init__(
        self,
        name: str,
        type: str,
        *,
        kind: int,
        element: _Field | None,
        fixed: Callable[[WireReader], Any] | None,
        struct: _Struct | None,
        nullable: bool,
        least: int,
        show: Callable[[bytes, dict[str, Any], str], Any],
    ) -> None:
        self.name = name
        self.type = type
        self.kind = kind
        self.element = element
        self.fixed = fixed
        self.struct = struct
        self.nullable = nullable
        self.least = least
        self.show = show


@cache
def _struct(name: str, version: int) -> _Struct:
    message = schema.message(name)
    return _prepared(MessageVersion(message, version), message.fields)


def _prepared(known: MessageVersion, fields: tuple[SchemaField, ...]) -> _Struct:
    tagged = {f.tag: _field(known, f) for f in known.tagged(fields)} if known.flexible else None
    return _Struct(tuple(_field(known, f) for f in known.plain(fields)), tagged)


def _field(known: MessageVersion, field: SchemaField) -> _Field:
    wide = field.array or field.type in ("bytes", "records")
    return _Field(
        field.name,
        field.type,
        kind=_COMPACT if known.is_compact(field) else _WIDE if wide else _PLAIN,
        element=_field(known, field.element) if field.array else None,
        fixed=_FIXED.get(field.type),
        struct=_prepared(known, field.fields) if field.struct and not field.array else None,
        nullable=known.is_nullable(field),
        least=SIZES.get(field.type, 1),
        show=_show(known.message.name, field),
    )


def _show(message: str, field: SchemaField) -> Callable[[bytes, dict[str, Any], str], Any]:
    """How text or bytes of a field are shown."""
    key, setting = secrets.SETTINGS.get(message, ("", ""))
    if field.type == "string":
        if field.name == setting:
            return lambda raw, holder, name: secrets.setting_value(holder.get(key), _text(raw))
        if field.name in secrets.TEXT_FIELDS:
            return lambda raw, holder, name: without_tokens(_text(raw))
        return lambda raw, holder, name: _text(raw)
    if field.type == "records":
        return lambda raw, holder, name: {"sizeInBytes": len(raw)}
    if (message, field.name) in nested.VERSIONED:
        return beside(nested.VERSIONED[message, field.name])
    if (message, field.name) in nested.SHOWN:
        return nested.SHOWN[message, field.name]
    if secrets.is_secret(message, field.name):
        return lambda raw, holder, name: REDACTED
    return lambda raw, holder, name: nested.base64_text(raw)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


@final
@compiled
class _Reading:
    """Reads one message. Dicts and lists are put where they belong before they are filled.

    told: who is told of values, if anyone is; then texts and bytes are not read
    """

    reader: WireReader
    _message: str
    _end: cython.Py_ssize_t
    _told: Visit | None

    def __init__(self, name: str, data: bytes, start: int, end: int, told: Visit | None = None) -> None:
        self.reader = WireReader()
        self.reader.open(data, start, end)
        self._message = name
        self._end = end  # as announced: the data may end before
        self._told = told

    @compiled
    def struct(self, struct: _Struct, out: dict[str, Any]) -> None:
        """Read a struct into `out`. Raises ReadError."""
        field: _Field
        for field in struct.fields:
            self._read(field, out)
        if struct.tagged is not None:
            self.tags(struct.tagged, out)

    @compiled
    def up_to(self, last: str, struct: _Struct, out: dict[str, Any]) -> None:
        """Read the fields of a struct into `out`, up to the one of this name. Raises ReadError."""
        field: _Field
        for field in struct.fields:
            self._read(field, out)
            if field.name == last:
                break

    @compiled
    def _read(self, field: _Field, out: dict[str, Any]) -> None:
        """Read a field into the struct that holds it."""
        if field.element is not None:
            self._array(field, field.element, out)
        elif field.fixed is not None:
            out[field.name] = self._fixed(field)
        elif field.struct is None:
            out[field.name] = self._sized(field, out)
        elif field.nullable and self._is_null():
            out[field.name] = None
        else:
            inner: dict[str, Any] = {}
            out[field.name] = inner
            self.struct(field.struct, inner)

    @compiled
    def _fixed(self, field: _Field) -> Any:
        """A value of fixed size."""
        at: cython.Py_ssize_t = self.reader.pos
        assert field.fixed is not None
        value = field.fixed(self.reader)
        if self._told is not None:
            self._told(field.name, field.type, at, self.reader.pos)
        return value

    @compiled
    def _sized(self, field: _Field, out: dict[str, Any]) -> Any:
        """Text or bytes behind a length; None for null."""
        r: WireReader = self.reader
        n: cython.longlong = self._announced(field.kind)
        if n < 0:
            if n < -1:
                raise ReadError("a negative length")
            return None
        if self._told is not None:
            self._told(field.name, field.type, r.pos, r.pos + n)
        at: cython.Py_ssize_t = r.take(n)
        return field.show(part(r.source, at, at + n), out, field.name) if self._told is None else None

    @compiled
    def _array(self, field: _Field, element: _Field, out: dict[str, Any]) -> None:
        inner: dict[str, Any]
        n: cython.longlong = self._announced(field.kind)
        if n < 0:
            if n < -1:
                raise ReadError("a negative count")
            out[field.name] = None
            return
        self._check(n, element.least)
        values: list[Any] = []
        out[field.name] = values
        for _ in range(n):
            if element.fixed is not None:
                values.append(self._fixed(element))
            elif element.struct is not None:
                inner = {}
                values.append(inner)
                try:
                    self.struct(element.struct, inner)
                except ReadError:
                    if not inner:  # nothing of it is there
                        values.pop()
                    raise
            else:
                values.append(self._sized(element, {}))

    def tags(self, known: dict[int, _Field], out: dict[str, Any]) -> None:
        """Read tagged fields, of which some are known, into the struct that holds them. Raises ReadError."""
        r = self.reader
        count = self._announced(_COMPACT) + 1
        self._check(count, 1)
        for _ in range(count):
            number, size = self._announced(_COMPACT) + 1, self._announced(_COMPACT) + 1
            self._check(size, 1)
            start, stop = r.pos, r.pos + size
            if number in known:
                self._read(known[number], out)
                if r.pos != stop:
                    raise ReadError("a tagged field of another size")
                continue
            if self._told is not None:
                self._told("", UNKNOWN, start, stop)
            secret = self._message in secrets.SECRET_FIELDS
            shown = REDACTED if secret else nested.base64_text(r.source[start : min(stop, r.end)])
            out.setdefault(UNKNOWN_TAGS, {})[number] = shown
            r.skip(size)

    @compiled
    def _announced(self, kind: cython.int) -> cython.longlong:
        """The length or count of what follows, negative for null. It may be more than is left."""
        at: cython.Py_ssize_t = self.reader.pos
        n: cython.longlong = self.reader.announced(kind)
        if self._told is not None:
            self._told("", "", at, self.reader.pos)
        return n

    @compiled
    def _is_null(self) -> cython.bint:
        """Whether a struct that may be null is."""
        at: cython.Py_ssize_t = self.reader.pos
        null: cython.bint = self.reader.i8() < 0
        if self._told is not None:
            self._told("", "", at, self.reader.pos)
        return null

    @compiled
    def _check(self, count: cython.longlong, least: cython.longlong) -> None:
        """Refuse a count that what is left of the message cannot hold, before anything is allocated."""
        left: cython.longlong = self._end - self.reader.pos
        if left < 0 or count > left // least:
            raise ReadError("a count beyond the end")
