"""The one reader of message bodies: an interpreter of words (words.py) that takes notes (body_notes.py).

Each word moves the reader or notes something; the words inside arrays, structs and tagged fields are walked again. Two
modes read the same words:

    note           what rows need. A body that ends too early gives what was noted before its end.
    makes_sense    all of a body that may be something else. Nothing lies beyond the end, tagged fields are those of
                   the schema, error codes exist, times are such as brokers give, text can be shown.
"""

from __future__ import annotations

from typing import final
from weakref import WeakKeyDictionary

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.kafka.body_notes import (
    AT_PARTITION,
    AT_TOPIC,
    CODE,
    ELEMENTS,
    FAULT_PARTITION,
    FAULT_TOPIC,
    ID_AT,
    LISTED,
    MESSAGE_AT,
    MESSAGE_SIZE,
    NAME_AT,
    NAME_SIZE,
    NUMBER,
    PAIR_KIND,
    PAIR_PARTITION,
    PAIR_TOPIC,
    SCOPE,
    SET_AT,
    SET_PARTITION,
    SET_SIZE,
    SET_TOPIC,
    STATED,
    WHAT,
    BodyNotes,
    NoteRows,
)
from dissectors.kafka.errors import known_codes
from dissectors.kafka.words import (
    ARRAY,
    ERROR,
    ERROR_TEXT,
    FAULT,
    GROUP,
    GROUP_PLACE,
    ID,
    NAME,
    NO_MESSAGE,
    NO_SLOT,
    PAIR,
    PAIR_VALUE,
    PARTITION,
    PARTITIONS,
    POSITION,
    POSITION_LIST,
    RECORDS,
    SIZED,
    SKIP,
    SLOTS,
    STRUCT,
    TAGS,
    TEXT,
    THROTTLE,
    TOPIC,
    VALUE,
    MessageWords,
)
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.wire.arrays import Bytes, Grid, grid
from dissectors.wire.per_thread import PerThread
from dissectors.wire.reader import EndsEarlyError, ReadError, WireReader

LONGEST_THROTTLE = 3_600_000
CODE_READ, TEXT_AT, TEXT_SIZE = 0, 1, 2


