"""Schemas that Pulsar's clients and brokers tell each other: with PRODUCER and SUBSCRIBE, and by GET_SCHEMA."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from pipelines.payloads.decoders import (
    Decode,
    LimitError,
    MisfitError,
    SchemaError,
    avro,
    json_text,
    plain,
    protobuf_set,
)
from pipelines.payloads.meaning import Meaning

APIS = ("PRODUCER", "SUBSCRIBE", "GET_SCHEMA", "GET_OR_CREATE_SCHEMA")
"""The exchanges whose bodies have schemas."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = 1000
_NUMBERS = {
    "Int8": ">b", "Int16": ">h", "Int32": ">i", "Int64": ">q", "Float": ">f", "Double": ">d",
}  # fmt: skip
_NAMES = {name.upper(): name for name in (*_NUMBERS, "String", "Json", "Avro", "Protobuf", "Bool", "Date", "Time",
          "Timestamp", "Instant", "ProtobufNative", "Bytes", "None")} | {
    "LOCAL_DATE": "LocalDate", "LOCAL_TIME": "LocalTime", "LOCAL_DATE_TIME": "LocalDateTime",
    "PROTOBUF_NATIVE": "ProtobufNative", "BOOLEAN": "Bool", "KEY_VALUE": "KeyValue",
}  # fmt: skip
"""Names of types as properties of a key/value schema have them -> those of the protocol's enum."""


class WireSchema(NamedTuple):
    """A schema as PulsarApi.proto's `Schema` has it."""

    type: str  # Avro, Json, String …
    data: Any  # text, or of a key/value schema its two parts
    properties: Mapping[str, str]

    @classmethod
    def of(cls, body: Any) -> WireSchema | None:
        """The schema in a decoded body; None where it says that a topic's own schema is wanted, or none."""
        if not isinstance(body, dict) or body.get("type") in (None, "None", "AutoConsume", "AutoPublish", "Auto"):
            return None
        pairs = body.get("properties") or ()
        return cls(body["type"], body.get("schema_data"), {each.get("key"): each.get("value", "") for each in pairs})


class WireSchemas:
    """Schemas by topic and version."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int | None], WireSchema] = {}
        self._readers: dict[tuple[str, int | None], Callable[[bytes | None, bytes | None], tuple[Any, Any]]] = {}

    def add(self, topics: Sequence[str] | None, request: Any, response: Any) -> None:
        """Note what the bodies of an exchange say."""
        told = WireSchema.of(_of(response, "schema")) or WireSchema.of(_of(request, "schema"))
        if told is None:
            return
        version = _of(response, "schema_version")
        number = int(version) if re.fullmatch(r"-?[0-9]{1,19}", str(version)) else None
        for topic in topics or ():
            self._known[topic, number] = told
            self._known.setdefault((topic, None), told)

    def meaning(self, topic: str, version: int | None, key: bytes | None, value: bytes | None) -> Meaning | None:
        """What a message means by the schema of its version; None where that is not known.

        A message without a version is read by the first of its topic.
        """
        schema = self._known.get((topic, version))
        if schema is None:
            return None
        name = f"pulsar {schema.type}{'' if version is None else f' version {version}'}"
        try:
            if (topic, version) not in self._readers:
                self._readers[topic, version] = _reader(schema)
            return Meaning(*self._readers[topic, version](key, value), name)
        except MisfitError as error:
            return Meaning(schema=name, misfit=str(error))
        except (SchemaError, LimitError) as error:
            return Meaning(misfit=str(error))


def _of(body: Any, name: str) -> Any:
    return body.get(name) if isinstance(body, dict) else None


def _reader(schema: WireSchema) -> Callable[[bytes | None, bytes | None], tuple[Any, Any]]:
    """What reads key and value of a message."""
    if schema.type != "KeyValue":
        decode = _decoder(schema.type, schema.data, "")
        return lambda key, value: (_key(key), None if value is None else decode(value, ()))
    parts = schema.data if isinstance(schema.data, dict) else {}
    of_key, of_value = (
        _decoder(_NAMES.get(schema.properties.get(f"{part}.schema.type", "BYTES").upper(), "Bytes"),
                 parts.get(part) or "", part)
        for part in ("key", "value")
    )  # fmt: skip

    def separated(key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
        return None if key is None else of_key(key, ()), None if value is None else of_value(value, ())

    def inline(key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
        """i32 size | key | i32 size | value; a size of -1 is a null."""
        if value is None:
            return _key(key), None
        first, rest = _sized(value)
        second, rest = _sized(rest)
        if rest:
            raise MisfitError("bytes are left behind the value")
        pair = {
            "key": None if first is None else of_key(first, ()),
            "value": None if second is None else of_value(second, ()),
        }
        return _key(key), pair

    return separated if schema.properties.get("kv.encoding.type", "INLINE").upper() == "SEPARATED" else inline


def _key(key: bytes | None) -> Any:
    """A key that no schema speaks of: Pulsar's keys are text."""
    return None if key is None else key.decode("utf-8", "backslashreplace")


