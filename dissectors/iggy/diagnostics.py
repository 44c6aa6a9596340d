"""What is odd about a connection as a whole: unknown commands, the protocol version, servers of another era.

A server that cannot read a client's login, or answers in the other framing, is of another era than the client: nothing
works on such a connection, and what the server says of it ("invalid command") does not tell why.
"""

from __future__ import annotations

from dissectors.iggy.decode import Body
from dissectors.iggy.era import Era
from dissectors.iggy.frames import LEGACY, VSR
from dissectors.iggy.pending import IggyRequest
from dissectors.iggy.state import LOGINS
from dissectors.rows.layout import ABSENT
from dissectors.session.conversation import Conversation
from dissectors.session.exchange import ErrorCode, Report
from dissectors.session.frame import Frame, FrameFacts
from dissectors.wording import counted

_UNREADABLE = frozenset({3, 4, 14003})  # InvalidCommand, InvalidFormat, IncompatibleProtocolVersion
_FRAMED = {LEGACY: "Iggy 0.8 and older", VSR: "Iggy 0.9 and newer"}
"""Framing -> the releases that use it, as people number them."""


class IggyDiagnostics:
    """Gathers over one connection; reports at its end, and at once what cannot wait."""

    def __init__(self, conversation: Conversation, report: Report, era: Era) -> None:
        self._conversation = conversation
        self._report = report
        self._era = era
        self._unknown: set[int] = set()
        self.of_another_era = False  # whether client and server were found to be of different eras

    def refused(self, request: IggyRequest, error: ErrorCode, frame: Frame) -> None:
        """A request was answered with an error. frame: the answer."""
        if error.code in _UNREADABLE and request.api in LOGINS and request.well_formed:
            self._unreadable(request, error, frame)

    def _unreadable(self, login: IggyRequest, error: ErrorCode, frame: Frame) -> None:
        """A server refused a whole login for its format; one that names neither a user nor a version is no client's."""
        version = (login.values or {}).get("protocol_version")
        if login.user or version:
            client = f"{self._era.dialect} (protocol {version})" if version else self._era.dialect
            self._another_era(frame, login, f"could not read the login: {error.name}", client)

    def older_server(self, frame: Frame) -> None:
        """The server of a VSR client answers in legacy framing. frame: its first answer."""
        client = f"{self._era.dialect} ({_FRAMED[VSR]})"
        request = IggyRequest(frame.facts(), None, ABSENT)  # which one it answers is not known
        self._another_era(frame, request, f"answers in the framing of {_FRAMED[LEGACY]}", client)

    def _another_era(self, frame: Frame, request: IggyRequest, what: str, client: str) -> None:
        """Report once a connection that the server is of another era than the client."""
        if self.of_another_era:
            return
        self.of_another_era = True
        self._report.event("other_version", request, frame.facts(), subject=client, text=what)

    def unknown(self, frame: Frame, code: int) -> None:
        """A command that no release has: report it once a connection."""
        if code not in self._unknown:
            self._unknown.add(code)
            self._conversation.finding_at(frame, "unknown_api", f"Command {code} is not known", code=code)

    def misread(self, frame: Frame, api: str | None, read: Body) -> None:
        """A body that no layout reads to its end."""
        if read.misfit.found:
            self._conversation.finding_at(
                frame,
                "malformed_frame",
                f"No layout of {api} reads this body: {read.misfit.text()}",
                api=api,
                position=read.misfit.at - frame.start,
            )
        else:
            self._conversation.finding_at(
                frame, "trailing_bytes", f"{counted(read.trailing, 'byte')} after the body of {api}"
            )

    def close(self, first: FrameFacts | None) -> None:
        """The connection ends: report its protocol version. first: its first frame."""
        era = self._era
        if first is not None:
            self._conversation.finding(
                "dialect" if era.settled else "dialect_uncertain",
                f"Protocol version: {era.dialect}"
                if era.settled
                else f"Protocol version: probably {era.dialect}; other releases read these bytes, too",
                time=first.first_ns,
                packet_ref=first.packet_ref,
                dialect=era.dialect,
                confidence=era.confidence(),
                releases=era.names(),
                evidence=era.evidence,
                revised=era.revised,
                overridden=era.fixed,
            )
