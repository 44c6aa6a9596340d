"""Commands of Iggy that change a server: who created, deleted or altered what, with which settings.

A command's row says the kind of its event, the thing that it is about, and which fields of its body are settings. What
a field holds that is a secret is cut before it comes here (secrets.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

CREATED, DELETED, ALTERED = "created", "deleted", "altered"
DEFAULT = "<default>"
"""Stands for the value of a setting that goes back to its default."""


class IggyChange(NamedTuple):
    """What a command does. words: the text of what has no settings; settings: fields, each with its name and sign."""

    kind: str
    thing: str
    words: str | None = None
    settings: Mapping[str, str] = {}


_OF_TOPIC = {
    "message_expiry": "message_expiry=",
    "compression_algorithm": "compression_algorithm=",
    "max_topic_size": "max_topic_size=",
    "replication_factor": "replication_factor=",
    "options": "=",
}
_RESOURCES = {1: "topic", 2: "stream", 3: "user"}
"""`scope` of UPDATE_RESOURCE."""

COMMANDS: Mapping[str, IggyChange] = {
    "CREATE_STREAM": IggyChange(CREATED, "stream", None, {"options": "="}),
    "DELETE_STREAM": IggyChange(DELETED, "stream"),
    "UPDATE_STREAM": IggyChange(ALTERED, "stream", None, {"name": "name=", "options": "="}),
    "PURGE_STREAM": IggyChange(ALTERED, "stream", "purged"),
    "CREATE_TOPIC": IggyChange(CREATED, "topic", None, {"partitions_count": "partitions=", **_OF_TOPIC}),
    "DELETE_TOPIC": IggyChange(DELETED, "topic"),
    "UPDATE_TOPIC": IggyChange(ALTERED, "topic", None, {"name": "name=", **_OF_TOPIC}),
    "PURGE_TOPIC": IggyChange(ALTERED, "topic", "purged"),
    "CREATE_PARTITIONS": IggyChange(ALTERED, "topic", None, {"partitions_count": "partitions+="}),
    "DELETE_PARTITIONS": IggyChange(ALTERED, "topic", None, {"partitions_count": "partitions-="}),
    "DELETE_SEGMENTS": IggyChange(DELETED, "records", None, {"segments_count": "segments="}),
    "DELETE_CONSUMER_OFFSET": IggyChange(DELETED, "offsets"),
    "CREATE_CONSUMER_GROUP": IggyChange(CREATED, "group"),
    "DELETE_CONSUMER_GROUP": IggyChange(DELETED, "group"),
    "CREATE_USER": IggyChange(
        CREATED, "user", None, {"status": "status=", "permissions": "permissions=", "options": "="}
    ),
    "DELETE_USER": IggyChange(DELETED, "user"),
    "UPDATE_USER": IggyChange(ALTERED, "user", None, {"username": "name=", "status": "status=", "options": "="}),
    "UPDATE_PERMISSIONS": IggyChange(ALTERED, "user", None, {"permissions": "permissions="}),
    "CHANGE_PASSWORD": IggyChange(ALTERED, "user", "password changed"),
    "CREATE_PERSONAL_ACCESS_TOKEN": IggyChange(CREATED, "personal access token", None, {"expiry": "expiry="}),
    "DELETE_PERSONAL_ACCESS_TOKEN": IggyChange(DELETED, "personal access token"),
    "UPDATE_RESOURCE": IggyChange(ALTERED, "resource", None, {"options": "=", "reset": "="}),
}
"""Command -> what it does."""


def thing_of(change: IggyChange, values: Mapping[str, Any]) -> str:
    """What a command is about; of UPDATE_RESOURCE its body says it."""
    return _RESOURCES.get(values.get("scope", 0), change.thing) if change.thing == "resource" else change.thing


def texts(change: IggyChange, values: Mapping[str, Any]) -> list[str | None]:
    """The texts of the events of a command: one for each setting that it alters, one with all where it creates.

    values: fields of its body.
    """
    said = [text for name, sign in change.settings.items() if name in values for text in _settings(sign, values[name])]
    if change.kind == ALTERED and said:
        return list(said)
    return [", ".join(said) or change.words]


def _settings(sign: str, value: Any) -> Iterator[str]:
    """`name=value` of a field that is a setting; of options one each."""
    if sign == "permissions=":
        yield sign + (permitted(value or {}) or "none")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{name}={inner}"
    elif isinstance(value, list):
        for name in value:
            yield f"{name}={DEFAULT}"
    elif value is not None:
        yield f"{sign}{value}"


def permitted(permissions: Mapping[str, Any]) -> str:
    """What a user may do: `read_streams poll_messages; stream 1: read_stream; stream 1 topic 2: poll_messages`."""
    said = [_granted("", permissions.get("global") or {})]
    for stream, of_stream in (permissions.get("streams") or {}).items():
        said.append(_granted(f"stream {stream}: ", of_stream))
        for topic, of_topic in (of_stream.get("topics") or {}).items():
            said.append(_granted(f"stream {stream} topic {topic}: ", of_topic))
    return "; ".join(filter(None, said))


def _granted(where: str, rights: Mapping[str, Any]) -> str:
    names = " ".join(name for name, granted in rights.items() if granted is True)
    return where + names if names else ""
