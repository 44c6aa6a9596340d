"""The messages of proto/pulsar/PulsarApi.proto: as shapes for the reader of rows, `shape("MessageMetadata")`, and as
classes of the protobuf library for bodies, `api.MessageMetadata`, `api.BaseCommand` …

What protoc generates for Python is tied to two major versions of the protobuf runtime and registers its messages for
the whole process, where an application's own Pulsar client would clash with it. This needs neither: the classes come
from a private pool, each when first used, and the pool gets the schema as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pool, message_factory

from dissectors.pulsar.schema import descriptor
from dissectors.wire.proto import proto
from dissectors.wire.protobuf import FLAG, INT32, INT64, INTEGERS, MESSAGE, OCTETS, OTHER, UINT32, MessageShape


def _file() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor("PulsarApi.proto", proto("pulsar", "PulsarApi.proto").read_text()))
    return pool.FindFileByName("PulsarApi.proto")


DESCRIPTOR = _file()
MESSAGES: dict[int, str] = {
    field.number: field.message_type.name
    for field in DESCRIPTOR.message_types_by_name["BaseCommand"].fields
    if field.message_type is not None
}
"""Type of a command -> the message that holds its fields."""


def messages() -> Iterator[Any]:
    """The descriptors of all messages."""
    return iter(DESCRIPTOR.message_types_by_name.values())


def __getattr__(name: str) -> Any:
    message = DESCRIPTOR.message_types_by_name.get(name)
    if message is None:
        raise AttributeError(f"the schema has no message {name}")
    made = globals()[name] = message_factory.GetMessageClass(message)
    return made


_SHAPES: dict[str, MessageShape] = {}


def shape(name: str) -> MessageShape:
    """What the reader of rows needs to know of a message, made when it is first asked for."""
    made = _SHAPES.get(name)
    if made is None:
        message = DESCRIPTOR.message_types_by_name[name]
        made = _SHAPES[name] = MessageShape({field.number: _kind(field) for field in message.fields})
        for field in message.fields:
            if field.message_type is not None:
                made.inner[field.number] = shape(field.message_type.name)
    return made


def _kind(field: Any) -> int:
    if field.type in (field.TYPE_MESSAGE, field.TYPE_STRING, field.TYPE_BYTES):
        return int(MESSAGE if field.type == field.TYPE_MESSAGE else OCTETS)
    if field.is_repeated:
        return int(INTEGERS)
    kinds = {field.TYPE_INT32: INT32, field.TYPE_ENUM: INT32, field.TYPE_UINT32: UINT32, field.TYPE_BOOL: FLAG}
    return int(OTHER if field.type == field.TYPE_DOUBLE else kinds.get(field.type, INT64))


def text(value: str | bytes) -> str:
    """A string field's value. The library hands over bytes where they are no UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


def enum(name: str) -> dict[int, str]:
    """Names of an enum's values by number: `enum("ServerError")`, `enum("CommandAck.ValidationError")`."""
    outer, _, inner = name.rpartition(".")
    enums = DESCRIPTOR.message_types_by_name[outer].enum_types_by_name if outer else DESCRIPTOR.enum_types_by_name
    return {value.number: value.name for value in enums[inner].values}
