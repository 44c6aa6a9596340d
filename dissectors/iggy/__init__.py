"""Apache Iggy: every wire era, from the protocol document of 2023 to frames of viewstamped replication."""

from __future__ import annotations

from collections.abc import Sequence

from dissectors.conversation import Conversation, Protocol, one_by_one
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.sink import Sink


class Iggy:
    """See conversation.Protocol."""

    name = "iggy"
    ports: tuple[int, ...] = (8090,)

    def recognise(self, client: bytes, server: bytes, midstream: bool) -> float:
        """How sure it is that these bytes are Iggy's."""
        from dissectors.iggy.recognise import recognise

        return recognise(client, server, midstream)

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        """A conversation for one connection."""
        from dissectors.iggy.conversation import IggyConversation

        return IggyConversation(conn, sink, options, midstream=midstream)

    def advance(self, talks: Sequence[Conversation]) -> None:
        one_by_one(talks)


PROTOCOL: Protocol = Iggy()
