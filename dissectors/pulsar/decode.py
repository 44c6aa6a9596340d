"""Frame -> command: the fields by number that rows, pairing and diagnostics need.

All commands are read here, by the shapes that the schema gives (api.shape). The protobuf library makes bodies only
(bodies.py): it is asked where a row shows them.
"""

from __future__ import annotations

from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.pulsar import api
from dissectors.pulsar.commands import CLOSED_BY_BROKERS, COMMANDS, SPACES, CommandType, part_of
from dissectors.pulsar.fields import ID_ENTRY_ID, ID_LEDGER_ID
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame
from dissectors.wire import varint
from dissectors.wire.per_thread import PerThread
from dissectors.wire.protobuf import BYTES, INT32, OCTETS, VARINT, MessageFields, MessageShape, fields
from dissectors.wire.reader import WireReader

TYPE_FIELD = 1

_SUBJECTS = {"topic": "topic", "producer": "producer_id", "consumer": "consumer_id"}
"""`CommandType.about` -> the field that says about which one."""


@final
@compiled
class CommandLayout:
    """How one type of command is read.

    type: its row of the table
    outer: shape of the BaseCommand, in which it is one field; shape: of that field
    space, first, second: what a key begins with, and the numbers of the ids that follow; 0 for none
    subject: the number of the field with the topic, producer id or consumer id that it is about; else 0
    client_part, server_part: its CommandRole where the client or the server sends it, ACK with a request id
    client_since, server_since: the protocol version from which the client or the server may send it
    """

    type: CommandType
    name: str
    field: str  # in BaseCommand
    code: cython.longlong
    outer: MessageShape
    shape: MessageShape
    space: str
    first: cython.Py_ssize_t
    second: cython.Py_ssize_t
    subject: cython.Py_ssize_t
    about: str
    client_part: cython.int
    server_part: cython.int
    client_since: cython.int
    server_since: cython.int

    def __init__(self, command: CommandType) -> None:
        own = api.DESCRIPTOR.message_types_by_name["BaseCommand"].fields_by_number[command.code]
        message = own.message_type
        numbers = {field.name: field.number for field in message.fields}
        space, ids = SPACES[command.code]
        self.type = command
        self.name = command.name
        self.field = own.name
        self.code = command.code
        self.outer = MessageShape({TYPE_FIELD: INT32, command.code: OCTETS})
        self.shape = api.shape(message.name)
        self.space = space
        self.first, self.second = ([numbers[name] for name in ids] + [0, 0])[:2]
        self.about = command.about
        self.client_part, self.server_part = part_of(command, 0), part_of(command, 1)
        self.client_since = 0 if command.code in CLOSED_BY_BROKERS else command.since
        self.server_since = command.since
        self.subject = numbers[_SUBJECTS[command.about]] if command.about in _SUBJECTS else 0


_LAYOUTS: list[CommandLayout | None] = [None] * (max(COMMANDS) + 1)
_NO_FIELDS = MessageShape({})


@compiled
def layout_of(code: cython.longlong) -> CommandLayout | None:
    """How commands of a type are read, made when the first one is met; None for a type that is newer than the table."""
    if code >= len(_LAYOUTS):
        return None
    if _LAYOUTS[code] is None and code in COMMANDS:
        _LAYOUTS[code] = CommandLayout(COMMANDS[code])
    return _LAYOUTS[code]


