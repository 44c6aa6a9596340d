"""The sections of the page, in their order. A new one is a module and a line here."""

from __future__ import annotations

from pipelines.report.section import Section
from pipelines.report.sections import (
    along_time,
    brokers,
    clients,
    connections,
    cost,
    delivery,
    errors,
    events,
    findings,
    forensics,
    groups,
    hops,
    integrity,
    latency,
    slowest,
    topics,
)

SECTIONS: tuple[Section, ...] = tuple(
    module.SECTION
    for module in (
        cost, slowest, latency, along_time, events, brokers, topics, groups, hops, errors, integrity, forensics,
        delivery, clients, connections, findings,
    )
)  # fmt: skip
