"""Facts that a connection has shown so far: user, software, release, names of streams and topics.

A login shows its user and software, a listing names, and some answers the release of the server. Which answers change
the state is a mapping from the command's name.
"""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.iggy import tables
from dissectors.iggy.era import Era
from dissectors.iggy.frames import LEGACY
from dissectors.iggy.names import NAMING, IggyNames
from dissectors.iggy.pending import IggyRequest

_ROOT = "iggy"
_ROOT_IDS = {0: ("0.6", ""), 1: ("", "0.5")}  # the root user's id -> the releases that give it
_FIRST_PARTITIONS = {0: ("0.6", ""), 1: ("", "0.5")}  # the number of a topic's first partition -> the same
_ASKED_BY_NEW_CLIENTS = "GET_CLUSTER_METADATA"
LOGINS = frozenset({"LOGIN_USER", "LOGIN_WITH_PERSONAL_ACCESS_TOKEN"})


@final
@carried
@compiled
class IggyState:
    """Small plain values; what they say of the release goes to `era`, names go to `names`."""

    names: IggyNames
    user: str | None = None  # who logged in
    client_software: str | None = None
    client_version: str | None = None
    server_version: str | None = None
    _era: Era

    def __init__(self, era: Era, names: IggyNames) -> None:
        self.names = names
        self._era = era

    @compiled
    def is_changed_by(self, api: str | None) -> cython.bint:
        """Whether the payload of an answer to a command may change anything here."""
        return not self._era.settled or api in _CHANGES or api in NAMING

    @compiled
    def request(self, request: IggyRequest, partition: cython.longlong) -> None:
        """A request was sent. partition: the one that it sends messages to; ABSENT where it sends none."""
        if request.values is not None:
            self._introduced(request, request.values)
        if self._era.settled:
            return
        if request.api == _ASKED_BY_NEW_CLIENTS:
            self._era.favour(tables.span("0.7", ""), "cluster metadata asked for")
        if partition in _FIRST_PARTITIONS:
            self._era.favour(tables.span(*_FIRST_PARTITIONS[partition]), f"messages for partition {partition}")

    def _introduced(self, request: IggyRequest, values: dict[str, Any]) -> None:
        """Take what a request says of its client."""
        if request.user and isinstance(version := values.get("version"), str):
            self.client_version = version or None
            for prefix, releases in tables.clients():
                if version.startswith(prefix):
                    self._era.favour(releases, f"client version {version}")
        if "sdk_name" in values:
            self.client_software, self.client_version = values["sdk_name"], values.get("sdk_version")
        if (protocol := values.get("protocol_version")) is not None:
            self._era.narrow(tables.of_protocol(protocol), f"protocol version {protocol} in login")

    @compiled
    def answered(self, request: IggyRequest, values: dict[str, Any], time: cython.longlong) -> None:
        """A request was answered, without an error. values: fields of the answer, none where it was empty; time: ns."""
        if not values and not self._era.settled:
            silent = self._era.command(request.api_code).empty
            if silent & self._era.allowed:
                self._era.narrow(silent, f"an empty answer to {request.api}")
        if request.api in NAMING:
            self.names.learn(request.api, request.values or {}, values, time)
        change = _CHANGES.get(request.api or "")
        if change is not None:
            change(self, request, values)

    def _login(self, request: IggyRequest, values: dict[str, Any]) -> None:
        self.user = request.user or self.user
        if "server_version" in values:
            self.server_version = values["server_version"]
        elif request.user == _ROOT and "user_id" in values:
            releases = tables.span(*_ROOT_IDS.get(values["user_id"], ("", "")))
            self._era.narrow(releases & tables.of_framing(LEGACY), f"the root user has id {values['user_id']}")

    def _stats(self, request: IggyRequest, values: dict[str, Any]) -> None:
        version = values.get("iggy_server_version")
        if not version:
            return
        self.server_version = version
        for prefix, releases in tables.servers():
            if version.startswith(prefix):
                self._era.narrow(releases, f"server version {version}")


_CHANGES = {**dict.fromkeys(LOGINS, IggyState._login), "GET_STATS": IggyState._stats}
