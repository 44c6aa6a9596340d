"""A trace for Perfetto: a group of tracks a client, a track a connection, a slice a request.

Requests of a connection that overlap lie on several tracks of one name, which the viewer shows as one. A batch is an
arrow from the request that brought it to those that fetched it; verdicts are instants on a track of their own.
Format: protos/perfetto/trace/perfetto_trace.proto; "Synthetic track event" in Perfetto's documentation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import IO, Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BUILTIN_CLOCK_BOOTTIME,
    BUILTIN_CLOCK_REALTIME,
    TracePacket,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from pipelines.answers.export.requests import Request, digest

_SEQUENCE = 1
_VERDICTS = "verdicts"
_REMEMBERED = 1 << 16  # connections whose tracks are known to be free or not
_ANNOTATED = (
    "exchange_id", "version", "client_id", "group", "partitions", "records", "request_bytes", "response_bytes",
    "request_ns", "queued_ns", "wait_ns", "response_ns", "throttle_ms", "error_name", "answer", "file", "packet",
)  # fmt: skip
_LEFT_OUT_AT_0 = ("partitions", "records", "request_ns", "queued_ns", "response_ns", "throttle_ms")
_FLAGS = ("long_poll", "retransmitted")


def write(requests: Iterable[Request], verdicts: Iterable[dict[str, Any]], stream: IO[bytes]) -> None:
    """Write a trace. requests: in the order of time; verdicts: rows of the table `verdicts`."""
    trace = _Trace(stream)
    for request in requests:
        trace.add(request)
    for verdict in verdicts:
        trace.add_verdict(verdict)


class _Trace:
    """A trace that is being written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._builder = StreamingTraceProtoBuilder(stream)
        self._is_begun = False
        self._named: set[int] = set()  # tracks of clients, and of verdicts
        self._busy_until: OrderedDict[str, list[int]] = OrderedDict()  # connection -> of each of its tracks, ns

    def add(self, request: Request) -> None:
        """Write a request."""
        self._begin(request.start_ns)
        track = self._track_of(request)
        begin = self._event(request.start_ns, track, TrackEvent.TYPE_SLICE_BEGIN)
        event = begin.track_event
        event.name = request.name
        event.categories.append(request.protocol)
        if request.status == "error":
            event.categories.append("error")
        event.flow_ids.extend([*(request.sent or ()), *(request.read or ())])
        for name in _ANNOTATED:
            value = getattr(request, name)
            if value or (value is not None and name not in _LEFT_OUT_AT_0):
                _annotate(event, name, value)
        for name in _FLAGS:
            if getattr(request, name):
                _annotate(event, name, True)
        if request.kind != "call":
            _annotate(event, "kind", request.kind)
        self._builder.write_packet(begin)
        self._builder.write_packet(self._event(request.start_ns + request.lasted_ns, track, TrackEvent.TYPE_SLICE_END))

    def add_verdict(self, verdict: dict[str, Any]) -> None:
        """Write a verdict; one that no time is known of is left out."""
        time = verdict["first_time"]
        if time is None:
            return
        at = round(time.timestamp() * 1_000_000) * 1000
        self._begin(at)
        packet = self._event(at, self._named_track(_VERDICTS, _VERDICTS), TrackEvent.TYPE_INSTANT)
        packet.track_event.name = f"{verdict['kind']}: {verdict['sentence']}"
        packet.track_event.categories.append(verdict["severity"])
        for name in ("sentence", "detail", "advice", "count"):
            if verdict[name] is not None:
                _annotate(packet.track_event, name, verdict[name])
        self._builder.write_packet(packet)

    def _begin(self, at: int) -> None:
        """Before the first event: say that times are those of the wall clock."""
        if self._is_begun:
            return
        self._is_begun = True
        packet = self._packet(at)
        packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        for clock in (BUILTIN_CLOCK_BOOTTIME, BUILTIN_CLOCK_REALTIME):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=at)
        self._builder.write_packet(packet)

    def _track_of(self, request: Request) -> int:
        """The first track of its connection that is free when it begins."""
        key = f"{request.site} {request.connection} {request.incarnation}"
        tracks = self._busy_until.setdefault(key, [])
        self._busy_until.move_to_end(key)
        if len(self._busy_until) > _REMEMBERED:
            self._busy_until.popitem(last=False)
        free = (n for n, until in enumerate(tracks) if until <= request.start_ns)
        number = next(free, len(tracks))
        track = _id(f"{key} {number}")
        if number == len(tracks):
            client = f"{request.client_id or 'no client id'} at {request.client_ip}"
            again = f" ({request.incarnation + 1})" if request.incarnation else ""
            server = f"{request.server_ip}:{request.server_port}"
            name = f"{request.client_port} to {server}{again}"
            self._describe(track, name, self._named_track(f"client {client}", client))
            tracks.append(0)
        tracks[number] = request.start_ns + request.lasted_ns
        return track

    def _named_track(self, key: str, name: str) -> int:
        """The track of a client, or of verdicts."""
        track = _id(key)
        if track not in self._named:
            self._named.add(track)
            self._describe(track, name)
        return track

    def _describe(self, track: int, name: str, parent: int | None = None) -> None:
        packet = self._packet()
        packet.track_descriptor.uuid = track
        packet.track_descriptor.name = name
        if parent is not None:
            packet.track_descriptor.parent_uuid = parent
        self._builder.write_packet(packet)

    def _packet(self, at: int | None = None) -> Any:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        if at is not None:
            packet.timestamp = at
        return packet

    def _event(self, at: int, track: int, kind: int) -> Any:
        packet = self._packet(at)
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet


def _annotate(event: Any, name: str, value: Any) -> None:
    """Add a value that the viewer shows with a slice."""
    annotation = event.debug_annotations.add(name=name)
    if isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int):
        annotation.int_value = value
    else:
        annotation.string_value = str(value)


def _id(text: str) -> int:
    """64 bits that stand for a text."""
    return int.from_bytes(digest(text, 8), "big") or 1
