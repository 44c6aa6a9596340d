"""Answers whose requests were not captured, or that belong to no request at all: what can be told of them.

messages     a payload that is a run of messages is the answer to a poll
surplus      a server that did not read a refused body answers each eight bytes of it (0.8.0): told once, together
status 8     the server's last word before it closes
else         which command it answers cannot be told: a finding, no row
"""

from __future__ import annotations

from typing import Protocol

from dissectors.conversation import Conversation, Frame
from dissectors.iggy import layouts
from dissectors.iggy.decode import Body
from dissectors.iggy.emit import CONSUME, Emitter
from dissectors.iggy.errors import Fault
from dissectors.iggy.flight import DISCONNECTED
from dissectors.iggy.match import ORPHAN, SURPLUS
from dissectors.tcp.chunk import SERVER

_POLL = 100
_LEAST = 24  # bytes of a legacy answer that holds messages


class Known(Protocol):
    """What is known of the connection: see calls.Calls."""

    talk: Conversation
    emit: Emitter

    def body(self, side: str, code: int, frame: Frame, start: int) -> Body: ...
    def fault(self, status: int, frame: Frame, start: int) -> Fault: ...


class Orphans:
    """The answers of one connection that were paired with nothing."""

    def __init__(self, calls: Known) -> None:
        self._calls = calls
        self._surplus = 0  # answers to no request since the last pair
        self._surplus_at = (0, 0, 0)  # time, place and stream offset of the first

    def legacy(self, judged: str, frame: Frame, status: int) -> None:
        """An answer in legacy framing that match.py judged so."""
        if judged == SURPLUS:
            self._to_nothing(frame, status)
            return
        run = None
        if frame.size >= _LEAST and not status and judged == ORPHAN:
            read = self._calls.body(layouts.RESPONSE, _POLL, frame, frame.start + 8)
            run = read.run if read.exact else None
        if run and run.messages:
            self._poll(read, frame)
        else:
            self.unknown(frame, status)

    def unknown(self, frame: Frame, status: int) -> None:
        """No row: which command it answers cannot be told."""
        self._calls.talk.finding_at(
            frame, "orphan_answer", "info", "The request of this answer was not captured", status=status
        )

    def tell_surplus(self) -> None:
        """Answers and requests are paired again, or the connection ends: tell of the answers that were none."""
        if not self._surplus:
            return
        time, place, offset = self._surplus_at
        self._calls.talk.finding(
            "pairing_lost",
            "warning",
            f"{self._surplus} answers belong to no request: the server took bytes for frames that were none",
            direction=SERVER,
            time=time,
            place=place,
            offset=offset,
            answers=self._surplus,
        )
        self._surplus = 0

    def _to_nothing(self, frame: Frame, status: int) -> None:
        emit = self._calls.emit
        error = self._calls.fault(status, frame, frame.start + 8) if status else None
        if status == DISCONNECTED:
            emit.lone(frame, "push", "DISCONNECTED", None, fault=error)
            return
        self._surplus += 1
        if self._surplus == 1:
            self._surplus_at = (frame.first_ns, frame.place, frame.offset)
        emit.lone(frame, "orphan", None, None, fault=error)

    def _poll(self, read: Body, frame: Frame) -> None:
        run, emit = read.run, self._calls.emit
        assert run is not None
        partition = read.values.get("partition_id")
        emit.put_batches(emit.batch_rows(run, frame, CONSUME, None, partition, "POLL_MESSAGES", None))
        emit.lone(
            frame,
            "orphan",
            "POLL_MESSAGES",
            _POLL,
            records=run.total,
            payload_bytes=sum(m.payload_length for m in run.messages),
            body=emit.text(read, frame, status=0),
        )
