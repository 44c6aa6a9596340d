"""Writes the source of a decoder: straight-line Python over one buffer, one function a message and version.

The function sees `d` (bytes), `p` (index of the next byte) and `end` (index after the last). Fields of fixed size are
not read one by one: they gather in a run, together with the length prefix that follows them, and the run is read with
one precompiled Struct. Bytes that nobody wants in a run are pad bytes of that Struct; a run that nobody wants at all
is one addition.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any, NoReturn

from dissectors.wire.varint import unsigned

TEXT = '.decode("utf-8", "backslashreplace")'


class GarbledBodyError(ValueError):
    """The bytes are not what the schema says."""


def bad(what: str) -> NoReturn:
    raise GarbledBodyError(what)


LONGEST = 5  # bytes of a length or a count


def skip_tags(d: bytes, p: int, count: int) -> int:
    """The index after `count` tagged fields."""
    for _ in range(count):
        _, p = unsigned(d, p, LONGEST)
        size, p = unsigned(d, p, LONGEST)
        p += size
    return p


SCOPE: dict[str, Any] = {"bad": bad, "unsigned": unsigned, "skip_tags": skip_tags}  # what every function may refer to
_COMPILED: dict[tuple[str, tuple[int, ...]], FunctionType] = {}
"""Functions by their source and what it refers to: most versions of a message differ in nothing that is read."""


class SourceWriter:
    """The lines of one decoder."""

    def __init__(self, what: str) -> None:
        self.what = what  # where a traceback says that its code is from
        self.lines: list[str] = []
        self.depth = 1
        self.scope = dict(SCOPE)
        self._count = 0
        self._run: list[tuple[str, int, str | None]] = []
        self._after: list[str] = []

    def compile(self, name: str, arguments: str) -> FunctionType:
        """The finished function."""
        source = self.source(name, arguments)
        key = (source, tuple(map(id, self.scope.values())))
        function = _COMPILED.get(key)
        if function is None:
            exec(compile(source, self.what, "exec"), self.scope)
            function = _COMPILED[key] = self.scope[name]
            show_source(self.what, lambda: source)
        return function

    def source(self, name: str, arguments: str) -> str:
        """The text of the finished function."""
        return f"def {name}({arguments}):\n" + "\n".join(self.lines) + "\n"

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

    def settle(self) -> None:
        """Write the lines for after the run, unless one is under way."""
        if not self._run:
            self.flush()

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

    def length(self, wide: bool, compact: bool) -> str:
        """Read a length prefix: a varint, or else four bytes or two. The variable that holds it, negative for null."""
        n = self.var("n")
        if compact:
            self.varint(n)
            self.line(f"{n} -= 1")
        else:
            self.take("i" if wide else "h", n)
            self.flush()
        return n

    def varint(self, n: str) -> None:
        """Read an unsigned varint into `n`."""
        self.take("B", n)
        self.flush()
        with self.block(f"if {n} > 127:"):
            self.line(f"{n}, p = unsigned(d, p - 1, {LONGEST})")

    def guard(self, n: str, least: int = 1, end: str = "end") -> None:
        """A count of elements cannot exceed what the bytes left can hold."""
        times = f" * {least}" if least > 1 else ""
        self.line(f"if {n}{times} > {end} - p: bad('a count beyond the end')")


def show_source(what: str, source: Callable[[], str]) -> None:
    """Let tracebacks show the lines of generated code; `source` is asked when one does."""
    linecache.cache[what] = (source,)


@cache
def _unpacker(format_: str) -> Callable[..., Any]:
    return struct.Struct(format_).unpack_from


def _name(format_: str) -> str:
    """A Struct's name in the function: `>hi16s` is `s_hi16s`, `>?b` is `s_Tb`."""
    return "s_" + format_[1:].replace("?", "T")


def unpackers(names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """The Structs among the names that a function refers to."""
    return {name: _unpacker(">" + name[2:].replace("T", "?")) for name in names if name.startswith("s_")}
