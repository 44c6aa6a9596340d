"""Readers that do not get on: groups behind, and consumers that a broker sends nothing more."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import ACCEPTED, BEHIND_STATUS, LATE_US, SHARING, STOPPED_US, reached_by, with_longest
from pipelines.tables.table import Ask, alike
from pipelines.tables.transactions import OPEN
from pipelines.tables.verdicts import impact, say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import BEHIND, NOTE, WARNING
from pipelines.tables.verdicts.thresholds import MANY, OUTAGE_NS, TRIES, UNACKNOWLEDGED, WITHOUT_NS
from pipelines.tables.verdicts.told import Told, said, words
from pipelines.tables.verdicts.verdict import COST_NS, Row, Ruling, sql_list

_BUCKET_US = 1_000_000
_REACHED_BY = reached_by(DuckDB())
_DURABLE = """in (select "group" from events where kind = 'subscribed' and "group" is not null)"""
_IN_VAIN = (
    "Look at the messages from that offset on, and at what members logged when they ended: one that they cannot "
    "process stops each of them in turn, or what they get takes longer than max.poll.interval.ms."
)
_OPENED = "End transactions, or set a shorter time-out for them where they begin."
_HELD_BACK = (
    "The broker holds messages back: look at dispatch rates and filters that are set for topic, namespace or "
    "subscription, and at its log. Unloading the topic (pulsar-admin topics unload) starts its dispatchers anew."
)
_HOARDED = (
    "See why that consumer is slower than the others; with a smaller receiverQueueSize it leaves more messages to them."
)
_BEHIND = (
    "{group:owner} {does} {part}topic {topic:topic}: {messages:message/waits/wait}{lag_ns:, the next of them ~ns~ old}"
    "{unacked:; {holders} got ~number~ of them and acknowledged none}{permitted}"
    "{gone:; it has had no members since ~clock~, when the last one left in order}{uncommitted}"
    "{in_vain:; its members began there ~times~ and came no further}{opened}."
)
_UNCOMMITTED = "; its members have got them since they last committed"
_PERMITTED = "; its consumers have acknowledged what they got, and granted permits for more"
_OPEN_SINCE = (
    "; transaction {transaction} of {client:client} is open since {time:clock}, and until it ends nothing sent after "
    "it is delivered"
)
_LAG_NS = f"coalesce(nullif(max(lag_ns), 0), {COST_NS})"
_COMMITS = (
    SomeRows("positions", "what in ('committed', 'pending')"),
    SomeRows("batches", "protocol = 'pulsar' and role = 'consume' and \"group\" is not null"),
)
_CONSUMER = ("site", "connection", "incarnation", '"group"', "topic", "partition", "client_id")  # of Pulsar


def _unacknowledged(of: str) -> str:
    """What Pulsar delivered to subscriptions, with when it was acknowledged first: acked_at.

    An acknowledgement is of all before it, unless consumers share the subscription. of: a SELECT of groups and topics.
    """
    return f"""
        select * from (
            select * exclude (acked), min(acked) over (
                    partition by "group", topic, partition, if(sharing, ledger, -1), if(sharing, entry, -1)
                    order by ledger desc, entry desc) as acked_at
            from (
                select *, ("group", topic) in (
                    select ("group", topic) from events
                    where {SHARING} and "group" is not null and topic is not null) as sharing
                from (
                    select *, try_cast(split_part(position, ':', 1) as bigint) as ledger, null::timestamptz as acked,
                        try_cast(split_part(position, ':', 2) as bigint) as entry
                    from v_batches where protocol = 'pulsar' and role = 'consume' and "group" is not null
                    union all by name
                    select "group", topic, partition, ledger, value as entry, time as acked
                    from positions where protocol = 'pulsar' and what in ('committed', 'pending') and api = 'ACK'
                        and {ACCEPTED}
                ) where ("group", topic) in ({of})
            )
        ) where role = 'consume'"""


@needs(*_COMMITS)
def consumer_behind(capture: Capture) -> Iterator[Ruling]:
    """Groups that at the end of the capture stand still before messages, or fall behind, by group and topic.

    Those that did before and have caught up are notes.
    """
    last = f"""
        select * exclude ("group"), "group" as owner from (
            select *, row_number() over (part order by bucket desc) as nth,
                min(case when is_behind then bucket end) over part as since,
                arg_max({{'at': bucket, 'messages': most_messages, 'lag_ns': longest_ns,
                    'committed': end_offset - most_messages, 'end': end_offset}},
                    row(coalesce(longest_ns, 0), most_messages)) filter (is_behind or is_late) over part as worst,
                bool_or(is_behind and status = 'stopped' or is_late) over part as was_late,
                bool_or(status = 'went back') over part as went_back
            from (
                select *, status in {sql_list(BEHIND_STATUS)} and messages > 0 as is_behind,
                    status is not null and longest_ns >= {LATE_US * 1000} as is_late
                from ({with_longest(DuckDB(), Ask(bucket_us=_BUCKET_US))})
            ) window part as (partition by protocol, "group", topic, partition)
        ) l where nth = 1 and (is_behind or was_late and not went_back) and (  -- Pulsar's may have been deleted then
                select arg_max(kind, time) from events e
                where e.kind in ('joined', 'deleted') and e."group" = l."group" and e.topic = l.topic
                    and e.time <= coalesce(l.since, l.worst.at)) is distinct from 'deleted'
            and topic not in (  -- emptied, and nobody said since where it ends
                select e.topic from v_emptied e join positions p on p.topic = e.topic and p.what = 'high_watermark'
                group by e.topic having max(e.time) > max(p.time))"""
    if capture.keep("v_lagged", last):
        yield from _behind(capture)
        yield from _CAUGHT_UP.verdicts(capture)


def _behind(capture: Capture) -> Iterator[Ruling]:
    consumer = ", ".join(_CONSUMER)
    rows = f"""
        with held as (
            select "group" as owner, topic, partition, arg_min(site, row(time, exchange_id)) as site,
                arg_min(exchange_id, row(time, exchange_id)) as exchange_id, number_of(client) as holders,
                saturated(sum(records)) as unacked, any_value(sharing) as sharing
            from (
                select *, row_number() over (
                    partition by "group", topic, partition, ledger, entry order by time desc, exchange_id) as nth
                from ({_unacknowledged("select owner, topic from v_lagged where is_behind and protocol = 'pulsar'")})
            ) where nth = 1 and acked_at is null group by all
        )
        select x.* exclude (topics, "group", status), h.unacked, h.holders, h.sharing, b.owner as "group",
            [b.topic] as topics, b.topic, b.partition, b.messages, b.lag_ns, b.status, b.committed, b.end_offset,
            b.since,
            coalesce(d.delivered >= b.end_offset and coalesce(d.earlier, 0) <= b.committed,
                not h.sharing and h.unacked > 0.95 * b.messages - {UNACKNOWLEDGED},  -- the others are on their way
                false) as only_uncommitted,
            g.gone, t.tries, coalesce(b.committed >= s.stable, false) as at_stable, f.permitted, f.consumers
        from (from v_lagged where is_behind) b left join (
            select protocol, topic, partition, {_REACHED_BY} as owner, arg_max(site, row(time, exchange_id)) as site,
                arg_max(exchange_id, row(time, exchange_id)) as exchange_id
            from positions where what in ('committed', 'pending') group by all
        ) p on p.protocol = b.protocol and p.topic = b.topic and p.partition is not distinct from b.partition
            and p.owner = b.owner
        left join held h on h.owner = b.owner and h.topic = b.topic and h.partition is not distinct from b.partition
        join v_calls x on x.site = coalesce(h.site, p.site) and x.exchange_id = coalesce(h.exchange_id, p.exchange_id)
        left join (  -- whether all consumers of Pulsar that stayed have permits left
            select "group" as owner, topic, partition, bool_and(permits > 0) as permitted, count(*) as consumers from (
                select {consumer}, sum(permits) as permits from (
                    select {consumer}, value as permits from positions where what = 'permits' union all
                    select {consumer}, -coalesce(records, 1) from batches where protocol = 'pulsar' and role = 'consume'
                ) group by all
            ) c anti join events e on e.kind = 'left' and {alike(_CONSUMER[:5], "e", "c")} and e.subject = c.client_id
            group by all
        ) f on f.owner = b.owner and f.topic = b.topic and f.partition is not distinct from b.partition
        left join (
            select c.owner, b.topic, b.partition, max(b.last_offset) + 1 as delivered,
                max(b.last_offset) filter (b.time < c.last_commit - to_microseconds({OUTAGE_NS // 1000})) + 1 as earlier
            from batches b join (
                select topic, partition, "group" as owner, client_ip, client_id, max(time) as last_commit
                from positions where what in ('committed', 'pending') group by all
            ) c on c.topic = b.topic and c.partition is not distinct from b.partition and c.client_ip = b.client_ip
                and c.client_id is not distinct from b.client_id
            where b.role = 'consume' group by all
        ) d on d.owner = b.owner and d.topic = b.topic and d.partition is not distinct from b.partition
        left join (
            select protocol, "group" as owner, max(time) as gone from (
                select protocol, "group", subject, max(time) as time, arg_max(kind, time) as kind
                from events where kind in ('joined', 'left') and "group" is not null group by all
            ) group by all having bool_and(kind = 'left')
        ) g on g.protocol = b.protocol and g.owner = b.owner
        left join (
            select topic, partition, arg_max(value, row(time, value)) as stable from positions
            where what = 'last_stable' and protocol = 'kafka' group by all
        ) s on s.topic = b.topic and s.partition = b.partition
        left join (  -- how often members that had joined began at an offset
            select p.owner, p.topic, p.partition, p.value, count(distinct (p.client_id, e.time)) as tries
            from (select *, "group" as owner from positions where what = 'committed' and api = 'OffsetFetch') p
                asof join (from events where kind = 'joined' and protocol = 'kafka') e
                on e."group" = p.owner and e.client_ip = p.client_ip and e.client_id = p.client_id and e.time <= p.time
            group by all
        ) t on t.owner = b.owner and t.topic = b.topic and t.partition = b.partition and t.value = b.committed
        where b.protocol <> 'pulsar' or g.gone is null or b.owner {_DURABLE}"""  # another went with its reader
    more = f"""
        saturated(sum(messages)) as messages, max(lag_ns) as lag_ns, bool_or(status = 'stopped') as stopped,
        bool_and(only_uncommitted) as only_uncommitted, max(gone) as gone,
        number_of(partition) as partitions, min(since) as since, saturated(sum(unacked)) as unacked,
        max(holders) as holders, max(tries) as tries, bool_and(at_stable) as at_stable,
        bool_and(permitted) and saturated(sum(messages)) >= {MANY} + saturated(sum(unacked)) as permitted,
        bool_and(sharing and unacked >= messages) as held, max(consumers) > max(holders) as others,
        list({{'partition': partition, 'committed': committed, 'end': end_offset, 'messages': messages,
            'lag_ns': lag_ns, 'since': since}} order by messages desc) as parts"""
    for row in capture.together(rows, ["protocol", '"group"', "topic"], more, _LAG_NS):
        same = row["groups"], row["topics"]
        said_why = any(  # a transaction holds it, none is delivered, or the same come again
            row["at_stable"] and row["topic"] in one.rows["topics"] if one.kind == "transaction_held"
            else same == (one.rows["groups"], one.rows["topics"])
            and ((one.kind in ("delivery_stopped", "permits_exhausted") and one.level != NOTE)
                or one.rows.get("again", 0) >= row["messages"])
            for one in capture.told
        )  # fmt: skip
        worst, gone, unacked = row["parts"][0], row["gone"], row["unacked"]
        in_vain = row["stopped"] and (row["tries"] or 0) >= TRIES + row["only_uncommitted"]
        opened = [] if unacked or gone else _held_open(capture, row)
        fine = gone or said_why or row["messages"] <= min(unacked, UNACKNOWLEDGED - 1) or row["only_uncommitted"]
        waits = row["permitted"] and unacked < UNACKNOWLEDGED and not gone and not opened
        left_out = (one.rows for one in capture.told if one.kind == "messages_lost" and one.level == WARNING)
        if waits and any(row["group"] in of["groups"] and row["topic"] in of["topics"] for of in left_out):
            continue  # a filter of the broker seems to leave out messages, so these may be among them
        others = [_part(p["partition"], " at ") + f"{p['committed']} of {p['end']}" for p in row["parts"][:5]]
        at = "still in" if row["protocol"] == "pulsar" else f"at offset {worst['committed']} of"
        text = said(_BEHIND, words(row) | {
            "does": f"stands {at}" if row["stopped"] else "has unacknowledged messages in" if row["held"]
            else "falls behind in",
            "part": _part(worst["partition"]) if row["stopped"] or row["partitions"] == 1 else "",
            "holders": say.clients(row) if row["holders"] == 1 else say.counted(row["holders"] or 0, "consumer"),
            "uncommitted": _UNCOMMITTED if row["only_uncommitted"] and not unacked and not gone else "",
            "in_vain": row["tries"] if in_vain else None,
            "permitted": _PERMITTED if waits else "", "unacked": None if waits else unacked,
            "opened": said(_OPEN_SINCE, opened[0]) if opened else "",
        })  # fmt: skip
        yield Ruling(
            "consumer_behind",
            text,
            row | {"first_time": row["since"] or row["first_time"]} | ({"last_time": None} if unacked else {}),
            f"At the end: {say.joined(others)}.",
            NOTE if fine and not in_vain else None,
            _IN_VAIN if in_vain else _OPENED if opened else _HELD_BACK if waits
            else _HOARDED if row["held"] and row["others"] else None,
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


def _held_open(capture: Capture, row: Row) -> list[Row]:
    """Transactions of Pulsar that are open at the end and wrote to the topic before a group stood still there."""
    if row["protocol"] != "pulsar" or not row["stopped"]:
        return []
    still = (one for one in capture.transactions.to_pylist() if one["outcome"] == OPEN)
    return [one for one in still if row["topic"] in one["topics"] and one["time"] <= row["since"]]


# groups that were far behind, and got on again. Left out are those whose members had got most of what waited, those
# whose offsets somebody else set, readers of Pulsar, which begin where they choose, and those that a pause of the
# capture made late
_PAUSED = f"""exists (
    from v_paused where l.worst.lag_ns between stood_ns and stood_ns + {OUTAGE_NS}
        and abs(epoch_us(upto) - epoch_us(l.worst.at)) <= {_BUCKET_US})"""
_CAUGHT_UP_ROWS = f"""
    select x.* exclude (topics, "group", status) replace (l.since as time), l.owner as "group", [l.topic] as topics,
        l.topic, l.partition, l.worst,
        if(l.status = 'catches up' or 2 * l.messages > l.worst.messages, l.messages, 0) as waiting
    from v_lagged l join (
        select protocol, topic, partition, {_REACHED_BY} as owner, site, exchange_id, time, client_ip, client_id
        from positions where what in ('committed', 'pending')
    ) p on p.protocol = l.protocol and p.topic = l.topic and p.partition is not distinct from l.partition
        and p.owner = l.owner and p.time > l.worst.at
    join v_calls x on x.site = p.site and x.exchange_id = p.exchange_id
    where not l.is_behind and not {{paused}} and (l.protocol <> 'pulsar' or l.owner {_DURABLE}) and not exists (
        select 1 from batches b where b.role = 'consume' and b.topic = l.topic
            and b.partition is not distinct from l.partition and b.client_ip = p.client_ip
            and b.client_id is not distinct from p.client_id
            and b.time <= l.worst.at - to_microseconds({_BUCKET_US})
            and b.last_offset >= (l.worst.committed + l.worst."end") // 2)
        and (l.owner, l.topic) not in (
            select ("group", topic) from events where kind = 'altered' and thing = 'offsets'
                and "group" is not null and topic is not null)
    qualify row_number() over (partition by l.protocol, l.owner, l.topic, l.partition order by p.time) = 1"""
_WORST = "arg_max(worst, row(coalesce(worst.lag_ns, 0), worst.messages))"

_CAUGHT_UP = Told(
    _COMMITS, "consumer_behind",
    "{group:owner} was {behind:message} behind in {part}topic {topic:topic} at {at:clock}"
    "{lag_ns:, the next of them ~ns~ old}; {now}{waiting:it catches up, and ~message/still waits/still wait~}.",
    lambda capture: _CAUGHT_UP_ROWS.format(paused=_PAUSED if capture.has("v_paused") else "false"),
    by=("protocol", '"group"', "topic"),
    more=f"""
        coalesce('partition ' || {_WORST.replace("worst,", "partition,", 1)} || ' of ', '') as part,
        {_WORST}.messages as behind, {_WORST}.at as at, {_WORST}.lag_ns as lag_ns,
        saturated(sum(waiting)) as waiting, if(sum(waiting) > 0, '', 'it has caught up') as now""",
    cost_ns=f"coalesce(nullif({_WORST}.lag_ns, 0), {COST_NS})",
    severity=NOTE,
)  # fmt: skip


def _part(partition: int | None, then: str = " of ") -> str:
    return "" if partition is None else f"partition {partition}{then}"


def _standing(capture: Capture) -> str:
    """What Pulsar's consumers got last that hold unacknowledged messages and get nothing more, with permits."""
    consumer = ", ".join(_CONSUMER)
    standing = f"""
        with granted as (
            select {consumer}, sum(value) as permits from positions where what = 'permits' group by all
        ), gone as (
            select site, connection, incarnation, "group", topic, partition, subject as client_id, max(time) as gone
            from events where kind in ('left', 'standby', 'closed_by_broker') and protocol = 'pulsar' group by all
        ), permitted as (
            select d.*, least(case when e.gone > d.last_got then e.gone end, n.end_time) as ends
            from (
                select {consumer}, sum(coalesce(records, 1)) as got, min(time) as first_got, max(time) as last_got
                from batches where protocol = 'pulsar' and role = 'consume' and "group" is not null group by all
            ) d join granted p on {alike(_CONSUMER, "d", "p")}
                left join gone e on {alike(_CONSUMER, "d", "e")}
                join v_ends n on n.site = d.site and n.connection = d.connection and n.incarnation = d.incarnation
            where p.permits > d.got and ends > d.last_got + to_microseconds({WITHOUT_NS // 1000})
        ), standing as (
            select c.*, coalesce(sum(d.records) filter (d.acked_at is null or d.acked_at > c.ends), 0) as held
            from permitted c join (
                select {consumer}, ledger, entry, max(records) as records, min(acked_at) as acked_at
                from ({_unacknowledged('select "group", topic from permitted')}) group by all
            ) d on {alike(_CONSUMER, "c", "d")}
            group by all having held >= {UNACKNOWLEDGED} or ends > last_got + to_microseconds({STOPPED_US})
        ), missing as (
            select t.*, s.time, coalesce(s.records, 1) as records, s.position
            from standing t join batches s on s.protocol = 'pulsar' and s.role = 'produce' and s.outcome = 'ok'
                and s.topic = t.topic and s.partition is not distinct from t.partition
                and greatest(s.time, s.deliver_at) > t.last_got and greatest(s.time, s.deliver_at) <= t.ends
                and not coalesce(s.control, false)
        ), stopped as (
            select m.* exclude (time, records, position), sum(m.records) as waiting, held < {UNACKNOWLEDGED} as idle
            from missing m anti join batches d on d.protocol = 'pulsar' and d.role = 'consume' and d."group" = m."group"
                and d.topic = m.topic and d.partition is not distinct from m.partition and d.position = m.position
                and d.time <= m.ends
            group by all having max(m.time) > last_got + to_microseconds({WITHOUT_NS // 1000})
        ), alone as (  -- subscriptions of which the capture shows all consumers, as they got what came before
            select t."group", t.topic, t.partition from (
                select "group", topic, partition, min(first_got) as since, max(last_got) as upto from stopped
                where idle group by all
            ) t join batches s on s.protocol = 'pulsar' and s.role = 'produce' and s.outcome = 'ok'
                and s.topic = t.topic and s.partition is not distinct from t.partition
                and greatest(s.time, s.deliver_at) between since and upto
            left join (select distinct "group", topic, partition, position from batches where role = 'consume') d
                on d."group" = t."group" and d.topic = t.topic and d.position = s.position
                and d.partition is not distinct from t.partition
            group by all having count(*) >= {MANY} and count(d.position) >= 0.95 * count(*)
        )
        select * from stopped where not idle or ("group", topic, coalesce(partition, -1)) in (
                select ("group", topic, coalesce(partition, -1)) from alone)
            and ("group", topic) not in (
                select ("group", topic) from events where kind = 'joined' and text = 'Key_Shared'
                    and "group" is not null and topic is not null)
            and topic not in (select topic from events where kind = 'transaction_joined' and topic is not null)"""
    capture.keep("v_standing", standing)
    return """
        select b.* replace (s.ends as until), s.held, s.waiting, s.last_got, s.ends, s.idle
        from v_standing s join v_batches b using (site, connection, incarnation, "group", topic)
        where b.partition is not distinct from s.partition and b.role = 'consume' and b.protocol = 'pulsar'
            and b.time = s.last_got"""


DELIVERY_STOPPED = Told(
    SomeRows("positions", "protocol = 'pulsar' and what = 'permits'"), "delivery_stopped",
    "{who} of subscription {group} {those:?gets/get} nothing more of topic {topic:topic} for {still_ns:ns}, until "
    "{till}: {holds}, {waiting:message/waits/wait}, and {those:?it has/they have} granted permits.",
    _standing,
    by=("protocol", '"group"', "topic", "idle"),
    more=f"""
        if(idle, 'what was delivered is acknowledged',
            format('{{}} {{:,}} messages that it has not acknowledged',
                if(number_of(client) > 1, 'each holds up to', 'it holds'), max(held)::bigint)) as holds,
        if(idle, '{_HELD_BACK}', null) as advice, if(idle, null, 'maxUnackedMessagesPerConsumer') as bound,
        coalesce(max(waiting), 0)::bigint as waiting,
        (epoch_us(max(ends)) - epoch_us(max(last_got))) * 1000 as still_ns,
        if(max(ends) = (select max(end_time) from connections), 'the end of the capture', 'it left') as till""",
    detail="A broker stops at {bound}, or per subscription, until some are acknowledged.",
)  # fmt: skip
