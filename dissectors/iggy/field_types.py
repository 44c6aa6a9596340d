"""The rare field types of Iggy's bodies, and user headers: one small reader each (walk.py reads the others).

A reader takes `(buf, pos, end)` and gives `(value, position after it)`. It raises MalformedBodyError rather than read
past `end`. Secrets become REDACTED here, so that no later code ever holds them.

Compiled code raises nothing: in place of a position it gives FAILED, and a Misfit says why. Which layout reads a body
is often found by trying, and an exception costs more than the body.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy.secrets import option_value
from dissectors.wording import plural

Reader = Callable[[bytes, int, int], tuple[Any, int]]

_U32 = Struct("<I")
_F32 = Struct("<f")


class MalformedBodyError(ValueError):
    """A body that its layout does not read: what was expected, at which index, and whether bytes were lacking."""

    def __init__(self, what: str, at: int, *, short: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.at = at
        self.short = short


FAILED = -1
"""In place of a position: the bytes do not fit."""


@final
@compiled
class Misfit:
    """Why bytes are not what was to be read. Its text is made when it is asked for: few are shown.

    found: whether there is one
    short: whether a field reaches past the end
    at: index in the buffer
    """

    found: cython.bint = False
    short: cython.bint = False
    at: cython.Py_ssize_t = 0
    _what: str  # of a short field its name; else a text with room for two numbers
    _first: cython.longlong = 0
    _second: cython.longlong = 0

    def __init__(self) -> None:
        self._what = ""

    @compiled
    def room(
        self, pos: cython.Py_ssize_t, size: cython.longlong, end: cython.Py_ssize_t, what: str
    ) -> cython.Py_ssize_t:
        """The position after `size` bytes, if they are there; else FAILED."""
        if size <= end - pos:
            return pos + size
        self.refuse(pos, what, size, end - pos)
        self.short = True
        return FAILED

    @compiled
    def refuse(
        self, at: cython.Py_ssize_t, what: str, first: cython.longlong = 0, second: cython.longlong = 0
    ) -> cython.Py_ssize_t:
        """Note what does not fit: FAILED."""
        self.found = True
        self.short = False
        self.at = at
        self._what = what
        self._first = first
        self._second = second
        return FAILED

    @compiled
    def take(self, error: MalformedBodyError) -> cython.Py_ssize_t:
        """Note what a reader of a rare type raised: FAILED."""
        self.refuse(error.at, error.what.replace("{", "{{").replace("}", "}}"))
        self.short = error.short
        return FAILED

    def text(self) -> str:
        """What was expected."""
        if self.short and self._first:
            return _short(self._what, self._first, self._second)
        return self._what.format(self._first, self._second)


def need(pos: int, size: int, end: int, what: str) -> int:
    """The position after `size` bytes, if they are there. Raises MalformedBodyError."""
    if size > end - pos:
        raise MalformedBodyError(_short(what, size, end - pos), pos, short=True)
    return pos + size


def _short(what: str, size: int, left: int) -> str:
    return f"{what} of {size} {plural(size, 'byte')} with {left} left"


def u32(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """Four bytes, little-endian."""
    after = need(pos, 4, end, "u32")
    return _U32.unpack_from(buf, pos)[0], after


def _sized32(buf: bytes, pos: int, end: int, what: str) -> tuple[int, int]:
    size, start = u32(buf, pos, end)
    return start, need(start, size, end, what)


def bytes32(buf: bytes, pos: int, end: int) -> tuple[str, int]:
    """u32 length | bytes, shown as base64."""
    start, after = _sized32(buf, pos, end, "bytes")
    return base64.b64encode(buf[start:after]).decode(), after


def u128(buf: bytes, pos: int, end: int) -> tuple[str, int]:
    """Sixteen bytes, little-endian, shown as decimal text."""
    after = need(pos, 16, end, "u128")
    return str(int.from_bytes(buf[pos:after], "little")), after


def u64be(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """Eight bytes, big-endian."""
    after = need(pos, 8, end, "number")
    return int.from_bytes(buf[pos:after], "big"), after


def real(buf: bytes, pos: int, end: int) -> tuple[float | str, int]:
    """Four bytes of a float, as JSON can hold it."""
    after = need(pos, 4, end, "number")
    value = _F32.unpack_from(buf, pos)[0]
    return value if math.isfinite(value) else str(value), after


CONSUMERS = {1: "consumer", 2: "consumer_group", 3: "external_group"}  # the third from 0.10 on
STRATEGIES = {1: "offset", 2: "timestamp", 3: "first", 4: "last", 5: "next"}

# --- permissions -----------------------------------------------------------------------------------------------------

_MESSAGES = ("poll_messages", "send_messages")
_OF_TOPIC = ("manage_topic", "read_topic", *_MESSAGES)
_OF_STREAM = ("manage_stream", "read_stream", "manage_topics", "read_topics", *_MESSAGES)
_GLOBAL = (
    *("manage_servers", "read_servers", "manage_users", "read_users"),
    *("manage_streams", "read_streams", "manage_topics", "read_topics"),
    *_MESSAGES,
)
PERMISSIONS = frozenset((*_OF_TOPIC, *_OF_STREAM, *_GLOBAL))


def _flags(names: tuple[str, ...], buf: bytes, pos: int, end: int) -> tuple[dict[str, Any], int]:
    after = need(pos, len(names), end, "permissions")
    return {name: bool(flag) for name, flag in zip(names, buf[pos:after], strict=True)}, after


def _chain(
    read: Callable[[bytes, int, int], tuple[dict[str, Any], int]], buf: bytes, pos: int, end: int
) -> tuple[dict[str, Any], int]:
    """u8 1 | u32 id | entry, again while a 1 follows; a 0 ends it."""
    found: dict[str, Any] = {}
    while True:
        after = need(pos, 1, end, "permissions")
        if not buf[pos]:
            return found, after
        key, after = u32(buf, after, end)
        found[str(key)], pos = read(buf, after, end)


def _topic_permissions(buf: bytes, pos: int, end: int) -> tuple[dict[str, Any], int]:
    return _flags(_OF_TOPIC, buf, pos, end)


def _stream_permissions(buf: bytes, pos: int, end: int) -> tuple[dict[str, Any], int]:
    flags, pos = _flags(_OF_STREAM, buf, pos, end)
    flags["topics"], pos = _chain(_topic_permissions, buf, pos, end)
    return flags, pos


def permissions32(buf: bytes, pos: int, end: int) -> tuple[dict[str, Any], int]:
    """u32 length | ten flags | streams | their topics."""
    start, after = _sized32(buf, pos, end, "permissions")
    flags, pos = _flags(_GLOBAL, buf, start, after)
    streams, pos = _chain(_stream_permissions, buf, pos, after)
    if pos != after:
        raise MalformedBodyError("bytes after permissions", pos)
    return {"global": flags, "streams": streams}, after


def permissions_or_zero(buf: bytes, pos: int, end: int) -> tuple[dict[str, Any] | None, int]:
    """u8 1 | permissions32, or four zero bytes."""
    after = need(pos, 1, end, "permissions")
    if buf[pos]:
        return permissions32(buf, after, end)
    return None, need(pos, 4, end, "no permissions")


# --- key-value entries: user headers, options -------------------------------------------------------------------------

_NUMBERS = {3: "?", 4: "b", 5: "<h", 6: "<i", 7: "<q", 9: "B", 10: "<H", 11: "<I", 12: "<Q", 14: "<f", 15: "<d"}
_STRUCTS = {kind: Struct(code) for kind, code in _NUMBERS.items()}
_KINDS = (
    *("raw", "string", "bool", "int8", "int16", "int32", "int64", "int128"),
    *("uint8", "uint16", "uint32", "uint64", "uint128", "float32", "float64"),
)


def typed(kind: int, raw: bytes) -> Any:
    """A header's value by its kind; base64 where the bytes are not of that kind. 128 bits are decimal text."""
    if kind == 2:
        return raw.decode("utf-8", "backslashreplace")
    if kind in (8, 13) and len(raw) == 16:
        return str(int.from_bytes(raw, "little", signed=kind == 8))
    struct = _STRUCTS.get(kind)
    if struct and struct.size == len(raw):
        value = struct.unpack(raw)[0]
        return value if value == value and value not in (float("inf"), float("-inf")) else str(value)
    return base64.b64encode(raw).decode()


