"""Other people's encoders of Kafka messages, and what our decoder should make of their instances."""

import datetime
import enum
import importlib.util
import io
import random
import uuid
from base64 import b64encode
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from dissectors.kafka.full import uuid_text
from dissectors.kafka.nested import DECODED, INNER, PRINCIPAL
from dissectors.redaction import REDACTED

LETTERS = "abcxyz-é"
RENAMED = {  # fields that a later release calls something else
    "generationid": "generationidormemberepoch",
    "acceptablerecoverylag": "acceptablerecoverylaglegacy",
}


def key(name: str) -> str:
    """A field's name, whatever the spelling: throttleTimeMs and throttle_time are one field."""
    return "".join(c for c in name.lower() if c.isalnum())


# --- kio -------------------------------------------------------------------------------------------------------------


def kio_messages() -> list[tuple[str, int, str]]:
    """(module, version, kind) of every request and response that kio knows, by the names of its files.

    To import its thousand modules takes seconds, and every worker of the tests asks.
    """
    spec = importlib.util.find_spec("kio.schema")
    assert spec is not None
    folder = Path(next(iter(spec.submodule_search_locations or ())))
    files = [file for kind in ("request", "response") for file in sorted(folder.glob(f"*/v*/{kind}.py"))]
    return [(file.parts[-3], int(file.parts[-2][1:]), file.stem) for file in files if "header" not in file.parts[-3]]


def kio_class(package: str, version: int, kind: str) -> type[Any]:
    module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
    name = "".join(part.capitalize() for part in package.split("_")) + kind.capitalize()
    return next(v for k, v in vars(module).items() if k.lower() == name.lower())


def kio_instance(cls: type[Any], rng: random.Random) -> Any:
    """A random instance: tagged fields are there or not, arrays have up to three elements, nulls where allowed."""
    values = {}
    for field in fields(cls):
        optional = field.default is not MISSING or field.default_factory is not MISSING
        if "tag" in field.metadata and optional and rng.random() < 0.4:
            continue
        values[field.name] = _kio_value(field.type, field.metadata.get("kafka_type"), rng, "tag" in field.metadata)
    return cls(**values)


def _kio_value(type_: Any, kafka_type: str | None, rng: random.Random, tagged: bool = False) -> Any:
    if get_origin(type_) is UnionType:
        inner = next(t for t in get_args(type_) if t is not type(None))
        if rng.random() < 0.3 and not tagged:
            return None
        return _kio_value(inner, kafka_type, rng)
    if get_origin(type_) is tuple:
        inner = get_args(type_)[0]
        if get_origin(inner) is UnionType:
            inner = next(t for t in get_args(inner) if t is not type(None))
        return tuple(_kio_value(inner, kafka_type, rng) for _ in range(rng.randrange(4)))
    if is_dataclass(type_):
        return kio_instance(type_, rng)  # type: ignore[arg-type]
    bits = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}.get(kafka_type or "")
    if bits:
        return rng.randrange(-(1 << (bits - 1)), 1 << (bits - 1))
    if kafka_type in ("uint16", "uint32"):
        return rng.randrange(1 << int(kafka_type[4:]))
    match kafka_type:
        case "string":
            return "".join(rng.choice(LETTERS) for _ in range(rng.choice((0, 1, 5, 130))))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 20, 200)))
        case "bool":
            return rng.random() < 0.5
        case "uuid":
            return uuid.UUID(bytes=rng.randbytes(16))
        case "float64":
            return rng.uniform(-1e9, 1e9)
        case "error_code":
            return rng.choice(list(type_))
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=rng.randrange(1 << 31))
        case "datetime_i64":
            return datetime.datetime.fromtimestamp(rng.randrange(1 << 31), datetime.UTC)
    raise NotImplementedError(f"{type_} {kafka_type}")


def kio_bytes(instance: Any) -> bytes:
    from kio.serial import entity_writer

    out = io.BytesIO()
    written = entity_writer(type(instance))(out, instance)
    return bytes(written) if isinstance(written, (bytes, bytearray)) else out.getvalue()


def kio_differences(theirs: Any, ours: Any, message: str, path: str = "") -> list[str]:
    """Where a decoded body is not what the instance says."""
    if is_dataclass(theirs):
        if not isinstance(ours, dict):
            return [f"{path}: {ours!r} is no struct"]
        mine = {key(name): (name, value) for name, value in ours.items()}
        wrong = []
        for field in fields(theirs):
            value = getattr(theirs, field.name)
            spellings = (key(field.name), key(field.name) + "ms", RENAMED.get(key(field.name), ""))
            name, got = mine.pop(next((s for s in spellings if s in mine), ""), ("", None))
            if not name:
                if not ("tag" in field.metadata and value == _default(field)):
                    wrong.append(f"{path}.{field.name}: not there, {value!r}")
                continue
            wrong += _value_differences(value, got, message, name, f"{path}.{name}")
        extra = [item for item in mine.values() if not item[0].endswith(DECODED) and item[0] not in (INNER, PRINCIPAL)]
        return wrong + [f"{path}.{name}: {value!r} was never sent" for name, value in extra]
    return _value_differences(theirs, ours, message, "", path)


def _default(field: Any) -> Any:
    return field.default_factory() if field.default is MISSING else field.default


def _value_differences(theirs: Any, ours: Any, message: str, name: str, path: str) -> list[str]:
    if is_dataclass(theirs):
        return kio_differences(theirs, ours, message, path)
    if isinstance(theirs, tuple):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return [f"{path}: {theirs!r} is not {ours!r}"]
        pairs = zip(theirs, ours, strict=True)
        return [w for i, (a, b) in enumerate(pairs) for w in _value_differences(a, b, message, name, f"{path}[{i}]")]
    if ours == REDACTED and theirs is not None:
        return []
    return [] if _plain(theirs, message, name, ours) == ours else [f"{path}: {theirs!r} is not {ours!r}"]


def _plain(value: Any, message: str, name: str, ours: Any) -> Any:
    """A value as our decoder shows it."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return uuid_text(value.bytes)
    if isinstance(value, (bytes, bytearray)):
        if isinstance(ours, dict) and ours["sizeInBytes"] == len(value):
            return ours
        return b64encode(value).decode()
    if value is None and ours == uuid_text(bytes(16)):
        return ours
    if value is None and ours == -1:
        return -1
    return value
