"""How clients are set up and what they do by habit, by columns alone: a verdict is a row in _TOLD.

A habit is a client's, over however many connections: a client is an id and an address.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import Check, SomeRows
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.thresholds import MANY, MOSTLY, USELESS
from pipelines.tables.verdicts.verdict import Row, Ruling, together

# requests that only brokers send each other
_OF_BROKERS = (
    "LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown", "BrokerRegistration", "AlterPartition",
)  # fmt: skip


class _Told(NamedTuple):
    """How rows become a verdict."""

    needs: SomeRows  # without which there is nothing to tell
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

_PLAIN = "role = 'produce' and format = 'magic 2' and producer is null"
_REMOVED = "kind in ('call', 'unanswered', 'oneway') and removed(protocol, api_code, version)"
_PACKED = "protocol = 'kafka' and codec <> 'none' and uncompressed_bytes > 0"
_BODY = "stored_bytes - case when format = 'magic 2' then 61 else 0 end"  # without the head, which is not compressed

# batches of one message, those of format 0 and 1 together; `every`: of clients most of whose batches hold one message
_SINGLE = f"""
    with sent as (
        select * from v_batches where role = 'produce' and format = 'magic 2'
        union all by name
        select * exclude (nth, together) replace (together as records) from (
            select *, row_number() over (partition by {_SET} order by stream_offset) as nth,
                sum(records) over (partition by {_SET}) as together
            from v_batches where role = 'produce' and {_OLD}
        ) where nth = 1
    ), senders as (
        select protocol, client, count(*) as n from sent group by all
        having n >= {MANY} and count(*) filter (records = 1) >= {MOSTLY} * n
    )
    select s.*, every from sent s semi join senders using (protocol, client)
        join (select protocol, sum(n)::bigint as every from senders group by all) using (protocol)
    where records = 1"""
_USELESS = f"""
    select * from v_batches where {_PACKED} and (protocol, client) in (
        select (protocol, client) from v_batches where {_PACKED} group by protocol, client
        having count(*) >= {MANY} and sum({_BODY}) >= {USELESS} * sum(uncompressed_bytes))"""

_PRODUCER = "site, connection, incarnation, producer, producer_epoch, topic, partition"
_IDEMPOTENT = "protocol = 'kafka' and role = 'produce' and producer is not null and base_sequence >= 0"
# batches with the sequence number of the one before; that one was refused where a client tries again
_SENT_AGAIN = f"""
    select * from (
        select *, lag(base_sequence) over same as before, lag(outcome) over same as outcome_before
        from v_batches where {_IDEMPOTENT} and ({_PRODUCER}) in (
            select ({_PRODUCER}) from batches where {_IDEMPOTENT}
            group by {_PRODUCER}, base_sequence having count(*) > 1)
        window same as (partition by {_PRODUCER} order by stream_offset)
    ) where base_sequence = before and outcome_before is distinct from 'error'"""

_TOLD = (
    _Told(
        SomeRows("v_calls", _UNCONFIRMED), "acks_zero",
        "{who} sent {requests}{topics} with acks=0: brokers do not confirm these, so a loss goes unnoticed.",
        f"select * from v_calls where {_UNCONFIRMED}",
    ),
    _Told(
        SomeRows("exchanges", _REMOVED), "removed_apis",
        "{who} sent {requests} in API versions that brokers refuse since Kafka 4.0: {versions}.",
        f"select * from v_calls where {_REMOVED} and api not in {_OF_BROKERS}",
        more="names_of(api || ' v' || version) as version_list",
    ),
    _Told(
        SomeRows("batches", f"role = 'produce' and {_OLD}"), "old_message_format",
        "{messages} in {requests} of {who}{topics} {have} format {versions}, which brokers must convert.",
        f"""
        select c.* replace (0 as cost_ns), b.messages, b.formats from v_calls c join (
            select site, exchange_id, sum(records) as messages,
                names_of(replace(format, 'magic ', '')) as formats
            from batches where role = 'produce' and {_OLD} group by all) b using (site, exchange_id)
        where c.api = 'Produce'""",
        more="saturated(sum(messages)) as messages, list_distinct(flatten(list(formats))) as version_list",
    ),
    _Told(
        SomeRows("batches", _PLAIN), "not_idempotent",
        "{batches} of {who}{topics} {are} produced without idempotence: one that is retried may be written twice.",
        f"""
        select b.* from v_batches b
            anti join (select site, exchange_id from exchanges where kind = 'oneway') using (site, exchange_id)
        where {_PLAIN}""",
    ),
    _Told(
        SomeRows("batches", "role = 'produce' and format like 'magic%' and records = 1", least=MANY * 9 // 10),
        "unbatched", "{number} of {every} of {who}{topics} {hold} one message each.",
        _SINGLE,
        more="any_value(every) as every",
    ),
    _Told(
        SomeRows("batches", _PACKED, least=MANY), "useless_compression",
        "Compression saves nothing in {batches} of {who}{topics}.",
        _USELESS,
    ),
    _Told(
        SomeRows("batches", _IDEMPOTENT, least=2), "duplicate_sequence",
        "{who} sent {batches}{topics} again with the sequence number of the one before, and no refusal was seen.",
        _SENT_AGAIN,
        severity=NOTE,
    ),
    _Told(
        SomeRows("errors", "api = 'ACK' and scope = 'message'"), "discarded",
        "{who} discarded {messages}{topics} as damaged.",
        """
        select c.* from v_calls c
            semi join (select site, exchange_id from errors where api = 'ACK' and scope = 'message')
            using (site, exchange_id)""",
    ),
    _Told(
        SomeRows("findings", "kind = 'retransmission_conflict'"), "conflicting_bytes",
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
        "who": say.clients(row),
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
