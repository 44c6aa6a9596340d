"""Frames between replicas of a VSR cluster: reported by command, checksums verified.

The header's checksum is XXH3-64 of bytes 16 to 256; in Prepare frames of the whole header with `checksum` and `view`
zero, so that it survives a change of view. checksum_body is XXH3-64 of the body. Zero means not sealed.

The replicas agree on the metadata of the cluster as one group, and on each partition as one of its own, which has its
own view and primary. `namespace` names the group: stream << 32 | topic << 20 | partition, or 1 << 63 for the metadata.
Only the primary of a view sends its Commits and StartView. A Prepare may be sent again in a later view by another
primary, and still names the replica that sent it first: so it does not tell who leads.

Source: core/binary_protocol/src/consensus/header.rs; measured on a cluster of three 0.9.0-edge.5.
"""

from __future__ import annotations

import json

from dissectors.checksum import XXH3, compute, shown
from dissectors.iggy import headers, positions, tables
from dissectors.iggy.batches import BATCH_HEADER, read
from dissectors.iggy.headers import HEADER
from dissectors.iggy.message import MessageRun
from dissectors.iggy.names import in_cluster
from dissectors.iggy.rows import IggyRows
from dissectors.rows.table import int64
from dissectors.session.conversation import Conversation
from dissectors.session.exchange import ONE_WAY, PUSH, REPLICATE, PendingRequest
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import CLIENT

_METADATA = 1 << 63
_STREAM_SHIFT, _TOPIC_SHIFT, _NUMBER_MASK, _PARTITION_MASK, _PACKED_BITS = 32, 20, (1 << 12) - 1, (1 << 20) - 1, 44
SEND_OPERATION = 160


def report(frame: Frame, command: int, rows: IggyRows) -> None:
    """Write one exchange, the op number as its id, the batches that it replicates, and who says to be the primary.

    Frames are not paired: nothing but the op number ties them together.
    """
    plane, facts = tables.planes()[command], frame.facts()
    known = min(frame.known, frame.end)
    at = headers.OP_AT.get(plane.name)
    op = headers.number(frame.data, frame.start + at, 8) if at and known - frame.start >= HEADER else None
    run = _batch(frame, known) if plane.frozen else None
    request = rows.lone(
        facts,
        ONE_WAY if frame.direction == CLIENT else PUSH,
        plane.name,
        command,
        correlation_id=op,
        records=run.total if run is not None else None,
        payload_bytes=run.payload_bytes() if run is not None else None,
        body=_shown(frame, plane.name, op) if rows.report.sink.wants_body(plane.name) else None,
    )
    if run is not None:
        partition = run.units[0].partition if run.units else None
        rows.report_batches(run, frame, facts, REPLICATE, int64(partition), request)
    if rows.report.wants_positions and plane.name in headers.NAMESPACE_AT and known - frame.start >= HEADER:
        _led(frame, plane.name, rows, request)
    if frame.complete:
        _check_header(frame, plane.frozen, rows.conversation)


def _led(frame: Frame, name: str, rows: IggyRows, request: PendingRequest) -> None:
    """Write that the sender of a frame is the primary of a group of replicas."""
    data, at = frame.data, frame.start
    namespace = headers.number(data, at + headers.NAMESPACE_AT[name], 8)
    view = headers.number(data, at + headers.VIEW_AT, 4)
    topic = partition = None
    if namespace != _METADATA:
        if namespace >> _PACKED_BITS:
            return
        stream, topic_number = namespace >> _STREAM_SHIFT, namespace >> _TOPIC_SHIFT & _NUMBER_MASK
        topic = in_cluster(headers.number(data, at + headers.CLUSTER_AT, 16), stream, topic_number)
        partition = namespace & _PARTITION_MASK
    positions.led(rows.report, request, frame.facts(), topic, partition, str(data[at + headers.REPLICA_AT]), view)


def _batch(frame: Frame, known: int) -> MessageRun | None:
    """The batch that a Prepare of SendMessages carries as its body."""
    start = frame.start + HEADER
    if known < start + BATCH_HEADER or frame.data[frame.start + headers.OPERATION_AT] != SEND_OPERATION:
        return None
    run = read("batch", frame.data, start, frame.start + frame.size, known)
    return None if run.misfit.found else run


def _shown(frame: Frame, name: str, op: int | None) -> str:
    """The header, for `--full`; bodies may hold credentials and stay out."""
    values: dict[str, object] = {"command": name}
    if frame.known - frame.start >= HEADER:
        values["view"] = headers.number(frame.data, frame.start + headers.VIEW_AT, 4)
        values |= {"replica": frame.data[frame.start + headers.REPLICA_AT], "size": frame.size}
        if op is not None:
            values["op"] = op
        if name in ("PREPARE", "REPAIR_PREPARE"):
            operation = frame.data[frame.start + headers.OPERATION_AT]
            known = tables.operations().get(operation)
            values["operation"] = known.name if known else operation
    return json.dumps(values)


def _check_header(frame: Frame, frozen: bool, conversation: Conversation) -> None:
    at = frame.start
    stored, body = headers.number(frame.data, at, 8), headers.number(frame.data, at + headers.BODY_CHECKSUM_AT, 8)
    if stored:
        computed = compute(XXH3, covered_header(frame.data[at : at + HEADER], frozen))
        if computed != stored:
            _bad(conversation, frame, at, HEADER, "checksum", stored, computed)
    if body:
        check_body(conversation, frame, body, "checksum_body")


def covered_header(header: bytes, frozen: bool) -> bytes:
    """What the checksum of a header covers."""
    if not frozen:
        return header[16:HEADER]
    return bytes(16) + header[16 : headers.VIEW_AT] + bytes(4) + header[headers.VIEW_END : HEADER]


def check_body(conversation: Conversation, frame: Frame, stored: int, field: str) -> None:
    """A checksum over the whole body."""
    computed = body_checksum(frame)
    if computed != stored:
        _bad(conversation, frame, frame.start + HEADER, frame.size - HEADER, field, stored, computed)


def body_checksum(frame: Frame) -> int:
    """XXH3-64 of what follows the header of a whole frame."""
    return compute(XXH3, memoryview(frame.data)[frame.start + HEADER : frame.start + frame.size])


def _bad(conversation: Conversation, frame: Frame, at: int, size: int, field: str, stored: int, computed: int) -> None:
    conversation.finding_within(
        frame,
        at,
        "checksum_mismatch",
        f"The {field} of a frame does not fit its bytes",
        length=size,
        field=field,
        checksum_kind=XXH3,
        stored=shown(XXH3, stored),
        computed=shown(XXH3, computed),
    )
