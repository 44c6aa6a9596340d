"""Headers of VSR frames: where their fields lie, and what requests and answers say in them.

Every frame                       Request                       Reply
   0 16 checksum                  128 16 client                 128 16 request_checksum
  16 16 checksum of the body      144 16 request_checksum       144 16 context
  32 16 cluster                   160  8 timestamp              160 16 client
  48  4 size, header included     168  8 request                176  8 op
  52  4 view                      176  1 operation              184  8 commit
  60  1 command                   184  8 session                192  8 timestamp
  61  1 replica                   192  4 user_id                200  8 request
  62    zero, up to 128           196  4 code (operation 2)     208  1 operation
                                  200  8 partition_incarnation  216  4 status
Eviction
 128 16 client                    Prepare: as Reply from 176 on, before it
 144  4 server_protocol_version   128 16 client  144 16 parent  160 16 request_checksum
 148  4 the oldest it accepts     PrepareOk: 160  8 op
 152    zero, up to 255           Commit: 168  8 namespace      StartView: 144  8 namespace
 255  1 reason

The cluster is zero between clients and servers, but in some replies. Client and server send no checksums of their own.
"""

from __future__ import annotations

from struct import Struct
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame
from dissectors.wire.reader import WireReader, reader

HEADER = 256  # bytes
BODY_CHECKSUM_AT, CLUSTER_AT, SIZE_AT, VIEW_AT, VIEW_END, COMMAND_AT, REPLICA_AT, RESERVED_AT = (
    16, 32, 48, 52, 56, 60, 61, 62,
)  # fmt: skip
RESERVED_END = 128
REQUEST_CHECKSUM_AT, REQUEST_ID_AT, REQUEST_OPERATION_AT, CODE_AT = 144, 168, 176, 196
ANSWERED_ID_AT, OPERATION_AT, STATUS_AT = 200, 208, 216
EVICTION_ZERO_AT, REASON_AT = 152, 255
OP_AT = {"PREPARE": 176, "REPAIR_PREPARE": 176, "PREPARE_OK": 160}
NAMESPACE_AT = {"COMMIT": 168, "START_VIEW": 144}

NON_REPLICATED = 2  # the operation of requests that name a command
REQUEST, REPLY, EVICTION = 5, 8, 13  # commands

_U32 = Struct("<I")
_RESULT = Struct("<II")


def number(data: bytes, at: int, size: int) -> int:
    """An unsigned number of so many bytes."""
    return int.from_bytes(data[at : at + size], "little")


@final
@compiled
class VsrHeader:
    """What is needed of the header of a request or a reply.

    request: ABSENT where it does not fit 63 bits
    checksum, checksum_high: the halves of a request's
    code: of the command, of a request; status: of a reply
    later: whether fields of 0.10 are in use
    """

    request: cython.longlong
    operation: cython.longlong
    checksum: cython.longlong = 0
    checksum_high: cython.longlong = 0
    code: cython.longlong = 0
    status: cython.longlong = 0
    later: cython.bint

    def __init__(self, request: cython.longlong, operation: cython.longlong, later: bool) -> None:
        self.request = request if request >= 0 else ABSENT
        self.operation = operation
        self.later = later


@compiled
def vsr_request(frame: Frame) -> VsrHeader | None:
    """The header of a request; None where it is not all there."""
    if frame.known - frame.start < HEADER:
        return None
    r: WireReader = reader()
    r.open(frame.data, frame.start + REQUEST_CHECKSUM_AT, frame.end)
    checksum: cython.longlong = r.i64le()
    checksum_high: cython.longlong = r.i64le()
    r.pos = frame.start + REQUEST_ID_AT
    request: cython.longlong = r.i64le()
    operation: cython.longlong = r.u8()
    r.pos = frame.start + CODE_AT
    code: cython.longlong = r.u32le()
    header = VsrHeader(request, operation, (r.i64le() | r.i64le() | r.i64le()) != 0)
    header.checksum, header.checksum_high, header.code = checksum, checksum_high, code
    return header


@compiled
def vsr_reply(frame: Frame) -> VsrHeader | None:
    """The header of a reply; None where it is not all there."""
    if frame.known - frame.start < HEADER:
        return None
    r: WireReader = reader()
    r.open(frame.data, frame.start + ANSWERED_ID_AT, frame.end)
    request: cython.longlong = r.i64le()
    operation: cython.longlong = r.u8()
    r.pos = frame.start + STATUS_AT
    status: cython.longlong = r.u32le()
    header = VsrHeader(request, operation, (r.i64le() | r.u32le()) != 0)
    header.status = status
    return header


def result_section(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """u32 count | count x (u32 index, u32 result): the first result, 0 for success, and where the payload begins."""
    if end - pos < 4:
        return 0, pos
    entries = _U32.unpack_from(buf, pos)[0]
    if not entries:
        return 0, pos + 4
    if entries > (end - pos - 4) // 8:
        return 0, pos  # no result section
    return _RESULT.unpack_from(buf, pos + 4)[1], pos + 4 + 8 * entries
