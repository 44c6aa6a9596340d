"""How far groups are behind, along time: in messages, and in the age of the message that they read next.

Each part of the query reads the parts before it once or twice: Spark plans a part anew wherever it is read.

singly    subscriptions of Pulsar whose consumers acknowledge each message by itself, or none, and that nobody set back
numbered  Pulsar's entries, and what subscriptions acknowledged or, singly, got. Entries have no offsets: those that the
          capture shows are numbered in their order, by their messages
cleared   what was got, and acknowledged singly: with how many messages up to the furthest one then were (done), and
          when all before it were (cleared_us)
units     what was produced, each batch once, with its offsets and when its messages were made; with an owner, what the
          owner acknowledged
passing   what was produced, with how far it goes without a message: a batch that marks the end of a transaction holds
          none, and a group need not read it
marks     where partitions ended (without an owner: high watermarks, and what was produced), and how far owners came:
          offsets that they committed, those of a transaction when it was committed; `stands`: where what they read next
          lies, if not there, as they left out messages on the way
slots     the last of both in each time bucket
steps     for each owner, the buckets in which it or the end of its partition moved, and the last one of the capture
standing  where the owner stood then: what a bucket does not say, the one before it does. Of Pulsar's acknowledgements
          the furthest counts, from the newest SEEK on; of those that were given singly, how many there are
placed    with the batch that holds the message that the owner reads next
shown     groups of Kafka that do something in the capture; of others somebody asked where they stand
"""

from __future__ import annotations

from pipelines.tables.dialect import Dialect
from pipelines.tables.table import Ask, Table, TableColumn

BEHIND_STATUS = ("stopped", "falls behind")
"""Values of `status` of a group that does not get on."""
TREND_US = 30_000_000  # over which fewer must wait before a group catches up: clients commit every five seconds
STOPPED_US = 10_000_000  # without progress before a group has stopped, at least: most clients commit every five seconds
STOPPED_STEPS = 3  # and as many times as long as it usually takes from one commit to the next
STOPPED_MOST_US = 30_000_000  # but no longer: a group with messages to read commits more often
LATE_US = 10_000_000  # that the next message waits before a group is behind, unless it catches up

_MEMBERS_ASK = ("JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat")

_PLACE = "protocol, topic, part"
_OWNER = f"{_PLACE}, owner"


def reached_by(d: Dialect) -> str:
    """Who reached an offset: the group, or a consumer of Iggy that is in none."""
    return f"coalesce({d.quoted('group')}, 'consumer ' || consumer)"


def called(owner: str) -> str:
    """`Group g`, `Consumer 7`: who reached an offset, at the beginning of a sentence."""
    return f"C{owner[1:]}" if owner.startswith("consumer ") else f"Group {owner}"


def reached(d: Dialect, *, alone: bool = False) -> str:
    """The offsets that Kafka's and Iggy's groups reached: a SELECT of protocol, topic, part, owner, at_us, number.

    part: the partition. Besides `api`, `exchange_id`, `site`: what said it. alone: with consumers that are in no group.
    """
    owner = reached_by(d) if alone else d.quoted("group")
    return f"""
        select protocol, topic, partition as part, {owner} as owner, {d.micros("time")} as at_us,
            value as number, api, site, exchange_id
        from positions
        where what = 'committed' and protocol <> 'pulsar' and topic is not null and partition is not null
            and {owner} is not null and time is not null
        union all
        select protocol, topic, partition as part, owner, ended_us as at_us, value as number, api, site, exchange_id
        from (
            select *, {d.latest("case when what = 'transaction' then value end", _ENDED)} as committed,
                {d.latest("case when what = 'transaction' then at_us end", _ENDED)} as ended_us
            from (
                select protocol, topic, partition, {d.quoted("group")} as owner, what, value, transaction, api, site,
                    exchange_id, {d.micros("time")} as at_us
                from positions where what in ('pending', 'transaction') and protocol = 'kafka' and time is not null
            )
        ) where what = 'pending' and committed = 1 and topic is not null and owner is not null
    """


ACCEPTED = """coalesce(exchange_id, '') not in (
    select exchange_id from exchanges where api = 'ACK' and status = 'error' and exchange_id is not null)"""
