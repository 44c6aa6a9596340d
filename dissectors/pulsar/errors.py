"""Errors that brokers answer with, and those that clients report of messages they threw away.

In Pulsar 0 is an error (UnknownError): success is an answer without the field. A number that is newer than this table
has no name.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.pulsar import api
from dissectors.pulsar.api import MESSAGES
from dissectors.pulsar.commands import ERROR, SEND_ERROR
from dissectors.pulsar.names import Topic
from dissectors.redaction import without_tokens
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import ErrorCode
from dissectors.wire.proto import proto
from dissectors.wire.protobuf import MessageFields

NAMES = api.enum("ServerError")
VALIDATION = api.enum("CommandAck.ValidationError")


@cache
def _lines() -> dict[str, tuple[str, str]]:
    """Name of an error -> whether clients try again (`true`, `false`, or nothing where it depends), its meaning."""
    lines = proto("pulsar", "errors.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {name: (retriable, meaning) for name, retriable, meaning in rows[1:]}


def meaning(name: str) -> str | None:
    """What an error says, in one line; None for one that is not in the table."""
    return _lines().get(name, ("", None))[1]


REDIRECT = 0
"""LOOKUP_RESPONSE.response: ask another broker."""

_FAILED_RESPONSES = {"CommandLookupTopicResponse": 2, "CommandPartitionedTopicMetadataResponse": 1}
"""Message -> the value of its field `response` that says it failed."""

ALWAYS_ERRORS = frozenset((ERROR, SEND_ERROR))
"""Commands that are errors, whatever is known of their fields."""


class Failure(NamedTuple):
    """Where an answer says that it failed: numbers of fields, 0 for none."""

    error: int  # a ServerError
    text: int
    always: bool  # whether it is an error, also without the field
    response: int
    failed: int  # the value of `response` that says so


def _failures() -> dict[int, Failure]:
    found = {}
    for code, name in MESSAGES.items():
        fields = api.DESCRIPTOR.message_types_by_name[name].fields_by_name
        for field in fields.values():
            if field.enum_type is not None and field.enum_type.name == "ServerError":
                words = fields.get("error_message") or fields.get("message")
                text = 0 if words is None else words.number
                failed = _FAILED_RESPONSES.get(name)
                response = 0 if failed is None else fields["response"].number
                found[code] = Failure(field.number, text, field.is_required, response, failed or 0)
    return found


FAILURES = _failures()
"""Type of each command that can carry an error -> where it does."""


@compiled
def error_in(code: cython.longlong, fields: MessageFields, topic: Topic | None) -> ErrorCode | None:
    """The error that a command of a type carries, as the answer about a topic; None where it carries none."""
    if code not in FAILURES:
        return None
    error, text, always, response, failed = FAILURES[code]
    number: cython.longlong = fields.number(error, ABSENT)
    if number == ABSENT and not always and not (response and fields.number(response, ABSENT) == failed):
        return None
    known = None if number == ABSENT else number
    return error_code(known, NAMES.get(number), topic, message=fields.text(text))


def error_code(
    code: int | None, name: str | None, topic: Topic | None, *, scope: str | None = None, message: str | None = None
) -> ErrorCode:
    """An error about a topic, or about the request. `code` is None where the answer does not say why it failed."""
    return ErrorCode(
        code,
        name,
        scope or ("request" if topic is None else "topic"),
        {"true": True, "false": False}.get(_lines().get(name or "", ("", ""))[0]),
        None if topic is None else topic.name,
        None if topic is None else topic.partition,
        None if message is None else without_tokens(message),
    )
