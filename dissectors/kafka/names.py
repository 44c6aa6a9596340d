"""What topics are called on one connection: topic id -> name, as Metadata answers and the controllers' log say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka.body_notes import Topic
from dissectors.kafka.full import uuid_text
from dissectors.kafka.secrets import CLUSTER_METADATA
from dissectors.rows.late_names import unresolved
from dissectors.rows.sink import Sink

METADATA_TOPIC_ID = bytes(15) + b"\1"  # reserved for the log of the KRaft controllers (KIP-516)


@final
@carried
@compiled
class TopicNames:
    """The names known on one connection; a topic id without one becomes a token that is resolved at the end."""

    sink: Sink
    names: dict[Topic, str]
    tokens: dict[Topic, str]

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.names = {}
        self.tokens = {}

    def learn(self, names: Iterable[tuple[bytes, str]], time: int) -> None:
        """Take note of topic ids and their names, as a frame at `time` (ns) has them."""
        for id_, name in names:
            if self.names.get(id_) != name and id_ != METADATA_TOPIC_ID:
                id_, name = self.sink.share((id_, name))  # each connection learns of all topics
                self.names[id_] = name
                self.sink.name(f"kafka/{uuid_text(id_)}", time, name)

    @compiled
    def name(self, topic: Topic | None) -> str | None:
        """A topic's name, or the token that stands for it until the name is known."""
        return topic if topic is None or isinstance(topic, str) else self._of_id(topic)

    @compiled
    def all(self, requested: tuple[Topic, ...], answered: tuple[Topic, ...]) -> tuple[str, ...]:
        """The names of all topics of an exchange, each once, in order of appearance."""
        if answered and answered is not requested and answered != requested:
            requested = requested + answered
        if not requested:
            return ()
        if len(requested) == 1 and isinstance(requested[0], str):
            return requested  # type: ignore[return-value]
        return tuple(dict.fromkeys([t if isinstance(t, str) else self._of_id(t) for t in requested]))

    @compiled
    def _of_id(self, topic: bytes) -> str:
        name = self.names.get(topic) or self.tokens.get(topic)
        if name is None and topic == METADATA_TOPIC_ID:
            return CLUSTER_METADATA
        if name is None:
            text = uuid_text(topic)
            name = self.tokens[topic] = unresolved(f"kafka/{text}", f"id:{text}")
        return name
