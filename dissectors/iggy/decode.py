"""Frame -> header fields, and the body as the layout that fits reads it.

VSR header, from byte 128 on
  Request                       Reply                         Eviction
  128 16 client                 128 16 request_checksum       128 16 client
  144 16 request_checksum       144 16 context                144  4 server_protocol_version
  160  8 timestamp              160 16 client                 148  4 the oldest that it accepts
  168  8 request                176  8 op                     255  1 reason
  176  1 operation              184  8 commit
  184  8 session                192  8 timestamp              Prepare, as Reply from 176 on
  192  4 user_id                200  8 request                128 16 client
  196  4 code (operation 2)     208  1 operation              144 16 parent
  200  8 partition_incarnation  216  4 status                 160 16 request_checksum
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from struct import Struct
from typing import Any, NamedTuple

from dissectors.frame import Frame
from dissectors.iggy import batches, layouts, tables
from dissectors.iggy.era import Era
from dissectors.iggy.field_types import MalformedBodyError
from dissectors.iggy.frames import HEADER, RESERVED_END
from dissectors.iggy.message import MessageRun
from dissectors.iggy.secrets import SECRET_FIELDS
from dissectors.redaction import without_tokens

_U32 = Struct("<I")
_REQUEST = Struct("<QQQQQQB7xQIIQQQ")  # from 128
_REPLY = Struct("<QQQQQQQQQQB7xI")  # from 128
_RESULT = Struct("<II")

NON_REPLICATED = 2
_SHORT = 256  # bytes of a body that may come again just so: logins, polls, most of administration
_REMEMBERED = 4096  # short bodies


class Body(NamedTuple):
    """A body as a layout read it. `problem`: why none read it to its end."""

    name: str | None  # the layout's command
    values: dict[str, Any]
    run: MessageRun | None = None
    problem: str | None = None
    at: int = 0  # where the problem is: of `body` an index in the buffer, of `exact` one in the body
    trailing: int = 0  # bytes after the last field

    @property
    def exact(self) -> bool:
        """Whether a layout read it to its end."""
        return self.problem is None and not self.trailing and self.name is not None

    @property
    def misread(self) -> bool:
        """Whether layouts are known and none read it to its end."""
        return self.problem is not None or self.trailing > 0


NO_BODY = Body(None, {})


class VsrRequest(NamedTuple):
    """Header of a VSR request."""

    client: int
    checksum: int
    request: int
    operation: int
    session: int
    code: int
    routed: bool  # fields of 0.10 are in use


class VsrReply(NamedTuple):
    """Header of a VSR reply."""

    client: int
    timestamp: int
    request: int
    operation: int
    status: int
    committed: bool  # fields of 0.10 are in use


def body(side: str, code: int, era: Era, buf: bytes, pos: int, end: int, limit: int) -> Body:
    """Read buf[pos:end], of which buf[pos:limit] was captured, and let what reads it narrow the era."""
    found = layouts.candidates(side, code, era.allowed)
    if not found:
        return NO_BODY
    if limit < end:
        return _known(found, _partial(found[0], buf, pos, end, limit))
    read, readers = _tried(found, era.allowed, buf, pos, end)
    empty_answer = side == layouts.RESPONSE and end == pos  # nothing found, in every release
    if readers and readers & era.allowed != era.allowed and not empty_answer:
        era.narrow(readers, f"{side} {read.name} read by {releases_text(readers)}")
    return read if read.problem is None else read._replace(at=pos + read.at)


def _tried(found: Sequence[layouts.BodyLayout], allowed: int, buf: bytes, pos: int, end: int) -> tuple[Body, int]:
    """Read buf[pos:end] by each layout: the body, and the releases whose layouts read it to its end."""
    chosen: Body | None = None
    failed: Body | None = None
    readers = 0
    for layout in found:
        if chosen and (tables.settled(allowed) or not layout.releases & allowed):
            break
        one = exact(layout, buf, pos, end)
        if one.exact:
            readers |= layout.releases
            chosen = chosen or one
        elif failed is None or _nearer(one, failed):
            failed = one
    if chosen is None:
        assert failed is not None
        return _known(found, failed), 0
    return chosen, readers


def _known(found: Sequence[layouts.BodyLayout], read: Body) -> Body:
    """Keep the fields that are certain of a body that was not read to its end.

    Where layouts hold secrets at different places, one's name is another's password: only what lies before the first
    field in which they differ is known.
    """
    if not any(layout.name in SECRET_FIELDS for layout in found):
        return read
    alike = takewhile(lambda fields: len(set(fields)) == 1, zip(*(layout.fields for layout in found), strict=False))
    names = {fields[0].name for fields in alike}
    return read._replace(values={name: value for name, value in read.values.items() if name in names})


def error_text(era: Era, buf: bytes, pos: int, end: int) -> str | None:
    """The text with which an error is answered, None where it is not; whether there is one narrows the era."""
    for layout in layouts.versions(layouts.RESPONSE, layouts.ERROR):
        one = exact(layout, buf, pos, end)
        if one.exact and layout.releases & era.allowed:
            if layout.releases & era.allowed != era.allowed:
                era.narrow(layout.releases, f"an error answered with {'a text' if one.values else 'nothing'}")
            text = one.values.get("message")
            return without_tokens(text) if isinstance(text, str) else None
    return None


def _nearer(one: Body, other: Body) -> bool:
    """Whether a layout that did not fit came closer: to the last field, else further into the bytes."""
    return (one.problem is None, one.at) > (other.problem is None, other.at)


def releases_text(releases: int) -> str:
    """A set of releases, as evidence names it."""
    names = tables.names(releases)
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def exact(layout: layouts.BodyLayout, buf: bytes, pos: int, end: int) -> Body:
    """Read buf[pos:end], all of which was captured, by one layout. The values are not to be changed."""
    if layout.run or end - pos > _SHORT:
        return _exact(layout, buf, pos, end)
    return _again(layout, buf[pos:end])


@lru_cache(_REMEMBERED)
def _again(layout: layouts.BodyLayout, body: bytes) -> Body:
    return _exact(layout, body, 0, len(body))


def _exact(layout: layouts.BodyLayout, buf: bytes, pos: int, end: int) -> Body:
    values: dict[str, Any] = {}
    try:
        after = layout.read(buf, pos, end, values)
        if not layout.run:
            return Body(layout.name, values, trailing=end - after)
        if not layouts.metadata_fits(values, pos, after):
            return Body(layout.name, values, None, "metadata_length does not fit what it covers")
        run = batches.read(layout.run, buf, after, end, end, values.get("messages_count", -1))
    except MalformedBodyError as error:
        return Body(layout.name, values, None, error.what, error.at - pos)
    return Body(layout.name, values, run)


def _partial(layout: layouts.BodyLayout, buf: bytes, pos: int, end: int, limit: int) -> Body:
    """Read a body up to its first missing byte."""
    values: dict[str, Any] = {}
    run = None
    try:
        after = layout.read(buf, pos, limit, values)
        if layout.run and layouts.metadata_fits(values, pos, after):
            run = batches.read(layout.run, buf, after, end, limit, values.get("messages_count", -1))
    except MalformedBodyError:
        pass
    return Body(layout.name, values, run)


def vsr_request(frame: Frame) -> VsrRequest | None:
    """None where the header is not all there."""
    if frame.known - frame.start < HEADER:
        return None
    low, high, check, check_high, _, request, operation, session, _, code, *routed = _REQUEST.unpack_from(
        frame.data, frame.start + RESERVED_END
    )
    return VsrRequest(high << 64 | low, check_high << 64 | check, request, operation, session, code, any(routed))


def vsr_reply(frame: Frame) -> VsrReply | None:
    """None where the header is not all there."""
    at = frame.start
    if frame.known - at < HEADER:
        return None
    *_, low, high, _, _, timestamp, request, operation, status = _REPLY.unpack_from(frame.data, at + RESERVED_END)
    later = any(frame.data[at + 220 : at + 232])
    return VsrReply(high << 64 | low, timestamp, request, operation, status, later)


def result_section(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """u32 count | count x (u32 index, u32 result): the first result, 0 for success, and where the payload begins."""
    if end - pos < 4:
        return 0, pos
    entries = _U32.unpack_from(buf, pos)[0]
    if not entries:
        return 0, pos + 4
    if entries > (end - pos - 4) // 8:
        return 0, pos  # no result section
    return _RESULT.unpack_from(buf, pos + 4)[1], pos + 4 + 8 * entries
