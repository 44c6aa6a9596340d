"""Frame -> message: the headers, and which decoder reads the body.

    request   size 4 | api key 2 | api version 2 | correlation id 4 | client id 2 + n | tags (flexible versions) | body
    response  size 4 | correlation id 4 | tags (flexible versions, not ApiVersions) | body

The client id keeps its two-byte length in flexible versions too. ControlledShutdown v0 has no client id.
Sources: RequestHeader and ResponseHeader of the schemas, KIP-482, KIP-511.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cached_property
from typing import Any

from dissectors.kafka import schema
from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.full import Full, full
from dissectors.kafka.walk import walker
from dissectors.kafka.words import MessageWords, message_words

REQUEST_HEAD = struct.Struct(">ihhih")  # size, key, version, correlation id, length of the client id
RESPONSE_HEAD = struct.Struct(">ii")  # size, correlation id

PRODUCE, FETCH, OFFSET_COMMIT = 0, 1, 8
JOIN_GROUP, SASL_HANDSHAKE, API_VERSIONS, END_TXN = 11, 17, 18, 26
ENVELOPE, FETCH_SNAPSHOT, SHARE_FETCH, SHARE_ACKNOWLEDGE = 58, 59, 78, 79
HEARTBEATS = frozenset({68, 76, 88})  # of consumer, share and streams groups
UNSUPPORTED_VERSION = 35
NO_CLIENT_ID = (7, 0)
"""Key and version of the one request that has no client id: ControlledShutdown v0."""


NoteBody = Callable[[bytes, int, int], BodyNotes]
"""(data, start, end) -> notes of the body in data[start:end]: see `Walker.note`. Bad bytes raise nothing."""


class ApiVersion:
    """One version of one API: its names, and readers of its bodies, which are made when first used."""

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
    def request_words(self) -> MessageWords:
        """The words by which a walker reads the body of a request."""
        return message_words(f"{self.name}Request", self.version)

    @cached_property
    def response_words(self) -> MessageWords:
        """The words by which a walker reads the body of a response."""
        return message_words(f"{self.name}Response", self.version)

    def request_body(self, data: bytes, at: int) -> int:
        """The index of a request's body; at: index after its client id. Raises ReadError."""
        return after_tags(data, at) if self.request_tags else at

    def response_body(self, data: bytes, at: int) -> int:
        """The index of a response's body; at: index after its correlation id. Raises ReadError."""
        return after_tags(data, at) if self.response_tags else at

    def note_request(self, data: bytes, start: int, end: int) -> BodyNotes:
        """Notes of the body of a request, valid until the next body is read."""
        return walker().note(self.request_words, data, start, end)

    def note_response(self, data: bytes, start: int, end: int) -> BodyNotes:
        """Notes of the body of a response, valid until the next body is read."""
        return walker().note(self.response_words, data, start, end)

    def full_request(self, data: bytes, start: int, end: int) -> Full:
        """The body of a request."""
        return full(f"{self.name}Request", self.version, data, start, end)

    def full_response(self, data: bytes, start: int, end: int) -> Full:
        """The body of a response."""
        return full(f"{self.name}Response", self.version, data, start, end)

    def is_response(self, data: bytes, start: int, end: int) -> bool:
        """Whether data[start:end] is the body of a sensible response, or, where data ends before, may begin one."""
        return walker().makes_sense(self.response_words, data, start, end)

    def is_request(self, data: bytes, start: int, end: int) -> bool:
        """Whether data[start:end] is the body of a sensible request, or, where data ends before, may begin one."""
        return walker().makes_sense(self.request_words, data, start, end)


_API_VERSIONS: dict[tuple[int, int], ApiVersion] = {}


def api_version(key: int, version: int) -> ApiVersion:
    """The one object for a version of an API."""
    found = _API_VERSIONS.get((key, version))
    if found is None:
        found = _API_VERSIONS[key, version] = ApiVersion(key, version)
    return found


def after_tags(data: bytes, at: int) -> int:
    """The index after a header's tagged fields. Raises ReadError."""
    return walker().after_tags(data, at)
