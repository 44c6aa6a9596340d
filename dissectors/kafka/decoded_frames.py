"""The frames that are decoded together, on their way to rows, and what is known of each of them."""

from __future__ import annotations

import numpy as np

from dissectors.arrow import Ints
from dissectors.frame_columns import NONE, Frames, integers
from dissectors.kafka.coded import CodedTexts, GrowingColumns
from dissectors.kafka.conversation import KafkaConversation
from dissectors.kafka.decode import api_version
from dissectors.kafka.diagnostics import KafkaDiagnostics
from dissectors.kafka.fetch_columns import FetchColumns
from dissectors.rows.exchange import exchange_ids
from dissectors.rows.sink import Coded


class KafkaFrames:
    """The frames of one call of `advance`. Every column has a value for each frame."""

    def __init__(self, frames: Frames[KafkaConversation]) -> None:
        self.frames = frames
        self.conversations = frames.conversations
        self.sink = self.conversations[0].sink
        self.report = self.conversations[0].emit.report
        limits = self.conversations[0].options.limits
        self.limit, self.held = limits.decompressed_bytes, limits.held_bytes
        self.diagnosing = self.conversations[0].diagnostics is not None
        n, octets, start = len(frames), frames.octets, frames.start
        self.size = frames.end - start
        self.key, self.version = integers(octets, start + 4, 2), integers(octets, start + 6, 2)  # of requests
        self.correlation_id = integers(octets, start + np.where(frames.client, 8, 4), 4)
        self.partner = np.full(n, NONE)  # the answer of a request, the request of an answer
        self.silent = np.zeros(n, bool)  # a request that has no answer by protocol: if regular, its own partner
        self.regular = np.zeros(n, bool)
        self.odd = np.array(
            [bool(conversation.tokens) or conversation.raw_sasl for conversation in self.conversations]
        )  # by conversation
        self.texts = CodedTexts(frames.buf, frames.octets)
        null = self.texts.code(None)
        self.group = np.full(n, null)  # number of the text
        self.client_id = np.full(n, null)
        self.partitions = np.zeros(n, np.int64)
        self.records = np.full(n, NONE)
        self.payload = np.full(n, NONE)
        self.throttle = np.full(n, NONE)
        self.may_wait = np.zeros(n, bool)  # a fetch that allows the broker to wait for data
        self.role = np.zeros(n, np.int64)  # of the batches in a frame: index in record_set_columns.ROLES
        self.topics = GrowingColumns(2)  # frame, number of the topic
        self.sets = GrowingColumns(5)  # frame, topic, partition, start, size
        self.bases = GrowingColumns(4)  # answer to a Produce, topic, partition, base offset
        self.fetches = FetchColumns(frames, self.texts)

    def leave(self, which: Ints) -> None:
        """These frames, and their partners, are not regular after all."""
        self.regular[which] = False
        self.regular[self.partner[which]] = False

    def diagnostics(self, frame: int) -> KafkaDiagnostics:
        """Those of the client of a frame."""
        found: KafkaDiagnostics | None = self.conversations[self.frames.conversation[frame]].diagnostics
        assert found is not None
        return found

    # --- columns of rows ---

    def request_columns(self, requests: Ints) -> dict[str, object]:
        """Columns that the tables share: what is known of the exchanges of some requests."""
        codes, api = np.unique(self.key[requests], return_inverse=True)
        return {
            "conn": self.conns(requests),
            "api": Coded([api_version(code, 0).name for code in codes.tolist()], api),
            "correlation_id": self.correlation_id[requests],
            "client_id": Coded(self.texts.texts, self.client_id[requests]),
            "group": Coded(self.texts.texts, self.group[requests]),
            "exchange_id": exchange_ids(self.conns(requests), self.frames.facts(requests)),
        }

    def conns(self, which: Ints) -> Coded:
        return Coded([conversation.conn for conversation in self.conversations], self.frames.conversation[which])

    def names_of(self, which: Ints, topics: Ints) -> Coded:
        """The names of topics as the connections of some frames know them."""
        ids = np.array([isinstance(value, bytes) for value in self.texts.values], bool)
        codes = topics.copy()
        by_id = np.flatnonzero(ids[topics])
        values = self.texts.texts
        pairs, number = np.unique(self.frames.conversation[which[by_id]] << 32 | topics[by_id], return_inverse=True)
        codes[by_id] = len(values) + number
        for t, topic in zip((pairs >> 32).tolist(), (pairs & 0xFFFFFFFF).tolist(), strict=True):
            values.append(self.conversations[t].emit.names.name(self.texts.values[topic]))
        return Coded(values, codes)
