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
from itertools import takewhile
from struct import Struct
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy import layouts, tables
from dissectors.iggy.batches import read as read_run
from dissectors.iggy.era import Era
from dissectors.iggy.field_types import Misfit
from dissectors.iggy.frames import HEADER
from dissectors.iggy.layouts import BodyLayout, CommandFacts
from dissectors.iggy.message import MessageRun
from dissectors.iggy.secrets import SECRET_FIELDS
from dissectors.iggy.walk import Fields
from dissectors.redaction import without_tokens
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame
from dissectors.wire.per_thread import PerThread
from dissectors.wire.reader import WireReader, reader

_U32 = Struct("<I")
_RESULT = Struct("<II")

NON_REPLICATED = 2
REQUEST_CHECKSUM_AT = 144


@final
@compiled
class Body:
    """A body as a layout read it.

    layout: None where none is known; name: of its command
    fields: what it says
    run: its messages; None where it holds none
    misfit: why no layout read it to its end
    exact: whether a layout read it to its end; misread: whether layouts are known and none did
    trailing: bytes after the last field
    """

    layout: BodyLayout | None
    name: str | None
    fields: Fields
    run: MessageRun | None
    _run: MessageRun
    misfit: Misfit
    exact: cython.bint
    misread: cython.bint
    trailing: cython.Py_ssize_t

    def __init__(self) -> None:
        self.misfit = Misfit()
        self.fields = Fields(self.misfit)
        self._run = MessageRun(self.misfit)
        self.clear(None)

    @compiled
    def clear(self, layout: BodyLayout | None) -> None:
        """Forget the body before."""
        self.layout = layout
        self.name = None if layout is None else layout.name
        self.fields.reached = 0
        self.run = None
        self.misfit.found = False
        self.exact = self.misread = False
        self.trailing = 0

    @compiled
    def read(
        self,
        layout: BodyLayout,
        buf: bytes,
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
        repair: cython.bint = True,
    ) -> None:
        """Read buf[pos:end], of which buf[pos:limit] was captured, by one layout. repair: see `batches.read`."""
        self.clear(layout)
        after: cython.Py_ssize_t = self.fields.read(layout.plan, buf, pos, limit)
        if after >= 0 and not layout.run:
            self.trailing = end - after if limit == end else 0
        elif after >= 0 and metadata_fits(layout, self.fields, pos, after):
            read_run(layout.run, buf, after, end, limit, announced(layout, self.fields), repair, self._run)
            self.run = None if self.misfit.found else self._run
        elif after >= 0:
            self.misfit.refuse(pos, "metadata_length does not fit what it covers")
        if limit < end:
            self.misfit.found = False  # bytes are missing
        self.misread = self.misfit.found or self.trailing > 0
        self.exact = not self.misread

    @property
    def values(self) -> dict[str, Any]:
        """The fields by name, as JSON has them."""
        return self.fields.values()


NO_BODY = Body()


_bodies: PerThread = PerThread(lambda: (Body(), Body(), Body()))


@compiled
def metadata_fits(
    layout: BodyLayout, fields: Fields, start: cython.Py_ssize_t, after: cython.Py_ssize_t
) -> cython.bint:
    """Whether a send's `metadata_length` gives where its identifiers, partitioning and count end."""
    length: cython.longlong = fields.number(layout.at_metadata_length)
    return length == ABSENT or after - start == 4 + length


@compiled
def announced(layout: BodyLayout, fields: Fields) -> cython.longlong:
    """How many messages a body announces; -1 where it does not say."""
    count: cython.longlong = fields.number(layout.at_messages_count)
    return -1 if count == ABSENT else count


@final
@compiled
class VsrHeader:
    """What is needed of the header of a request or a reply.

    request: ABSENT where it does not fit 63 bits
    checksum, checksum_high: the halves of a request's
    code: of the command, of a request; status: of a reply
    later: whether fields of 0.10 are in use
    """

    request: cython.longlong
    operation: cython.longlong
    checksum: cython.longlong = 0
    checksum_high: cython.longlong = 0
    code: cython.longlong = 0
    status: cython.longlong = 0
    later: cython.bint

    def __init__(self, request: cython.longlong, operation: cython.longlong, later: bool) -> None:
        self.request = request if request >= 0 else ABSENT
        self.operation = operation
        self.later = later


@compiled
def body(
    side: str,
    code: cython.longlong,
    era: Era,
    buf: bytes,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
) -> Body:
    """Read buf[pos:end], of which buf[pos:limit] was captured, and let what reads it narrow the era.

    The body is valid until the next one is read in this thread.
    """
    read: Body
    command: CommandFacts = era.command(code)
    found = command.responses if side == layouts.RESPONSE else command.requests
    if not found:
        return NO_BODY
    if limit < end:
        read = _bodies.get()[0]
        read.read(found[0], buf, pos, end, limit)
        _keep_certain(found, read)
        return read
    return _tried(side, found, era, buf, pos, end)


