"""Messages inside the bytes of messages: how `--full` shows them.

    JoinGroup, SyncGroup, DescribeGroups   the consumer protocol: int16 version, then Subscription or Assignment
    Envelope                               a whole request or response, header included (KIP-590)
    SaslAuthenticate                       the name of PLAIN and SCRAM, nothing else
    PushTelemetry                          OTLP metrics, compressed: their size and names (KIP-714)

What can be decoded is put beside the bytes, under the field's name and `Decoded`; the bytes stay, except where they may
hold a secret.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

from dissectors.redaction import REDACTED
from dissectors.wire.codecs import CodecError, decompress
from dissectors.wire.protobuf import BYTES, fields

DECODED = "Decoded"
REQUEST, RESPONSE = "requestData", "responseData"
INNER = "\0inner"  # where what is in an envelope waits; never shown
PRINCIPAL = "principal"  # beside SASL bytes
_LONGEST_NAME = 255
_TELEMETRY_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TELEMETRY_LIMIT = 8 << 20  # decompressed bytes; clients send some kilobytes
_MAX_NAMES = 1000

Show = Callable[[bytes, dict[str, Any], str], Any]
"""(bytes, the struct that holds the field, the field's name) -> what stands for the bytes"""


def base64_text(raw: bytes) -> str:
    return b64encode(raw).decode()


def _sealed(raw: bytes, holder: dict[str, Any], field: str) -> dict[str, Any]:
    """A request or response in an envelope: its bytes may hold secrets. They wait for envelope.py, which opens it."""
    holder[INNER] = raw
    return {"sizeInBytes": len(raw)}


def _telemetry(raw: bytes, holder: dict[str, Any], field: str) -> dict[str, Any]:
    """Size and names of metrics."""
    shown: dict[str, Any] = {"sizeInBytes": len(raw)}
    code = holder.get("compressionType", -1)
    if not 0 <= code < len(_TELEMETRY_CODECS):
        return shown
    codec = _TELEMETRY_CODECS[code]
    try:
        plain = raw if codec == "none" or not raw else decompress(codec, raw, limit=_TELEMETRY_LIMIT)
    except CodecError as trouble:
        return shown | {"trouble": str(trouble)}
    names: dict[str, None] = {}
    for resource in _parts(plain, 1):
        for scope in _parts(resource, 2):
            for metric in _parts(scope, 2):
                for name in _parts(metric, 1):
                    if len(names) < _MAX_NAMES:
                        names[name.decode("utf-8", "backslashreplace")] = None
    return shown | {"uncompressedBytes": len(plain), "names": list(names)}


def _parts(data: bytes, wanted: int) -> Iterator[bytes]:
    """The length-delimited fields with this number in a protobuf message, as far as it makes sense."""
    for field in fields(data, 0, len(data)):
        if field.kind == BYTES and field.number == wanted:
            yield data[field.start : field.end]


def _authentication(raw: bytes, holder: dict[str, Any], field: str) -> str:
    """SASL bytes are a secret; the name that some begin with is not."""
    name = login_name(raw)
    if name is not None:
        holder[PRINCIPAL] = name
    return REDACTED


def login_name(raw: bytes) -> str | None:
    """The name in the SASL bytes of PLAIN and SCRAM, where it is certain where it lies; never one in a token."""
    name = b""
    parts = raw.split(b"\0")
    if len(parts) == 3 and parts[2] and parts[0] in (b"", parts[1]):  # PLAIN: authorisation id, name, password
        name = parts[1]
    elif raw[:2] == b"n," and b"\1" not in raw:  # SCRAM: n,authorisation id,n=name,r=nonce
        name = next((part[2:] for part in raw.split(b",")[2:] if part[:2] == b"n="), b"")
    text = name.decode("utf-8", "ignore")
    return text if text and text.isprintable() and len(text) <= _LONGEST_NAME else None


SHOWN: dict[tuple[str, str], Show] = {
    ("EnvelopeRequest", REQUEST): _sealed,
    ("EnvelopeResponse", RESPONSE): _sealed,
    ("PushTelemetryRequest", "metrics"): _telemetry,
    ("SaslAuthenticateRequest", "authBytes"): _authentication,
}
"""(message, field) -> how its bytes are shown; others are base64."""

_SUBSCRIPTION, _ASSIGNMENT = "ConsumerProtocolSubscription", "ConsumerProtocolAssignment"
VERSIONED: dict[tuple[str, str], str] = {
    ("JoinGroupRequest", "metadata"): _SUBSCRIPTION,
    ("JoinGroupResponse", "metadata"): _SUBSCRIPTION,
    ("DescribeGroupsResponse", "memberMetadata"): _SUBSCRIPTION,
    ("DescribeGroupsResponse", "memberAssignment"): _ASSIGNMENT,
    ("SyncGroupRequest", "assignment"): _ASSIGNMENT,
    ("SyncGroupResponse", "assignment"): _ASSIGNMENT,
    ("GroupMetadataValue", "subscription"): _SUBSCRIPTION,
    ("GroupMetadataValue", "assignment"): _ASSIGNMENT,
}
"""(message, field) -> the message in it, behind its version."""
