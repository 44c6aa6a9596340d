"""Where a frame ends, and what is one at all.

Every frame is a 4-byte big-endian size and so many bytes. A request goes on with a key, a version, a correlation id and
a client id; of a response only the correlation id is known to be there.
"""

from __future__ import annotations

import re
import struct

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.errors import UsageError
from dissectors.kafka import schema
from dissectors.kafka.decode import REQUEST_HEAD, ApiVersion, api_version
from dissectors.limits import Limits
from dissectors.session.conversation import api_code
from dissectors.session.inbox import INVALID, MORE
from dissectors.tcp.chunk import CLIENT
from dissectors.wire.memory import is_at
from dissectors.wire.reader import ReadError, WireReader

SIZE_BYTES, HEAD_BYTES, SMALLEST_REQUEST, SMALLEST_RESPONSE, WITHOUT_CLIENT = 4, 14, 8, 4, 7
HIGHEST_KEY, HIGHEST_VERSION = 999, 99

HEAD = REQUEST_HEAD.size  # 14
_LIMITS = Limits()
MAX_FRAME = _LIMITS.frame_bytes
assert (_LIMITS.api_key, _LIMITS.api_version) == (HIGHEST_KEY, HIGHEST_VERSION)
SAMPLE = 1 << 12  # of a larger one so much is looked at
_NEAR = 64  # how far behind the correlation id of a request that of the next one is, at most
APPENDED = 8  # bytes that some clients write after a body

_TOKEN, _LONGEST_LENGTH = 0x60, 0x84
_KERBEROS = bytes.fromhex("06092a864886f712010202")  # 1.2.840.113554.1.2.2
_NOT_TEXT = re.compile(rb"[\x00-\x1f\x7f]")


@compiled
def measure_request(r: WireReader, limit: cython.longlong, raw: cython.bint) -> cython.longlong:
    """Size of the request at the reader. With `raw` it may be a bare SASL token."""
    have: cython.Py_ssize_t = r.left()
    size: cython.longlong
    key: cython.longlong
    version: cython.longlong
    client: cython.longlong
    if have < SIZE_BYTES:
        return MORE
    size = r.i32()
    if size > limit or size < (0 if raw else SMALLEST_REQUEST):
        return INVALID
    if raw:
        return SIZE_BYTES + size
    if have < min(HEAD_BYTES, SIZE_BYTES + size):
        return MORE
    key = r.i16()
    version = r.i16()
    if not 0 <= key <= HIGHEST_KEY or not 0 <= version <= HIGHEST_VERSION:
        return INVALID
    if have >= HEAD_BYTES and size >= HEAD_BYTES - SIZE_BYTES and (key != WITHOUT_CLIENT or version != 0):
        r.skip(4)
        client = r.i16()
        if client < -1 or client > size - (HEAD_BYTES - SIZE_BYTES):
            return INVALID
    return SIZE_BYTES + size


@compiled
def names_client(r: WireReader, start: cython.Py_ssize_t, client: bytes, size: cython.longlong) -> cython.bint:
    """Whether the request whose bytes lie at index `start` of the reader's names this client.

    client, size: the client id and its length, -1 for null. A request that does not have all of it does not name it.
    """
    r.pos = start + HEAD_BYTES - 2
    if r.left() < 2 or r.i16() != size or r.left() < size:
        return False
    return size < 0 or is_at(r.source, r.pos, client)


@compiled
def measure_response(r: WireReader, limit: cython.longlong, raw: cython.bint) -> cython.longlong:
    """Size of the response at the reader. With `raw` it may be a bare SASL token."""
    size: cython.longlong
    if r.left() < SIZE_BYTES:
        return MORE
    size = r.i32()
    if size > limit or size < (0 if raw else SMALLEST_RESPONSE):
        return INVALID
    return SIZE_BYTES + size


def begins_with_token(buf: bytes, pos: int, end: int) -> bool | None:
    """Whether a SASL token of Kerberos stands at buf[pos], with which clients of Kafka 0.9 begin: None: not known yet.

    Size | 0x60 | length, as in DER | the object id of Kerberos.
    """
    if end - pos <= SIZE_BYTES + 1:
        return None if buf[pos + SIZE_BYTES : end] in (b"", b"\x60") else False
    length = buf[pos + SIZE_BYTES + 1]
    at = pos + SIZE_BYTES + 2 + (length & 0x7F if length & 0x80 else 0)
    head = buf[at : min(end, at + len(_KERBEROS))]
    if buf[pos + SIZE_BYTES] != _TOKEN or length > _LONGEST_LENGTH or not _KERBEROS.startswith(head):
        return False
    return True if head == _KERBEROS else None


