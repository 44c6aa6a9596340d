"""Decoders that keep everything: a message as a dict under the schema's own names.

Used for `--full`, for rare messages, and in tests as the oracle of the decoders that keep little (skim.py). Values as
Kafka's own request log has them: numbers, text, uuid and bytes as base64, tagged fields under their names where they
are on the wire. Beyond it: tagged fields that the schema does not know are kept under `_unknownTags`, record sets are
told by size, and secrets are never read: `<redacted>` stands for them.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from dissectors.kafka import nested, schema, secrets
from dissectors.kafka.schema import Field, Message
from dissectors.kafka.writer import FIXED, SIZES, TEXT, Writer

UNKNOWN_TAGS = "_unknownTags"

Decoder = Callable[[bytes, int, int], tuple[dict[str, Any], int]]
"""(data, start, end) -> the message and the index after it; raises MalformedError, IndexError or struct.error."""


@cache
def decoder(name: str, version: int) -> Decoder:
    """The decoder of one message in one version."""
    return FullWriter(schema.message(name), version).decoder()


def uuid_text(raw: bytes) -> str:
    """16 bytes as Kafka writes them: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(raw)[:22].decode()


def base64_text(raw: bytes) -> str:
    return b64encode(raw).decode()


def number(value: float) -> float | str:
    """A float as JSON can hold it."""
    return value if math.isfinite(value) else str(value)


class FullWriter(Writer):
    """Writes `full(d, p, end) -> (dict, p)`."""

    def __init__(self, message: Message, version: int) -> None:
        super().__init__(message, version)
        self.scope |= {"uuid": uuid_text, "number": number, "unpack": struct.unpack_from}
        self.names: dict[int, str] = {}  # id of a field -> the variable that holds it

    def decoder(self) -> Decoder:
        out = self.struct(self.message.fields)
        self.flush()
        self.line(f"return {out}, p")
        return self.compile("full", "d, p, end")

    def struct(self, fields: tuple[Field, ...]) -> str:
        """Read a struct; the variable that holds its dict."""
        parts = [f"{field.name!r}: {self.shown(field, self.read(field), fields)}" for field in self.plain(fields)]
        out = self.var("o")
        if self.flexible:
            tags = self.var("t")
            self.varint(tags)
            self.line(f"{out} = {{{', '.join(parts)}}}")
            with self.block(f"if {tags}:"):
                self.tags(tags, out, self.tagged(fields), fields)
        else:
            self.flush()
            self.line(f"{out} = {{{', '.join(parts)}}}")
        return out

    def tags(self, count: str, out: str, known: list[Field], fields: tuple[Field, ...]) -> None:
        """Read tagged fields into the dict `out`."""
        self.guard(count)
        tag, size, stop = self.var("tag"), self.var("n"), self.var("q")
        with self.block(f"for _ in range({count}):"):
            self.varint(tag)
            self.varint(size)
            self.guard(size)
            self.line(f"{stop} = p + {size}")
            for i, field in enumerate(known):
                with self.block(f"{'elif' if i else 'if'} {tag} == {field.tag}:"):
                    value = self.read(field)
                    self.flush()
                    self.line(f"{out}[{field.name!r}] = {self.shown(field, value, fields)}")
                    self.line(f"if p != {stop}: bad('a tagged field of another size')")
            with self.block("else:" if known else "if True:"):
                encode = self.const("b64", base64_text)
                self.line(f"{out}.setdefault({UNKNOWN_TAGS!r}, {{}})[{tag}] = {encode}(d[p:{stop}])")
                self.line(f"p = {stop}")

    def read(self, field: Field) -> str:
        """Read a field; the variable that holds its value once the run is flushed."""
        if field.array:
            return self.array(field)
        if field.struct:
            return self.nullable_struct(field) if self.nullable(field) else self.struct(field.fields)
        return self.value(field)

    def shown(self, field: Field, var: str, siblings: tuple[Field, ...]) -> str:
        """The expression that stands for the value in the dict."""
        if field.array or field.struct:
            return var
        if field.type == "uuid":
            return f"uuid({var})"
        if field.type == "float64":
            return f"number({var})"
        if secrets.may_be_config(field, siblings):
            name = next(f for f in siblings if f.name == "name")
            return f"{self.const('hide', secrets.config_value)}({self.names[id(name)]}, {var})"
        return var

    def value(self, field: Field) -> str:
        """Read one value that is no struct."""
        v = self.var("v")
        self.names[id(field)] = v
        if field.type in FIXED:
            self.take(FIXED[field.type], v)
            return v
        n = self.length(field)
        with self.block(f"if {n} < 0:"):
            self.line(f"if {n} < -1: bad('a negative length')")
            self.line(f"{v} = None")
        with self.block("else:"):
            self.guard(n)
            self.line(f"{v} = {self.slice(field, n)}")
            self.line(f"p += {n}")
        return v

    def slice(self, field: Field, n: str) -> str:
        """The expression for `n` bytes at p."""
        if secrets.is_secret(field):
            return repr(secrets.REDACTED)
        if field.type == "string":
            return f"d[p:p + {n}]{TEXT}"
        if field.type == "records":
            return f"{{'sizeInBytes': {n}}}"
        show = nested.SHOWN.get((self.message.name, field.name), base64_text)
        return f"{self.const('show', show)}(d[p:p + {n}])"

    def nullable_struct(self, field: Field) -> str:
        v, there = self.var("v"), self.var("n")
        self.take("b", there)
        self.flush()
        self.line(f"{v} = None")
        with self.block(f"if {there} >= 0:"):
            inner = self.struct(field.fields)
            self.line(f"{v} = {inner}")
        return v

    def array(self, field: Field) -> str:
        v = self.var("v")
        n = self.length(field)
        with self.block(f"if {n} < 0:"):
            self.line(f"if {n} < -1: bad('a negative count')")
            self.line(f"{v} = None")
        with self.block("else:"):
            self.guard(n, SIZES.get(field.type, 1))
            if field.type in FIXED and field.type not in ("uuid", "float64"):
                self.line(f"{v} = list(unpack(f'>{{{n}}}{FIXED[field.type]}', d, p))")
                self.line(f"p += {n} * {SIZES[field.type]}")
            else:
                self.line(f"{v} = []")
                with self.block(f"for _ in range({n}):"):
                    one = self.struct(field.fields) if field.struct else self.value(field.element)
                    self.flush()
                    self.line(f"{v}.append({self.shown(field.element, one, ())})")
        return v
