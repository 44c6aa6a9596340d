"""What a flow says of itself: columns of `connections`, rows of `stalls`, findings.

client: the direction in which the client sends.
"""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.capture.block import VIA, segment_name
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.findings import finding
from dissectors.records import Conn, Finding, Stall
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.rows.table import RowTable
from dissectors.session.closing import UNACKNOWLEDGED_NS
from dissectors.session.exchange import elapsed
from dissectors.tcp.chunk import CLIENT, SERVER, SIDES
from dissectors.tcp.flow import Flow
from dissectors.tcp.half import Half
from dissectors.tcp.numbers import BOTH, UNKNOWN_ORDER
from dissectors.tcp.stalls import MOST as MOST_STALLS
from dissectors.tcp.stalls import HeldBack
from dissectors.wording import counted, were


@compiled
def write_flow(table: RowTable, slot: cython.Py_ssize_t, flow: Flow, client: cython.int) -> None:
    """Set the columns of `connections` that follow from packets alone, in an open row of the table."""
    sender: Half = flow.halves[client]
    receiver: Half = flow.halves[1 - client]
    reset_by = _reset_by(sender, receiver)
    if flow.via:
        table.put(slot, fields.CONNECTION_VIA, ",".join([name for i, name in enumerate(VIA) if flow.via >> i & 1]))
    if flow.segments:
        table.put(slot, fields.CONNECTION_SEGMENT, "/".join(map(segment_name, flow.segments)))
    table.waiting[slot, fields.CONNECTION_START_TIME] = flow.first_time
    table.waiting[slot, fields.CONNECTION_END_TIME] = flow.last_time
    table.waiting[slot, fields.CONNECTION_DURATION_NS] = elapsed(flow.first_time, flow.last_time)
    if flow.syn_time is None and flow.syn_ack_time is None and flow.ack_time is None:
        table.put(slot, fields.CONNECTION_HANDSHAKE, "none")
    elif flow.syn_time is None or flow.syn_ack_time is None or flow.ack_time is None:
        table.put(slot, fields.CONNECTION_HANDSHAKE, "partial")
    else:
        table.put(slot, fields.CONNECTION_HANDSHAKE, "full")
        table.waiting[slot, fields.CONNECTION_RTT_NS] = elapsed(flow.syn_time, flow.ack_time)
    table.waiting[slot, fields.CONNECTION_CLIENT_PACKETS] = sender.packets
    table.waiting[slot, fields.CONNECTION_SERVER_PACKETS] = receiver.packets
    table.waiting[slot, fields.CONNECTION_CLIENT_BYTES] = sender.bytes
    table.waiting[slot, fields.CONNECTION_SERVER_BYTES] = receiver.bytes
    table.put(slot, fields.CONNECTION_CLOSED, "fin" if flow.finished else "reset" if flow.reset else "open")
    if flow.closer >= 0:
        closer = "both" if flow.closer == BOTH else _side(flow.closer, client)
        table.put(slot, fields.CONNECTION_CLOSED_BY, closer)
    if reset_by is not None:
        table.put(slot, fields.CONNECTION_RESET_BY, reset_by)
    table.waiting[slot, fields.CONNECTION_CLIENT_UNDELIVERED_BYTES] = _undelivered(flow, sender, receiver)
    table.waiting[slot, fields.CONNECTION_SERVER_UNDELIVERED_BYTES] = _undelivered(flow, receiver, sender)
    table.waiting[slot, fields.CONNECTION_PACKET_REF] = flow.first_packet_ref
    table.waiting[slot, fields.CONNECTION_CLIENT_SEQ] = sender.base if sender.started else ABSENT
    table.waiting[slot, fields.CONNECTION_SERVER_SEQ] = receiver.base if receiver.started else ABSENT
    table.waiting[slot, fields.CONNECTION_RETRANSMISSIONS] = sender.retransmissions + receiver.retransmissions
    table.waiting[slot, fields.CONNECTION_SPURIOUS] = sender.spurious + receiver.spurious
    table.waiting[slot, fields.CONNECTION_RETRANSMITTED_BYTES] = (
        sender.retransmitted_bytes + receiver.retransmitted_bytes
    )
    table.waiting[slot, fields.CONNECTION_DUPLICATES] = sender.duplicates + receiver.duplicates
    table.waiting[slot, fields.CONNECTION_OUT_OF_ORDER] = sender.out_of_order + receiver.out_of_order
    table.waiting[slot, fields.CONNECTION_GAPS] = sender.gaps + receiver.gaps
    table.waiting[slot, fields.CONNECTION_GAP_BYTES] = sender.gap_bytes + receiver.gap_bytes
    table.waiting[slot, fields.CONNECTION_ZERO_WINDOWS] = sender.zero_windows + receiver.zero_windows
    table.waiting[slot, fields.CONNECTION_KEEP_ALIVES] = sender.keep_alives + receiver.keep_alives
    table.waiting[slot, fields.CONNECTION_CUT_BYTES] = sender.cut_bytes + receiver.cut_bytes


def stall(conn: Conn, of_client: bool, held: HeldBack) -> Stall:
    """The row for what held a direction back."""
    return Stall(
        conn,
        held.kind,
        SIDES[CLIENT if of_client else SERVER],
        held.start,
        held.end - held.start,
        held.offset,
        held.packet_ref,
        segment_bytes=held.size,
        delivered_segment_bytes=held.largest_delivered,
        idle_ns=held.idle_ns,
        spurious=held.spurious,
    )


def conflicts(conn: Conn | None, flow: Flow, client: int, sink: Sink) -> Iterator[Finding]:
    """Findings about bytes that were sent again with other values, and about what was left out."""
    for direction, half in enumerate(flow.halves):
        side = _side(direction, client)
        for conflict in half.conflicts:
            yield finding(
                conn,
                "retransmission_conflict",
                f"{were(conflict.differing, 'byte')} sent again with other values",
                direction=side,
                time=conflict.time,
                packet_ref=conflict.packet_ref,
                offset=conflict.offset,
                length=conflict.length,
                first=sink.where(conflict.first_packet_ref),
                second=sink.where(conflict.packet_ref),
            )
        left_out = []
        if half.more_conflicts:
            left_out.append(
                f"{counted(half.more_conflicts, 'more packet')} of the {side} had other values when sent again"
            )
        if half.stalls.count > MOST_STALLS and "stalls" in sink.tables:
            left_out.append(f"{counted(half.stalls.count - MOST_STALLS, 'more stall')} of the {side}")
        for message in left_out:
            yield finding(conn, "limit", message, time=flow.first_time, packet_ref=flow.first_packet_ref)


def _side(direction: int, client: int) -> str:
    return SIDES[CLIENT if direction == client else SERVER]


@compiled
def _reset_by(client: Half, server: Half) -> str | None:
    """Who sent a RST: client, server or both."""
    if client.rst_order != UNKNOWN_ORDER:
        return "both" if server.rst_order != UNKNOWN_ORDER else SIDES[CLIENT]
    return SIDES[SERVER] if server.rst_order != UNKNOWN_ORDER else None


@compiled
def _undelivered(flow: Flow, half: Half, other: Half) -> cython.longlong:
    """Bytes that a direction sent in vain; ABSENT where the acknowledgements of the other one were not captured.

    Bytes that were only on their way when the capture ended are none.
    """
    if not other.packets:
        return ABSENT
    waited_ns: cython.longlong = flow.last_time - half.stalls.advanced_ns
    in_vain: cython.bint = half.again_to > half.acked or flow.reset or waited_ns >= UNACKNOWLEDGED_NS
    return half.undelivered if in_vain else 0
