"""What topics are called on one connection: topic id -> name, as Metadata answers and the controllers' log say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dissectors.kafka.body_notes import Topic
from dissectors.kafka.full import uuid_text
from dissectors.kafka.secrets import CLUSTER_METADATA
from dissectors.rows.late_names import unresolved
from dissectors.rows.sink import Sink

METADATA_TOPIC_ID = bytes(15) + b"\1"  # reserved for the log of the KRaft controllers (KIP-516)


class TopicNames:
    """The names known on one connection; a topic id without one becomes a token that is resolved at the end."""

    __slots__ = ("_names", "_sink", "_tokens")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._names: dict[Topic, str] = {}
        self._tokens: dict[Topic, str] = {}

    def learn(self, names: Iterable[tuple[bytes, str]], time: int) -> None:
        """Take note of topic ids and their names, as a frame at `time` (ns) has them."""
        for id_, name in names:
            if self._names.get(id_) != name and id_ != METADATA_TOPIC_ID:
                id_, name = self._sink.share((id_, name))  # each connection learns of all topics
                self._names[id_] = name
                self._sink.name(f"kafka/{uuid_text(id_)}", time, name)

    def name(self, topic: Topic | None) -> str | None:
        """A topic's name, or the token that stands for it until the name is known."""
        return topic if topic is None or isinstance(topic, str) else self._of_id(topic)

    def all(self, requested: Sequence[Topic], answered: Sequence[Topic]) -> list[str]:
        """The names of all topics of an exchange, each once, in order of appearance."""
        if answered and answered != requested:
            requested = [*requested, *answered]
        if len(requested) == 1:
            only = requested[0]
            return [only if isinstance(only, str) else self._of_id(only)]
        return list(dict.fromkeys([t if isinstance(t, str) else self._of_id(t) for t in requested]))

    def _of_id(self, topic: bytes) -> str:
        name = self._names.get(topic) or self._tokens.get(topic)
        if name is None and topic == METADATA_TOPIC_ID:
            return CLUSTER_METADATA
        if name is None:
            text = uuid_text(topic)
            name = self._tokens[topic] = unresolved(f"kafka/{text}", f"id:{text}")
        return name
