"""What looks wrong in a request, until it is known that the request is as long as it announces.

A client that announces too many bytes lets the broker take the beginning of its next request for the end of this one:
the last batch then has a wrong checksum, or a field a strange value, and nothing of that is so. It shows when the next
request does not begin where this one ends. What was found wrong is kept until then, and told only if it still is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dissectors.kafka.pending import KafkaRequest
from dissectors.records import Conn
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Suspect
from dissectors.session.frame import Frame, FrameFacts
from dissectors.tcp.chunk import CLIENT, Chunk
from dissectors.wording import counted

_Conversation = Any  # a KafkaConversation, whose module imports this one

KINDS = frozenset({"checksum_mismatch", "malformed_frame", "batch_mismatch", "decompress_failed", "trailing_bytes"})
"""Kinds of finding that a wrong length explains."""

LARGEST = 1 << 20
"""Bytes of the end of a request that are kept while it is doubted."""


class LostFraming(NamedTuple):
    """A request behind whose announced end no other begins, and the place of that end."""

    call: KafkaRequest
    offset: int  # in the stream
    time: int  # ns
    packet_ref: int

    def settle(self, conversation: _Conversation) -> None:
        """No request was found behind it."""
        message = "These bytes are no request, and none was found behind them"
        place = {"time": self.time, "packet_ref": self.packet_ref, "offset": self.offset}
        conversation.finding("malformed_frame", message, direction=CLIENT, **place)

    def found(self, conversation: _Conversation, doubts: Doubts | None, offset: int) -> None:
        """The next request begins at a stream offset: report the wrong length, if it is one."""
        call, frame = self.call, self.call.frame
        assert frame is not None
        announced, actual = frame.size, offset - frame.offset
        if actual == announced:
            return  # it ended there, and was only taken for no request
        if doubts is not None:
            doubts.keep_before(offset)
        if actual < announced:
            cut_short(call, offset)
        conversation.rows.report.event("misframed", call, frame, number=actual)
        conversation.finding(
            "wrong_length",
            f"A request {call.api} announces {counted(announced, 'byte')}, and the next one begins after {actual}",
            direction=CLIENT,
            time=frame.first_ns,
            packet_ref=frame.packet_ref,
            offset=frame.offset,
            length=announced,
            api=call.api,
            version=None if call.version == ABSENT else call.version,
            correlation_id=call.correlation_id,
            announced=announced,
            actual=actual,
        )


class DoubtedFinding(NamedTuple):
    """A finding about a request that is not told yet: arguments of `ConnectionReporter.finding`."""

    kind: str
    message: str
    direction: int | None
    time: int | None
    more: dict[str, Any]

    def holds_before(self, offset: int) -> bool:
        """Whether it is true of the request though that ends at a stream offset: its bytes lie before it.

        That a body is not as it should be is what a wrong length makes of any.
        """
        start, length = self.more.get("offset"), self.more.get("length")
        if start is None or length is None or self.kind == "malformed_frame":
            return False
        end: int = start + length
        return end <= offset


class Doubts:
    """What looks wrong in the newest request of a connection.

    suspects: what forensics needs of its wrong checksums
    framed: the bytes of the request in which the next one may begin
    one_way: the request, where nobody answers it: its rows wait too
    """

    def __init__(self) -> None:
        self.findings: list[DoubtedFinding] = []
        self.suspects: list[Suspect] = []
        self.framed: Chunk | None = None
        self.one_way: KafkaRequest | None = None

    def begin(self, conversation: _Conversation, frame: Frame, call: KafkaRequest) -> None:
        """Keep what is needed to find another request within this one, which is whole."""
        end = frame.offset + frame.size
        start = max(frame.offset + 1, end - LARGEST)
        self.framed = next(conversation.inboxes[CLIENT].captured(start, end), None)
        self.one_way = call if call.acks == 0 else None
        if conversation.sink.suspects:
            self.suspects = doubted(conversation.sink.suspects, conversation.conn, frame)

    def settle(self, conversation: _Conversation) -> None:
        """Tell what is wrong in the request."""
        for each in self.findings:
            conversation.finding(each.kind, each.message, direction=each.direction, time=each.time, **each.more)
        if self.suspects and conversation.sink.suspects is not None:
            conversation.sink.suspects.extend(self.suspects)
        if self.one_way is not None:
            conversation.sent_one_way(self.one_way)

    def keep_before(self, offset: int) -> None:
        """The request ends at a stream offset: what follows from its wrong length is forgotten."""
        self.findings = [each for each in self.findings if each.holds_before(offset)]
        self.suspects = [each for each in self.suspects if each.offset + len(each.unit) <= offset]


def doubted(suspects: list[Suspect], conn: Conn, frame: FrameFacts) -> list[Suspect]:
    """Take those of a request, which are the last ones, out of the suspects of all connections."""
    found: list[Suspect] = []
    while suspects and suspects[-1][:2] == (conn, frame.direction) and suspects[-1].offset >= frame.offset:
        found.insert(0, suspects.pop())
    return found


def cut_short(call: KafkaRequest, offset: int) -> None:
    """A request ends at a stream offset, before its announced end: what lies behind it is not of the request."""
    frame = call.frame
    if frame is None:
        return
    call.frame = FrameFacts(
        frame.direction, frame.offset, frame.size, frame.order, frame.first_ns, ABSENT, frame.packet_ref, False
    )
    for records in call.sets or ():
        for batch in records.batches:
            if batch.stream_offset + batch.size > offset:
                batch.whole, batch.computed, batch.verdict = False, ABSENT, "unverifiable"