@compiled
def _tried(
    side: str, found: Sequence[BodyLayout], era: Era, buf: bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> Body:
    """Read buf[pos:end] by each layout; the first that reads it to its end, else the one that comes nearest.

    A length that broke is looked for only where no layout reads the bytes as they are.
    """
    bodies: tuple[Body, Body, Body] = _bodies.get()
    chosen: Body | None = None
    failed: Body | None = None
    one: Body
    layout: BodyLayout
    readers: cython.longlong = 0
    allowed: cython.longlong = era.allowed
    repair: cython.bint
    for repair in (False, True):
        for layout in found:
            if chosen is not None and (era.settled or not layout.releases & allowed):
                break
            if repair and not layout.run:
                continue
            one = bodies[0]
            if one is chosen or one is failed:
                one = bodies[1]
            if one is chosen or one is failed:
                one = bodies[2]
            one.read(layout, buf, pos, end, end, repair)
            if one.exact and not (layout.introduces and _is_of_another_version(layout, one)):
                readers |= layout.releases
                if chosen is None:
                    chosen = one
            elif failed is None or _is_nearer(one, failed):
                failed = one
        if chosen is not None:
            break
    if chosen is None:
        assert failed is not None
        _keep_certain(found, failed)
        return failed
    empty_answer: cython.bint = side == layouts.RESPONSE and end == pos  # nothing found, in every release
    if readers & allowed != allowed and not empty_answer:
        era.narrow(readers, f"{side} {chosen.name} read by {releases_text(readers)}")
    return chosen


def _is_of_another_version(layout: BodyLayout, read: Body) -> bool:
    """Whether a login gives a protocol version whose releases have another layout: it is read so by chance."""
    version = read.values.get("protocol_version")
    return version is not None and not layout.releases & (tables.of_protocol(version) or layout.releases)


def _keep_certain(found: Sequence[BodyLayout], read: Body) -> None:
    """Forget the fields that are not certain of a body that was not read to its end.

    Where layouts hold secrets at different places, one's name is another's password: only what lies before the first
    field in which they differ is known.
    """
    if any(layout.name in SECRET_FIELDS for layout in found):
        alike = takewhile(lambda fields: len(set(fields)) == 1, zip(*(layout.fields for layout in found), strict=False))
        read.fields.reached = min(read.fields.reached, len(list(alike)))


def error_text(era: Era, buf: bytes, pos: int, end: int) -> str | None:
    """The text with which an error is answered, None where it is not; whether there is one narrows the era."""
    one = _bodies.get()[0]
    for layout in layouts.versions(layouts.RESPONSE, layouts.ERROR):
        one.read(layout, buf, pos, end, end)
        if one.exact and layout.releases & era.allowed:
            text = one.values.get("message")
            if layout.releases & era.allowed != era.allowed:
                era.narrow(layout.releases, f"an error answered with {'nothing' if text is None else 'a text'}")
            return without_tokens(text) if isinstance(text, str) else None
    return None


@compiled
def _is_nearer(one: Body, other: Body) -> cython.bint:
    """Whether a layout that did not fit came closer: to the last field, else further into the bytes."""
    if one.misfit.found != other.misfit.found:
        return other.misfit.found
    return one.misfit.found and one.misfit.at > other.misfit.at


def releases_text(releases: int) -> str:
    """A set of releases, as evidence names it."""
    names = tables.names(releases)
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


@compiled
def vsr_request(frame: Frame) -> VsrHeader | None:
    """The header of a request; None where it is not all there."""
    if frame.known - frame.start < HEADER:
        return None
    r: WireReader = reader()
    r.open(frame.data, frame.start + REQUEST_CHECKSUM_AT, frame.end)
    checksum: cython.longlong = r.i64le()
    checksum_high: cython.longlong = r.i64le()
    r.pos = frame.start + 168
    request: cython.longlong = r.i64le()
    operation: cython.longlong = r.u8()
    r.pos = frame.start + 196
    code: cython.longlong = r.u32le()
    header = VsrHeader(request, operation, (r.i64le() | r.i64le() | r.i64le()) != 0)
    header.checksum, header.checksum_high, header.code = checksum, checksum_high, code
    return header


@compiled
def vsr_reply(frame: Frame) -> VsrHeader | None:
    """The header of a reply; None where it is not all there."""
    if frame.known - frame.start < HEADER:
        return None
    r: WireReader = reader()
    r.open(frame.data, frame.start + 200, frame.end)
    request: cython.longlong = r.i64le()
    operation: cython.longlong = r.u8()
    r.pos = frame.start + 216
    status: cython.longlong = r.u32le()
    header = VsrHeader(request, operation, (r.i64le() | r.u32le()) != 0)
    header.status = status
    return header


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