class HeaderEntry(NamedTuple):
    """Where a key and its value lie. A kind stands before the length of each, of a key from 0.7 on."""

    at: int
    key: int
    key_end: int
    value: int
    end: int


def entries(buf: bytes, pos: int, end: int, typed_keys: bool) -> Iterator[HeaderEntry]:
    """Where key-value entries lie that fill buf[pos:end]. Raises MalformedBodyError.

    u8 kind of the key, where typed_keys | u32 length | key | u8 kind of the value | u32 length | value
    """
    while pos < end:
        key, key_end = _sized32(buf, need(pos, 1, end, "header kind") if typed_keys else pos, end, "header key")
        value, after = _sized32(buf, need(key_end, 1, end, "header kind"), end, "header value")
        yield HeaderEntry(pos, key, key_end, value, after)
        pos = after


def headers(buf: bytes, pos: int, end: int, typed_keys: bool) -> list[dict[str, Any]]:
    """User headers as JSON has them; keys are text up to 0.6."""
    found = []
    for entry in entries(buf, pos, end, typed_keys):
        raw = buf[entry.key : entry.key_end]
        key = typed(buf[entry.at], raw) if typed_keys else raw.decode("utf-8", "backslashreplace")
        kind = buf[entry.key_end]
        name = _KINDS[kind - 1] if 1 <= kind <= len(_KINDS) else str(kind)
        found.append({"key": key, "kind": name, "value": typed(kind, buf[entry.value : entry.end])})
    return found


def options(buf: bytes, pos: int, end: int) -> tuple[dict[str, Any], int]:
    """Typed entries to the end: settings of a stream, topic or user."""
    found = ((str(entry["key"]), entry["value"]) for entry in headers(buf, pos, end, True))
    return {key: option_value(key, value) for key, value in found}, end


def options32(buf: bytes, pos: int, end: int) -> tuple[dict[str, Any], int]:
    """u32 length | options."""
    start, after = _sized32(buf, pos, end, "options")
    return options(buf, start, after)


READERS: dict[str, Reader] = {
    "bytes32": bytes32,
    "f32": real,
    "options": options,
    "options32": options32,
    "permissions32": permissions32,
    "permissions_or_zero": permissions_or_zero,
    "u128": u128,
    "u64be": u64be,
}