"""Of positions: not those that an acknowledgement names which the broker turned down."""
SHARING = "kind = 'joined' and text in ('Shared', 'Key_Shared')"  # events of consumers that acknowledge one by one
_NEVER_US = (1 << 63) - 1
_ENDED = "partition by transaction order by at_us desc, what desc"  # from a row to the end of its transaction


def _lag(d: Dialect, ask: Ask, more: str = "") -> str:
    group, none = d.quoted("group"), "cast(null as bigint)"
    entry = [f"try_cast(split_part(position, ':', {n}) as bigint)" for n in (1, 2)]
    times = [f"coalesce({d.micros(f'{how}({name})')}, -1)" for how, name in (
        ("min", "first_timestamp"), ("max", "max_timestamp"))]  # fmt: skip
    overdue_us = f"{STOPPED_STEPS} * (final_move_us - first_move_us) / greatest(moves - 1, 1)"
    due = f"coalesce({d.micros('max(deliver_at)')}, -1)"
    seen, at_us = d.micros("min(time)"), f"{d.micros('time')} as at_us"
    moved = "topic is not null and time is not null and coalesce(outcome, '') <> 'error'"
    part = "coalesce(partition, -1) as part"
    running = f"partition by {_OWNER} order by slot rows between unbounded preceding and current row"
    found = f"partition by {_PLACE} order by number, kind, unit_last"
    rows = f"partition by {_OWNER} order by slot"
    earlier = f"{rows} range between {max(1, TREND_US // ask.bucket_us)} preceding and current row"
    at = {
        name: d.latest(f"case when kind = 0 then {name} end", found)
        for name in ("unit_base", "unit_last", "unit_first_us", "unit_max_us", "unit_passed")
    }
    entries, acked = (f"partition by {_OWNER} order by {by} rows between unbounded preceding and current row"
        for by in ("next", "acked_us, next"))  # fmt: skip
    cleared = d.once("cleared", f"""
            select *, max(next) over ({acked}) - max(known) over ({acked}) + sum(size) over ({acked}) as done
            from (
                select *, max(acked_us) over ({entries}) as cleared_us, sum(size) over ({entries}) as known,
                    coalesce(lead(next - size) over (partition by {_OWNER} order by next), next) as stands,
                    min(next - size) over (partition by {_OWNER}) as start
                from (
                    select {_OWNER}, next, size, coalesce(min(seen_us), {_NEVER_US}) as acked_us,
                        min(nullif(first_us, -1)) as given_us
                    from numbered where alone = 1 and size is not null group by {_OWNER}, next, size
                )
            )""")  # fmt: skip
    so_far = "order by base, next rows between unbounded preceding and current row"
    return f"""
        with entries as (
            select protocol, topic, {part}, {entry[0]} as ledger, {entry[1]} as entry,
                max(coalesce(records, 1)) as records, greatest({times[0]}, {due}) as first_us,
                greatest({times[1]}, {due}) as max_us, greatest({seen}, {due}) as seen_us
            from batches where protocol = 'pulsar' and position like '%:%' and {moved}
            group by protocol, topic, coalesce(partition, -1), {entry[0]}, {entry[1]}
            having {due} <= (select {d.micros("max(time)")} from batches where protocol = 'pulsar')
        ), singly as (
            select distinct {group} as owner, topic, 1 as alone from events e
            where protocol = 'pulsar' and ({SHARING} or kind = 'subscribed' and not exists (
                select 1 from positions p where p.protocol = 'pulsar' and p.what in ('committed', 'pending')
                    and p.{group} = e.{group} and p.topic = e.topic))
        ), told as (
            select protocol, topic, {part}, ledger, value as entry, {d.micros("time")} as seen_us, {group} as owner,
                case when api = 'SEEK' then 1 else 0 end as sought,
                case when what = 'pending' then 1 else 0 end as extra, cast(-1 as bigint) as first_us
            from positions
            where what in ('committed', 'pending') and protocol = 'pulsar' and topic is not null and time is not null
                and {group} is not null and {ACCEPTED}
            union all
            select protocol, topic, {part}, {entry[0]} as ledger, {entry[1]} as entry, {none} as seen_us,
                {group} as owner, 0 as sought, 1 as extra, {d.micros("time")} as first_us
            from batches
            where protocol = 'pulsar' and role = 'consume' and position like '%:%' and {group} is not null and {moved}
        ), numbered as (
            select *, cast(sum(records) over (partition by {_PLACE} order by ledger, entry) as bigint) as next,
                max(case when owner is null then records end) over (partition by {_PLACE}, ledger, entry) as size
            from (
                select *, cast(null as string) as owner, 0 as sought, 0 as alone from entries
                union all
                select {_PLACE}, ledger, entry, 0 as records, first_us, cast(-1 as bigint) as max_us, seen_us, owner,
                    sought, alone
                from (
                    select t.*, case when max(t.sought) over (partition by t.protocol, t.topic, t.part, t.owner) = 0
                        then coalesce(s.alone, 0) else 0 end as alone
                    from told t left join singly s on s.owner = t.owner and s.topic = t.topic
                ) where alone = 1 or extra = 0
            )
        ), {cleared}, units as (
            select protocol, topic, {part}, cast(null as string) as owner, 0 as sought, base_offset as base,
                last_offset + 1 as next, {times[0]} as first_us, {times[1]} as max_us, {seen} as seen_us,
                max(case when control then 1 else 0 end) as control
            from batches
            where protocol <> 'pulsar' and base_offset is not null and last_offset is not null and {moved}
                and not exists (  -- what was purged or deleted has the offsets of what came since
                    select 1 from events e where (text = 'purged' or kind = 'deleted' and thing in ('stream', 'topic'))
                        and coalesce(number, 0) = 0 and e.time > batches.time
                        and (e.topic = batches.topic or e.topic = split_part(batches.topic, '/', 1)))
            group by protocol, topic, coalesce(partition, -1), base_offset, last_offset
            union all
            select {_OWNER}, sought, next - records as base, next, first_us, max_us, seen_us, 0 as control
            from numbered where alone = 0 and size is not null
        ), passing as (
            select {_PLACE}, base, next, first_us, max_us,
                case when control = 1 then max(next) over (partition by {_PLACE}, control, base - held) else base end
                    as passed
            from (
                select *, sum(next - base) over (partition by {_PLACE}, control {so_far}) - (next - base) as held
                from units where owner is null
            )
        ), marks as (
            select {_PLACE}, owner, seen_us as at_us, next as number, sought, {none} as stands from units
            union all
            select {_OWNER}, acked_us, cast(done as bigint), 0, start from cleared where acked_us < {_NEVER_US}
            union all
            select {_OWNER}, min(given_us), min(start), 0, min(start) from cleared group by {_OWNER}
            union all
            select {_OWNER}, cleared_us, {none}, 0, stands from cleared where cleared_us < {_NEVER_US}
            union all
            select {_OWNER}, at_us, number, 0 as sought, {none} as stands from ({reached(d, alone=True)})
            union all
            select protocol, topic, {part}, cast(null as string) as owner, {at_us}, value, 0 as sought, {none}
            from positions
            where what = 'high_watermark' and protocol <> 'pulsar' and topic is not null and time is not null
        ), slots as (
            select {_OWNER}, cast(floor(at_us / {ask.bucket_us}) as bigint) as slot, max(at_us) as at_us,
                min(at_us) as first_us, {d.first("number", "-at_us", "-number")} as newest,
                max(number) as furthest, max(sought) as sought, max(stands) as stands
            from marks group by {_OWNER}, cast(floor(at_us / {ask.bucket_us}) as bigint)
        ), owners as (
            select *, case when of_ends = 0 then owner end as told_by
            from (
                select distinct protocol, topic, {part}, {reached_by(d)} as owner from positions
                where what in ('committed', 'pending') and topic is not null and {reached_by(d)} is not null
                union
                select {_OWNER} from cleared
            ) cross join (select 0 as of_ends union all select 1 as of_ends) kinds
        ), steps as (
            select o.protocol, o.topic, o.part, o.owner, slot, max(at_us) as at_us,
                max(case when of_ends = 0 then first_us end) as moved_first_us,
                max(case when of_ends = 0 then newest end) as newest,
                max(case when of_ends = 0 then furthest end) as furthest, max(sought) as sought, max(stands) as stands,
                max(case when of_ends = 1 then furthest end) as end_number
            from (
                select * from slots
                union all
                select distinct {_PLACE}, cast(null as string) as owner, end_slot as slot, end_us as at_us,
                    {none} as first_us, {none} as newest, {none} as furthest, 0 as sought, {none} as stands
                from slots cross join (
                    select max(at_us) as end_us, cast(floor(max(at_us) / {ask.bucket_us}) as bigint) as end_slot
                    from marks
                ) last_mark
            ) s join owners o on s.protocol = o.protocol and s.topic = o.topic and s.part = o.part
                and s.owner is not distinct from o.told_by
            group by o.protocol, o.topic, o.part, o.owner, slot
        ), carried as (
            select {_OWNER}, slot, at_us, moved_first_us, newest, sum(sought) over ({running}) as life, furthest,
                sought, max(stands) over ({running}) as stands,
                {d.latest("newest", rows)} as standing, case when protocol = 'iggy' then {d.latest("end_number", rows)}
                    else max(end_number) over ({running}) end as end_number  -- Iggy tells it anew with each poll
            from steps
        ), standing as (
            select {_OWNER}, slot, at_us, moved_first_us, case
                    when protocol = 'pulsar' then max(case when sought = 1 then newest else furthest end) over (
                        partition by {_OWNER}, life order by slot rows between unbounded preceding and current row)
                    else standing end as number,
                stands, end_number
            from carried
        ), placed as (
            select *, {at["unit_base"]} as base, {at["unit_last"]} as last, {at["unit_first_us"]} as first_us,
                {at["unit_max_us"]} as max_us, {at["unit_passed"]} as passed
            from (
                select {_PLACE}, '' as owner, cast(-1 as bigint) as slot, {none} as at_us, {none} as moved_first_us,
                    {none} as done, base as number, {none} as reach, 0 as kind, base as unit_base,
                    next - 1 as unit_last, first_us as unit_first_us, max_us as unit_max_us, passed as unit_passed
                from passing
                union all
                select {_OWNER}, slot, at_us, moved_first_us, number as done, coalesce(stands, number) as number,
                    case when end_number is not null then greatest(end_number, number) end as reach, 1 as kind,
                    {none} as unit_base, {none} as unit_last, {none} as unit_first_us, {none} as unit_max_us,
                    {none} as unit_passed
                from standing where number is not null
            )
        ), dated as (
            select *, case when number <= last and first_us >= 0 then first_us + case
                when last > base and max_us > first_us
                    then cast(floor((max_us - first_us) * ((number - base) / cast(last - base as double))) as bigint)
                else 0 end end as made_us,
                case when number <= last then greatest(number, passed) else number end as reads
            from placed where kind = 1
        ), measured as (
            select {_OWNER}, slot, at_us, moved_first_us, done as number, reach,
                case when reads = number then made_us end as made_us,
                case when reads >= reach then 0 else reach - done end as behind,
                case when reads >= reach then 0
                    when reads < reach and made_us is not null then greatest(at_us - made_us, 0) end as late_us
            from dated
        ), compared as (
            select *, lag(number) over ({rows}) as number_before, lag(made_us) over ({rows}) as made_before_us,
                lag(behind) over ({rows}) as behind_before,
                first_value(behind) over ({earlier}) as behind_earlier,
                first_value(made_us) over ({earlier}) as made_earlier_us
            from measured
        ), changes as (
            select *, case when number_before is null or number <> number_before then at_us end as moved_us
            from compared
        ), judged as (
            select *, at_us - {d.latest("moved_us", rows)} as still_us,
                min(moved_us) over (partition by {_OWNER}) as first_move_us,
                max(moved_us) over (partition by {_OWNER}) as final_move_us,
                count(moved_us) over (partition by {_OWNER}) as moves
            from changes
        ), shown as (
            select {group} as name from positions
            where protocol = 'kafka' and what in ('committed', 'pending') and coalesce(api, '') <> 'OffsetFetch'
            union
            select {group} as name from exchanges where protocol = 'kafka' and api in {_MEMBERS_ASK}
        )
        select protocol, owner as {group}, topic, case when part >= 0 then part end as partition,
            {d.timestamp(f"slot * {ask.bucket_us}")} as bucket, number as committed, reach as end_offset,
            behind as messages, late_us * 1000 as lag_ns,
            case when number < number_before then 'went back'
                when behind is null or protocol = 'kafka' and name is null then null
                when behind = 0 then 'keeps up'
                when still_us > greatest({STOPPED_US}, least({STOPPED_MOST_US}, {overdue_us})) then 'stopped'
                when late_us >= {LATE_US} and (behind >= coalesce(behind_earlier, 0)
                    or late_us > {TREND_US} and made_us = made_earlier_us and 10 * behind >= 9 * behind_earlier
                    ) or behind > behind_earlier
                    and (late_us is null or moves > 1 and still_us > {overdue_us}) then 'falls behind'
                when late_us >= {LATE_US} then 'catches up'
                else 'keeps up' end as status{more}
        from judged left join shown on name = owner
    """


