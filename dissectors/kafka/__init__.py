"""Apache Kafka, 0.8 to 4.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dissectors.conversation import Conversation
from dissectors.kafka.recognise import recognise
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.sink import Sink

if TYPE_CHECKING:
    from dissectors.kafka.conversation import KafkaConversation


class Kafka:
    """Kafka, as the engine sees it."""

    name = "kafka"
    ports = (9092, 9093, 9094)

    def recognise(self, client: bytes, server: bytes, midstream: bool) -> float:
        return recognise(client, server, midstream)

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        from dissectors.kafka.conversation import KafkaConversation

        return KafkaConversation(conn, sink, options, midstream=midstream)

    def advance(self, talks: Sequence[KafkaConversation]) -> None:
        from dissectors.kafka.bulk import advance

        advance(talks)


PROTOCOL = Kafka()
