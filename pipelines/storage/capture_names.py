"""Names of machines that OUT keeps in analysis.json, as the captures told them, or the user, when it was made."""

from __future__ import annotations

from pipelines.storage.layout import read_about

HOSTS = "hosts"
"""The key: address -> name."""


def names_of(out: str) -> dict[str, str]:
    """Address -> name; nothing where OUT keeps none."""
    found = read_about(out).get(HOSTS)
    return {ip: name for ip, name in found.items() if isinstance(name, str)} if isinstance(found, dict) else {}
