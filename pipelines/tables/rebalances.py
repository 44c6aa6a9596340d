"""Rebalances of Kafka's groups: of classic ones from JoinGroup, SyncGroup and LeaveGroup, of others from epochs.

joins    accepted JoinGroups
rounds   joins that were in flight when the first of them was answered: the broker answers all members at once, so
         these are one generation of the group
ordered  rounds but those of a static member that comes back: it joins in the generation that holds, and the others go
         on. Of those:
settled  rounds of which a SyncGroup was accepted; the members of another round join again, so it belongs to the
         rebalance that the next settled round ends
"""

from __future__ import annotations

from pipelines.sql.words import CLIENT
from pipelines.tables.dialect import LISTED, Dialect
from pipelines.tables.table import Ask, Table, TableColumn, count_if

_ACCEPTED = "kind = 'call' and status = 'ok' and total_ns is not null"


def _rebalances(d: Dialect, ask: Ask) -> str:
    return f"select * from ({_classic(d)}) union all select * from ({_by_epoch(d)})"


def _by_epoch(d: Dialect) -> str:
    group = d.quoted("group")
    place = ("heard_us", "file", "packet")
    return f"""
        with heard as (
            select {group} as name, subject as member, number as epoch,
                case when text = 'first' then 1 else 0 end as new, kind,
                sum(case when kind = 'left' then 1 else 0 end) over (partition by {group} order by time) as gone,
                {d.micros("time")} as heard_us, {CLIENT} as client, coalesce(file, '') as file,
                coalesce(packet, 0) as packet
            from events where kind in ('epoch', 'left') and protocol = 'kafka'
        ), epochs as (
            select name, epoch, min(heard_us) as begin_us, max(heard_us) as end_us, max(new) as joined,
                count(distinct member) as members_after, {d.listed("client")} as clients, min(gone) as gone,
                {d.first("file", *place)} as file, {d.first("packet", *place)} as packet
            from heard where kind = 'epoch' group by name, epoch
        )
        select 'kafka' as protocol, name as {group}, {d.timestamp("begin_us")} as time,
            (end_us - begin_us) * 1000 as duration_ns,
            case when members_before is null then 'first seen'
                when joined > 0 or members_after > members_before then 'joined'
                when members_after < members_before then case when gone > gone_before then 'left' else 'lost' end
                else 'rejoined' end as cause,
            members_before, members_after, cast(1 as bigint) as generations, clients,
            nullif(file, '') as file, nullif(packet, 0) as packet
        from (
            select *, lag(members_after) over (partition by name order by epoch) as members_before,
                lag(gone) over (partition by name order by epoch) as gone_before
            from epochs
        ) compared
    """


