"""Names of the fields that a body of Iggy may have, as `--full` shows it."""

from __future__ import annotations

import re
from functools import cache

from dissectors.iggy import field_types, layouts

_FIELD = re.compile(r"([a-z_][a-z0-9_]*):")
_MESSAGE = ("id", "offset", "timestamp", "origin_timestamp", "state", "payload_length", "user_headers")
_REPLICA = ("command", "view", "replica", "size", "op", "operation")  # of a frame between replicas
_ANSWER = ("status", "error", "messages", "global", "streams", "topics")
_PARTS = ("kind", "name", "value")  # of identifiers, consumers, strategies and user headers


@cache
def body_names() -> frozenset[str]:
    """Every field of every layout, and what is shown of messages, permissions and frames between replicas.

    Options that a server of the VSR era takes by name are not among them: the wire names them.
    """
    declared = (name for text in layouts.texts() for name in _FIELD.findall(text))
    return frozenset((*declared, *_MESSAGE, *_REPLICA, *_ANSWER, *_PARTS, *field_types.PERMISSIONS))
