"""Answers whose requests were not captured, or that belong to no request at all: what can be known of them.

messages     a payload that is a run of messages is the answer to a poll
surplus      a server that did not read a refused body answers each eight bytes of it (0.8.0): reported once, together
status 8     the server's last word before it closes
else         which command it answers is not known: a finding, no row
"""

from __future__ import annotations

from typing import Protocol

from dissectors.iggy import layouts
from dissectors.iggy.decode import Body
from dissectors.iggy.diagnostics import IggyDiagnostics
from dissectors.iggy.frames import PREFIX
from dissectors.iggy.loss import resync
from dissectors.iggy.match import ORPHAN, SURPLUS
from dissectors.iggy.pending import DISCONNECTED
from dissectors.iggy.rows import IggyRows
from dissectors.rows.table import int64
from dissectors.session.conversation import Conversation
from dissectors.session.exchange import CONSUME, PUSH, ErrorCode
from dissectors.session.exchange import ORPHAN as ORPHAN_KIND
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import SERVER
from dissectors.wording import counted

_POLL = 100
_LEAST = 24  # bytes of a legacy answer that holds messages


class OrphanContext(Protocol):
    """The part of exchanges.IggyExchanges that orphans need."""

    conversation: Conversation
    diagnostics: IggyDiagnostics
    rows: IggyRows

    def body(self, side: str, code: int, frame: Frame, start: int) -> Body: ...
    def error(self, status: int, frame: Frame, start: int) -> ErrorCode: ...


class IggyOrphans:
    """The answers of one connection that were paired with nothing."""

    def __init__(self, exchanges: OrphanContext) -> None:
        self._exchanges = exchanges
        self.surplus = 0  # answers to no request since the last pair
        self._surplus_at = (0, 0, 0)  # time, packet and stream offset of the first

    def legacy(self, judged: str, frame: Frame, status: int) -> None:
        """An answer in legacy framing that match.py judged so."""
        if judged == SURPLUS:
            self._to_nothing(frame, status)
            return
        run = None
        at = frame.start + PREFIX
        if (
            judged == ORPHAN
            and not status
            and frame.size >= _LEAST
            and resync.may_be_poll(frame.data, at, frame.size - PREFIX, frame.end)
        ):
            read = self._exchanges.body(layouts.RESPONSE, _POLL, frame, at)
            run = read.run if read.exact else None
        if run is not None and run.count:
            self._poll(read, frame)
        else:
            self.unknown(frame, status)

    def unknown(self, frame: Frame, status: int) -> None:
        """No row: which command it answers is not known."""
        self._exchanges.conversation.finding_at(
            frame, "orphan", "The request of this answer was not captured", status=status
        )

    def report_surplus(self) -> None:
        """Answers and requests are paired again, or the connection ends: report the answers that were none.

        A server of another era than the client answers every few bytes, and is reported as that.
        """
        if not self.surplus or self._exchanges.diagnostics.of_another_era:
            return
        time, packet_ref, offset = self._surplus_at
        self._exchanges.conversation.finding(
            "pairing_lost",
            f"{counted(self.surplus, 'answer')} to no request: the server took bytes for frames that were none",
            direction=SERVER,
            time=time,
            packet_ref=packet_ref,
            offset=offset,
            answers=self.surplus,
        )
        self.surplus = 0

    def _to_nothing(self, frame: Frame, status: int) -> None:
        rows = self._exchanges.rows
        error = self._exchanges.error(status, frame, frame.start + PREFIX) if status else None
        if status == DISCONNECTED:
            rows.lone(frame.facts(), PUSH, "DISCONNECTED", None, error=error)
            return
        self.surplus += 1
        if self.surplus == 1:
            self._surplus_at = (frame.first_ns, frame.packet_ref, frame.offset)
        rows.lone(frame.facts(), ORPHAN_KIND, None, None, error=error)

    def _poll(self, read: Body, frame: Frame) -> None:
        run, rows, facts = read.run, self._exchanges.rows, frame.facts()
        assert run is not None
        partition = int64(read.values.get("partition_id"))
        poll = rows.lone(
            facts,
            ORPHAN_KIND,
            "POLL_MESSAGES",
            _POLL,
            records=run.total,
            payload_bytes=run.payload_bytes(),
            body=rows.text(read, frame, status=0),
        )
        rows.report_batches(run, frame, facts, CONSUME, partition, poll)
