"""Are these the first bytes of a TLS connection?

at  size  field
 0     1  type      22 handshake, 23 application data
 1     2  version   3.0 to 3.4
 3     2  length    of the fragment
 5     1  message   1 ClientHello, 2 ServerHello
 6     3  length    of the message
 9     2  version   3.0 to 3.3

Kafka and Pulsar would read the first four bytes as a frame of 352 MiB and more, far above what either allows.
"""

from __future__ import annotations

from dissectors.tls.record import APPLICATION_DATA, HANDSHAKE, HEADER, plausible_header

CLIENT_HELLO, SERVER_HELLO = 1, 2


def looks_like_tls(client: bytes, server: bytes) -> bool | None:
    """True: TLS. False: certainly not. None: more bytes would decide. Either side may be empty."""
    answers = [_side(data) for data in (client, server) if data]
    if True in answers:
        return True
    return False if answers and None not in answers else None


def _side(data: bytes) -> bool | None:
    if data[0] == HANDSHAKE:
        return _hello(data)
    return _chain(data) if data[0] == APPLICATION_DATA else False


def _hello(data: bytes) -> bool | None:
    expected = (
        (HANDSHAKE,),
        (3,),
        range(5),
        range(0x41),
        range(256),
        (CLIENT_HELLO, SERVER_HELLO),
        (0,),
        range(256),
        range(256),
        (3,),
        range(4),
    )
    if any(byte not in allowed for byte, allowed in zip(data, expected)):
        return False
    return True if len(data) >= len(expected) else None


def _chain(data: bytes) -> bool | None:
    """A stream that begins in mid-session, at a record: its length must lead to the next record."""
    if len(data) < HEADER:
        return None if b"\x17\x03\x03".startswith(data[:3]) else False
    if not plausible_header(data, 0):
        return False
    second = HEADER + int.from_bytes(data[3:5], "big")
    if second == len(data):
        return True
    return plausible_header(data, second) if len(data) >= second + HEADER else None
