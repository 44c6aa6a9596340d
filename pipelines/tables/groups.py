"""Consumer groups and subscriptions: who is in them, and what happened to each along time.

A group of Kafka has a name of its own in the cluster. A subscription belongs to a topic, whose partitions share it; a
group of Iggy to a topic of a stream: of one name there may be many. Iggy's groups have a number as well, by which
clients ask for them; where the capture says which name it is, the name stands for both.

members   Kafka: member ids; Pulsar: consumers by their host and name, one for all partitions; Iggy: connections
joined    a member that was not in; who joins again after a rebalance is in already
left      a member that said so, that its broker closed, or whose connection ended (Pulsar, Iggy). A member of Kafka
          may die without a word, and its group hears of it: at once are in whom a rebalance brought together
"""

from __future__ import annotations

from pipelines.sql.words import CLIENT
from pipelines.tables.dialect import Dialect
from pipelines.tables.lag import LAG
from pipelines.tables.rebalances import REBALANCES
from pipelines.tables.table import Ask, Table, TableColumn, count_if

_HEARTBEATS = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
_ASKS_IN = ("JoinGroup", "SUBSCRIBE", "JOIN_CONSUMER_GROUP", *_HEARTBEATS)
_OF_PROTOCOL = "when protocol = 'pulsar' then 'subscription' when protocol = 'iggy' then 'consumer group'"
_KIND = f"""case {_OF_PROTOCOL}
    when api in ('ShareGroupHeartbeat', 'ShareFetch', 'ShareAcknowledge') then 'share'
    when api = 'StreamsGroupHeartbeat' then 'streams' when api = 'ConsumerGroupHeartbeat' then 'consumer'
    else 'classic' end"""
_KINDS = ("streams", "share", "consumer", "subscription", "consumer group")  # more than `classic` says of a group
_OF_MEMBER = """case protocol
    when 'kafka' then subject
    when 'pulsar' then concat_ws(' ', client_ip, coalesce(subject, client_id))
    else concat_ws(':', client_ip, cast(client_port as string)) end"""


def group_names(d: Dialect) -> str:
    """A SELECT of Iggy's groups: topic, id (the number by which clients may ask for one, as text), name."""
    return f"""
        select topic, cast(number as string) as id, max({d.quoted("group")}) as name from events
        where protocol = 'iggy' and kind = 'named' group by topic, number"""


def _named(d: Dialect, rows: str, columns: str) -> str:
    """Rows with `name`, the group, and `owner`, the topic that it belongs to, "" of Kafka.

    rows: a relation or a SELECT with protocol, group and topic; columns: what else of it, qualified by `r`.
    """
    group = d.quoted("group")
    return f"""
        select r.protocol, coalesce(n.name, r.{group}) as name,
            case when r.protocol = 'kafka' then '' else coalesce(r.topic, '') end as owner, {columns}
        from {rows} r left join ({group_names(d)}) n
            on r.protocol = 'iggy' and n.topic is not distinct from r.topic and n.id = r.{group}
        where r.{group} is not null"""


