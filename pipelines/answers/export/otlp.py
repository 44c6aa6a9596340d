"""Spans as OTLP has them in JSON: a line is an ExportTraceServiceRequest, as OpenTelemetry's file exporter writes it.

A request is a span of its client (producer or consumer where it carried messages), and within it one of the server,
from the last byte of the request to the first one of the answer. A span that fetched a batch is linked to the one that
brought it; where the messages of a request name one trace, it belongs to that. Names of attributes: OpenTelemetry's
semantic conventions for messaging, network and RPC.
Format: OTLP specification, "JSON Protobuf Encoding": ids are hexadecimal, 64-bit numbers are texts.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import IO, Any, NamedTuple

from pipelines.answers.export.requests import Request, digest

_AT_ONCE = 512  # requests a line
_LINKED = 1 << 20  # batches whose spans are known, the latest
_LINKS = 128  # of a span, as OpenTelemetry's default limit has it
_SERVER, _CLIENT, _PRODUCER, _CONSUMER = range(2, 6)  # kinds of spans
_ERROR = 2  # code of a status


class _Span(NamedTuple):
    """What names a span."""

    trace: str  # 32 hexadecimal digits
    span: str  # 16


def write(requests: Iterable[Request], stream: IO[bytes]) -> None:
    """Write spans. requests: in the order of time."""
    spans = _Spans()
    waiting = iter(requests)
    while some := list(islice(waiting, _AT_ONCE)):
        found = [pair for request in some for pair in spans.of(request)]
        found.sort(key=lambda pair: pair[0])
        resources = [
            {"resource": _resource(service, address), "scopeSpans": [{"scope": {"name": "brokerscope"}, "spans": each}]}
            for (service, address), each in (
                (key, [span for _, span in group]) for key, group in groupby(found, key=lambda pair: pair[0])
            )
        ]
        stream.write(json.dumps({"resourceSpans": resources}, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


class _Spans:
    """Makes spans of requests."""

    def __init__(self) -> None:
        self._brought: OrderedDict[int, _Span] = OrderedDict()  # batch -> the span that brought it

    def of(self, request: Request) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
        """The spans of a request, each with the name and the address of who made it."""
        named = _named(request)
        client = (request.client_id or request.client_ip, request.client_ip)
        yield client, self._client_span(request, named)
        for batch in request.sent or ():
            self._brought[batch] = named
        while len(self._brought) > _LINKED:
            self._brought.popitem(last=False)
        if request.wait_ns is not None and request.request_ns is not None:
            server = f"{request.server_ip}:{request.server_port}"
            yield (server, request.server_ip), _server_span(request, named)

    def _client_span(self, request: Request, named: _Span) -> dict[str, Any]:
        kind = _PRODUCER if request.sent else _CONSUMER if request.read else _CLIENT
        span = _span(request, named, kind, request.start_ns, request.lasted_ns)
        before = dict.fromkeys(self._brought[batch] for batch in request.read or () if batch in self._brought)
        if before:
            span["links"] = [{"traceId": each.trace, "spanId": each.span} for each in islice(before, _LINKS)]
        return span


def _server_span(request: Request, named: _Span) -> dict[str, Any]:
    """What the server took, from the last byte of the request on."""
    begun = request.start_ns + (request.request_ns or 0)
    own = named._replace(span=digest(f"{request.exchange_id} server", 8).hex())
    return {**_span(request, own, _SERVER, begun, max(request.wait_ns or 0, 0)), "parentSpanId": named.span}


def _span(request: Request, named: _Span, kind: int, start: int, lasted: int) -> dict[str, Any]:
    span = {
        "traceId": named.trace,
        "spanId": named.span,
        "name": request.name,
        "kind": kind,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + lasted),
        "attributes": [{"key": key, "value": _value(value)} for key, value in _attributes(request)],
    }
    if request.status == "error":
        span["status"] = {"code": _ERROR, "message": request.error_name or "error"}
    return span


def _attributes(request: Request) -> Iterator[tuple[str, Any]]:
    topics = request.topics or []
    found = {
        "messaging.system": request.protocol,
        "messaging.operation.name": request.api,
        "messaging.destination.name": topics[0] if len(topics) == 1 else None,
        "messaging.consumer.group.name": request.group,
        "messaging.client.id": request.client_id,
        "messaging.batch.message_count": request.records,
        "network.peer.address": request.server_ip,
        "network.peer.port": request.server_port,
        "network.local.address": request.client_ip,
        "network.local.port": request.client_port,
        "network.protocol.name": request.protocol,
        "network.protocol.version": None if request.version is None else str(request.version),
        "error.type": request.error_name,
        "brokerscope.exchange_id": request.exchange_id,
        "brokerscope.kind": request.kind,
        "brokerscope.topics": topics if len(topics) > 1 else None,
        "brokerscope.queued_ns": request.queued_ns,
        "brokerscope.throttle_ms": request.throttle_ms,
        "brokerscope.long_poll": request.long_poll,
        "brokerscope.retransmitted": request.retransmitted,
        "brokerscope.file": request.file,
        "brokerscope.packet": request.packet,
    }
    return ((name, value) for name, value in found.items() if value is not None)


def _resource(service: str, address: str) -> dict[str, Any]:
    return {
        "attributes": [
            {"key": "service.name", "value": _value(service)},
            {"key": "host.ip", "value": _value([address])},
        ]
    }


def _value(value: Any) -> dict[str, Any]:
    """An AnyValue."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": value}


def _named(request: Request) -> _Span:
    """The span of a request, the same whenever it is exported: in the trace of its messages, or one of its own."""
    own = digest(request.exchange_id, 16).hex()
    return _Span(request.trace_id or own, digest(f"{request.exchange_id} client", 8).hex())
