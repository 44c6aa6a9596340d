"""Rows of `events` of Iggy: what a request and its answer say that no column holds.

JOIN_CONSUMER_GROUP, LEAVE_CONSUMER_GROUP    joined, left: the user that is logged in
CREATE_, UPDATE_, DELETE_, PURGE_ …          streams, topics, partitions, groups and users; never a password
CREATE_, GET_CONSUMER_GROUP                  the number of a group, by which clients may ask for it
GET_CLUSTER_METADATA                         the addresses of the nodes, each once a connection
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dissectors.iggy.pending import IggyRequest
from dissectors.records import endpoint
from dissectors.session.exchange import ErrorCode, Report
from dissectors.session.frame import FrameFacts

CLUSTER = "GET_CLUSTER_METADATA"
CREATE_GROUP, GET_GROUP = "CREATE_CONSUMER_GROUP", "GET_CONSUMER_GROUP"
_VERBS = {"CREATE": "created", "DELETE": "deleted", "UPDATE": "altered", "PURGE": "altered", "CHANGE": "altered"}
_OBJECTS = ("STREAM", "TOPIC", "PARTITIONS", "CONSUMER_GROUP", "USER", "PERMISSIONS", "PASSWORD")
KINDS: Mapping[str, str] = {
    **{f"{verb}_{thing}": kind for verb, kind in _VERBS.items() for thing in _OBJECTS},
    "CREATE_PARTITIONS": "altered",
    "DELETE_PARTITIONS": "altered",
    "JOIN_CONSUMER_GROUP": "joined",
    "LEAVE_CONSUMER_GROUP": "left",
    GET_GROUP: "named",
    CLUSTER: "advertised",
}
"""Command -> kind of its event."""
READ = frozenset({CLUSTER, CREATE_GROUP, GET_GROUP})
"""Commands whose answers are read for events."""
NAMES_USER = frozenset({"CREATE_USER", "DELETE_USER", "UPDATE_USER", "UPDATE_PERMISSIONS", "CHANGE_PASSWORD"})
"""Commands whose request names a user."""
_ADDRESSES = 1000  # that are remembered on one connection


class IggyEvents:
    """Writes the events of one connection. advertised: addresses of nodes, which are reported once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.advertised: set[str] = set()

    def answered(
        self,
        request: IggyRequest,
        values: Mapping[str, Any],
        facts: FrameFacts,
        errors: Sequence[ErrorCode],
        user: str | None,
    ) -> None:
        """Take the answer to a command of KINDS. values: what its body says; user: who is logged in."""
        kind = KINDS[request.api or ""]
        if request.api in (CREATE_GROUP, GET_GROUP) and not errors and values.keys() >= {"id", "name"}:
            self._write("named", request, facts, group=values["name"], number=values["id"])
        if kind == "advertised":
            self._nodes(request, values.get("nodes") or (), facts)
        elif kind in ("joined", "left"):
            if not errors:
                self._write(kind, request, facts, subject=user)
        elif kind != "named":
            code = errors[0].code if errors else 0
            text = None if kind in ("created", "deleted") else str(request.api).lower().replace("_", " ")
            self._write(kind, request, facts, subject=_subject(request), number=code, text=text)

    def _nodes(self, request: IggyRequest, nodes: Sequence[Mapping[str, Any]], facts: FrameFacts) -> None:
        for node in nodes:
            address = endpoint(node["ip"], node["tcp_port"])
            if address not in self.advertised and len(self.advertised) < _ADDRESSES:
                self.advertised.add(address)
                self._write("advertised", request, facts, subject=address)

    def _write(self, kind: str, request: IggyRequest, facts: FrameFacts, **more: Any) -> None:
        topic = request.topics[0] if request.topics else None
        self.report.event(kind, request, facts, topic=topic, **more)


def _subject(request: IggyRequest) -> str | None:
    """The user or stream that a command is about; None where its topic or group says it."""
    if request.api in NAMES_USER:
        values = request.values or {}
        name = values.get("username", values.get("user_id", values.get("user")))
        return None if name is None else f"user {name}"
    return None if request.topics or request.stream is None else f"stream {request.stream}"
