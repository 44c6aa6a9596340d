"""Decoders that keep everything: a message as a dict under the schema's own names.

Used for `--full`, for rare messages, and as the oracle of those made from plan.py, which keep little. Values are as
Kafka's own request log has them: numbers, text, uuid and bytes as base64, tagged fields under their names where they
are on the wire. Beyond it: tagged fields that the schema does not know are kept under `_unknownTags`, of record sets
the size is shown, and secrets are never read: `<redacted>` stands for them.
"""

from __future__ import annotations

import math
import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from dissectors.kafka import nested, schema, secrets
from dissectors.kafka.schema import FIXED, SIZES, MessageSchema, MessageVersion, SchemaField
from dissectors.kafka.writer import TEXT, SourceWriter
from dissectors.redaction import REDACTED, without_tokens

UNKNOWN_TAGS = "_unknownTags"
ENDS_EARLY = "it ends early"
NOT_DECODED = (struct.error, IndexError, ValueError)

Decoder = Callable[[bytes, int, int, dict[str, Any]], int]
"""(data, start, end, body) -> the index after the message; fills `body` as it reads, so that of a message that ends too
early everything before its end is there. Raises ValueError, IndexError or struct.error."""


@cache
def decoder(name: str, version: int) -> Decoder:
    """The decoder of one message in one version."""
    return FullWriter(schema.message(name), version).decoder()


class Full(NamedTuple):
    """A body as a dict, as far as it could be read."""

    body: dict[str, Any]
    left: int  # bytes after it, which brokers ignore
    trouble: str | None  # why it could not be read whole

    @property
    def exact(self) -> bool:
        return self.trouble is None and not self.left


def full(name: str, version: int, data: bytes, start: int, end: int) -> Full:
    """Decode a message that ends at `end`; what follows it in `data` is not looked at."""
    body: dict[str, Any] = {}
    try:
        stop = decoder(name, version)(data[start:end], 0, end - start, body)
    except ValueError as trouble:
        return Full(body, 0, str(trouble))
    except NOT_DECODED:
        return Full(body, 0, ENDS_EARLY)
    return Full(body, end - start - stop, None) if stop <= end - start else Full(body, 0, ENDS_EARLY)


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


def number(value: float) -> float | str:
    """A float as JSON can hold it."""
    return value if math.isfinite(value) else str(value)


Put = Callable[[str], str]
"""expression -> the statement that puts its value where it belongs"""


