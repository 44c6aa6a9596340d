"""One frame, from its bytes alone: what its head says, and its body.

The frame goes through the protocol's own conversation, as if a connection held nothing else. A response of Kafka and a
legacy answer of Iggy do not say what they answer: the request is named beside them, and its head is put before.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from dissectors.errors import UsageError
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.rows.sink import Sink
from dissectors.session.conversation import Protocol
from dissectors.session.protocols import named, protocols
from dissectors.tcp.chunk import CLIENT, SERVER, Chunk
from dissectors.tcp.chunk import SIDES as SENDERS
from pipelines.answers.records import gathered

Side = Literal["request", "response"]
SIDES = ("request", "response")
FIELDS = (
    "protocol", "dialect", "api", "api_code", "version", "correlation_id", "client_id", "group", "topics", "status",
    "error_name", "records",
)  # fmt: skip
"""Columns of the exchange that one frame tells, in the order in which they are given."""
_TABLES = ("exchanges", "findings")
_WRONG = (
    "malformed_frame",
    "malformed_body",
    "malformed_records",
    "unknown_api",
    "decompress_failed",
    "checksum_mismatch",
)
_TIME = 0


def decoded(
    frame: bytes, protocol: str, *, side: Side | None = None, api: str | int | None = None, version: int | None = None
) -> dict[str, Any]:
    """What a frame says: side, size (bytes, length prefix included), FIELDS as far as they are known, body, problems.

    frame: one whole frame; of Kafka also without its four bytes of size. side: who sent it, the client or the broker;
    by default the client, but the broker where `api` names a request. api, version: the request that a response of
    Kafka (both) or Iggy (api) answers, by name or number. problems: sentences. Raises UsageError for bytes that are no
    frame, and where the request must be named.
    """
    known = named(protocol)
    if known is None:
        raise UsageError(f"no protocol {protocol!r}; there are {', '.join(one.name for one in protocols())}")
    if side not in (None, *SIDES):
        raise UsageError(f"the side must be {' or '.join(SIDES)}, not {side!r}")
    side = side or ("response" if api is not None else "request")
    if not frame:
        raise UsageError("no bytes: nothing to decode")
    frame = known.sized(frame)
    before = known.request_head(frame, api, version) if side == "response" else b""
    rows, problems = _fed(known, before, frame, SERVER if side == "response" else CLIENT)
    wrong = [text for kind, text in problems if kind in _WRONG]
    mine = [row for row in rows if row[f"{side}_bytes"] is not None and row["api"] is not None]
    if not mine:
        raise UsageError(f"no {side} of {protocol}: {wrong[0] if wrong else 'these bytes are no whole frame'}")
    row = mine[0]
    if row[f"{side}_bytes"] != len(frame):
        raise UsageError(
            f"these {len(frame)} bytes are more than one frame: the first one has {row[f'{side}_bytes']} bytes"
        )
    told = {name: row[name] for name in FIELDS if row[name] not in (None, [])}
    if side == "request":
        told.pop("status", None)
    body = row[side] if row[side] is not None else row["request"] if row["kind"] == "push" else None
    return {"side": side, "size": len(frame), **told, "body": None if body is None else json.loads(body),
            "problems": wrong}  # fmt: skip


def _fed(
    protocol: Protocol, before: bytes, frame: bytes, direction: int
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """(rows of `exchanges` with bodies, kind and text of findings) of a connection that holds these frames."""
    options = Options(tables=_TABLES, full=True)
    sink = Sink(_TABLES, full=True)
    sink.files = ["frame"]
    conn = Conn("", "0.0.0.0", 0, "0.0.0.0", protocol.ports[0], 0, protocol.name)
    conversation = protocol.conversation(conn, sink, options, midstream=not before)
    sent = [(CLIENT, before), (direction, frame)] if before else [(direction, frame)]
    offsets = [0, 0]
    for order, (way, data) in enumerate(sent, 1):
        at = offsets[way]
        conversation.receive(way, Chunk.of(at, data, [at], [order], [order], [_TIME + order]))
        offsets[way] += len(data)
        conversation.advance()
    conversation.close(_TIME + len(sent))
    made = gathered(sink.drain(), _TABLES, full=True)
    mine = [row for row in made["findings"].to_pylist() if row["direction"] == SENDERS[direction]]
    return made["exchanges"].to_pylist(), [(row["kind"], row["message"]) for row in mine]
