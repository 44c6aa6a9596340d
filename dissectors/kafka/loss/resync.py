"""Where a frame begins after bytes were lost, or in a connection that began before its capture."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import NamedTuple, Protocol

import numpy as np

from dissectors.arrow import Bools
from dissectors.kafka import schema
from dissectors.kafka.decode import NO_CLIENT_ID, PRODUCE, REQUEST_HEAD, ApiVersion, api_version
from dissectors.kafka.frames import HEAD, MAX_FRAME, SAMPLE, begins, decodes_request, decodes_response, is_text
from dissectors.kafka.match import KafkaPendingRequests
from dissectors.rows.layout import ABSENT
from dissectors.session.search import Judgement, SearchBudget, first_start, places
from dissectors.tcp.chunk import CLIENT, SERVER
from dissectors.wire.reader import ReadError
from dissectors.wire.structs import integers

_PROVEN = 1 << 20  # up to this size a frame found again is decoded before it is believed
_DECODED = 1024  # what decoding a frame costs beside its bytes (search.py)
_IN_A_ROW = 3  # frames that lead from one to the next are no chance
_MOST_IDS = 128  # correlation ids looked for at once
_FEW_IDS = 32  # whose last bytes alone leave few places
_BACK, _AHEAD = 64, 1 << 24  # how far from the last correlation id the next may be: a client object hands them out
# before it sends, and for all its connections

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NO_ID = "A" * 22  # a topic id of zeros, as text
_LONGEST_MS = 3_600_000  # that a producer lets a broker wait for its replicas


@cache
def _known_versions() -> Bools:
    """bool[256, 256]: whether an API key, below 256, has a version."""
    known = np.zeros((256, 256), bool)
    for key, api in schema.apis().items():
        for version in api.versions.each():
            known[key, version] = True
    return known


@lru_cache(maxsize=1024)
def _is_request(api: ApiVersion, frame: bytes) -> bool:
    """Whether bytes decode as a request of an API; remembered, because searches ask for the same bytes often."""
    return decodes_request(api, frame, 0)


def _may_be_request(buf: bytes, at: int) -> bool:
    """Size 8 to 256 MiB | key and version that are known | correlation id | length of the client id: to 255, or -1."""
    size, key, version, _, client = REQUEST_HEAD.unpack_from(buf, at)
    if not (8 <= size <= MAX_FRAME and 0 <= key < 256 and 0 <= version < 256 and _known_versions()[key, version]):
        return False
    fits: bool = client == -1 or 0 <= client <= min(255, max(size - 10, 0)) or key == NO_CLIENT_ID[0]
    return fits


@lru_cache(maxsize=1024)
def _first_bytes(client_ids: tuple[bytes, ...]) -> Bools:
    """bool[256]: what a client id begins with: one of some that are known, else what text may begin with."""
    first = np.zeros(256, bool)
    if client_ids:
        first[[client_id[0] for client_id in client_ids if client_id]] = True
    else:
        first[0x20:0x7F] = first[0xC2:0xF5] = True
    return first


def _request_places(client_ids: tuple[bytes, ...], buf: bytes, begin: int, stop: int, end: int) -> list[int]:
    """The places of `_may_be_request`, but for client ids that begin with no text, or as none of those known, and for
    large frames without a client id: nothing speaks for them.
    """
    octets, n = np.frombuffer(buf, np.uint8, end - begin, begin), stop - begin
    at = np.flatnonzero(((octets[4 : 4 + n] | octets[6 : 6 + n]) == 0) & (octets[:n] <= MAX_FRAME >> 24))
    at = at[_known_versions()[octets[at + 5], octets[at + 7]]]
    size = integers(octets, at, 4)
    high, low = octets[at + 12], octets[at + 13]
    first = octets[np.minimum(at + HEAD, len(octets) - 1)]
    text = _first_bytes(client_ids)[first] | (at + HEAD == len(octets))
    named = (high == 0) & (low <= np.maximum(size - 10, 0)) & np.where(low > 0, text, size <= _PROVEN)
    nameless = (high == 0xFF) & (low == 0xFF) & (size <= _PROVEN)
    fits = (size >= 8) & (size <= MAX_FRAME) & (named | nameless | (octets[at + 5] == NO_CLIENT_ID[0]))
    found: list[int] = (at[fits] + begin).tolist()
    return found


def _response_places(ids: Sequence[int], buf: bytes, begin: int, stop: int, end: int) -> list[int]:
    """Size to 256 MiB | one of some correlation ids."""
    octets, n = np.frombuffer(buf, np.uint8, end - begin, begin), stop - begin
    at = np.flatnonzero(octets[:n] <= MAX_FRAME >> 24)
    if len(ids) <= _FEW_IDS:
        last = np.zeros(256, bool)
        last[[id_ & 0xFF for id_ in ids]] = True
        at = at[last[octets[at + 7]]]
    found: list[int] = (at[np.isin(integers(octets, at + 4, 4), ids)] + begin).tolist()
    return found


def produces(buf: bytes, at: int) -> bool:
    """Whether the first bytes of a large frame are those of a Produce: how it is acknowledged, and a topic."""
    size, key, version, _, client = REQUEST_HEAD.unpack_from(buf, at)
    api = api_version(key, version)
    if key != PRODUCE or not api.known:
        return False
    sample = buf[at : at + SAMPLE]
    start = HEAD + max(0, client)
    try:
        body = api.full_request(sample, api.request_body(sample, start), 4 + size).body
    except ReadError:
        return False
    topic = (body.get("topicData") or [{}])[0]
    named = _TOPIC.fullmatch(topic.get("name") or "") or topic.get("topicId", _NO_ID) != _NO_ID
    return bool(named) and body["acks"] in (-1, 0, 1) and 0 <= body["timeoutMs"] <= _LONGEST_MS


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
        if len(starts) > _IN_A_ROW:
            break
    return starts


class ResyncContext(Protocol):
    """What the search may know of the connection."""

    waiting: KafkaPendingRequests
    last_id: int

    def budget(self, direction: int) -> SearchBudget: ...

    @property
    def client_ids(self) -> list[bytes]: ...

    def searched(self, direction: int) -> int: ...


class Resync:
    """Finds the next frame after a loss, with what is known of the connection.

    Where nothing is known yet, as in a connection that began before the capture, one head is no proof, for other
    protocols have bytes like it: then a request must read to its end and name its client, or another one must follow;
    a Produce must name a topic.
    """

    __slots__ = ("_believed", "_conversation", "_unfound")

    def __init__(self, conversation: ResyncContext) -> None:
        self._conversation = conversation
        self._believed = [-1, -1]  # stream offset of the frame whose first bytes were read and fit
        self._unfound = (-1, Search(0, False, 0))  # stream offset of a loss, and how far the search behind it has come

    def find(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        """Where a frame begins again: see `Framing.resync`. Candidates are judged by their own bytes, in order."""
        budget = self._conversation.budget(direction)
        if direction == CLIENT:
            test = partial(_request_places, tuple(self._conversation.client_ids))
            judge = partial(self._judge_request, buf, end, final)
            return first_start(places(test, HEAD, buf, pos, end), judge, budget, pos, end, HEAD, final)
        if self._conversation.searched(direction):
            return self._response(buf, pos, end, final, Search(pos, False, pos))[:2]
        return self._unasked(buf, pos, end, final)

    def first(self, data: bytes) -> Judgement:
        """Whether the first bytes of a connection are a request; of a large one, the first kilobytes are enough."""
        if not _may_be_request(data, 0):
            return Judgement.NO
        verdict = self._judge_alone(data, 0, len(data))
        return Judgement.YES if self._believed[CLIENT] == 0 and produces(data, 0) else verdict

    def _unasked(self, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        """Right behind a loss, answers to requests from before it: they lead to one that was asked for, or are many."""
        offset = self._conversation.budget(SERVER).base + pos
        come = self._unfound[1] if self._unfound[0] == offset else Search(0, False, 0)
        search = self._response(buf, pos, end, final, Search(pos + come.at, False, pos + come.seen))
        starts = _chain(buf, pos, end)
        broken = starts[-1] < 0
        proven = starts[_IN_A_ROW] if len(starts) > _IN_A_ROW and 0 <= starts[_IN_A_ROW] <= end else None
        if search.found and (proven is None or search.seen < proven):
            return (pos if search.at in starts else search.at), True
        if proven is not None:
            return pos, True
        self._conversation.budget(SERVER).needs = 0  # the next piece may prove the row of answers
        self._unfound = offset, Search(search.at - pos, False, search.seen - pos)
        passed = broken and search.at not in starts  # an answer at one of them would prove the frames before it
        return (search.at if passed or final else pos), False

    def _response(self, buf: bytes, pos: int, end: int, final: bool, come: Search) -> Search:
        """The first answer that is awaited, from where the search had come."""
        ids = self._conversation.waiting.ids()[:_MOST_IDS]
        seen = come.seen

        def judge(at: int) -> Judgement:
            nonlocal seen
            verdict = self._judge_response(buf, at, end)
            if verdict is not Judgement.WAIT or final:
                seen = max(seen, at + min(4 + int.from_bytes(buf[at : at + 4], "big"), _PROVEN))
            return verdict

        budget = self._conversation.budget(SERVER)
        awaited = places(partial(_response_places, ids), 8, buf, come.at, end) if ids else ()
        return Search(*first_start(awaited, judge, budget, come.at, end, 8, final), seen)

    def _judge_request(self, buf: bytes, end: int, final: bool, at: int) -> Judgement:
        """By itself, and where neither its client's name nor the connection speaks for it, by what follows."""
        verdict = self._judge_alone(buf, at, end)
        if verdict is not Judgement.YES or self._conversation.last_id != ABSENT:
            return verdict
        size, key, version, correlation_id, client = REQUEST_HEAD.unpack_from(buf, at)
        if client > 0 and api_version(key, version).has_client_id:
            return verdict
        if key == PRODUCE and not produces(buf, at):
            return Judgement.NO
        return self._is_followed(buf, at + 4 + size, correlation_id, end, final)

    def _judge_alone(self, buf: bytes, at: int, end: int) -> Judgement:
        size, key, version, correlation_id, client = REQUEST_HEAD.unpack_from(buf, at)
        api = api_version(key, version)
        last = self._conversation.last_id
        if last != ABSENT and not (correlation_id - last + _BACK) & 0xFFFFFFFF < _BACK + _AHEAD:
            return Judgement.NO
        known = self._conversation.client_ids
        if client > 0 and api.has_client_id:
            if client > size - 10:
                return Judgement.NO
            if at + HEAD + client > end:
                return Judgement.WAIT
            raw = buf[at + HEAD : at + HEAD + client]
            if raw in known:
                return Judgement.YES
            if known or not is_text(raw):
                return Judgement.NO
            if size > _PROVEN and last == ABSENT and end - at >= SAMPLE and not produces(buf, at):
                return Judgement.NO  # a stranger's, and not large for its records
        elif size > _PROVEN:
            return Judgement.NO  # nothing speaks for it
        return self._reads(CLIENT, api, buf, at, at + HEAD + max(0, client), 4 + size, end)

    @staticmethod
    def _is_followed(buf: bytes, at: int, correlation_id: int, end: int, final: bool) -> Judgement:
        """Whether the next request, or the end of all, stands at `at`."""
        if end - at < HEAD:
            return Judgement.WAIT if not final else Judgement.YES if at == end else Judgement.NO
        _, _, _, following, _ = REQUEST_HEAD.unpack_from(buf, at)
        fits = _may_be_request(buf, at) and 0 < abs(following - correlation_id) <= _BACK
        return Judgement.YES if fits else Judgement.NO

    def _judge_response(self, buf: bytes, at: int, end: int) -> Judgement:
        size = 4 + int.from_bytes(buf[at : at + 4], "big")
        if not 8 <= size <= MAX_FRAME:
            return Judgement.NO
        call = self._conversation.waiting.find(int.from_bytes(buf[at + 4 : at + 8], "big", signed=True))
        if call is None or call.api_version is None:
            return Judgement.NO
        if size <= _PROVEN and not call.api_version.known:
            return Judgement.YES if at + size <= end else Judgement.WAIT
        return self._reads(SERVER, call.api_version, buf, at, at + 8, size, end)

    def _reads(self, direction: int, api: ApiVersion, buf: bytes, at: int, body: int, size: int, end: int) -> Judgement:
        """Whether a frame is what its header says: judged by its first bytes once they are there, then by all."""
        budget = self._conversation.budget(direction)
        if size > SAMPLE and self._believed[direction] != budget.base + at:
            if end - at < SAMPLE:
                return budget.wait_for(SAMPLE)
            if not begins(api, direction, buf, at, body, size):
                budget.spend(SAMPLE)
                return Judgement.NO
            self._believed[direction] = budget.base + at
        if size > _PROVEN:
            return Judgement.YES
        if end - at < size:
            return budget.wait_for(size)
        budget.spend(_DECODED + (size if size <= SAMPLE else size + SAMPLE))
        if direction == SERVER:
            fits = decodes_response(api, buf, at, size)
        elif size > SAMPLE:
            fits = decodes_request(api, buf, at)
        else:
            fits = _is_request(api, buf[at : at + max(size, HEAD)])
        return Judgement.YES if fits else Judgement.NO