class FullWriter(SourceWriter):
    """Writes `full(d, p, end, body) -> p`."""

    def __init__(self, message: MessageSchema, version: int) -> None:
        super().__init__(f"decoder of {message.name} v{version}")
        self.message = message
        self.known = MessageVersion(message, version)
        self.scope |= {"uuid": uuid_text, "number": number, "unpack": struct.unpack_from, "base64": nested.base64_text}

    def decoder(self) -> Decoder:
        self.line("there = len(d)")  # less than `end` where the frame was cut: a text that is cut is not shown
        self.struct(self.message.fields, "body")
        self.flush()
        self.line("return p")
        return self.compile("full", "d, p, end, body")

    def struct(self, fields: tuple[SchemaField, ...], out: str) -> None:
        """Read a struct into the dict `out`."""
        values: dict[str, str] = {}  # field -> the variable that holds it
        for field in self.known.plain(fields):
            self.read(field, _item(out, field), values, out)
        if self.known.flexible:
            self.tags(out, self.known.tagged(fields), values)

    def tags(self, out: str, known: list[SchemaField], values: dict[str, str]) -> None:
        """Read tagged fields into the dict `out`."""
        count, tag, size, stop = self.var("t"), self.var("tag"), self.var("n"), self.var("q")
        self.varint(count)
        with self.block(f"if {count}:"):
            self.guard(count)
            with self.block(f"for _ in range({count}):"):
                self.varint(tag)
                self.varint(size)
                self.guard(size)
                self.line(f"{stop} = p + {size}")
                for field in known:
                    with self.block(f"if {tag} == {field.tag}:"):
                        self.read(field, _item(out, field), values, out)
                        self.flush()
                        self.line(f"if p != {stop}: bad('a tagged field of another size')")
                        self.line("continue")
                secret = self.message.name in secrets.SECRET_FIELDS
                unknown = repr(REDACTED) if secret else f"base64(d[p:{stop}])"
                self.line(f"{out}.setdefault({UNKNOWN_TAGS!r}, {{}})[{tag}] = {unknown}")
                self.line(f"p = {stop}")

    def read(self, field: SchemaField, put: Put, values: dict[str, str], out: str) -> None:
        """Read one field and put it where it belongs."""
        if field.array:
            self.array(field, put)
        elif field.struct:
            self.inner(field, put)
        elif field.type in FIXED:
            var = values[field.name] = self.var("v")
            self.take(FIXED[field.type], var)
            self.after(put(_CONVERTED.get(field.type, "{}").format(var)))
        else:
            self.sized(field, put, values, out)

    def prefix(self, field: SchemaField) -> str:
        return self.length(field.array or field.type in ("bytes", "records"), self.known.is_compact(field))

    def sized(self, field: SchemaField, put: Put, values: dict[str, str], out: str) -> None:
        """Read text or bytes behind a length."""
        n = self.prefix(field)
        var = values[field.name] = self.var("v")
        with self.block(f"if {n} < 0:"):
            self.line(f"if {n} < -1: bad('a negative length')")
            self.line(f"{var} = None")
        with self.block("else:"):
            self.guard(n, end="there")
            self.line(f"{var} = {self.slice(field, n, out)}")
            self.line(f"p += {n}")
        key, setting = secrets.SETTINGS.get(self.message.name, ("", ""))
        if field.name == setting and key in values:
            self.line(put(f"{self.const('hide', secrets.setting_value)}({values[key]}, {var})"))
        else:
            self.line(put(var))

    def slice(self, field: SchemaField, n: str, out: str) -> str:
        """The expression for `n` bytes at p."""
        if field.type == "string":
            text = f"d[p:p + {n}]{TEXT}"
            return f"{self.const('cut', without_tokens)}({text})" if field.name in secrets.TEXT_FIELDS else text
        if field.type == "records":
            return f"{{'sizeInBytes': {n}}}"
        key = (self.message.name, field.name)
        show = beside(nested.VERSIONED[key]) if key in nested.VERSIONED else nested.SHOWN.get(key)
        if show is not None:
            return f"{self.const('show', show)}(d[p:p + {n}], {out}, {field.name!r})"
        if secrets.is_secret(self.message.name, field.name):
            return repr(REDACTED)
        return f"base64(d[p:p + {n}])"

    def inner(self, field: SchemaField, put: Put) -> None:
        """Read a struct that is a field or an element."""
        out = self.var("o")
        if not self.known.is_nullable(field):
            self.after(f"{out} = {{}}")
            self.after(put(out))
            self.struct(field.fields, out)
            return
        there = self.var("n")
        self.take("b", there)
        self.flush()
        with self.block(f"if {there} < 0:"):
            self.line(put("None"))
        with self.block("else:"):
            self.line(f"{out} = {{}}")
            self.line(put(out))
            self.struct(field.fields, out)

    def array(self, field: SchemaField, put: Put) -> None:
        n = self.prefix(field)
        with self.block(f"if {n} < 0:"):
            self.line(f"if {n} < -1: bad('a negative count')")
            self.line(put("None"))
        with self.block("else:"):
            if field.type in FIXED and field.type not in _CONVERTED:
                self.guard(n, SIZES[field.type])
                self.line(put(f"list(unpack(f'>{{{n}}}{FIXED[field.type]}', d, p))"))
                self.line(f"p += {n} * {SIZES[field.type]}")
            else:
                self.guard(n)
                out = self.var("v")
                self.line(f"{out} = []")
                self.line(put(out))
                with self.block(f"for _ in range({n}):"):
                    self.read(field.element, lambda value: f"{out}.append({value})", {}, "{}")


_CONVERTED = {"uuid": "uuid({})", "float64": "number({})"}  # type -> how its value is shown


def _item(out: str, field: SchemaField) -> Put:
    return lambda value: f"{out}[{field.name!r}] = {value}"