def _group_events(d: Dialect, ask: Ask) -> str:
    group = d.quoted("group")
    where = "r.time, r.file, r.packet"
    gone = "kind = 'closed_by_broker' or kind = 'deleted' and api = 'UNSUBSCRIBE' and number = 0"
    on = "concat_ws(' ', site, connection, cast(incarnation as string))"
    members = f"""
        select protocol, {group}, topic, time, case when kind = 'joined' then kind else 'left' end as what,
            {_OF_MEMBER} as member, {CLIENT} as client, file, packet, {on} as own, 0 as ended,
            case when kind = 'closed_by_broker' then 'closed by the broker'
                when kind = 'deleted' then 'deleted the subscription'
                when text is not null then text
                when protocol = 'kafka' and kind = 'joined' and client_id is not null then concat('as ', client_id)
                end as text
        from events where kind in ('joined', 'left') or ({gone}) and {group} is not null
        union all
        select protocol, {group}, topic, end_time as time, 'left' as what, member, client, file, packet, e.own,
            1 as ended,
            case closed when 'fin' then 'its connection was closed' else 'its connection was reset' end as text
        from (
            select distinct protocol, {group}, topic, {_OF_MEMBER} as member, {CLIENT} as client, {on} as own
            from events where kind = 'joined' and protocol <> 'kafka'
        ) e join (
            select {on} as own, end_time, closed, file, packet from connections where closed in ('fin', 'reset')
        ) c on e.own = c.own"""
    said = f"""
        select protocol, {group}, topic, time, case kind when 'altered' then 'seeked' else kind end as what,
            {_OF_MEMBER} as member, {CLIENT} as client, file, packet, text
        from events
        where kind in ('active', 'standby') or kind = 'altered' and text like 'seek%' and number = 0"""
    refused = f"""
        select protocol, {group}, {d.first_of_list("topics")} as topic, time,
            case when api = 'REACHED_END_OF_TOPIC' then 'ended' else 'refused' end as what,
            concat_ws(':', client_ip, cast(client_port as string)) as member, {CLIENT} as client,
            coalesce(request_file, response_file) as file, coalesce(request_packet, response_packet) as packet,
            error_name as text
        from exchanges
        where {group} is not null and (api = 'REACHED_END_OF_TOPIC' or status = 'error' and api in {_ASKS_IN}
            and coalesce(error_name, '') <> 'MEMBER_ID_REQUIRED')"""
    columns = f"{where}, r.what, r.member, r.client, r.text"
    of_member = "partition by protocol, name, owner, member order by time, ended, file, packet"
    shown = f"time, protocol, name as {group}, nullif(owner, '') as topic, what, member, client, text"
    place = "cast(null as bigint) as took_ns, file, packet"
    return f"""
        with members as (
            select *, {d.latest("case when what = 'joined' then own end", of_member)} as joined_on
            from ({_named(d, f"({members})", f"{columns}, r.own, r.ended")})
        )
        select {shown}, {place}
        from (
            select *, lag(what) over ({of_member}) as before from members where ended = 0 or own = joined_on
        ) where what is distinct from before
        union all
        select {shown}, {place}
        from ({_named(d, f"({said} union all {refused})", columns)})
        union all
        select time, protocol, {group}, cast(null as string) as topic, 'rebalanced' as what,
            cast(null as string) as member, cast(null as string) as client,
            concat(cause, ', ', cast(members_after as string), ' members') as text, duration_ns as took_ns, file, packet
        from {REBALANCES.known}
    """


