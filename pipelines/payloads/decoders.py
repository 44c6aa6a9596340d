"""What reads a value by a schema: Avro by fastavro, Protobuf by protobuf, JSON by the standard library.

A schema may be hostile, and so may a value: each reader gives a value of JSON, or raises MisfitError or LimitError.
What these say holds nothing of the value.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

Decode = Callable[[bytes, Sequence[int]], Any]
"""(value, indexes of the message within a Protobuf file) -> a value of JSON. Raises MisfitError."""

MOST_DEPTH = 64  # levels of a value
_DEEP = f"it has more than {MOST_DEPTH} levels"
_DIGITS = "it has a number of thousands of digits"
_MOST_BITS = 14_000  # of a number: Python writes those of up to 4,300 digits
_MOST_WITH_DECIMALS = 16 << 10  # bytes of a value: making digits takes time that grows with their square
_LONGEST_NUMBER = 64  # bytes; of Avro's have 10 at most
_MOST_FREE = 16  # parts of an Avro value that take no bytes
_MOST_BRANCHES = 1_000  # of a union
_MOST_PARTS = 100_000  # of a JSON Schema
_SECONDS = 60  # for protoc
_MOST_STEPS = 100_000  # of matching a pattern of a JSON Schema
_PACKAGES = {"fastavro": "Avro", "grpc_tools": "Protobuf's .proto files"}
_FIRST = (0,)  # message of a file


class SchemaError(ValueError):
    """A schema cannot be read."""


class LimitError(ValueError):
    """A value is larger or deeper than what is read."""


class MisfitError(ValueError):
    """A value is not what its schema says."""

    def __init__(self, reason: str, where: str = "") -> None:
        """where: the path of the field, as `ShownFields` has it; empty where it is the value itself, or not known."""
        super().__init__(f"at {where}: {reason}" if where else reason)


def _needs(package: str) -> None:
    if find_spec(package) is None:
        raise SchemaError(f"{_PACKAGES[package]} need the extra: pip install 'brokerscope[schemas]'")


def json_text(data: bytes, _: Sequence[int] = ()) -> Any:
    """A value that is JSON itself."""
    try:
        value = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise MisfitError("it is no JSON") from None
    except RecursionError:
        raise LimitError(_DEEP) from None
    except ValueError:
        raise LimitError(_DIGITS) from None
    return plain(value)


def json_schema(text: str, references: Mapping[str, str]) -> Decode:
    """A reader of JSON that must be valid by a JSON Schema. references: name -> schema of those that it names.

    Patterns are matched within a limit of steps, and nothing is fetched. Without the package all JSON is valid.
    """
    if find_spec("jsonschema_rs") is None:
        return json_text
    import jsonschema_rs

    def referred(uri: str) -> Any:
        return json.loads(next((text for name, text in references.items() if uri.endswith(f"/{name}")), ""))

    try:
        limit = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MOST_STEPS)
        parsed = json.loads(text)
        if _expanded(parsed, parsed, {}) > _MOST_PARTS:
            raise SchemaError(f"it has more than {_MOST_PARTS:,} parts, each reference counted as what it names")
        names_draft = (
            isinstance(parsed, dict) and "$schema" in parsed
        )  # else it is draft 7, which registries take it for
        of_draft = jsonschema_rs.validator_for if names_draft else jsonschema_rs.Draft7Validator
        validator = of_draft(parsed, retriever=referred, pattern_options=limit)
    except SchemaError:
        raise
    except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
        raise SchemaError(f"no JSON Schema: {_said(error)}") from None

    def decode(data: bytes, _: Sequence[int] = ()) -> Any:
        value = json_text(data)
        try:
            error = next(validator.iter_errors(value), None)
        except ValueError:
            raise LimitError("a text that is not checked: half of a character") from None
        if error is not None and type(error.kind).__name__.endswith("BacktrackLimitExceeded"):
            raise LimitError("a pattern of the schema takes too many steps")
        if error is not None:
            steps = error.schema_path
            named = (str(name) for before, name in itertools.pairwise(steps) if before == "properties")
            raise MisfitError(f"not what `{steps[-1] if steps else 'false'}` in the schema allows", ".".join(named))
        return value

    return decode


class _Bytes(io.BytesIO):
    """A value as fastavro's Python code reads it: numbers byte by byte, of which it would take any number."""

    _begun = 0  # bytes in a row, read one by one, that say that another follows

    def read(self, size: int | None = -1) -> bytes:
        """Bytes. Raises LimitError within a number that does not end."""
        data = super().read(size)
        if size == 1:
            self._begun = self._begun + 1 if data >= b"\x80" else 0
            if self._begun > _LONGEST_NUMBER:
                raise LimitError(_DIGITS)
        return data


