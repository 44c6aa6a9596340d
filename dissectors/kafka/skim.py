"""Decoders that keep only what the record tables need: topics, error codes, where record sets lie, a few numbers.

The schema itself says where these are: a string of entity `topicName` is a topic, an int16 `…ErrorCode` of a response
is an error, and the struct around it says what it is about. What nobody wants is stepped over, by arithmetic where its
size is fixed; what follows the last wanted field is not looked at. A body that ends too early yields what was found
before its end (`whole` is False then).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from dissectors.kafka import schema, shelf
from dissectors.kafka.schema import Field, Message
from dissectors.kafka.writer import FIXED, SCOPE, TEXT, MalformedError, Writer, unpackers

Topic = str | bytes
"""A topic's name, or its id (16 bytes)."""


class RecordSet(NamedTuple):
    """Where a partition's records lie."""

    topic: Topic
    partition: int
    start: int  # index into the buffer
    size: int


class Fault(NamedTuple):
    """One error code."""

    code: int
    scope: str  # what it is about: request, topic, partition, group …
    topic: Topic | None
    partition: int | None
    message: str | None


class Skim(NamedTuple):
    """What one body says."""

    whole: bool
    topics: Sequence[Topic]
    partitions: int  # how many partitions it names
    sets: Sequence[RecordSet]
    faults: Sequence[Fault]
    names: Sequence[tuple[bytes, str]]  # (topic id, name), where both are told
    throttle_ms: int | None
    pairs: Sequence[tuple[Any, ...]]  # (topic, partition, numbers …), for the messages in PAIRED
    forgotten: Sequence[tuple[Topic, int]]  # the same for what leaves a fetch session
    values: Mapping[str, Any]  # the fields in VALUES


Skimmer = Callable[[bytes, int, int], Skim]
"""(data, start, end) -> Skim. Never raises on bad bytes."""

VALUES: dict[str, tuple[str, ...]] = {
    "ProduceRequest": ("transactionalId", "acks"),
    "FetchRequest": ("replicaId", "maxWaitMs", "minBytes", "sessionId", "sessionEpoch"),
    "FetchResponse": ("sessionId",),
    "ShareFetchRequest": ("maxWaitMs", "minBytes", "groupId", "memberId", "shareSessionEpoch"),
    "ApiVersionsRequest": ("clientSoftwareName", "clientSoftwareVersion"),
    "SaslHandshakeRequest": ("mechanism",),
    "JoinGroupRequest": ("groupId", "memberId"),
    "JoinGroupResponse": ("generationId", "memberId"),
    "OffsetCommitRequest": ("groupId", "generationIdOrMemberEpoch"),
    "InitProducerIdResponse": ("producerId", "producerEpoch"),
}
"""Single values that somebody wants, by message."""

PAIRED: dict[str, tuple[str, ...]] = {
    "FetchRequest": (),  # they set up fetch sessions
    "ShareFetchRequest": (),
    "ProduceResponse": ("baseOffset",),
}
"""Messages of which every (topic, partition) is wanted, and which of its numbers with it."""

_LISTS = ("topics", "sets", "faults", "names", "pairs", "forgotten")
FORGOTTEN = "forgottenTopicsData"
_PARTITION_NAMES = frozenset({"partition", "partitionIndex", "partitionId", "index"})
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


@cache
def skimmer(name: str, version: int) -> Skimmer:
    """The skimmer of one message in one version."""
    code = shelf.find(name, version)
    return written(name, version) if code is None else revived(code)


def written(name: str, version: int) -> FunctionType:
    """The same, made now."""
    return SkimWriter(schema.message(name), version).skimmer()


@cache
def revived(code: CodeType) -> FunctionType:
    """The same, from the code of one that was made before."""
    _REVIVED.update(unpackers(code.co_names))
    return FunctionType(code, _REVIVED)


class _Around(NamedTuple):
    """What is known of the structs around a field: names of variables."""

    array: str = ""  # name of the nearest array of structs
    topic: str = "None"
    partition: str = "None"
    pairs: str = "pairs"


_SCOPE: dict[str, Any] = {  # what the functions refer to
    "Skim": Skim,
    "RecordSet": RecordSet,
    "Fault": Fault,
    "new": tuple.__new__,
    "ENDED": (struct.error, IndexError, MalformedError),
    "NO_ID": bytes(16),
    "unpack_from": struct.unpack_from,
}
_REVIVED = {**SCOPE, **_SCOPE}


