"""How sure a protocol is of a stream."""

from dissectors.session.conversation import Protocol

CERTAIN = 0.9


def judged(protocol: Protocol, client: bytes, server: bytes, midstream: bool, ended: bool = False) -> float:
    """How sure the protocol is of these bytes."""
    return protocol.recogniser().see(client, server, ended) if midstream else protocol.recognise(client, server)
