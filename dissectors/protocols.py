"""The protocols that are known. A fourth is a folder and a line here."""

from __future__ import annotations

from dissectors.conversation import Protocol


def protocols() -> tuple[Protocol, ...]:
    """All protocols, in the order in which recognition asks them."""
    from dissectors.iggy import PROTOCOL as IGGY
    from dissectors.kafka import PROTOCOL as KAFKA
    from dissectors.pulsar import PROTOCOL as PULSAR

    return (KAFKA, PULSAR, IGGY)
