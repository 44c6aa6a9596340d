"""Errors that brokers answer with, and those that clients report of messages they threw away.

In Pulsar 0 is an error (UnknownError): success is an answer without the field. The schema's enums are closed, so a
number that is newer than this table is found among a message's unknown fields.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet

from dissectors.pulsar import api

NAMES = api.enum("ServerError")
VALIDATION = api.enum("CommandAck.ValidationError")

RETRIABLE: dict[str, bool] = {
    "MetadataError": True,
    "PersistenceError": True,
    "ServiceNotReady": True,  # after a fresh lookup
    "ProducerBlockedQuotaExceededError": True,
    "ProducerBlockedQuotaExceededException": True,
    "TooManyRequests": True,
    "TransactionCoordinatorNotFound": True,  # after the coordinator has been found again
    "AuthenticationError": False,
    "AuthorizationError": False,
    "ConsumerBusy": False,
    "ChecksumError": False,
    "UnsupportedVersionError": False,
    "TopicNotFound": False,
    "SubscriptionNotFound": False,
    "TopicTerminatedError": False,
    "ProducerBusy": False,
    "InvalidTopicName": False,
    "IncompatibleSchema": False,
    "ConsumerAssignError": False,
    "InvalidTxnStatus": False,
    "NotAllowedError": False,
    "TransactionConflict": False,
    "TransactionNotFound": False,
    "ProducerFenced": False,
}
"""Whether clients try again by themselves; what is not here depends on the client."""

_FAILED = {"CommandLookupTopicResponse": 2, "CommandPartitionedTopicMetadataResponse": 1}  # `response`: LookupType


class Fault(NamedTuple):
    """An error in an answer."""

    code: int | None  # None where the answer says that it failed, but not why
    name: str | None
    message: str | None


def _fields() -> dict[str, tuple[Any, Any]]:
    """Message -> its error field and the field of the text that comes with it."""
    found = {}
    for message in api.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            if field.enum_type is not None and field.enum_type.name == "ServerError":
                words = message.fields_by_name.get("error_message") or message.fields_by_name.get("message")
                found[message.name] = (field, words)
    return found


_FIELDS = _fields()


_MAY_FAIL = frozenset(
    field.number
    for field in api.DESCRIPTOR.message_types_by_name["BaseCommand"].fields
    if field.message_type is not None and field.message_type.name in _FIELDS
)


def may_fail(code: int) -> bool:
    """Whether a command of this type can carry an error."""
    return code in _MAY_FAIL


def fault(body: Any) -> Fault | None:
    """The error that an answer carries, or None."""
    name = body.DESCRIPTOR.name
    if name not in _FIELDS:
        return None
    error, words = _FIELDS[name]
    message = api.text(getattr(body, words.name)) if words is not None and body.HasField(words.name) else None
    code = getattr(body, error.name) if body.HasField(error.name) else unknown_number(body, error.number)
    if code is not None:
        return Fault(code, NAMES.get(code), message)
    failed = _FAILED.get(name)
    if error.is_required or (failed is not None and body.HasField("response") and body.response == failed):
        return Fault(None, None, message)
    return None


def unknown_number(body: Any, number: int) -> int | None:
    """The last varint with this field number that the schema could not place."""
    found = None
    fields: Any = UnknownFieldSet(body)
    for field in fields:
        if field.field_number == number and isinstance(field.data, int):
            found = field.data
    return found
