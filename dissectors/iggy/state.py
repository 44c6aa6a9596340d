"""What one connection has shown of itself: which user, which release, and what streams and topics are called.

Every command may teach something: a login its user and software, a listing names, and some answers the release of the
server. What teaches is a mapping from the command's name.
"""

from __future__ import annotations

from typing import Any

from dissectors.iggy import layouts, tables
from dissectors.iggy.era import Era
from dissectors.iggy.frames import LEGACY
from dissectors.iggy.names import TEACHING, IggyNames
from dissectors.iggy.pending import IggyRequest

_ROOT = "iggy"
_ROOT_IDS = {0: ("0.6", ""), 1: ("", "0.5")}  # the root user's id -> the releases that give it
_FIRST_PARTITIONS = {0: ("0.6", ""), 1: ("", "0.5")}  # the number of a topic's first partition -> the same
_ASKED_BY_NEW_CLIENTS = "GET_CLUSTER_METADATA"
LOGINS = frozenset({"LOGIN_USER", "LOGIN_WITH_PERSONAL_ACCESS_TOKEN"})


class IggyState:
    """Small plain values; what they say of the release goes to `era`, names go to `names`."""

    def __init__(self, era: Era, names: IggyNames) -> None:
        self.names = names
        self.user: str | None = None  # who logged in
        self.client_software: str | None = None
        self.client_version: str | None = None
        self.server_version: str | None = None
        self._era = era

    def matters(self, api: str | None) -> bool:
        """Whether the answer to a command teaches anything."""
        return not self._era.settled or api in _LESSONS or api in TEACHING

    def request(self, call: IggyRequest, partition: int | None) -> None:
        """Learn from a request; `partition`: the one that it sends messages to."""
        values = call.values
        if call.user and isinstance(version := values.get("version"), str):
            self.client_version = version or None
            for prefix, releases in tables.clients():
                if version.startswith(prefix):
                    self._era.favour(releases, f"client version {version}")
        if "sdk_name" in values:
            self.client_software, self.client_version = values["sdk_name"], values.get("sdk_version")
        if (protocol := values.get("protocol_version")) is not None:
            self._era.narrow(tables.of_protocol(protocol), f"protocol version {protocol} in login")
        if self._era.settled:
            return
        if call.api == _ASKED_BY_NEW_CLIENTS:
            self._era.favour(tables.span("0.7", ""), "cluster metadata asked for")
        if partition in _FIRST_PARTITIONS:
            self._era.favour(tables.span(*_FIRST_PARTITIONS[partition]), f"messages for partition {partition}")

    def answered(self, call: IggyRequest, values: dict[str, Any], time: int) -> None:
        """Learn what a successful answer shows beyond its own exchange; no values: it was empty."""
        if not values and not self._era.settled:
            silent = layouts.empty(layouts.RESPONSE, call.api_code or -1)
            if silent & self._era.allowed:
                self._era.narrow(silent, f"an empty answer to {call.api}")
        if call.api in TEACHING:
            self.names.learn(call.api, call.values, values, time)
        lesson = _LESSONS.get(call.api or "")
        if lesson is not None:
            lesson(self, call, values)

    # --- lessons ---

    def _login(self, call: IggyRequest, values: dict[str, Any]) -> None:
        self.user = call.user or self.user
        if "server_version" in values:
            self.server_version = values["server_version"]
        elif call.user == _ROOT and "user_id" in values:
            releases = tables.span(*_ROOT_IDS.get(values["user_id"], ("", "")))
            self._era.narrow(releases & tables.of_framing(LEGACY), f"the root user has id {values['user_id']}")

    def _stats(self, call: IggyRequest, values: dict[str, Any]) -> None:
        version = values.get("iggy_server_version")
        if not version:
            return
        self.server_version = version
        for prefix, releases in tables.servers():
            if version.startswith(prefix):
                self._era.narrow(releases, f"server version {version}")


_LESSONS = {**dict.fromkeys(LOGINS, IggyState._login), "GET_STATS": IggyState._stats}
