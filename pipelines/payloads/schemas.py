"""Schemas of keys and values: from a folder of files, or from what `brokerscope schemas` saved of a registry.

In a folder, the name of a file says what it is the schema of: `7.avsc` of what carries the id 7, `orders-value.avsc`
or `orders.avsc` of the values of topic orders, `orders-key.proto` of its keys. A saved registry is one JSON file, with
rows as the registry itself lists them:

    {"schemas": [{"id": 7, "subject": "orders-value", "version": 1, "schemaType": "AVRO", "schema": "…",
                  "references": [{"name": …, "subject": …, "version": …}]}, …]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dissectors.errors import InputError
from pipelines.payloads.decoders import Decode, SchemaError, avro, json_schema, protobuf, protobuf_set

KEY, VALUE = "key", "value"
_SUFFIXES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON", ".desc": "DESCRIPTORS", ".pb": "DESCRIPTORS"}
_BY_TEXT = {"avro": avro, "json": json_schema}
_MOST_BYTES = 8 << 20  # of a file of a folder
MOST_REGISTRY = 64 << 20  # bytes of all schemas of one
_MOST = 100_000  # schemas
_MOST_DEPTH = 16  # of references
Id = int | str
"""What a message names its schema by: a number, or a UUID as text."""


class Schema(NamedTuple):
    """A schema, and what reads values by it."""

    type: str  # avro, protobuf or json
    subject: str  # of a registry, or the name of its file
    make: Callable[[], Decode]  # raises SchemaError

    @property
    def name(self) -> str:
        """What is said with a value that was read by it."""
        return f"{self.type} {self.subject}"


class Schemas:
    """Schemas by the ids that messages carry, and by topic."""

    def __init__(self) -> None:
        self._by_id: dict[Id, Schema] = {}
        self._by_subject: dict[str, Schema] = {}
        self._readers: dict[Schema, Decode | SchemaError] = {}

    def of_id(self, number: Id) -> Schema | None:
        """The schema of an id; None for an unknown one."""
        return self._by_id.get(number)

    def of_topic(self, topic: str | None, part: str) -> Schema | None:
        """The schema of the keys or values of a topic, whatever its full name; None for an unknown one."""
        if topic is None:
            return None
        short = topic.rpartition("/")[2]
        names = [f"{short}-{part}", *([short] if part == VALUE else [])]
        return next(filter(None, map(self._by_subject.get, names)), None)

    def __len__(self) -> int:
        return len(self._by_id.keys() | self._by_subject.keys())

    def add(self, schema: Schema, subject: str | None, number: Id | None) -> None:
        """Know a schema, which is read when it is first needed."""
        if len(self._by_id) >= _MOST or len(self._by_subject) >= _MOST:
            raise InputError(f"more than {_MOST:,} schemas")
        if number is not None:
            self._by_id[number] = schema
        if subject is not None:
            self._by_subject[subject] = schema

    def reader(self, schema: Schema) -> Decode:
        """What reads values by a schema. Raises SchemaError, which names it, for one that cannot be read."""
        if schema not in self._readers:
            try:
                self._readers[schema] = schema.make()
            except (SchemaError, OSError) as error:
                self._readers[schema] = SchemaError(f"{schema.name}: {error}")
        made = self._readers[schema]
        if isinstance(made, SchemaError):
            raise made
        return made


def load(path: str) -> Schemas:
    """The schemas of a folder, or of a saved registry. Raises InputError."""
    where = Path(path)
    if not where.exists():
        raise InputError(f"{path}: no such file")
    schemas = Schemas()
    if where.is_dir():
        _add_folder(schemas, where)
    else:
        _add_registry(schemas, where)
    if not len(schemas):
        raise InputError(f"{path}: no schema in it: .avsc, .proto, .json, .desc, or a saved registry")
    return schemas


def _add_folder(schemas: Schemas, folder: Path) -> None:
    for file in sorted(folder.rglob("*")):
        kind = _SUFFIXES.get(file.suffix)
        if kind is None or not file.is_file():
            continue
        number = int(file.stem) if file.stem.isdecimal() and len(file.stem) < 10 else None
        schemas.add(_of_file(file, folder, kind), None if number is not None else file.stem, number)


def _of_file(file: Path, folder: Path, kind: str) -> Schema:
    def make() -> Decode:
        data = _read(file, _MOST_BYTES)
        if kind == "PROTOBUF":
            return protobuf([file], folder)
        return protobuf_set(data) if kind == "DESCRIPTORS" else _BY_TEXT[kind.lower()](_text(data), {})

    return Schema("protobuf" if kind == "DESCRIPTORS" else kind.lower(), file.name, make)


def _add_registry(schemas: Schemas, file: Path) -> None:
    try:
        listed = json.loads(_read(file, MOST_REGISTRY))
        rows = listed["schemas"] if isinstance(listed, dict) else listed
        if len(rows) > _MOST:
            raise SchemaError(f"more than {_MOST:,} schemas")
        known = [_row(row) for row in rows]
    except (ValueError, KeyError, TypeError, RecursionError, SchemaError) as error:
        raise InputError(f"{file}: not a saved registry: {error}") from None
    by_version = {(row["subject"], row["version"]): row for row in known}
    for row in sorted(known, key=lambda row: row["version"] or 0):
        schemas.add(_of_row(row, by_version), row["subject"], row["id"])


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as a registry lists it, checked."""
    number, text = row["id"], row["schema"]
    if not isinstance(number, int | str) or not isinstance(text, str):
        raise TypeError("a schema has an id and a text")
    subject, version = row.get("subject"), row.get("version")
    return {
        "id": number,
        "schema": text,
        "type": str(row.get("schemaType") or "AVRO").upper(),
        "subject": subject if isinstance(subject, str) else None,
        "version": version if isinstance(version, int) else None,
        "references": [each for each in row.get("references") or () if isinstance(each, dict)],
    }


def _of_row(row: Mapping[str, Any], every: Mapping[tuple[Any, Any], Mapping[str, Any]]) -> Schema:
    kind = row["type"].lower()

    def make() -> Decode:
        if kind not in ("protobuf", *_BY_TEXT):
            raise SchemaError("its type is none that is read")
        needed = _references(row, every, {})
        if kind == "protobuf":
            return protobuf({**needed, "schema.proto": row["schema"]}, None)
        return _BY_TEXT[kind](row["schema"], needed)

    return Schema(kind, f"{row['subject'] or 'schema'} (id {row['id']})", make)


def _references(
    row: Mapping[str, Any], every: Mapping[tuple[Any, Any], Mapping[str, Any]], known: dict[str, str], depth: int = 0
) -> dict[str, str]:
    """name -> text of each schema that one refers to, those that these need first, behind those that are known."""
    for each in row["references"]:
        name, subject, version = (each.get(part) for part in ("name", "subject", "version"))
        if name in known:
            continue
        found = every.get((subject, version)) if isinstance(subject, str) and isinstance(version, int) else None
        if found is None or not isinstance(name, str) or depth > _MOST_DEPTH:
            raise SchemaError("it refers to one that is not known")
        _references(found, every, known, depth + 1)
        known[name] = found["schema"]
    return known


def _read(file: Path, most: int) -> bytes:
    if file.stat().st_size > most:
        raise SchemaError(f"{file.name} has more than {most >> 20} MiB")
    return file.read_bytes()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SchemaError("it is no UTF-8 text") from None
