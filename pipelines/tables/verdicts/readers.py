"""Readers that do not get on: groups behind, and consumers that a broker sends nothing more."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import BEHIND_STATUS, LAG
from pipelines.tables.table import Ask
from pipelines.tables.verdicts import impact, say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import BEHIND, CRITICAL, WARNING
from pipelines.tables.verdicts.thresholds import UNACKNOWLEDGED, WITHOUT_NS
from pipelines.tables.verdicts.verdict import Ruling, first_of, sql_list, together

_BUCKET_US = 1_000_000


@needs(SomeRows("positions", "what in ('committed', 'pending')"))
def consumer_behind(capture: Capture) -> Iterator[Ruling]:
    """Groups that at the end of the capture stand still before messages, or fall behind, by group and topic."""
    last = f"""
        select *, "group" as owner, arg_min(bucket, bucket) over part as first_bucket from (
            select *, row_number() over (partition by protocol, "group", topic, partition order by bucket desc) as nth,
                min(case when status in {sql_list(BEHIND_STATUS)} then bucket end) over (
                    partition by protocol, "group", topic, partition) as since
            from ({LAG.query(DuckDB(), Ask(bucket_us=_BUCKET_US))})
        ) where nth = 1 and status in {sql_list(BEHIND_STATUS)} and messages > 0
        window part as (partition by protocol, "group", topic, partition)"""
    if not capture.keep("v_behind", last):
        return
    said = """
        select x.* exclude (topics, "group"), b.owner as "group", [b.topic] as topics, b.topic, b.partition, b.messages,
            b.lag_ns, b.status, b.committed, b.end_offset, b.since
        from v_behind b join (
            select protocol, topic, partition, coalesce("group", 'consumer ' || consumer) as owner,
                arg_max(exchange_id, time) as exchange_id, arg_max(site, time) as site
            from positions where what in ('committed', 'pending') group by all
        ) p on p.protocol = b.protocol and p.topic = b.topic and p.partition is not distinct from b.partition
            and p.owner = b.owner
        join v_calls x on x.site = p.site and x.exchange_id = p.exchange_id"""
    more = """
        saturated(sum(messages)) as messages, max(lag_ns) as lag_ns, bool_or(status = 'stopped') as stopped,
        number_of(partition) as partitions, min(since) as since,
        list({'partition': partition, 'committed': committed, 'end': end_offset, 'messages': messages,
            'lag_ns': lag_ns, 'since': since} order by messages desc) as parts"""
    for row in capture.rows(together(said, ["protocol", '"group"', "topic"], more)):
        worst = row["parts"][0]
        place = say.topic(row["topic"])
        late = f", the next of them {say.span(row['lag_ns'])} old" if row["lag_ns"] else ""
        where = "" if worst["partition"] is None else f" of partition {worst['partition']}"
        if row["stopped"]:
            text = f"Group {row['group']} stands at offset {worst['committed']}{where} of topic {place}"
        else:
            text = f"Group {row['group']} falls behind in topic {place}"
        text += f": {units.counted(row['messages'], 'message')} wait{late}."
        others = [f"partition {part['partition']} at {part['committed']} of {part['end']}" for part in row["parts"][:5]]
        yield Ruling(
            "consumer_behind",
            text,
            row,
            f"At the end: {say.joined(others)}.",
            CRITICAL if row["stopped"] and _members_read_on(capture, row["group"], row["topic"]) else WARNING,
            work=[
                impact.impact(
                    BEHIND,
                    {
                        "protocol": row["protocol"], "topic": row["topic"], "partition": part["partition"],
                        "group": row["group"], "from": part["since"] or row["first_time"], "messages": part["messages"],
                        "time_ns": part["lag_ns"], "evidence": row["evidence"][:1],
                    },
                )
                for part in row["parts"]
            ],
        )  # fmt: skip


def _members_read_on(capture: Capture, group: str, topic: str) -> bool:
    """Whether several members in turn fetched at the offset at which a group stands: what they read stops them."""
    (seen,) = capture.rows(f"""
        select count(distinct (p.client_ip, p.connection, p.incarnation)) as readers
        from positions p join v_behind b on b.topic = p.topic and b.partition is not distinct from p.partition
            and p.value = b.committed
        where p.what = 'fetch' and b.owner = {say.literal(group)} and b.topic = {say.literal(topic)}""")
    return bool(seen["readers"] > 1)


@needs(SomeRows("positions", "protocol = 'pulsar' and what = 'permits'"))
def delivery_stopped(capture: Capture) -> Iterator[Ruling]:
    """Pulsar's consumers that hold unacknowledged messages and get nothing more, though they granted permits."""
    standing = f"""
        with got as (
            select site, connection, incarnation, "group", topic, client_id, sum(coalesce(records, 1)) as got,
                max(time) as last_got
            from batches where protocol = 'pulsar' and role = 'consume' and "group" is not null group by all
        ), granted as (
            select site, connection, incarnation, "group", topic, sum(value) as permits, max(time) as last_grant
            from positions where what = 'permits' group by all
        ), acknowledged as (
            select site, connection, incarnation, "group", topic, count(*) as acks, max(time) as last_ack
            from positions where what = 'committed' and api = 'ACK' group by all
        ), stored as (
            select topic, time, coalesce(records, 1) as records
            from batches where protocol = 'pulsar' and role = 'produce' and outcome = 'ok'
        ), standing as (
            select g.*, permits - got as permits_left, coalesce(acks, 0) as acks, last_stored, every
            from got g join granted p using (site, connection, incarnation, "group", topic)
                left join acknowledged a using (site, connection, incarnation, "group", topic)
                join (select topic, max(time) as last_stored, sum(records) as every from stored group by all) s
                    using (topic)
            where permits > got and coalesce(acks, 0) < got and got - coalesce(acks, 0) >= {UNACKNOWLEDGED}
                and last_stored > last_got + to_microseconds({WITHOUT_NS // 1000})
        )
        select g.* exclude (every), every - coalesce(so_far, 0) as waiting from standing g asof left join (
            select topic, time, sum(records) over (partition by topic order by time) as so_far from stored
        ) s on g.topic = s.topic and s.time <= g.last_got"""
    if not capture.keep("v_standing", standing):
        return
    rows = """
        select b.* replace ((select max(end_time) from connections) as until),
            s.got, s.acks, s.permits_left, s.waiting, s.last_got from v_standing s join v_batches b
            using (site, connection, incarnation, "group", topic)
        where b.role = 'consume' and b.protocol = 'pulsar' and b.time = s.last_got"""
    more = f"""
        max(got - acks) as held, max(permits_left) as permits_left, max(waiting) as waiting, max(last_got) as since,
        (select max(end_time) from connections) as ends, {first_of("file", "packet")}"""
    for row in capture.rows(together(rows, ["protocol", '"group"', "topic"], more)):
        span = say.span((say.micros(row["ends"]) - say.micros(row["since"])) * 1000)
        yield Ruling(
            "delivery_stopped",
            f"{say.clients(row)} of subscription {row['group']} gets nothing more of topic "
            f"{say.topic(row['topic'])} for {span}, until the end of the capture: it holds "
            f"{units.counted(int(row['held']), 'message')} that it has not acknowledged, "
            f"{units.counted(int(row['waiting'] or 0), 'message')} wait, and it has granted permits.",
            row | {"last_time": row["ends"]},
            "A broker stops at maxUnackedMessagesPerConsumer, or per subscription, until some are acknowledged.",
        )
