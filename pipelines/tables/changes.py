"""Who changed what: what was created, deleted or altered in a cluster, by whom, and how the broker answered.

Made of the record table `events`, which says what requests with their answers changed, and who logged in.

logins     who had logged in on a connection, and from when until when
uses       the first use of each subscription or schema, as the wire does not say whether that made it
happened   changes that a broker answered, one setting each, with the name that their connection had logged in with
settings   those among them that set something, numbered in order of time
known      what settings had which value, from when on: as changes made them, as DescribeConfigs, DescribeClientQuotas
           and Metadata said, as groups committed
before     the change's number, and what was known of its setting before it
unheard    requests for a change that got no answer
"""

from __future__ import annotations

from dissectors.session.protocols import protocols
from pipelines.sql.words import LOGGED_IN, SERVER, UNHEARD
from pipelines.tables.dialect import Dialect
from pipelines.tables.groups import group_names
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, equal

OK, NO_ANSWER = "ok", "no answer"
"""Values of `result`, beside the names of errors."""

_SETTING = "^([A-Za-z0-9_.-]*[A-Za-z0-9_.])([+-]?)="
"""What stands before the value of a setting: its name, and a sign where the value is added or taken away."""
_SETTINGS = """
    select *, row_number() over (
        order by time, file, packet, kind, thing, topic, partition, subject, text, number) as turn
    from happened where setting <> ''"""
_PLACE = "protocol, thing, name, owner, part, setting"
"""What tells settings apart."""
_FIRST_USE = "('subscribed', 'registered')"
_ORDER = "time, file, packet"
_SO_FAR = "rows between unbounded preceding and current row"
_UNCLEAR = ("OffsetCommit", "WriteTxnMarkers")  # only answered ones are known to be changes


def _named(d: Dialect) -> str:
    """The name, owner and part of what an event is about, as _PLACE has them."""
    group = d.quoted("group")
    return f"coalesce(subject, topic, '') as name, coalesce({group}, '') as owner, coalesce(partition, -1) as part"


def _logins(d: Dialect) -> str:
    conn = ", ".join(CONNECTION)
    return f"""
        select {conn}, subject as principal, time as since,
            lead(time) over (partition by {conn} order by {_ORDER}) as until
        from events where {LOGGED_IN}"""


def _uses(d: Dialect) -> str:
    """`life`: how often a subscription or schema was deleted before; `use` is 1 in all rows."""
    group = d.quoted("group")
    return f"""
        select * from (
            select *, row_number() over (
                partition by protocol, topic, {group}, life, kind, number, case when thing = 'schema' then text end
                order by {_ORDER}, partition) as use
            from (
                select *, sum(case when kind = 'deleted' then 1 else 0 end) over (
                    partition by protocol, topic, partition, {group}, thing order by {_ORDER} {_SO_FAR}) as life
                from events
                where kind in {_FIRST_USE} or kind = 'deleted' and number = 0 and thing in ('subscription', 'schema')
            )
        ) where use = 1 and kind in {_FIRST_USE}"""


def _happened(d: Dialect) -> str:
    group = d.quoted("group")
    fetching = """
        select distinct topic as fetched, client_ip as fetched_by, client_id as fetched_as from positions
        where what = 'fetch' and protocol = 'kafka' and replica is null and topic is not null"""
    members = f"select distinct {group} as joined from events where protocol = 'kafka' and kind = 'joined'"
    return f"""
        select e.*, l.principal, {_named(d)},
            case when kind = 'altered' then regexp_extract(coalesce(text, ''), '{_SETTING}', 1) else '' end as setting,
            case when regexp_extract(coalesce(text, ''), '{_SETTING}', 2) = ''
                then regexp_replace(text, '{_SETTING}', '') else '' end as value
        from (
            select *, 0 as life, 1 as use from events where kind in ('created', 'deleted', 'altered')
            union all
            select * from ({_uses(d)}) uses
        ) e
        left join ({_logins(d)}) l on {equal(CONNECTION, "e", "l")} and e.time >= since
            and (until is null or e.time < until)
        left join ({fetching}) f on api = 'OffsetCommit' and topic = fetched and client_ip = fetched_by
            and client_id is not distinct from fetched_as
        left join ({members}) m on api = 'OffsetCommit' and {group} = joined
        where thing is not null and not (api = 'OffsetCommit' and fetched is not null and joined is null)"""


def _known(d: Dialect) -> str:
    """What was said of settings: rows of _PLACE, time, file, packet and value ("": another one, which is not known)."""
    group = d.quoted("group")
    listed = f"""
        select protocol, thing, {_named(d)}, {_ORDER}, {d.each("split(text, ', ')")} as item
        from events where text is not null and (kind = 'described' or kind = 'created' and number = 0)
            and (thing, coalesce(subject, topic, '')) in (select thing, name from settings)"""
    return f"""
        select {_PLACE}, {_ORDER}, value from settings where number = 0
        union all
        select protocol, thing, name, owner, part, regexp_extract(item, '{_SETTING}', 1) as setting, {_ORDER},
            regexp_replace(item, '{_SETTING}', '') as value
        from ({listed}) items where item is not null
        union all
        select protocol, 'topic' as thing, topic as name, '' as owner, -1 as part, 'partitions' as setting,
            min(time) as time, min(file) as file, min(packet) as packet, cast(max(partition) + 1 as string) as value
        from positions
        where what = 'leader' and protocol = 'kafka' and partition is not null
            and topic in (select topic from settings where setting = 'partitions')
        group by protocol, topic, site, exchange_id
        union all
        select protocol, 'offsets' as thing, topic as name, {group} as owner, partition as part, 'offset' as setting,
            {_ORDER}, cast(value as string) as value
        from positions
        where what = 'committed' and protocol = 'kafka' and topic is not null and partition is not null
            and {group} in (select {group} from settings where setting = 'offset')
            and (site, exchange_id) not in (
                select site, exchange_id from settings where setting = 'offset' and exchange_id is not null)"""


