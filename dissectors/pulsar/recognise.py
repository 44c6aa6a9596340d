"""Is this stream Pulsar's? One frame header is proof (see frames.py); the port plays no part.

A client that is seen from its first byte opens with CONNECT. In mid-connection the first header that is proven, of
either side, decides; it may lie behind a piece of a frame whose start was not captured.
"""

from __future__ import annotations

from functools import partial

from dissectors.pulsar.commands import CONNECT
from dissectors.pulsar.frames import judge
from dissectors.pulsar.loss.resync import search
from dissectors.session.inbox import MORE
from dissectors.session.search import GrowingSearch, SearchBudget
from dissectors.tcp.chunk import CLIENT, SERVER

CERTAIN, POSSIBLE, UNCLEAR, NO = 1.0, 0.3, 0.1, 0.0
LIMIT = 256 * 1024 * 1024
"""No frame is larger here; the connection's own limit is not known yet."""


class PulsarRecogniser:
    """See search.Recogniser."""

    def __init__(self) -> None:
        self._searches = [(side, SearchBudget(), GrowingSearch()) for side in (CLIENT, SERVER)]

    @property
    def passed_over(self) -> int:
        return sum(budget.passed_over for _, budget, _ in self._searches)

    def see(self, client: bytes, server: bytes, final: bool) -> float:
        for side, budget, growing in self._searches:
            data = (client, server)[side]
            if data and growing.over(data, final, partial(_find, side, budget)):
                return CERTAIN
        return UNCLEAR if client or server else NO


def _find(side: int, budget: SearchBudget, data: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
    return search(data, pos, end, LIMIT, side, final, budget)


def recognise(client: bytes, server: bytes) -> float:
    """See Protocol.recognise."""
    verdict = judge(client, 0, len(client), LIMIT, CLIENT) if client else MORE
    if verdict > 0 and client[9] == CONNECT:
        return CERTAIN
    if not client and judge(server, 0, len(server), LIMIT, SERVER) > 0:
        return CERTAIN  # CONNECT was lost
    return POSSIBLE if verdict == MORE and _fits(client) else NO


def _fits(client: bytes) -> bool:
    """Whether the first bytes may be those of a CONNECT: one that is not whole is smaller than 64 KiB."""
    return client[:2] == b"\0\0"[: len(client)] and client[4:6] == b"\0\0"[: len(client[4:6])]
