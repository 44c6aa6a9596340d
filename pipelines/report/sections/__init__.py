"""The sections of the page, in their order. A new one is a module and a line here."""

from __future__ import annotations

from pipelines.report.section import Section
from pipelines.report.sections import (
    against,
    brokers,
    changes,
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
    impacts,
    integrity,
    lag,
    latency,
    leaders,
    topics,
    upgrades,
)
from pipelines.report.sections.pictures import CAUSES, DURATIONS, MEMBERS, PARTITIONS, TOPOLOGY

SIDE_BY_SIDE = (TOPOLOGY, DURATIONS)
SECTIONS: tuple[Section, ...] = (
    against.SECTION,
    TOPOLOGY, DURATIONS, CAUSES, impacts.SECTION, cost.SECTION, errors.SECTION, events.SECTION, changes.SECTION,
    MEMBERS, groups.SECTION, lag.SECTION, PARTITIONS, leaders.SECTION, topics.SECTION, brokers.SECTION, latency.SECTION,
    hops.SECTION, integrity.SECTION, forensics.SECTION, delivery.SECTION, clients.SECTION, upgrades.SECTION,
    connections.SECTION, findings.SECTION,
)  # fmt: skip