def _expanded(part: Any, whole: Any, known: dict[int, int]) -> int:
    """The parts of a JSON Schema, where references to places within it count as what they name. known: of parts."""
    if not isinstance(part, dict | list):
        return 0
    if id(part) not in known:
        known[id(part)] = 0  # within itself
        count = 1 + sum(_expanded(each, whole, known) for each in (part.values() if isinstance(part, dict) else part))
        place = part.get("$ref") if isinstance(part, dict) else None
        if isinstance(place, str) and place.startswith("#"):
            target = whole
            for step in place[1:].split("/")[1:]:
                target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
            count += _expanded(target, whole, known)
        known[id(part)] = count
    return known[id(part)]


def avro(text: str, references: Mapping[str, str]) -> Decode:
    """A reader by an Avro schema. references: name -> schema of those that it names, in the order of their need."""
    _needs("fastavro")
    import fastavro
    from fastavro import _read_py as in_python
    from fastavro.schema import SchemaParseException, UnknownType

    def parse(names: dict[str, Any], hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
        texts = (*references.values(), text)
        return [fastavro.parse_schema(json.loads(each, object_hook=hook), named_schemas=names) for each in texts][-1]

    named: dict[str, Any] = {}
    try:
        parsed = parse(named)
        of_large = parse({}, _without_decimals)
        may_nest = _refers(parsed, named)
        if _free(parsed, named, {}) > _MOST_FREE:
            raise SchemaError(f"it has more than {_MOST_FREE} parts that take no bytes")
    except SchemaError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, SchemaParseException, UnknownType) as error:
        raise SchemaError(f"no Avro schema: {_said(error)}") from None

    # of a type that holds itself, a value of a megabyte has a million levels, which overflow the stack of compiled code
    fast = (in_python if may_nest else fastavro).schemaless_reader

    def decode(data: bytes, _: Sequence[int] = ()) -> Any:
        stream = _Bytes(data)
        by = parsed if len(data) <= _MOST_WITH_DECIMALS else of_large
        try:
            value = fast(stream, by, None, return_record_name=False)
        except Exception:  # whatever fastavro makes of bytes that are something else: its Python code tells where
            stream = _Bytes(data)
            try:
                value = in_python.schemaless_reader(stream, by, None, return_record_name=False)
            except RecursionError:
                raise LimitError(_DEEP) from None
            except LimitError:
                raise
            except Exception as error:
                raise _refusal(error, _path(error), f", at byte {stream.tell()}") from None
        if stream.tell() != len(data):
            raise MisfitError(f"{len(data) - stream.tell()} bytes are left behind what the schema says")
        return plain(value)

    def _path(error: BaseException) -> str:
        """The fields in which fastavro's Python code was when it raised an error."""
        steps, at = [], error.__traceback__
        while at is not None:
            field = at.tb_frame.f_locals.get("field")
            if at.tb_frame.f_code.co_name == "read_record" and isinstance(field, dict):
                steps.append(str(field["name"]))
            at = at.tb_next
        return ".".join(steps)

    return decode


def _without_decimals(part: dict[str, Any]) -> dict[str, Any]:
    """A part of an Avro schema, in which a decimal is the bytes that it is stored in."""
    return part if part.get("logicalType") != "decimal" else {**part, "logicalType": None}


