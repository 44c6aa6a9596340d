"""Apache Pulsar's binary protocol, versions 0 to 21 and what came without a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dissectors.compiling.loading import prefer_compiled
from dissectors.session.conversation import Protocol

if TYPE_CHECKING:
    from dissectors.checksum.unit_format import UnitFormat
    from dissectors.options import Options
    from dissectors.records import Conn
    from dissectors.redaction import CredentialCarriers
    from dissectors.rows.sink import Sink
    from dissectors.session.conversation import Conversation
    from dissectors.session.search import Recogniser
from dissectors.session.spans import FrameSpans

prefer_compiled(__path__)


class Pulsar(Protocol):
    """Pulsar, as the engine sees it."""

    name = "pulsar"
    ports = (6650, 6651)
    colours = ("#097a73", "#3fc2b8")
    brokers_verify_batches = True

    def unit_formats(self) -> Mapping[str, UnitFormat]:
        from dissectors.pulsar.forensics import UNITS

        return UNITS

    def credentials(self) -> CredentialCarriers:
        from dissectors.pulsar.secrets import carriers

        return carriers()

    def releases(self) -> Sequence[str]:
        """Versions of the protocol: a broker talks to every client of an older one."""
        from dissectors.pulsar.api import enum

        return tuple(name for _, name in sorted(enum("ProtocolVersion").items()))

    def changing(self) -> Mapping[str, tuple[str, str]]:
        return {
            "SEEK": ("altered", "subscription"),
            "UNSUBSCRIBE": ("deleted", "subscription"),
            "GET_OR_CREATE_SCHEMA": ("registered", "schema"),
        }

    def api_names(self) -> frozenset[str]:
        from dissectors.pulsar import api

        return frozenset(api.enum("BaseCommand.Type").values())

    def body_names(self) -> frozenset[str]:
        from dissectors.pulsar.body_names import body_names

        return body_names()

    def error_meaning(self, code: int | None, name: str | None) -> str | None:
        from dissectors.pulsar.errors import meaning

        return None if name is None else meaning(name)

    def recognise(self, client: bytes, server: bytes) -> float:
        from dissectors.pulsar import recognise

        return recognise.recognise(client, server)

    def recogniser(self) -> Recogniser:
        from dissectors.pulsar import recognise

        return recognise.PulsarRecogniser()

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        from dissectors.pulsar.conversation import PulsarConversation  # protobuf is loaded when Pulsar is met

        return PulsarConversation(conn, sink, options, midstream=midstream)

    def spans(self, dialect: str | None) -> FrameSpans:
        from dissectors.pulsar.spans import PulsarSpans

        return PulsarSpans()


PROTOCOL = Pulsar()
