"""What the frames of a connection mean together, for a person to look at: retries, unknown commands, the era.

A server that cannot commit a request for now answers TransientNotCommitted or TransientNotAccepted (57, 58), and the
client's library sends the same request again: those are retries of one request, not failures of many.
"""

from __future__ import annotations

from dissectors.conversation import Conversation, Frame
from dissectors.iggy.decode import Body
from dissectors.iggy.era import Era
from dissectors.iggy.errors import TRANSIENT
from dissectors.iggy.flight import Call

_REFUSALS = 1024  # requests refused for now that are remembered


class Meaning:
    """Gathers over one connection; tells at its end, and at once what cannot wait."""

    def __init__(self, talk: Conversation, era: Era) -> None:
        self._talk = talk
        self._era = era
        self._retries: dict[int, int] = {}  # status -> requests sent again after it
        self._refused: dict[tuple[int, int | None, int], int] = {}  # operation, id, size of what was refused -> status
        self._unknown: set[int] = set()

    def asked(self, call: Call) -> None:
        """A VSR request: it may be one that was refused."""
        refused = self._refused.pop((call.operation, call.request_id, call.size), None)
        if refused is not None:
            self._retries[refused] = self._retries.get(refused, 0) + 1

    def refused(self, call: Call, status: int) -> None:
        """A request was answered with an error."""
        if status in TRANSIENT and len(self._refused) < _REFUSALS:
            self._refused[call.operation, call.request_id, call.size] = status

    def unknown(self, frame: Frame, code: int) -> None:
        """A command that no release has: told once a connection."""
        if code not in self._unknown:
            self._unknown.add(code)
            self._talk.finding_at(frame, "unknown_api", "warning", f"Command {code} is not known", code=code)

    def misread(self, frame: Frame, api: str | None, read: Body) -> None:
        """A body that no layout reads to its end, if it is one."""
        if read.problem:
            self._talk.finding_at(
                frame,
                "malformed_frame",
                "error",
                f"No layout of {api} reads this body: {read.problem}",
                api=api,
                position=read.at - frame.start,
            )
        elif read.trailing:
            self._talk.finding_at(frame, "trailing_bytes", "info", f"{read.trailing} bytes after the body of {api}")

    def close(self) -> None:
        """The connection ends: tell which release was spoken, and what was sent again."""
        era = self._era
        sure = era.settled
        if self._talk.frames:
            self._talk.finding(
                "dialect" if sure else "dialect_uncertain",
                "info",
                f"Spoken is {era.dialect}"
                if sure
                else f"Several releases read these bytes; {era.dialect} is likeliest",
                dialect=era.dialect,
                confidence=era.confidence(),
                releases=era.names(),
                evidence=era.evidence,
                revised=era.revised,
                overridden=era.fixed,
            )
        if self._retries:
            self._talk.finding(
                "retries",
                "info",
                f"{sum(self._retries.values())} requests were refused for now and sent again",
                by_code=self._retries,
            )
