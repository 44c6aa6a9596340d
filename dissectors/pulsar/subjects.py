"""Which topic, producer or consumer each of many frames is about.

Frames that name a topic say it themselves. The others hold the id of a producer or consumer, and what that stands for
changes on the way: it is looked up where the frame stands, once for all frames of a connection between two changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.pulsar.api import text
from dissectors.pulsar.command_columns import Commands
from dissectors.pulsar.names import Endpoint, PulsarNames, Topic, short, topic
from dissectors.rows.sink import Coded

_FIELDS: dict[str, tuple[str, ...]] = {
    "PRODUCER": ("topic", "producer_name"),
    "SUBSCRIBE": ("topic", "consumer_name", "subscription"),
}
"""Commands that introduce a producer or consumer: the fields that say what it is."""


def unsigned(values: Ints) -> list[int]:
    """Signed 64-bit numbers as unsigned ones."""
    out: list[int] = values.view(np.uint64).tolist()
    return out


class Subject(NamedTuple):
    """What a frame is about."""

    topic: Topic | None = None
    endpoint: Endpoint | None = None


class Subjects:
    """The subjects of many frames."""

    def __init__(self, frames: int) -> None:
        self.codes: Ints = np.zeros(frames, np.int64)  # of each frame
        self.group: Ints = np.full(frames, -1)  # of frames that are looked up together
        self.epochs: Ints = np.zeros(0, np.int64)  # of each group, ascending
        self.endpoints: list[Endpoint | None] = []  # of each group, once it is looked up
        self._values = [Subject()]
        self._codes = {Subject(): 0}
        self.ids: list[int] = []  # of each group
        self._consumer: list[int] = []  # of each group: whether it is a consumer's

    def code(self, subject: Subject) -> int:
        """The code of a subject."""
        code = self._codes.setdefault(subject, len(self._values))
        if code == len(self._values):
            self._values.append(subject)
        return code

    def at(self, frame: int) -> Subject:
        """The subject of a frame."""
        return self._values[int(self.codes[frame])]

    # --- what frames say themselves ---

    def name_topics(self, found: Mapping[str, Commands], regular: Bools, buf: bytes) -> None:
        """Take the topics that regular commands name."""
        for name, (command, which, messages, _) in found.items():
            if command.about != "topic":
                continue
            rows = np.flatnonzero(regular[which])
            known: dict[tuple[bytes | None, ...], int] = {}
            codes = []
            fields = (messages.texts(field, buf, rows) for field in _FIELDS.get(name, ("topic",)))
            for values in zip(*fields, strict=True):
                if values not in known:
                    known[values] = self.code(_subject(*values))
                codes.append(known[values])
            self.codes[which[rows]] = codes

    # --- what ids stand for ---

    def find_endpoints(self, found: Mapping[str, Commands], regular: Bools, epoch: Ints) -> None:
        """Group the regular frames that hold an id. epoch: of each frame; ids keep their meaning within one."""
        parts = []
        for command, which, messages, _ in found.values():
            if command.about in ("producer", "consumer"):
                rows = np.flatnonzero(regular[which])
                ids = messages.number(f"{command.about}_id")[rows]
                parts.append((which[rows], ids, np.full(len(rows), command.about == "consumer", np.int64)))
        if not parts:
            return
        which, ids, consumer = (np.concatenate(column) for column in zip(*parts, strict=True))
        keys = np.stack((epoch[which], consumer, ids))
        turn = np.lexsort(keys[::-1])
        keys = keys[:, turn]
        head = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: len(which)]
        self.group[which[turn]] = np.cumsum(head) - 1
        self.epochs, consumer, ids = keys[:, head]
        self.ids, self._consumer = unsigned(ids), consumer.tolist()
        self.endpoints = [None] * len(self.ids)

    def look_up(self, begin: int, end: int, names: PulsarNames) -> None:
        """Look up what the ids of some groups stand for, in what their connection knows in their epoch."""
        known = names.producers, names.consumers
        each = zip(self._consumer[begin:end], self.ids[begin:end], strict=True)
        self.endpoints[begin:end] = [known[consumer].get(id_) for consumer, id_ in each]

    def settle(self) -> None:
        """All groups were looked up: give their frames their subjects."""
        if not self.endpoints:
            return
        codes = [0 if each is None else self.code(Subject(each.topic, each)) for each in self.endpoints]
        grouped = np.flatnonzero(self.group >= 0)
        self.codes[grouped] = np.array(codes, np.int64)[self.group[grouped]]

    # --- columns ---

    def columns(self, which: Ints) -> dict[str, Any]:
        """What some frames are about, as columns of `exchanges`."""
        return {
            "topics": self._column(which, lambda s: None if s.topic is None else (s.topic.name,)),
            "partitions": self._column(which, lambda s: None if s.topic is None or s.topic.partition is None else 1),
            **self._endpoints(which),
        }

    def batch_columns(self, which: Ints) -> dict[str, Any]:
        """The same, as columns of `batches`."""
        return {
            "topic": self._column(which, lambda s: None if s.topic is None else s.topic.name),
            "partition": self._column(which, lambda s: None if s.topic is None else s.topic.partition),
            **self._endpoints(which),
        }

    def clients(self, which: Ints) -> Coded:
        """What the producers and consumers of some frames call themselves."""
        return self._column(which, lambda s: None if s.endpoint is None else s.endpoint.name)

    def _endpoints(self, which: Ints) -> dict[str, Any]:
        return {
            "client_id": self.clients(which),
            "group": self._column(which, lambda s: None if s.endpoint is None else s.endpoint.subscription),
        }

    def _column(self, which: Ints, value: Any) -> Coded:
        return Coded([value(subject) for subject in self._values], self.codes[which])


def _subject(name: bytes | None, *endpoint: bytes | None) -> Subject:
    if name is None:
        return Subject()
    named = topic(text(name))
    if not endpoint:
        return Subject(named)
    endpoint_name, subscription = (*map(_short, endpoint), None)[:2]
    return Subject(named, Endpoint(named, endpoint_name, subscription))


def _short(value: bytes | None) -> str | None:
    return None if value is None else short(text(value))