def plausible_request(buf: bytes, pos: int, end: int) -> bool:
    """Whether buf[pos:end] begins with a request that the tables know; proven by its body where no client id speaks."""
    if end - pos < HEAD:
        return False
    size, key, version, _, client = REQUEST_HEAD.unpack_from(buf, pos)
    api = api_version(key, version) if 0 <= key <= HIGHEST_KEY and 0 <= version <= HIGHEST_VERSION else None
    if api is None or not api.known or not 8 <= size <= MAX_FRAME:
        return False
    if not api.has_client_id or client <= 0:
        return client >= -1 and pos + 4 + size <= end and decodes_request(api, buf, pos)
    if client > size - 10:
        return False
    return is_text(buf[pos + HEAD : pos + HEAD + client], cut=pos + HEAD + client > end)


def sized(frame: bytes) -> bytes:
    """A frame, with its size in front where that is missing."""
    is_sized = frame[:4] == max(0, len(frame) - 4).to_bytes(4, "big")
    return frame if is_sized else len(frame).to_bytes(4, "big") + frame


def request_head(response: bytes, api: str | int | None, version: int | None) -> bytes:
    """The head of a request, as a frame, that this response answers. Raises UsageError."""
    if api is None or version is None:
        raise UsageError("a Kafka response does not say what it answers: give the API and its version")
    key = api_code("Kafka", api, {one.key: one.name for one in schema.apis().values()})
    try:
        return REQUEST_HEAD.pack(HEAD - 4, key, version, int.from_bytes(response[4:8], "big", signed=True), -1)
    except struct.error:
        raise UsageError(f"{version} is no version of {api}") from None


def is_text(raw: bytes, cut: bool = False) -> bool:
    """Whether bytes look like what people call a client; with `cut` the last character may be incomplete."""
    if _NOT_TEXT.search(raw):
        return False
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return cut and error.end == len(raw) and error.start > len(raw) - 4
    return True


def decodes_request(api: ApiVersion, buf: bytes, pos: int) -> bool:
    """Whether the whole request at buf[pos] is what its header says; some clients append a few bytes."""
    size, _, _, _, client = REQUEST_HEAD.unpack_from(buf, pos)
    body = pos + (HEAD + max(0, client) if api.has_client_id else HEAD - 2)
    try:
        whole = api.full_request(buf, api.request_body(buf, body), pos + 4 + size)
        return whole.trouble is None and whole.left <= APPENDED
    except ReadError:
        return False


def decodes_response(api: ApiVersion, buf: bytes, pos: int, size: int) -> bool:
    """Whether the `size` bytes at buf[pos] are a response of this API and version."""
    body = pos + 8
    try:
        return api.is_response(buf, api.response_body(buf, body), pos + size)
    except ReadError:
        return False


def measure_stranger(buf: bytes, pos: int, end: int, size: int, last_id: int) -> int:
    """Size of a request that does not name the client of those before it; INVALID where it is none, MORE likewise.

    Few connections carry requests of several clients, so that what stands here is rather no request at all. One it is
    if its correlation id follows `last_id`, or if its body, of a large one the first bytes, is what its header says.
    """
    have = end - pos
    if size < HEAD:
        return INVALID
    _, key, version, correlation_id, client = REQUEST_HEAD.unpack_from(buf, pos)
    api = api_version(key, version)
    named = max(0, client) if api.has_client_id else 0
    if have < HEAD + named:
        return MORE
    if not is_text(buf[pos + HEAD : pos + HEAD + named]):
        return INVALID
    if 0 < correlation_id - last_id <= _NEAR:
        return size
    if have < min(size, SAMPLE):
        return MORE
    if size <= SAMPLE:
        return size if api.known and decodes_request(api, buf, pos) else INVALID
    return size if begins(api, CLIENT, buf, pos, pos + HEAD + named, size) else INVALID


def begins(api: ApiVersion, direction: int, buf: bytes, pos: int, body: int, size: int) -> bool:
    """Whether the first bytes of a large frame are what its header says: a request, or a response to one."""
    if not api.known:
        return False
    skip, fits = ((api.request_body, api.is_request), (api.response_body, api.is_response))[direction]
    sample = buf[pos : pos + SAMPLE]
    try:
        return fits(sample, skip(sample, body - pos), size)
    except ReadError:
        return False
