"""Is this stream Kafka's? By content, on any port.

first bytes   a request that reads to its end; of a large one, as much as its first kilobytes
the answer    a request that is not whole, and an answer with its correlation id
a newer one   an ApiVersions of a version that no table has, and the answer that its broker has it not either, or a list
ApiVersions   the list of APIs and versions, with which most connections begin
mid-stream    a request that is found as behind a loss of which nothing is known (frames.py)
answers       several in a row with neighbouring ids are likely Kafka's; many whose ids ascend are for certain
"""

from __future__ import annotations

from functools import lru_cache, partial

from dissectors.kafka import schema
from dissectors.kafka.decode import API_VERSIONS, REQUEST_HEAD, UNSUPPORTED_VERSION, api_version
from dissectors.kafka.frames import HEAD, MAX_FRAME, begins_with_token, is_text
from dissectors.kafka.full import full
from dissectors.kafka.loss.resync import Resync
from dissectors.kafka.match import KafkaPendingRequests
from dissectors.rows.layout import ABSENT
from dissectors.session.search import GrowingSearch, Judgement, SearchBudget
from dissectors.tcp.chunk import CLIENT

_FEW, _VERSIONS_BYTES = 8, 64  # every broker knows more APIs; a shorter list is no evidence
_NEAR = 1000  # correlation ids of neighbours differ by no more, though they need not ascend
_IN_A_ROW = 8  # answers that make a row, of whatever length
_PROVEN = 16  # answers in a row with ascending ids that are no chance
_NEWER = 16  # versions of ApiVersions beyond those of the tables
_LONGEST_LIST = 1 << 14  # bytes: twenty times that of the newest broker
_SHORT = 1 << 10  # bytes of a beginning that is remembered
# beginnings, and lists of versions: clients of one kind begin alike, and brokers of one release serve the same
_REMEMBERED = 256
CERTAIN, LIKELY, POSSIBLE, UNCLEAR, NO = 0.95, 0.6, 0.2, 0.1, 0.0


class _Stranger:
    """A connection of which nothing is known."""

    waiting = KafkaPendingRequests(1)
    last_id: int = ABSENT
    client_ids: list[bytes] = []

    def __init__(self) -> None:
        self._budget = SearchBudget()

    def budget(self, direction: int) -> SearchBudget:
        return self._budget

    def searched(self, direction: int) -> int:
        """Nothing was skipped: this is the first search."""
        return 0


class KafkaRecogniser:
    """See search.Recogniser: requests in mid-stream; answers only where none was captured."""

    def __init__(self) -> None:
        self._stranger = _Stranger()
        self._resync = Resync(self._stranger)
        self._search = GrowingSearch()

    @property
    def passed_over(self) -> int:
        return self._stranger.budget(CLIENT).passed_over

    def see(self, client: bytes, server: bytes, final: bool) -> float:
        if client and self._search.over(client, final, partial(self._resync.find, CLIENT)):
            return CERTAIN
        return POSSIBLE if client else max(UNCLEAR, _answers(server))


def recognise(client: bytes, server: bytes) -> float:
    """How sure it is that these are the first bytes of a connection to a Kafka broker."""
    if len(client) + len(server) <= _SHORT:
        return _recognise_short(client, server)
    return _recognise(client, server)


def _recognise(client: bytes, server: bytes) -> float:
    from_client = _first_request(client, server) if client else NO
    if from_client == CERTAIN or not server:
        return from_client
    from_server = _answers(server)
    if not client:
        return from_server
    if from_client == NO:
        return POSSIBLE if from_server >= LIKELY else NO
    return max(from_client, min(from_server, POSSIBLE))


_recognise_short = lru_cache(_REMEMBERED)(_recognise)


