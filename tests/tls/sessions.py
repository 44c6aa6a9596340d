"""TLS sessions to decrypt: real ones between two ends of Python's ssl, and crafted ones where it has no knob."""

from __future__ import annotations

import datetime
import itertools
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers import aead
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from dissectors.tcp.chunk import CLIENT, SERVER, Chunk, Gap, Resent
from dissectors.tls import KeyLog
from dissectors.tls.layer import TlsLayer

Script = list[tuple[int, bytes]]  # direction, bytes

# --- real sessions ---------------------------------------------------------------------------------------------------


def certificate(folder: Path, kind: str) -> Path:
    """A self-signed certificate with its key, `rsa` or `ecdsa`."""
    path = folder / f"{kind}.pem"
    if path.exists():
        return path
    key = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Test, Inc"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker.test"),
        ]
    )
    start = datetime.datetime(2024, 1, 1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + made.public_bytes(pem))
    return path


@dataclass
class Ends:
    """A client's and a server's TLS context that log their keys to one file."""

    folder: Path
    version: ssl.TLSVersion
    ciphers: str | None = None
    kind: str = "rsa"
    tickets: bool = True
    curve: str | None = None
    mutual: bool = False  # the client shows a certificate as well
    client: ssl.SSLContext = field(init=False)
    server: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.client.check_hostname = False
        self.client.verify_mode = ssl.CERT_NONE
        self.server.load_cert_chain(certificate(self.folder, self.kind))
        self.server.set_alpn_protocols(["kafka"])
        self.client.set_alpn_protocols(["kafka"])
        if self.mutual:
            shown = certificate(self.folder, self.kind)
            self.client.load_cert_chain(shown)
            self.server.verify_mode = ssl.CERT_REQUIRED
            self.server.load_verify_locations(shown)
        for context in (self.client, self.server):
            context.minimum_version = context.maximum_version = self.version
            if self.ciphers:
                context.set_ciphers(self.ciphers)
        if not self.tickets:
            self.server.options |= ssl.OP_NO_TICKET
        if self.curve:
            self.server.set_ecdh_curve(self.curve)
        self.open: list[ssl.SSLObject] = []  # a server end that goes away takes its resumable session with it
        self.keys = self.folder / "keys.log"
        self.client.keylog_filename = str(self.keys)

    def conversation(
        self, plain: Sequence[tuple[int, bytes]], session: ssl.SSLSession | None = None
    ) -> tuple[Script, ssl.SSLObject]:
        """Shake hands, then say `plain`; what went over the wire, and the client's end."""
        pipes = [ssl.MemoryBIO() for _ in range(4)]
        client = self.client.wrap_bio(pipes[0], pipes[1], server_hostname="broker.test", session=session)
        server = self.server.wrap_bio(pipes[2], pipes[3], server_side=True)
        ends, script = (client, server), Script()
        self.open.append(server)

        def carry() -> bool:
            moved = False
            for direction, source, target in ((CLIENT, pipes[1], pipes[2]), (SERVER, pipes[3], pipes[0])):
                if data := source.read():
                    script.append((direction, data))
                    target.write(data)
                    moved = True
            return moved

        done: set[int] = set()
        while len(done) < 2:
            for number, end in enumerate(ends):
                try:
                    end.do_handshake()
                    done.add(number)
                except ssl.SSLWantReadError:
                    pass
                carry()
        carry()
        for direction, data in plain:
            ends[direction].write(data)
            carry()
            got = b""
            while len(got) < len(data):
                got += ends[1 - direction].read(1 << 16)
        return script, client


# --- crafted sessions of TLS 1.3 -------------------------------------------------------------------------------------

RANDOM = bytes(range(32))
AEADS = {
    0x1301: (aead.AESGCM, 16, hashes.SHA256()),
    0x1302: (aead.AESGCM, 32, hashes.SHA384()),
    0x1303: (aead.ChaCha20Poly1305, 32, hashes.SHA256()),
    0x1304: (aead.AESCCM, 16, hashes.SHA256()),
    0x1305: (lambda key: aead.AESCCM(key, 8), 16, hashes.SHA256()),
}


class Sealer:
    """Seals the records of one direction and epoch."""

    def __init__(self, suite: int, secret: bytes) -> None:
        self.suite, self.secret, self.sequence = suite, secret, 0
        make, key_bytes, _ = AEADS[suite]
        self.cipher = make(self.expand(b"key", key_bytes))
        self.iv = self.expand(b"iv", 12)

    def expand(self, label: bytes, length: int) -> bytes:
        label = b"tls13 " + label
        info = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
        return HKDFExpand(AEADS[self.suite][2], length, info).derive(self.secret)

    def seal(self, plain: bytes, kind: int = 23, padding: int = 0) -> bytes:
        inner = plain + bytes([kind]) + bytes(padding)
        size = len(inner) + (8 if self.suite == 0x1305 else 16)
        header = b"\x17\x03\x03" + size.to_bytes(2, "big")
        nonce = (int.from_bytes(self.iv, "big") ^ self.sequence).to_bytes(12, "big")
        self.sequence += 1
        return header + self.cipher.encrypt(nonce, inner, header)  # type: ignore[attr-defined]

    def updated(self) -> Sealer:
        return Sealer(self.suite, self.expand(b"traffic upd", len(self.secret)))


