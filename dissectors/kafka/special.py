"""APIs whose requests and answers say more than those of others (decode.SPECIAL): what they mean to a conversation."""

from __future__ import annotations

from typing import Any

from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.decode import API_VERSIONS, SASL_HANDSHAKE, SHARE_FETCH, ApiVersion
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.served import VersionsAnswer, shared
from dissectors.session.frame import Frame

RESPONSE_HEAD = 8  # bytes before the body, or the tagged fields, of an answer

_Conversation = Any  # a KafkaConversation, whose module imports this one


def requested(
    conversation: _Conversation, frame: Frame, call: KafkaRequest, api: ApiVersion, notes: BodyNotes, body: int
) -> None:
    """A request of such an API, whose body, from an index on, was read."""
    values = call.values = notes.values()
    if api.key == SHARE_FETCH:
        call.session = conversation.sessions.share(values, notes)
    elif api.key == API_VERSIONS and values:
        conversation.software = (values["clientSoftwareName"], values["clientSoftwareVersion"])


def answered(conversation: _Conversation, frame: Frame, call: KafkaRequest, api: ApiVersion, notes: BodyNotes) -> None:
    """An answer without an error to a request of such an API."""
    if api.key == SASL_HANDSHAKE and api.version == 0:
        conversation.tokens.expected = True
    if api.key == API_VERSIONS and frame.complete:
        body = frame.data[api.response_body(frame.data, frame.start + RESPONSE_HEAD) : frame.start + frame.size]
        conversation.served = shared(VersionsAnswer(api.version, body))
