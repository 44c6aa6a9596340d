"""SASL tokens without a header: behind a SaslHandshake v0, or at the beginning of a connection of Kafka 0.9.

A token of the client waits for that of the server; the first request ends the login.
"""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka.frames import SIZE_BYTES, begins_with_token, plausible_request
from dissectors.kafka.nested import login_name
from dissectors.kafka.pending import KafkaRequest, new_request
from dissectors.kafka.special import RESPONSE_HEAD
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame

_Conversation = Any  # a KafkaConversation, whose module imports this one


@final
@carried
@compiled
class BareTokens:
    """The tokens of one connection."""

    expected: cython.bint  # whether the next bytes of the client may be a token
    waiting: list[KafkaRequest] | None  # tokens of the client without an answer

    def __init__(self) -> None:
        self.expected = False
        self.waiting = None

    def begin(self, buf: bytes, pos: int, end: int) -> bool | None:
        """Whether a connection begins with a token at buf[pos]; None where more bytes must tell."""
        token = begins_with_token(buf, pos, end)
        self.expected = self.expected or bool(token)
        return token

    def is_sent(self, conversation: _Conversation, frame: Frame, have: int) -> bool:
        """Whether the client sent a token, which waits for the server's."""
        if plausible_request(frame.data, frame.start, have):
            self.expected = False
            return False
        self.waiting = [*(self.waiting or ()), new_request(frame.facts(), None, ABSENT, None)]
        if frame.complete:
            conversation.events.logins.names(
                login_name(frame.data[frame.start + SIZE_BYTES : frame.start + frame.size])
            )
        return True

    def is_answered(self, conversation: _Conversation, frame: Frame, have: int) -> bool:
        """Whether the server sent a token; an answer to a request says that those that wait get none."""
        assert self.waiting
        body = frame.start + RESPONSE_HEAD
        id_ = int.from_bytes(frame.data[frame.start + SIZE_BYTES : body], "big", signed=True)
        if have >= body and conversation.waiting.find(id_) is not None:
            for token in self.waiting:
                conversation.sent_one_way(token)
            self.waiting = None
            return False
        token, *self.waiting = self.waiting
        conversation.events.answered_bare(conversation, frame, token)
        conversation.write_unread(frame, token)
        return True
