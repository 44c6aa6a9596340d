"""Writes any message of the tables: random values, and their bytes. Independent of the decoders."""

import random
import struct
from base64 import b64encode
from typing import Any

from dissectors.kafka.full import uuid_text
from dissectors.kafka.schema import MessageSchema, SchemaField

_FIXED = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "float64": "d", "bool": "?",
}  # fmt: skip

UNKNOWN_TAG = 1000  # of a tagged field that no schema knows


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


class Encoder:
    """Random bodies of one message and version."""

    def __init__(self, message: MessageSchema, version: int, rng: random.Random, unknown_tags: bool = True) -> None:
        self.version = version
        self.flexible = version in message.flexible
        self.rng = rng
        self.message = message
        self.unknown_tags = unknown_tags

    def body(self) -> tuple[dict[str, Any], bytes]:
        """The values, as a full decoder shows them, and their bytes."""
        return self.struct(self.message.fields)

    def struct(self, fields: tuple[SchemaField, ...]) -> tuple[dict[str, Any], bytes]:
        values, out, tags = {}, b"", []
        for field in fields:
            if self.version not in field.versions:
                continue
            if field.tag >= 0 and self.version in field.tagged:
                if self.rng.random() < 0.5:
                    values[field.name], data = self.field(field)
                    tags.append((field.tag, data))
                continue
            values[field.name], data = self.field(field)
            out += data
        if self.flexible:
            if self.unknown_tags and self.rng.random() < 0.2:
                raw = self.rng.randbytes(self.rng.randrange(200))
                values["_unknownTags"] = {UNKNOWN_TAG: b64encode(raw).decode()}
                tags.append((UNKNOWN_TAG, raw))
            out += uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(d)) + d for tag, d in tags)
        return values, out

    def field(self, field: SchemaField) -> tuple[Any, bytes]:
        null = self.version in field.nullable and self.rng.random() < 0.3
        if field.array:
            if null:
                return None, self.length(-1, "i")
            items = [self.one(field) for _ in range(self.rng.choice((0, 1, 2, 3)))]
            return [value for value, _ in items], self.length(len(items), "i") + b"".join(data for _, data in items)
        if field.struct and self.version in field.nullable:
            if null:
                return None, b"\xff"
            value, data = self.struct(field.fields)
            return value, b"\1" + data
        if null:
            return None, self.length(-1, "h" if field.type == "string" else "i")
        return self.one(field)

    def one(self, field: SchemaField) -> tuple[Any, bytes]:
        rng = self.rng
        if field.struct:
            return self.struct(field.fields)
        if field.type == "uuid":
            raw = rng.choice((rng.randbytes(16), bytes(16)))
            return uuid_text(raw), raw
        if field.type == "bool":
            flag = rng.random() < 0.5
            return flag, bytes([flag])
        if field.type == "float64":
            number = rng.uniform(-1e6, 1e6)
            return number, struct.pack(">d", number)
        if field.type in _FIXED:
            size = struct.calcsize(_FIXED[field.type])
            raw = rng.choice((rng.randbytes(size), bytes(size)))
            return struct.unpack(">" + _FIXED[field.type], raw)[0], raw
        if field.type == "string":
            text = "".join(rng.choice("abc-é") for _ in range(rng.choice((0, 3, 140))))
            return text, self.length(len(text.encode()), "h") + text.encode()
        raw = rng.randbytes(rng.choice((0, 5, 150)))
        return raw, self.length(len(raw), "i") + raw

    def length(self, n: int, format_: str) -> bytes:
        return uvarint(n + 1) if self.flexible else struct.pack(">" + format_, n)
