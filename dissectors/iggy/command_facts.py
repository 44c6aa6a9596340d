"""What decoding by column must know of each command, as tables over all codes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from dissectors.arrow import Bools
from dissectors.iggy import columnar, layouts, tables
from dissectors.iggy.frames import SEND_MESSAGES, VSR
from dissectors.iggy.state import LOGINS, IggyState

CODES = 1 << 16
DESCRIBED = frozenset({302, 602})  # CREATE_TOPIC, CREATE_CONSUMER_GROUP: named by more than identifiers


@cache
def table(framing: str, what: str) -> Bools:
    """bool[65536]: what is true of a command's code."""
    found = np.zeros(CODES, bool)
    for code in tables.commands():
        found[code] = _FACTS[what](code, framing)
    return found


def _is_regular(code: int, framing: str) -> bool:
    """Whether exchanges of a command are one request and one answer, and its requests are read by column."""
    command, *others = tables.commands()[code]
    special = others or command.silent or command.waits or (framing == VSR and command.name in LOGINS)
    return not special and _columnar(layouts.REQUEST, code)


def _teaches(code: int, framing: str) -> bool:
    """Whether exchanges of a command show more than their bodies' layouts do, or their answers by being empty."""
    command, speaking = tables.commands()[code][0], tables.of_framing(framing)
    telling = layouts.empty(layouts.RESPONSE, code) & speaking not in (0, speaking)
    return telling or code in DESCRIBED or IggyState.learns_from(command.name)


def _has_payload(code: int, framing: str) -> bool:
    """Whether every release answers it with a payload, at times."""
    speaking = tables.of_framing(framing)
    releases = [1 << i for i in range(speaking.bit_length()) if speaking >> i & 1]
    named = sum(command.releases for command in tables.commands()[code])
    return all(layouts.has_payload(code, release) for release in releases if release & named)


_FACTS: dict[str, Callable[[int, str], bool]] = {
    "regular": _is_regular,
    "teaches": _teaches,
    "answered by column": lambda code, _: _columnar(layouts.RESPONSE, code),
    "payload": _has_payload,
    "carries": lambda code, _: code == SEND_MESSAGES or layouts.delivers(code),
    "silent": lambda code, _: any(command.silent for command in tables.commands()[code]),
}


def _columnar(side: str, code: int) -> bool:
    found = layouts.candidates(side, code, 0)
    return bool(found) and all(columnar.walkable(layout) for layout in found)
