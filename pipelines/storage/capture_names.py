"""Names of machines that OUT keeps in analysis.json, as the captures told them, or the user, when it was made."""

from __future__ import annotations

import json
from typing import Any

from pipelines.storage import filesystem
from pipelines.storage.layout import ABOUT

HOSTS = "hosts"
"""The key: address -> name."""


def names_of(out: str) -> dict[str, str]:
    """Address -> name; nothing where OUT keeps none."""
    try:
        about: Any = json.loads(filesystem.read(filesystem.join(out, ABOUT)) or b"{}")
    except (OSError, ValueError):
        return {}
    found = about.get(HOSTS) if isinstance(about, dict) else None
    return {ip: name for ip, name in found.items() if isinstance(name, str)} if isinstance(found, dict) else {}