def _sized(data: bytes) -> tuple[bytes | None, bytes]:
    """Bytes behind their size, and what follows."""
    if len(data) < 4:
        raise MisfitError("a size of four bytes is missing")
    size = int.from_bytes(data[:4], "big", signed=True)
    if size < 0:
        return None, data[4:]
    if size > len(data) - 4:
        raise MisfitError(f"{size} bytes are announced where {len(data) - 4} are left")
    return data[4 : 4 + size], data[4 + size :]


def _decoder(kind: str, data: Any, part: str) -> Decode:
    """What reads values of a type. Raises SchemaError."""
    if kind == "Json":
        return json_text
    if kind in ("Avro", "Protobuf"):  # whose values Pulsar's clients write by an Avro schema, and by Protobuf
        return avro(str(data), {}) if kind == "Avro" else _bytes
    if kind == "ProtobufNative":
        return _native(data)
    simple = _SIMPLE.get(kind)
    if simple is None:
        raise SchemaError(f"{part or 'value'} of the unknown type {kind}")
    return simple


def _native(data: Any) -> Decode:
    """By the descriptors in the JSON that Pulsar's native Protobuf schemas are."""
    import base64

    try:
        told = json.loads(data)
        raw = base64.b64decode(told["fileDescriptorSet"], validate=True)
        return protobuf_set(raw, str(told["rootMessageTypeName"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SchemaError(f"no native Protobuf schema: {error}") from None


def _written(form: str, write: Callable[[Any], Any]) -> Decode:
    """What reads a type that is one number, and writes it in another way."""
    return lambda value, _: write(_number(form, value))


def _number(form: str, value: bytes) -> Any:
    if len(value) != struct.calcsize(form):
        raise MisfitError(f"{len(value)} bytes where the type has {struct.calcsize(form)}")
    return struct.unpack(form, value)[0]


def _string(value: bytes, _: Sequence[int] = ()) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MisfitError("it is no UTF-8 text") from None


def _bytes(value: bytes, _: Sequence[int] = ()) -> Any:
    return plain(value)


def _moment(milliseconds: int) -> str:
    return _after_epoch(milliseconds=milliseconds).isoformat()


def _instant(value: bytes, _: Sequence[int] = ()) -> Any:
    seconds, nanoseconds = _number(">q4x", value), _number(">8xi", value)
    if not 0 <= nanoseconds < 1_000_000_000:
        raise MisfitError("no part of a second")
    return f"{_after_epoch(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}+00:00"


def _date(days: int) -> str:
    try:
        return date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()
    except (ValueError, OverflowError):
        raise MisfitError("a day beyond those of dates") from None


def _clock(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    if not 0 <= seconds < 86_400:
        raise MisfitError("no time of a day")
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:09}"


def _day_and_time(value: bytes, _: Sequence[int] = ()) -> Any:
    if len(value) != 16:
        raise MisfitError(f"{len(value)} bytes where the type has 16")
    return f"{_date(_number('>q', value[:8]))}T{_clock(_number('>q', value[8:]))}"


def _after_epoch(**span: float) -> datetime:
    try:
        return _EPOCH + timedelta(**span)
    except OverflowError:
        raise MisfitError("a time beyond those of dates") from None


# Types without a schema of their own: Pulsar's client library, org.apache.pulsar.client.impl.schema.
_SIMPLE: dict[str, Decode] = {
    "String": _string, "Bytes": _bytes, "None": _bytes, "Instant": _instant, "LocalDate": _written(">q", _date),
    "LocalTime": _written(">q", _clock), "LocalDateTime": _day_and_time, "Bool": _written(">?", plain),
    **dict.fromkeys(("Date", "Timestamp", "Time"), _written(">q", _moment)),
    **{name: _written(form, plain) for name, form in _NUMBERS.items()},
}  # fmt: skip


def told(rows: Iterable[Mapping[str, Any]]) -> WireSchemas:
    """The schemas in exchanges with their bodies."""
    schemas = WireSchemas()
    for row in rows:
        request, response = (json.loads(row[side]) if row[side] else None for side in ("request", "response"))
        schemas.add(row["topics"], request, response)
    return schemas
