"""proto/pulsar/PulsarApi.proto as the protobuf library takes it: a FileDescriptorProto, which protoc would write.

It is made of the text when Pulsar is first met, in some 3 ms, so no compiled form lies beside the text and no build
needs protoc. Understood is what that file uses of proto2: messages, enums beside them or within, oneof, scalar
types, defaults. Field numbers are those of Protobuf's own descriptor.proto.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_TOKEN = re.compile(r'[\w.+-]+|"[^"]*"|[{}=;\[\]]')
_COMMENT = re.compile(r"//[^\n]*")
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_MESSAGE, _ENUM = 11, 14
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
# Fields of FileDescriptorProto, DescriptorProto, FieldDescriptorProto and EnumDescriptorProto; each has a name.
_NAME, _PACKAGE, _FILE_MESSAGE, _FILE_ENUM = 1, 2, 4, 5
_FIELD, _MESSAGE_ENUM, _ONEOF = 2, 4, 8
_NUMBER, _LABEL, _TYPE, _TYPE_NAME, _DEFAULT, _ONEOF_INDEX = 3, 4, 5, 6, 7, 9
_VALUE, _VALUE_NUMBER = 2, 2


def descriptor(name: str, text: str) -> bytes:
    """A FileDescriptorProto of this name. Raises ValueError where the text is more than this module understands."""
    text = _COMMENT.sub("", text)
    tokens = iter(_TOKEN.findall(text))
    package = ""
    declared: dict[str, int] = dict.fromkeys(re.findall(r"^message (\w+)", text, re.M), _MESSAGE)
    declared |= dict.fromkeys(re.findall(r"^enum (\w+)", text, re.M), _ENUM)
    written = [_entry(_NAME, name)]
    for word in tokens:
        value = next(tokens)
        if word == "message":
            written.append(_entry(_FILE_MESSAGE, _message(value, tokens, f".{package}", declared)))
        elif word == "enum":
            written.append(_entry(_FILE_ENUM, _enum(value, tokens)))
        elif word == "package":
            package = value
            written.append(_entry(_PACKAGE, package))
            _expect(tokens, ";")
        elif word == "syntax":
            _expect(tokens, '"proto2"', ";")
        else:
            raise ValueError(f"{name}: {word} is not understood")
    return b"".join(written)


def _message(name: str, tokens: Iterator[str], package: str, declared: dict[str, int]) -> bytes:
    """The DescriptorProto of a message whose name has been read."""
    written = [_entry(_NAME, name)]
    fields: list[tuple[str, Callable[[int, str], bytes]]] = []  # what is declared within may stand behind its use
    inner: set[str] = set()
    oneofs = -1
    in_oneof = False
    _expect(tokens, "{")
    for word in tokens:
        if word == "}" and not in_oneof:
            break
        if word == "}":
            in_oneof = False
        elif word == "enum":
            inner.add(enum := next(tokens))
            written.append(_entry(_MESSAGE_ENUM, _enum(enum, tokens)))
        elif word == "oneof":
            written.append(_entry(_ONEOF, _entry(_NAME, next(tokens))))
            oneofs, in_oneof = oneofs + 1, True
            _expect(tokens, "{")
        else:
            kind = next(tokens) if word in _LABELS else word
            fields.append((kind, _field(tokens, _LABELS.get(word, 1), oneofs if in_oneof else None)))
    for kind, field in fields:
        if kind in _SCALARS:
            data = field(_SCALARS[kind], "")
        elif kind in inner:
            data = field(_ENUM, f"{package}.{name}.{kind}")
        elif kind in declared:
            data = field(declared[kind], f"{package}.{kind}")
        else:
            raise ValueError(f"{name}: there is no type {kind}")
        written.append(_entry(_FIELD, data))
    return b"".join(written)


def _field(tokens: Iterator[str], label: int, oneof: int | None) -> Callable[[int, str], bytes]:
    """Read a field from its name on; its FieldDescriptorProto, once its type is known: (type, name of the type)."""
    name = next(tokens)
    _expect(tokens, "=")
    written = _entry(_NAME, name) + _entry(_NUMBER, int(next(tokens))) + _entry(_LABEL, label)
    if oneof is not None:
        written += _entry(_ONEOF_INDEX, oneof)
    if (word := next(tokens)) == "[":
        _expect(tokens, "default", "=")
        written += _entry(_DEFAULT, next(tokens).strip('"'))
        _expect(tokens, "]", ";")
    elif word != ";":
        raise ValueError(f"{name}: {word} is not understood")
    return lambda kind, of: written + _entry(_TYPE, kind) + (_entry(_TYPE_NAME, of) if of else b"")


def _enum(name: str, tokens: Iterator[str]) -> bytes:
    """The EnumDescriptorProto of an enum whose name has been read."""
    written = _entry(_NAME, name)
    _expect(tokens, "{")
    for word in tokens:
        if word == "}":
            break
        _expect(tokens, "=")
        written += _entry(_VALUE, _entry(_NAME, word) + _entry(_VALUE_NUMBER, int(next(tokens))))
        _expect(tokens, ";")
    return written


def _expect(tokens: Iterator[str], *wanted: str) -> None:
    for word in wanted:
        if (found := next(tokens, "the end")) != word:
            raise ValueError(f"{found} stands where {word} is expected")


def _entry(number: int, value: str | bytes | int) -> bytes:
    """A field on the wire: a number, or bytes behind their length. Field numbers are below 16."""
    if isinstance(value, int):
        return bytes([number << 3]) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """A number that is not negative, seven bits a byte."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
