"""Is this stream Iggy? Judged by content: lengths, command codes and bodies that fit, in either framing.

What may be mistaken for it: Kafka and Pulsar count lengths big-endian, so that a small frame of theirs announces some
hundred megabytes here; TLS records begin with 0x16 0x03 and no command code follows.
"""

from __future__ import annotations

from struct import Struct

from dissectors.iggy import frames, tables
from dissectors.iggy.era import Era
from dissectors.iggy.frames import LEGACY, VSR, Clues
from dissectors.limits import MIB
from dissectors.tcp.chunk import CLIENT, SERVER

_PAIR = Struct("<II")
_MOST = 256 * MIB
CERTAIN, LIKELY, POSSIBLE, NO = 0.95, 0.7, 0.3, 0.0


def recognise(client: bytes, server: bytes, midstream: bool) -> float:
    """See conversation.Protocol."""
    if midstream:
        return max(_found(CLIENT, client), _found(SERVER, server))
    if client:
        return _from_client(client, server)
    return _from_server(server)


def _from_client(client: bytes, server: bytes) -> float:
    framing = frames.detect(CLIENT, client, 0, len(client), _MOST)
    if framing == VSR:
        return CERTAIN
    if framing is None:  # too short, or the zeros of a VSR header
        return max(POSSIBLE, _from_server(server)) if len(client) < 8 or not any(client[:48]) else NO
    return _legacy(client, server)


def _legacy(client: bytes, server: bytes) -> float:
    """Each frame that a layout reads to its end is evidence; one that none reads speaks against it."""
    pos, points = 0, 0.0
    everything = Era().allowed & tables.of_framing(LEGACY)
    for _ in range(8):
        if len(client) - pos < 8:
            break
        length, code = _PAIR.unpack_from(client, pos)
        size = 4 + length
        if not 4 <= length < _MOST or code > 0xFFFF:
            return NO
        verdict = frames.judge_body(code, client, pos + 8, pos + size, len(client), everything)
        if verdict is frames.Verdict.YES:
            points += 1.0 if length > 12 else 0.5
        elif verdict is frames.Verdict.WAIT:
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
        status, length = _PAIR.unpack_from(server, pos)
        if length >= _MOST or (status and not frames.may_be_error(server, pos, len(server))):
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
    return max(POSSIBLE, _found(SERVER, server) - 0.15)


def _found(direction: int, data: bytes) -> float:
    """Whether a frame can be found in bytes that begin anywhere."""
    if not data:
        return NO
    clues = Clues(Era().allowed, _MOST)
    pos = 0
    for _ in range(2):
        at, found, framing = frames.resync(None, direction, data, pos, len(data), True, clues)
        if not found:
            return POSSIBLE
        size = frames.measure(framing or LEGACY, direction, data, at, len(data), _MOST)
        if size <= 0:
            return POSSIBLE
        if framing == VSR or (direction == CLIENT and size > 16) or (direction == SERVER and size > 24):
            return CERTAIN
        pos = at + size
    return LIKELY if direction == CLIENT else POSSIBLE