def _refers(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether a schema refers to a type by its name: it may hold itself.

    Raises SchemaError for what a few bytes would make endless: lists of what takes no bytes, unions of thousands.
    """
    waiting, seen = [schema], set[str]()
    while waiting:
        now = waiting.pop()
        if isinstance(now, list):
            if len(now) > _MOST_BRANCHES:  # which fastavro goes through for each value, and each with the others
                raise SchemaError(f"it has a union of more than {_MOST_BRANCHES:,} branches")
            waiting += now
        elif isinstance(now, str):
            if now in named and now not in seen:
                seen.add(now)
                waiting.append(named[now])
        elif now.get("type") == "array":
            if not _takes_bytes(now["items"], named, seen=set()):
                raise SchemaError("it has a list of items that take no bytes")
            waiting.append(now["items"])
        elif now.get("type") == "map":
            waiting.append(now["values"])
        elif now.get("type") == "fixed" and not (isinstance(now["size"], int) and now["size"] >= 0):
            raise SchemaError("it has values of a size that is none")
        else:
            waiting += [field["type"] for field in now.get("fields", ())]
    return bool(seen)


def _takes_bytes(schema: Any, named: Mapping[str, Any], seen: set[str]) -> bool:
    """Whether every value takes a byte at least. seen: named types that are looked at already."""
    if isinstance(schema, list):
        return True  # its index in the union
    if isinstance(schema, str):
        if schema in named and schema not in seen:
            seen.add(schema)
            return _takes_bytes(named[schema], named, seen)
        return schema not in named and schema != "null"
    kind = schema.get("type")
    if kind == "record":
        return any(_takes_bytes(field["type"], named, seen) for field in schema["fields"])
    return kind != "null" and (kind != "fixed" or bool(schema["size"] > 0))


def _free(schema: Any, named: Mapping[str, Any], known: dict[str, int]) -> int:
    """The parts of a value that take no bytes, at most: each may be there a million times. known: of named types."""
    if isinstance(schema, list):
        return max((_free(each, named, known) for each in schema), default=0)
    name = schema if isinstance(schema, str) else schema.get("name", "")
    if name not in named:
        parts = () if isinstance(schema, str) else [schema[part] for part in ("items", "values") if part in schema]
        return int(schema == "null") + sum(_free(part, named, known) for part in parts)
    if name not in known:
        known[name] = 0  # within itself
        fields = [field["type"] for field in named[name].get("fields", ())]
        known[name] = sum(_free(field, named, known) for field in fields) or int(not _takes_bytes(name, named, set()))
    return known[name]


def protobuf(files: Sequence[Path] | Mapping[str, str], folder: Path | None) -> Decode:
    """A reader by .proto files: some of a folder, which may import others of it, or texts by name, the last the one.

    A text may also be a FileDescriptorProto in base64, as Confluent's client for Python registers it.
    """
    if isinstance(files, Mapping) and (described := _descriptors(list(files.values()))):
        return protobuf_set(described)
    _needs("grpc_tools")
    with tempfile.TemporaryDirectory() as room:
        if isinstance(files, Mapping):
            for name, text in files.items():
                try:
                    target = Path(room, name).resolve()
                    if Path(room).resolve() not in target.parents:
                        raise ValueError
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(text)
                except (OSError, ValueError):
                    raise SchemaError(f"{_cut(name)!r} is no name of a file, or no text is in it") from None
            wanted, base = [str(Path(room, list(files)[-1]))], room
        else:
            wanted, base = [str(file) for file in files], str(folder)
        made = Path(room, "made.desc")
        line = [sys.executable, "-m", "grpc_tools.protoc", f"-I{base}", "--include_imports",
                f"--descriptor_set_out={made}", *wanted]  # fmt: skip
        try:  # in a process of its own: what it says is caught, and so is what a hostile file does to it
            done = subprocess.run(line, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise SchemaError("protoc takes too long for it") from None
        if done.returncode != 0 or not made.exists():
            said = done.stderr.decode("utf-8", "replace").replace(f"{base}/", "").splitlines()
            first = next((line for line in said if ".proto:" in line and not line.startswith("W0000")), "")
            raise SchemaError(f"protoc does not take it: {_cut(first)}" if first else "protoc does not take it")
        return protobuf_set(made.read_bytes())


def _descriptors(texts: Sequence[str]) -> bytes | None:
    """A FileDescriptorSet of texts that are a FileDescriptorProto in base64; None where the last is none."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    made = descriptor_pb2.FileDescriptorSet()
    for text in reversed(texts):
        try:
            made.file.insert(0, descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True)))
        except (ValueError, DecodeError):
            break
    return made.SerializeToString() if made.file else None