@final
@compiled
class PulsarCommand:
    """The command of a frame, valid until the next one is read.

    layout: None for a type that is newer than the table
    after: index in `data` after the command
    readable: whether `fields` holds what the command says; if not, `defect` says why, or bytes are missing
    cut: bytes of the command are missing; `fields` has those before the hole
    """

    reader: WireReader
    outer: MessageFields
    fields: MessageFields
    id: MessageFields  # the MessageIdData that was read last
    data: bytes
    code: cython.longlong = 0
    layout: CommandLayout | None = None
    after: cython.Py_ssize_t = 0
    readable: cython.bint = False
    cut: cython.bint = False
    defect: str | None = None

    def __init__(self) -> None:
        self.reader = WireReader()
        self.outer = MessageFields(self.reader)
        self.fields = MessageFields(self.reader)
        self.id = MessageFields(self.reader)
        self.data = b""

    @compiled
    def read(self, frame: Frame, limit: cython.longlong) -> None:
        """Read the command of a frame; of at most `limit` bytes."""
        data: bytes = frame.data
        begin: cython.Py_ssize_t = frame.start + 8
        self.data = data
        self.defect = None
        self.readable = self.cut = False
        self.reader.open(data, frame.start + 4, frame.end)
        self.after = begin + self.reader.u32()
        self.code = data[begin + 1]
        if self.code & 0x80:
            self.code = _long_code(frame, self.after)
        self.layout = layout_of(self.code)
        if self.after > frame.known:
            self.cut = True
            if self.layout is not None:
                self._read_prefix(self.layout, begin, frame.known)
        elif self.after - begin > limit:
            self.defect = f"A command of {self.after - begin} bytes is not decoded"
        elif self.layout is None:
            if not self.outer.read(_NO_FIELDS, data, begin, self.after):
                self.defect = "The command is no protobuf message"
        else:
            self._read_whole(self.layout, begin)

    @compiled
    def _read_whole(self, layout: CommandLayout, begin: cython.Py_ssize_t) -> None:
        if not self.outer.read(layout.outer, self.data, begin, self.after):
            self.defect = "The command is no protobuf message"
        elif not self.outer.has(layout.code):
            self.defect = f"{layout.name} without its field {layout.field}"
        else:
            start: cython.Py_ssize_t = self.outer.start(layout.code)
            self.readable = self.fields.read(layout.shape, self.data, start, self.outer.stop(layout.code))
            if not self.readable:
                self.defect = "The command is no protobuf message"

    @compiled
    def _read_prefix(self, layout: CommandLayout, begin: cython.Py_ssize_t, known: cython.Py_ssize_t) -> None:
        """Read the fields that are whole before `known`; there may be none."""
        own = _own_field(self.data, begin, known)
        if own is not None and own[0] == layout.code:
            self.fields.read(layout.shape, self.data, own[1], known)
            self.readable = self.fields.end > own[1]

    @compiled
    def read_id(self, field: cython.Py_ssize_t) -> cython.bint:
        """Read the MessageIdData in a field to `id`, if there is one and it is whole."""
        return (
            self.readable
            and self.fields.has(field)
            and self.id.read(ID_SHAPE, self.data, self.fields.start(field), self.fields.stop(field))
        )

    @compiled
    def ledger(self) -> cython.longlong:
        """Of the message id that was read: the ledger."""
        return self.id.number(ID_LEDGER_ID, 0)

    @compiled
    def entry(self) -> cython.longlong:
        """Of the message id that was read: the entry."""
        return self.id.number(ID_ENTRY_ID, 0)

    @compiled
    def number(self, field: cython.Py_ssize_t) -> cython.longlong:
        """A number; ABSENT where there is no such field, or where it was not captured."""
        return self.fields.number(field, ABSENT) if self.readable else ABSENT

    @compiled
    def positions(self, field: cython.longlong) -> list[tuple[int, int]]:
        """The message ids of a field that may come several times: ledger and entry."""
        found = []
        start: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        for start, stop in self.fields.each(field):
            self.id.read(ID_SHAPE, self.data, start, stop)
            found.append((self.ledger(), self.entry()))
        return found

    def first_number(self, frame: Frame) -> int | None:
        """Field 1 of a command of a new type, if it is a number: where most commands carry their request id."""
        end = min(self.after, frame.known)
        own = _own_field(self.data, frame.start + 8, end)
        first = None if own is None else next(fields(self.data, own[1], end), None)
        if first is None or (first.number, first.kind) != (1, VARINT):
            return None
        return first.value - (1 << 64) if first.value >> 63 else first.value


ID_SHAPE: MessageShape = api.shape("MessageIdData")


def _own_field(data: bytes, begin: int, end: int) -> tuple[int, int] | None:
    """Number and begin of what stands behind the type of a command: its own field, which may not be whole."""
    type_ = next(fields(data, begin, end), None)
    tag = None if type_ is None else varint.within(data, type_.end, end)
    size = None if tag is None or tag[0] & 7 != BYTES else varint.within(data, tag[1], end)
    return None if tag is None or size is None else (tag[0] >> 3, size[1])


def _long_code(frame: Frame, after: int) -> int:
    """The type of a command that takes more than one byte; its first byte where it does not end."""
    found = varint.within(frame.data, frame.start + 9, min(after, frame.known, frame.end))
    return found[0] if found is not None and found[0] < 1 << 31 else frame.data[frame.start + 9]


_commands: PerThread = PerThread(lambda: (PulsarCommand(), PulsarCommand()))  # by direction: each reads one stream


@compiled
def command_of(frame: Frame, limit: cython.longlong) -> PulsarCommand:
    """The command of a frame, of at most `limit` bytes, read by this thread's reader: valid until the next."""
    readers: tuple[PulsarCommand, PulsarCommand] = _commands.get()
    command: PulsarCommand = readers[frame.direction]
    command.read(frame, limit)
    return command
