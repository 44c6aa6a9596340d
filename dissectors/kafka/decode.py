"""Frame -> message: the headers, and which decoder reads the body.

    request   size 4 | api key 2 | api version 2 | correlation id 4 | client id 2 + n | tags (flexible versions) | body
    response  size 4 | correlation id 4 | tags (flexible versions, not ApiVersions) | body

The client id keeps its two-byte length in flexible versions too. ControlledShutdown v0 has no client id.
Sources: RequestHeader and ResponseHeader of the schemas, KIP-482, KIP-511.
"""

from __future__ import annotations

import struct
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.kafka import schema
from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.full import Full, full
from dissectors.kafka.plan import message_words
from dissectors.kafka.walk import Walker, walker
from dissectors.kafka.words import NO_MESSAGE, MessageWords

PRODUCE, FETCH, OFFSET_COMMIT, CONTROLLED_SHUTDOWN = 0, 1, 8, 7
LIST_OFFSETS, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT = 2, 22, 28
FIND_COORDINATOR, JOIN_GROUP, SASL_HANDSHAKE, API_VERSIONS, END_TXN = 10, 11, 17, 18, 26
ENVELOPE, FETCH_SNAPSHOT, SHARE_FETCH, SHARE_ACKNOWLEDGE = 58, 59, 78, 79
UNSUPPORTED_VERSION = 35

REQUEST_HEAD = struct.Struct(">ihhih")  # size, key, version, correlation id, length of the client id
HEARTBEATS = frozenset({68, 76, 88})  # of consumer, share and streams groups
NO_CLIENT_ID = (CONTROLLED_SHUTDOWN, 0)
"""Key and version of the one request that has no client id."""
SPECIAL = frozenset({SASL_HANDSHAKE, API_VERSIONS, END_TXN, SHARE_FETCH, *HEARTBEATS})
"""APIs whose exchanges say more than those of others: see special.py."""
CHANGING = frozenset(
    {OFFSET_COMMIT, 19, 20, 21, 27, 30, 31, 33, 34, 37, 38, 39, 40, 42, 43, 44, 45, 47, 49, 51, 57, 64, 80, 81}
) | {91, 92, 94}
"""APIs by which administrators change a cluster: see changes.py."""
EVENTFUL = CHANGING | frozenset(
    {3, FIND_COORDINATOR, JOIN_GROUP, 13, SASL_HANDSHAKE, INIT_PRODUCER_ID, 24, 25, END_TXN, TXN_OFFSET_COMMIT}
    | {32, 36, 48, 60, SHARE_FETCH, SHARE_ACKNOWLEDGE, *HEARTBEATS}
)
"""APIs whose exchanges are looked at for events, one by one: see events.py."""


@final
@compiled
class ApiVersion:
    """One version of one API: its names, and readers of its bodies, which are made when first used.

    known: the tables have it. special: see SPECIAL; eventful: see EVENTFUL
    request_tags, response_tags: its headers end in tagged fields
    """

    key: cython.int
    version: cython.int
    name: str
    known: cython.bint
    special: cython.bint
    eventful: cython.bint
    has_client_id: cython.bint
    request_tags: cython.bint
    response_tags: cython.bint
    _request_words: MessageWords
    _response_words: MessageWords
    _request_positions: MessageWords
    _response_positions: MessageWords

    def __init__(self, key: cython.int, version: cython.int) -> None:
        api = schema.apis().get(key)
        request = schema.message(f"{api.name}Request") if api else None
        self.key = key
        self.version = version
        self.name = api.name if api else f"Api{key}"
        self.known = api is not None and version in api.versions
        self.special = key in SPECIAL
        self.eventful = key in EVENTFUL
        self.has_client_id = (key, version) != NO_CLIENT_ID
        self.request_tags = request is not None and version in request.flexible
        self.response_tags = self.request_tags and key != API_VERSIONS
        self._request_words = self._response_words = NO_MESSAGE
        self._request_positions = self._response_positions = NO_MESSAGE

    def __reduce__(self) -> tuple[Any, ...]:
        return api_version, (self.key, self.version)

    @compiled
    def request_words(self) -> MessageWords:
        """The words by which a walker reads the body of a request."""
        if self._request_words is NO_MESSAGE:
            self._request_words = message_words(f"{self.name}Request", self.version)
        return self._request_words

    @compiled
    def response_words(self) -> MessageWords:
        """The words by which a walker reads the body of a response."""
        if self._response_words is NO_MESSAGE:
            self._response_words = message_words(f"{self.name}Response", self.version)
        return self._response_words

    @compiled
    def note_request(self, walker: Walker, data: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> BodyNotes:
        """Notes of the body of a request. at: index after its client id. Raises ReadError where no body begins."""
        words: MessageWords
        if walker.positions:
            if self._request_positions is NO_MESSAGE:
                self._request_positions = message_words(f"{self.name}Request", self.version, positions=True)
            words = self._request_positions
        else:
            words = self.request_words()
        return walker.note(words, data, walker.after_tags(data, at) if self.request_tags else at, end)

    @compiled
    def note_response(self, walker: Walker, data: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> BodyNotes:
        """Notes of the body of a response. at: index after its correlation id. Raises ReadError likewise."""
        words: MessageWords
        if walker.positions:
            if self._response_positions is NO_MESSAGE:
                self._response_positions = message_words(f"{self.name}Response", self.version, positions=True)
            words = self._response_positions
        else:
            words = self.response_words()
        return walker.note(words, data, walker.after_tags(data, at) if self.response_tags else at, end)

    def request_body(self, data: bytes, at: int) -> int:
        """The index of a request's body; at: index after its client id. Raises ReadError."""
        return after_tags(data, at) if self.request_tags else at

    def response_body(self, data: bytes, at: int) -> int:
        """The index of a response's body; at: index after its correlation id. Raises ReadError."""
        return after_tags(data, at) if self.response_tags else at

    def full_request(self, data: bytes, start: int, end: int) -> Full:
        """The body of a request."""
        return full(f"{self.name}Request", self.version, data, start, end)

    def full_response(self, data: bytes, start: int, end: int) -> Full:
        """The body of a response."""
        return full(f"{self.name}Response", self.version, data, start, end)

    def is_response(self, data: bytes, start: int, end: int) -> bool:
        """Whether data[start:end] is the body of a sensible response, or, where data ends before, may begin one."""
        return walker().makes_sense(self.response_words(), data, start, end)

    def is_request(self, data: bytes, start: int, end: int) -> bool:
        """Whether data[start:end] is the body of a sensible request, or, where data ends before, may begin one."""
        return walker().makes_sense(self.request_words(), data, start, end)


_API_VERSIONS: dict[int, ApiVersion] = {}


@compiled
def api_version(key: cython.int, version: cython.int) -> ApiVersion:
    """The one object for a version of an API."""
    number: cython.int = key << 16 | (version & 0xFFFF)
    found = _API_VERSIONS.get(number)
    if found is None:
        found = _API_VERSIONS[number] = ApiVersion(key, version)
    return found


def after_tags(data: bytes, at: int) -> int:
    """The index after a header's tagged fields. Raises ReadError."""
    return walker().after_tags(data, at)
