"""Is this stream Kafka's? By content, on any port.

A request whose size, key, version and client id all make sense is certain. A response has only a size and a correlation
id: several in a row with neighbouring ids are likely Kafka's, and no more than that. But the first response of most
connections lists APIs and versions, and nothing else looks like it.
"""

from __future__ import annotations

from dissectors.kafka import schema
from dissectors.kafka.decode import full
from dissectors.kafka.frames import HEAD, MAX_FRAME, plausible_request, search_request

_FEW, _VERSIONS_BYTES = 8, 64  # every broker knows more APIs; a shorter list is no evidence
_NEAR = 1000  # correlation ids of neighbours differ by no more, though they need not ascend
CERTAIN, LIKELY, POSSIBLE, NO = 0.95, 0.6, 0.2, 0.0


def recognise(client: bytes, server: bytes, midstream: bool) -> float:
    """How sure it is that these are the first bytes of a connection to a Kafka broker."""
    from_client = _client(client, midstream) if client else NO
    if from_client == CERTAIN or not server:
        return from_client
    from_server = _server(server)
    return from_server if not client else max(from_client, min(from_server, POSSIBLE))


def _client(data: bytes, midstream: bool) -> float:
    if len(data) < HEAD:
        return POSSIBLE if _may_begin(data) or midstream else NO
    if plausible_request(data, 0, len(data)):
        return CERTAIN
    if not midstream:
        return NO
    return CERTAIN if search_request(data, 0, len(data)) is not None else POSSIBLE


def _may_begin(data: bytes) -> bool:
    """Whether fewer bytes than a header may begin a request."""
    head = data[:8].ljust(8, b"\0")
    size = int.from_bytes(head[:4], "big")
    return (len(data) < 4 or 8 <= size <= MAX_FRAME) and not head[4] and not head[6] & 0xFE


def _server(data: bytes) -> float:
    """Responses in a row: sizes that lead from one to the next, correlation ids near each other."""
    at, n, last = 0, 0, -1
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        id_ = int.from_bytes(data[at + 4 : at + 8], "big")
        if not 4 <= size <= MAX_FRAME or (n and not 0 < abs(id_ - last) < _NEAR):
            return NO
        at += 4 + size
        n, last = n + 1, id_
    if n and _lists_versions(data):
        return CERTAIN
    if at == len(data) and n >= 3:
        return LIKELY
    return POSSIBLE if n else NO


def _lists_versions(data: bytes) -> bool:
    """Whether the first response is the list of APIs and versions with which most connections begin."""
    stop = 4 + int.from_bytes(data[:4], "big")
    if not 8 + _VERSIONS_BYTES <= stop <= len(data):
        return False
    for version in schema.message("ApiVersionsResponse").versions.each():
        found = full("ApiVersionsResponse", version, data, 8, stop)
        keys = found.body.get("apiKeys") or []
        if found.exact and len(keys) > _FEW and all(0 <= api["minVersion"] <= api["maxVersion"] for api in keys):
            return True
    return False
