"""What is known of many frames of many connections, by column."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dissectors.arrow import Ints
from dissectors.frame_columns import NONE, Frames
from dissectors.pulsar.api import MESSAGES, text
from dissectors.pulsar.command_columns import Commands, unsigned_32
from dissectors.pulsar.conversation import PulsarConversation
from dissectors.pulsar.entry_columns import EntryColumns
from dissectors.pulsar.errors import ERROR_FIELDS, NAMES, error_code
from dissectors.pulsar.subjects import Subjects
from dissectors.rows.exchange import ErrorCode, exchange_ids
from dissectors.rows.sink import Coded
from dissectors.tcp.chunk import CLIENT, SERVER

_NEVER = 1 << 62


class DecodedEntries(NamedTuple):
    """The entries of SEND and MESSAGE frames."""

    which: Ints  # indices of the frames
    columns: EntryColumns


class PulsarFrames:
    """The frames of one call of `advance`. Every column has a value for each frame."""

    def __init__(self, frames: Frames[PulsarConversation]) -> None:
        self.frames = frames
        self.conversations = frames.conversations
        self.tables = self.conversations[0].sink.tables
        self.limits = self.conversations[0].options.limits
        n, octets = len(frames), frames.octets
        self.after = frames.start + 8 + unsigned_32(octets, frames.start + 4)  # where the command ends
        self.code = octets[frames.start + 9].astype(np.int64)
        self.direction = np.where(frames.client, CLIENT, SERVER)
        self.read = np.zeros(n, bool)  # the command is plain
        self.regular = np.zeros(n, bool)
        self.request = np.zeros(n, bool)
        self.error = np.zeros(n, bool)  # an answer that says one
        self.space = np.full(n, NONE)  # of the key that ties request and answer: index in _SPACES
        self.ids = np.zeros((2, n), np.int64)  # the rest of the key
        self.partner = np.full(n, NONE)  # the answer of a request, the request of an answer
        self.correlation_id = np.zeros(n, np.int64)
        self.uncorrelated = np.ones(n, bool)  # there is no correlation id
        self.found: dict[str, Commands] = {}
        self.entries: DecodedEntries  # of those that may be regular
        self.subjects = Subjects(n)
        self.dialects = [conversation.state.dialect for conversation in self.conversations]
        self.connected = np.full(len(self.conversations), _NEVER)  # the frames that change them
        self.failed: set[tuple[int, int]] = set()  # conversation and request id of each ERROR that any may be about

    def conns(self, which: Ints) -> Coded:
        """The connections of some frames."""
        return Coded([conversation.conn for conversation in self.conversations], self.frames.conversation[which])

    # --- once it is known which frames are regular, and which answer which ---

    @cached_property
    def beginnings(self) -> Ints:
        """The frames with which regular exchanges begin."""
        return np.flatnonzero(self.regular & (self.request | (self.partner < 0)))

    @cached_property
    def errors(self) -> Coded:
        """The error that each regular answer says, None where it says none."""
        errors: list[ErrorCode | None] = [None]
        codes = np.zeros(len(self.code), np.int64)
        for command, which, messages, _ in self.found.values():
            rows = np.flatnonzero((self.error & self.regular)[which])
            if not len(rows):
                continue
            field, words = ERROR_FIELDS[MESSAGES[command.code]]
            numbers, there = messages.number(field.name)[rows].tolist(), messages.has(field.name)[rows].tolist()
            texts = [None] * len(rows) if words is None else messages.texts(words.name, self.frames.buf, rows)
            for i, number, known, said in zip(which[rows].tolist(), numbers, there, texts, strict=True):
                topic = self.subjects.at(int(self.partner[i])).topic
                code, name = (number, NAMES.get(number)) if known else (None, None)
                codes[i] = len(errors)
                errors.append(error_code(code, name, topic, message=None if said is None else text(said)))
        return Coded(errors, codes)

    @cached_property
    def exchange_ids(self) -> pa.Array:
        """Of these exchanges."""
        return exchange_ids(self.conns(self.beginnings), self.frames.facts(self.beginnings))
