"""The colour of each protocol, light and dark, as the protocols say."""

from __future__ import annotations

from dissectors.session.protocols import protocols


def css() -> str:
    """The colours as custom properties and as classes of badges."""
    found = {protocol.name: protocol.colours for protocol in protocols()}
    light = "".join(f"--{name}:{colours[0]};" for name, colours in found.items())
    dark = "".join(f"--{name}:{colours[1]};" for name, colours in found.items())
    badges = "".join(f".badge.{name}{{background:var(--{name})}}" for name in found)
    return f':root{{{light}}}@media screen{{:root[data-theme="dark"]{{{dark}}}}}{badges}'
