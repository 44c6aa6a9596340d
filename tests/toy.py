"""A small protocol of the tests' own, to show what adding one takes.

length 4   big-endian, of what follows
id 4       ties request and answer
code 1     of a request: 1 put, 2 get; of an answer: 0 or an error
crc 4      CRC32 of the payload
payload
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping

from dissectors import checksum
from dissectors.checksum.unit_format import FieldSpan, UnitFormat, spans
from dissectors.compiling.state import carried
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.rows.sink import Sink, Suspect
from dissectors.session.conversation import Conversation, Protocol
from dissectors.session.exchange import CALL, OK, ORPHAN, PRODUCE, UNANSWERED, ErrorCode, PendingRequest, Report
from dissectors.session.frame import Frame
from dissectors.session.inbox import INVALID, MORE
from dissectors.session.resends import AT_END
from dissectors.tcp.chunk import CLIENT

HEAD = struct.Struct(">IIBI")
MAGIC_ID = 0x70000000  # ids begin here: what recognition goes by
APIS = {1: "PUT", 2: "GET"}
ERRORS = {9: "FULL"}
FIELDS = ((0, "length"), (4, "id"), (8, "code"), (9, "crc"), (13, "payload"))


def message(id_: int, code: int, payload: bytes = b"", crc: int | None = None) -> bytes:
    """One frame."""
    return HEAD.pack(9 + len(payload), MAGIC_ID + id_, code, zlib.crc32(payload) if crc is None else crc) + payload


class ToyUnit(UnitFormat):
    def fields(self, suspect: Suspect, unit: bytes) -> Iterator[FieldSpan]:
        return spans(FIELDS, 0, len(unit))


@carried
class ToyConversation(Conversation):
    report: Report
    open: dict[int, PendingRequest]

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.report = Report(conn, sink, self.resends, self.closing)
        self.open = {}

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        if end - pos < 8:
            return MORE
        length, id_ = struct.unpack_from(">II", buf, pos)
        return 4 + length if 9 <= length < 1 << 20 and id_ >= MAGIC_ID else INVALID

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        return end, False

    def on_frame(self, frame: Frame) -> None:
        _, id_, code, stored = HEAD.unpack_from(frame.data, frame.start)
        if frame.direction == CLIENT:
            request = PendingRequest(frame.facts(), APIS.get(code), code, correlation_id=id_ - MAGIC_ID)
            self.open[id_] = request
            self._batch(frame, request, stored)
            return
        found = self.open.pop(id_, None)
        errors = [ErrorCode(code, ERRORS.get(code), "request")] if code else []
        known = found or PendingRequest(None, None, None, correlation_id=id_ - MAGIC_ID)
        for error in errors:
            self.report.error(error, known, frame.facts())
        if self.report.wants_exchanges:
            slot = self.report.open_exchange(CALL if found else ORPHAN, known, frame.facts(), None)
            self.report.exchanges.put_named(slot, {"status": OK})
            if errors:
                self.report.fail(slot, errors)
            self.report.finish_exchange(slot)

    def _batch(self, frame: Frame, request: PendingRequest, stored: int) -> None:
        covered = (frame.start + HEAD.size, frame.end)
        computed = checksum.compute(checksum.CRC32, memoryview(frame.data)[slice(*covered)])
        good = computed == stored
        if not good:
            self.finding_at(frame, "checksum_mismatch", "The crc32 of a payload does not match")
            self.suspect(
                frame, "toy", checksum.CRC32, stored, computed, unit=(frame.start, frame.end), covered=[covered],
                checksum=(frame.start + 9, frame.start + 13), byteorder="big",
            )  # fmt: skip
        if self.report.wants_batches:
            slot = self.report.open_batch(request, frame.facts())
            self.report.batches.put_named(slot, {
                "role": PRODUCE, "topic": "things", "records": 1, "stored_bytes": frame.size, "format": "toy",
                "checksum_kind": checksum.CRC32, "checksum_stored": stored, "checksum_computed": computed,
                "verdict": "ok" if good else "bad", "outcome": OK, "time": frame.first_ns,
                "packet_ref": frame.packet_ref, "stream_offset": frame.offset,
            })  # fmt: skip
            self.report.finish_batch(slot)

    def on_close(self) -> None:
        for request in self.open.values():
            if self.report.wants_exchanges:
                self.report.finish_exchange(self.report.open_exchange(UNANSWERED, request, None, AT_END))


class Toy(Protocol):
    name = "toy"
    ports = (7007,)
    colours = ("#123456", "#abcdef")

    def recognise(self, client: bytes, server: bytes) -> float:
        return 1.0 if client[4:5] == b"\x70" and len(client) >= HEAD.size else 0.0

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        return ToyConversation(conn, sink, options, midstream=midstream)

    def unit_formats(self) -> Mapping[str, UnitFormat]:
        return {"toy": ToyUnit()}


TOY = Toy()
