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
from dissectors.kafka.body_summary import BodySummary, Summariser, summariser
from dissectors.kafka.body_validation import is_sensible
from dissectors.kafka.full import Full, full
from dissectors.kafka.writer import LONGEST, skip_tags
from dissectors.wire.varint import unsigned

REQUEST_HEAD = struct.Struct(">ihhih")  # size, key, version, correlation id, length of the client id
RESPONSE_HEAD = struct.Struct(">ii")  # size, correlation id

PRODUCE, FETCH, OFFSET_COMMIT = 0, 1, 8
JOIN_GROUP, SASL_HANDSHAKE, API_VERSIONS, END_TXN = 11, 17, 18, 26
ENVELOPE, FETCH_SNAPSHOT, SHARE_FETCH, SHARE_ACKNOWLEDGE = 58, 59, 78, 79
HEARTBEATS = frozenset({68, 76, 88})  # of consumer, share and streams groups
UNSUPPORTED_VERSION = 35
NO_CLIENT_ID = (7, 0)
"""Key and version of the one request that has no client id: ControlledShutdown v0."""


def within(summary: Summariser, data: bytes, start: int, end: int) -> BodySummary:
    """Summarise a message that does not fit into its frame: nothing that lies beyond `end` is looked at."""
    return summary(data[:end], start, end)


class ApiVersion:
    """One version of one API: its names and decoders. Decoders are compiled when first used."""

    def __init__(self, key: int, version: int) -> None:
        api = schema.apis().get(key)
        self.key = key
        self.version = version
        self.name = api.name if api else f"Api{key}"
        self.known = api is not None and version in api.versions
        self.removed = api is not None and version in api.removed  # refused since Kafka 4.0
        self.has_client_id = (key, version) != NO_CLIENT_ID
        request = schema.message(f"{self.name}Request") if api else None
        self.request_tags = request is not None and version in request.flexible
        self.response_tags = self.request_tags and key != API_VERSIONS

    def __reduce__(self) -> tuple[Any, ...]:
        return api_version, (self.key, self.version)

    @cached_property
    def summarise_request(self) -> Summariser:
        return summariser(f"{self.name}Request", self.version)

    @cached_property
    def summarise_response(self) -> Summariser:
        return summariser(f"{self.name}Response", self.version)

    def full_request(self, data: bytes, start: int, end: int) -> Full:
        """The body of a request."""
        return full(f"{self.name}Request", self.version, data, start, end)

    def full_response(self, data: bytes, start: int, end: int) -> Full:
        """The body of a response."""
        return full(f"{self.name}Response", self.version, data, start, end)

    def is_response(self, data: bytes, start: int, end: int) -> bool:
        """Whether data[start:end] is the body of a sensible response, or, where data ends before, may begin one."""
        return is_sensible(f"{self.name}Response", self.version, data, start, end)

    def is_request(self, data: bytes, start: int, end: int) -> bool:
        """The same of a request."""
        return is_sensible(f"{self.name}Request", self.version, data, start, end)


_API_VERSIONS: dict[tuple[int, int], ApiVersion] = {}


def api_version(key: int, version: int) -> ApiVersion:
    """The one object for a version of an API."""
    found = _API_VERSIONS.get((key, version))
    if found is None:
        found = _API_VERSIONS[key, version] = ApiVersion(key, version)
    return found


def after_tags(data: bytes, at: int) -> int:
    """The index after a header's tagged fields."""
    count, at = unsigned(data, at, LONGEST)
    return skip_tags(data, at, count)
