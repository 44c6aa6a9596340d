"""The words over a message of one version (words.py), made from its schema.

The schema itself says what the record tables want: a string of entity `topicName` is a topic, an int16 `…ErrorCode` of
a response is an error, and the struct around it says what it is about. Everything else is moved over, neighbours of
fixed size in one step.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import NamedTuple

from dissectors.kafka import position_fields, schema, words
from dissectors.kafka.schema import SIZES, MessageVersion, SchemaField
from dissectors.kafka.words import BARE, FORGOTTEN, GROUP_NAME, NO_SLOT, NUMBERED, SLOTS, MessageWords
from dissectors.wire.reader import COMPACT, PLAIN, WIDE

VALUES: dict[str, tuple[str, ...]] = {
    "ProduceRequest": ("transactionalId", "acks"),
    "FetchRequest": ("replicaId", "maxWaitMs", "minBytes", "isolationLevel", "sessionId", "sessionEpoch"),
    "FetchResponse": ("sessionId",),
    "ShareFetchRequest": ("maxWaitMs", "memberId", "shareSessionEpoch"),
    "ApiVersionsRequest": ("clientSoftwareName", "clientSoftwareVersion"),
    "SaslHandshakeRequest": ("mechanism",),
    "JoinGroupRequest": ("memberId",),
    "JoinGroupResponse": ("generationId", "memberId"),
    "OffsetCommitRequest": ("generationIdOrMemberEpoch",),
    "InitProducerIdResponse": ("producerId", "producerEpoch"),
    "EndTxnRequest": ("transactionalId", "producerId", "committed"),
    "ConsumerGroupHeartbeatRequest": ("memberId", "memberEpoch"),
    "ConsumerGroupHeartbeatResponse": ("memberId", "memberEpoch"),
    "ShareGroupHeartbeatRequest": ("memberId", "memberEpoch"),
    "ShareGroupHeartbeatResponse": ("memberId", "memberEpoch"),
    "StreamsGroupHeartbeatRequest": ("memberId", "memberEpoch"),
    "StreamsGroupHeartbeatResponse": ("memberId", "memberEpoch"),
    "FindCoordinatorRequest": ("keyType",),
}
"""Single values that somebody wants, by message."""

PAIRED: dict[str, tuple[str, ...]] = {
    "FetchRequest": ("fetchOffset",),  # they set up fetch sessions
    "ShareFetchRequest": (),
    "ProduceResponse": ("baseOffset",),
}
"""Messages of which every (topic, partition) is wanted, and which of its numbers with it."""

_FORGOTTEN = "forgottenTopicsData"
_PARTITION_NAMES = frozenset({"partition", "partitionIndex", "partitionId", "index"})
_KEYS = {"FindCoordinatorRequest": ("key", "coordinatorKeys")}  # names of groups, or of something else
_SCOPES = {  # the array around an error code, where no topic, partition or entity says more
    "coordinators": "coordinator",
    "entries": "quota",
    "filterResults": "acl filter",
    "matchingAcls": "acl",
    "members": "member",
    "resultsByTransaction": "transaction",
    "transactionStates": "transaction",
}
_SCOPES_BY_MESSAGE = {
    "AlterConfigsResponse": "resource",
    "AlterUserScramCredentialsResponse": "user",
    "CreateAclsResponse": "acl",
    "DescribeConfigsResponse": "resource",
    "DescribeLogDirsResponse": "log dir",
    "DescribeUserScramCredentialsResponse": "user",
    "IncrementalAlterConfigsResponse": "resource",
    "UpdateFeaturesResponse": "feature",
}


def message_words(name: str, version: int, positions: bool = False) -> MessageWords:
    """The words of a request or response. positions: those that also note where partitions stand.

    Versions with the same fields, and messages in which no field says where a partition stands, share their words.
    Raises KeyError or FileNotFoundError where the tables do not have it.
    """
    says_positions = name in position_fields.FIELDS or name in position_fields.VALUES
    return words_of(name, schema.first_like(name, version), positions and says_positions)


@cache
def words_of(name: str, version: int, positions: bool) -> MessageWords:
    """The words of this very version."""
    return _Compiler(MessageVersion(schema.message(name), version), positions).compile()


class _Piece(NamedTuple):
    """The words over a field, or of a note."""

    words: tuple[int, ...]
    least: int  # bytes over which they move at least
    notes: bool = True
    parts: tuple[_Piece, ...] | None = None  # of a struct in which nothing is noted: its own fields


class _Fault(NamedTuple):
    """An error that was read and is not noted yet."""

    slot: int
    text: str | None  # the field that explains it
    scope: int


_LEAST = {COMPACT: 1, WIDE: 4, PLAIN: 2}
_TOPIC_ID = _Piece((words.ID,), 16)
_PARTITION = _Piece((words.PARTITION,), 4)


class _Around(NamedTuple):
    """The structs around a field."""

    array: str = ""  # the nearest array of structs
    forgotten: bool = False


class _Compiler:
    def __init__(self, known: MessageVersion, positions: bool) -> None:
        self._known = known
        self._message = known.message.name
        self._wanted = (*VALUES.get(self._message, ()), *((GROUP_NAME,) if known.message.kind == "request" else ()))
        says = position_fields.FIELDS.get(self._message, {})
        noted = says if positions else position_fields.ALWAYS.get(self._message, ())
        self._positions = {field: says[field] for field in noted}
        if positions:
            self._wanted += position_fields.VALUES.get(self._message, ())
        self._pair_values = PAIRED.get(self._message)
        self._response = known.message.kind == "response"
        self._values: dict[int, bool] = {}  # place -> whether it is a text
        self._scopes: list[str] = []
        self._errors = self._error_texts = 0  # slots that are given

    def compile(self) -> MessageWords:
        fields, tags = self._fields(self._known.message.fields, _Around())
        if _notes(tags):
            last = len(fields)
        else:
            last = max((n + 1 for n, pieces in enumerate(fields) if _notes(pieces)), default=0)
        noting = _joined(chain.from_iterable(fields[:last]))
        rest = _joined([*chain.from_iterable(fields[last:]), *tags])
        assert max(self._errors, self._error_texts) <= SLOTS
        written = array("i", _written([*noting, *rest]))
        end = len(written) if _notes(tags) else len(_written(noting))
        least = sum(piece.least for piece in (*noting, *rest))
        return MessageWords(written, end, least, self._values, tuple(self._scopes))

    # --- fields ---

    def _struct(self, fields: tuple[SchemaField, ...], around: _Around) -> tuple[_Piece, ...]:
        """The words over a struct."""
        each, tags = self._fields(fields, around)
        return _joined([*chain.from_iterable(each), *tags])

    def _fields(self, fields: tuple[SchemaField, ...], around: _Around) -> tuple[list[list[_Piece]], list[_Piece]]:
        """The words over each field of a struct; those over its tagged fields.

        An error is noted when its topic, partition and text are read, so that a body that ends early behind them has
        it; but before the errors of a struct within this one, as on the wire.
        """
        known = self._known
        plain = known.plain(fields)
        identity = [f for f in plain if not f.array and self._is_topic(f)]
        indexed = self._pair_values is not None or any(map(self._needs_partition, plain))
        numbers = [f.name for f in plain if f.name in (self._pair_values or ())]
        explained: dict[str, int] = {}  # text -> slot of the error that it explains
        texts: dict[str | None, int] = {}  # text that was read -> its slot
        faults: list[_Fault] = []
        each: list[list[_Piece]] = []
        index: SchemaField | None = None

        def noted(some: list[_Fault]) -> list[_Piece]:
            return [_Piece((words.FAULT, f.slot, texts.get(f.text, NO_SLOT), f.scope), 0) for f in some]

        for i, field in enumerate(plain):
            pieces: list[_Piece] = []
            if field in identity:
                pieces.append(self._identity(field))
                if field is identity[-1]:
                    pieces.append(_Piece((words.TOPIC, not around.forgotten), 0))
            elif indexed and field.type == "int32" and not field.array and field.name in _PARTITION_NAMES:
                index = field
                pieces.append(_PARTITION)
            elif self._is_error(field) and not field.array:
                text = _text_of(field, plain)
                slot, error = self._error()
                if text is not None and field.name != "topicConfigErrorCode":
                    explained[text] = slot
                pieces.append(error)
                faults.append(_Fault(slot, text, self._scope(field, around, plain)))
            elif field.name in explained:
                slot = texts[field.name] = self._error_texts
                self._error_texts += 1
                pieces.append(self._sized(field, words.ERROR_TEXT, explained[field.name], slot))
            else:
                piece = self._field(field, around)
                if field.struct and piece.notes:
                    pieces += noted(faults)
                    faults = []
                pieces.append(piece)
            if self._pair_values is not None and index is not None and field.name == (numbers or [index.name])[-1]:
                kind = FORGOTTEN if around.forgotten else NUMBERED if self._pair_values else BARE
                pieces.append(_Piece((words.PAIR, kind), 0))
            left = plain[i + 1 :]
            if not any(f in identity or f.name in _PARTITION_NAMES for f in left):
                waiting = {f.name for f in left}
                pieces += noted([fault for fault in faults if fault.text not in waiting])
                faults = [fault for fault in faults if fault.text in waiting]
            each.append(pieces)
        if not known.flexible:
            return each, []
        tagged = [(field.tag, self._tag(field, around, plain)) for field in known.tagged(fields)]
        written = [word for tag, inner in tagged for word in (tag, _notes(inner), *_counted(inner))]
        return each, [_Piece((words.TAGS, len(written), *written), 1, any(_notes(inner) for _, inner in tagged))]

    def _field(self, field: SchemaField, around: _Around) -> _Piece:
        size = SIZES.get(field.type, 0)
        if field.name in self._positions:
            what = self._positions[field.name]
            if field.array or field.type == "string":
                each = size if field.array else 1
                return self._sized(field, words.POSITION_LIST, each, before=(what,))._replace(least=each)
            return _Piece((words.POSITION, what, size), size)
        if field.array:
            return self._array(field, around)
        if field.struct:
            inner = self._struct(field.fields, around)
            if self._known.is_nullable(field):
                return _Piece((words.OPTIONAL, *_counted(inner)), 1, _notes(inner))
            least = sum(piece.least for piece in inner)
            return _Piece((words.STRUCT, *_counted(inner)), least, _notes(inner), None if _notes(inner) else inner)
        single = not around.array
        if single and self._response and field.name == "throttleTimeMs":
            return _Piece((words.THROTTLE,), size)
        if field.name in (self._pair_values or ()):
            return _Piece((words.PAIR_VALUE,), size)
        if single and field.name in self._wanted:
            place = words.VALUES.index(field.name)
            self._values[place] = not size
            return _Piece((words.VALUE, place, size), size) if size else self._sized(field, words.TEXT, before=(place,))
        if field.type == "records":
            return self._sized(field, words.RECORDS)
        if self._is_group(field):
            self._values[words.GROUP_PLACE] = True
            return self._sized(field, words.GROUP)
        if size:
            return _Piece((words.SKIP, size), size, False)
        printable = field.type == "string" and not field.name.lower().endswith("message")
        return self._sized(field, words.SIZED, printable)._replace(notes=False)

    def _array(self, field: SchemaField, around: _Around) -> _Piece:
        forgotten = around.forgotten or field.name == _FORGOTTEN
        counted = "artition" in field.name and (field.struct or field.type == "int32") and not around.forgotten
        if field.struct:
            inner = self._struct(field.fields, _Around(field.name, forgotten))
        elif field.type == "string" and field.entity == "topicName":
            inner = (self._identity(field.element), _Piece((words.TOPIC, True), 0))
        elif self._pair_values is not None and field.type == "int32" and "artition" in field.name:
            return self._sized(field, words.PARTITIONS, counted, FORGOTTEN if forgotten else BARE)
        else:
            inner = (self._field(field.element, _Around(field.name)),)
        if _notes(inner) or (field.struct and self._known.flexible):
            size = 0
        else:
            size = self._known.bare_size(field)
        walked = _counted(() if size else inner)
        return self._sized(field, words.ARRAY, counted, size, *walked)._replace(notes=counted or _notes(inner))

    def _tag(self, field: SchemaField, around: _Around, plain: list[SchemaField]) -> tuple[_Piece, ...]:
        """The words over a tagged field."""
        if not self._is_error(field):
            return (self._field(field, around),)
        slot, error = self._error()
        return error, _Piece((words.FAULT, slot, NO_SLOT, self._scope(field, around, plain)), 0)

    def _error(self) -> tuple[int, _Piece]:
        """The slot of an error code, and the word that reads it."""
        slot = self._errors
        self._errors += 1
        return slot, _Piece((words.ERROR, slot), 2)

    def _identity(self, field: SchemaField) -> _Piece:
        return _TOPIC_ID if field.type == "uuid" else self._sized(field, words.NAME)

    def _sized(self, field: SchemaField, word: int, *more: int, before: tuple[int, ...] = ()) -> _Piece:
        """A word over something that begins with its length; its operands before and behind the kind of the length."""
        wide = field.array or field.type in ("bytes", "records")
        kind = COMPACT if self._known.is_compact(field) else WIDE if wide else PLAIN
        return _Piece((word, *before, kind, *more), _LEAST[kind])

    # --- what is wanted ---

    @staticmethod
    def _is_topic(field: SchemaField) -> bool:
        return (field.type == "string" and field.entity == "topicName") or (
            field.type == "uuid" and field.name == "topicId"
        )

    def _is_group(self, field: SchemaField) -> bool:
        """Whether it is one of several groups that a request names."""
        return not self._response and (field.entity == GROUP_NAME or field.name in _KEYS.get(self._message, ()))

    def _is_error(self, field: SchemaField) -> bool:
        return self._response and field.type == "int16" and field.name.lower().endswith("errorcode")

    def _needs_partition(self, field: SchemaField) -> bool:
        """Whether something in it is noted with its partition."""
        if field.struct:
            return any(map(self._needs_partition, self._known.plain(field.fields)))
        return field.type == "records" or field.name in self._positions or self._is_error(field)

    def _scope(self, field: SchemaField, around: _Around, plain: list[SchemaField]) -> int:
        """What an error is about, as index into `scopes`; plain: the fields of its struct."""
        scope = self._scope_name(field, around, plain)
        if scope not in self._scopes:
            self._scopes.append(scope)
        return self._scopes.index(scope)

    def _scope_name(self, field: SchemaField, around: _Around, plain: list[SchemaField]) -> str:
        if not around.array:
            return "request"
        if field.name == "topicConfigErrorCode":
            return "topic config"
        if any(f.name in _PARTITION_NAMES and f.type == "int32" for f in plain):
            return "partition"
        if any(not f.array and self._is_topic(f) for f in plain):
            return "topic"
        for entity, scope in (("groupId", "group"), ("transactionalId", "transaction")):
            if any(f.entity == entity and not f.array for f in plain):
                return scope
        return _SCOPES.get(around.array) or _SCOPES_BY_MESSAGE.get(self._message) or around.array


def _text_of(error: SchemaField, plain: list[SchemaField]) -> str | None:
    """The field that says in words what an error code means."""
    names = {f.name for f in plain if f.type == "string"}
    own = error.name.removesuffix("Code") + "Message"
    return next((name for name in (own, "errorMessage") if name in names), None)


def _notes(pieces: Iterable[_Piece]) -> bool:
    """Whether anything is noted."""
    return any(piece.notes for piece in pieces)


def _written(pieces: Iterable[_Piece]) -> list[int]:
    return [word for piece in pieces for word in piece.words]


def _counted(pieces: Iterable[_Piece]) -> list[int]:
    """The words of pieces behind their number."""
    written = _written(pieces)
    return [len(written), *written]


def _joined(pieces: Iterable[_Piece]) -> tuple[_Piece, ...]:
    """Words over fixed sizes, one after the other, are one; a struct of nothing else is such a word."""
    out: list[_Piece] = []
    for each in chain.from_iterable((piece,) if piece.parts is None else piece.parts for piece in pieces):
        if out and out[-1].words[0] == each.words[0] == words.SKIP:
            size = out[-1].least + each.least
            out[-1] = _Piece((words.SKIP, size), size, False)
        else:
            out.append(each)
    return tuple(out)
