"""What is kept of a Kafka request until its answer comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dissectors.frame import FrameFacts
from dissectors.kafka.body_notes import RecordSet, Topic
from dissectors.kafka.decode import ApiVersion
from dissectors.kafka.messages import KafkaRecord
from dissectors.kafka.plan import VALUES
from dissectors.kafka.record_batch import RecordBatch
from dissectors.kafka.sessions import FetchSession
from dissectors.rows.exchange import PendingRequest

FETCH_VALUES = VALUES["FetchRequest"]
SASL_TOKEN = "SaslToken"  # a bare SASL token: it has no header that names an API


class VerifiedBatch(NamedTuple):
    """A batch in a frame, verified while the frame's bytes were there."""

    unit: RecordBatch
    entries: Sequence[KafkaRecord]  # its messages, where they are wanted
    uncompressed: int | None
    computed: int | None  # checksum
    verdict: str
    time: int
    packet_ref: int
    stream_offset: int


class KafkaRequest(PendingRequest):
    """A request of one connection. `frame` is None where only the answer was captured."""

    topic_keys: Sequence[Topic] = ()  # names or ids: an id's name may be learned before the answer comes
    batches: Sequence[tuple[RecordSet, Sequence[VerifiedBatch]]] = ()  # of a Produce
    found: Sequence[VerifiedBatch] = ()  # batches of a Produce behind a hole, whose topics are not known
    kept: int = 0  # what the messages of these are for `Sink.let_go`
    values: Mapping[str, Any] = {}
    session: FetchSession | None = None
    inner: dict[str, Any] | None = None  # the request in an envelope, decoded

    fields = (
        *(*PendingRequest.fields, "api_version", "topic_keys", "batches", "found", "kept", "values", "session"),
        "inner",
    )

    def __init__(
        self,
        frame: FrameFacts | None,
        api_version: ApiVersion | None,
        correlation_id: int | None,
        client_id: str | None,
    ) -> None:
        super().__init__(
            frame,
            api_version.name if api_version else SASL_TOKEN if frame else None,
            api_version.key if api_version else None,
            version=api_version.version if api_version else None,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        self.api_version = api_version
        self.partitions = 0