def with_longest(d: Dialect, ask: Ask) -> str:
    """The rows of LAG with `longest_ns` and `most_messages`, also just before the group moved first in a bucket.

    What came to the partition later in the bucket is among these messages. Iggy tells only those who poll where a
    partition ends: what a poll found had waited, also where nothing did at the poll before.
    """
    moved = "number > number_before and (coalesce(behind_before, 1) > 0 or protocol = 'iggy')"
    until = f"coalesce(case when {moved} then moved_first_us - made_before_us end, late_us)"
    most = f"case when {moved} then reach - number_before else behind end"
    return _lag(d, ask, f", greatest(late_us, {until}) * 1000 as longest_ns, greatest(behind, {most}) as most_messages")


LAG = Table(
    "lag",
    "How far consumer groups and subscriptions are behind, one row for each partition and time bucket in which the "
    "group or the end of the partition moved, and one for the end of the capture. "
    "`messages` counts what the group has yet to read; `lag_ns` is the age of "
    "the message that it reads next, by the timestamps of batches: null where the capture does not show that batch. "
    "Both rest on what was captured: on offsets that were committed, those of a transaction once it was committed, and "
    "on high watermarks and batches. Kafka's groups that commit nothing have no row. Pulsar's entries are counted as "
    "far as the capture shows them, those that are to be delivered later from then on.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("group", "consumer group or subscription; `consumer NAME` for one of Iggy that is in no group"),
        TableColumn("topic", "topic name"),
        TableColumn("partition", "partition number; null for a topic without", "code"),
        TableColumn("bucket", "start of the time bucket", "time"),
        TableColumn(
            "committed", "offset of the next message that the group reads; pulsar: messages before it in the capture, "
            "or acknowledged, where consumers share a subscription",
            "code",
        ),
        TableColumn("end_offset", "offset after the last message of the partition; null if not seen", "code"),
        TableColumn("messages", "that the group has yet to read", "count"),
        TableColumn("lag_ns", "how long ago the message that the group reads next was produced; 0 for none", "ns"),
        TableColumn(
            "status",
            f"keeps up; falls behind: the next message is {LATE_US // 1_000_000} s old or of unknown age, and no fewer "
            f"wait than {TREND_US // 1_000_000} s before, or hardly fewer and it was the next one then, or more do and "
            f"the group has not moved for {STOPPED_STEPS} times as long as it usually takes; catches up: fewer do; "
            f"stopped: messages wait, and the group has not moved for {STOPPED_US // 1_000_000} s and as long as that, "
            f"or {STOPPED_MOST_US // 1_000_000} s; went "
            "back: it committed a smaller offset than before; null where the end of the partition is not known, or "
            "nobody of the group is in the capture",
        ),
    ),
    _lag,
    headline=("protocol", "group", "topic", "partition", "bucket", "messages", "lag_ns", "status"),
    order=("protocol", '"group"', "topic", "partition", "bucket"),
)  # fmt: skip
