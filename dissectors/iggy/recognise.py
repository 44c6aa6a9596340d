"""Is this stream Iggy? Judged by content: lengths, command codes and bodies that fit, in either framing.

What may be mistaken for it: Kafka and Pulsar count lengths big-endian, so that a small frame of theirs announces some
hundred megabytes here; TLS records begin with 0x16 0x03 and no command code follows.
"""

from __future__ import annotations

from functools import cache, partial

from dissectors.iggy import frames, tables
from dissectors.iggy.era import Era
from dissectors.iggy.frames import LEGACY, PAIR, VSR
from dissectors.iggy.loss import resync
from dissectors.iggy.loss.places import Clues
from dissectors.limits import MIB
from dissectors.session.search import GrowingSearch, Judgement, SearchBudget
from dissectors.tcp.chunk import CLIENT, SERVER

_MOST = 256 * MIB
CERTAIN, LIKELY, POSSIBLE, NO = 0.95, 0.7, 0.3, 0.0


class IggyRecogniser:
    """See search.Recogniser: a frame of either side and framing, proven as to a stranger (frames.py)."""

    def __init__(self) -> None:
        self._searches = [
            (side, framing, SearchBudget(), GrowingSearch()) for side in (CLIENT, SERVER) for framing in (LEGACY, VSR)
        ]

    @property
    def passed_over(self) -> int:
        return sum(budget.passed_over for _, _, budget, _ in self._searches)

    def see(self, client: bytes, server: bytes, final: bool) -> float:
        for side, framing, budget, search in self._searches:
            data = (client, server)[side]
            if data and search.over(data, final, partial(_find, framing, side, budget)):
                return CERTAIN
        return POSSIBLE if client or server else NO


def _find(
    framing: str, side: int, budget: SearchBudget, data: bytes, pos: int, end: int, final: bool
) -> tuple[int, bool]:
    return resync.search(framing, side, data, pos, end, final, _of_stranger(), budget, {})[:2]


@cache
def _of_stranger() -> Clues:
    return Clues(Era().allowed, _MOST, stranger=True)


def recognise(client: bytes, server: bytes) -> float:
    """See conversation.Protocol."""
    return _from_client(client, server) if client else _from_server(server)


def _from_client(client: bytes, server: bytes) -> float:
    framing = frames.detect(CLIENT, client, 0, len(client), _MOST)
    if framing == VSR:
        return CERTAIN
    if framing is None:  # too short, or the beginning of a VSR header
        first = not any(client[: frames.UNSEALED_END]) and frames.begins_vsr(client, 0, len(client), _MOST)
        if len(client) >= 8 and not first:
            return NO
        return max(LIKELY if len(client) >= frames.COMMAND_END else POSSIBLE, _from_server(server))
    return _legacy(client, server)


def _legacy(client: bytes, server: bytes) -> float:
    """Each frame that a layout reads to its end is evidence; one that none reads speaks against it."""
    pos, points = 0, 0.0
    everything = _of_stranger().allowed & tables.of_framing(LEGACY)
    for _ in range(8):
        if len(client) - pos < 8:
            break
        length, code = PAIR.unpack_from(client, pos)
        size = 4 + length
        if not 4 <= length < _MOST or code > 0xFFFF:
            return NO
        verdict = resync.judge_body(code, client, pos + 8, pos + size, len(client), everything)
        if verdict is Judgement.YES:
            points += 1.0 if length > 12 else 0.5
        elif verdict is Judgement.WAIT:
            points += 0.2
            break
        elif code not in tables.commands() and size > len(client) - pos:
            return NO
        pos += size
        if points >= 2:
            break
    answers = _answers(server)
    if answers < 0:
        return NO
    if points >= 1 or (points >= 0.5 and answers > 0):
        return CERTAIN
    if answers > 0:
        return LIKELY
    return LIKELY if points else POSSIBLE


def _answers(server: bytes) -> float:
    """How many whole answers the server's bytes hold; negative where they are no answers."""
    pos = found = 0
    while len(server) - pos >= 8 and found < 4:
        status, length = PAIR.unpack_from(server, pos)
        if length >= _MOST or (status and not resync.may_be_error(server, pos, len(server))):
            return -1
        pos += 8 + length
        found += pos <= len(server)
    return found


def _from_server(server: bytes) -> float:
    """Answers alone: a VSR header is certain, a legacy answer with a payload that fits likely."""
    if len(server) < 8:
        return POSSIBLE if server else NO
    framing = frames.detect(SERVER, server, 0, len(server), _MOST)
    if framing == VSR:
        return CERTAIN
    if _answers(server) < 0:
        return NO
    recogniser = IggyRecogniser()
    return LIKELY if recogniser.see(b"", server, True) == CERTAIN else POSSIBLE