def _groups(d: Dialect, ask: Ask) -> str:
    group = d.quoted("group")
    place = "protocol, name, owner"
    in_order = (
        f"partition by {place} order by time, file, packet, member rows between unbounded preceding and current row"
    )
    met = f"""
        select protocol, {group}, {d.first_of_list("topics")} as topic, {_KIND} as kind from exchanges
        where {group} is not null
        union all
        select protocol, {group}, topic, case {_OF_PROTOCOL} else 'classic' end as kind from positions
        where {group} is not null and what in ('committed', 'pending')"""
    ranks = " ".join(f"when '{kind}' then {rank}" for rank, kind in enumerate(_KINDS, 1))
    names = " ".join(f"when {rank} then '{kind}'" for rank, kind in enumerate(_KINDS, 1))
    return f"""
        with happened as (
            select *, {group} as name, coalesce(topic, '') as owner from {GROUP_EVENTS.known}
        ), known as (
            select {place}, max(case kind {ranks} else 0 end) as kind
            from ({_named(d, f"({met})", "r.kind")}) group by {place}
        ), sizes as (
            select {place}, max(size) as members from (
                select {place}, sum(case what when 'joined' then 1 when 'left' then -1 else 0 end) over ({in_order})
                    as size
                from happened
            ) sized group by {place}
        ), counted as (
            select {place}, {count_if("what = 'joined'")} as joined, {count_if("what = 'left'")} as gone
            from happened group by {place}
        ), together as (
            select protocol, {group} as name, max(members_after) as members, count(*) as rebalances,
                max(duration_ns) as longest_ns
            from {REBALANCES.known} group by protocol, {group}
        ), newest as (
            select protocol, {group} as name, max(number) as generation from events
            where protocol = 'kafka' and kind in ('joined', 'epoch') and {group} is not null group by protocol, {group}
        ), late as (
            select {place}, sum(messages) as lag from ({
        _named(
            d,
            f'''(
                select protocol, {group}, topic, messages, row_number() over (
                    partition by protocol, {group}, topic, partition order by bucket desc) as nth
                from {LAG.known}
            )''',
            "r.messages, r.nth",
        )
    }) lags where nth = 1 group by {place}
        )
        select k.protocol, k.name as {group}, nullif(k.owner, '') as topic,
            case k.kind {names} else 'classic' end as kind,
            case when coalesce(t.members, s.members) > 0 then cast(coalesce(t.members, s.members) as bigint) end
                as members,
            coalesce(joined, 0) as joined, coalesce(gone, 0) as {d.quoted("left")},
            coalesce(rebalances, 0) as rebalances, longest_ns, generation, cast(lag as bigint) as lag
        from known k left join sizes s on k.protocol = s.protocol and k.name = s.name and k.owner = s.owner
            left join counted c on k.protocol = c.protocol and k.name = c.name and k.owner = c.owner
            left join together t on k.protocol = t.protocol and k.name = t.name
            left join newest g on k.protocol = g.protocol and k.name = g.name
            left join late l on k.protocol = l.protocol and k.name = l.name and k.owner = l.owner
    """


_TOPIC = TableColumn("topic", "topic that it belongs to; null for Kafka, whose groups are told apart by name alone")
GROUPS = Table(
    "groups",
    "Consumer groups, share groups and subscriptions, one row each. `lag` is as the table `lag` has it at the end.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("group", "consumer group, share group or subscription"),
        _TOPIC,
        TableColumn("kind", "classic, consumer, share, streams (kafka), subscription (pulsar), consumer group (iggy)"),
        TableColumn("members", "most members at once; null where none was seen to join", "count"),
        TableColumn("joined", "how often a member joined that was not in", "count"),
        TableColumn("left", "how often one left, was closed by its broker, or lost its connection", "count"),
        TableColumn("rebalances", "rebalances, as the table `rebalances` has them", "count"),
        TableColumn("longest_ns", "the longest of them", "ns"),
        TableColumn("generation", "newest generation or epoch that a member heard (kafka)", "code"),
        TableColumn("lag", "messages that it has yet to read at the end, in all partitions; null if unknown", "count"),
    ),
    _groups,
    headline=("protocol", "group", "topic", "kind", "members", "joined", "left", "rebalances", "longest_ns", "lag"),
    order=("rebalances desc", "protocol", '"group"', "topic"),
)
GROUP_EVENTS = Table(
    "group_events",
    "What happened to consumer groups and subscriptions, in order of time.",
    (
        TableColumn("time", "when", "time"),
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("group", "consumer group, share group or subscription"),
        _TOPIC,
        TableColumn("what", "joined, left, rebalanced, refused, seeked, active, standby or ended (its topic)"),
        TableColumn("member", "member id; else host and name of the consumer, or its address and port"),
        TableColumn("client", "address of the client and the name it gives itself"),
        TableColumn("text", "why it left, with which error it was refused, where it seeked to …"),
        TableColumn("took_ns", "how long a rebalance took", "ns"),
        TableColumn("file", "where it is; of a connection that ended, where that began"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
    ),
    _group_events,
    headline=("time", "protocol", "group", "topic", "what", "member", "text", "took_ns", "file", "packet"),
    order=("time", "protocol", '"group"', "what"),
)
