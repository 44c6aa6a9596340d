"""What must never leave: one table of fields, by message of the schema, each with its rule.

    SECRET_FIELDS   never shown: SASL exchanges, HMACs of delegation tokens, salted passwords and the keys made of them.
                    (A salt is no secret: SCRAM sends it to whoever asks.) Fields of these messages that the schema does
                    not know are not shown either
    SETTINGS        configurations: the value of one whose name speaks of a secret is not shown; tokens and passwords
                    that a value quotes are cut out of it
    TEXT_FIELDS     of any message: texts that brokers write, and reasons of clients, which may quote a token
    SECRET_RECORDS  messages in the controllers' own log that hold any of these: never shown as payload

A request or response inside an Envelope follows the same rules. Payload is an application's: `--payloads` shows it.
"""

from __future__ import annotations

import re

from dissectors.redaction import REDACTED, CredentialCarriers, without_tokens

SECRET_FIELDS: dict[str, frozenset[str]] = {
    "SaslAuthenticateRequest": frozenset({"authBytes"}),
    "SaslAuthenticateResponse": frozenset({"authBytes"}),
    "CreateDelegationTokenResponse": frozenset({"hmac"}),
    "DescribeDelegationTokenResponse": frozenset({"hmac"}),
    "RenewDelegationTokenRequest": frozenset({"hmac"}),
    "ExpireDelegationTokenRequest": frozenset({"hmac"}),
    "AlterUserScramCredentialsRequest": frozenset({"saltedPassword"}),
    "UserScramCredentialRecord": frozenset({"storedKey", "serverKey"}),
}
"""Message -> the fields that hold a secret, whatever their value is."""

SETTINGS: dict[str, tuple[str, str]] = {
    "AlterConfigsRequest": ("name", "value"),
    "IncrementalAlterConfigsRequest": ("name", "value"),
    "CreateTopicsRequest": ("name", "value"),
    "CreateTopicsResponse": ("name", "value"),
    "DescribeConfigsResponse": ("name", "value"),  # synonyms too
    "ConfigRecord": ("name", "value"),
    "StreamsGroupHeartbeatRequest": ("key", "value"),
    "StreamsGroupDescribeResponse": ("key", "value"),
    "StreamsGroupMemberMetadataValue": ("key", "value"),
    "StreamsGroupTopologyValue": ("key", "value"),
}
"""Message -> the fields that hold the name and the value of a setting, in whichever struct of it."""

TEXT_FIELDS = frozenset({"errorMessage", "reason", "statusDetail"})

METADATA_LOGS = frozenset({"__cluster_metadata", "@metadata"})  # the second name is 2.8's
CLUSTER_METADATA = "__cluster_metadata"
SECRET_RECORDS = {4: "ConfigRecord", 11: "UserScramCredentialRecord"}
"""Type of a record in the log of the controllers -> its message."""

_API = re.compile(r"(\w+)(?:Request|Response)")
_WITHOUT_HEADER = frozenset({"SaslHandshake", "Envelope"})  # SASL frames may follow bare; others lie inside

_SECRET_SETTING = re.compile(
    r"passw|passphrase|\bpwd\b|secret|jaas|credential|private|\.key$|token$|auth\.user\.info|authorization"
    r"|api\.?key|access\.?key|store\.certificate",  # certificates in a setting are of type password
    re.IGNORECASE,
)
_NONE: frozenset[str] = frozenset()


def is_secret(message: str, field: str) -> bool:
    """Whether a field of the schema holds a secret."""
    return field in SECRET_FIELDS.get(message, _NONE)


def setting_value(name: str | None, value: str | None) -> str | None:
    """The value of a setting, or what stands for it."""
    if not value:
        return value
    return REDACTED if name and _SECRET_SETTING.search(name) else without_tokens(value)


def payload(topic: str | None, value: bytes | None) -> bytes | None:
    """A message's value as it may be shown: the log of the controllers holds credentials and configurations."""
    if topic in METADATA_LOGS and value and len(value) > 1 and value[1] in SECRET_RECORDS:
        return REDACTED.encode()
    return value


def carriers() -> CredentialCarriers:
    """The APIs and topics whose frames may carry a credential."""
    found = (_API.fullmatch(name) for name in (*SECRET_FIELDS, *SETTINGS))
    return CredentialCarriers(_WITHOUT_HEADER.union(match[1] for match in found if match), METADATA_LOGS)
