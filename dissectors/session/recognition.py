"""Which protocol a connection speaks: by content, from its first bytes or from any later ones.

The bytes of both directions come segment by segment. A connection whose beginning was captured is judged by its first
bytes. In any other, and where these are nobody's, each protocol searches for its frames, and a search remembers how far
it has come. All are asked again only when the bytes have doubled: so recognition is linear in the bytes.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import NamedTuple

from dissectors.limits import Limits
from dissectors.session import foreign
from dissectors.session.conversation import Protocol
from dissectors.session.search import Recogniser

CERTAIN = 0.9
LIKELY = 0.5
HINTED = 0.1  # enough where the port is one of the protocol's own and bytes are missing
_by_hint = itemgetter(0)


class Verdict(NamedTuple):
    """What a connection is."""

    protocol: Protocol | None  # None: none of ours
    client: int | None = None  # the direction in which the client sends, where a protocol knows


NONE_OF_OURS = Verdict(None)


class Recognition:
    """What was seen of one connection whose protocol is not known yet."""

    __slots__ = (
        "_broken", "_candidates", "_due", "_limit", "_recognisers", "_seen", "_strange_limit", "headless", "prefix",
        "strange",
    )  # fmt: skip

    def __init__(self, candidates: list[tuple[bool, int, Protocol]], limits: Limits, *, headless: bool = False) -> None:
        """candidates: as `candidates` gives them. headless: the first bytes are known to be missing."""
        self.prefix = (bytearray(), bytearray())  # of each direction, up to its first hole
        self.headless = headless
        self._candidates = candidates
        self._limit, self._strange_limit = limits.sniff_bytes, limits.strange_bytes
        self._broken = [False, False]  # a hole ended the prefix
        self._seen = [0, 0]  # bytes of each direction, behind a hole too
        self._due = 1
        self.strange = False  # the first bytes are nobody's: only what is certain counts
        self._recognisers: dict[tuple[int, Protocol], Recogniser] = {}

    def take(self, direction: int, data: bytes | None) -> bool:
        """Take a segment, or a hole (None); True where it is time to look."""
        if data is None:
            if self.prefix[direction]:
                self._broken[direction] = True
            else:
                self.headless = True
        else:
            self._seen[direction] += len(data)
            if not self._broken[direction]:
                self.prefix[direction].extend(data)
        total = len(self.prefix[0]) + len(self.prefix[1])
        if total < self._due and not self.exhausted:
            return False
        self._due = max(1, 2 * total)
        return True

    @property
    def exhausted(self) -> bool:
        """Whether no further bytes will be looked at."""
        return max(self._seen) >= self._limit or all(self._broken)

    @property
    def passed_over(self) -> int:
        """Places that were not judged, since too many looked like the start of a frame."""
        return sum(recogniser.passed_over for recogniser in self._recognisers.values())

    def verdict(self, *, opened: bool, final: bool = False) -> Verdict | None:
        """What the connection is, None while more bytes could decide.

        opened: its SYN was captured. final: no more will be looked at.
        """
        midstream = self.headless or not opened
        final = final or self.exhausted
        prefix = bytes(self.prefix[0]), bytes(self.prefix[1])
        best: tuple[float, bool, float] = (0.0, False, 0.0)
        found = NONE_OF_OURS
        hints = [candidate for candidate in self._candidates if candidate[0]]
        ask_all = final or not midstream or not hints  # a search in mid-stream costs: others wait for the port's own
        for hinted, direction, protocol in self._candidates if ask_all else hints:
            client, server = prefix[direction], prefix[1 - direction]
            if midstream:
                confidence = self._recogniser(direction, protocol).see(client, server, final)
            else:
                confidence = protocol.recognise(client, server)
            if confidence >= CERTAIN and (hinted or not midstream):
                return Verdict(protocol, direction)  # the first bytes leave no doubt; a search in mid-stream may
            rank = confidence if confidence >= LIKELY else 0.0, hinted, confidence
            if confidence > 0 and rank > best:
                best, found = rank, Verdict(protocol, direction)
        if found.protocol is None:
            if not midstream and any(prefix) and not any(map(foreign.asks, prefix)):
                self.headless = self.strange = True
                self._limit = min(self._limit, self._strange_limit)
                return self.verdict(opened=opened, final=final)
            return found if final or prefix[0] or prefix[1] else None
        _, hinted, confidence = best
        if confidence >= CERTAIN:
            return found
        if not final:
            return None
        if self.strange:
            return NONE_OF_OURS
        lacks = midstream or any(self._broken)  # where bytes are missing, the port may speak for them
        return found if confidence >= LIKELY or (hinted and lacks and confidence >= HINTED) else NONE_OF_OURS

    def _recogniser(self, direction: int, protocol: Protocol) -> Recogniser:
        key = direction, protocol
        recogniser = self._recognisers.get(key)
        if recogniser is None:
            recogniser = self._recognisers[key] = protocol.recogniser()
        return recogniser


def candidates(
    protocols: tuple[Protocol, ...], ports: tuple[int, int], client: int | None
) -> list[tuple[bool, int, Protocol]]:
    """(whether the port is one of its own, the client's direction, protocol): those whose port it is first.

    ports: those that each direction sends to; client: its direction, where it is known.
    """
    directions = (0, 1) if client is None else (client,)
    every = [(ports[d] in protocol.ports, d, protocol) for d in directions for protocol in protocols]
    every.sort(key=_by_hint, reverse=True)
    return every


@cache
def by_port(protocols: tuple[Protocol, ...]) -> dict[int, Protocol]:
    """Which protocol is the first one to be asked where a server has this port."""
    return {port: protocol for protocol in reversed(protocols) for port in protocol.ports}