@final
@compiled
class Walker:
    """Walks bodies of all messages. A run has one for requests and one for answers: each reads on in its buffer.

    What looks at single bodies uses that of its thread: `walker`.
    """

    positions: cython.bint
    notes: BodyNotes
    reader: WireReader
    message: MessageWords
    slots: Grid  # errors that are read and not noted yet, and texts that explain them
    number: cython.longlong = 0  # that goes with topic and partition
    checking: cython.bint = False
    stop: cython.Py_ssize_t = 0  # where the message ends, or the tagged field that is checked
    codes: Bytes  # int16 code + 32768 -> whether it exists

    def __init__(self, positions: cython.bint = False) -> None:
        """positions: conversations note with it where partitions stand (ApiVersion.note_request)."""
        self.positions = positions
        self.notes = BodyNotes()
        self.reader = WireReader()
        self.message = NO_MESSAGE
        self.slots = grid(SLOTS, 3)
        self.codes = _codes()

    @compiled
    def note(self, message: MessageWords, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> BodyNotes:
        """Notes of data[start:end] as this message, valid until the next walk. Bad bytes raise nothing."""
        self._begin(message, data, start, end)
        self.checking = False
        self.stop = self.reader.end
        try:
            self._run(0, message.last, -1, ABSENT)
            self.notes.whole = message.last == 0 or self.reader.pos <= self.reader.end
        except ReadError:
            pass
        return self.notes

    @compiled
    def makes_sense(
        self, message: MessageWords, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether data[start:end] is this message; where `data` ends before, whether it begins one."""
        if end - start < message.least:
            return False
        self._begin(message, data, start, end)
        self.checking = True
        self.stop = end
        try:
            fits: cython.bint = self._run(0, len(message.words), -1, ABSENT)
        except EndsEarlyError:
            return len(data) < end and self.reader.pos <= self.stop
        except ReadError:
            return False
        return fits and self.reader.pos == end

    @compiled
    def fitting(
        self, messages: list[MessageWords], data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> list[int]:
        """The indices of the messages as which data[start:end] makes sense."""
        found: list[int] = []
        i: cython.Py_ssize_t
        message: MessageWords
        for i in range(len(messages)):
            message = messages[i]
            if self.makes_sense(message, data, start, end):
                found.append(i)
        return found

    @compiled
    def after_tags(self, data: bytes, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The index after the tagged fields that begin at data[at]. Raises ReadError."""
        self.reader.open(data, at, len(data))
        self.reader.skip_tags()
        return self.reader.pos

    @compiled
    def _begin(self, message: MessageWords, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        self.message = message
        self.reader.open(data, start, end)
        self.notes.begin(data, message)

    @compiled
    def _run(
        self, at: cython.Py_ssize_t, last: cython.Py_ssize_t, topic: cython.longlong, partition: cython.longlong
    ) -> cython.bint:
        """Walk by words[at:last], within this topic and partition (-1 and ABSENT: none); False for nonsense."""
        r: WireReader = self.reader
        notes: BodyNotes = self.notes
        w: MessageWords = self.message
        word: cython.int
        n: cython.longlong
        _i: cython.longlong
        p: cython.Py_ssize_t
        row: cython.Py_ssize_t
        name_at: cython.Py_ssize_t = 0
        name_size: cython.longlong = 0
        id_at: cython.Py_ssize_t = -1
        while at < last:
            word = w.words[at]  # those that are frequent come first
            if word == SKIP:
                r.skip(w.words[at + 1])
                if self.checking and not self._is_within():
                    return False
                at += 2
            elif word == TAGS:
                n = r.uvarint()
                p = at + 2 + w.words[at + 1]
                if n > 0 and not self._tags(n, at + 2, p, topic, partition):
                    return False
                at = p
            elif word == ARRAY:
                n = self._count(w.words[at + 1], w.words[at + 2])
                if n < 0:
                    return False
                if w.words[at + 3]:
                    r.skip(n * w.words[at + 3])
                    if self.checking and not self._is_within():
                        return False
                else:
                    p = at + 5 + w.words[at + 4]
                    for _i in range(n):
                        if not self._run(at + 5, p, topic, partition):
                            return False
                at += 5 + w.words[at + 4]
            elif word == VALUE:
                notes.kept[w.words[at + 1], 0] = r.integer(w.words[at + 2])
                notes.kept[w.words[at + 1], 1] = 0
                at += 3
            elif word == POSITION:
                self._position(topic, partition, w.words[at + 1], r.integer(w.words[at + 2]), 0)
                at += 3
            elif word == POSITION_LIST:
                n = self._count(w.words[at + 2], False)
                if n * w.words[at + 3] <= r.left():
                    self._position(topic, partition, w.words[at + 1], r.pos, n)
                r.skip(n * w.words[at + 3])
                at += 4
            elif word == PARTITION:
                partition = r.i32()
                at += 1
            elif word == ERROR:
                n = r.i16()
                if self.checking and not self.codes[n + 0x8000]:
                    return False
                self.slots[w.words[at + 1], CODE_READ] = n
                at += 2
            elif word == FAULT:
                if self.slots[w.words[at + 1], CODE_READ]:
                    self._fault(at, topic, partition)
                at += 4
            elif word == TOPIC:
                topic = self._topic(name_at, name_size, id_at, w.words[at + 1])
                name_size = 0
                id_at = -1
                at += 2
            elif word == ID:
                id_at = r.pos
                if not r.i64() | r.i64():  # an id of zeros stands for none
                    id_at = -1
                at += 1
            elif word == RECORDS:
                n = r.announced(w.words[at + 1])
                if n > 0:
                    row = notes.record_sets.add()
                    notes.record_sets.cells[row, SET_TOPIC] = topic
                    notes.record_sets.cells[row, SET_PARTITION] = partition
                    notes.record_sets.cells[row, SET_AT] = r.pos
                    notes.record_sets.cells[row, SET_SIZE] = n
                r.skip(n)
                if self.checking and not self._is_sized(n, False):
                    return False
                at += 2
            elif word == PAIR:
                self._pair(topic, partition, w.words[at + 1])
                at += 2
            elif word == PAIR_VALUE:
                self.number = r.i64()
                at += 1
            elif word == SIZED:
                n = r.announced(w.words[at + 1])
                r.skip(n)
                if self.checking and not self._is_sized(n, w.words[at + 2]):
                    return False
                at += 3
            elif word == THROTTLE:
                notes.throttle = r.i32()
                if self.checking and not 0 <= notes.throttle <= LONGEST_THROTTLE:
                    return False
                at += 1
            elif word == ERROR_TEXT:
                n = r.announced(w.words[at + 1])
                self._error_text(n, w.words[at + 2], w.words[at + 3])
                r.skip(n)
                if self.checking and not self._is_sized(n, False):
                    return False
                at += 4
            elif word == NAME:
                name_size = r.length(w.words[at + 1])
                name_at = r.pos
                r.skip(name_size)
                if self.checking and not self._is_sized(name_size, True):
                    return False
                at += 2
            elif word == TEXT:
                n = r.length(w.words[at + 2])
                notes.kept[w.words[at + 1], 0] = r.pos
                notes.kept[w.words[at + 1], 1] = n
                r.skip(n)
                if self.checking and not self._is_sized(n, True):
                    return False
                at += 3
            elif word == STRUCT:
                p = at + 2 + w.words[at + 1]
                if not self._run(at + 2, p, topic, partition):
                    return False
                at = p
            elif word == GROUP:
                n = r.announced(w.words[at + 1])
                notes.groups += 1
                notes.kept[GROUP_PLACE, 0] = r.pos
                notes.kept[GROUP_PLACE, 1] = n
                r.skip(n)
                if self.checking and not self._is_sized(n, True):
                    return False
                at += 2
            elif word == PARTITIONS:
                n = self._count(w.words[at + 1], w.words[at + 2])
                if n < 0 or (self.checking and 4 * n > self.stop - r.pos):
                    return False
                for _i in range(n):
                    self._pair(topic, r.i32(), w.words[at + 3])
                at += 4
            else:
                p = at + 2 + w.words[at + 1]
                if r.u8() < 128 and not self._run(at + 2, p, topic, partition):
                    return False
                at = p
        return True

    @compiled
    def _count(self, kind: cython.int, counted: cython.int) -> cython.longlong:
        """The number of elements of an array, each of a byte at least; 0 for null, -1 for nonsense."""
        n: cython.longlong = self.reader.announced(kind)
        if n > self.stop - self.reader.pos or (self.checking and n < -1):
            if self.checking:
                return -1
            raise EndsEarlyError("a count beyond the end")
        if n < 0:
            return 0
        if counted:
            self.notes.partitions += n
        return n

    @compiled
    def _tags(
        self,
        left: cython.longlong,
        first: cython.Py_ssize_t,
        behind: cython.Py_ssize_t,
        topic: cython.longlong,
        partition: cython.longlong,
    ) -> cython.bint:
        """Walk `left` tagged fields, those that are known by words[first:behind]; False for nonsense."""
        r: WireReader = self.reader
        w: MessageWords = self.message
        number: cython.longlong
        size: cython.longlong
        after: cython.Py_ssize_t
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t = self.stop
        while left > 0:
            left -= 1
            number = r.uvarint()
            size = r.uvarint()
            after = r.pos + size
            at = first
            while at < behind and w.words[at] != number:
                at += 3 + w.words[at + 2]
            if self.checking:
                if at == behind or after > stop:
                    return False
                self.stop = after
                if not self._run(at + 3, at + 3 + w.words[at + 2], topic, partition) or r.pos != after:
                    return False
                self.stop = stop
            else:
                if at < behind and w.words[at + 1]:
                    self._run(at + 3, at + 3 + w.words[at + 2], topic, partition)
                r.pos = after
        return True

    # --- notes ---

    @compiled
    def _topic(
        self,
        name_at: cython.Py_ssize_t,
        name_size: cython.longlong,
        id_at: cython.Py_ssize_t,
        listed: cython.longlong,
    ) -> cython.longlong:
        """Note a topic: its number, -1 where it has neither a name nor an id."""
        row: cython.Py_ssize_t
        if name_size <= 0 and id_at < 0:
            return -1
        row = self.notes.named.add()
        self.notes.both += name_size > 0 and id_at >= 0
        self.notes.named.cells[row, NAME_AT] = name_at
        self.notes.named.cells[row, NAME_SIZE] = name_size
        self.notes.named.cells[row, ID_AT] = id_at
        self.notes.named.cells[row, LISTED] = listed
        return row

    @compiled
    def _pair(self, topic: cython.longlong, partition: cython.longlong, kind: cython.longlong) -> None:
        placed: NoteRows = self.notes.placed
        row: cython.Py_ssize_t = placed.add()
        placed.cells[row, PAIR_TOPIC] = topic
        placed.cells[row, PAIR_PARTITION] = partition
        placed.cells[row, NUMBER] = self.number
        placed.cells[row, PAIR_KIND] = kind

    @compiled
    def _position(
        self,
        topic: cython.longlong,
        partition: cython.longlong,
        what: cython.longlong,
        stated: cython.longlong,
        elements: cython.longlong,
    ) -> None:
        positions: NoteRows = self.notes.positions
        row: cython.Py_ssize_t = positions.add()
        positions.cells[row, AT_TOPIC] = topic
        positions.cells[row, AT_PARTITION] = partition
        positions.cells[row, WHAT] = what
        positions.cells[row, STATED] = stated
        positions.cells[row, ELEMENTS] = elements

    @compiled
    def _error_text(self, size: cython.longlong, error: cython.int, slot: cython.int) -> None:
        """Keep the text that follows, if there is an error that it explains and all of it is there."""
        kept: cython.bint = 0 < size <= self.reader.left() and self.slots[error, CODE_READ] != 0
        self.slots[slot, TEXT_AT] = self.reader.pos
        self.slots[slot, TEXT_SIZE] = size if kept else 0

    @compiled
    def _fault(self, at: cython.Py_ssize_t, topic: cython.longlong, partition: cython.longlong) -> None:
        """Note the error of the word at `at`."""
        errors: NoteRows = self.notes.errors
        row: cython.Py_ssize_t = errors.add()
        text: cython.int = self.message.words[at + 2]
        errors.cells[row, CODE] = self.slots[self.message.words[at + 1], CODE_READ]
        errors.cells[row, FAULT_TOPIC] = topic
        errors.cells[row, FAULT_PARTITION] = partition
        errors.cells[row, SCOPE] = self.message.words[at + 3]
        errors.cells[row, MESSAGE_AT] = 0 if text == NO_SLOT else self.slots[text, TEXT_AT]
        errors.cells[row, MESSAGE_SIZE] = 0 if text == NO_SLOT else self.slots[text, TEXT_SIZE]

    # --- checks ---

    @compiled
    def _is_within(self) -> cython.bint:
        """Whether the reader is within the message. Raises EndsEarlyError where it is beyond the data."""
        if self.reader.pos > self.stop:
            return False
        if self.reader.left() < 0:
            raise EndsEarlyError("the data end early")
        return True

    @compiled
    def _is_sized(self, size: cython.longlong, printable: cython.longlong) -> cython.bint:
        """Whether the `size` bytes that the reader has moved over make sense, if need be as text that can be shown."""
        i: cython.Py_ssize_t
        if size < -1 or not self._is_within():
            return False
        if printable and size > 0:
            for i in range(self.reader.pos - size, self.reader.pos):
                if not 32 <= self.reader.data[i] < 127:
                    return self._is_printable(size)
        return True

    def _is_printable(self, size: int) -> bool:
        raw = self.reader.source[self.reader.pos - size : self.reader.pos]
        return raw.decode("utf-8", "ignore").isprintable()


def _codes() -> bytes:
    """uint8[65536]: by int16 error code + 32768, whether the tables have it."""
    found = bytearray(1 << 16)
    for code in known_codes():
        found[code + (1 << 15)] = 1
    return bytes(found)


_own: PerThread = PerThread(Walker)
_walkers: WeakKeyDictionary[Sink, tuple[Walker, Walker]] = WeakKeyDictionary()


def walkers_of(sink: Sink) -> tuple[Walker, Walker]:
    """The walkers of the conversations that write to a sink: for requests, for answers."""
    found = _walkers.get(sink)
    if found is None:
        positions = "positions" in sink.tables
        found = _walkers[sink] = (Walker(positions), Walker(positions))
    return found


def walker() -> Walker:
    """The walker of this thread."""
    found: Walker = _own.get()
    return found
