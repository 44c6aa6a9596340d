"""Where a frame begins after bytes were lost: one header is proof (frames.py)."""

from __future__ import annotations

import re

from dissectors.pulsar.commands import COMMANDS
from dissectors.pulsar.frames import judge, sender_bit, tag
from dissectors.session.inbox import MORE
from dissectors.session.search import Judgement, SearchBudget, first_start

_SHORTEST = 12  # of frames that a search may find: sizes, type, tag, size 0


def search(
    buf: bytes, pos: int, end: int, limit: int, direction: int, final: bool, budget: SearchBudget
) -> tuple[int, bool]:
    """The first index in [pos, end) at which a frame of this sender is proven; see Conversation.resync."""
    starts = ([match.start() - 8] for match in _STARTS[direction].finditer(buf, pos + 8, end))

    def verdict(at: int) -> Judgement:
        size = judge(buf, at, end, limit, direction)
        return Judgement.YES if size > 0 else Judgement.WAIT if size == MORE else Judgement.NO

    return first_start(starts, verdict, budget, pos, end, _SHORTEST, final)


def _starts(direction: int) -> re.Pattern[bytes]:
    """What the commands of a sender begin with: type and tag."""
    codes = [command.code for command in COMMANDS.values() if command.sender & sender_bit(direction)]
    return re.compile(b"\x08(?=" + b"|".join(re.escape(bytes([code]) + tag(code)) for code in codes) + b")")


_STARTS = (_starts(0), _starts(1))