def extension(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body


def message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def clear(data: bytes, kind: int = 22) -> bytes:
    return bytes([kind, 3, 3]) + len(data).to_bytes(2, "big") + data


def client_hello(*extensions: bytes, random: bytes = RANDOM) -> bytes:
    name = b"\0\0\x0bbroker.test"
    content = extension(0, len(name).to_bytes(2, "big") + name) + b"".join(extensions)
    body = b"\x03\x03" + random + b"\0" + b"\0\2\x13\x01" + b"\1\0" + len(content).to_bytes(2, "big") + content
    return message(1, body)


def server_hello(suite: int, random: bytes = bytes(32)) -> bytes:
    content = extension(43, b"\x03\x04")
    body = b"\x03\x03" + random + b"\0" + suite.to_bytes(2, "big") + b"\0" + len(content).to_bytes(2, "big") + content
    return message(2, body)


def encrypted_extensions(*extensions: bytes) -> bytes:
    content = b"".join(extensions)
    return message(8, len(content).to_bytes(2, "big") + content)


FINISHED = message(20, bytes(32))
KEY_UPDATE = message(24, b"\0")
EARLY_DATA = extension(42, b"")
CCS = clear(b"\1", 20)


class Crafted:
    """A TLS 1.3 session whose every record the test decides."""

    def __init__(self, suite: int, early: bool = False) -> None:
        size = AEADS[suite][2].digest_size
        labels = (
            "CLIENT_EARLY_TRAFFIC_SECRET",
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            "CLIENT_TRAFFIC_SECRET_0",
            "SERVER_TRAFFIC_SECRET_0",
        )
        self.secrets = {label: bytes([number + 1]) * size for number, label in enumerate(labels)}
        self.early, *rest = (Sealer(suite, secret) for secret in self.secrets.values())
        self.handshake, self.data = rest[:2], rest[2:]
        self.suite = suite
        hello = client_hello(*([EARLY_DATA] if early else []))
        self.script: Script = [(CLIENT, clear(hello))]

    def log(self, *without: str) -> KeyLog:
        lines = (f"{k} {RANDOM.hex()} {v.hex()}" for k, v in self.secrets.items() if k not in without)
        return KeyLog.load("\n".join(lines).encode())

    def say(self, direction: int, *records: bytes) -> None:
        self.script.append((direction, b"".join(records)))

    def shake_hands(self, *extensions: bytes, client_first: Iterable[bytes] = ()) -> None:
        flight = encrypted_extensions(*extensions) + message(11, bytes(300))
        self.say(
            SERVER,
            clear(server_hello(self.suite)),
            CCS,
            self.handshake[SERVER].seal(flight[:100], 22),
            self.handshake[SERVER].seal(flight[100:] + FINISHED, 22),
        )
        self.say(CLIENT, CCS, *client_first, self.handshake[CLIENT].seal(FINISHED, 22))


# --- feeding ---------------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """What came out of a layer."""

    layer: TlsLayer
    events: tuple[list[Chunk | Gap], list[Chunk | Gap]]
    resent: tuple[list[Resent], list[Resent]]

    def text(self, direction: int) -> bytes:
        """Plaintext, with `_` for every missing byte; offsets are checked on the way."""
        out = b""
        for event in self.events[direction]:
            assert event.offset == len(out)
            out += b"_" * event.length if isinstance(event, Gap) else event.data
            if isinstance(event, Chunk):
                assert event.starts[0] == event.offset
                assert list(event.starts) == sorted(set(event.starts))
                assert list(event.orders) == sorted(event.orders)
                assert len(event.starts) == len(event.orders) == len(event.packet_refs) == len(event.times)
        return out


def whole(data: bytes) -> list[bytes]:
    return [data]


def halves(data: bytes) -> list[bytes]:
    return [data[: len(data) // 2], data[len(data) // 2 :]] if len(data) > 1 else [data]


def single(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def sevens(data: bytes) -> list[bytes]:
    return [data[at : at + 7] for at in range(0, len(data), 7)]


WAYS: dict[str, Callable[[bytes], list[bytes]]] = {"whole": whole, "halves": halves, "bytes": single, "7": sevens}


def listen(
    script: Sequence[tuple[int, Any]],
    log: KeyLog | None,
    cut: Callable[[bytes], list[bytes]] = whole,
    server_first: bool = False,
) -> Heard:
    """Play a script of (direction, bytes), or (direction, bytes lost), through a layer. Time and place of a piece are
    its order. With `server_first` all that the server says is given before all that the client says."""
    offsets, order = [0, 0], itertools.count(1)
    steps: list[tuple[int, Chunk | Gap]] = []
    for direction, data in script:
        for piece in [data] if isinstance(data, int) else cut(data):
            at, now = offsets[direction], next(order)
            event = (
                Gap(at, piece, "not captured", now, now, now)
                if isinstance(piece, int)
                else Chunk.of(at, piece, [at], [now], [now], [now])
            )
            offsets[direction] += piece if isinstance(piece, int) else len(piece)
            steps.append((direction, event))
    if server_first:
        steps.sort(key=lambda step: -step[0])
    heard = Heard(TlsLayer(log), ([], []), ([], []))
    events = [plain for direction, event in steps for plain in heard.layer.receive(direction, event)]
    for direction, plain in events + heard.layer.close():
        if isinstance(plain, Resent):
            heard.resent[direction].append(plain)
        else:
            heard.events[direction].append(plain)
    return heard
