"""The fetches among many frames: what they and their answers say, by column."""

from __future__ import annotations

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.frame_columns import NONE, Frames
from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.coded import CodedTexts, GrowingColumns
from dissectors.kafka.columnar import ColumnNotes
from dissectors.kafka.conversation import KafkaConversation
from dissectors.kafka.delivery import READ_COMMITTED
from dissectors.kafka.pending import FETCH_VALUES
from dissectors.kafka.sessions import FINAL

_ABSENT = {"replicaId": NONE, "maxWaitMs": 0, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": FINAL}
"""The values in fetches and their answers, and what a version means that has no such field."""


class FetchColumns:
    """What fetches and their answers say: columns by frame, and tables that name it."""

    def __init__(self, frames: Frames[KafkaConversation], texts: CodedTexts) -> None:
        self._texts = texts
        self.read = np.zeros(len(frames), bool)  # fetches whose bodies are here
        self.values = {name: np.full(len(frames), absent) for name, absent in _ABSENT.items()}
        self.topics = GrowingColumns(2)  # frame, topic: as the body names them
        self.pairs = GrowingColumns(4)  # frame, topic, partition, fetch offset
        self.forgotten = GrowingColumns(3)  # frame, topic, partition

    def keep(self, which: Ints, found: ColumnNotes) -> None:
        """Keep the values and pairs of some bodies that were read by column."""
        for name in _ABSENT.keys() & found.values.keys():
            self.values[name][which] = found.values[name]
        for table, groups in ((self.pairs, found.pairs), (self.forgotten, found.forgotten)):
            for pairs in groups:
                ok = found.ok[pairs.topic.row]
                topic, numbers = pairs.topic.at(ok), (pairs.partition, *pairs.numbers)
                table.extend(which[topic.row], topic.code, *(column[ok] for column in numbers))

    def keep_one(self, i: int, notes: BodyNotes) -> None:
        """Keep the values and pairs of one body that was walked alone."""
        for name, absent in _ABSENT.items():
            value = notes.values.get(name)
            self.values[name][i] = absent if value is None else value
        for table, pairs in ((self.pairs, notes.pairs), (self.forgotten, notes.forgotten)):
            for topic, *numbers in pairs:
                table.add(i, self._texts.code(topic), *numbers)

    def committed_only(self, requests: Ints) -> Bools:
        """Whether messages of aborted transactions do not reach the application."""
        only: Bools = self.values["isolationLevel"][requests] == READ_COMMITTED
        return only

    def of_replicas(self, requests: Ints) -> Bools:
        """Whether it is a broker or controller that fetches."""
        replicas: Bools = self.values["replicaId"][requests] >= 0
        return replicas

    def may_wait(self, requests: Ints) -> Bools:
        """Whether the broker may wait for data."""
        may: Bools = self.values["maxWaitMs"][requests] > 0
        return may

    def all_values(self, requests: Ints) -> list[tuple[int, ...]]:
        """The values of some fetches, in the order of plan.VALUES."""
        return list(zip(*(self.values[name][requests].tolist() for name in FETCH_VALUES), strict=True))
