"""The body of a frame, as the layout that fits reads it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy import layouts, tables
from dissectors.iggy.batches import read as read_run
from dissectors.iggy.era import Era
from dissectors.iggy.field_types import Misfit
from dissectors.iggy.layouts import BodyLayout, CommandFacts
from dissectors.iggy.message import MessageRun
from dissectors.iggy.secrets import SECRET_FIELDS
from dissectors.iggy.walk import Fields
from dissectors.redaction import without_tokens
from dissectors.rows.layout import ABSENT
from dissectors.wire.per_thread import PerThread


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
