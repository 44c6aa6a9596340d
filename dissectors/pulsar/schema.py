"""proto/pulsar/PulsarApi.proto as the protobuf library takes it: a FileDescriptorProto, which protoc would write.

It is made of the text when Pulsar is first met, in some milliseconds, so no compiled form lies beside the text and no
build needs protoc. Understood is what that file uses of proto2: messages, enums beside them or within, oneof, scalar
types, defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_TOKEN = re.compile(r'[\w.+-]+|"[^"]*"|[{}=;\[\]]')
_COMMENT = re.compile(r"//[^\n]*")
_LABELS = {name.removeprefix("LABEL_").lower(): number for name, number in FieldDescriptorProto.Label.items()}
_TYPES = {name.removeprefix("TYPE_").lower(): number for name, number in FieldDescriptorProto.Type.items()}
_MESSAGE, _ENUM, _ = (_TYPES.pop(name) for name in ("message", "enum", "group"))  # the others are scalar


def descriptor(name: str, text: str) -> bytes:
    """A FileDescriptorProto of this name. Raises ValueError where the text is more than this module understands."""
    tokens = iter(_TOKEN.findall(_COMMENT.sub("", text)))
    file = FileDescriptorProto(name=name)
    for word in tokens:
        value = next(tokens)
        if word == "message":
            _read_message(file.message_type.add(name=value), tokens)
        elif word == "enum":
            _read_enum(file.enum_type.add(name=value), tokens)
        elif word == "package":
            file.package = value
            _expect(tokens, ";")
        elif word == "syntax":
            _expect(tokens, '"proto2"', ";")
        else:
            raise ValueError(f"{name}: {word} is not understood")
    _name_types(file)
    return file.SerializeToString()


def _read_message(message: DescriptorProto, tokens: Iterator[str]) -> None:
    """Read a message behind its name; the type of each field as it is written, into `type_name`."""
    in_oneof = False
    _expect(tokens, "{")
    for word in tokens:
        if word == "}" and not in_oneof:
            break
        if word == "}":
            in_oneof = False
        elif word == "enum":
            _read_enum(message.enum_type.add(name=next(tokens)), tokens)
        elif word == "oneof":
            message.oneof_decl.add(name=next(tokens))
            in_oneof = True
            _expect(tokens, "{")
        else:
            field = message.field.add(label=_LABELS.get(word, _LABELS["optional"]))
            field.type_name = next(tokens) if word in _LABELS else word
            if in_oneof:
                field.oneof_index = len(message.oneof_decl) - 1
            _read_field(field, tokens)


def _read_field(field: FieldDescriptorProto, tokens: Iterator[str]) -> None:
    """Read a field from its name on."""
    field.name = next(tokens)
    _expect(tokens, "=")
    field.number = int(next(tokens))
    if (word := next(tokens)) == "[":
        _expect(tokens, "default", "=")
        field.default_value = next(tokens).strip('"')
        _expect(tokens, "]", ";")
    elif word != ";":
        raise ValueError(f"{field.name}: {word} is not understood")


def _read_enum(enum: EnumDescriptorProto, tokens: Iterator[str]) -> None:
    """Read an enum behind its name."""
    _expect(tokens, "{")
    for word in tokens:
        if word == "}":
            break
        _expect(tokens, "=")
        enum.value.add(name=word, number=int(next(tokens)))
        _expect(tokens, ";")


def _name_types(file: FileDescriptorProto) -> None:
    """Say of each field which type it has, now that all are known: one may stand behind its use."""
    declared = dict.fromkeys((one.name for one in file.message_type), _MESSAGE)
    declared |= dict.fromkeys((one.name for one in file.enum_type), _ENUM)
    for message in file.message_type:
        own = {enum.name for enum in message.enum_type}
        for field in message.field:
            name = field.type_name
            if name in _TYPES:
                field.type = _TYPES[name]
                field.ClearField("type_name")
            elif name in own:
                field.type, field.type_name = _ENUM, f".{file.package}.{message.name}.{name}"
            elif name in declared:
                field.type, field.type_name = declared[name], f".{file.package}.{name}"
            else:
                raise ValueError(f"{message.name}: there is no type {name}")


def _expect(tokens: Iterator[str], *wanted: str) -> None:
    for word in wanted:
        if (found := next(tokens, "the end")) != word:
            raise ValueError(f"{found} stands where {word} is expected")
