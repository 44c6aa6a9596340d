"""Bodies that are shown whole (`--full`), with what is odd about them."""

from __future__ import annotations

from typing import Any

from dissectors.kafka import envelope
from dissectors.kafka.body_notes import BodyNotes
from dissectors.kafka.decode import ENVELOPE, FETCH_SNAPSHOT, ApiVersion
from dissectors.kafka.fetch import begin_with_batches
from dissectors.kafka.full import Full
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.rows import to_json
from dissectors.session.frame import Frame

_Conversation = Any  # a KafkaConversation, whose module imports this one


def show_request(
    conversation: _Conversation, frame: Frame, call: KafkaRequest, api: ApiVersion, notes: BodyNotes, at: int
) -> None:
    """Keep the body of a request, which begins behind index `at` of its header, as JSON. Raises ReadError."""
    data = _captured(frame)
    whole = api.full_request(data, api.request_body(data, at), frame.start + frame.size)
    if api.key == ENVELOPE:
        call.inner = envelope.open_request(whole.body)
    elif sets := notes.sets():
        conversation.verifier.describe(frame, sets, whole.body)
    call.body = _shown(conversation, frame, api, "request", whole)


def shown_response(
    conversation: _Conversation, frame: Frame, call: KafkaRequest, api: ApiVersion, notes: BodyNotes, at: int
) -> str:
    """The body of an answer as JSON. Raises ReadError."""
    data = _captured(frame)
    whole = api.full_response(data, api.response_body(data, at), frame.start + frame.size)
    if api.key == ENVELOPE:
        envelope.open_response(whole.body, call.inner or {})
    if sets := notes.sets():
        if api.key == FETCH_SNAPSHOT:
            begin_with_batches(conversation.verifier, frame, api, sets)
        conversation.verifier.describe(frame, sets, whole.body)
    return _shown(conversation, frame, api, "response", whole)


def _captured(frame: Frame) -> bytes:
    """The data of a frame, up to the first byte that is missing."""
    return frame.data if frame.complete else frame.data[: min(frame.end, frame.known)]


def _shown(conversation: _Conversation, frame: Frame, api: ApiVersion, what: str, full: Full) -> str:
    """A body as JSON; what is odd about it becomes a finding."""
    if full.trouble:
        conversation.report_malformed(frame, api, what, full.trouble)
    elif full.left and frame.complete:
        conversation.finding_at(
            frame,
            "trailing_bytes",
            f"{full.left} bytes follow the body of this {api.name} {what}; brokers ignore them",
            api=api.name,
            version=api.version,
            bytes=full.left,
        )
    return to_json(full.body)
