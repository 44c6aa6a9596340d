"""What the frames of a connection mean together, for a person to look at: retries, unknown commands, the era.

A server that cannot commit a request for now answers TransientNotCommitted or TransientNotAccepted (57, 58), and the
client's library sends the same request again: those are retries of one request, not failures of many.
"""

from __future__ import annotations

from dissectors.conversation import Conversation
from dissectors.frame import Frame
from dissectors.iggy.decode import Body
from dissectors.iggy.era import Era
from dissectors.iggy.errors import TRANSIENT
from dissectors.iggy.pending import IggyRequest
from dissectors.wording import counted, were

_REFUSALS = 1024  # requests refused for now that are remembered


class IggyDiagnostics:
    """Gathers over one connection; reports at its end, and at once what cannot wait."""

    def __init__(self, conversation: Conversation, era: Era) -> None:
        self._conversation = conversation
        self._era = era
        self._retries: dict[int, int] = {}  # status -> requests sent again after it
        self._refused: dict[tuple[int, int | None, int], int] = {}  # operation, id, size of what was refused -> status
        self._unknown: set[int] = set()

    def request(self, call: IggyRequest) -> None:
        """A VSR request: it may be one that was refused."""
        refused = self._refused.pop((call.operation, call.correlation_id, call.facts.size), None)
        if refused is not None:
            self._retries[refused] = self._retries.get(refused, 0) + 1

    def refused(self, call: IggyRequest, status: int) -> None:
        """A request was answered with an error."""
        if status in TRANSIENT and len(self._refused) < _REFUSALS:
            self._refused[call.operation, call.correlation_id, call.facts.size] = status

    def unknown(self, frame: Frame, code: int) -> None:
        """A command that no release has: reported once a connection."""
        if code not in self._unknown:
            self._unknown.add(code)
            self._conversation.finding_at(frame, "unknown_api", f"Command {code} is not known", code=code)

    def misread(self, frame: Frame, api: str | None, read: Body) -> None:
        """A body that no layout reads to its end, if it is one."""
        if read.problem:
            self._conversation.finding_at(
                frame,
                "malformed_frame",
                f"No layout of {api} reads this body: {read.problem}",
                api=api,
                position=read.at - frame.start,
            )
        elif read.trailing:
            self._conversation.finding_at(
                frame, "trailing_bytes", f"{counted(read.trailing, 'byte')} after the body of {api}"
            )

    def close(self) -> None:
        """The connection ends: report which release was spoken, and what was sent again."""
        era = self._era
        sure = era.settled
        if self._conversation.frames:
            self._conversation.finding(
                "dialect" if sure else "dialect_uncertain",
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
            self._conversation.finding(
                "retries",
                f"{were(sum(self._retries.values()), 'request')} refused for now and sent again",
                by_code=self._retries,
            )
