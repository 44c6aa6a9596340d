"""Apache Kafka, 0.8 to 4.x."""

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


class Kafka(Protocol):
    """Kafka, as the engine sees it."""

    name = "kafka"
    ports = (9092, 9093, 9094)
    colours = ("#3566c9", "#7ba4f5")
    brokers_verify_batches = True

    def unit_formats(self) -> Mapping[str, UnitFormat]:
        from dissectors.kafka.forensics import UNITS

        return UNITS

    def credentials(self) -> CredentialCarriers:
        from dissectors.kafka.secrets import carriers

        return carriers()

    def older_names(self) -> Mapping[str, str]:
        from dissectors.kafka import errors, schema

        return {older: api.name for api in schema.apis().values() for older in api.older_names} | errors.older_names()

    def releases(self) -> Sequence[str]:
        from dissectors.kafka import releases

        return releases.releases()

    def removals(self) -> Sequence[Removal]:
        from dissectors.kafka import releases

        return tuple(releases.removals())

    def changing(self) -> Mapping[str, tuple[str, str]]:
        from dissectors.kafka import schema
        from dissectors.kafka.changes import READERS

        return {schema.apis()[key].name: (change.kind, change.thing) for key, change in READERS.items()}

    def api_names(self) -> frozenset[str]:
        from dissectors.kafka import schema

        return frozenset(api.name for api in schema.apis().values())

    def body_names(self) -> frozenset[str]:
        from dissectors.kafka.body_names import body_names

        return body_names()

    def error_meaning(self, code: int | None, name: str | None) -> str | None:
        from dissectors.kafka.errors import meaning

        return None if code is None else meaning(code)

    def recognise(self, client: bytes, server: bytes) -> float:
        from dissectors.kafka import recognise

        return recognise.recognise(client, server)

    def recogniser(self) -> Recogniser:
        from dissectors.kafka import recognise

        return recognise.KafkaRecogniser()

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        from dissectors.kafka import conversation

        return conversation.KafkaConversation(conn, sink, options, midstream=midstream)

    def sized(self, frame: bytes) -> bytes:
        from dissectors.kafka.frames import sized

        return sized(frame)

    def request_head(self, response: bytes, api: str | int | None, version: int | None) -> bytes:
        from dissectors.kafka.frames import request_head

        return request_head(response, api, version)

    def spans(self, dialect: str | None) -> FrameSpans:
        from dissectors.kafka.spans import KafkaSpans

        return KafkaSpans()


PROTOCOL = Kafka()