def _well_known(name: str) -> bytes:
    """The descriptor of one of the files that come with Protobuf. Raises ImportError for any other."""
    if not re.fullmatch(r"google/protobuf/[a-z_]+\.proto", name):
        raise ImportError(name)
    module = import_module(f"google.protobuf.{Path(name).stem}_pb2")
    return bytes(module.DESCRIPTOR.serialized_pb)


def protobuf_set(data: bytes, root: str | None = None) -> Decode:
    """A reader by a FileDescriptorSet. root: the full name of the message; None where the last file has it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf.message import DecodeError

    listed, pool = descriptor_pb2.FileDescriptorSet(), descriptor_pool.DescriptorPool()
    try:
        listed.ParseFromString(data)
        told = {each.name for each in listed.file}
        for name in dict.fromkeys(name for each in listed.file for name in each.dependency if name not in told):
            pool.AddSerializedFile(_well_known(name))
        for each in listed.file:
            pool.Add(each)
        last = pool.FindFileByName(listed.file[-1].name)
        chosen = None if root is None else pool.FindMessageTypeByName(root)
    except (DecodeError, TypeError, KeyError, IndexError, ValueError, ImportError) as error:
        raise SchemaError(f"no set of descriptors: {_said(error)}") from None

    def decode(data: bytes, indexes: Sequence[int] = _FIRST) -> Any:
        among = list(last.message_types_by_name.values())
        found = chosen
        for index in () if chosen is not None else indexes or _FIRST:
            if not 0 <= index < len(among):
                raise MisfitError(f"its file has no message {'.'.join(map(str, indexes))}")
            found = among[index]
            among = list(found.nested_types)
        assert found is not None
        message = message_factory.GetMessageClass(found)()
        try:
            message.ParseFromString(data)
            value = json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
        except RecursionError:
            raise LimitError(_DEEP) from None
        except DecodeError:
            raise MisfitError(f"its bytes are no {found.full_name}") from None
        except (json_format.Error, TypeError, ValueError):
            raise LimitError("it has what Protobuf's JSON does not have") from None
        return plain(value)

    return decode


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it: times in ISO 8601, decimals as text, bytes in base64. Raises LimitError."""
    if depth > MOST_DEPTH:
        raise LimitError(_DEEP)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise LimitError(_DIGITS)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID | timedelta):
        return str(value)
    return str(value)


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (EOFError, "it ends too early"),
    (IndexError, "a branch of a union, or a symbol, that the schema does not have"),
    (UnicodeDecodeError, "a text that is no UTF-8"),
)


def _refusal(error: Exception, where: str, at: str) -> MisfitError | LimitError:
    """What is raised for an error of fastavro, which may quote the value."""
    if isinstance(error, ValueError | ArithmeticError) and not isinstance(error, UnicodeDecodeError):
        return LimitError("it has a time or number beyond what Python has")
    reasons = (reason for kind, reason in _REASONS if isinstance(error, kind))
    return MisfitError(next(reasons, "bytes that are no value of its type") + at, where)


def _said(error: BaseException) -> str:
    """What an error says, in a line of bounded length."""
    return _cut(" ".join(str(error).split()) or type(error).__name__)


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"
