"""Which answers a request can have, by what the releases that remain answer its command with."""

from __future__ import annotations

from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.iggy import layouts, tables
from dissectors.iggy.era import Era
from dissectors.iggy.frames import PREFIX
from dissectors.iggy.pending import ANY_LENGTH, DISCONNECTED, Answer, IggyRequest
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame
from dissectors.wire.reader import WireReader, reader

_POLLED = 16  # bytes at the start of polled messages: partition, current offset, count
_REGISTER = 1  # operation of VSR


@final
@carried
@compiled
class AnswerFit:
    """Judges answers by what is known of the connection's release."""

    era: Era

    def __init__(self, era: Era) -> None:
        self.era = era

    @compiled
    def has_payload(self, request: IggyRequest) -> cython.bint:
        """Whether the command is ever answered with a payload."""
        return self.era.command(answer_code(request)).has_payload

    def fits(self, request: IggyRequest, answer: Answer) -> bool:
        """Whether an answer can be that of a request."""
        if answer.request_id != ABSENT:
            return request.operation == answer.operation or answer.operation not in tables.operations()
        if answer.status:
            return answer.status != DISCONNECTED and (answer.length == 0 or layouts.error_texts(self.era.allowed))
        if answer.length == ANY_LENGTH:
            return self.has_payload(request) or layouts.error_texts(self.era.allowed)
        return answer.length == 0 or self.has_payload(request)

    def suits(self, request: IggyRequest, answer: Answer) -> bool:
        """Whether an answer fits a request in what it holds, too: where nothing else shows whose it is."""
        frame: Frame | None = answer.frame
        if not self.fits(request, answer):
            return False
        if frame is None or answer.status or answer.length < _POLLED or not self.era.command(request.api_code).delivers:
            return True
        if frame.known - frame.start < PREFIX + _POLLED:
            return True
        r: WireReader = reader()
        r.open(frame.data, frame.start + PREFIX, frame.end)
        partition: cython.longlong = r.u32le()
        r.skip(8)
        count: cython.longlong = r.u32le()
        wanted: cython.longlong = request.partition_id
        if request.consumer is not None and wanted > 0 and wanted != partition:
            return False
        return request.most == ABSENT or count <= request.most


@compiled
def answer_code(request: IggyRequest) -> cython.longlong:
    """The code under which layouts has the answer to a request."""
    return layouts.REGISTER if request.operation == _REGISTER else request.api_code
