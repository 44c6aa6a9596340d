"""Which release of Iggy speaks on a connection. No frame names it; what reads the bytes to their end does.

An Era is the set of releases that everything seen so far allows. Evidence narrows it: a body that only some releases'
layouts read, a checksum that only some compute, an id that only some give. Where several remain, the likeliest one is
shown and the choice is reported as uncertain. Evidence against all that remains is counted; when it repeats, the set is
drawn from that evidence anew.
"""

from __future__ import annotations

from functools import lru_cache
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import Derived, carried
from dissectors.iggy import layouts, tables
from dissectors.iggy.layouts import CommandFacts

STRIKES = 3  # contradictions in a row that overturn what was believed
FAVOUR = 4  # how much a piece of weak evidence multiplies a release's weight
_KEPT = 8  # pieces of evidence reported
_REMEMBERED = 1024  # sets of releases
_COMMANDS = 256  # whose facts a connection keeps at hand


@final
@carried
@compiled
class Era:
    """The releases that a connection's bytes allow."""

    fixed: cython.bint
    allowed: cython.longlong
    _possible: cython.longlong  # what no evidence overturns
    hints: list[int]  # sets of releases, each favoured by weak evidence
    evidence: list[str]
    revised: cython.longlong = 0
    _strikes: cython.longlong = 0
    _doubt: cython.longlong = 0
    settled: cython.bint
    best: cython.Py_ssize_t
    dialect: str
    _commands: Derived[dict[int, CommandFacts]]  # what command codes mean to the releases that remain

    def __init__(self, requested: int = 0) -> None:
        self.fixed = bool(requested)
        self.allowed = requested or (1 << len(tables.releases())) - 1
        self._possible = self.allowed
        self.hints = []
        self.evidence = []
        self._settle()

    def restored(self) -> None:
        self._commands = {}

    @compiled
    def command(self, code: cython.longlong) -> CommandFacts:
        """What a command code means to the releases that remain."""
        found: CommandFacts | None = self._commands.get(code)
        if found is None:
            if len(self._commands) >= _COMMANDS:
                self._commands.clear()
            found = self._commands[code] = layouts.facts(code, self.allowed, self.best)
        return found

    def narrow(self, releases: int, reason: str) -> None:
        """Only `releases` do what was seen."""
        releases &= self._possible
        if self.fixed or not releases:
            return
        if releases & self.allowed:
            self._strikes = 0
            if releases & self.allowed != self.allowed:
                self.allowed &= releases
                self._keep_evidence(reason)
                self._settle()
            return
        self._doubt = releases if not self._strikes or not self._doubt & releases else self._doubt & releases
        self._strikes += 1
        if self._strikes >= STRIKES:
            self.allowed = self._doubt
            self.revised += 1
            self._strikes = 0
            self._keep_evidence(f"against what was believed: {reason}")
            self._settle()

    def frame_as(self, framing: str) -> None:
        """The framing of the connection is known: releases with the other one never speak there."""
        self.narrow(tables.of_framing(framing), f"{framing} framing")
        self._possible &= tables.of_framing(framing)

    def favour(self, releases: int, reason: str) -> None:
        """Weak evidence: decides only between what remains."""
        if not self.fixed and not self.settled and releases & self.allowed and releases not in self.hints:
            self.hints.append(releases)
            self._keep_evidence(reason)
            self._settle()

    def has(self, framing: str) -> bool:
        """Whether any release that remains uses this framing."""
        return bool(self.allowed & tables.of_framing(framing))

    def names(self) -> list[str]:
        """The releases that remain, oldest first."""
        return list(tables.names(self.allowed))

    def confidence(self) -> float:
        """How sure `dialect` is: its share of the weight of all that remains."""
        return _confidence(self.allowed, tuple(self.hints), self.dialect)

    def _keep_evidence(self, reason: str) -> None:
        if len(self.evidence) < _KEPT:
            self.evidence.append(reason)

    def _settle(self) -> None:
        self._commands = {}
        self.settled = tables.settled(self.allowed)
        self.best = _likeliest(self.allowed, tuple(self.hints))
        self.dialect = tables.releases()[self.best].dialect


# Connections to one server see the same evidence: what follows from it is computed once.


@lru_cache(_REMEMBERED)
def _weights(allowed: int, hints: tuple[int, ...]) -> dict[int, int]:
    """Each release that remains, and how readily it is taken."""
    weights = {i: release.weight for i, release in enumerate(tables.releases()) if allowed >> i & 1}
    for hint in hints:
        weights = {i: weight * FAVOUR if hint >> i & 1 else weight for i, weight in weights.items()}
    return weights


@lru_cache(_REMEMBERED)
def _likeliest(allowed: int, hints: tuple[int, ...]) -> int:
    weights = _weights(allowed, hints)
    return max(weights, key=lambda i: (weights[i], i))


@lru_cache(_REMEMBERED)
def _confidence(allowed: int, hints: tuple[int, ...], dialect: str) -> float:
    heaviest: dict[str, int] = {}
    for i, weight in _weights(allowed, hints).items():
        of = tables.releases()[i].dialect
        heaviest[of] = max(heaviest.get(of, 0), weight)
    return round(heaviest[dialect] / sum(heaviest.values()), 2)
