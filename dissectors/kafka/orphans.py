"""Answers whose requests were not captured: what can be told of them.

A response does not say what it answers. But a client speaks few APIs on a connection, each in one version; if the
bytes are a sensible answer to exactly one of these, or to one API in all of Kafka, then that is what they are.
Otherwise nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from dissectors.conversation import Frame
from dissectors.kafka import schema
from dissectors.kafka.decode import NOT_DECODED, Spoken, after_tags, spoken
from dissectors.kafka.errors import is_known

_HELD_BYTES = 4 << 20  # of one connection
_LARGEST = 1 << 18
_LONGEST_THROTTLE = 3_600_000  # ms


class Orphan(NamedTuple):
    """An answer that waits for the end of its connection: by then more of what the client speaks is known."""

    frame: Frame  # with a buffer of its own
    correlation_id: int


class Orphans:
    """The unexplained answers of one connection."""

    def __init__(self) -> None:
        self._held: list[Orphan] = []
        self._size = 0

    def hold(self, frame: Frame, correlation_id: int) -> bool:
        """Keep an answer for later, where there is room."""
        if frame.size > _LARGEST or self._size + frame.size > _HELD_BYTES:
            return False
        self._size += frame.size
        data = bytes(frame.data[frame.start : frame.end])
        own = frame._replace(data=data, start=0, end=len(data), known=min(frame.known - frame.start, len(data)))
        self._held.append(Orphan(own, correlation_id))
        return True

    def release(self) -> list[Orphan]:
        held, self._held, self._size = self._held, [], 0
        return held


def answers_to(frame: Frame, candidates: Iterable[Spoken]) -> list[Spoken]:
    """Those of the candidates to which the frame is a sensible answer."""
    return [said for said in candidates if said.known and _fits(said, frame)] if frame.complete else []


def explain(frame: Frame, spoken_here: Iterable[Spoken]) -> tuple[Spoken | None, bool]:
    """(what the frame answers, whether its version is sure too), or (None, False)."""
    here = list(spoken_here)
    fits = answers_to(frame, here)
    if fits:
        return (fits[0], True) if len(fits) == 1 else (None, False)
    if not frame.complete:
        return None, False
    keys = {said.key for said in here}
    fits = answers_to(frame, (spoken(a.key, v) for a in schema.apis().values() for v in a.versions.each()))
    fits = [said for said in fits if said.key not in keys]  # a client speaks one version of an API
    if len({said.key for said in fits}) == 1:
        return fits[-1], len(fits) == 1
    return None, False


def _fits(said: Spoken, frame: Frame) -> bool:
    end = frame.start + frame.size
    body = frame.start + 8
    try:
        full = said.full_response(frame.data, after_tags(frame.data, body) if said.response_tags else body, end)
    except NOT_DECODED:
        return False
    return full.exact and _sensible(full.body)


def _sensible(value: Any, name: str = "") -> bool:
    """Whether a decoded body holds what brokers send."""
    if isinstance(value, dict):
        return "_unknownTags" not in value and all(_sensible(v, k) for k, v in value.items())
    if isinstance(value, list):
        return all(_sensible(v, name) for v in value)
    if isinstance(value, str):
        return value.isprintable() or name.lower().endswith("message")
    if name.lower().endswith("errorcode"):
        return is_known(value)
    if name == "throttleTimeMs":
        return bool(0 <= value <= _LONGEST_THROTTLE)
    return True
