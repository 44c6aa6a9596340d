"""What a capture holds of a schema registry's answers, in clear HTTP/1.1: schemas with their ids.

    GET /schemas/ids/7                          -> {"schema": …, "schemaType": …, "references": […]}
    GET /subjects/S/versions/V                  -> {"subject", "version", "id", "schema", …}
    POST /subjects/S/versions {"schema": …}     -> {"id": 7}
    POST /subjects/S          {"schema": …}     -> {"subject", "version", "id", "schema", …}
    GET /schemas                                -> a list of these

Source: Confluent Schema Registry's API reference.
"""

from __future__ import annotations

import http.client
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from dissectors.capture.reader import Reader
from dissectors.limits import Limits
from dissectors.tcp.chunk import Chunk
from dissectors.tcp.flow import Flow
from dissectors.tcp.tracker import Tracker

_REQUEST = re.compile(rb"[A-Z]{3,7} (\S+) HTTP/1\.[01]\r\n")
_BEGINNING = 8  # bytes that tell whether a connection may be one of a registry
_MOST_STREAM = 16 << 20  # bytes of one direction
_MOST_BYTES = 256 << 20  # of all
_BY_ID = re.compile(r"/schemas/ids/(\d{1,10})(?:[/?]|$)")
_OF_SUBJECT = re.compile(r"/subjects/([^/?]+)(?:/versions)?/?(?:\?|$)|[?&]subject=([^&]+)")


class _Streams:
    """The two directions of connections that may be those of a registry."""

    def __init__(self) -> None:
        self._left = _MOST_BYTES
        self.ended: list[tuple[bytes, bytes]] = []

    def take(self, flow: Flow, ended: bool) -> None:
        """Keep what a connection delivered."""
        kept: list[bytearray] = flow.session or [bytearray(), bytearray()]
        flow.session = kept
        for data, events in zip(kept, flow.take(), strict=True):
            for event in events:
                if not isinstance(event, Chunk) or not self._wants(kept):
                    self._left += sum(map(len, kept))
                    kept[0].clear()
                    kept[1].clear()
                    kept[0] += b"-"  # nothing that HTTP begins with: no more of it is kept
                elif len(data) + len(event.data) <= min(_MOST_STREAM, self._left):
                    data += event.data
                    self._left -= len(event.data)
        if ended:
            self.ended.append((bytes(kept[0]), bytes(kept[1])))
            flow.session = None

    def _wants(self, kept: Sequence[bytearray]) -> bool:
        begun = [data[:_BEGINNING] for data in kept if data]
        return all(each.startswith((b"GET /", b"POST /", b"HTTP/1.")) or len(each) < 5 for each in begun)


def told_in(files: Sequence[str]) -> list[dict[str, Any]]:
    """The schemas in captures, as `schemas.load` takes them. Raises InputError for a file that is no capture."""
    found: dict[tuple[Any, Any, Any], dict[str, Any]] = {}
    for file in files:
        streams, tracker = _Streams(), Tracker(Limits())
        for block in Reader(file, 0, Limits()).blocks():
            for flow, ended in tracker.feed(block):
                streams.take(flow, ended)
        for flow, ended in tracker.finish():
            streams.take(flow, ended)
        for pair in streams.ended:
            for asked, answer in (pair, pair[::-1]):
                if _REQUEST.match(asked):
                    for row in _told(asked, answer):
                        found[row["id"], row.get("subject"), row.get("version")] = row
    return list(found.values())


def _told(asked: bytes, answer: bytes) -> Iterator[dict[str, Any]]:
    """The schemas of one connection: requests and answers, in their order."""
    for (path, given), body in zip(_requests(asked), _answers(answer), strict=False):
        for each in body if isinstance(body, list) else [body]:
            if not isinstance(each, dict):
                continue
            row = {**given, **each} if isinstance(given, dict) else dict(each)
            by_id, subject = _BY_ID.search(path), _OF_SUBJECT.search(path)
            row.setdefault("id", int(by_id[1]) if by_id else None)
            if subject:
                row.setdefault("subject", unquote(subject[1] or subject[2]))
            if isinstance(row.get("schema"), str) and isinstance(row["id"], int):
                yield row


def _requests(data: bytes) -> Iterator[tuple[str, Any]]:
    """(path, body of JSON or None) of each request."""
    at = 0
    while begun := _REQUEST.match(data, at):
        head = data.find(b"\r\n\r\n", begun.end() - 2)
        if head < 0:
            return
        size = re.search(rb"(?i)\r\ncontent-length: *(\d{1,9})\r\n", data[begun.end() - 2 : head + 2])
        stop = head + 4 + (int(size[1]) if size else 0)
        yield begun[1].decode("ascii", "replace"), _json(data[head + 4 : stop])
        at = stop


class _Answers(io.BytesIO):
    """A stream of answers, which http.client takes for a socket; it stays open when one of them has been read."""

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        """The stream itself: what one answer leaves is that of the next."""
        return self

    def close(self) -> None:
        """Stay open."""


def _answers(data: bytes) -> Iterator[Any]:
    """The body of JSON, or None, of each answer."""
    stream = _Answers(data)
    while stream.tell() < len(data):
        response = http.client.HTTPResponse(stream)  # type: ignore[arg-type]
        try:
            response.begin()
            yield _json(response.read())
        except (OSError, ValueError, http.client.HTTPException):
            return


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
