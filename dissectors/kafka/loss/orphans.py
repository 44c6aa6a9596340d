"""Answers whose requests were not captured: what is known of them.

A response does not say what it answers. Two kinds of evidence do:

    the bytes    they are a sensible answer to one API only, of all that Kafka has
    the hole     they are a sensible answer to one API only of those that this client speaks here, and a hole in its
                 bytes is as long as its requests to that API usually are

Where neither speaks, nothing is claimed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from dissectors.kafka import schema
from dissectors.kafka.decode import ApiVersion, after_tags, api_version
from dissectors.kafka.pending import KafkaRequest, new_request
from dissectors.kafka.request_sizes import RequestSizes
from dissectors.kafka.walk import walker
from dissectors.kafka.words import MessageWords
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import ORPHAN
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import SERVER
from dissectors.wire.reader import ReadError

_HELD, _HELD_BYTES = 64, 4 << 20  # of one connection: each costs a try of every decoder
_LARGEST = 1 << 18
_AGE = attrgetter("key", "version")

_Conversation = Any  # a KafkaConversation, whose module imports this one


class Orphan(NamedTuple):
    """An answer that waits for the end of its connection: by then more of what the client speaks is known."""

    frame: Frame  # with a buffer of its own
    correlation_id: int
    early: bool  # it came before any answer to a request of the capture


class KafkaOrphans:
    """The unexplained answers of one connection."""

    __slots__ = ("_held", "_size")

    def __init__(self) -> None:
        self._held: list[Orphan] = []  # oldest first
        self._size = 0  # bytes of their frames

    def hold(self, frame: Frame, correlation_id: int, early: bool) -> bool:
        """Keep an answer for later, where there is room."""
        size = frame.size
        if len(self._held) == _HELD or size > _LARGEST or self._size + size > _HELD_BYTES:
            return False
        self._size += size
        self._held.append(Orphan(frame.alone(), correlation_id, early))
        return True

    def release(self) -> list[Orphan]:
        """Return all, oldest first; none is kept afterwards."""
        held, self._held, self._size = self._held, [], 0
        return held


def explained(conversation: _Conversation, frame: Frame, correlation_id: int, early: bool) -> KafkaRequest | None:
    """What is known of the request of an answer; None where that is nothing, and the answer is reported."""
    used, holes = conversation.used, conversation.holes_of_client
    api = explain(frame, used, holes)
    if api is None and (used.apis or holes) and not early:
        report(conversation, frame, correlation_id)
        return None
    ids = list(conversation.clients.texts.values())
    call = new_request(None, api, correlation_id, ids[0] if len(ids) == 1 else None)
    if api is None:
        conversation.write_unread(frame, call)
        _report_batches(conversation, frame, correlation_id, frame)
        return None
    if api not in used.apis:
        call.version = ABSENT  # the API is sure, the version is not
    return call


def report(conversation: _Conversation, frame: Frame, correlation_id: int) -> None:
    """Report an answer of whose request nothing is known."""
    message = f"An answer with correlation id {correlation_id}, whose request was not captured"
    conversation.finding_at(frame, ORPHAN, message, correlation_id=correlation_id)
    _report_batches(conversation, frame, correlation_id, None)


def _report_batches(conversation: _Conversation, frame: Frame, correlation_id: int, exchange: Frame | None) -> None:
    """Write the batches in an answer to a request that was not captured. exchange: the frame, if it has a row."""
    found = conversation.recovery().found(frame, frame.start + 8)
    if found:
        lost = conversation.precedents.of(SERVER, frame.offset).lost_request(correlation_id)
        conversation.recovery().report(SERVER, found, lost, exchange)


def explain(frame: Frame, used: RequestSizes, holes: list[int]) -> ApiVersion | None:
    """The API and version that the frame answers; None where nothing is claimed.

    holes: how many bytes in a row of what the client sent are missing. A hole that is used as evidence is taken out.
    """
    if not frame.complete:
        return None
    fits = _readings(bytes(frame.data[frame.start + 8 : frame.start + frame.size]))
    if len({api.key for api in fits}) == 1:
        used_here = [api for api in fits if api in used.apis]
        return used_here[0] if used_here else fits[-1]
    fits = [api for api in fits if api in used.apis]
    if len(fits) == 1:
        size = next((size for size in holes if used.usual(fits[0], size)), None)
        if size is not None:
            holes.remove(size)
            return fits[0]
    return None


class _Responses(NamedTuple):
    """Responses whose headers are alike: the words of their bodies, and the versions that are read by each."""

    words: list[MessageWords]
    versions: list[list[ApiVersion]]


@cache
def _everything() -> tuple[_Responses, _Responses]:
    """All responses: those whose header has no tagged fields, and those whose header has."""
    untagged, tagged = found = _Responses([], []), _Responses([], [])
    places: dict[tuple[bool, bytes], int] = {}
    for api in schema.apis().values():
        for version in api.versions.each():
            each = api_version(api.key, version)
            words, versions = tagged if each.response_tags else untagged
            place = places.setdefault((each.response_tags, bytes(each.response_words().words)), len(words))
            if place == len(words):
                words.append(each.response_words())
                versions.append([])
            versions[place].append(each)
    return found


@lru_cache(maxsize=4096)
def _readings(body: bytes) -> list[ApiVersion]:
    """The versions to which this can be the answer; `body` follows the correlation id. Short answers repeat often."""
    starts = [0]
    with suppress(ReadError):
        starts.append(after_tags(body, 0))
    fits: list[ApiVersion] = []
    for start, (words, versions) in zip(starts, _everything(), strict=False):
        for place in walker().fitting(words, body, start, len(body)):
            fits += versions[place]
    return sorted(fits, key=_AGE)