def _unheard(d: Dialect) -> str:
    """Requests for a change that were not answered; where no answer on their connection was captured, nobody knows."""
    apis = [
        (protocol.name, api, *what)
        for protocol in protocols()
        for api, what in protocol.changing().items()
        if api not in _UNCLEAR
    ]
    action, thing = (
        " ".join(
            ("case", *(f"when x.protocol = '{one[0]}' and api = '{one[1]}' then '{one[at]}'" for one in apis), "end")
        )
        for at in (2, 3)
    )
    group, topic = d.quoted("group"), d.first_of_list("topics")
    return f"""
        select x.*, {action} as action, {thing} as thing, {topic} as topic, coalesce({group}, {topic}) as subject,
            case when u.site is null then '{NO_ANSWER}' end as result
        from exchanges x left join ({UNHEARD}) u on {equal(CONNECTION, "x", "u")}
        where x.kind = 'unanswered' and api in {tuple(sorted({one[1] for one in apis}))}"""


def _changes(d: Dialect, ask: Ask) -> str:
    group = d.quoted("group")
    latest = d.latest("value", f"partition by {_PLACE} order by time, turn, file, packet, value")
    errors = """
        select site, exchange_id, code, min(name) as name from errors
        where exchange_id is not null group by site, exchange_id, code"""
    who = "protocol, client_ip, client_id, server_ip, server_port"
    return f"""
        with {d.once("happened", _happened(d))}, {d.once("settings", _SETTINGS)}, before as (
            select change, nullif(before, '') as before from (
                select *, {latest} as before from (
                    select {_PLACE}, {_ORDER}, value, {_LAST} as turn, {_NO_CHANGE} as change from ({_known(d)}) known
                    union all
                    select {_PLACE}, {_ORDER}, cast(null as string) as value, 0 as turn, turn as change from settings
                )
            ) where change <> {_NO_CHANGE}
        ), answered as (
            select *, cast(null as bigint) as turn, cast(null as string) as before from happened where setting = ''
            union all
            select s.*, before from settings s left join before b on s.turn = b.change
        ), told as (
            select h.*,
                case when kind = 'subscribed' and life > 0 then 'created' else kind end as action,
                case when number = 0 then '{OK}' when number is not null
                    then coalesce(e.name, concat('error ', cast(number as string))) end as result
            from answered h left join ({errors}) e
                on h.site = e.site and h.exchange_id = e.exchange_id and h.number = e.code
        ), every as (
            select time, {who}, principal, action, thing, topic, partition, {group},
                case when thing in ('offsets', 'group', 'subscription') then coalesce({group}, subject)
                    else coalesce(subject, topic, {group}) end as subject,
                text as detail, before, result, api, exchange_id, file, packet
            from told
            union all
            select time, {who}, cast(null as string) as principal, action, thing, topic, cast(null as int) as partition,
                {group}, subject, cast(null as string) as detail, cast(null as string) as before, result, api,
                exchange_id, request_file as file, request_packet as packet
            from ({_unheard(d)}) unheard
        )
        select time, protocol, client_ip, client_id, principal, {SERVER} as server, action, thing,
            coalesce(case when {group} = subject then n.name end, subject) as subject, every.topic, partition,
            coalesce(n.name, {group}) as {group}, detail, before, result, api, exchange_id, file, packet
        from every left join ({group_names(d)}) n on protocol = 'iggy' and n.topic is not distinct from every.topic
            and n.id = {group}
    """


_LAST = 1  # behind a change at the same time: what the change itself makes known
_NO_CHANGE = 0

CHANGES = Table(
    "changes",
    "Who created, deleted or altered what: topics, configurations, rights, users, quotas, offsets, groups, "
    "subscriptions and the like, in order of time, with what brokers answered. A setting that was altered is a row. "
    "Secrets are cut.",
    (
        TableColumn("time", "when the broker answered, else when it was asked", "time"),
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("client_ip", "address of who asked for it"),
        TableColumn("client_id", "what it calls itself"),
        TableColumn("principal", "the name that its connection logged in with, or the subject of its TLS certificate"),
        TableColumn("server", "broker that was asked"),
        TableColumn(
            "action",
            "created, deleted or altered; subscribed and registered: a subscription or schema is used, and was made if "
            "it was not there",
        ),
        TableColumn(
            "thing",
            "what it was done to: topic, partition, replica, records, broker, quota, acl, user, offsets, group, "
            "transaction, subscription, schema, stream, delegation token …",
        ),
        TableColumn("subject", "its name: of a topic, group, user …; of an acl, who gets the right"),
        TableColumn("topic", "topic that it concerns"),
        TableColumn("partition", "partition that it concerns", "code"),
        TableColumn("group", "group or subscription that it concerns"),
        TableColumn(
            "detail",
            "setting=value, as asked for (<default>: back to its default; +=, -=: added, taken away), or words",
        ),
        TableColumn("before", "value of the setting before, where the capture shows it"),
        TableColumn(
            "result",
            f"{OK}, the error that refused it, or {NO_ANSWER}; null where no answer of the broker was captured",
        ),
        TableColumn("api", "API of the request"),
        TableColumn("exchange_id", "of the exchange, as records have it"),
        TableColumn("file", "where it is"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
    ),
    _changes,
    headline=(
        "time", "protocol", "client_ip", "client_id", "principal", "action", "thing", "subject", "topic", "partition",
        "detail", "before", "result", "file", "packet",
    ),
    order=("time", "file", "packet", "thing", "subject", "topic", "partition", "detail"),
)  # fmt: skip
