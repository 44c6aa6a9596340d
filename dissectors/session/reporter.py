"""How a connection reports what a person should look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.findings import finding
from dissectors.options import Options
from dissectors.records import Conn, Finding
from dissectors.rows.sink import Sink, Suspect
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import SIDES, Piece

_EARLY = 64  # findings kept back until a frame proves the protocol


@carried
@compiled
class ConnectionReporter:
    """Findings of one connection, and the bytes that forensics looks into."""

    conn: Conn
    sink: Sink
    options: Options
    bases: tuple[int, int] | None = None  # TCP sequence numbers of stream offset 0; None under TLS
    _early: Sequence[Finding]  # of the time before the protocol was proven

    def __init__(self, conn: Conn, sink: Sink, options: Options) -> None:
        self.conn = conn
        self.sink = sink
        self.options = options
        self._early = ()

    @property
    def proven(self) -> bool:
        """Whether a frame has shown that this is the protocol."""
        raise NotImplementedError

    def confirm(self) -> None:
        """It is this protocol: report what was found before it was proven."""
        if self._early:
            self.sink.findings.extend(self._early)
            self._early = ()

    def finding(
        self, kind: str, message: str, *, direction: int | None = None, time: int | None = None, **more: Any
    ) -> None:
        """Report a finding of a kind in `findings.KINDS`; `more` is as `findings.finding` has it."""
        if "findings" in self.sink.tables:
            side = None if direction is None else SIDES[direction]
            row = finding(self.conn, kind, message, direction=side, time=time, **more)
            if not self.proven and len(self._early) < _EARLY:
                self._early = [*self._early, row]
                return
            self.confirm()
            self.sink.findings.append(row)

    def finding_at(self, frame: Frame, kind: str, message: str, **evidence: Any) -> None:
        """Report a finding about a frame."""
        self.finding(
            kind,
            message,
            direction=frame.direction,
            time=frame.first_ns,
            packet_ref=frame.packet_ref,
            offset=frame.offset,
            length=frame.size,
            **evidence,
        )

    def finding_within(self, frame: Frame, at: int, kind: str, message: str, **evidence: Any) -> None:
        """Report a finding about bytes of a frame that is being handed over, from index `at` of its data on."""
        time, packet_ref = self.locate(frame, at)
        self.finding(
            kind,
            message,
            direction=frame.direction,
            time=time,
            packet_ref=packet_ref,
            offset=frame.offset + at - frame.start,
            **evidence,
        )

    def suspect(
        self,
        frame: Frame,
        format: str,
        kind: str,
        stored: int,
        computed: int,
        *,
        unit: tuple[int, int],
        covered: Sequence[tuple[int, int]],
        checksum: tuple[int, int],
        byteorder: Literal["big", "little"],
    ) -> None:
        """Keep what forensics needs of a unit with a wrong checksum, if anybody asks for it.

        unit, covered, checksum: [start, end) in frame.data; what is covered must lie in the unit.
        """
        suspects, limits = self.sink.suspects, self.options.limits
        if suspects is None or len(suspects) >= limits.suspects:
            return
        start, end = unit
        if end - start + sum(len(kept.unit) for kept in suspects) > limits.suspect_bytes:
            return
        offset = frame.offset + start - frame.start
        pieces = self.pieces(frame.direction, offset, offset + end - start)
        if not pieces or pieces[0].start > offset:  # the frame was handed over long ago
            pieces = [Piece(frame.offset, frame.packet_ref, frame.first_ns)]
        suspects.append(
            Suspect(
                self.conn,
                frame.direction,
                offset,
                frame.data[start:end],
                format,
                kind,
                stored,
                computed,
                tuple((a - start, b - start) for a, b in covered),
                checksum[0] - start,
                checksum[1] - checksum[0],
                byteorder,
                None if self.bases is None else self.bases[frame.direction],
                tuple(pieces),
            )
        )

    @compiled(python=False)
    def locate(self, frame: Frame, at: cython.Py_ssize_t) -> tuple[int, int]:
        """Time (ns) and packet of the byte at index `at` of a frame that is being handed over."""
        raise NotImplementedError

    def pieces(self, direction: int, start: int, end: int) -> list[Piece]:
        """Where the bytes [start, end) of a direction's stream came from, as far as they are at hand."""
        raise NotImplementedError
