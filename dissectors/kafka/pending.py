"""What is kept of a Kafka request until its answer comes."""

from __future__ import annotations

from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka.body_notes import Topic
from dissectors.kafka.decode import ApiVersion
from dissectors.kafka.record_batch import RecordBatch
from dissectors.kafka.sessions import FetchSession
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import PendingRequest
from dissectors.session.frame import FrameFacts

SASL_TOKEN = "SaslToken"  # a bare SASL token: it has no header that names an API


@final
@carried
@compiled(freelist=64)
class KafkaRequest(PendingRequest):
    """A request of one connection. Numbers are ABSENT where the request does not say them.

    api_version: None of a bare SASL token, and where it is not known what an answer answers
    number: requests that waited on the connection before it
    topic_keys: names or ids: an id's name may be learned before the answer comes
    sets: of a Produce: its record sets, with their batches
    found: batches of a Produce behind a hole, whose topics are not known
    kept: what the messages of these batches are for `Sink.let_go`
    acks: of a Produce
    replica, max_wait_ms, min_bytes, allowed_ns, isolation, session_number, session_epoch, session: of a fetch
    values: the single values of a special request (decode.SPECIAL)
    inner: the request in an envelope, decoded
    told: the body of a request that its events are made of (events.py)
    stated: positions that count once the answer accepts them, or that the answer is understood by
    """

    api_version: ApiVersion | None
    number: cython.longlong
    topic_keys: tuple[Topic, ...]
    sets: list[Any] | None
    found: list[RecordBatch] | None
    kept: cython.longlong
    acks: cython.longlong
    replica: cython.longlong
    max_wait_ms: cython.longlong
    min_bytes: cython.longlong
    allowed_ns: cython.longlong
    isolation: cython.longlong
    session_number: cython.longlong
    session_epoch: cython.longlong
    session: FetchSession | None
    values: dict[str, Any] | None
    inner: dict[str, Any] | None
    told: dict[str, Any] | None
    stated: Any

    @compiled
    def begin_kafka(self) -> None:
        """Set every attribute that only a request of Kafka has."""
        self.api_version = None
        self.number = 0
        self.topic_keys = ()
        self.sets = None
        self.found = None
        self.kept = 0
        self.acks = self.replica = self.max_wait_ms = self.min_bytes = self.allowed_ns = ABSENT
        self.isolation = self.session_number = self.session_epoch = ABSENT
        self.session = None
        self.values = None
        self.inner = None
        self.told = None
        self.stated = None


@compiled
def new_request(
    frame: FrameFacts | None, api: ApiVersion | None, correlation_id: cython.longlong, client_id: str | None
) -> KafkaRequest:
    """A request. frame: None where only the answer was captured. api: None where it is not known."""
    request: KafkaRequest = KafkaRequest.__new__(KafkaRequest)  # not by its constructor, which costs more than all else
    request.begin_kafka()
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
