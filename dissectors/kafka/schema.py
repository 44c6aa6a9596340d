"""Kafka's messages as data: every message, every version, from the tables in `proto/kafka`.

A message is a tree of fields in wire order; a field says in which versions it is there. Tables are read when first
asked for: a capture uses a few dozen of the 290 messages. The format of the files is in proto/kafka/README.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from dissectors.wire.proto import proto

SIZES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip
"""Bytes of a value, by type; other types begin with a length."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A set of versions: ranges, both ends included."""

    ranges: tuple[tuple[int, int], ...]

    def __contains__(self, version: object) -> bool:
        assert isinstance(version, int)
        for a, b in self.ranges:  # noqa: SIM110 - asked so often that a generator would cost
            if a <= version <= b:
                return True
        return False

    def each(self) -> Iterator[int]:
        """Every version, ascending."""
        for a, b in self.ranges:
            yield from range(a, b + 1)

    @property
    def first(self) -> int:
        return self.ranges[0][0]

    @property
    def last(self) -> int:
        return self.ranges[-1][1]


NO_VERSIONS = Versions(())
_NO_WORDS: dict[str, str] = {}  # of a field of which no more is said; never added to


@cache
def versions(text: str) -> Versions:
    """`0-3`, `7`, `0,8`, `none`."""
    if text in ("none", "-"):
        return NO_VERSIONS
    bounds = [part.split("-") for part in text.split(",")]
    return Versions(tuple((int(b[0]), int(b[-1])) for b in bounds))


class SchemaField(NamedTuple):
    """One field: a value, a struct, or an array of either."""

    name: str  # lowerCamelCase, as Kafka's own request log has it
    type: str  # of the value, or of one element
    array: bool
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tag: int = -1
    tagged: Versions = NO_VERSIONS
    flexible: Versions | None = None  # where it departs from its message
    entity: str = ""
    fields: tuple[SchemaField, ...] = ()  # of a struct

    @property
    def struct(self) -> bool:
        return self.type[0].isupper()

    @property
    def element(self) -> SchemaField:
        """One element of this array, as a field."""
        return self._replace(array=False, nullable=NO_VERSIONS)


class MessageSchema(NamedTuple):
    """One message in all its versions."""

    name: str
    kind: str  # request, response, header, data, metadata, coordinator-key, coordinator-value
    key: int | None
    versions: Versions
    flexible: Versions
    fields: tuple[SchemaField, ...]


class MessageVersion:
    """A message in one version: which fields are there, and how they are written."""

    def __init__(self, message: MessageSchema, version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = version in message.flexible

    def plain(self, fields: tuple[SchemaField, ...]) -> list[SchemaField]:
        """The fields of this version that are not tagged."""
        return [f for f in fields if self.version in f.versions and not self._is_tagged(f)]

    def tagged(self, fields: tuple[SchemaField, ...]) -> list[SchemaField]:
        return [f for f in fields if self.version in f.versions and self._is_tagged(f)]

    def _is_tagged(self, field: SchemaField) -> bool:
        return field.tag >= 0 and self.version in field.tagged

    def is_compact(self, field: SchemaField) -> bool:
        """Whether its length is a varint."""
        return self.flexible if field.flexible is None else self.version in field.flexible

    def is_nullable(self, field: SchemaField) -> bool:
        return self.version in field.nullable

    def bare_size(self, field: SchemaField) -> int:
        """Bytes of one element without its tagged fields, where every one has the same size; else 0."""
        if not field.struct:
            return SIZES.get(field.type, 0)
        if not field.array and self.is_nullable(field):
            return 0
        sizes = [0 if f.array or (f.struct and self.flexible) else self.bare_size(f) for f in self.plain(field.fields)]
        return sum(sizes) if all(sizes) else 0


class Api(NamedTuple):
    """One API key."""

    key: int
    name: str
    versions: Versions
    older_names: tuple[str, ...]  # what it was called before


@cache
def apis() -> dict[int, Api]:
    """Every API key that ever existed."""
    lines = proto("kafka", "apis.tsv").read_text().splitlines()[1:]
    found = {}
    for key, name, known, older in (line.split("\t") for line in lines):
        names = () if older == "-" else tuple(older.split(","))
        found[int(key)] = Api(int(key), name, versions(known), names)
    return found


@cache
def message(name: str) -> MessageSchema:
    """A message by its name: `FetchRequest`, `ConsumerProtocolSubscription`."""
    return parse(proto("kafka", "messages", f"{name}.txt").read_text())


@cache
def _changes(name: str) -> tuple[int, ...]:
    """The versions, ascending, in which a field of a message comes, goes or is written otherwise."""
    known = message(name)
    bounds = {0}
    for each in (known.flexible, *_all_versions(known.fields)):
        bounds.update(bound for first, last in each.ranges for bound in (first, last + 1))
    return tuple(sorted(bounds))


def _all_versions(fields: tuple[SchemaField, ...]) -> Iterator[Versions]:
    """Every set of versions that fields and those within them name."""
    for field in fields:
        yield from (field.versions, field.nullable, field.tagged, field.flexible or NO_VERSIONS)
        yield from _all_versions(field.fields)


def first_like(name: str, version: int) -> int:
    """The first version from which on the fields of a message are as in `version`, and written alike."""
    changes = _changes(name)
    return changes[bisect_right(changes, version) - 1]


def messages() -> list[str]:
    """The names of all messages."""
    return sorted(path.stem for path in proto("kafka", "messages").glob("*.txt"))


def parse(text: str) -> MessageSchema:
    """A message from the text of its table."""
    head, *lines = text.splitlines()
    name, kind, key, known, flexible = head.split()
    rest = lines[::-1]
    fields = _fields(rest, 2)
    assert not rest
    return MessageSchema(name, kind, None if key == "-" else int(key), versions(known), versions(flexible), fields)


def _fields(lines: list[str], indent: int) -> tuple[SchemaField, ...]:
    """The fields at this indent; lines: those that are left, the next one last."""
    fields = []
    while lines and len(lines[-1]) - len(lines[-1].lstrip()) == indent:
        name, type_, known, *more = lines.pop().split()
        words = dict(word.split("=", 1) for word in more) if more else _NO_WORDS
        fields.append(
            SchemaField(
                name[0].lower() + name[1:],
                type_.removeprefix("[]"),
                type_.startswith("[]"),
                versions(known),
                nullable=versions(words.get("nullable", "none")),
                tag=int(words.get("tag", -1)),
                tagged=versions(words.get("tagged", "none")),
                flexible=versions(words["flexible"]) if "flexible" in words else None,
                entity=words.get("entity", ""),
                fields=_fields(lines, indent + 2),
            )
        )
    return tuple(fields)
