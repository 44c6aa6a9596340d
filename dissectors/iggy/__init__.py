"""Apache Iggy: every wire era, from the protocol document of 2023 to frames of viewstamped replication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dissectors.checksum.unit_format import UnitFormat
from dissectors.compiling.loading import prefer_compiled
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.redaction import CredentialCarriers
from dissectors.rows.sink import Sink
from dissectors.session.conversation import Conversation, Protocol, Removal
from dissectors.session.search import Recogniser
from dissectors.session.spans import FrameSpans

prefer_compiled(__path__)


class Iggy(Protocol):
    """Iggy, as the engine sees it."""

    name = "iggy"
    ports = (8090,)
    colours = ("#b45309", "#f0984a")
    brokers_verify_batches = False

    def unit_formats(self) -> Mapping[str, UnitFormat]:
        from dissectors.iggy.forensics import UNITS

        return UNITS

    def credentials(self) -> CredentialCarriers:
        from dissectors.iggy import layouts
        from dissectors.iggy.secrets import carriers

        return carriers(layouts.commands_with_options())

    def dialects(self) -> Sequence[str]:
        from dissectors.iggy import tables

        return list(dict.fromkeys(release.dialect for release in tables.releases()))

    def releases(self) -> Sequence[str]:
        from dissectors.iggy import releases

        return releases.releases()

    def removals(self) -> Sequence[Removal]:
        from dissectors.iggy import releases

        return tuple(releases.removals())

    def changing(self) -> Mapping[str, tuple[str, str]]:
        from dissectors.iggy.changes import COMMANDS

        return {command: (change.kind, change.thing) for command, change in COMMANDS.items()}

    def api_names(self) -> frozenset[str]:
        from dissectors.iggy import tables

        return frozenset(command.name for meanings in tables.commands().values() for command in meanings)

    def body_names(self) -> frozenset[str]:
        from dissectors.iggy.body_names import body_names

        return body_names()

    def error_meaning(self, code: int | None, name: str | None) -> str | None:
        from dissectors.iggy.errors import meaning

        return None if code is None else meaning(code, name)

    def recognise(self, client: bytes, server: bytes) -> float:
        """How sure it is that these bytes are Iggy's."""
        from dissectors.iggy import recognise

        return recognise.recognise(client, server)

    def recogniser(self) -> Recogniser:
        """For a connection that began before the capture."""
        from dissectors.iggy import recognise

        return recognise.IggyRecogniser()

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        """A conversation for one connection."""
        from dissectors.iggy import conversation

        return conversation.IggyConversation(conn, sink, options, midstream=midstream)

    def request_head(self, response: bytes, api: str | int | None, version: int | None) -> bytes:
        from dissectors.iggy.frames import request_head

        return request_head(response, api)

    def spans(self, dialect: str | None) -> FrameSpans:
        from dissectors.iggy.spans import IggySpans

        return IggySpans(dialect)


PROTOCOL = Iggy()
