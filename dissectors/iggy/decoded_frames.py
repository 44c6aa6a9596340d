"""What is known of many frames of many connections, by column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dissectors.arrow import Ints
from dissectors.frame import Frame
from dissectors.frame_columns import NONE, Frames, distinct
from dissectors.iggy import body_columns, layouts, tables
from dissectors.iggy.body_columns import Bodies
from dissectors.iggy.conversation import IggyConversation
from dissectors.iggy.emit import ReservedRow
from dissectors.iggy.frames import SEND_MESSAGES


class Description(NamedTuple):
    """What a request is about."""

    topic: str | None
    group: str | None


class IggyFrames:
    """The frames of one call of `advance`. Every column has a value for each frame."""

    framing: str
    before: Ints  # when the answer before each frame of its connection had come, ns; 0 where there was none

    def __init__(self, frames: Frames[IggyConversation]) -> None:
        self.frames = frames
        self.conversations = frames.conversations
        self.sink = self.conversations[0].sink
        self.limits = self.conversations[0].options.limits
        n = len(frames)
        self.looks = bool({"batches", "messages", "findings"} & self.sink.tables)
        self.code = np.zeros(n, np.int64)  # of the command; of an answer: that of its request
        self.status = np.zeros(n, np.int64)
        self.failed = np.zeros(n, bool)  # answers that are errors and may be regular
        self.error_releases = np.zeros(n, np.int64)  # those that may have sent an error
        self.body = frames.start.copy()  # where the body begins
        self.correlation_id = np.zeros(n, np.int64)
        self.done = np.zeros(n, bool)  # decoded before anything was known
        self.aside = np.zeros(n, bool)  # done, or part of no exchange
        self.expected = np.zeros(n, bool)  # a payload of this answer
        self.partner = np.full(n, NONE)  # the answer of a request, the request of an answer
        self.regular = np.zeros(n, bool)
        self.event = np.full(n, NONE)  # what its body shows: index in `events`
        self.layout = np.full(n, NONE)  # the one that reads it
        self.shows = np.zeros(n, bool)  # its body is evidence of the release, by what is believed now
        self.units = np.zeros(n, np.int64)  # bits: the layouts as which its body has rows of `batches`
        self.bodies: dict[tuple[str, int], Bodies] = {}
        self.events: list[tuple[str, int, int]] = []  # side, code, bits
        self.lesson = np.zeros(n, bool)  # its body is read one by one, for what it teaches
        self.described: dict[int, Description] = {}  # requests that are described by more than identifiers
        self.partition = np.full(n, NONE)  # that a request sends to, while the release is in question
        self.users: list[str | None] = []
        self.user = np.zeros(n, np.int64)  # index in users
        self.dialects: list[str] = []
        self.dialect = np.full(n, NONE)  # index in dialects
        self.reserved: dict[str, dict[int, ReservedRow]] = {"exchanges": {}, "batches": {}}
        """The rows that wait for the dialect, by the request's frame, or the answer's for what it delivers."""
        self.plan: list[list[Any]] = []  # columns for those who go frame by frame
        self.rest: Iterator[Frame] = iter(())  # the frames that are not regular
        t = frames.conversation
        self.bounds = np.append(np.flatnonzero(np.diff(t, prepend=NONE)), n)

    def is_read(self, code: int) -> bool:
        """Whether the answer to a command is read although the release is known."""
        return layouts.delivers(code) or (code == SEND_MESSAGES and self.looks)

    def has_units(self, frame: int) -> bool:
        """Whether a regular frame, as its layout reads it, has rows of `batches`."""
        layout = self.layout.item(frame)
        return bool(layout >= 0 and self.units.item(frame) >> layout & 1)

    def say_more(self, lo: int, hi: int) -> list[bool]:
        """Which of some frames say more than what their rows hold."""
        more: list[bool] = (self.lesson[lo:hi] | self.shows[lo:hi] | self.failed[lo:hi]).tolist()
        return more

    def read_as(self, which: Ints, allowed: int) -> None:
        """What some bodies show where these releases may speak: the layout that reads each, whether it says more."""
        event = self.event[which]
        layout, shows = np.full(len(self.events), NONE), np.zeros(len(self.events), bool)
        settled = tables.settled(allowed)
        for number in distinct(event).tolist():
            side, code, bits = self.events[number]
            found = body_columns.reading(side, code, bits, allowed)
            layout[number] = found.layout
            if side == layouts.REQUEST or not settled or self.is_read(code):
                shows[number] = not found.fits or found.readers & allowed != allowed
        self.layout[which], self.shows[which] = layout[event], shows[event]

    def set_user(self, user: str | None, lo: int, hi: int) -> None:
        """Who is logged in, in some frames."""
        self.users.append(user)
        self.user[lo:hi] = len(self.users) - 1

    def set_dialect(self, conversation: IggyConversation, lo: int, hi: int) -> None:
        """What is spoken, from a frame on."""
        if conversation.era.settled:
            self.dialects.append(conversation.era.dialect)
            self.dialect[lo:hi] = len(self.dialects) - 1
