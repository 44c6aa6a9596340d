"""Apache Pulsar's binary protocol, versions 0 to 21 and what came without a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dissectors.conversation import one_by_one
from dissectors.pulsar.recognise import recognise

if TYPE_CHECKING:
    from dissectors.conversation import Conversation
    from dissectors.options import Options
    from dissectors.records import Conn
    from dissectors.sink import Sink


class Pulsar:
    """See dissectors.conversation.Protocol."""

    name = "pulsar"
    ports = (6650, 6651)

    def recognise(self, client: bytes, server: bytes, midstream: bool) -> float:
        return recognise(client, server, midstream)

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        from dissectors.pulsar.conversation import PulsarConversation  # protobuf is loaded when Pulsar is met

        return PulsarConversation(conn, sink, options, midstream=midstream)

    def advance(self, talks: Sequence[Conversation]) -> None:
        one_by_one(talks)


PROTOCOL = Pulsar()
