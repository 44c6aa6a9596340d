"""The plan of a message (plan.py) as int32 words, which walk.py reads.

    word        operands                                what the walk does
    SKIP        bytes                                   move over
    SIZED       kind, printable                         … over a length and as many bytes
    NAME        kind                                    a topic's name
    ID                                                  a topic's id, 16 bytes
    TOPIC       listed                                  note: the topic whose name or id, or both, were read
    PARTITION                                           a partition's number, int32
    PAIR_VALUE                                          a number that goes with topic and partition, int64
    PAIR        pair kind                               note: topic, partition, and the number where there is one
    PARTITIONS  kind, counted, pair kind                an array of int32, each a pair
    ERROR       slot                                    an error code, int16
    ERROR_TEXT  kind, slot, text slot                   the text that explains the error in a slot
    FAULT       slot, text slot or NO_SLOT, scope       note: the error in a slot, unless it is 0
    THROTTLE                                            note: milliseconds, int32
    VALUE       place, bytes                            note: a number
    TEXT        place, kind                             note: a text
    GROUP       kind                                    note: a group's name
    RECORDS     kind                                    note: a record set
    POSITION    what, bytes                             note: a number that says where the partition stands
    POSITION_LIST what, kind, bytes                     note: where an array of such numbers, or a text, lies
    ARRAY       kind, counted, size, n                  an array; size: of each element, or 0: the n words that follow
                                                        walk one
    STRUCT      n                                       the n words that follow, with a topic of their own
    OPTIONAL    n                                       … where the byte before is not negative
    TAGS        m, and m words: tag, noted, n, n words… tagged fields

    kind: PLAIN, WIDE or COMPACT, as wire/reader.py has it
    pair kind: BARE, NUMBERED, or FORGOTTEN of what leaves a fetch session
    place: index into VALUES
    scope: index into the `scopes` of the message
    what: as position_fields.py has it

Words are made when a message of a version is met first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from functools import cache
from typing import final

import cython

from dissectors.compiling.marks import compiled
from dissectors.kafka import position_fields, schema
from dissectors.kafka.plan import GROUP as GROUP_NAME
from dissectors.kafka.plan import KEY_TYPE, NOTES, Op, Step, plan
from dissectors.wire.arrays import Ints
from dissectors.wire.reader import COMPACT, PLAIN, WIDE

(SKIP, SIZED, NAME, ID, TOPIC, PARTITION, PAIR_VALUE, PAIR, PARTITIONS, ERROR, ERROR_TEXT, FAULT, THROTTLE, VALUE,
 TEXT, GROUP, RECORDS, ARRAY, STRUCT, OPTIONAL, TAGS, POSITION, POSITION_LIST) = range(23)  # fmt: skip
BARE, NUMBERED, FORGOTTEN = range(3)
VALUE_COUNT, NO_SLOT, SLOTS = 22, -1, 8
GROUP_PLACE, KEY_TYPE_PLACE, ACKS_PLACE, TRANSACTION_PLACE = 0, 1, 2, 3
REPLICA_PLACE, MAX_WAIT_PLACE, ISOLATION_PLACE, SESSION_PLACE, EPOCH_PLACE = 4, 5, 6, 7, 8
MIN_BYTES_PLACE, KEEPS_PREPARED_PLACE = 20, 21

VALUES = (
    GROUP_NAME, KEY_TYPE, "acks", "transactionalId", "replicaId", "maxWaitMs", "isolationLevel", "sessionId",
    "sessionEpoch", "shareSessionEpoch", "memberId", "generationId", "generationIdOrMemberEpoch", "producerId",
    "producerEpoch", "clientSoftwareName", "clientSoftwareVersion", "mechanism", "committed", "memberEpoch",
    "minBytes", "keepPreparedTxn",
)  # fmt: skip
"""The single values that are noted, by place."""
assert len(VALUES) == VALUE_COUNT


@final
@compiled
class MessageWords:
    """The words of one message in one version, and what the numbers in them stand for."""

    words: Ints
    last: cython.Py_ssize_t  # nothing is noted by the words from here on
    least: cython.Py_ssize_t  # bytes of the shortest body
    values: dict[int, bool]  # the values that this version has: place -> whether it is a text
    scopes: tuple[str, ...]  # what its errors are about

    def __init__(
        self, words: array[int], last: int, least: int, values: dict[int, bool], scopes: tuple[str, ...]
    ) -> None:
        self.words = words
        self.last = last
        self.least = least
        self.values = values
        self.scopes = scopes


NO_MESSAGE = MessageWords(array("i"), 0, 0, {}, ())
"""A message without a field: stands where none was read yet."""


def message_words(name: str, version: int, positions: bool = False) -> MessageWords:
    """The words of a request or response. positions: those that also note where partitions stand.

    Versions with the same fields, and messages in which no field says where a partition stands, share their words.
    Raises KeyError or FileNotFoundError where the tables do not have it.
    """
    says_positions = name in position_fields.FIELDS or name in position_fields.VALUES
    return _words(name, schema.first_like(name, version), positions and says_positions)


@cache
def _words(name: str, version: int, positions: bool) -> MessageWords:
    known = plan(name, version, positions)
    writer = _Writer(position_fields.FIELDS.get(name, {}))
    noting = writer.steps(known.noting)
    rest = writer.steps(known.steps[known.last :])
    assert max(writer.errors, writer.error_texts) <= SLOTS
    least = sum(map(_least, known.steps))
    return MessageWords(array("i", noting + rest), len(noting), least, writer.values, tuple(writer.scopes))


def _least(step: Step) -> int:
    """Bytes over which a step moves at least."""
    if step.op in NOTES:
        return 0
    if step.op is Op.STRUCT:
        return sum(map(_least, step.inner))
    if step.op in (Op.OPTIONAL, Op.TAGS):
        return 1
    if step.size and step.op not in (Op.ARRAY, Op.PARTITIONS):
        return step.size
    return 1 if step.compact else 4 if step.wide else 2


class _Writer:
    """Writes the words of one plan, and gathers what their operands number."""

    def __init__(self, positions: Mapping[str, int]) -> None:
        """positions: field -> what it says of a partition."""
        self._positions = positions
        self.values: dict[int, bool] = {}
        self.scopes: list[str] = []
        self.errors = 0
        self.error_texts = 0
        self._slots: dict[str, int] = {}  # of the struct that is written: error code or text -> slot

    def steps(self, steps: Iterable[Step]) -> list[int]:
        """The words of some steps over one struct."""
        return [word for step in steps for word in self._step(step)]

    def _struct(self, steps: Iterable[Step]) -> list[int]:
        """The words of a struct within one: its errors are others than those around it."""
        around, self._slots = self._slots, {}
        words = self.steps(steps)
        self._slots = around
        return words

    def _step(self, step: Step) -> list[int]:
        kind = COMPACT if step.compact else WIDE if step.wide else PLAIN
        match step.op:
            case Op.SKIP:
                return [SKIP, step.size]
            case Op.SIZED:
                return [SIZED, kind, step.printable]
            case Op.NAME:
                return [NAME, kind]
            case Op.ID:
                return [ID]
            case Op.TOPIC:
                return [TOPIC, step.listed]
            case Op.PARTITION:
                return [PARTITION]
            case Op.PAIR_VALUE:
                return [PAIR_VALUE]
            case Op.PAIR:
                return [PAIR, FORGOTTEN if step.forgotten else NUMBERED if step.names else BARE]
            case Op.PARTITIONS:
                return [PARTITIONS, kind, step.counted, FORGOTTEN if step.forgotten else BARE]
            case Op.ERROR:
                slot = self._slots[step.name] = self.errors
                self.errors += 1
                return [ERROR, slot]
            case Op.ERROR_TEXT:
                slot = self._slots[step.name] = self.error_texts
                self.error_texts += 1
                return [ERROR_TEXT, kind, self._slots[step.names[0]], slot]
            case Op.FAULT:
                if step.scope not in self.scopes:
                    self.scopes.append(step.scope)
                text = self._slots.get(step.names[0], NO_SLOT)
                return [FAULT, self._slots[step.name], text, self.scopes.index(step.scope)]
            case Op.THROTTLE:
                return [THROTTLE]
            case Op.VALUE:
                return [VALUE, self._place(step.name, is_text=False), step.size]
            case Op.TEXT:
                return [TEXT, self._place(step.name, is_text=True), kind]
            case Op.GROUP:
                self._place(GROUP_NAME, is_text=True)
                return [GROUP, kind]
            case Op.RECORDS:
                return [RECORDS, kind]
            case Op.POSITION:
                return [POSITION, self._positions[step.name], step.size]
            case Op.POSITION_LIST:
                return [POSITION_LIST, self._positions[step.name], kind, step.size]
            case Op.ARRAY:
                inner = [] if step.size else self._struct(step.inner)
                return [ARRAY, kind, step.counted, step.size, len(inner), *inner]
            case Op.STRUCT | Op.OPTIONAL:
                inner = self._struct(step.inner)
                return [STRUCT if step.op is Op.STRUCT else OPTIONAL, len(inner), *inner]
            case Op.TAGS:
                inner = []
                for tag in step.tags:
                    field = self.steps(tag.inner)
                    inner += [tag.number, tag.noted, len(field), *field]
                return [TAGS, len(inner), *inner]

    def _place(self, name: str, *, is_text: bool) -> int:
        place = VALUES.index(name)
        self.values[place] = is_text
        return place
