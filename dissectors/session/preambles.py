"""What may stand before the protocol on a connection: the words of a proxy.

proxy-v1      client: PROXY TCP4 192.0.2.1 192.0.2.9 40000 9092 CR LF; at most 107 bytes
proxy-v2      client: 12 bytes of signature, version and command, family, length u16, then that many bytes:
              source and target address, source and target port (4 + 4 + 2 + 2 bytes, or 16 + 16 + 2 + 2), more fields
socks5        client: 5, count, methods                 server: 5, method
              client: 1, user, password (method 2 only) server: 1, status
              client: 5, 1, 0, address, port            server: 5, 0, 0, address, port
http-connect  client: CONNECT host:port HTTP/1.1 and headers, an empty line; server: HTTP/1.1 200 and headers, as well

A proxy that speaks of its client (PROXY) names where that client is; one that is asked for a tunnel (SOCKS5, CONNECT),
where the tunnel leads. Users, passwords and headers are stepped over and kept nowhere.
Source: HAProxy's proxy-protocol.txt; RFC 1928, 1929; RFC 9110, 9.3.6.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from dissectors.records import endpoint

_V1 = b"PROXY "
_V1_MOST = 107
_V2 = b"\r\n\r\n\0\r\nQUIT\n"
_V2_HEAD = 16
_CONNECT = b"CONNECT "
_CONNECT_MOST = 8192  # bytes of a head of HTTP
_TARGET = re.compile(rb"CONNECT ([\x21-\x7e]{1,260}) HTTP/1\.[01]\r\n")
_ANSWER = re.compile(rb"HTTP/1\.[01] 2\d\d[ \r]")
_SOCKS = b"\5"  # version, at the start of each part
_PASSWORD = 2  # method: user and password
_NAME, _V4, _V6 = 3, 1, 4  # types of address


class Preamble(NamedTuple):
    """What was stepped over."""

    name: str
    origin: str | None  # address and port: of the client before the proxy, or of the tunnel's target
    client: int  # bytes of the client
    server: int  # bytes of the server


class _More(Exception):  # noqa: N818
    """More bytes must come first."""


class _Other(Exception):  # noqa: N818
    """It is something else."""


def read(client: bytes, server: bytes) -> Preamble | bool:
    """The preamble at the beginning of a connection; True where more bytes may show one, False where there is none."""
    for parse in _PARSERS if client else ():
        try:
            return parse(client, server)
        except _More:
            return True
        except _Other:
            continue
    return False


def _expect(data: bytes, expected: bytes) -> None:
    """Raise unless data begins as expected."""
    if data[: len(expected)] != expected[: len(data)]:
        raise _Other
    if len(data) < len(expected):
        raise _More


class _Bytes:
    """Reads one side from its beginning on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if self.at + count > len(self._data):
            raise _More
        self.at += count
        return self._data[self.at - count : self.at]

    def expect(self, *allowed: bytes) -> int:
        """The next byte, which must be one of those allowed."""
        byte = self.take(1)
        if byte not in allowed:
            raise _Other
        return byte[0]


def _proxy_v1(client: bytes, server: bytes) -> Preamble:
    _expect(client, _V1)
    end = client.find(b"\r\n", 0, _V1_MOST)
    if end < 0:
        raise _More if len(client) < _V1_MOST else _Other
    words = client[:end].split(b" ")
    if words[1:2] == [b"UNKNOWN"]:
        return Preamble("proxy-v1", None, end + 2, 0)
    if len(words) != 6 or words[1] not in (b"TCP4", b"TCP6"):
        raise _Other
    try:
        origin = endpoint(str(ipaddress.ip_address(words[2].decode("ascii"))), int(words[4]))
    except ValueError as error:
        raise _Other from error
    return Preamble("proxy-v1", origin, end + 2, 0)


def _proxy_v2(client: bytes, server: bytes) -> Preamble:
    _expect(client, _V2)
    if len(client) < _V2_HEAD:
        raise _More
    command, family, size = struct.unpack_from(">BBH", client, len(_V2))
    if command not in (0x20, 0x21):
        raise _Other
    end = _V2_HEAD + size
    if len(client) < end:
        raise _More
    width = {0x11: 4, 0x21: 16}.get(family)  # TCP over IPv4 or IPv6
    origin = None
    if command == 0x21 and width is not None and size >= 2 * width + 4:
        (port,) = struct.unpack_from(">H", client, _V2_HEAD + 2 * width)
        origin = endpoint(str(ipaddress.ip_address(client[_V2_HEAD : _V2_HEAD + width])), port)
    return Preamble("proxy-v2", origin, end, 0)


def _socks5(client: bytes, server: bytes) -> Preamble:
    asked, answered = _Bytes(client), _Bytes(server)
    asked.expect(_SOCKS)
    methods = asked.take(asked.take(1)[0])
    if not methods or max(methods) > 9:  # which none is, but private ones
        raise _Other
    answered.expect(_SOCKS)
    method = answered.expect(*(bytes([each]) for each in methods))
    if method == _PASSWORD:
        asked.expect(b"\1")
        asked.take(asked.take(1)[0])
        asked.take(asked.take(1)[0])
        answered.expect(b"\1")
        answered.expect(b"\0")
    elif method:
        raise _Other  # GSSAPI wraps what follows
    asked.expect(_SOCKS)
    asked.expect(b"\1")  # CONNECT
    origin = _address(asked)
    answered.expect(_SOCKS)
    answered.expect(b"\0")  # granted
    _address(answered)
    return Preamble("socks5", origin, asked.at, answered.at)


def _address(side: _Bytes) -> str:
    """A reserved byte, an address and a port of SOCKS5."""
    side.expect(b"\0")
    kind = side.expect(bytes([_V4]), bytes([_NAME]), bytes([_V6]))
    if kind == _NAME:
        host = side.take(side.take(1)[0]).decode("ascii", "backslashreplace")
    else:
        host = str(ipaddress.ip_address(side.take(4 if kind == _V4 else 16)))
    return endpoint(host, int.from_bytes(side.take(2), "big"))


def _http_connect(client: bytes, server: bytes) -> Preamble:
    _expect(client, _CONNECT)
    end = _head(client)
    target = _TARGET.match(client)
    if target is None:
        raise _Other
    _expect(server, b"HTTP/1.")
    if _ANSWER.match(server) is None:
        raise _Other if len(server) > _V2_HEAD else _More
    return Preamble("http-connect", target[1].decode("ascii"), end, _head(server))


def _head(data: bytes) -> int:
    """Where a head of HTTP ends."""
    end = data.find(b"\r\n\r\n", 0, _CONNECT_MOST)
    if end < 0:
        raise _More if len(data) < _CONNECT_MOST else _Other
    return end + 4


_PARSERS: tuple[Callable[[bytes, bytes], Preamble], ...] = (_proxy_v1, _proxy_v2, _socks5, _http_connect)
