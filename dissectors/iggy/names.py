"""Names of streams and topics. Requests name them by number or by name; answers show which is which.

A topic is shown as `stream/topic`. A number whose name is not known yet becomes a token of the sink, so that a name
learned on any connection to the same server is found: keys are `iggy/<server>/<stream>` and
`iggy/<server>/<stream>/<topic>`, numbers as such and names behind a `=`. Replicas of a cluster use the same numbers,
and say to each other which cluster theirs is. Once a server has said so to a client, names are reported for
`iggy/cluster-<id>/<stream>` and so on as well.
"""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.records import Conn, endpoint
from dissectors.rows.late_names import MARK, unresolved
from dissectors.rows.sink import Sink

Identifier = int | str
_KEPT = 4096  # names and topics remembered; reported again where more are met


@final
@carried
@compiled
class IggyNames:
    """Names of one server, as one connection learns and needs them."""

    _root: str
    _sink: Sink
    _streams: dict[str, int]  # name -> number
    _reported: dict[str, str]
    _shown: dict[tuple[Identifier, Identifier], tuple[str]]
    _cluster: int  # that the server is in, 0 while it has not said so

    def __init__(self, conn: Conn, sink: Sink) -> None:
        self._root = f"iggy/{endpoint(conn.server_ip, conn.server_port)}"
        self._sink = sink
        self._streams = {}
        self._reported = {}
        self._shown = {}
        self._cluster = 0

    def stream(self, stream: Identifier) -> str:
        """A stream's name, or the token of its number."""
        return stream if isinstance(stream, str) else unresolved(f"{self._root}/{stream}", str(stream))

    @compiled
    def topics(self, stream: Identifier, topic: Identifier) -> tuple[str]:
        """`stream/topic`, alone in a tuple."""
        shown = self._shown.get((stream, topic))
        if shown is None:
            if isinstance(topic, str):
                name = topic
            else:
                name = unresolved(f"{self._root}/{_key(stream)}/{topic}", str(topic))
            shown = self._shown[stream, topic] = (f"{self.stream(stream)}/{name}",)
            if len(self._shown) > _KEPT:
                self._shown.clear()
        return shown

    def learn(self, api: str | None, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        """Take the names out of an answered request."""
        learn = _LEARN.get(api or "")
        if learn is not None:
            learn(self, request, answer, time)

    def learn_cluster(self, cluster: int, time: int) -> None:
        """The server said at `time` (ns) in which cluster it is."""
        if cluster != self._cluster:
            self._cluster = cluster
            for key, name in self._reported.items():
                self._sink.name(self._of_cluster(key), time, name)

    # --- what answers show ---

    def _stream_made(self, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        number, name = answer.get("id", request.get("stream_id")), answer.get("name", request.get("name"))
        if isinstance(number, int) and isinstance(name, str):
            self._report_stream(number, name, time)

    def _stream(self, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        if "id" in answer and "name" in answer:
            self._report_stream(answer["id"], answer["name"], time)
            for topic in answer.get("topics", ()):
                self._report_topic(answer["id"], topic["id"], topic["name"], time)
                self._report_topic(answer["name"], topic["id"], topic["name"], time)

    def _all_streams(self, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        for stream in answer.get("streams", ()):
            self._report_stream(stream["id"], stream["name"], time)

    def _stream_renamed(self, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        stream, name = request.get("stream_id"), request.get("name")
        number = self._streams.get(stream) if isinstance(stream, str) else stream
        if isinstance(number, int) and isinstance(name, str):
            self._report_stream(number, name, time)

    def _topic_renamed(self, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        topic, name = request.get("topic_id"), request.get("name")
        if isinstance(topic, int) and isinstance(name, str):
            self._topic_of(request.get("stream_id"), topic, name, time)

    def _updated(self, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        """0.10: any resource, its new name among the options."""
        renamed = {**request, "name": request.get("options", {}).get("name")}
        (self._topic_renamed if "topic_id" in request else self._stream_renamed)(renamed, answer, time)

    def _topic_made(self, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        number = answer.get("id", request.get("topic_id"))
        name = answer.get("name", request.get("name"))
        if isinstance(number, int) and isinstance(name, str) and "stream_id" in request:
            self._topic_of(request["stream_id"], number, name, time)

    def _all_topics(self, request: dict[str, Any], answer: dict[str, Any], time: int) -> None:
        for topic in answer.get("topics", ()):
            self._topic_of(request.get("stream_id"), topic["id"], topic["name"], time)

    # --- reporting ---

    def _topic_of(self, stream: Identifier | None, topic: int, name: str, time: int) -> None:
        if stream is not None:
            self._report_topic(stream, topic, name, time)
        if isinstance(stream, str) and stream in self._streams:
            self._report_topic(self._streams[stream], topic, name, time)

    def _report_stream(self, number: int, name: str, time: int) -> None:
        if len(self._streams) >= _KEPT:
            self._streams.clear()
        self._streams[name] = number
        self._report(f"{self._root}/{number}", time, name)

    def _report_topic(self, stream: Identifier, topic: int, name: str, time: int) -> None:
        self._report(f"{self._root}/{_key(stream)}/{topic}", time, name)

    def _report(self, key: str, time: int, name: str) -> None:
        if self._reported.get(key) != name and MARK not in name:
            if len(self._reported) >= _KEPT:
                self._reported.clear()
            self._reported[key] = name
            self._sink.name(key, time, name)
            if self._cluster:
                self._sink.name(self._of_cluster(key), time, name)

    def _of_cluster(self, key: str) -> str:
        return f"{_cluster_root(self._cluster)}{key.removeprefix(self._root)}"


def in_cluster(cluster: int, stream: int, topic: int) -> str:
    """`stream/topic` of a cluster, as tokens of the numbers by which its replicas know them."""
    root = _cluster_root(cluster)
    return f"{unresolved(f'{root}/{stream}', str(stream))}/{unresolved(f'{root}/{stream}/{topic}', str(topic))}"


def _cluster_root(cluster: int) -> str:
    return f"iggy/cluster-{cluster:x}"


def _key(stream: Identifier) -> str:
    return f"={stream}" if isinstance(stream, str) else str(stream)


_LEARN = {
    "CREATE_STREAM": IggyNames._stream_made,
    "GET_STREAM": IggyNames._stream,
    "GET_STREAMS": IggyNames._all_streams,
    "UPDATE_STREAM": IggyNames._stream_renamed,
    "CREATE_TOPIC": IggyNames._topic_made,
    "GET_TOPIC": IggyNames._topic_made,
    "GET_TOPICS": IggyNames._all_topics,
    "UPDATE_TOPIC": IggyNames._topic_renamed,
    "UPDATE_RESOURCE": IggyNames._updated,
}
NAMING = frozenset(_LEARN)
