"""Errors that brokers answer with, and those that clients report of messages they threw away.

In Pulsar 0 is an error (UnknownError): success is an answer without the field. The schema's enums are closed, so a
number that is newer than this table is found among a message's unknown fields.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet

from dissectors.pulsar import api
from dissectors.pulsar.api import MESSAGES
from dissectors.pulsar.commands import ERROR, SEND_ERROR
from dissectors.pulsar.names import Topic
from dissectors.redaction import without_tokens
from dissectors.rows.exchange import ErrorCode

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

REDIRECT = 0
"""LOOKUP_RESPONSE.response: ask another broker."""

FAILED_RESPONSES = {"CommandLookupTopicResponse": 2, "CommandPartitionedTopicMetadataResponse": 1}
"""Message -> the value of its field `response` that says it failed."""

ALWAYS_ERRORS = frozenset((ERROR, SEND_ERROR))
"""Commands that are errors, whatever is known of their fields."""


def _fields() -> dict[str, tuple[Any, Any]]:
    found = {}
    for message in api.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            if field.enum_type is not None and field.enum_type.name == "ServerError":
                words = message.fields_by_name.get("error_message") or message.fields_by_name.get("message")
                found[message.name] = (field, words)
    return found


ERROR_FIELDS = _fields()
"""Message -> its error field and the field of the text that comes with it."""

_MAY_FAIL = frozenset(code for code, message in MESSAGES.items() if message in ERROR_FIELDS)


def may_fail(code: int) -> bool:
    """Whether a command of this type can carry an error."""
    return code in _MAY_FAIL


def error_in(body: Any, topic: Topic | None) -> ErrorCode | None:
    """The error that an answer about a topic carries, or None."""
    name = body.DESCRIPTOR.name
    if name not in ERROR_FIELDS:
        return None
    error, words = ERROR_FIELDS[name]
    message = api.text(getattr(body, words.name)) if words is not None and body.HasField(words.name) else None
    code = getattr(body, error.name) if body.HasField(error.name) else unknown_number(body, error.number)
    if code is not None:
        return error_code(code, NAMES.get(code), topic, message=message)
    failed = FAILED_RESPONSES.get(name)
    if error.is_required or (failed is not None and body.HasField("response") and body.response == failed):
        return error_code(None, None, topic, message=message)
    return None


def error_code(
    code: int | None, name: str | None, topic: Topic | None, *, scope: str | None = None, message: str | None = None
) -> ErrorCode:
    """An error about a topic, or about the request. `code` is None where the answer does not say why it failed."""
    return ErrorCode(
        code,
        name,
        scope or ("request" if topic is None else "topic"),
        RETRIABLE.get(name or ""),
        None if topic is None else topic.name,
        None if topic is None else topic.partition,
        None if message is None else without_tokens(message),
    )


def unknown_number(body: Any, number: int) -> int | None:
    """The last varint with this field number that the schema could not place."""
    found = None
    fields: Any = UnknownFieldSet(body)
    for field in fields:
        if field.field_number == number and isinstance(field.data, int):
            found = field.data
    return found
