"""What single connections are found to do: findings that are verdicts, a row each in TOLD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.verdict import Row, Ruling, together

# requests that only brokers send each other
_OF_BROKERS = (
    "LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown", "BrokerRegistration", "AlterPartition",
)  # fmt: skip


class _Told(NamedTuple):
    """How findings of one kind become a verdict."""

    finding: str
    verdict: str
    sentence: str  # with {who}, {connections} and the fields of `more`
    by: tuple[str, ...] = ()  # columns that make a group, beside the protocol
    more: str = ""  # aggregates that the sentence uses
    where: str = "true"
    severity: str | None = None


TOLD = (
    _Told(
        "removed_in_4_0", "removed_apis",
        "{who} will be refused by brokers of Kafka 4.0 and later: {versions}.", (),
        "list(distinct (evidence->>'api') || ' ' || (evidence->>'version')) as version_list",
        f"evidence->>'api' not in {_OF_BROKERS}",
    ),
    _Told(
        "old_message_format", "old_message_format",
        "{batches} of {who} are in message format {formats}, which brokers must convert.", (),
        "saturated(sum(whole(evidence->>'count'))) as batch_count, "
        "list(distinct evidence->>'magic' order by evidence->>'magic') as version_list",
        "evidence->>'role' = 'produce'",
    ),
    _Told(
        "not_idempotent", "not_idempotent",
        "Batches of {who} are produced without idempotence: one that is retried may be written twice.",
    ),
    _Told(
        "unbatched", "unbatched", "Nearly every batch of {who} holds one message, of {batches}.", (),
        "saturated(sum(whole(evidence->>'count'))) as batch_count",
    ),
    _Told(
        "useless_compression", "useless_compression", "Compression saves nothing in {batches} of {who}.", (),
        "saturated(sum(whole(evidence->>'count'))) as batch_count",
    ),
    _Told(
        "slow_consumer", "slow_consumer",
        "{who} left the broker without permits for {longest}, slower than its topic {topic}.", ("topic",),
        "max(whole(evidence->>'without_permits_ns')) as longest_ns",
    ),
    _Told("duplicate_sequence", "duplicate_sequence",
        "{who} sent {batches} again with the sequence number of the one before, and no refusal was seen.", (),
        "saturated(sum(whole(evidence->>'count'))) as batch_count", severity=NOTE),
    _Told("discarded", "discarded", "{who} threw {times} a message away as damaged.", ()),
    _Told(
        "retransmission_conflict", "conflicting_bytes",
        "Bytes were retransmitted with other values {times}, on {connections}.",
    ),
)  # fmt: skip


def tuned(capture: Capture) -> Iterator[Ruling]:
    """One verdict for each row of TOLD and group of its findings."""
    for told in TOLD:
        if told.finding in capture.findings:
            rows = f"select * from v_findings where kind = '{told.finding}' and {told.where}"
            for row in capture.rows(together(rows, ["protocol", *told.by], told.more)):
                yield Ruling(told.verdict, told.sentence.format(**_words(row)), row, severity=told.severity)


def _words(row: Row) -> dict[str, str]:
    """What a sentence may name."""
    number = row.get("batch_count") or 0
    versions = say.joined(sorted(row.get("version_list") or ()))
    return {
        "who": say.clients(row["clients"]),
        "connections": say.counted(row["count"], "connection"),
        "times": say.times(row["count"]),
        "batches": say.counted(number, "batch"),
        "versions": versions,
        "formats": versions,
        "longest": say.span(row.get("longest_ns") or 0),
        "topic": say.topic(row.get("topic") or ""),
    }
