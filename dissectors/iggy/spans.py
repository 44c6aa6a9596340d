"""What the bytes of a frame of Iggy are: as the layout that reads its body says.

lengths, numbers, flags    structure
text, named identifiers    names; but names and versions of servers and clients' libraries are no secret
secrets, settings          data; of options the keys are names
messages                   data for payloads, ids and keys for ids and headers
frames between replicas    header, and a batch of messages; other bodies are not told of
"""

from __future__ import annotations

from functools import partial

from dissectors.checksum import NONE, XXH3
from dissectors.iggy import batches, field_types, headers, layouts, tables, walk
from dissectors.iggy.decode import Body, announced
from dissectors.iggy.field_types import MalformedBodyError, entries
from dissectors.iggy.frames import PAIR, PREFIX, UNSEALED_END
from dissectors.iggy.headers import HEADER
from dissectors.iggy.layouts import BodyLayout
from dissectors.iggy.message import IggyUnit, MessageRun
from dissectors.iggy.replica import SEND_OPERATION, covered_header
from dissectors.iggy.verify import CHECKSUM_AT
from dissectors.iggy.verify import covered as covered_by_batch
from dissectors.iggy.walk import FieldPlan, Fields
from dissectors.session.frame import Frame
from dissectors.session.spans import Answered, FrameSpans, SpanVisitor, covered
from dissectors.tcp.chunk import CLIENT

_SOFTWARE = frozenset(
    {"iggy_server_version", "os_name", "os_version", "kernel_version", "sdk_name", "sdk_version", "server_version",
     "version"}
)  # fmt: skip
_REGISTER = 1  # operation
_CHECKSUM_BYTES = 8

_KINDS = {
    walk.STR8: (1, "name"),
    walk.STR32: (4, "name"),
    walk.SECRET8: (1, "data"),
    walk.SECRET: (0, "data"),
    walk.OPAQUE: (0, "data"),
    walk.OPAQUE16: (2, "data"),
    walk.OPAQUE32: (4, "data"),
}
"""Kind of a field -> bytes of its length, and what follows; others are structure."""

_CHOSEN = {
    walk.IDENTIFIER: (2, 0, walk.NAMED, "name"),
    walk.CONSUMER: (3, 1, walk.NAMED, "name"),
    walk.PARTITIONING: (2, 0, walk.KEY, "key"),
}
"""Kind of a field -> bytes of its kind and length; index of what, with which value, says that this follows."""


