"""What a flow says of itself: columns of `connections`, rows of `stalls`, findings.

client: the direction in which the client sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.capture.block import VIA, segment_name
from dissectors.findings import finding
from dissectors.records import Conn, Finding, Stall
from dissectors.rows.sink import Sink
from dissectors.session.closing import UNACKNOWLEDGED_NS
from dissectors.session.exchange import elapsed
from dissectors.tcp.chunk import CLIENT, SERVER, SIDES
from dissectors.tcp.flow import Flow
from dissectors.tcp.half import Half
from dissectors.tcp.numbers import BOTH, UNKNOWN_ORDER
from dissectors.tcp.stalls import MOST as MOST_STALLS
from dissectors.tcp.stalls import HeldBack
from dissectors.wording import counted, were

_SUMMED = (
    "retransmissions", "spurious", "retransmitted_bytes", "duplicates", "out_of_order", "gaps", "gap_bytes",
    "zero_windows", "keep_alives", "cut_bytes",
)  # fmt: skip
"""Columns that count over both directions."""


def of_flow(flow: Flow, client: int) -> dict[str, Any]:
    """The columns of `connections` that follow from packets alone."""
    sender, receiver = flow.halves[client], flow.halves[1 - client]
    seen = [flow.syn_time, flow.syn_ack_time, flow.ack_time]
    handshake = "full" if None not in seen else "partial" if any(t is not None for t in seen) else "none"
    rtt = None
    if flow.ack_time is not None and flow.syn_time is not None and handshake == "full":
        rtt = elapsed(flow.syn_time, flow.ack_time)
    return {
        "via": ",".join(name for i, name in enumerate(VIA) if flow.via >> i & 1) or None,
        "segment": "/".join(map(segment_name, flow.segments)) or None,
        "start_time": flow.first_time,
        "end_time": flow.last_time,
        "duration_ns": elapsed(flow.first_time, flow.last_time),
        "handshake": handshake,
        "rtt_ns": rtt,
        "client_packets": sender.packets,
        "server_packets": receiver.packets,
        "client_bytes": sender.bytes,
        "server_bytes": receiver.bytes,
        "closed": "fin" if flow.finished else "reset" if flow.reset else "open",
        "closed_by": _closed_by(flow, client),
        "reset_by": _reset_by(sender, receiver),
        "client_undelivered_bytes": _undelivered(flow, sender, receiver),
        "server_undelivered_bytes": _undelivered(flow, receiver, sender),
        "packet_ref": flow.first_packet_ref,
        "client_seq": sender.base if sender.started else None,
        "server_seq": receiver.base if receiver.started else None,
    } | {name: getattr(sender, name) + getattr(receiver, name) for name in _SUMMED}


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


def _closed_by(flow: Flow, client: int) -> str | None:
    """Who sent the first FIN or RST: client, server or both."""
    if flow.closer < 0:
        return None
    return "both" if flow.closer == BOTH else _side(flow.closer, client)


def _reset_by(client: Half, server: Half) -> str | None:
    """Who sent a RST: client, server or both."""
    senders = [side for side, half in zip(SIDES, (client, server), strict=True) if half.rst_order != UNKNOWN_ORDER]
    return "both" if len(senders) == len(SIDES) else next(iter(senders), None)


def _undelivered(flow: Flow, half: Half, other: Half) -> int | None:
    """Bytes that a direction sent in vain; None where the acknowledgements of the other one were not captured.

    Bytes that were only on their way when the capture ended are none.
    """
    if not other.packets:
        return None
    waited_ns = flow.last_time - half.stalls.advanced_ns
    in_vain = half.again_to > half.acked or flow.reset or waited_ns >= UNACKNOWLEDGED_NS
    return half.undelivered if in_vain else 0
