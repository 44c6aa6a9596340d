"""What handshake messages say: the hellos, and a client's certificate.

ClientHello            ServerHello            EncryptedExtensions     Certificate
  2  version             2  version             2+n  extensions         1+n  context (TLS 1.3 only)
 32  random             32  random                                      3+n  certificates, the sender's own first
  1+n session id         1+n session id       an extension:
  2+n cipher suites      2  cipher suite        2  type               a certificate:
  1+n compressions       1  compression         2+n  body               3+n  DER
  2+n extensions         2+n extensions                                 2+n  extensions (TLS 1.3 only)

Source: RFC 8446 §4.1 and §4.4.2, RFC 5246 §7.4.1 and §7.4.2; extensions: RFC 6066 (server name), RFC 7301 (ALPN),
RFC 5077 (ticket).
"""

from __future__ import annotations

from typing import NamedTuple

SERVER_NAME, ALPN, SESSION_TICKET, PRE_SHARED_KEY, EARLY_DATA, SUPPORTED_VERSIONS = 0, 16, 35, 41, 42, 43
TLS12, TLS13 = 0x0303, 0x0304
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS12: "TLS 1.2", TLS13: "TLS 1.3"}
RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")  # HelloRetryRequest


class ClientHello(NamedTuple):
    """What the client asks for."""

    random: bytes
    session_id: bytes
    ticket: bytes  # of a TLS 1.2 session to resume
    sni: str | None
    early_data: bool


class ServerHello(NamedTuple):
    """What the server chose."""

    random: bytes
    session_id: bytes
    suite: int
    version: int
    alpn: str | None
    pre_shared_key: bool  # TLS 1.3: it goes on with a session that the client offered

    @property
    def retry(self) -> bool:
        """It is a HelloRetryRequest: the client says hello again."""
        return self.random == RETRY_RANDOM


class _Reader:
    """Vectors of a message body; reading past the end is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise ValueError("TLS message is cut off")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        return self.take(self.number(size))

    def left(self) -> int:
        return len(self.data) - self.at


def client_hello(body: bytes) -> ClientHello:
    """Read a ClientHello; ValueError where it is cut off."""
    reader = _Reader(body)
    reader.take(2)
    random, session_id = reader.take(32), reader.vector(1)
    reader.vector(2)
    reader.vector(1)
    extensions = _extensions(reader)
    return ClientHello(
        random,
        session_id,
        extensions.get(SESSION_TICKET, b""),
        _server_name(extensions.get(SERVER_NAME)),
        EARLY_DATA in extensions,
    )


def server_hello(body: bytes) -> ServerHello:
    """Read a ServerHello or HelloRetryRequest; ValueError where it is cut off."""
    reader = _Reader(body)
    version, random, session_id, suite = reader.number(2), reader.take(32), reader.vector(1), reader.number(2)
    reader.take(1)
    extensions = _extensions(reader)
    chosen = extensions.get(SUPPORTED_VERSIONS, b"")
    if len(chosen) == 2:
        version = int.from_bytes(chosen, "big")
    alpn = _protocol(extensions.get(ALPN))
    return ServerHello(random, session_id, suite, version, alpn, PRE_SHARED_KEY in extensions)


def encrypted_extensions(body: bytes) -> tuple[str | None, bool]:
    """ALPN protocol, and whether early data was accepted."""
    extensions = _extensions(_Reader(body))
    return _protocol(extensions.get(ALPN)), EARLY_DATA in extensions


def subject(body: bytes, *, tls13: bool) -> str | None:
    """Whose the first certificate is: its subject as RFC 2253 writes it; None where there is none that can be read."""
    reader = _Reader(body)
    if tls13:
        reader.vector(1)
    own = _Reader(reader.vector(3))
    if not own.left():
        return None
    from cryptography import x509  # loaded when a client shows a certificate

    try:
        return x509.load_der_x509_certificate(own.vector(3)).subject.rfc4514_string()
    except (ValueError, TypeError, x509.InvalidVersion):  # of hostile DER; TypeError: a name that is no text
        return None


def session_ticket(body: bytes) -> bytes:
    """The ticket of a TLS 1.2 NewSessionTicket: 4 bytes of life time, then the ticket."""
    reader = _Reader(body)
    reader.take(4)
    return reader.vector(2)


def _extensions(reader: _Reader) -> dict[int, bytes]:
    extensions: dict[int, bytes] = {}
    if reader.left():
        inner = _Reader(reader.vector(2))
        while inner.left():
            kind = inner.number(2)
            extensions[kind] = inner.vector(2)
    return extensions


def _server_name(body: bytes | None) -> str | None:
    if not body:
        return None
    names = _Reader(_Reader(body).vector(2))
    while names.left():
        kind, name = names.number(1), names.vector(2)
        if kind == 0:
            return name.decode("ascii", "backslashreplace")
    return None


def _protocol(body: bytes | None) -> str | None:
    return _Reader(_Reader(body).vector(2)).vector(1).decode("ascii", "backslashreplace") if body else None
