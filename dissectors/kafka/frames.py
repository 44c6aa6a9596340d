"""Where one frame ends and where, after a loss, the next begins.

Every frame is a 4-byte big-endian size and so many bytes. A request goes on with a key, a version, a correlation id and
a client id; of a response only the correlation id is known to be there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from dissectors.inbox import INVALID, MORE, Inbox
from dissectors.kafka.decode import (
    ENDS_EARLY,
    NOT_DECODED,
    REQUEST_HEAD,
    Spoken,
    after_tags,
    full,
    is_sensible,
    spoken,
)
from dissectors.kafka.match import Waiting
from dissectors.tcp.chunk import CLIENT

HEAD = REQUEST_HEAD.size  # 14
MAX_FRAME = 256 << 20
HIGHEST_KEY, HIGHEST_VERSION = 999, 99  # higher ones will not come in the life of this code
_NO_CLIENT_ID = (7, 0)  # ControlledShutdown v0
_PROVEN = 1 << 20  # up to this size a frame found again is decoded before it is believed
_SAMPLE = 1 << 12  # of a larger one so much is looked at
_IN_A_ROW = 3  # frames that lead from one to the next are no chance
_MOST_IDS = 128  # correlation ids looked for at once
_APPENDED = 8  # bytes that some clients write after a body
_BACK, _AHEAD = 64, 1 << 24  # how far from the last correlation id the next may be: a client object hands them out
# before it sends, and for all its connections

# size 8 to 256 MiB | key 0-94 | version 0-31 | correlation id | length of the client id: below 256, or -1
_REQUEST = re.compile(
    rb"(?=(?!\x00\x00\x00[\x00-\x07])[\x00-\x0f][\x00-\xff]{3}\x00[\x00-\x5e]\x00[\x00-\x1f][\x00-\xff]{4}"
    rb"(?:\x00[\x00-\xff]|\xff\xff))"
)
_NOT_TEXT = re.compile(rb"[\x00-\x1f\x7f]")


def measure_request(buf: bytes, pos: int, end: int, limit: int, raw: bool) -> int:
    """Size of the request at buf[pos]. With `raw` it may be a bare SASL token."""
    have = end - pos
    if have < 4:
        return MORE
    if have >= HEAD and not raw:
        size, key, version, _, client = REQUEST_HEAD.unpack_from(buf, pos)
        fits = -1 <= client <= size - 10 or (key, version) == _NO_CLIENT_ID
        if 8 <= size <= limit and 0 <= key <= HIGHEST_KEY and 0 <= version <= HIGHEST_VERSION:
            return 4 + size if fits or size < 10 else INVALID
        return INVALID
    size = int.from_bytes(buf[pos : pos + 4], "big")
    if size > limit or (size < 8 and not raw):
        return INVALID
    if raw:
        return 4 + size
    if have < min(HEAD, 4 + size):
        return MORE
    key, version = (buf[pos + 4] << 8) | buf[pos + 5], (buf[pos + 6] << 8) | buf[pos + 7]
    return 4 + size if key <= HIGHEST_KEY and version <= HIGHEST_VERSION else INVALID


def measure_response(buf: bytes, pos: int, end: int, limit: int, raw: bool) -> int:
    """Size of the response at buf[pos]."""
    if end - pos < 4:
        return MORE
    size = int.from_bytes(buf[pos : pos + 4], "big")
    if size > limit or (size < 4 and not raw):
        return INVALID
    return 4 + size


def plausible_request(buf: bytes, pos: int, end: int) -> bool:
    """Whether buf[pos:end] begins with a request that the tables know; proven by its body where no client id speaks."""
    if end - pos < HEAD:
        return False
    size, key, version, _, client = REQUEST_HEAD.unpack_from(buf, pos)
    said = spoken(key, version) if 0 <= key <= HIGHEST_KEY and 0 <= version <= HIGHEST_VERSION else None
    if said is None or not said.known or not 8 <= size <= MAX_FRAME:
        return False
    if not said.has_client_id or client <= 0:
        return client >= -1 and pos + 4 + size <= end and decodes_request(said, buf, pos)
    if client > size - 10:
        return False
    return is_text(buf[pos + HEAD : pos + HEAD + client], cut=pos + HEAD + client > end)


def is_text(raw: bytes, cut: bool = False) -> bool:
    """Whether bytes look like what people call a client; with `cut` the last character may be incomplete."""
    if _NOT_TEXT.search(raw):
        return False
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return cut and error.end == len(raw) and error.start > len(raw) - 4
    return True


def decodes_request(said: Spoken, buf: bytes, pos: int) -> bool:
    """Whether the whole request at buf[pos] is what its header says; some clients append a few bytes."""
    size, _, _, _, client = REQUEST_HEAD.unpack_from(buf, pos)
    body = pos + (HEAD + max(0, client) if said.has_client_id else HEAD - 2)
    try:
        whole = said.full_request(buf, after_tags(buf, body) if said.request_tags else body, pos + 4 + size)
        return whole.trouble is None and whole.left <= _APPENDED
    except NOT_DECODED:
        return False


def decodes_response(said: Spoken, buf: bytes, pos: int, size: int) -> bool:
    """Whether the `size` bytes at buf[pos] are a response of this API and version."""
    body = pos + 8
    try:
        whole = said.full_response(buf, after_tags(buf, body) if said.response_tags else body, pos + size)
        return whole.exact and is_sensible(whole.body)
    except NOT_DECODED:
        return False


def begins(said: Spoken, what: str, buf: bytes, pos: int, body: int, size: int) -> bool:
    """Whether the first bytes of a large frame are what its header says: a request, or a response to one."""
    if not said.known:
        return False
    try:
        body = after_tags(buf, body) if (said.request_tags if what == "Request" else said.response_tags) else body
    except NOT_DECODED:
        return False
    start = full(f"{said.api}{what}", said.version, buf[: pos + _SAMPLE], body, pos + size)
    return start.trouble in (None, ENDS_EARLY) and is_sensible(start.body)


def search_request(buf: bytes, pos: int, end: int) -> int | None:
    """The first index of a plausible request, or None."""
    for match in _REQUEST.finditer(buf, pos, end):
        if plausible_request(buf, match.start(), end):
            return match.start()
    return None


class Search(NamedTuple):
    """How far a search has come."""

    at: int
    found: bool
    seen: int  # bytes up to this index were needed to come so far


def _chain(buf: bytes, pos: int, end: int) -> list[int]:
    """Where the frames begin that follow each other from buf[pos], by their sizes and neighbouring correlation ids.

    The last is where the next would begin, at `end` or beyond, or where the chain breaks: then -1 follows.
    """
    starts, last = [pos], None
    while pos + 8 <= end:
        size = 4 + int.from_bytes(buf[pos : pos + 4], "big")
        id_ = int.from_bytes(buf[pos + 4 : pos + 8], "big", signed=True)
        if not 8 <= size <= _PROVEN or (last is not None and not 0 < abs(id_ - last) <= _BACK):
            return [*starts, -1]
        pos += size
        starts.append(pos)
        last = id_
    return starts


class Known(Protocol):
    """What the search may know of the connection."""

    inboxes: tuple[Inbox, Inbox]
    waiting: Waiting
    last_id: int | None

    @property
    def client_ids(self) -> list[bytes]: ...


class Resync:
    """Finds the next frame after a loss, with what is known of the connection."""

    __slots__ = ("_talk",)

    def __init__(self, talk: Known) -> None:
        self._talk = talk

    def find(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        """As Conversation.resync: candidates are judged from left to right, each by the bytes up to its own end."""
        if direction == CLIENT:
            return self._first(self._requests(buf, pos, end), self._judge_request, HEAD, buf, pos, end, final)[:2]
        search = self._first(self._responses(buf, pos, end), self._judge_response, 8, buf, pos, end, final)
        if self._talk.inboxes[direction].searched:
            return search[:2]
        return self._unasked(search, buf, pos, end, final)

    def _unasked(self, search: Search, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        """Right behind a loss, answers to requests from before it: they lead to one that was asked for, or are many."""
        starts = _chain(buf, pos, end)
        broken = starts[-1] < 0
        proven = starts[_IN_A_ROW] if len(starts) > _IN_A_ROW and 0 <= starts[_IN_A_ROW] <= end else None
        if search.found and (proven is None or search.seen < proven):
            return (pos if search.at in starts else search.at), True
        if proven is not None:
            return pos, True
        return (search.at if broken or final else pos), False

    @staticmethod
    def _first(
        candidates: Iterator[int],
        judge: Callable[[bytes, int, int], bool | None],
        head: int,
        buf: bytes,
        pos: int,
        end: int,
        final: bool,
    ) -> Search:
        """The first candidate that is a frame, or the first of which more bytes must be seen."""
        seen = pos
        for at in candidates:
            verdict = judge(buf, at, end)
            if verdict is None and not final:
                return Search(at, False, seen)
            seen = max(seen, at + min(4 + int.from_bytes(buf[at : at + 4], "big"), _PROVEN))
            if verdict:
                return Search(at, True, seen)
        return Search(end if final else max(pos, end - head + 1), False, seen)

    def _requests(self, buf: bytes, pos: int, end: int) -> Iterator[int]:
        for match in _REQUEST.finditer(buf, pos, end):
            yield match.start()

    def _responses(self, buf: bytes, pos: int, end: int) -> Iterator[int]:
        ids = self._talk.waiting.ids()[:_MOST_IDS]
        if not ids:
            return
        head = b"|".join(re.escape((i & 0xFFFFFFFF).to_bytes(4, "big")) for i in ids)
        pattern = re.compile(rb"(?=[\x00-\x0f][\x00-\xff]{3}(?:" + head + rb"))")
        for match in pattern.finditer(buf, pos, end):
            yield match.start()

    def _judge_request(self, buf: bytes, at: int, end: int) -> bool | None:
        """True, False, or None where more bytes would tell."""
        size, key, version, correlation_id, client = REQUEST_HEAD.unpack_from(buf, at)
        said = spoken(key, version)
        if not said.known or not 8 <= size <= MAX_FRAME:
            return False
        last = self._talk.last_id
        if last is not None and not (correlation_id - last + _BACK) & 0xFFFFFFFF < _BACK + _AHEAD:
            return False
        if client > 0 and said.has_client_id:
            if client > size - 10:
                return False
            if at + HEAD + client > end:
                return None
            raw = buf[at + HEAD : at + HEAD + client]
            known = self._talk.client_ids
            if known or not is_text(raw):
                return raw in known
        elif size > _PROVEN:
            return False  # nothing speaks for it
        if size <= _PROVEN:
            return None if at + 4 + size > end else decodes_request(said, buf, at)
        return None if at + _SAMPLE > end else begins(said, "Request", buf, at, at + HEAD + client, 4 + size)

    def _judge_response(self, buf: bytes, at: int, end: int) -> bool | None:
        size = 4 + int.from_bytes(buf[at : at + 4], "big")
        if not 8 <= size <= MAX_FRAME:
            return False
        call = self._talk.waiting.find(int.from_bytes(buf[at + 4 : at + 8], "big", signed=True))
        if call is None or call.spoken is None:
            return False
        if size > _PROVEN:
            return None if at + _SAMPLE > end else begins(call.spoken, "Response", buf, at, at + 8, size)
        if at + size > end:
            return None
        return not call.spoken.known or decodes_response(call.spoken, buf, at, size)
