"""The AEAD cipher suites: code on the wire, name, cipher, key length and hash of the key schedule.

Source: the IANA registry "TLS Cipher Suites". Suites of TLS 1.2 that are not here (CBC, RC4, NULL) are not decrypted.
"""

from __future__ import annotations

from typing import NamedTuple

GCM, CCM, CCM_8, CHACHA = "AES-GCM", "AES-CCM", "AES-CCM-8", "ChaCha20-Poly1305"
TAG_BYTES = {GCM: 16, CCM: 16, CCM_8: 8, CHACHA: 16}


class Suite(NamedTuple):
    """One cipher suite."""

    name: str
    aead: str
    key_bytes: int
    hash: str  # of the PRF (TLS 1.2) or of HKDF (TLS 1.3)


_AES = {
    # stem: (AEAD, hash of AES-128, hash of AES-256)
    "GCM": (GCM, "sha256", "sha384"),
    "CCM": (CCM, "sha256", "sha256"),
    "CCM_8": (CCM_8, "sha256", "sha256"),
}

_AES_PAIRS = (
    # key exchange, mode, code with AES-128, code with AES-256
    ("RSA", "GCM", 0x009C, 0x009D),
    ("DHE_RSA", "GCM", 0x009E, 0x009F),
    ("DH_RSA", "GCM", 0x00A0, 0x00A1),
    ("DHE_DSS", "GCM", 0x00A2, 0x00A3),
    ("DH_DSS", "GCM", 0x00A4, 0x00A5),
    ("DH_anon", "GCM", 0x00A6, 0x00A7),
    ("PSK", "GCM", 0x00A8, 0x00A9),
    ("DHE_PSK", "GCM", 0x00AA, 0x00AB),
    ("RSA_PSK", "GCM", 0x00AC, 0x00AD),
    ("ECDHE_ECDSA", "GCM", 0xC02B, 0xC02C),
    ("ECDH_ECDSA", "GCM", 0xC02D, 0xC02E),
    ("ECDHE_RSA", "GCM", 0xC02F, 0xC030),
    ("ECDH_RSA", "GCM", 0xC031, 0xC032),
    ("ECDHE_PSK", "GCM", 0xD001, 0xD002),
    ("RSA", "CCM", 0xC09C, 0xC09D),
    ("DHE_RSA", "CCM", 0xC09E, 0xC09F),
    ("RSA", "CCM_8", 0xC0A0, 0xC0A1),
    ("DHE_RSA", "CCM_8", 0xC0A2, 0xC0A3),
    ("PSK", "CCM", 0xC0A4, 0xC0A5),
    ("DHE_PSK", "CCM", 0xC0A6, 0xC0A7),
    ("ECDHE_ECDSA", "CCM", 0xC0AC, 0xC0AD),
    ("ECDHE_ECDSA", "CCM_8", 0xC0AE, 0xC0AF),
)

_CHACHA = {
    0xCCA8: "ECDHE_RSA",
    0xCCA9: "ECDHE_ECDSA",
    0xCCAA: "DHE_RSA",
    0xCCAB: "PSK",
    0xCCAC: "ECDHE_PSK",
    0xCCAD: "DHE_PSK",
    0xCCAE: "RSA_PSK",
}

SUITES: dict[int, Suite] = {
    0x1301: Suite("TLS_AES_128_GCM_SHA256", GCM, 16, "sha256"),
    0x1302: Suite("TLS_AES_256_GCM_SHA384", GCM, 32, "sha384"),
    0x1303: Suite("TLS_CHACHA20_POLY1305_SHA256", CHACHA, 32, "sha256"),
    0x1304: Suite("TLS_AES_128_CCM_SHA256", CCM, 16, "sha256"),
    0x1305: Suite("TLS_AES_128_CCM_8_SHA256", CCM_8, 16, "sha256"),
}
for _exchange, _mode, *_codes in _AES_PAIRS:
    _aead, *_hashes = _AES[_mode]
    for _code, _bits, _hash in zip(_codes, (128, 256), _hashes, strict=True):
        _suffix = "" if _aead != GCM else f"_{_hash.upper()}"  # RFC 6655 names its suites without the hash
        SUITES[_code] = Suite(f"TLS_{_exchange}_WITH_AES_{_bits}_{_mode}{_suffix}", _aead, _bits // 8, _hash)
for _code, _exchange in _CHACHA.items():
    SUITES[_code] = Suite(f"TLS_{_exchange}_WITH_CHACHA20_POLY1305_SHA256", CHACHA, 32, "sha256")