def _first_request(data: bytes, server: bytes) -> float:
    token = begins_with_token(data, 0, len(data))
    if token or (token is None and len(data) > HEAD):
        return CERTAIN if token else POSSIBLE
    if len(data) < HEAD:
        return POSSIBLE if _may_begin(data) or (token is None and len(data) > 4) else NO
    if _asks_newer(data):
        return CERTAIN if server[4:8] == data[8:12] and _tells_versions(server) else POSSIBLE
    verdict = Resync(_Stranger()).first(data)
    if verdict is Judgement.YES:
        return CERTAIN
    answered = _is_answered(data, server)
    if verdict is Judgement.NO:
        return LIKELY if answered else NO  # a request that is not as it should be
    if answered:
        return CERTAIN
    return LIKELY if _names_client(data) else POSSIBLE


def _asks_newer(data: bytes) -> bool:
    """Whether a client asks for the list of versions in a version that no table has."""
    size, key, version, _, named = REQUEST_HEAD.unpack_from(data)
    last = schema.apis()[API_VERSIONS].versions.last
    if not (key == API_VERSIONS and last < version <= last + _NEWER and 0 < named <= size - 10 <= _LONGEST_LIST):
        return False
    return is_text(data[HEAD : HEAD + named], cut=True)


def _tells_versions(server: bytes) -> bool:
    return server[8:10] == UNSUPPORTED_VERSION.to_bytes(2, "big") or _lists_versions(server)


def _may_begin(data: bytes) -> bool:
    """Whether fewer bytes than a header may begin a request."""
    head = data[:8].ljust(8, b"\0")
    size = int.from_bytes(head[:4], "big")
    return (len(data) < 4 or 8 <= size <= MAX_FRAME) and not head[4] and not head[6] & 0xFE


def _names_client(data: bytes) -> bool:
    """Whether a request that is not whole is of a known version and has a whole client id, which is text."""
    _, key, version, _, named = REQUEST_HEAD.unpack_from(data)
    id_ = data[HEAD : HEAD + named] if named > 0 else b""
    return len(id_) == named > 0 and api_version(key, version).known and is_text(id_, cut=False)


def _is_answered(client: bytes, server: bytes) -> bool:
    """Whether the server answers a request, which need not be whole or well formed: with its correlation id."""
    _, key, version, _, named = REQUEST_HEAD.unpack_from(client)
    if len(server) < 8 or (named > 0 and not is_text(client[HEAD : HEAD + named], cut=True)):
        return False
    api = api_version(key, version)
    return api.known and 4 <= int.from_bytes(server[:4], "big") <= MAX_FRAME and server[4:8] == client[8:12]


def _answers(data: bytes) -> float:
    """Responses in a row: sizes that lead from one to the next, correlation ids near each other."""
    at, n, last, ascending = 0, 0, -1, True
    while at + 8 <= len(data) and n < _PROVEN:
        size = int.from_bytes(data[at : at + 4], "big")
        id_ = int.from_bytes(data[at + 4 : at + 8], "big")
        if not 4 <= size <= MAX_FRAME or (n and not 0 < abs(id_ - last) < _NEAR):
            if n < _IN_A_ROW:
                return NO
            break
        ascending &= id_ > last
        at += 4 + size
        n, last = n + 1, id_
    if n and _lists_versions(data):
        return CERTAIN
    if n == _PROVEN and ascending:
        return CERTAIN
    if n >= 3 and (at == len(data) or n >= _IN_A_ROW):
        return LIKELY
    return POSSIBLE if n else NO


def _lists_versions(data: bytes) -> bool:
    """Whether the first response is the list of APIs and versions with which most connections begin."""
    stop = 4 + int.from_bytes(data[:4], "big")
    return 8 + _VERSIONS_BYTES <= stop <= min(len(data), _LONGEST_LIST) and _is_versions_list(data[8:stop])


@lru_cache(_REMEMBERED)
def _is_versions_list(body: bytes) -> bool:
    for version in reversed([*schema.message("ApiVersionsResponse").versions.each()]):  # the newest is the likeliest
        found = full("ApiVersionsResponse", version, body, 0, len(body))
        keys = found.body.get("apiKeys") or []
        if found.exact and len(keys) > _FEW and all(0 <= api["minVersion"] <= api["maxVersion"] for api in keys):
            return True
    return False
