"""Rows of `events` of Iggy: what a request and its answer say that no column holds.

JOIN_CONSUMER_GROUP, LEAVE_CONSUMER_GROUP    joined, left: the user that is logged in
CREATE_, UPDATE_, DELETE_, PURGE_ …          what was changed: see changes.py
LOGIN_                                       authenticated: who logged in, and whether the server took it
CREATE_, GET_CONSUMER_GROUP                  the number of a group, by which clients may ask for it
GET_CLUSTER_METADATA                         the addresses of the nodes, each once a connection
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dissectors.iggy.changes import COMMANDS, texts, thing_of
from dissectors.iggy.pending import IggyRequest
from dissectors.records import endpoint
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import ErrorCode, Report
from dissectors.session.frame import FrameFacts

CLUSTER = "GET_CLUSTER_METADATA"
CREATE_GROUP, GET_GROUP = "CREATE_CONSUMER_GROUP", "GET_CONSUMER_GROUP"
PASSWORD, TOKEN = "password", "personal access token"
_LOGINS = {"LOGIN_USER": PASSWORD, "LOGIN_WITH_PERSONAL_ACCESS_TOKEN": TOKEN}
KINDS: Mapping[str, str] = {
    **{command: change.kind for command, change in COMMANDS.items()},
    **dict.fromkeys(_LOGINS, "authenticated"),
    "JOIN_CONSUMER_GROUP": "joined",
    "LEAVE_CONSUMER_GROUP": "left",
    GET_GROUP: "named",
    CLUSTER: "advertised",
}
"""Command -> kind of its event."""
READ = frozenset({CLUSTER, CREATE_GROUP, GET_GROUP})
"""Commands whose answers are read for events."""
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
        elif kind == "authenticated":
            self._logged_in(request, values, facts, errors)
        elif kind != "named":
            self._changed(request, facts, errors)

    def _logged_in(
        self, request: IggyRequest, values: Mapping[str, Any], facts: FrameFacts, errors: Sequence[ErrorCode]
    ) -> None:
        """A login was taken or refused. A token does not say whose it is: the answer has the user's number."""
        name = request.user or (f"user {values['user_id']}" if "user_id" in values else None)
        code = errors[0].code if errors else 0
        self._write("authenticated", request, facts, subject=name, number=code, text=_LOGINS[request.api or ""])

    def _changed(self, request: IggyRequest, facts: FrameFacts, errors: Sequence[ErrorCode]) -> None:
        """A command of COMMANDS was done or refused."""
        change, asked = COMMANDS[request.api or ""], request.values or {}
        thing, code = thing_of(change, asked), errors[0].code if errors else 0
        subject = _subject(thing, request, asked)
        for text in texts(change, asked):
            self._write(change.kind, request, facts, thing=thing, subject=subject, number=code, text=text)

    def _nodes(self, request: IggyRequest, nodes: Sequence[Mapping[str, Any]], facts: FrameFacts) -> None:
        for node in nodes:
            address = endpoint(node["ip"], node["tcp_port"])
            if address not in self.advertised and len(self.advertised) < _ADDRESSES:
                self.advertised.add(address)
                self._write("advertised", request, facts, subject=address)

    def _write(self, kind: str, request: IggyRequest, facts: FrameFacts, **more: Any) -> None:
        topic = request.topics[0] if request.topics else request.stream
        partition = None if request.partition_id == ABSENT else request.partition_id
        self.report.event(kind, request, facts, topic=topic, partition=partition, **more)


def _subject(thing: str, request: IggyRequest, asked: Mapping[str, Any]) -> str | None:
    """What a command is about; None where its topic or group says it. asked: what its body says."""
    if thing == "user":
        name = asked.get("user_id", asked.get("username"))
    elif thing == TOKEN:
        name = asked.get("name")
    else:
        name = request.consumer if thing == "offsets" else None
    return None if name is None else str(name)
