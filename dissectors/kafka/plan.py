"""What to do with a message of one version, step by step: made from the schema.

A step moves over bytes, or notes something about what was read. Two readers take the same steps:

    walk.py      one frame, by the steps as words (words.py): what rows need of it, or whether it makes sense

The schema itself says what the record tables want: a string of entity `topicName` is a topic, an int16 `…ErrorCode` of
a response is an error, and the struct around it says what it is about. Everything else is stepped over, neighbours of
fixed size in one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum, auto
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from dissectors.kafka import position_fields, schema
from dissectors.kafka.schema import SIZES, MessageVersion, SchemaField

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

GROUP = "groupId"
"""The group that a request names, where it names one: wanted of every request."""

KEY_TYPE = "keyType"
"""What FindCoordinator looks for: 0, or no such field, is a group."""

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


class Op(StrEnum):
    """The operation of a step."""

    SKIP = auto()  # move over `size` bytes
    SIZED = auto()  # … over a length and so many bytes
    NAME = auto()  # a topic's name
    ID = auto()  # a topic's id
    TOPIC = auto()  # note: name and id, as far as there are such, are read
    PARTITION = auto()  # a partition's number
    PAIR_VALUE = auto()  # a number that goes with topic and partition
    PAIR = auto()  # note: topic, partition and the numbers `names`
    PARTITIONS = auto()  # an array of partition numbers, each a pair
    ERROR = auto()  # an error code
    ERROR_TEXT = auto()  # what is said of the error `names[0]`
    FAULT = auto()  # note: the error `name`, its text `names`, what it is about
    THROTTLE = auto()
    VALUE = auto()  # a number that is kept
    TEXT = auto()  # … a text
    GROUP = auto()  # … a group's name, where there is one only, and KEY_TYPE says that it is a group's
    POSITION = auto()  # a number that says where the partition stands
    POSITION_LIST = auto()  # … an array of numbers of `size` bytes, or a text
    RECORDS = auto()  # a record set
    ARRAY = auto()
    STRUCT = auto()
    OPTIONAL = auto()  # a struct behind a byte that says whether it is there
    TAGS = auto()  # tagged fields


NOTES = frozenset({Op.TOPIC, Op.PAIR, Op.FAULT})  # they move over nothing
_SILENT = frozenset({Op.SKIP, Op.SIZED, Op.ERROR_TEXT, Op.ARRAY, Op.STRUCT, Op.OPTIONAL, Op.TAGS})  # of themselves


class Step(NamedTuple):
    """One step."""

    op: Op
    name: str = ""
    size: int = 0  # bytes of a value; of each element, where all have one size and nothing in them is noted
    stride: int = 0  # bytes of each element that ends with tagged fields, if it has none
    compact: bool = False  # the length is a varint
    wide: bool = False  # … or else has four bytes
    printable: bool = False  # text that people read
    counted: bool = False  # the elements are partitions
    listed: bool = True  # the topic counts among those of the message
    forgotten: bool = False  # the elements leave a fetch session
    names: tuple[str, ...] = ()
    scope: str = ""  # what an error is about
    inner: tuple[Step, ...] = ()  # of a struct, of an element
    tags: tuple[Tag, ...] = ()


class Tag(NamedTuple):
    """A tagged field."""

    number: int
    inner: tuple[Step, ...]
    noted: bool


class Plan(NamedTuple):
    """The steps over one message in one version."""

    steps: tuple[Step, ...]
    last: int  # nothing is noted by the steps from here on

    @property
    def noting(self) -> tuple[Step, ...]:
        """The steps up to the last that notes something."""
        return self.steps[: self.last]


@cache
def plan(name: str, version: int, positions: bool = False) -> Plan:
    """The plan for one message in one version. positions: note the fields of `position_fields` too."""
    return _Compiler(MessageVersion(schema.message(name), version), positions).compile()


def notes(step: Step) -> bool:
    """Whether something in the step is noted."""
    return step.op not in _SILENT or step.counted or any(map(notes, step.inner)) or any(tag.noted for tag in step.tags)


class _Around(NamedTuple):
    """The structs around a field."""

    array: str = ""  # the nearest array of structs
    forgotten: bool = False


class _Compiler:
    def __init__(self, known: MessageVersion, positions: bool) -> None:
        self._known = known
        self._message = known.message.name
        self._values = (*VALUES.get(self._message, ()), *((GROUP,) if known.message.kind == "request" else ()))
        self._positions: frozenset[str] = frozenset()
        if positions:
            self._positions = frozenset(position_fields.FIELDS.get(self._message, ()))
            self._values += position_fields.VALUES.get(self._message, ())
        self._pair_values = PAIRED.get(self._message)
        self._response = known.message.kind == "response"

    def compile(self) -> Plan:
        fields, tags = self._fields(self._known.message.fields, _Around())
        if any(map(notes, tags)):
            last = len(fields)
        else:
            last = max((n + 1 for n, steps in enumerate(fields) if any(map(notes, steps))), default=0)
        noting = _joined(chain.from_iterable(fields[:last]))
        rest = _joined([*chain.from_iterable(fields[last:]), *tags])
        return Plan(noting + rest, len(noting) + (len(rest) if any(map(notes, tags)) else 0))

    # --- fields ---

    def _struct(self, fields: tuple[SchemaField, ...], around: _Around) -> tuple[Step, ...]:
        """The steps over a struct."""
        each, tags = self._fields(fields, around)
        return _joined([*chain.from_iterable(each), *tags])

    def _fields(self, fields: tuple[SchemaField, ...], around: _Around) -> tuple[list[list[Step]], list[Step]]:
        """The steps over each field of a struct; the step over its tagged fields.

        An error is noted when its topic, partition and text are read, so that a body that ends early behind them has
        it; but before the errors of a struct within this one, as on the wire.
        """
        known = self._known
        plain = known.plain(fields)
        identity = [f for f in plain if not f.array and self._is_topic(f)]
        indexed = self._pair_values is not None or any(map(self._needs_partition, plain))
        numbers = [f.name for f in plain if f.name in (self._pair_values or ())]
        texts: dict[str, str] = {}  # text -> the error that it explains
        faults: list[Step] = []  # of errors that were read, not noted yet
        each: list[list[Step]] = []
        index: SchemaField | None = None
        for i, field in enumerate(plain):
            steps = []
            if field in identity:
                steps.append(self._identity(field))
                if field is identity[-1]:
                    steps.append(Step(Op.TOPIC, listed=not around.forgotten))
            elif indexed and field.type == "int32" and not field.array and field.name in _PARTITION_NAMES:
                index = field
                steps.append(Step(Op.PARTITION, size=4))
            elif self._is_error(field) and not field.array:
                text = _text_of(field, plain)
                if text is not None and field.name != "topicConfigErrorCode":
                    texts[text] = field.name
                steps.append(Step(Op.ERROR, field.name, 2))
                faults.append(Step(Op.FAULT, field.name, names=(text or "",), scope=self._scope(field, around, plain)))
            elif field.name in texts:
                steps.append(self._sized(field, Op.ERROR_TEXT, name=field.name, names=(texts[field.name],)))
            else:
                step = self._field(field, around)
                if field.struct and notes(step):
                    steps += faults
                    faults = []
                steps.append(step)
            if self._pair_values is not None and index is not None and field.name == (numbers or [index.name])[-1]:
                steps.append(Step(Op.PAIR, names=self._pair_values, forgotten=around.forgotten))
            left = plain[i + 1 :]
            if not any(f in identity or f.name in _PARTITION_NAMES for f in left):
                waiting = {f.name for f in left}
                steps += [fault for fault in faults if fault.names[0] not in waiting]
                faults = [fault for fault in faults if fault.names[0] in waiting]
            each.append(steps)
        if not known.flexible:
            return each, []
        tags = tuple(self._tag(field, around, plain) for field in known.tagged(fields))
        return each, [Step(Op.TAGS, tags=tags)]

    def _field(self, field: SchemaField, around: _Around) -> Step:
        if field.name in self._positions:
            return self._position(field)
        if field.array:
            return self._array(field, around)
        if field.struct:
            inner = self._struct(field.fields, around)
            return Step(Op.OPTIONAL if self._known.is_nullable(field) else Op.STRUCT, inner=inner)
        single = not around.array
        number = Step(Op.SKIP, field.name, SIZES.get(field.type, 0))
        if single and self._response and field.name == "throttleTimeMs":
            return number._replace(op=Op.THROTTLE)
        if field.name in (self._pair_values or ()):
            return number._replace(op=Op.PAIR_VALUE)
        if single and field.name in self._values:
            return number._replace(op=Op.VALUE) if number.size else self._sized(field, Op.TEXT, name=field.name)
        if field.type == "records":
            return self._sized(field, Op.RECORDS)
        if self._is_group(field):
            return self._sized(field, Op.GROUP)
        return Step(Op.SKIP, size=number.size) if number.size else self._sized(field, Op.SIZED)

    def _position(self, field: SchemaField) -> Step:
        if field.array or field.type == "string":
            size = SIZES[field.type] if field.array else 1
            return self._sized(field, Op.POSITION_LIST, name=field.name, size=size)
        return Step(Op.POSITION, field.name, SIZES[field.type])

    def _array(self, field: SchemaField, around: _Around) -> Step:
        forgotten = around.forgotten or field.name == _FORGOTTEN
        counted = "artition" in field.name and (field.struct or field.type == "int32") and not around.forgotten
        more: dict[str, Any] = {"counted": counted, "forgotten": forgotten}
        if field.struct:
            inner = self._struct(field.fields, _Around(field.name, forgotten))
        elif field.type == "string" and field.entity == "topicName":
            inner = (self._identity(field.element), Step(Op.TOPIC))
        elif self._pair_values is not None and field.type == "int32" and "artition" in field.name:
            return self._sized(field, Op.PARTITIONS, size=4, **more)
        else:
            inner = (self._field(field.element, _Around(field.name)),)
        if not any(map(notes, inner)):
            bare = self._known.bare_size(field)
            tagged = field.struct and self._known.flexible
            more |= {"stride": bare + 1 if bare and tagged else 0, "size": 0 if tagged else bare}
        return self._sized(field, Op.ARRAY, inner=inner, **more)

    def _tag(self, field: SchemaField, around: _Around, plain: list[SchemaField]) -> Tag:
        if self._is_error(field):
            fault = Step(Op.FAULT, field.name, names=("",), scope=self._scope(field, around, plain))
            inner: tuple[Step, ...] = (Step(Op.ERROR, field.name, 2), fault)
        else:
            inner = (self._field(field, around),)
        return Tag(field.tag, inner, any(map(notes, inner)))

    def _identity(self, field: SchemaField) -> Step:
        return Step(Op.ID, size=16) if field.type == "uuid" else self._sized(field, Op.NAME)

    def _sized(self, field: SchemaField, op: Op, **more: Any) -> Step:
        """A step over something that begins with its length."""
        wide = field.array or field.type in ("bytes", "records")
        printable = field.type == "string" and not field.array and not field.name.lower().endswith("message")
        step = Step(op, compact=self._known.is_compact(field), wide=wide, printable=printable)
        return step._replace(**more)

    # --- what is wanted ---

    @staticmethod
    def _is_topic(field: SchemaField) -> bool:
        return (field.type == "string" and field.entity == "topicName") or (
            field.type == "uuid" and field.name == "topicId"
        )

    def _is_group(self, field: SchemaField) -> bool:
        """Whether it is one of several groups that a request names."""
        return not self._response and (field.entity == GROUP or field.name in _KEYS.get(self._message, ()))

    def _is_error(self, field: SchemaField) -> bool:
        return self._response and field.type == "int16" and field.name.lower().endswith("errorcode")

    def _needs_partition(self, field: SchemaField) -> bool:
        """Whether something in it is noted with its partition."""
        if field.struct:
            return any(map(self._needs_partition, self._known.plain(field.fields)))
        return field.type == "records" or field.name in self._positions or self._is_error(field)

    def _scope(self, field: SchemaField, around: _Around, plain: list[SchemaField]) -> str:
        """What an error is about; plain: the fields of its struct."""
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


def _joined(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Steps over fixed sizes, one after the other, are one; a struct of nothing else is such a step."""
    out: list[Step] = []
    for step in steps:
        plain = step.op is Op.STRUCT and not notes(step)
        for each in step.inner if plain else (step,):
            if each.op is Op.SKIP and out and out[-1].op is Op.SKIP:
                out[-1] = Step(Op.SKIP, size=out[-1].size + each.size)
            else:
                out.append(each)
    return tuple(out)
