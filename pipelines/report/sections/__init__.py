"""The sections of the page, in their order. One that is more than a table or a picture has a module."""

from __future__ import annotations

from pipelines.report.load import Row
from pipelines.report.payload import ENOUGH_TEXT
from pipelines.report.section import Section
from pipelines.report.sections import against, events, forensics, groups, tables
from pipelines.report.sections.tables import picture, table
from pipelines.sql.words import EXPLAINED_NS


def _breaking(rows: list[Row]) -> list[Row]:
    """What some release refuses."""
    return [row for row in rows if row["breaks_at"] is not None]


def _of_no_connection(rows: list[Row]) -> list[Row]:
    """Findings without `connection`, which is that of the first one alone: a selection must not go by it."""
    return [{name: value for name, value in row.items() if name != "connection"} for row in rows]


SIDE_BY_SIDE = (
    Section(
        "topology", "Who talks to whom", "width is rate, colour the share that failed, label p99", picture("topology")
    ),
    Section("durations", "Durations by broker", "one axis, height is the share", picture("spreads")),
)
SECTIONS: tuple[Section, ...] = (
    against.SECTION,
    *SIDE_BY_SIDE,
    Section(
        "causes",
        "Where the time of slow requests went",
        f"requests of {EXPLAINED_NS // 1_000_000} ms and more, without long polls, JoinGroup and SyncGroup",
        picture("causes", least=str(EXPLAINED_NS)),
    ),
    Section(
        "impacts",
        "What became of work",
        "Batches, commits, positions and waiting, each for itself: lost, refused, skipped, doubled, stopped, "
        "unreachable, behind or late. The verdict of the kind `cause` says why.",
        table("impacts", "healed"),
    ),
    Section(
        "cost",
        "What costs most",
        "Time that requests waited for their own answer: the wait, less the time that a request stood behind others on "
        "its connection. No long polls, JoinGroup or SyncGroup, which wait on purpose; errors of normal work do not "
        "count.",
        picture("cost"),
    ),
    Section(
        "errors",
        "Errors",
        "Error codes in answers, most frequent first; each with what it says and the packet of the first one. Grey "
        "ones are part of normal work, as MEMBER_ID_REQUIRED at a first join.",
        tables.errors,
    ),
    events.SECTION,
    Section(
        "changes",
        "Changes",
        "Who created, deleted or altered topics, configurations, rights, users, offsets and the like, and how the "
        "broker answered.",
        table("changes"),
    ),
    Section("members", "Members of groups", "who was a member when; dotted lines are rebalances", picture("members")),
    groups.SECTION,
    Section(
        "lag",
        "Lag of groups",
        "Messages that a group has yet to read, and how old the next one is, along time.",
        tables.lag,
    ),
    Section("partitions", "Partitions", "messages produced to each, by broker", picture("partitions")),
    Section(
        "leaders",
        "Owners of partitions",
        "Which broker led each partition, as answers told it.",
        table("leaders", "file", "packet", picture="owners"),
    ),
    Section(
        "topics",
        "Topics",
        "Message data on the wire, and how fast requests that name the topic were answered; a request counts for each "
        "topic that it names.",
        picture("topics"),
    ),
    Section(
        "brokers",
        "Brokers",
        "Who answered, and how fast. Service time is the wait for the answer, less the time behind other requests of "
        f"the same connection. {ENOUGH_TEXT}",
        picture("brokers"),
    ),
    Section(
        "latency",
        "Latency",
        "How long requests took. Total: from the first byte of the request to the last byte of the "
        "answer; wait: from the last byte of the request to the first byte of the answer. "
        "Long polls have a table of their own. Errors include those that are part of normal work. " + ENOUGH_TEXT,
        tables.latency,
    ),
    Section(
        "hops",
        "Hops",
        "Exchanges that two capture points saw: how long they took at each, and what the network and the stacks "
        "between the two cost.",
        table("hops"),
    ),
    Section(
        "integrity",
        "Integrity",
        "Every checksum on the wire, computed again. Bad only where each byte that it covers was captured, "
        "unverifiable where some are missing, absent where the format carries none.",
        tables.integrity,
    ),
    forensics.SECTION,
    Section(
        "delivery",
        "Delivery",
        "From the first byte of a produced batch to the first byte of the same batch on its way to a consumer.",
        table("delivery"),
    ),
    Section("clients", "Clients", "Who uses which API, in which versions, with what software.", table("clients")),
    Section(
        "upgrades",
        "Upgrades",
        "What clients send that brokers of a later release no longer understand.",
        table("upgrades", rows=_breaking),
    ),
    Section(
        "health",
        "Connections",
        "Each connection: what TCP lost or retransmitted, and how much of the stream was decoded. The worst come "
        "first.",
        table("health", "closed", "file", "packet"),
    ),
    Section(
        "findings",
        "Findings",
        "What a person should look at: each kind with the packet of its first one.",
        table("findings", rows=_of_no_connection),
    ),
)
