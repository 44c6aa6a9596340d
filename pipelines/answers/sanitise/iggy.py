"""Frames of Iggy: what is kept follows from the layouts of bodies.

lengths, numbers, flags    kept
text, named identifiers    pseudonyms; names and versions of servers and clients' libraries are kept
secrets, options, keys     filler
messages                   filler for payloads, what stands for a key for ids and headers; checksums anew
frames between replicas    header kept, its checksums anew; the body filler, but for a batch of messages
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct

from dissectors.checksum import NONE, XXH3, compute
from dissectors.iggy import batches, layouts, tables
from dissectors.iggy.decode import NON_REPLICATED, Body, result_section
from dissectors.iggy.field_types import MalformedBodyError
from dissectors.iggy.frames import COMMAND_AT, EVICTION, HEADER, PREFIX, REPLY, REQUEST
from dissectors.iggy.layouts import BodyField, BodyLayout
from dissectors.iggy.message import IggyUnit, MessageRun
from pipelines.answers.sanitise.frame_copy import FrameCopy, NotUnderstoodError

KEPT_FIELDS = frozenset(
    {"iggy_server_version", "os_name", "os_version", "kernel_version", "sdk_name", "sdk_version", "server_version",
     "version"}
)  # fmt: skip
_NUMBERS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i32": 4, "f32": 4, "bool": 1, "u64be": 8, "packed": 4,
            "flagged32": 5, "strategy": 9, "consumer_id": 5, "u128": 16}  # fmt: skip
_U32, _U64 = Struct("<I"), Struct("<Q")
_OPERATION, _REPLY_OPERATION, _CODE, _REQUEST_CHECKSUM = 176, 208, 196, 144
_REGISTER, _SEND_MESSAGES_OPERATION = 1, 160
_NAMED, _KEYED = 2, 3  # kinds of an identifier, and of a partitioning
_CHECKSUMS = 32  # bytes at the start of a VSR header
_MESSAGE_CHECKSUM = {"legacy": 33, "header-56": 0, "header-64": 0, "vsr-batch": 0}  # where it lies in a message


class IggyFrames:
    """Writes the frames of one connection anew."""

    def __init__(self, dialect: str | None) -> None:
        self._allowed = tables.asked_for(dialect) if dialect else 0
        self._vsr = bool(dialect and "vsr" in dialect)

    def request(self, copy: FrameCopy) -> None:
        """Write a frame of the client."""
        if self._vsr:
            self._vsr_frame(copy, None)
            return
        copy.head(PREFIX)
        self._body(copy, layouts.REQUEST, _U32.unpack_from(copy.source, 4)[0], PREFIX)

    def response(self, copy: FrameCopy, code: int | None) -> None:
        """Write a frame of the server; code: of the command that it answers, None where that is not known."""
        if self._vsr:
            self._vsr_frame(copy, code)
            return
        copy.head(PREFIX)
        if _U32.unpack_from(copy.source, 0)[0]:
            self._text(copy, PREFIX)
        elif code is not None:
            self._body(copy, layouts.RESPONSE, code, PREFIX)

    def _vsr_frame(self, copy: FrameCopy, code: int | None) -> None:
        copy.head(HEADER)
        command = copy.source[COMMAND_AT]
        if command == REQUEST:
            number = copy.source[_OPERATION]
            operation = tables.operations().get(number)
            command_code = _U32.unpack_from(copy.source, _CODE)[0]
            code = command_code if number == NON_REPLICATED else operation.code if operation else 0
            self._body(copy, layouts.REQUEST, layouts.REGISTER if number == _REGISTER else code, HEADER)
            self._seal_request(copy)
        elif command == REPLY:
            self._reply(copy, code)
        elif command != EVICTION:
            if copy.source[_REPLY_OPERATION] == _SEND_MESSAGES_OPERATION:
                self._run(copy, "batch", HEADER, None)
            self._seal_replica(copy, frozen=tables.planes()[command].frozen)

    def _reply(self, copy: FrameCopy, code: int | None) -> None:
        operation = tables.operations().get(copy.source[_REPLY_OPERATION])
        start = HEADER
        if operation and operation.result and copy.complete:
            status, start = result_section(copy.source, HEADER, len(copy.source))
            copy.keep(HEADER, start)
            if status:
                return
        if code is None and operation is not None:
            code = operation.code
        if operation is not None and copy.source[_REPLY_OPERATION] == _REGISTER:
            code = layouts.REGISTER
        if code is not None:
            self._body(copy, layouts.RESPONSE, code, start)

    def _seal_request(self, copy: FrameCopy) -> None:
        """In 0.9 the header holds the XXH3-64 of the body."""
        low, high = (_U64.unpack_from(copy.source, _REQUEST_CHECKSUM + 8 * i)[0] for i in (0, 1))
        if low and not high and copy.complete:
            self._checksum(copy, _REQUEST_CHECKSUM, lambda data: bytes(data[HEADER:]))

    def _seal_replica(self, copy: FrameCopy, *, frozen: bool) -> None:
        """Checksum of the body, then of the header."""
        body, head = (any(copy.source[at : at + 8]) for at in (16, 0))
        if not copy.complete:
            copy.put(0, bytes(_CHECKSUMS))
            return
        if body:
            self._checksum(copy, 16, lambda data: bytes(data[HEADER:]))
        if head and frozen:
            self._checksum(copy, 0, lambda data: bytes(16) + data[16:52] + bytes(4) + data[56:HEADER])
        elif head:
            self._checksum(copy, 0, lambda data: bytes(data[16:HEADER]))

    @staticmethod
    def _checksum(copy: FrameCopy, at: int, covered: Callable[[bytes], bytes]) -> None:
        """Compute an XXH3-64 anew; one that did not hold differs from the right one as before."""
        difference = _U64.unpack_from(copy.source, at)[0] ^ compute(XXH3, covered(copy.source))
        copy.put(at, _U64.pack(compute(XXH3, covered(bytes(copy.out))) ^ difference))

    @staticmethod
    def _text(copy: FrameCopy, at: int) -> None:
        """Write the text of an error behind its length."""
        if len(copy.source) >= at + 4:
            copy.keep(at, at + 4)
            copy.payload(at + 4, len(copy.source))

    def _body(self, copy: FrameCopy, side: str, code: int, at: int) -> None:
        """Write a body by the layout that reads it to its end; of a cut one by the likeliest, up to the hole."""
        found = layouts.candidates(side, code, self._allowed)
        data, end = copy.source, len(copy.source)
        if not copy.complete:
            found = found[:1]
        else:
            found = tuple(layout for layout in found if _fits(layout, data, at, end))
        for layout in found[:1]:
            walk = _Walk(copy, at)
            try:
                walk.fields(layout.fields)
                if layout.run:
                    self._run(copy, layout.run, walk.at, walk.values.get("messages_count"))
            except NotUnderstoodError:
                if copy.complete:
                    copy.blank(at, end)

    def _run(self, copy: FrameCopy, name: str, at: int, count: int | None) -> None:
        """Write a run of messages."""
        end, limit = copy.size, copy.first_hole(at)
        try:
            run = batches.read(name, copy.source, at, end, limit, -1 if count is None else count)
        except MalformedBodyError:
            return
        first = run.messages[0].start if run.messages else at
        if run.units and run.units[0].batch is None:
            copy.keep(at, first)  # the index of a send
        for unit in run.units:
            self._unit(copy, run, unit, limit)

    def _unit(self, copy: FrameCopy, run: MessageRun, unit: IggyUnit, limit: int) -> None:
        if unit.batch is not None and unit.start + batches.BATCH_HEADER <= limit:
            copy.keep(unit.start, unit.start + batches.BATCH_HEADER)
        for message in run.of(unit):
            copy.keep(message.start, message.payload)
            self._headers(copy, run, message.headers, message.headers + message.headers_length)
            copy.payload(message.payload, message.payload + message.payload_length)
            self._id(copy, run.format, message.start)
            if run.checksum_kind != NONE:
                self._seal(copy, run, message.start, message.covered, message.end)
        if unit.batch is not None and unit.end <= limit:
            sealed = _sealed(run, unit)
            self._checksum(copy, unit.start + 40, lambda data: b"".join(bytes(data[a:b]) for a, b in sealed))

    @staticmethod
    def _id(copy: FrameCopy, form: str, start: int) -> None:
        at = start + (8 if form != "legacy" else 0)
        if form != "legacy":
            copy.uuid(at, at + 16)

    @staticmethod
    def _seal(copy: FrameCopy, run: MessageRun, start: int, covered: int, end: int) -> None:
        """Compute the checksum of a message anew, wrong by the same bits as before."""
        size = 4 if run.format == "legacy" else 8
        at = start + _MESSAGE_CHECKSUM[run.format]
        stored = int.from_bytes(copy.source[at : at + size], "little")
        difference = stored ^ compute(run.checksum_kind, memoryview(copy.source)[covered:end])
        right = compute(run.checksum_kind, bytes(copy.out[covered:end]))
        copy.put(at, ((right ^ difference) & ((1 << 8 * size) - 1)).to_bytes(size, "little"))

    @staticmethod
    def _headers(copy: FrameCopy, run: MessageRun, at: int, end: int) -> None:
        """Write user headers: kinds and lengths are kept; where they are no such thing, nothing is."""
        copy.payload(at, end)
        put = []
        start = at
        while at < end:
            for kind in (run.typed, True):
                size_at = at + kind
                if size_at + 4 > end:
                    return
                start = size_at + 4
                size = _U32.unpack_from(copy.source, size_at)[0]
                if start + size > end:
                    return
                put.append((at, start, start + size))
                at = start + size
        for head, value, stop in put:
            copy.keep(head, value)
            copy.key(value, stop)


def _fits(layout: BodyLayout, data: bytes, at: int, end: int) -> bool:
    """Whether a layout reads a body to its end."""
    read = Body()
    read.read(layout, data, at, end)
    return read.exact


def _sealed(run: MessageRun, unit: IggyUnit) -> list[tuple[int, int]]:
    """The pieces of a VSR batch that its own checksum covers."""
    at = unit.start
    header = [(0, 40), (48, 52)]
    if unit.batch is not None and unit.batch.producer is not None:
        header += [(52, 53), (56, 66), (68, 72)]
    return [*((at + a, at + b) for a, b in header), *((m.start, m.start + 8) for m in run.of(unit))]


class _Walk:
    """One walk over the fields of a body."""

    def __init__(self, copy: FrameCopy, at: int) -> None:
        self.at = at
        self.values: dict[str, int] = {}  # of numbers, by name
        self._copy = copy
        self._end = len(copy.source)

    def fields(self, fields: tuple[BodyField, ...]) -> None:
        """Write some fields. Raises NotUnderstoodError."""
        for field in fields:
            if field.left and self.at >= self._end:
                continue
            if field.maybe and not self._number(1):
                continue
            if not field.repeat:
                self._one(field)
                continue
            wanted = -1 if field.repeat == "*" else self.values.get(field.repeat, 0)
            done = 0
            while self.at < self._end if wanted < 0 else done < wanted:
                before = self.at
                self._one(field)
                done += 1
                if self.at == before:
                    raise NotUnderstoodError("an element without bytes")

    def _one(self, field: BodyField) -> None:
        if field.fields:
            self.fields(field.fields)
        elif field.type in _NUMBERS:
            self.values[field.name] = self._number(_NUMBERS[field.type])
        elif field.type == "secret":
            self._put("payload", field.size)
        else:
            write = _WRITERS.get(field.type)
            if write is None:
                raise NotUnderstoodError(f"a field of type {field.type}")
            write(self, field.name)

    def _number(self, size: int) -> int:
        self._put("keep", size)
        return int.from_bytes(self._copy.source[self.at - size : self.at], "little")

    def _put(self, how: str, size: int) -> None:
        """Write so many bytes: keep, name, key or payload."""
        self._copy.need(self.at, self.at + size)
        getattr(self._copy, how)(self.at, self.at + size)
        self.at += size

    def text(self, name: str, size: int) -> None:
        """Text behind a length of so many bytes."""
        self._put("keep" if name in KEPT_FIELDS else "name", self._number(size))

    def opaque(self, size: int) -> None:
        """Bytes behind a length of so many bytes; of none, to the end."""
        self._put("payload", self._number(size) if size else self._end - self.at)

    def identifier(self) -> None:
        """A number or a name, behind its kind and length."""
        kind, size = self._number(1), self._number(1)
        self._put("name" if kind == _NAMED else "keep", size)

    def consumer(self) -> None:
        """A consumer or a group: a kind, and its identifier."""
        self._number(1)
        self.identifier()

    def partitioning(self) -> None:
        """How a message finds its partition."""
        kind, size = self._number(1), self._number(1)
        self._put("key" if kind == _KEYED else "keep", size)

    def permissions(self) -> None:
        """Permissions, which name streams by number only."""
        self._put("keep", self._number(4))

    def permissions_or_zero(self) -> None:
        """Permissions behind a flag, or zeros."""
        if self._number(1):
            self.permissions()
        else:
            self._number(4)

    def options(self, size: int) -> None:
        """Settings, behind a length of so many bytes; of none, to the end. Kinds and lengths are kept, no more."""
        end = self._number(size) + self.at if size else self._end
        while self.at < end:
            for how in ("name", "payload"):
                self._number(1)
                self._put(how, self._number(4))


_WRITERS: Mapping[str, Callable[[_Walk, str], None]] = {
    "str8": lambda walk, name: walk.text(name, 1),
    "str32": lambda walk, name: walk.text(name, 4),
    "secret8": lambda walk, name: walk.opaque(1),
    "bytes32": lambda walk, name: walk.opaque(4),
    "opaque": lambda walk, name: walk.opaque(0),
    "opaque16": lambda walk, name: walk.opaque(2),
    "opaque32": lambda walk, name: walk.opaque(4),
    "identifier": lambda walk, name: walk.identifier(),
    "consumer": lambda walk, name: walk.consumer(),
    "partitioning": lambda walk, name: walk.partitioning(),
    "permissions32": lambda walk, name: walk.permissions(),
    "permissions_or_zero": lambda walk, name: walk.permissions_or_zero(),
    "options": lambda walk, name: walk.options(0),
    "options32": lambda walk, name: walk.options(4),
}
"""Type of a field -> how a value of it is written."""
