"""What a server of a later release no longer understands of a client: by dialect and command.

A server reads the frames and bodies of its own release only. A command goes on working as long as its code, the
framing, and the layouts of its request and its answer stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.iggy import layouts, tables
from dissectors.session.conversation import Removal

_REGISTERING = {
    "LOGIN_USER": "LOGIN_REGISTER",
    "LOGIN_WITH_PERSONAL_ACCESS_TOKEN": "LOGIN_REGISTER_WITH_PAT",
}
"""Logins of VSR by the names that rows have for them -> the commands whose bodies they carry."""


def releases() -> tuple[str, ...]:
    """The releases of servers that are told apart, oldest first."""
    return tuple(release.name for release in tables.releases())


def removals() -> Iterator[Removal]:
    """What clients of each dialect send that a later release does not understand."""
    known = tables.releases()
    names = sorted({command.name for some in tables.commands().values() for command in some})
    newest = {release.dialect: at for at, release in enumerate(known)}
    for dialect, at in newest.items():
        for name in names:
            spoken = _spoken(name, at)
            if spoken is None:
                continue
            for later in range(at + 1, len(known)):
                if _spoken(name, later) != spoken:
                    yield Removal(name, dialect, None, None, known[later - 1].name, known[later].name)
                    break


def _spoken(name: str, at: int) -> tuple[object, ...] | None:
    """How a command is spoken in a release: framing, code and layouts; None where it does not exist."""
    bit, framing = 1 << at, tables.releases()[at].framing
    codes = [one.code for some in tables.commands().values() for one in some if one.name == name and one.releases & bit]
    if not codes:
        return None
    body = _REGISTERING.get(name, name) if framing != tables.releases()[0].framing else name
    texts = (
        next((layout.text for layout in layouts.versions(side, body) if layout.releases & bit), None)
        for side in (layouts.REQUEST, layouts.RESPONSE)
    )
    return (framing, *codes, *texts)
