"""What stands for a secret, and what looks like one wherever it is met. Which fields hold one: `secrets.py` of each
protocol.
"""

from __future__ import annotations

import re
from typing import NamedTuple

REDACTED = "<redacted>"
PAYLOAD = "<payload>"
"""Stands for an application's data where nobody asked for it."""

_TOKEN = re.compile(
    r"eyJ[\w-]{8,}(?:\.[\w-]*){1,2}"  # a JSON web token
    r"|(?i:(?<=bearer )\S+)|(?i:(?<=basic )[\w+/=-]{6,})"
    r"|(?i:(?<=password[=:])[^\s;&]+)|(?i:(?<=token[=:])[^\s;&]+)|(?i:(?<=secret[=:])[^\s;&]+)"
    r"|(?<=://)/?[^\s/@:]*:[^\s/@]+(?=@)"  # user and password in a URL
)
_SIGNS = ("eyj", "bearer ", "bas", "password=", "password:", "token=", "token:", "secret=", "secret:", "@")
"""A text without any of these, in whatever case, holds nothing that _TOKEN finds, which takes far longer to say so."""

_QUERY = re.compile(
    r"(?i)([?&;][^=&;\s]*(?:sig|signature|token|secret|passw|credential|key)[^=&;\s]*=)[^&;\s]+"  # of a signed URL
)


class CredentialCarriers(NamedTuple):
    """Where credentials may lie in frames of a protocol: none of these frames is shown byte by byte."""

    apis: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()  # those in whose messages the broker itself keeps credentials


def without_tokens(text: str) -> str:
    """A text without the tokens and passwords that it may quote."""
    folded = text.casefold()
    return _TOKEN.sub(REDACTED, text) if any(map(folded.__contains__, _SIGNS)) else text


def public_path(path: str) -> str:
    """A file's name, or a text that names files, as it may be shown: URLs without passwords and signatures, and bytes
    that are no UTF-8 as escapes.
    """
    path = path.encode("utf-8", "backslashreplace").decode()
    return path if "://" not in path else _QUERY.sub(r"\1" + REDACTED, without_tokens(path))