def _classic(d: Dialect) -> str:
    group = d.quoted("group")
    member = "concat_ws(' ', client_ip, cast(client_port as string), client_id)"
    begin = d.micros("time")
    first = "begin_us, file, packet"
    in_turn = "partition by r.name order by r.round"
    return f"""
        with steps as (
            select {group} as name, api, {CLIENT} as client, {member} as member, {begin} as begin_us,
                {begin} + cast(floor(total_ns / 1000) as bigint) as end_us,
                coalesce(request_file, '') as file, coalesce(request_packet, 0) as packet, site, exchange_id
            from exchanges
            where protocol = 'kafka' and {group} is not null and {_ACCEPTED}
                and api in ('JoinGroup', 'SyncGroup', 'LeaveGroup')
        ), joins as (
            select s.*, generation, id, case when begin_us > lag(end_us) over (
                partition by name order by end_us, {first}) then 1 else 0 end as opens
            from steps s left join (
                select site, exchange_id, max(number) as generation, max(subject) as id from events
                where protocol = 'kafka' and kind = 'joined' group by site, exchange_id
            ) e on s.site = e.site and s.exchange_id = e.exchange_id
            where api = 'JoinGroup'
        ), numbered as (
            select *, sum(opens) over (
                partition by name order by end_us, {first} rows between unbounded preceding and current row) as round
            from joins
        ), rounds as (
            select *, lead(open_us) over (partition by name order by round) as next_us,
                case when generation is null then own else max(own) over (partition by name, generation) end as members
            from (
                select name, round, min(begin_us) as begin_us, min(end_us) as open_us, max(end_us) as joined_us,
                    max(generation) as generation, count(distinct member) as own
                from numbered group by name, round
            )
        ), followed as (
            select r.name, r.round, max(case when s.api = 'SyncGroup' then s.end_us end) as settled_us,
                {count_if("s.api = 'LeaveGroup'")} as gone
            from rounds r join steps s
                on s.api <> 'JoinGroup' and r.name = s.name and s.begin_us >= r.open_us
                    and (r.next_us is null or s.begin_us < r.next_us)
            group by r.name, r.round
        ), ordered as (
            select *, coalesce(sum(case when settled_us is not null then 1 else 0 end) over (
                partition by name order by round rows between unbounded preceding and 1 preceding), 0) as number
            from (
                select r.*, settled_us, case when generation = lag(generation) over ({in_turn})
                    and lag(settled_us) over ({in_turn}) is not null and lag(gone) over ({in_turn}) = 0
                    then 1 else 0 end as again
                from rounds r left join followed f on r.name = f.name and r.round = f.round
            ) where again = 0
        ), fresh as (
            select n.* from numbered n join ordered o on n.name = o.name and n.round = o.round
        ), ended as (
            select name, number, min(begin_us) as begin_us, max(round) as last_round, count(*) as generations,
                max(coalesce(settled_us, joined_us)) as end_us, {d.first("members", "-round")} as members_after,
                max(generation) as generation
            from ordered group by name, number
        ), compared as (
            select *, lag(members_after) over (partition by name order by number) as members_before,
                lag(last_round) over (partition by name order by number) as round_before,
                lag(generation) over (partition by name order by number) as generation_before,
                coalesce(lag(end_us) over (partition by name order by number), 0) as before_us
            from ended
        ), seen as (
            select c.name, c.number, {d.listed("n.client")} as clients,
                {d.first("n.file", "n.begin_us", "n.file", "n.packet")} as file,
                {d.first("n.packet", "n.begin_us", "n.file", "n.packet")} as packet
            from compared c join fresh n on c.name = n.name and n.round <= c.last_round
                and n.round > coalesce(c.round_before, -1)
            group by c.name, c.number
        ), came as (
            select c.name, c.number, {count_if("b.member is null")} as joined
            from compared c join fresh n on c.name = n.name and c.last_round = n.round
                left join fresh b on c.name = b.name and c.round_before = b.round and n.member = b.member
            group by c.name, c.number
        ), ids as (
            select name, generation, client, id,
                row_number() over (partition by name, generation, client order by {first} desc) as nth
            from numbered where id is not null
        ), missing as (
            select c.name, c.number, {count_if("n.id is null")} as lost
            from compared c join ids b on b.name = c.name and b.generation = c.generation_before and b.nth = 1
                left join ids n on n.name = c.name and n.generation = c.generation and n.id = b.id
            group by c.name, c.number
        ), went as (
            select c.name, c.number, count(*) as gone
            from compared c join steps s on s.api = 'LeaveGroup' and c.name = s.name
                and s.begin_us >= c.before_us and s.begin_us <= c.end_us
            group by c.name, c.number
        )
        select 'kafka' as protocol, c.name as {group}, {d.timestamp("begin_us")} as time,
            (end_us - begin_us) * 1000 as duration_ns,
            case when members_before is null then 'first seen'
                when gone > 0 and joined > 0 then 'joined and left'
                when gone > 0 then 'left'
                when members_after < members_before or lost > 0 then 'lost'
                when joined > 0 then 'joined'
                else 'rejoined' end as cause,
            members_before, members_after, generations, clients,
            nullif(file, '') as file, nullif(packet, 0) as packet
        from compared c join seen s on c.name = s.name and c.number = s.number
            join came j on c.name = j.name and c.number = j.number
            left join missing m on c.name = m.name and c.number = m.number
            left join went w on c.name = w.name and c.number = w.number
    """


REBALANCES = Table(
    "rebalances",
    "Rebalances of Kafka's groups, one row each. Of a classic consumer group it runs from the first JoinGroup that is "
    "accepted to the last answer to a SyncGroup; members do not consume meanwhile, and a join that the broker refuses, "
    "as MEMBER_ID_REQUIRED, is not part of it. Of a consumer, share or streams group it runs from the first member "
    f"that receives a new epoch to the last. Lists hold at most {LISTED} names.",
    (
        TableColumn("protocol", "kafka"),
        TableColumn("group", "consumer group"),
        TableColumn("time", "when it began", "time"),
        TableColumn("duration_ns", "until the last member had its answer", "ns"),
        TableColumn(
            "cause",
            "first seen (no rebalance of the group came before it in the capture); joined, left, joined and left: what "
            "members did; lost: one is gone, though none said that it leaves; rejoined: the same members",
        ),
        TableColumn("members_before", "members of the rebalance before; null where it is the first seen", "count"),
        TableColumn("members_after", "members that joined", "count"),
        TableColumn("generations", "how often the members had to join until one held", "count"),
        TableColumn("clients", "who joined", "list"),
        TableColumn("file", "where it began"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
    ),
    _rebalances,
    headline=(
        "protocol", "group", "time", "duration_ns", "cause", "members_before", "members_after", "clients", "file",
        "packet",
    ),
    order=("time", "protocol", '"group"'),
)  # fmt: skip
