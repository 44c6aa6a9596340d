"""Is this stream Pulsar's? One frame header is proof (see frames.py); the port is not asked.

A client that is seen from its first byte opens with CONNECT. In mid-connection the first header that is proven, of
either side, tells; it may lie behind a piece of a frame whose start was not captured.
"""

from __future__ import annotations

from dissectors.inbox import MORE
from dissectors.pulsar.commands import CONNECT
from dissectors.pulsar.frames import judge, search
from dissectors.tcp.chunk import CLIENT, SERVER

CERTAIN, POSSIBLE, NO = 1.0, 0.3, 0.0
LIMIT = 256 * 1024 * 1024
"""No frame is larger here; the connection's own limit is not known yet."""


def recognise(client: bytes, server: bytes, midstream: bool) -> float:
    """See Protocol.recognise."""
    verdict = judge(client, 0, len(client), LIMIT, CLIENT) if client else MORE
    if verdict > 0 and (midstream or client[9] == CONNECT):
        return CERTAIN
    if not client and judge(server, 0, len(server), LIMIT, SERVER) > 0:
        return CERTAIN  # CONNECT was lost
    if not midstream:
        return POSSIBLE if verdict == MORE and _fits(client) else NO
    for direction, data in ((CLIENT, client), (SERVER, server)):
        if data and search(data, 0, len(data), LIMIT, direction, False)[1]:
            return CERTAIN
    return POSSIBLE / 10 if client or server else NO


def _fits(client: bytes) -> bool:
    """Whether the first bytes may be those of a CONNECT: one that is not whole is smaller than 64 KiB."""
    return client[:2] == b"\0\0"[: len(client)] and client[4:6] == b"\0\0"[: len(client[4:6])]
