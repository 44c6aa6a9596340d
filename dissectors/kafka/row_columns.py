"""Regular exchanges -> rows of `exchanges`, by column: what emit.py writes, for many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dissectors import arrow
from dissectors.arrow import Ints
from dissectors.frame_columns import nullable
from dissectors.kafka.decoded_frames import KafkaFrames
from dissectors.rows.exchange import CALL, OK, ONE_WAY, UNKNOWN, columns_from_frames, columns_of_some, held
from dissectors.rows.sink import Coded, Masked


def report_exchanges(decoded: KafkaFrames, requests: Ints, waited: Masked) -> None:
    """The rows of the regular exchanges of some requests; waited: how long each request queued."""
    if not decoded.report.wants_exchanges:
        return
    place = decoded.frames.packet_ref[requests], decoded.frames.first_ns[requests]
    turn = np.lexsort(place)  # as rows go out: none need be moved then
    topics = arrow.take(topic_lists(decoded, requests), turn)
    requests, waited = requests[turn], Masked(waited.values[turn], waited.missing[turn])
    answers = decoded.partner[requests]
    one_way = decoded.silent[requests]
    request, response = decoded.frames.facts(requests), decoded.frames.facts(answers)
    times = columns_from_frames(request, response) | {"queued_ns": waited}
    times = columns_of_some(times, np.zeros_like(one_way), one_way)
    may_wait, payload, partitions = decoded.may_wait[requests], decoded.payload[requests], decoded.partitions[requests]
    decoded.sink.extend(
        "exchanges",
        len(requests),
        **decoded.request_columns(requests),
        kind=Coded((CALL, ONE_WAY), one_way.astype(np.int64)),
        api_code=decoded.key[requests],
        version=decoded.version[requests],
        status=Coded((OK, UNKNOWN), one_way.astype(np.int64)),
        error_count=0,
        topics=topics,
        partitions=np.where(partitions, partitions, decoded.partitions[answers]),
        records=nullable(decoded.records[requests]),
        payload_bytes=nullable(payload),
        long_poll=Masked(may_wait & held(times["wait_ns"], waited, np.maximum(payload, 0)), one_way),
        throttle_ms=nullable(decoded.throttle[answers]),
        retransmitted=decoded.frames.retransmitted(requests, request, response),
        **times,
    )


def topic_lists(decoded: KafkaFrames, requests: Ints) -> pa.Array:
    """All topics of each exchange, each once, in order of appearance."""
    frame, topic = decoded.topics.by_frame()
    keep = decoded.regular[frame]
    frame, topic = frame[keep], topic[keep]
    names = decoded.names_of(frame, topic)
    distinct = {value: code for code, value in enumerate(names.values)}
    topic = np.array([distinct[value] for value in names.values], np.int64)[names.codes]
    request = np.where(decoded.frames.client[frame], frame, decoded.partner[frame])
    order = np.lexsort((frame, request))  # stable: the request's topics, then the answer's
    request, topic = request[order], topic[order]
    _, first = np.unique(request * len(names.values) + topic, return_index=True)
    first.sort()
    ends = np.searchsorted(request[first], requests, "right")
    offsets = np.append(0, ends).astype(np.int32)
    texts = arrow.take(pa.array(names.values, pa.string()), topic[first])
    return pa.ListArray.from_arrays(arrow.column(offsets), texts)
