"""How clients are set up and what they do by habit: findings that are verdicts, a row each in _TOLD.

A finding says of a whole connection that something is so; the verdict counts the requests or batches that make it so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import Check, SomeFinding, SomeRows
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.verdict import Row, Ruling, together

# requests that only brokers send each other
_OF_BROKERS = (
    "LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown", "BrokerRegistration", "AlterPartition",
)  # fmt: skip


def _on_its_connections(finding: str, rows: str) -> str:
    """Rows of connections that have a finding. rows: a SELECT from a view of `capture.py`."""
    return f"""
        select * from ({rows})
        semi join (select site, connection, incarnation from findings where kind = '{finding}')
            using (site, connection, incarnation)"""


class _Told(NamedTuple):
    """How findings of one kind become a verdict."""

    needs: SomeRows | SomeFinding  # without which there is nothing to tell
    verdict: str
    sentence: str  # with what `_words` gives
    rows: str  # what is counted, as a SELECT
    by: tuple[str, ...] = ()  # columns that make a group, beside the protocol
    more: str = ""  # aggregates that the sentence uses
    severity: str | None = None


_UNCONFIRMED = "protocol = 'kafka' and api = 'Produce' and kind = 'oneway'"
# messages of format 0 and 1 have no batch around them: those of one request and partition are one
_OLD = "format in ('magic 0', 'magic 1')"
_SET = "site, exchange_id, topic, partition"

_IDEMPOTENT = "select * from v_batches where role = 'produce' and producer is not null and base_sequence >= 0"
# batches with the sequence number of the one before; that one was refused where a client tries again
_SENT_AGAIN = f"""
    select * from (
        select *, lag(base_sequence) over same as before, lag(outcome) over same as outcome_before
        from ({_on_its_connections("duplicate_sequence", _IDEMPOTENT)})
        window same as (
            partition by site, connection, incarnation, producer, producer_epoch, topic, partition
            order by stream_offset)
    ) where base_sequence = before and outcome_before is distinct from 'error'"""

_TOLD = (
    _Told(
        SomeRows("v_calls", _UNCONFIRMED), "acks_zero",
        "{who} sent {requests}{topics} with acks=0: brokers do not confirm these, so a loss goes unnoticed.",
        f"select * from v_calls where {_UNCONFIRMED}",
    ),
    _Told(
        SomeFinding("removed_in_4_0"), "removed_apis",
        "{who} sent {requests} in API versions that brokers refuse since Kafka 4.0: {versions}.",
        f"""
        select c.* from v_calls c semi join (
            select site, connection, incarnation, evidence->>'api' as api, whole(evidence->>'version') as version
            from findings where kind = 'removed_in_4_0') f using (site, connection, incarnation, api, version)
        where c.kind in ('call', 'unanswered', 'oneway') and c.api not in {_OF_BROKERS}""",
        more="list(distinct api || ' v' || version) as version_list",
    ),
    _Told(
        SomeFinding("old_message_format"), "old_message_format",
        "{messages} in {requests} of {who}{topics} {have} format {versions}, which brokers must convert.",
        _on_its_connections(
            "old_message_format",
            f"""
            select c.* replace (0 as cost_ns), b.messages, b.formats from v_calls c join (
                select site, exchange_id, sum(records) as messages,
                    list(distinct replace(format, 'magic ', '')) as formats
                from batches where role = 'produce' and {_OLD} group by all) b using (site, exchange_id)
            where c.api = 'Produce'""",
        ),
        more="saturated(sum(messages)) as messages, list_distinct(flatten(list(formats))) as version_list",
    ),
    _Told(
        SomeFinding("not_idempotent"), "not_idempotent",
        "{batches} of {who}{topics} {are} produced without idempotence: one that is retried may be written twice.",
        _on_its_connections(
            "not_idempotent",
            """
            select b.* from v_batches b
                anti join (select site, exchange_id from exchanges where kind = 'oneway') using (site, exchange_id)
            where role = 'produce' and format = 'magic 2' and producer is null""",
        ),
    ),
    _Told(
        SomeFinding("unbatched"), "unbatched", "{number} of {every} of {who}{topics} {hold} one message each.",
        "select * from (" + _on_its_connections(
            "unbatched",
            f"""
            select *, count(*) over (partition by protocol) as every from (
                select * from v_batches where role = 'produce' and format = 'magic 2'
                union all by name
                select * exclude (nth, together) replace (together as records) from (
                    select *, row_number() over (partition by {_SET} order by stream_offset) as nth,
                        sum(records) over (partition by {_SET}) as together
                    from v_batches where role = 'produce' and {_OLD}
                ) where nth = 1)""",
        ) + ") where records = 1",
        more="any_value(every) as every",
    ),
    _Told(
        SomeFinding("useless_compression"), "useless_compression",
        "Compression saves nothing in {batches} of {who}{topics}.",
        _on_its_connections(
            "useless_compression", "select * from v_batches where codec <> 'none' and uncompressed_bytes > 0"
        ),
    ),
    _Told(
        SomeFinding("duplicate_sequence"), "duplicate_sequence",
        "{who} sent {batches}{topics} again with the sequence number of the one before, and no refusal was seen.",
        _SENT_AGAIN,
        severity=NOTE,
    ),
    _Told(
        SomeFinding("discarded"), "discarded", "{who} discarded {messages}{topics} as damaged.",
        "select * from v_noted where finding = 'discarded' and api = 'ACK'",
    ),
    _Told(
        SomeFinding("retransmission_conflict"), "conflicting_bytes",
        "Bytes were retransmitted with different values {times}, on connections of {who} to {servers}.",
        "select * from v_findings where kind = 'retransmission_conflict'",
    ),
)  # fmt: skip


def _verdicts(told: _Told, capture: Capture) -> Iterator[Ruling]:
    """One verdict for each group of rows."""
    for row in capture.rows(together(told.rows, ["protocol", *told.by], told.more)):
        yield Ruling(told.verdict, told.sentence.format(**_words(row)), row, severity=told.severity)


TUNED = tuple(Check(partial(_verdicts, told), (told.needs,)) for told in _TOLD)
"""One check for each row of _TOLD."""


def _words(row: Row) -> dict[str, str]:
    """What a sentence may name."""
    count = row["count"]
    topics = say.named(row["topics"], "topic")
    return {
        "who": say.clients(row["clients"]),
        "servers": say.listed(row["servers"], "server"),
        "topics": topics and f" for {topics}",
        "times": say.times(count),
        "number": say.number(count),
        "every": say.counted(row.get("every") or count, "batch"),
        "are": "is" if count == 1 else "are",
        "hold": "holds" if count == 1 else "hold",
        "batches": say.counted(count, "batch"),
        "requests": say.counted(count, "request"),
        "messages": say.counted(row.get("messages") or count, "message"),
        "have": "has" if (row.get("messages") or count) == 1 else "have",
        "versions": say.joined(sorted(row.get("version_list") or ())),
    }
