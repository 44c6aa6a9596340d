"""What is kept of a Kafka request until its answer comes."""

from __future__ import annotations

from typing import Any, ClassVar

import cython

from dissectors.kafka.body_notes import RecordSet, Topic
from dissectors.kafka.decode import ApiVersion
from dissectors.kafka.record_batch import RecordBatch
from dissectors.kafka.sessions import FetchSession
from dissectors.session.exchange import PendingRequest
from dissectors.session.frame import FrameFacts

if not cython.compiled:
    from dissectors.rows.layout import ABSENT

SASL_TOKEN = "SaslToken"  # a bare SASL token: it has no header that names an API


class KafkaRequest(PendingRequest):
    """A request of one connection. Numbers are ABSENT where the request does not say them.

    api_version: None of a bare SASL token, and where it is not known what an answer answers
    number: requests that waited on the connection before it
    topic_keys: names or ids: an id's name may be learned before the answer comes
    sets: of a Produce: its record sets, with their batches
    found: batches of a Produce behind a hole, whose topics are not known
    kept: what the messages of these batches are for `Sink.let_go`
    acks: of a Produce
    replica, max_wait_ms, min_bytes, isolation, session_number, session_epoch, session: of a fetch
    values: the single values of a special request (decode.SPECIAL)
    inner: the request in an envelope, decoded
    told: the body of a request that its events are made of (events.py)
    stated: positions that count once the answer accepts them, or that the answer is understood by
    """

    fields: ClassVar[tuple[str, ...]] = (
        *PendingRequest.fields,
        *("api_version", "number", "topic_keys", "sets", "found", "kept", "acks", "replica"),
        *("max_wait_ms", "min_bytes", "isolation", "session_number", "session_epoch", "session", "values", "inner"),
        *("told", "stated"),
    )

    def __init__(self) -> None:
        self.api_version: ApiVersion | None = None
        self.number = 0
        self.topic_keys: tuple[Topic, ...] = ()
        self.sets: list[RecordSet] | None = None
        self.found: list[RecordBatch] | None = None
        self.kept = 0
        self.acks = self.replica = self.max_wait_ms = self.min_bytes = ABSENT
        self.isolation = self.session_number = self.session_epoch = ABSENT
        self.session: FetchSession | None = None
        self.values: dict[str, Any] | None = None
        self.inner: dict[str, Any] | None = None
        self.told: dict[str, Any] | None = None
        self.stated: Any = None


def new_request(
    frame: FrameFacts | None, api: ApiVersion | None, correlation_id: cython.longlong, client_id: str | None
) -> KafkaRequest:
    """A request. frame: None where only the answer was captured. api: None where it is not known."""
    request = KafkaRequest()
    if api is None:
        request.begin(frame, None if frame is None else SASL_TOKEN, ABSENT)
    else:
        request.begin(frame, api.name, api.key)
        request.api_version = api
        request.version = api.version
    request.partitions = 0
    request.correlation_id = correlation_id
    request.client_id = client_id
    return request
