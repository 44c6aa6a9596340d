"""Alerts that lie in clear on the wire, by name (RFC 8446 section 6, RFC 5246 section 7.2).

Record: type 21, version u16, length 2, level u8, description u8. An encrypted one is longer, or has another type (1.3).
"""

from __future__ import annotations

ALERT_SIZE = 7  # of the record, header included
_LEVELS = {1: "warning", 2: "fatal"}
_DESCRIPTIONS = {
    0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 21: "decryption_failed", 22: "record_overflow",
    30: "decompression_failure", 40: "handshake_failure", 41: "no_certificate", 42: "bad_certificate",
    43: "unsupported_certificate", 44: "certificate_revoked", 45: "certificate_expired", 46: "certificate_unknown",
    47: "illegal_parameter", 48: "unknown_ca", 49: "access_denied", 50: "decode_error", 51: "decrypt_error",
    60: "export_restriction", 70: "protocol_version", 71: "insufficient_security", 80: "internal_error",
    86: "inappropriate_fallback", 90: "user_canceled", 100: "no_renegotiation", 109: "missing_extension",
    110: "unsupported_extension", 111: "certificate_unobtainable", 112: "unrecognized_name",
    113: "bad_certificate_status_response", 114: "bad_certificate_hash_value", 115: "unknown_psk_identity",
    116: "certificate_required", 120: "no_application_protocol",
}  # fmt: skip
_CLOSE_NOTIFY = b"\x01\x00"


def alert_in_clear(record: bytes) -> str | None:
    """`fatal certificate_expired`, of a record of alerts; None for one that is encrypted, or only says goodbye."""
    if len(record) != ALERT_SIZE or record[3:5] != b"\0\2" or record[5:] == _CLOSE_NOTIFY or record[5] not in _LEVELS:
        return None
    return f"{_LEVELS[record[5]]} {_DESCRIPTIONS.get(record[6], record[6])}"