class IggySpans(FrameSpans):
    """Tells of the frames of one connection. dialect: of its row in `connections`."""

    def __init__(self, dialect: str | None) -> None:
        self._allowed = tables.asked_for(dialect) if dialect else 0
        self._vsr = bool(dialect and "vsr" in dialect)

    def frame(self, visitor: SpanVisitor, direction: int, answered: Answered) -> None:
        request = answered(None) if direction != CLIENT else None
        code = None if request is None else request[0]
        if self._vsr:
            self._vsr_frame(visitor, direction, code)
            return
        visitor.head(PREFIX)
        first, second = PAIR.unpack_from(visitor.source)
        if direction == CLIENT:
            self._body(visitor, layouts.REQUEST, second, PREFIX)
        elif first:  # a status: the text of an error follows, behind its length
            if len(visitor.source) >= PREFIX + 4:
                visitor.keep(PREFIX, PREFIX + 4)
                visitor.data(PREFIX + 4, len(visitor.source))
        elif code is not None:
            self._body(visitor, layouts.RESPONSE, code, PREFIX)

    def _vsr_frame(self, visitor: SpanVisitor, direction: int, code: int | None) -> None:
        visitor.head(HEADER)
        frame, command = visitor.frame(direction), visitor.source[headers.COMMAND_AT]
        if command == headers.REQUEST:
            self._request(visitor, frame)
        elif command == headers.REPLY:
            self._reply(visitor, frame, code)
        elif command != headers.EVICTION:
            if visitor.source[headers.OPERATION_AT] == SEND_OPERATION:
                self._run(visitor, "batch", HEADER, -1)
            self._replica_checksums(visitor, frozen=tables.planes()[command].frozen)

    def _request(self, visitor: SpanVisitor, frame: Frame) -> None:
        header = headers.vsr_request(frame)
        assert header is not None  # its head is there
        operation = tables.operations().get(header.operation)
        code = header.code if header.operation == headers.NON_REPLICATED else operation.code if operation else 0
        code = layouts.REGISTER if header.operation == _REGISTER else code
        self._body(visitor, layouts.REQUEST, code, HEADER)
        if header.checksum and not header.checksum_high and visitor.complete:  # XXH3-64 of the body, in 0.9
            self._checksum(visitor, headers.REQUEST_CHECKSUM_AT, (HEADER, visitor.size))

    def _reply(self, visitor: SpanVisitor, frame: Frame, code: int | None) -> None:
        header = headers.vsr_reply(frame)
        assert header is not None  # its head is there
        operation, start = tables.operations().get(header.operation), HEADER
        if operation and operation.result and visitor.complete:
            status, start = headers.result_section(visitor.source, HEADER, len(visitor.source))
            visitor.keep(HEADER, start)
            if status:
                return
        if operation is not None:
            code = layouts.REGISTER if header.operation == _REGISTER else operation.code if code is None else code
        if code is not None:
            self._body(visitor, layouts.RESPONSE, code, start)

    def _replica_checksums(self, visitor: SpanVisitor, *, frozen: bool) -> None:
        """Tell of the checksum of the body, then of that of the header; see replica.py."""
        if not visitor.complete:
            visitor.unverifiable(0, UNSEALED_END)
            return
        if any(visitor.source[headers.BODY_CHECKSUM_AT : headers.BODY_CHECKSUM_AT + _CHECKSUM_BYTES]):
            self._checksum(visitor, headers.BODY_CHECKSUM_AT, (HEADER, visitor.size))
        if any(visitor.source[:_CHECKSUM_BYTES]):
            visitor.checksum(XXH3, 0, _CHECKSUM_BYTES, lambda data: covered_header(data, frozen), little=True)

    @staticmethod
    def _checksum(visitor: SpanVisitor, at: int, *pieces: tuple[int, int]) -> None:
        visitor.checksum(XXH3, at, at + _CHECKSUM_BYTES, covered(*pieces), little=True)

    # --- bodies ---

    def _body(self, visitor: SpanVisitor, side: str, code: int, at: int) -> None:
        """Tell of a body by the layout that reads it to its end; of a cut one by the likeliest, up to the hole."""
        data, end, complete = visitor.source, len(visitor.source), visitor.complete
        for layout in layouts.candidates(side, code, self._allowed):
            if complete and not _fits(layout, data, at, end):
                continue
            fields = Fields()
            fields.told = partial(_field, visitor)
            after = fields.read(layout.plan, data, at, end)  # it fails where bytes are missing
            if layout.run and after >= 0:
                self._run(visitor, layout.run, after, announced(layout, fields))
            return

    def _run(self, visitor: SpanVisitor, name: str, at: int, count: int) -> None:
        """Tell of a run of messages. count: as announced; -1 where nothing announces it."""
        limit = visitor.first_hole(at)
        run = batches.read(name, visitor.source, at, visitor.size, limit, count)
        if run.misfit.found:
            return
        if run.units and run.units[0].batch is None:
            visitor.keep(at, run.messages[0].start if run.messages else at)  # the index of a send
        for unit in run.units:
            self._unit(visitor, run, unit, limit)

    def _unit(self, visitor: SpanVisitor, run: MessageRun, unit: IggyUnit, limit: int) -> None:
        if unit.batch is not None and unit.start + batches.BATCH_HEADER <= limit:
            visitor.keep(unit.start, unit.start + batches.BATCH_HEADER)
        for message in run.of(unit):
            visitor.keep(message.start, message.payload)
            visitor.uuid(message.id_at, message.id_at + 16)
            _headers(visitor, message.headers, message.headers + message.headers_length, run.typed)
            visitor.data(message.payload, message.payload + message.payload_length)
            if run.checksum_kind != NONE:
                place = covered((message.covered, message.end))
                visitor.checksum(run.checksum_kind, *message.checksum, place, little=True)
        if unit.batch is not None and unit.end <= limit:
            self._checksum(visitor, unit.start + CHECKSUM_AT, *covered_by_batch(run, unit, unit.batch))


def _fits(layout: BodyLayout, data: bytes, at: int, end: int) -> bool:
    """Whether a layout reads a body to its end."""
    read = Body()
    read.read(layout, data, at, end, end)
    return read.exact


def _field(visitor: SpanVisitor, plan: FieldPlan, i: int, start: int, end: int) -> None:
    """Tell of a field of a body."""
    kind, reader = plan.rows[i, walk.KIND], plan.parts[i]
    if kind in (walk.GROUP, walk.MANY):
        return  # its fields were told
    if kind == walk.MAYBE:
        visitor.keep(start, start + 1)
        return
    length, what = _KINDS.get(kind, (0, "keep"))
    if kind in _CHOSEN:
        length, at, value, follows = _CHOSEN[kind]
        what = follows if visitor.source[start + at] == value else "keep"
    elif reader is field_types.bytes32:
        length, what = 4, "data"
    elif reader in (field_types.options, field_types.options32):
        length, what = 0 if reader is field_types.options else 4, "options"
    elif plan.names[i] in _SOFTWARE:
        what = "keep"
    visitor.keep(start, start + length)
    visitor.need(start, end)
    if what != "options":
        getattr(visitor, what)(start + length, end)
        return
    for entry in entries(visitor.source, start + length, end, True):
        visitor.keep(entry.at, entry.value)
        visitor.name(entry.key, entry.key_end)
        visitor.data(entry.value, entry.end)


def _headers(visitor: SpanVisitor, start: int, end: int, typed: bool) -> None:
    """Tell of user headers; where they are no such thing, they are data."""
    try:
        found = list(entries(visitor.source, start, end, typed))
    except MalformedBodyError:
        visitor.data(start, end)
        return
    for entry in found:
        visitor.keep(entry.at, entry.value)
        visitor.key(entry.key, entry.key_end)
        visitor.key(entry.value, entry.end)
