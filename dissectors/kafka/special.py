"""APIs whose requests and answers say more than those of others (decode.SPECIAL): what they mean to a conversation."""

from __future__ import annotations

from typing import Any

from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.decode import (
    API_VERSIONS,
    JOIN_GROUP,
    OFFSET_COMMIT,
    SASL_HANDSHAKE,
    SHARE_FETCH,
    ApiVersion,
)
from dissectors.kafka.diagnostics import ACKNOWLEDGING, INSPECTED, Remark, share_acknowledged
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
    if not conversation.rows.report.wants_findings:
        return
    if api.key == OFFSET_COMMIT:
        conversation.diagnostics.committed(call.group, frame)
    if api.key in ACKNOWLEDGING and frame.complete and notes.whole:
        start = api.request_body(frame.data, body)
        whole = api.full_request(frame.data, start, frame.start + frame.size)
        _remark(conversation, frame, share_acknowledged(whole.body))


def answered(conversation: _Conversation, frame: Frame, call: KafkaRequest, api: ApiVersion, notes: BodyNotes) -> None:
    """An answer without an error to a request of such an API."""
    request: dict[str, Any] = call.values or {}
    if api.key == SASL_HANDSHAKE and api.version == 0:
        conversation.raw_sasl = True
    if api.key == API_VERSIONS and frame.complete:
        body = frame.data[api.response_body(frame.data, frame.start + RESPONSE_HEAD) : frame.start + frame.size]
        conversation.served = shared(VersionsAnswer(api.version, body))
    if not conversation.rows.report.wants_findings:
        return
    if api.key == JOIN_GROUP:
        conversation.diagnostics.joined(frame, call.group, notes.values().get("generationId"))
    if api.key in INSPECTED and call.frame is not None:
        _remark(conversation, frame, conversation.diagnostics.answered(api, request, notes.values()))


def _remark(conversation: _Conversation, frame: Frame, remark: Remark | None) -> None:
    """Report what is remarkable of a frame, if anything."""
    if remark is not None:
        conversation.finding_at(frame, remark.kind, remark.message, **remark.evidence)
