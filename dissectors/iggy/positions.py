"""Rows of `positions` of Iggy: where partitions, consumer groups and consumers stand, as answers say it.

    POLL_MESSAGES and the like   the last message of the partition; with auto_commit, what the consumer has read
    FETCH_MESSAGES               likewise, of each partition
    GET_CONSUMER_OFFSET          the last message of the partition, and the one that is stored for the consumer
    STORE_CONSUMER_OFFSET        the message that the consumer has read, as its request says it
    GET_CLUSTER_METADATA         which node leads the cluster: the primary of the group that agrees on its metadata
    COMMIT, START_VIEW           which replica leads: they are sent by the primary of their group (replica.py)

Iggy's offsets are those of the last message; rows have the offset after it, as those of Kafka. Of a partition without
messages it says 0, which may be the offset of its first message: no row is made of that, but where messages come along.
"""

from __future__ import annotations

from typing import Any

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.iggy.decode import Body
from dissectors.iggy.layouts import BodyLayout
from dissectors.iggy.message import OFFSET, MessageRun
from dissectors.iggy.pending import IggyRequest
from dissectors.records import endpoint
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.rows.table import RowTable
from dissectors.session.exchange import PendingRequest, Report
from dissectors.session.frame import FrameFacts

STORE, GET, CLUSTER = "STORE_CONSUMER_OFFSET", "GET_CONSUMER_OFFSET", "GET_CLUSTER_METADATA"
READ = frozenset({GET, CLUSTER})  # whose answers are read for their positions
HIGH_WATERMARK, COMMITTED, LEADER = "high_watermark", "committed", "leader"
_LEADS = 0  # role of a node


@compiled
def answered(report: Report, request: IggyRequest, read: Body | None, facts: FrameFacts) -> None:
    """Write what a request and its answer without an error say. read: the body of the answer, if it was read."""
    layout: BodyLayout | None = None if read is None or read.misfit.found else read.layout
    if request.api == STORE:
        if request.offset >= 0:
            _write(report, request, request.frame, request.partition, COMMITTED, request.offset + 1)
    elif request.api == CLUSTER:
        nodes = read.values.get("nodes", ()) if read is not None and layout is not None else ()
        for node in nodes:
            if len(nodes) > 1 and node["role"] == _LEADS:  # a server alone is a cluster of one
                led(report, request, facts, None, None, endpoint(node["ip"], node["tcp_port"]), None)
    elif read is not None and layout is not None and "sections" in layout.plan.names:
        for section in read.values["sections"]:
            _section(report, request, facts, section)
    elif read is not None and layout is not None and layout.at_current_offset >= 0 and layout.at_partition_id >= 0:
        _partition(report, request, facts, layout, read)


def led(
    report: Report,
    request: PendingRequest,
    facts: FrameFacts,
    topic: str | None,
    partition: int | None,
    leader: str,
    view: int | None,
) -> None:
    """Write that a replica or a node leads a partition; the cluster's metadata where topic and partition are None."""
    table = report.positions
    slot = report.open_position(request, facts)
    table.put(slot, fields.POSITION_WHAT, LEADER)
    table.put(slot, fields.POSITION_TOPIC, topic)
    table.put(slot, fields.POSITION_PARTITION, partition)
    table.put(slot, fields.POSITION_LEADER, leader)
    table.put(slot, fields.POSITION_LEADER_EPOCH, view)
    table.finish(slot)


@compiled
def _section(report: Report, request: IggyRequest, facts: FrameFacts, section: dict[str, Any]) -> None:
    """Write what an answer with several partitions says of one."""
    if not section["status"] and section["messages_count"]:
        _write(report, request, facts, section["partition_id"], HIGH_WATERMARK, section["current_offset"] + 1)
        if request.auto_commit:
            _write(report, request, facts, section["partition_id"], COMMITTED, section["next_offset"])


@compiled
def _partition(report: Report, request: IggyRequest, facts: FrameFacts, layout: BodyLayout, read: Body) -> None:
    """Write what an answer says of the one partition that it is about."""
    run: MessageRun | None = read.run
    messages: cython.bint = run is not None and run.count > 0
    gets: cython.bint = request.api == GET
    current: cython.longlong = read.fields.number(layout.at_current_offset)
    partition: cython.longlong = read.fields.number(layout.at_partition_id)
    next_: cython.longlong = ABSENT
    if current > 0 or (current == 0 and (messages or gets)):
        _write(report, request, facts, partition, HIGH_WATERMARK, current + 1)
    if gets:
        next_ = read.fields.number(layout.at_stored_offset) + 1
    elif request.auto_commit and run is not None and messages:
        next_ = run.cells[run.count - 1, OFFSET] + 1
    if next_ > 0:
        _write(report, request, facts, partition, COMMITTED, next_)


@compiled
def _write(
    report: Report,
    request: IggyRequest,
    facts: FrameFacts,
    partition: cython.longlong,
    what: str,
    value: cython.longlong,
) -> None:
    table: RowTable = report.positions
    slot: cython.Py_ssize_t = report.open_position(request, facts)
    table.put(slot, fields.POSITION_WHAT, what)
    table.put(slot, fields.POSITION_CONSUMER, request.consumer)
    table.put(slot, fields.POSITION_TOPIC, request.topics[0] if request.topics else None)
    table.waiting[slot, fields.POSITION_PARTITION] = partition
    table.waiting[slot, fields.POSITION_VALUE] = value
    table.finish(slot)
