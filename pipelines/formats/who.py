"""Whom a verdict concerns, in words: a client is an id and an address, and neither alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.formats import units
from pipelines.formats.plain import cut

Row = Mapping[str, Any]
FEW = 2  # clients that are named before they are counted
LONGEST_ID = 250  # characters of an id that are shown: ids may have 64 KiB


def clients(row: Row) -> str:
    """`billing on 10.0.0.7`, `a on 10.0.0.7 and b on 10.0.0.8`, `16 client ids on 132 hosts`; nothing of none.

    row: `clients` (texts of an address and, where it has one, an id), which may be cut, and what it would hold whole:
    `client_ids` and `client_hosts`, the different ids and addresses.
    """
    on = _addresses_of(row["clients"])
    names, known = list(filter(None, on)), addresses(row["clients"])
    ids, hosts = max(row.get("client_ids") or 0, len(names)), max(row.get("client_hosts") or 0, len(known))
    where = known[0] if hosts == 1 else units.counted(hosts, "host")
    if not hosts:
        return ""
    if not ids:
        return " and ".join(known) if hosts <= FEW else units.counted(hosts, "client host")
    if ids > len(names) or len(on) > FEW:
        return f"{units.counted(ids, 'client id')} on {where}"
    if len(on) == 1 or hosts != len(on):
        return f"{' and '.join(map(_named, names))} on {where}"
    return " and ".join(f"{_named(name)} on {each[0]}" if name else each[0] for name, each in on.items())


def is_one(row: Row) -> bool:
    """Whether `clients` names one, so that its verb is singular."""
    return (row["client_ids"] or row["client_hosts"]) in (0, 1)


def of(clients: Sequence[str]) -> Row:
    """A row for `clients`, of clients that are all known."""
    return {
        "clients": clients, "client_ids": len({name for each in clients if (name := each.partition(" ")[2])}),
        "client_hosts": len(addresses(clients)),
    }  # fmt: skip


def addresses(clients: Sequence[str]) -> list[str]:
    """The addresses of clients, each once."""
    return list(dict.fromkeys(client.partition(" ")[0] for client in clients))


def _addresses_of(clients: Sequence[str]) -> dict[str, list[str]]:
    """The ids of clients -> their addresses. Those of clients without an id are under "", if no id is used there."""
    found: dict[str, list[str]] = {}
    for client in sorted(clients, key=lambda each: each.partition(" ")[::-1]):
        address, _, name = client.partition(" ")
        found.setdefault(name, []).append(address)
    alone = set(found.pop("", ())).difference(*found.values())
    return found | ({"": sorted(alone)} if alone else {})


def _named(client_id: str) -> str:
    """An id as a sentence names it; a number, as brokers use, is no name."""
    return f"client {client_id}" if client_id.isdigit() else cut(client_id, LONGEST_ID)
