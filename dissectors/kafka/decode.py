"""Frame -> message: the headers, and which decoder reads the body.

    request   size 4 | api key 2 | api version 2 | correlation id 4 | client id 2 + n | tags (flexible versions) | body
    response  size 4 | correlation id 4 | tags (flexible versions, not ApiVersions) | body

The client id keeps its two-byte length in flexible versions too. ControlledShutdown v0 has no client id.
Sources: RequestHeader and ResponseHeader of the schemas, KIP-482, KIP-511.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import Any

from dissectors.kafka import schema
from dissectors.kafka.errors import is_known
from dissectors.kafka.full import ENDS_EARLY, NOT_DECODED, UNKNOWN_TAGS, Full, full
from dissectors.kafka.sense import LONGEST_THROTTLE
from dissectors.kafka.skim import Skim, Skimmer, skimmer
from dissectors.kafka.writer import skip_tags, varint

REQUEST_HEAD = struct.Struct(">ihhih")  # size, key, version, correlation id, length of the client id
RESPONSE_HEAD = struct.Struct(">ii")  # size, correlation id

PRODUCE, FETCH, CONTROLLED_SHUTDOWN, OFFSET_COMMIT = 0, 1, 7, 8
JOIN_GROUP, SASL_HANDSHAKE, API_VERSIONS = 11, 17, 18
ENVELOPE, FETCH_SNAPSHOT, SHARE_FETCH = 58, 59, 78
UNSUPPORTED_VERSION = 35


def is_sensible(value: Any, name: str = "") -> bool:
    """Whether a decoded body holds what brokers send: error codes that exist, times that make sense, text."""
    if isinstance(value, dict):
        return UNKNOWN_TAGS not in value and all(is_sensible(v, k) for k, v in value.items())
    if isinstance(value, list):
        return all(is_sensible(v, name) for v in value)
    if isinstance(value, str):
        return value.isprintable() or name.lower().endswith("message")
    if name.lower().endswith("errorcode"):
        return is_known(value)
    if name == "throttleTimeMs":
        return bool(0 <= value <= LONGEST_THROTTLE)
    return True


def within(skim: Skimmer, data: bytes, start: int, end: int) -> Skim:
    """Skim a message that does not fit into its frame: nothing that lies beyond `end` is looked at."""
    return skim(data[:end], start, end)


class Spoken:
    """One version of one API: its names and decoders. Decoders are compiled when first used."""

    def __init__(self, key: int, version: int) -> None:
        api = schema.apis().get(key)
        self.key = key
        self.version = version
        self.api = api.name if api else f"Api{key}"
        self.known = api is not None and version in api.versions
        self.removed = api is not None and version in api.removed  # refused since Kafka 4.0
        self.has_client_id = (key, version) != (CONTROLLED_SHUTDOWN, 0)
        request = schema.message(f"{self.api}Request") if api else None
        self.request_tags = request is not None and version in request.flexible
        self.response_tags = self.request_tags and key != API_VERSIONS

    def __reduce__(self) -> tuple[Any, ...]:
        return spoken, (self.key, self.version)

    @cached_property
    def skim_request(self) -> Skimmer:
        return skimmer(f"{self.api}Request", self.version)

    @cached_property
    def skim_response(self) -> Skimmer:
        return skimmer(f"{self.api}Response", self.version)

    def full_request(self, data: bytes, start: int, end: int) -> Full:
        """The body of a request."""
        return full(f"{self.api}Request", self.version, data, start, end)

    def full_response(self, data: bytes, start: int, end: int) -> Full:
        """The body of a response."""
        return full(f"{self.api}Response", self.version, data, start, end)


_SPOKEN: dict[tuple[int, int], Spoken] = {}


def spoken(key: int, version: int) -> Spoken:
    """The one object for a version of an API."""
    found = _SPOKEN.get((key, version))
    if found is None:
        found = _SPOKEN[key, version] = Spoken(key, version)
    return found


def after_tags(data: bytes, at: int) -> int:
    """The index after a header's tagged fields."""
    count = data[at]
    if not count:
        return at + 1
    at += 1
    if count > 127:
        count, at = varint(data, at, count)
    return skip_tags(data, at, count)


__all__ = ["ENDS_EARLY", "NOT_DECODED", "Full", "Skim", "Spoken", "after_tags", "full", "spoken"]
