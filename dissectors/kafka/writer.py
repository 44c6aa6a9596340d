"""Writes the source of a decoder: straight-line Python over one buffer, one function a message and version.

The function sees `d` (bytes), `p` (index of the next byte) and `end` (index after the last). Fields of fixed size are
not read one by one: they gather in a run, together with the length prefix that follows them, and the run is read with
one precompiled Struct. Bytes that nobody wants in a run are pad bytes of that Struct; a run that nobody wants at all
is one addition.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any, NoReturn

from dissectors.kafka.schema import Field, Message

FIXED = {  # type -> struct format
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
SIZES = {type_: struct.calcsize(">" + format_) for type_, format_ in FIXED.items()}
TEXT = '.decode("utf-8", "backslashreplace")'


class MalformedError(ValueError):
    """The bytes are not what the schema says."""


def bad(what: str) -> NoReturn:
    raise MalformedError(what)


def varint(d: bytes, p: int, low: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte was `low` (> 127): its value and the index after it."""
    value = low & 0x7F
    for shift in (7, 14, 21, 28):
        byte = d[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, p
    raise MalformedError("a varint of more than 5 bytes")


def skip_tags(d: bytes, p: int, count: int) -> int:
    """The index after `count` tagged fields."""
    for _ in range(count):
        for _ in ("tag", "size"):
            value = d[p]
            p += 1
            if value > 127:
                value, p = varint(d, p, value)
        p += value
    return p


SCOPE: dict[str, Any] = {"bad": bad, "varint": varint, "skip_tags": skip_tags}  # what every function may refer to
_COMPILED: dict[tuple[str, tuple[int, ...]], FunctionType] = {}
"""Functions by their source and what it refers to: most versions of a message differ in nothing that is read."""


class Writer:
    """The lines of one decoder."""

    def __init__(self, message: Message, version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.lines: list[str] = []
        self.depth = 1
        self.scope = dict(SCOPE)
        self._count = 0
        self._run: list[tuple[str, int, str | None]] = []
        self._after: list[str] = []

    def compile(self, name: str, arguments: str) -> FunctionType:
        """The finished function."""
        source = f"def {name}({arguments}):\n" + "\n".join(self.lines) + "\n"
        key = (source, tuple(map(id, self.scope.values())))
        function = _COMPILED.get(key)
        if function is None:
            exec(compile(source, f"<{name}>", "exec"), self.scope)
            function = _COMPILED[key] = self.scope[name]
        return function

    # --- lines ---

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        self.flush()
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def var(self, prefix: str) -> str:
        """A new variable."""
        self._count += 1
        return f"{prefix}{self._count}"

    def const(self, prefix: str, value: Any) -> str:
        """A name for a value that the function uses."""
        for name, known in self.scope.items():
            if known is value:
                return name
        name = self.var(prefix)
        self.scope[name] = value
        return name

    # --- runs of fixed-size fields ---

    def take(self, format_: str, var: str | None = None) -> None:
        """The next bytes of a run: into `var`, or nowhere."""
        self._run.append((format_, struct.calcsize(">" + format_), var))

    def after(self, text: str) -> None:
        """A line for when the current run has been read."""
        self._after.append(text)

    def flush(self) -> None:
        """Read the run."""
        run, self._run = self._run, []
        skipped = 0
        while run and run[-1][2] is None:
            skipped += run.pop()[1]
        names = [var for _, _, var in run if var is not None]
        size = sum(size for _, size, _ in run)
        if len(names) == 1 and run[-1][0] == "B":
            at = f"p + {size - 1}" if size > 1 else "p"
            self.line(f"{names[0]} = d[{at}]")
        elif names:
            format_ = ">" + "".join(f if var is not None else f"{size}x" for f, size, var in run)
            unpack = _name(format_)
            self.scope.setdefault(unpack, _unpacker(format_))
            self.line(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {unpack}(d, p)")
        if size + skipped:
            self.line(f"p += {size + skipped}")
        after, self._after = self._after, []
        for text in after:
            self.line(text)

    # --- lengths ---

    def length(self, field: Field) -> str:
        """Read a length prefix; the variable that holds it, negative for null."""
        wide = field.array or field.type in ("bytes", "records")
        return self.prefix("i" if wide else "h", self.is_flexible(field))

    def prefix(self, format_: str, compact: bool) -> str:
        n = self.var("n")
        if compact:
            self.varint(n)
            self.line(f"{n} -= 1")
        else:
            self.take(format_, n)
            self.flush()
        return n

    def varint(self, n: str) -> None:
        """Read an unsigned varint into `n`."""
        self.take("B", n)
        self.flush()
        with self.block(f"if {n} > 127:"):
            self.line(f"{n}, p = varint(d, p, {n})")

    def guard(self, n: str, least: int = 1, end: str = "end") -> None:
        """A count of elements cannot exceed what the bytes left can hold."""
        times = f" * {least}" if least > 1 else ""
        self.line(f"if {n}{times} > {end} - p: bad('a count beyond the end')")

    # --- what is there in this version ---

    def is_flexible(self, field: Field) -> bool:
        return self.flexible if field.flexible is None else self.version in field.flexible

    def plain(self, fields: tuple[Field, ...]) -> list[Field]:
        """The fields of this version that are not tagged."""
        return [f for f in fields if self.version in f.versions and not self.is_tagged(f)]

    def tagged(self, fields: tuple[Field, ...]) -> list[Field]:
        return [f for f in fields if self.version in f.versions and self.is_tagged(f)]

    def is_tagged(self, field: Field) -> bool:
        return field.tag >= 0 and self.version in field.tagged

    def nullable(self, field: Field) -> bool:
        return self.version in field.nullable

    def fixed_size(self, field: Field) -> int:
        """Bytes of one element, where every one has the same size; else 0."""
        return 0 if field.struct and self.flexible else self.bare_size(field)

    def bare_size(self, field: Field) -> int:
        """Bytes of one element without its tagged fields, where every one has the same size; else 0."""
        if not field.struct:
            return SIZES.get(field.type, 0)
        if not field.array and self.nullable(field):
            return 0
        sizes = [0 if f.array else self.fixed_size(f) for f in self.plain(field.fields)]
        return sum(sizes) if all(sizes) else 0


@cache
def _unpacker(format_: str) -> Callable[..., Any]:
    return struct.Struct(format_).unpack_from


def _name(format_: str) -> str:
    """A Struct's name in the function: `>hi16s` is `s_hi16s`, `>?b` is `s_Tb`."""
    return "s_" + format_[1:].replace("?", "T")


def unpackers(names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """The Structs among the names that a function refers to."""
    return {name: _unpacker(">" + name[2:].replace("T", "?")) for name in names if name.startswith("s_")}