class SkimWriter(Writer):
    """Writes `skim(d, p, end) -> Skim`."""

    def __init__(self, message: Message, version: int) -> None:
        super().__init__(message, version)
        self.values = VALUES.get(message.name, ())
        self.paired = message.name in PAIRED
        self.response = message.kind == "response"
        self.found: dict[str, str] = {}  # value -> its variable
        self.scope |= _SCOPE

    def skimmer(self) -> FunctionType:
        if any(self.version in f.versions and self.wants(f, True) for f in self.message.fields):
            self.line("whole = False")
            with self.block("try:"):
                self.struct(self.message.fields, _Around(), top=True)
                self.flush()
                self.line("whole = p <= end")
            with self.block("except ENDED:"):
                pass
        else:
            self.line("whole = True")
        body = "\n".join(self.lines)
        used = [name for name in _LISTS if f" {name}.append(" in body or f" {name} += " in body]
        unset = ["throttle", *self.found.values()]
        self.lines[:0] = [
            f"    {'; '.join([f'{name} = []' for name in used] + ['count = 0'])}",
            f"    {' = '.join(unset)} = None",
        ]
        lists = {name: name if name in used else "()" for name in _LISTS}
        values = ", ".join(f"{key!r}: {var}" for key, var in self.found.items())
        parts = ["whole", lists["topics"], "count", lists["sets"], lists["faults"], lists["names"], "throttle"]
        parts += [lists["pairs"], lists["forgotten"], f"{{{values}}}" if values else "{}"]
        self.line(f"return new(Skim, ({', '.join(parts)}))")
        return self.compile("skim", "d, p, end")

    # --- what is wanted ---

    def wants(self, field: Field, single: bool) -> bool:
        """Whether the field, or anything in it, is wanted. `single`: it is in no array."""
        if field.struct:
            counted = field.array and self.is_partitions(field)
            single = single and not field.array
            return counted or any(self.version in f.versions and self.wants(f, single) for f in field.fields)
        if field.array:
            return self.is_partitions(field) or (field.type == "string" and field.entity == "topicName")
        return (
            self.is_topic(field)
            or field.type == "records"
            or self.is_error(field)
            or (single and (self.is_throttle(field) or field.name in self.values))
            or (self.paired and field.name in _PARTITION_NAMES)
        )

    def is_topic(self, field: Field) -> bool:
        return (field.type == "string" and field.entity == "topicName") or (
            field.type == "uuid" and field.name == "topicId"
        )

    def is_error(self, field: Field) -> bool:
        return self.response and field.type == "int16" and field.name.lower().endswith("errorcode")

    def is_throttle(self, field: Field) -> bool:
        return self.response and field.name == "throttleTimeMs"

    def is_partitions(self, field: Field) -> bool:
        return "artition" in field.name and (field.struct or field.type == "int32")

    def needs_place(self, field: Field) -> bool:
        """Whether something in it must be told with its partition."""
        if field.struct:
            return any(self.version in f.versions and self.needs_place(f) for f in field.fields)
        return field.type == "records" or self.is_error(field)

    # --- the walk ---

    def struct(self, fields: tuple[Field, ...], around: _Around, top: bool = False) -> None:
        """Read or step over the fields of one struct."""
        single = not around.array
        plain, tagged = self.plain(fields), [f for f in self.tagged(fields) if self.wants(f, single)]
        if top and not tagged:
            while plain and not self.wants(plain[-1], single):
                plain.pop()  # nothing after the last wanted field is looked at
        identity = [f for f in plain if not f.array and self.is_topic(f)]
        place = self.paired or any(self.needs_place(f) for f in plain)
        messages = {f.name: f for f in plain if self.response and f.type == "string" and "rrorMessage" in f.name}
        errors: list[tuple[Field, str, str]] = []  # field, variable of its code, of its message
        texts: dict[str, str] = {}
        known: dict[str, str] = {}
        for field in plain:
            if field in identity:
                known[field.name] = self.identity(field)
                if field is identity[-1]:
                    around = around._replace(topic=self.topic(identity, known, around.pairs == "pairs"))
            elif field.type == "int32" and not field.array and field.name in _PARTITION_NAMES and place:
                var = self.var("i")
                self.take("i", var)
                around = around._replace(partition=var)
                if self.paired:
                    extra = "".join(f", y_{name}" for name in PAIRED[self.message.name])
                    self.after(f"{around.pairs}.append(({around.topic}, {var}{extra}))")
            elif self.is_error(field) and not field.array:
                code, text = self.var("e"), "None"
                self.take("h", code)
                paired = field.name.removesuffix("Code") + "Message"
                if paired in messages or "errorMessage" in messages:
                    text = texts.setdefault(paired if paired in messages else "errorMessage", self.var("m"))
                    if field.name != "topicConfigErrorCode":
                        self.after(f"{text} = {code}")
                errors.append((field, code, text))
            elif field.name in texts:
                self.text(field, texts[field.name])
            elif field.name in PAIRED.get(self.message.name, ()):
                self.take(FIXED[field.type], f"y_{field.name}")
            elif single and self.is_throttle(field):
                self.take("i", "throttle")
            elif field.type == "records":
                self.records(field, around)
            elif single and field.name in self.values and not field.array:
                self.kept(field)
            elif self.wants(field, single):
                if field.struct and errors:
                    errors = self.told(errors, around, fields)  # in wire order: before those of what it holds
                self.inner(field, around)
            else:
                self.skip(field)
        self.told(errors, around, fields)
        if self.flexible and not (top and not tagged):
            self.end_tags(tagged, around, fields)

    def identity(self, field: Field) -> str:
        """Read a topic's name or id."""
        var = self.var("w")
        if field.type == "uuid":
            self.take("16s", var)
            return var
        n = self.length(field)
        self.line(f"{var} = d[p:p + {n}]{TEXT} if {n} > 0 else None")
        with self.block(f"if {n} > 0:"):
            self.line(f"p += {n}")
            self.line("if p > end: bad('text beyond the end')")
        return var

    def topic(self, identity: list[Field], known: dict[str, str], listed: bool) -> str:
        """Once a topic's name and id are read: note them. The variable that stands for the topic."""
        name = next((known[f.name] for f in identity if f.type == "string"), None)
        id_ = next((known[f.name] for f in identity if f.type == "uuid"), None)
        topic = self.var("t")
        self.after(f"{topic} = {name}" if name else f"{topic} = None if {id_} == NO_ID else {id_}")
        if name and id_:
            self.after(f"if {id_} != NO_ID:")
            self.after(f"    if {name} is None: {topic} = {id_}")
            self.after(f"    else: names.append(({id_}, {name}))")
        if listed:
            self.after(f"if {topic} is not None: topics.append({topic})")
        if not self._run:
            self.flush()
        return topic

    def text(self, field: Field, var: str) -> None:
        """Read the text of an error, where there is an error: `var` holds its code, and then the text."""
        n = self.length(field)
        self.line(f"{var} = d[p:p + {n}]{TEXT} if {n} > 0 and {var} else None")
        self.line(f"if {n} > 0: p += {n}")

    def told(
        self, errors: list[tuple[Field, str, str]], around: _Around, fields: tuple[Field, ...]
    ) -> list[tuple[Field, str, str]]:
        """Note the errors of a struct, once what they are about is read. What is left to note: nothing."""
        for field, code, text in errors:
            scope = self.scope_of(field, around, fields)
            fault = f"new(Fault, ({code}, {scope!r}, {around.topic}, {around.partition}, {text}))"
            self.after(f"if {code}: faults.append({fault})")
        if not self._run:
            self.flush()
        return []

    def scope_of(self, field: Field, around: _Around, fields: tuple[Field, ...]) -> str:
        """What an error is about."""
        present = self.plain(fields)
        if not around.array:
            return "request"
        if field.name == "topicConfigErrorCode":
            return "topic config"
        if any(f.name in _PARTITION_NAMES and f.type == "int32" for f in present):
            return "partition"
        if any(not f.array and self.is_topic(f) for f in present):
            return "topic"
        for entity, scope in (("groupId", "group"), ("transactionalId", "transaction")):
            if any(f.entity == entity and not f.array for f in present):
                return scope
        return _SCOPES.get(around.array) or _SCOPES_BY_MESSAGE.get(self.message.name) or around.array

    def records(self, field: Field, around: _Around) -> None:
        n = self.length(field)
        with self.block(f"if {n} > 0:"):
            self.line(f"sets.append(new(RecordSet, ({around.topic}, {around.partition}, p, {n})))")
            self.line(f"p += {n}")

    def kept(self, field: Field) -> None:
        """Read a single value that is wanted."""
        var = self.found.setdefault(field.name, f"x_{field.name}")
        if field.type in FIXED:
            self.take(FIXED[field.type], var)
            return
        n = self.length(field)
        self.line(f"{var} = None if {n} < 0 else d[p:p + {n}]{TEXT}")
        self.line(f"if {n} > 0: p += {n}")

    def inner(self, field: Field, around: _Around) -> None:
        """Read a struct or an array in which something is wanted."""
        if not field.array:
            if self.nullable(field):
                there = self.var("n")
                self.take("b", there)
                self.flush()
                with self.block(f"if {there} >= 0:"):
                    self.struct(field.fields, around)
            else:
                self.struct(field.fields, around)
            return
        if field.name == FORGOTTEN:
            around = around._replace(pairs="forgotten")
        n = self.length(field)
        with self.block(f"if {n} > 0:"):
            self.guard(n)
            if self.is_partitions(field) and around.pairs == "pairs":
                self.line(f"count += {n}")
            if field.struct:
                self.structs(field, n, around._replace(array=field.name))
            elif field.type == "string":
                with self.block(f"for _ in range({n}):"):
                    var = self.identity(field.element)
                    self.line(f"if {var}: topics.append({var})")
            elif self.paired:
                one = self.var("i")
                self.line(f"{around.pairs} += [({around.topic}, {one}) for {one} in unpack_from(f'>{{{n}}}i', d, p)]")
                self.line(f"p += {n} * 4")
            else:
                self.line(f"p += {n} * 4")

    def structs(self, field: Field, n: str, around: _Around) -> None:
        """Read `n` structs."""
        size = self.fixed_size(field)
        if size and not any(self.version in f.versions and self.wants(f, False) for f in field.fields):
            self.line(f"p += {n} * {size}")  # only their number was wanted
            return
        with self.untagged(field, n), self.block(f"for _ in range({n}):"):
            self.struct(field.fields, around)

    @contextmanager
    def untagged(self, field: Field, n: str) -> Iterator[None]:
        """Step over `n` structs of one size at once; what is written within looks at each, if one has tagged fields."""
        size = self.bare_size(field) if field.struct and self.flexible else 0
        if not size or any(self.version in f.versions and self.wants(f, False) for f in field.fields):
            yield
            return
        with self.block(f"if d[p + {size}:p + {n} * {size + 1}:{size + 1}].strip(b'\\0'):"):
            yield
        self.line(f"else: p += {n} * {size + 1}")

    # --- stepping over ---

    def skip(self, field: Field) -> None:
        """Step over a field that nobody wants."""
        if field.array:
            n = self.length(field)
            size = self.fixed_size(field)
            if size:
                self.line(f"if {n} > 0: p += {n} * {size}")
                return
            with self.block(f"if {n} > 0:"):
                self.guard(n)
                with self.untagged(field, n), self.block(f"for _ in range({n}):"):
                    self.skip(field.element)
        elif field.struct:
            if self.nullable(field):
                there = self.var("n")
                self.take("b", there)
                self.flush()
                with self.block(f"if {there} >= 0:"):
                    self.skip_struct(field)
            else:
                self.skip_struct(field)
        elif field.type in FIXED:
            self.take(FIXED[field.type])
        else:
            n = self.length(field)
            self.line(f"if {n} > 0: p += {n}")

    def skip_struct(self, field: Field) -> None:
        for inner in self.plain(field.fields):
            self.skip(inner)
        if self.flexible:
            self.end_tags([], _Around(), ())

    def end_tags(self, wanted: list[Field], around: _Around, fields: tuple[Field, ...]) -> None:
        """The tagged fields at the end of a struct."""
        count = self.var("n")
        self.varint(count)
        if not wanted:
            self.line(f"if {count}: p = skip_tags(d, p, {count})")
            return
        tag, size, stop = self.var("n"), self.var("n"), self.var("q")
        with self.block(f"for _ in range({count}):"):
            self.varint(tag)
            self.varint(size)
            self.line(f"{stop} = p + {size}")
            for field in wanted:
                with self.block(f"if {tag} == {field.tag}:"):
                    if field.struct:
                        self.inner(field, around)
                    elif self.is_error(field):
                        code = self.var("e")
                        self.take("h", code)
                        self.told([(field, code, "None")], around, fields)
                    else:
                        self.kept(field)
            self.line(f"p = {stop}")
