"""From secrets to keys, and from a protected record to its plaintext.

TLS 1.2 (RFC 5246 §6.3, RFC 5288, RFC 7905): one key block from the master secret,

    client key | server key | client iv | server iv        iv: 4 bytes (GCM, CCM), 12 bytes (ChaCha20)

nonce = iv | explicit nonce, the first 8 bytes of the fragment (GCM, CCM), or iv ^ sequence number (ChaCha20);
additional data = sequence number | type | version | length of the plaintext.

TLS 1.3 (RFC 8446 §5.2, §7.1): each direction and epoch has a secret; key, iv and the next secret (key update) are
expanded from it. nonce = iv ^ sequence number; additional data = the record header.
"""

from __future__ import annotations

import hmac
from typing import Any

from dissectors.tls.record import HEADER
from dissectors.tls.suites import CCM, CCM_8, CHACHA, GCM, TAG_BYTES, Suite

IV_BYTES = 12
SALT_BYTES = 4
EXPLICIT_BYTES = 8


class Keys:
    """Opens the records of one direction under one key."""

    __slots__ = ("_cipher", "_explicit", "_iv", "_tag", "_tls13", "overhead")

    def __init__(self, suite: Suite, key: bytes, iv: bytes, *, tls13: bool) -> None:
        self._cipher = _cipher(suite, key)
        self._iv = iv
        self._tls13 = tls13
        self._tag = TAG_BYTES[suite.aead]
        self._explicit = 0 if tls13 or suite.aead == CHACHA else EXPLICIT_BYTES
        self.overhead = HEADER + self._explicit + self._tag + (1 if tls13 else 0)
        """Bytes of a record that are not plaintext; padding comes on top."""

    @property
    def first_byte(self) -> int:
        """Where in a record the first plaintext byte's ciphertext is."""
        return HEADER + self._explicit

    def open(self, sequence: int, record: bytes) -> bytes | None:
        """The plaintext of a whole record, or None where its tag does not verify."""
        from cryptography.exceptions import InvalidTag

        body = len(record) - HEADER - self._explicit - self._tag
        if body < 0 or not 0 <= sequence < 1 << 64:
            return None
        if self._explicit:
            nonce = self._iv + record[HEADER : HEADER + EXPLICIT_BYTES]
        else:
            nonce = (int.from_bytes(self._iv, "big") ^ sequence).to_bytes(IV_BYTES, "big")
        if self._tls13:
            extra = record[:HEADER]
        else:
            extra = sequence.to_bytes(8, "big") + record[:3] + body.to_bytes(2, "big")
        try:
            plain: bytes = self._cipher.decrypt(nonce, record[self.first_byte :], extra)
        except (InvalidTag, ValueError):
            return None
        return plain


def _cipher(suite: Suite, key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import aead

    if suite.aead == GCM:
        return aead.AESGCM(key)
    if suite.aead == CHACHA:
        return aead.ChaCha20Poly1305(key)
    assert suite.aead in (CCM, CCM_8)
    return aead.AESCCM(key, TAG_BYTES[suite.aead])


# --- TLS 1.2 ---------------------------------------------------------------------------------------------------------


def keys12(suite: Suite, master: bytes, client_random: bytes, server_random: bytes) -> tuple[Keys, Keys]:
    """Keys of the client's and of the server's records."""
    iv_bytes = IV_BYTES if suite.aead == CHACHA else SALT_BYTES
    need = 2 * (suite.key_bytes + iv_bytes)
    block = prf(suite.hash, master, b"key expansion", server_random + client_random, need)
    cut = [suite.key_bytes, 2 * suite.key_bytes, 2 * suite.key_bytes + iv_bytes]
    client_key, server_key, client_iv, server_iv = (
        block[start:stop] for start, stop in zip([0, *cut], [*cut, need], strict=True)
    )
    return Keys(suite, client_key, client_iv, tls13=False), Keys(suite, server_key, server_iv, tls13=False)


def prf(hash_name: str, secret: bytes, label: bytes, seed: bytes, length: int) -> bytes:
    """The pseudo-random function of TLS 1.2 (RFC 5246 §5)."""
    seed = label + seed
    a, out = seed, b""
    while len(out) < length:
        a = hmac.digest(secret, a, hash_name)
        out += hmac.digest(secret, a + seed, hash_name)
    return out[:length]


# --- TLS 1.3 ---------------------------------------------------------------------------------------------------------


def keys13(suite: Suite, secret: bytes) -> Keys:
    """Keys of one direction and epoch."""
    key = expand_label(suite.hash, secret, b"key", suite.key_bytes)
    return Keys(suite, key, expand_label(suite.hash, secret, b"iv", IV_BYTES), tls13=True)


def next_secret(suite: Suite, secret: bytes) -> bytes:
    """The application traffic secret after a KeyUpdate."""
    return expand_label(suite.hash, secret, b"traffic upd", len(secret))


def expand_label(hash_name: str, secret: bytes, label: bytes, length: int) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446 §7.1)."""
    label = b"tls13 " + label
    info = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
    block, out, count = b"", b"", 0
    while len(out) < length:
        count += 1
        block = hmac.digest(secret, block + info + bytes([count]), hash_name)
        out += block
    return out[:length]
