"""The numbers of the fields that are read of commands and metadata, as constants: SEND_SEQUENCE_ID.

A name is that of the message without `Command`, or a short one, and that of the field. They come from the schema;
fields.pxd says the same to the compiler:

    python -m dissectors.pulsar.fields > dissectors/pulsar/fields.pxd
"""

from __future__ import annotations

import re
from functools import cache

from dissectors.pulsar import api

_SHORT = {
    "CommandMessage": "PUSH",  # MESSAGE_ and ERROR_ begin the names of columns
    "CommandError": "FAILURE",
    "MessageIdData": "ID",
    "MessageMetadata": "META",
    "SingleMessageMetadata": "SINGLE",
    "BrokerEntryMetadata": "BROKER",
    "KeyValue": "PAIR",
    "EncryptionKeys": "KEY",
    "Subscription": "SUBSCRIPTION",
    "FeatureFlags": "FEATURE",
    "Schema": "SCHEMA",
}
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def constants() -> dict[str, int]:
    """Name of each constant -> the number of a field."""
    names = {name: name.removeprefix("Command") for name in api.MESSAGES.values()} | _SHORT
    return {
        f"{_upper(short)}_{_upper(field.name)}": field.number
        for name, short in names.items()
        for field in api.DESCRIPTOR.message_types_by_name[name].fields
    }


def _upper(name: str) -> str:
    return _WORD.sub("_", name).upper()


def __getattr__(name: str) -> int:
    if name in constants():
        return constants()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def declaration() -> str:
    """The text of fields.pxd."""
    lines = [f"    {name} = {number}" for name, number in constants().items()]
    return "\n".join(["# Written by: python -m dissectors.pulsar.fields", "cdef enum:", *lines, ""])


if __name__ == "__main__":
    print(declaration(), end="")
