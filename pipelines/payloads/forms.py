"""What a key or a value looks like, by its bytes alone: the envelopes of registries, and formats that tell themselves.

    Confluent   0x00 | u32 schema id | [message indexes] | data       indexes: zig-zag varints, of Protobuf only
    Apicurio    0x00 | u64 global id | data
    AWS Glue    0x03 | 0x00 or 0x05 (zlib) | UUID of 16 bytes | data

Sources: Confluent, "Wire format"; Apicurio Registry, "Configuring Kafka serializers/deserializers"; aws-glue-schema-
registry, GlueSchemaRegistryDataSerializer.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple
from uuid import UUID

from dissectors.wire.reader import VarintError
from dissectors.wire.varint import zigzag
from pipelines.payloads.decoders import MisfitError, plain

_MAGIC, _GLUE, _PLAIN, _ZLIB = 0, 3, 0, 5
_MOST_INFLATED = 8 << 20  # bytes of a value
_MOST_INDEXES, _MOST_BYTES = 32, 5  # of a message's place; of each, as a 32-bit number has


class Envelope(NamedTuple):
    """What stands before a value that a registry knows the schema of."""

    id: int | str
    data: bytes  # behind the id


def envelopes(value: bytes) -> Iterator[Envelope]:
    """The envelopes that a value may have, the usual one first."""
    if len(value) >= 5 and value[0] == _MAGIC:
        yield Envelope(int.from_bytes(value[1:5], "big"), value[5:])
    if len(value) >= 9 and value[0] == _MAGIC:
        yield Envelope(int.from_bytes(value[1:9], "big"), value[9:])
    if len(value) >= 18 and value[0] == _GLUE and value[1] in (_PLAIN, _ZLIB):
        data = value[18:] if value[1] == _PLAIN else _inflated(value[18:])
        if data is not None:
            yield Envelope(str(UUID(bytes=value[2:18])), data)


def message_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """(place of the message in its file, what follows): a count and as many indexes. Raises MisfitError."""
    try:
        count, at = zigzag(data, 0, _MOST_BYTES)
        if not 0 <= count <= _MOST_INDEXES:
            raise MisfitError(f"{count} message indexes")
        indexes = []
        for _ in range(count):
            index, at = zigzag(data, at, _MOST_BYTES)
            indexes.append(index)
    except (IndexError, VarintError):
        raise MisfitError("message indexes end too early") from None
    return tuple(indexes) or (0,), data[at:]


def guessed(value: bytes) -> tuple[str, Any] | None:
    """(format, value) of bytes that tell what they are: JSON or text for certain, MessagePack or CBOR likely."""
    for name, read in _FORMATS:
        try:
            return name, read(value)
        except (ValueError, TypeError, RecursionError, OverflowError):
            continue
    return None


def _json(value: bytes) -> Any:
    if value[:1] not in b'{["tfn-0123456789':
        raise ValueError
    return plain(json.loads(value))


def _string(value: bytes) -> Any:
    text = value.decode()
    if not all(each.isprintable() or each in "\t\r\n" for each in text):
        raise ValueError
    return text


def _packed(package: str, load: Callable[[Any, bytes], Any]) -> Callable[[bytes], Any]:
    """A reader of a binary format, of maps and lists only: nearly any byte is a number in these formats."""

    def read(value: bytes) -> Any:
        if find_spec(package) is None:
            raise ValueError
        try:
            made = load(__import__(package), value)
        except Exception as error:  # whatever the library makes of other bytes
            raise ValueError from error
        if not isinstance(made, dict | list) or not made or len(value) < 3:
            raise ValueError
        if isinstance(made, dict) and not all(isinstance(key, str) for key in made):
            raise ValueError
        return plain(made)

    return read


def _cbor(library: Any, value: bytes) -> Any:
    import io

    stream = io.BytesIO(value)
    made = library.load(stream)
    if stream.read(1):
        raise ValueError
    return made


_FORMATS: tuple[tuple[str, Callable[[bytes], Any]], ...] = (
    ("json", _json),
    ("text", _string),
    ("likely msgpack", _packed("msgpack", lambda library, value: library.unpackb(value, strict_map_key=True))),
    ("likely cbor", _packed("cbor2", _cbor)),
)


def _inflated(data: bytes) -> bytes | None:
    """What zlib's data hold; None for other data, or too many bytes."""
    try:
        reader = zlib.decompressobj()
        made = reader.decompress(data, _MOST_INFLATED)
    except zlib.error:
        return None
    return made if reader.eof else None
